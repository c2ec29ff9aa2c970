//! What can be said on the command line about events: the chains that they pass.
use super::ServerArgs;
use crate::words;
use clap::{Args as ClapArgs, Subcommand};
use peal_model::{Info, Proc, Range, Status};

/// What can be done with the hosted chains.
#[derive(Subcommand)]
pub enum ChainCommand {
    /// Show which handlers run, in which order, and why each stands where it does
    ///
    /// Without a code all handlers are shown, chain by chain: the site's first, then those of users, then those of jobs. With
    /// a code it is shown which of them would see such an event, and why others would not.
    #[command(after_help = CHAIN_EXAMPLES)]
    Show(ChainShow),
}

const CHAIN_EXAMPLES: &str = "\
Inside a chain the handler that asked to be FIRST runs first, then those for a single code, for
several codes and for all codes, then the one that asked to be LAST; among those for as many codes
FIRST_IN_CATEGORY, the list, LAST_IN_CATEGORY.

Examples:
  peal chain show
  peal chain show PMIX_ERR_PROC_ABORTED --source solver:0 --range namespace
  peal chain show -3001 --info PMIX_EVENT_NON_DEFAULT=true --json";

/// `peal chain show`.
#[derive(ClapArgs)]
pub struct ChainShow {
    /// Which server is meant.
    #[command(flatten)]
    pub at: ServerArgs,
    /// The code of an event, by name or number
    #[arg(value_name = "CODE", value_parser = words::status, allow_negative_numbers = true)]
    pub code: Option<Status>,
    /// The range of the event: rm, local, namespace, session, global, custom or proc-local
    #[arg(long, value_name = "RANGE", value_parser = words::range, default_value = "session", requires = "code")]
    pub range: Range,
    /// The proc that raises it; without one it comes from the resource manager
    #[arg(long, value_name = "NSPACE:RANK", value_parser = words::proc, requires = "code")]
    pub source: Option<Proc>,
    /// What it carries; give it again for more
    #[arg(long = "info", value_name = "KEY=VALUE", value_parser = words::info, requires = "code")]
    pub infos: Vec<Info>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

//! What can be said on the command line about looking at procs, nodes and files.
use super::{ToolArgs, control::time, number::whole};
use clap::{Args as ClapArgs, Subcommand};
use peal_config::words::{self, TargetKeywords};
use peal_model::Nspace;
use std::{path::PathBuf, time::Duration};

pub(super) const PS_EXAMPLES: &str = "\
Jobs of your own are shown, those of everybody to root. Where the server does not know something,
there is a dash. CPU is in percent of one core. Where several servers run here and none is named by
--pid, --nspace or --uri, the jobs of all are shown.

Examples:
  peal ps
  peal ps solver --watch
  peal ps --json | jq '.[].procs[].pid'";

/// `peal ps`.
#[derive(ClapArgs)]
pub struct Ps {
    /// Which server is meant. What goes by its name elsewhere is a job here.
    #[command(flatten)]
    pub server: ToolArgs,
    /// Which jobs; all if none is given
    #[arg(value_name = "NSPACE", value_parser = words::nspace)]
    pub jobs: Vec<Nspace>,
    /// Show it again and again: on a terminal in place, elsewhere one below the other
    #[arg(long)]
    pub watch: bool,
    /// How often, with --watch
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "2s", requires = "watch")]
    pub every: Duration,
    /// End after so many times, with --watch
    #[arg(long, value_name = "N", value_parser = whole(1..=u64::MAX), requires = "watch")]
    pub count: Option<u64>,
    /// Print JSON, with --watch a line for each time
    #[arg(long)]
    pub json: bool,
}

/// What can be watched.
#[derive(Subcommand)]
pub enum MonitorCommand {
    /// Show what procs or the node use of resources
    ///
    /// Once, or again and again with --rate until interrupted. Without targets, what the server's node uses.
    #[command(after_help = USAGE_EXAMPLES)]
    Usage(MonitorUsage),
    /// Have the server watch whether a file shows life, and wait for the alert
    ///
    /// The server looks at the file as you, every so often, and raises PMIX_MONITOR_FILE_ALERT when it has not grown (or was not read, or not
    /// changed) more often than may be. What may not be seen by you is refused.
    #[command(after_help = FILE_EXAMPLES)]
    File(MonitorFile),
}

const USAGE_EXAMPLES: &str = "\
Exit status: 0 if all went well; 1 if the server refuses; 125 if no server could be asked.

Examples:
  peal monitor usage
  peal monitor usage solver:0-3 --rate 5s
  peal monitor usage --disks --networks --json";

const FILE_EXAMPLES: &str = "\
Exit status: 0 if an alert came; 1 if the server refuses; 125 if no server could be asked, or it went away.

Examples:
  peal monitor file /scratch/solver.log --time 60 --drops 2 && mail -s 'solver stalls' ops < /dev/null
  peal monitor file checkpoint.dat --time 1h --modify";

/// `peal monitor usage`.
#[derive(ClapArgs)]
pub struct MonitorUsage {
    /// Which server is meant.
    #[command(flatten)]
    pub server: ToolArgs,
    /// Of which procs, as for peal ctl: solver, solver:0 or solver:0-3,7
    #[arg(value_name = "TARGET", value_parser = words::targets)]
    pub targets: Vec<TargetKeywords>,
    /// Of the node
    #[arg(long)]
    pub node: bool,
    /// Of the node's disks
    #[arg(long)]
    pub disks: bool,
    /// Of the node's network interfaces
    #[arg(long)]
    pub networks: bool,
    /// Show it again and again, so often, in whole seconds
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub rate: Option<Duration>,
    /// End after so many updates, with --rate
    #[arg(long, value_name = "N", value_parser = whole(1..=u64::MAX), requires = "rate")]
    pub count: Option<u64>,
    /// Print JSON, with --rate a line for each update
    #[arg(long)]
    pub json: bool,
}

/// `peal monitor file`.
#[derive(ClapArgs)]
pub struct MonitorFile {
    /// Which server is meant.
    #[command(flatten)]
    pub server: ToolArgs,
    /// The file, on the server's node
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    pub path: PathBuf,
    /// How often it is looked at, in whole seconds
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub time: Duration,
    /// How often in a row it may show no life
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole(0..=u32::MAX))]
    pub drops: u32,
    /// It lives if it grows; so it is unless --access or --modify is given
    #[arg(long, conflicts_with_all = ["access", "modify"])]
    pub size: bool,
    /// It lives if it is read
    #[arg(long, conflicts_with = "modify")]
    pub access: bool,
    /// It lives if it is changed
    #[arg(long)]
    pub modify: bool,
    /// Wait for so many alerts; after each it must have shown life again
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole(1..=u64::MAX))]
    pub count: u64,
    /// Print alerts as lines of JSON
    #[arg(long)]
    pub json: bool,
}

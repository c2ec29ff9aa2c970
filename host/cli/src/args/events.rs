//! What can be said on the command line about events: raising and watching them, and the chains that they pass.
use super::{
    ConfigArgs, ServerArgs,
    number::{MAX_PID, whole},
};
use clap::{Args as ClapArgs, Subcommand};
use peal_config::words;
use peal_model::{Info, Nspace, Proc, Range, Status};
use peal_wire::ServerUri;
use std::path::PathBuf;

/// What can be done with the hosted chains.
#[derive(Subcommand)]
pub enum ChainCommand {
    /// Show which handlers run, in which order, and why each stands where it does
    ///
    /// Without a code all handlers are shown, chain by chain: the site's first, then those of users, then those of jobs. With
    /// a code it is shown which of them would see such an event, and why others would not. Handlers of events about jobs see one
    /// that names procs (--info PMIX_EVENT_AFFECTED_PROC=solver:0) or has range namespace; without --info that is left open.
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

/// What can be done with events.
#[derive(Subcommand)]
pub enum EventCommand {
    /// Raise an event at a running server, as a tool
    ///
    /// Attaches to the server as a tool of yours and says PMIx_Notify_event. Whom the event reaches is decided by its range, and
    /// by the server's policies: unless one grants more, it reaches procs of your own, the site's handlers and the resource manager.
    #[command(after_help = NOTIFY_EXAMPLES)]
    Notify(EventNotify),
    /// Show events as they happen, until interrupted
    ///
    /// Where the admin socket of the server may be used, every event that passes the server is shown, with what each handler
    /// answered. Elsewhere (at `peal run`, or for those who may not administer) it watches as a tool, which hears the events that
    /// are for procs of its user, without the answers of handlers: these never leave the server.
    #[command(after_help = WATCH_EXAMPLES)]
    Watch(EventWatch),
}

const NOTIFY_EXAMPLES: &str = "\
A value has the type that the Standard has for its key; for keys of your own true and 5 are a boolean and
a number, and KEY:TYPE=VALUE says otherwise.

Examples:
  peal event notify -3001
  peal event notify PMIX_ERR_PROC_ABORTED --range local --info PMIX_EVENT_AFFECTED_PROC=solver:3
  peal event notify -3001 --target solver:0 --target viewer:'*' --info site.load=5
  peal event notify -3001 --info site.count:uint64=5 --info site.text:string=5 --pid 4711";

const WATCH_EXAMPLES: &str = "\
A line is: code, source, range, what the event carries, and behind -> the owner, name and answer of each handler.

Examples:
  peal event watch
  peal event watch PMIX_ERR_PROC_ABORTED -3001 --count 1
  peal event watch --json | jq .code.name
  peal event watch --tool --pid 4711";

/// Which server a tool attaches to.
#[derive(ClapArgs)]
#[group(multiple = false)]
pub struct ToolArgs {
    /// The server that has this process id; without --pid, --nspace and --uri the one that started this process, else the only one here
    #[arg(long, value_name = "PID", value_parser = whole(1..=MAX_PID))]
    pub pid: Option<u32>,
    /// The server of this name
    #[arg(long, value_name = "NSPACE", value_parser = words::nspace)]
    pub nspace: Option<Nspace>,
    /// The server at this address, as in 'peal-1.0;tcp4://127.0.0.1:4711'
    #[arg(long, value_name = "URI")]
    pub uri: Option<ServerUri>,
}

/// `peal event notify`.
#[derive(ClapArgs)]
pub struct EventNotify {
    /// Which server is meant.
    #[command(flatten)]
    pub server: ToolArgs,
    /// What happened, by name or number
    #[arg(value_name = "CODE", value_parser = words::status, allow_negative_numbers = true)]
    pub code: Status,
    /// Whom it is for: rm, local, namespace, session, global or custom; session unless there are targets
    #[arg(long, value_name = "RANGE", value_parser = words::range)]
    pub range: Option<Range>,
    /// What it carries; give it again for more
    #[arg(long = "info", value_name = "KEY=VALUE", value_parser = words::info)]
    pub infos: Vec<Info>,
    /// A proc that it is for, or all of a job, which makes its range custom; give it again for more
    #[arg(long = "target", value_name = "NSPACE:RANK", value_parser = words::proc)]
    pub targets: Vec<Proc>,
    /// Print the event as JSON
    #[arg(long)]
    pub json: bool,
}

/// `peal event watch`.
#[derive(ClapArgs)]
pub struct EventWatch {
    /// Which server is meant.
    #[command(flatten)]
    pub server: ToolArgs,
    /// The admin socket; without it that of the configuration (admin.socket), or the usual one
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::FilePath, conflicts_with_all = ["pid", "nspace", "uri"])]
    pub socket: Option<PathBuf>,
    /// Where the configuration comes from.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Which events, by name or number; all if none is given
    #[arg(value_name = "CODE", value_parser = words::status, allow_negative_numbers = true)]
    pub codes: Vec<Status>,
    /// End after so many events
    #[arg(long, value_name = "N", value_parser = whole(1..=u64::MAX))]
    pub count: Option<u64>,
    /// Watch as a tool, without what handlers answer, also where the admin socket may be used
    #[arg(long, conflicts_with = "socket")]
    pub tool: bool,
    /// Print each event as a line of JSON
    #[arg(long)]
    pub json: bool,
}

//! Command lines of `peal event` and `peal chain`.
use super::{
    ConfigArgs, DryRunArgs, FactFormats, ListFormats, OutputArgs, ServerArgs, StreamFormats,
    number::{MAX_PID, whole},
};
use crate::completion;
use clap::{Args as ClapArgs, Subcommand};
use clap_complete::ArgValueCandidates;
use peal_config::words;
use peal_model::{Info, Nspace, Proc, Range, Status};
use peal_wire::ServerUri;
use std::path::PathBuf;

/// `peal chain`.
#[derive(Subcommand)]
pub enum ChainCommand {
    /// Show the hosted handlers, their order and its reasons
    ///
    /// Without a code, shows all handlers by chain: the site's first, then those of users, then
    /// those of jobs. With a code, shows which handlers receive such an event and why others do
    /// not. Handlers of job-specific events receive events that name procs (--info
    /// PMIX_EVENT_AFFECTED_PROC=solver:0) or have range namespace; without --info this is left
    /// open.
    #[command(after_help = CHAIN_EXAMPLES)]
    Show(ChainShow),
}

const CHAIN_EXAMPLES: &str = "\
Order in a chain: the handler registered as FIRST; handlers for a single code, for several codes and
for all codes; the handler registered as LAST. Each category has the order FIRST_IN_CATEGORY, other
handlers, LAST_IN_CATEGORY.

Examples:
  peal chain show
  peal chain show PMIX_ERR_PROC_ABORTED --source solver:0 --range namespace
  peal chain show -3001 --info PMIX_EVENT_NON_DEFAULT=true -o json";

/// `peal chain show`.
#[derive(ClapArgs)]
pub struct ChainShow {
    /// Selection of the server.
    #[command(flatten)]
    pub at: ServerArgs,
    /// Code of an event, by name or number
    #[arg(value_name = "CODE", value_parser = words::status, allow_negative_numbers = true)]
    pub code: Option<Status>,
    /// Assume an event with RANGE: rm, local, namespace, session, global, custom or proc-local
    #[arg(long, value_name = "RANGE", value_parser = words::range, default_value = "session", requires = "code")]
    pub range: Range,
    /// Assume an event raised by the proc NSPACE:RANK; default: the resource manager
    #[arg(long, value_name = "NSPACE:RANK", value_parser = words::proc, requires = "code")]
    pub source: Option<Proc>,
    /// Assume an event with this info. Repeat for more infos
    #[arg(long = "info", value_name = "KEY=VALUE", value_parser = words::info, requires = "code")]
    pub infos: Vec<Info>,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<ListFormats>,
}

/// `peal event`.
#[derive(Subcommand)]
pub enum EventCommand {
    /// Raise an event at a running server
    ///
    /// Connects to the server as a tool and calls PMIx_Notify_event. The range and the server's
    /// policies select the recipients. Unless a policy grants more, these are your own procs, the
    /// site's handlers and the resource manager.
    #[command(after_help = NOTIFY_EXAMPLES)]
    Notify(EventNotify),
    /// Show events as they occur, until interrupted
    ///
    /// With permission to use the admin socket, shows all events of the server with the result of
    /// each handler. Without it, and at `peal run`, connects as a tool. A tool receives events for
    /// procs of its user, without the results of handlers.
    ///
    /// With --cluster, shows all events of all nodes, each once, after the name of the node at which it was
    /// raised. A node that does not answer is reported, and again when it answers.
    #[command(after_help = WATCH_EXAMPLES)]
    Watch(EventWatch),
}

const NOTIFY_EXAMPLES: &str = "\
A value has the type that the Standard defines for its key. For other keys, true is a boolean and 5 a
number; KEY:TYPE=VALUE sets another type.

Examples:
  peal event notify -3001
  peal event notify PMIX_ERR_PROC_ABORTED --range local --info PMIX_EVENT_AFFECTED_PROC=solver:3
  peal event notify -3001 --target solver:0 --target viewer:'*' --info site.load=5
  peal event notify -3001 --info site.count:uint64=5 --info site.text:string=5 --pid 4711";

const WATCH_EXAMPLES: &str = "\
Each line contains code, source, range and infos, and after -> the owner, name and result of each handler.

Examples:
  peal event watch
  peal event watch PMIX_ERR_PROC_ABORTED -3001 --count 1
  peal event watch -o json | jq .code.name
  peal event watch --cluster -o json | jq '[.node, .code.name]'
  peal event watch --as-tool --pid 4711";

/// Options that select the server of a tool.
#[derive(ClapArgs, Clone, Debug, Default)]
#[group(multiple = false)]
pub struct ToolArgs {
    /// Connect to the server with process id PID; default: the server that started this process,
    /// else the only one on this node
    #[arg(add = ArgValueCandidates::new(completion::server_pids), long, value_name = "PID", value_parser = whole(1..=MAX_PID))]
    pub pid: Option<u32>,
    /// Connect to the server named NSPACE
    #[arg(add = ArgValueCandidates::new(completion::servers), long, value_name = "NSPACE", value_parser = words::nspace)]
    pub nspace: Option<Nspace>,
    /// Connect to the server at URI, as in 'peal-1.0;tcp4://127.0.0.1:4711'
    #[arg(long, value_name = "URI")]
    pub uri: Option<ServerUri>,
}

/// `peal event notify`.
#[derive(ClapArgs)]
pub struct EventNotify {
    /// Selection of the server.
    #[command(flatten)]
    pub server: ToolArgs,
    /// Code of the event, by name or number
    #[arg(value_name = "CODE", value_parser = words::status, allow_negative_numbers = true)]
    pub code: Status,
    /// Raise the event with RANGE: rm, local, namespace, session, global or custom; default:
    /// session, with targets custom
    #[arg(long, value_name = "RANGE", value_parser = words::range)]
    pub range: Option<Range>,
    /// Add an info to the event. Repeat for more infos
    #[arg(long = "info", value_name = "KEY=VALUE", value_parser = words::info)]
    pub infos: Vec<Info>,
    /// Send the event to the proc NSPACE:RANK, or to all procs of a job, with range custom. Repeat
    /// for more targets
    #[arg(long = "target", value_name = "NSPACE:RANK", value_parser = words::proc)]
    pub targets: Vec<Proc>,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<FactFormats>,
    /// Dry run.
    #[command(flatten)]
    pub dry_run: DryRunArgs,
}

/// `peal event watch`.
#[derive(ClapArgs)]
pub struct EventWatch {
    /// Selection of the server.
    #[command(flatten)]
    pub server: ToolArgs,
    /// Use the admin socket PATH; default: admin.socket of the configuration
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::FilePath, conflicts_with_all = ["pid", "nspace", "uri", "cluster"])]
    pub socket: Option<PathBuf>,
    /// Source of the configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Codes of the events, by name or number; default: all
    #[arg(value_name = "CODE", value_parser = words::status, allow_negative_numbers = true)]
    pub codes: Vec<Status>,
    /// Exit after N events
    #[arg(long, value_name = "N", value_parser = whole(1..=u64::MAX))]
    pub count: Option<u64>,
    /// Connect as a tool even if the admin socket can be used
    #[arg(long, conflicts_with_all = ["socket", "cluster"])]
    pub as_tool: bool,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<StreamFormats>,
    /// Show the events of all nodes of the cluster, with the key of this node
    #[arg(long, conflicts_with_all = ["pid", "nspace", "uri"])]
    pub cluster: bool,
}

//! Command lines of `peal ps` and `peal monitor`.
use super::{
    ClusterArgs, ConfigArgs, OutputArgs, SortArgs, StateArgs, StreamFormats, TableFormats,
    ToolArgs, UserArgs, control::time, number::whole,
};
use crate::completion;
use crate::ps::ProcRow;
use clap::{Args as ClapArgs, Subcommand};
use clap_complete::ArgValueCandidates;
use peal_config::words::{self, TargetKeywords};
use peal_model::Nspace;
use std::{path::PathBuf, time::Duration};

pub(super) const PS_EXAMPLES: &str = "\
Your own jobs are shown; root sees the jobs of all users. A dash marks an unknown value. CPU is in
percent of one core. Without --pid, --nspace and --uri, the jobs of all servers on this node are shown,
with the name of the server. A server that does not answer is reported and left out.

--cluster reads [cluster] of the configuration and connects with the key of this node, as root or the user
of its server. It shows the jobs of all users on all nodes whose cluster.viewers names this node, and
names the nodes that did not answer.

Exit status: 0 on success; 1 if there is no such job; 3 with --cluster if a node did not answer.

Examples:
  peal ps
  peal ps solver --watch
  peal ps -o wide
  peal ps --user alice --state stopped --sort -memory
  peal ps -o json | jq '.[].procs[].pid'
  peal ps -o name | xargs -d '\\n' -n 1 peal ctl pause --
  peal ps --cluster
  peal ps --cluster -o json | jq -r '.[] | select(.failure).node'";

/// `peal ps`.
#[derive(ClapArgs)]
pub struct Ps {
    /// Selection of the server. A positional namespace selects a job.
    #[command(flatten)]
    pub server: ToolArgs,
    /// Names of the jobs; default: all
    #[arg(add = ArgValueCandidates::new(completion::jobs), value_name = "NSPACE", value_parser = words::nspace)]
    pub jobs: Vec<Nspace>,
    /// Update the output repeatedly: in place on a terminal, else appended
    #[arg(long, conflicts_with = "cluster")]
    pub watch: bool,
    /// Update every TIME (2s, 1m), with --watch
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "2s", requires = "watch")]
    pub every: Duration,
    /// Exit after N updates, with --watch
    #[arg(long, value_name = "N", value_parser = whole(1..=u64::MAX), requires = "watch")]
    pub count: Option<u64>,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<TableFormats>,
    /// Selection by user.
    #[command(flatten)]
    pub user: UserArgs,
    /// Selection by the states of procs.
    #[command(flatten)]
    pub state: StateArgs<ProcRow>,
    /// Order of the procs.
    #[command(flatten)]
    pub order: SortArgs<ProcRow>,
    /// Selection of the cluster.
    #[command(flatten)]
    pub nodes: ClusterArgs,
    /// Configuration with the cluster, for --cluster.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// `peal monitor`.
#[derive(Subcommand)]
pub enum MonitorCommand {
    /// Show the resource usage of procs or of the node
    ///
    /// Prints one report, or with --rate repeated reports until interrupted. Without targets, shows
    /// the usage of the server's node.
    #[command(after_help = USAGE_EXAMPLES)]
    Usage(MonitorUsage),
    /// Monitor the activity of a file and wait for an alert
    ///
    /// The server checks the file periodically with your permissions. It raises
    /// PMIX_MONITOR_FILE_ALERT if the file has not grown (or was not read or changed) for more
    /// checks than allowed. It refuses files that you cannot access.
    #[command(after_help = FILE_EXAMPLES)]
    File(MonitorFile),
}

const USAGE_EXAMPLES: &str = "\
Exit status: 0 on success; 1 if the server refuses; 125 if no server was reached.

Examples:
  peal monitor usage
  peal monitor usage solver:0-3 --rate 5s
  peal monitor usage --disks --networks -o json";

const FILE_EXAMPLES: &str = "\
Exit status: 0 after the alerts; 1 if the server refuses; 125 if no server was reached or the connection was lost.

Examples:
  peal monitor file solver.log --time 60 --drops 2 && mail -s stalled ops </dev/null
  peal monitor file checkpoint.dat --time 1h --modify";

/// `peal monitor usage`.
#[derive(ClapArgs)]
pub struct MonitorUsage {
    /// Selection of the server.
    #[command(flatten)]
    pub server: ToolArgs,
    /// Job or procs, as for peal ctl: solver, solver:0 or solver:0-3,7
    #[arg(add = ArgValueCandidates::new(completion::jobs), value_name = "TARGET", value_parser = words::targets)]
    pub targets: Vec<TargetKeywords>,
    /// Show the usage of the node
    #[arg(long)]
    pub node: bool,
    /// Show the usage of the node's disks
    #[arg(long)]
    pub disks: bool,
    /// Show the usage of the node's network interfaces
    #[arg(long)]
    pub networks: bool,
    /// Print an update every TIME, in whole seconds (5s, 1m)
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub rate: Option<Duration>,
    /// Exit after N updates, with --rate
    #[arg(long, value_name = "N", value_parser = whole(1..=u64::MAX), requires = "rate")]
    pub count: Option<u64>,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<StreamFormats>,
}

/// `peal monitor file`.
#[derive(ClapArgs)]
pub struct MonitorFile {
    /// Selection of the server.
    #[command(flatten)]
    pub server: ToolArgs,
    /// File on the server's node
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    pub path: PathBuf,
    /// Check the file every TIME, in whole seconds (60s, 1h)
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub time: Duration,
    /// Allow N consecutive checks without activity
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole(0..=u32::MAX))]
    pub drops: u32,
    /// Monitor the size of the file; the default
    #[arg(long, conflicts_with_all = ["access", "modify"])]
    pub size: bool,
    /// Monitor reads of the file
    #[arg(long, conflicts_with = "modify")]
    pub access: bool,
    /// Monitor changes of the file
    #[arg(long)]
    pub modify: bool,
    /// Wait for N alerts. The file must be active again between two alerts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole(1..=u64::MAX))]
    pub count: u64,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<StreamFormats>,
}

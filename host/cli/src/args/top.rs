//! Command line of `peal top`.
use super::{ConfigArgs, FactFormats, OutputArgs, ToolArgs, control::time};
use clap::Args as ClapArgs;
use std::{path::PathBuf, time::Duration};

pub(super) const TOP_EXAMPLES: &str = "\
Panes, by their number keys: jobs and procs; event codes with their rates; chains with the time and
the failures of each module; the latest events and their way through the chains; denials; sinks;
users and their quotas. Keys: Enter opens a row, Esc goes back, / filters, s sorts, p pauses,
? shows all keys, q quits.

Users that may not administer the server see their own jobs, modules, events, denials and quotas. At
`peal run`, which has no admin socket, jobs, procs and events are shown. There are no colours if
NO_COLOR is set.

Exit status: 0 at the end; 125 if no server answers.

Examples:
  peal top
  peal top --every 5s
  peal top --pid 4711
  peal top --once
  peal top --once -o json | jq '.codes[] | select(.per_second > 100).code.name'";

/// `peal top`.
#[derive(ClapArgs)]
pub struct Top {
    /// Selection of the server.
    #[command(flatten)]
    pub server: ToolArgs,
    /// Use the admin socket PATH; default: admin.socket of the configuration
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::FilePath, conflicts_with_all = ["pid", "nspace", "uri"])]
    pub socket: Option<PathBuf>,
    /// Source of the configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Update every TIME (1s, 1m)
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s")]
    pub every: Duration,
    /// Print one snapshot as text and exit. It takes one interval, since rates need two reports
    #[arg(long)]
    pub once: bool,
    /// Format of the snapshot.
    #[command(flatten)]
    pub format: OutputArgs<FactFormats>,
}

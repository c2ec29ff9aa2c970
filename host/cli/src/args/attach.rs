//! Command line of `peal attach`.
use super::{ConfigArgs, control::time};
use clap::Args as ClapArgs;
use std::{ffi::OsString, path::PathBuf, time::Duration};

pub const ATTACH_EXAMPLES: &str = "\
Examples:
  mpirun -n 4 peal attach --handler report.wasm -- ./app --fast
  prterun -n 4 --rtos continuous,notifyerrors peal attach --events --handler report.wasm -- ./app
  peal run -n 4 -- peal attach --handler report.wasm -- ./app

The events that servers send differ: see docs/src/run/foreign-servers.md.";

/// `peal attach`.
#[derive(ClapArgs)]
pub struct AttachArgs {
    /// Source of the configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Handle events for the program with the component FILE.wasm. Repeat for a chain in the given
    /// order
    #[arg(long = "handler", value_name = "FILE.wasm", value_hint = clap::ValueHint::FilePath)]
    pub handlers: Vec<PathBuf>,
    /// Print incoming events and the result of each handler on standard error
    #[arg(long)]
    pub events: bool,
    /// Report a timeout if the server takes longer than TIME for a request of a handler (500ms,
    /// 2m). Requests of the program have no timeout
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "30s")]
    pub timeout: Duration,
    /// Program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM", value_hint = clap::ValueHint::CommandWithArguments)]
    pub program: Vec<OsString>,
}

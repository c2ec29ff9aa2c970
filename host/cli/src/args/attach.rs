//! What can be said of `peal attach` on the command line.
use super::{ConfigArgs, control::time};
use clap::Args as ClapArgs;
use std::{ffi::OsString, path::PathBuf, time::Duration};

pub const ATTACH_EXAMPLES: &str = "\
Examples:
  mpirun -n 4 peal attach --handler report.wasm -- ./app --fast
  prterun -n 4 --rtos continuous,notifyerrors peal attach --events --handler report.wasm -- ./app
  peal run -n 4 -- peal attach --handler report.wasm -- ./app

What servers tell of differs: docs/src/run/foreign-servers.md.";

/// `peal attach`.
#[derive(ClapArgs)]
pub struct AttachArgs {
    /// Where the configuration comes from.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// A component that handles the events that come to the program; give it again for a chain, which runs in the order given
    #[arg(long = "handler", value_name = "FILE.wasm", value_hint = clap::ValueHint::FilePath)]
    pub handlers: Vec<PathBuf>,
    /// Tell on standard error which events come, and what each handler answered
    #[arg(long)]
    pub events: bool,
    /// How long the server may take for what handlers ask of it, such as 500ms or 2m; then it is said that it has not answered.
    /// What the program asks for takes as long as ever
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "30s")]
    pub timeout: Duration,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM", value_hint = clap::ValueHint::CommandWithArguments)]
    pub program: Vec<OsString>,
}

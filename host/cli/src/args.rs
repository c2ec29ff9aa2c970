//! What can be said on the command line.
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use std::{ffi::OsString, path::PathBuf};

/// Runs PMIx programs, with sandboxed WebAssembly components handling their events.
#[derive(Parser)]
#[command(name = "peal", version, max_term_width = 100, after_help = EXIT_STATUS)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_STATUS: &str = "\
Exit status:
  that of the job for `peal run` (128 and more: ended by a signal), otherwise 0;
  125 if Peal itself failed, 126 if the program cannot be executed, 127 if it is not there; 2 for a wrong command line.

Environment:
  PEAL_LOG  what to trace on standard error, as in PEAL_LOG=info or PEAL_LOG=peal_server=debug,peal::guest=info";

/// The verbs.
#[derive(Subcommand)]
pub enum Command {
    /// Run a program as a job
    ///
    /// Starts N procs of PROGRAM under an embedded PMIx server and waits for them. Programs linked with libpmix, and so
    /// every Open MPI program, find the server through their environment. The components given by --handler see the
    /// events that concern the job; those of the configuration see all events.
    #[command(after_help = RUN_EXAMPLES)]
    Run(Run),
    /// Look at modules
    #[command(subcommand)]
    Module(ModuleCommand),
    /// Print a script that completes peal's command line
    Completions {
        /// For which shell.
        shell: clap_complete::Shell,
    },
}

const RUN_EXAMPLES: &str = "\
Examples:
  peal run -n 4 -- ./app
  peal run -n 4 --events --handler report.wasm -- ./app --fast
  peal run -n 4 --config peal.toml --on-abort continue -- ./app";

/// `peal run`.
#[derive(ClapArgs)]
pub struct Run {
    /// How many procs
    #[arg(short = 'n', long = "procs", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub procs: u32,
    /// A configuration file (see README.md for what it may say)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A component that handles the job's events; give it again for a chain, which runs in the order given
    #[arg(long = "handler", value_name = "FILE.wasm")]
    pub handlers: Vec<PathBuf>,
    /// Tell on standard error what happens: procs, events, and what each handler answered
    #[arg(long)]
    pub events: bool,
    /// What follows the abnormal end of a proc
    #[arg(long, value_name = "WHAT")]
    pub on_abort: Option<OnAbort>,
    /// Write the rank before each line of output
    #[arg(long)]
    pub tag_output: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM", value_hint = clap::ValueHint::CommandWithArguments)]
    pub program: Vec<OsString>,
}

/// What follows the abnormal end of a proc.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnAbort {
    /// The job is ended
    Terminate,
    /// The other procs go on
    Continue,
}

/// What can be done with modules.
#[derive(Subcommand)]
pub enum ModuleCommand {
    /// Show what a component does, what it asks for, and where it comes from
    ///
    /// Nothing is compiled and nothing runs: this is safe with any file.
    Inspect(Inspect),
}

/// `peal module inspect`.
#[derive(ClapArgs)]
pub struct Inspect {
    /// The component
    #[arg(value_name = "FILE.wasm")]
    pub file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

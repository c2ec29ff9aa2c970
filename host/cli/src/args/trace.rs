//! Options of all commands for the trace.
use clap::{ArgAction, Args as ClapArgs, ValueEnum};

/// Options for the trace.
#[derive(ClapArgs)]
pub struct TraceArgs {
    /// Trace more on standard error: -v what a server does, -vv details, -vvv everything
    #[arg(short, long, action = ArgAction::Count, global = true, help_heading = "Trace")]
    pub verbose: u8,
    /// Trace errors only
    #[arg(
        short,
        long,
        global = true,
        conflicts_with = "verbose",
        help_heading = "Trace"
    )]
    pub quiet: bool,
    /// Write the lines of the trace as text or as JSON objects; default: text, and under systemd the
    /// journal with all fields. Messages of the command itself stay text
    #[arg(long, value_name = "FORMAT", global = true, help_heading = "Trace")]
    pub log_format: Option<LogFormat>,
}

/// Form of the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// A JSON object for each line.
    Json,
}

impl TraceArgs {
    /// Returns the filter that the options ask for; none without them.
    pub fn filter(&self) -> Option<&'static str> {
        match (self.quiet, self.verbose) {
            (true, _) => Some("error"),
            (false, 0) => None,
            (false, 1) => Some("info"),
            (false, 2) => Some("info,peal=debug"),
            (false, _) => Some("trace"),
        }
    }
}

//! Command line of `peal ctl`.
use super::{
    ConfirmArgs, DryRunArgs, FactFormats, OutputArgs, SortArgs, StateArgs, TableFormats, ToolArgs,
};
use crate::completion;
use clap::{Args as ClapArgs, Subcommand};
use clap_complete::ArgValueCandidates;
use peal_client::{CheckpointMethod, ControlStatus, Preemption};
use peal_config::words::{self, TargetKeywords};
use peal_model::{Info, Status};
use rustix::process::Signal;
use std::time::Duration;

/// `peal ctl`.
#[derive(Subcommand)]
pub enum CtlCommand {
    /// Pause procs until they are resumed
    #[command(after_help = TARGETS)]
    Pause(CtlAct),
    /// Resume paused procs
    #[command(after_help = TARGETS)]
    Resume(CtlAct),
    /// Send a signal to procs
    #[command(after_help = TARGETS)]
    Signal(CtlSignal),
    /// Terminate procs, and kill those that still run after run.grace_ms
    #[command(after_help = TARGETS)]
    Terminate(CtlEnd),
    /// Kill procs and their descendants
    #[command(after_help = TARGETS)]
    Kill(CtlEnd),
    /// Make procs save their state
    ///
    /// The procs must have declared a method (PMIX_JOB_CTRL_CHECKPOINT_METHOD), unless --event or
    /// --signal selects one. The command returns when the request is accepted; with --wait it
    /// returns when all procs have finished.
    #[command(after_help = TARGETS)]
    Checkpoint(CtlCheckpoint),
    /// Terminate procs and start them again with the same ranks
    ///
    /// The setting run.restart selects whether the named procs or the whole job are restarted. The
    /// command returns when the request is accepted; with --wait it returns when the procs run
    /// again.
    #[command(after_help = TARGETS)]
    Restart(CtlRestart),
    /// Preempt procs
    ///
    /// Alerts the procs, waits for a grace period in which they can save data, and then pauses,
    /// terminates or kills them. The procs must have declared themselves preemptible
    /// (PMIX_JOB_CTRL_PREEMPTIBLE).
    #[command(after_help = TARGETS)]
    Preempt(CtlPreempt),
    /// Cancel unfinished requests
    Cancel(CtlCancel),
    /// Show the state of requests
    ///
    /// Shows your own requests that the server remembers, the oldest first.
    #[command(after_help = STATUS_EXAMPLES)]
    Status(CtlStatus),
}

pub(super) const CTL_EXAMPLES: &str = "\
The server validates a whole request before it changes any proc. The server's policies decide
whether a request is allowed; without a policy you can control your own procs.

Exit status: 0 if the request was accepted or completed for all targets; 1 if it was refused or
failed for a target, or failed with --wait; 124 after a timeout; 125 if no server was reached or
the connection was lost.

Examples:
  peal ctl pause solver && peal ctl resume solver
  peal ctl signal USR1 solver:0-3,7
  peal ctl kill --dry-run solver
  peal ctl checkpoint night.1 solver --wait --timeout 10m
  peal ctl status -o json | jq '.[].state'";

const TARGETS: &str = "\
A target is a job (solver or solver:*), one proc (solver:0) or several procs (solver:0-3,7).";

const STATUS_EXAMPLES: &str = "\
The state of a request is accepted, running, done, failed, cancelled or denied.

Examples:
  peal ctl status
  peal ctl status nightly --wait";

/// Options of all requests.
#[derive(ClapArgs)]
pub struct CtlOptions {
    /// Selection of the server.
    #[command(flatten)]
    pub server: ToolArgs,
    /// Wait TIME at most (90, 90s, 5m); default: 60s, with --wait no limit. The server may still
    /// execute the request later
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub timeout: Option<Duration>,
}

/// `peal ctl pause` and `resume`.
#[derive(ClapArgs)]
pub struct CtlAct {
    /// Target of the request: a job, a proc or several procs
    #[arg(add = ArgValueCandidates::new(completion::jobs), value_name = "TARGET", required = true, value_parser = words::targets)]
    pub targets: Vec<TargetKeywords>,
    /// Name the request ID, for status queries and cancellation
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// Send mail to ADDRESS when the request is made and when it has ended. Repeat for more
    /// addresses
    #[arg(long, value_name = "ADDRESS")]
    pub mail_to: Vec<String>,
    /// Add a directive to the request. Repeat for more directives
    #[arg(long = "directive", value_name = "KEY=VALUE", value_parser = words::info)]
    pub directives: Vec<Info>,
    /// Options of all requests.
    #[command(flatten)]
    pub options: CtlOptions,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<FactFormats>,
    /// Dry run.
    #[command(flatten)]
    pub dry_run: DryRunArgs,
}

/// `peal ctl terminate` and `kill`.
#[derive(ClapArgs)]
pub struct CtlEnd {
    /// Targets of the request.
    #[command(flatten)]
    pub act: CtlAct,
    /// Confirmation.
    #[command(flatten)]
    pub confirm: ConfirmArgs,
}

/// `peal ctl signal`.
#[derive(ClapArgs)]
pub struct CtlSignal {
    /// Signal, by name or number, as in USR1 or 10
    #[arg(value_name = "SIGNAL", value_parser = signal)]
    pub signal: u8,
    /// Targets of the request.
    #[command(flatten)]
    pub act: CtlAct,
    /// Confirmation of KILL and TERM.
    #[command(flatten)]
    pub confirm: ConfirmArgs,
}

/// `peal ctl checkpoint`.
#[derive(ClapArgs)]
pub struct CtlCheckpoint {
    /// Name of the checkpoint
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Request the checkpoint by an event with CODE instead of the declared method
    #[arg(long, value_name = "CODE", value_parser = words::status, allow_negative_numbers = true, conflicts_with = "signal")]
    pub event: Option<Status>,
    /// Request the checkpoint by SIGNAL instead of the declared method
    #[arg(long, value_name = "SIGNAL", value_parser = signal)]
    pub signal: Option<u8>,
    /// Fail the checkpoint if procs take longer than TIME (90s, 5m)
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub completion_timeout: Option<Duration>,
    /// Wait until the request has ended
    #[arg(long)]
    pub wait: bool,
    /// Targets of the request.
    #[command(flatten)]
    pub act: CtlAct,
}

impl CtlCheckpoint {
    /// Method of the checkpoint, if an option selects one.
    pub fn method(&self) -> Option<CheckpointMethod> {
        self.event
            .map(CheckpointMethod::Event)
            .or(self.signal.map(CheckpointMethod::Signal))
    }
}

/// `peal ctl restart`.
#[derive(ClapArgs)]
pub struct CtlRestart {
    /// Restart from the checkpoint NAME; default: from the beginning
    #[arg(long, value_name = "NAME")]
    pub checkpoint: Option<String>,
    /// Wait until the request has ended
    #[arg(long)]
    pub wait: bool,
    /// Targets of the request.
    #[command(flatten)]
    pub act: CtlAct,
    /// Confirmation.
    #[command(flatten)]
    pub confirm: ConfirmArgs,
}

/// `peal ctl preempt`.
#[derive(ClapArgs)]
pub struct CtlPreempt {
    /// Apply ACTION after the grace period: pause, terminate or kill
    #[arg(long, value_name = "ACTION", value_parser = preemption, default_value = "terminate")]
    pub action: Preemption,
    /// Wait TIME after the alert (30s); default: job_control.preempt_grace_ms
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub grace: Option<Duration>,
    /// Wait until the request has ended
    #[arg(long)]
    pub wait: bool,
    /// Targets of the request.
    #[command(flatten)]
    pub act: CtlAct,
    /// Confirmation.
    #[command(flatten)]
    pub confirm: ConfirmArgs,
}

/// `peal ctl cancel`.
#[derive(ClapArgs)]
pub struct CtlCancel {
    /// Names of the requests
    #[arg(add = ArgValueCandidates::new(completion::requests), value_name = "ID", required_unless_present = "all")]
    pub ids: Vec<String>,
    /// Cancel all of your own requests
    #[arg(long, conflicts_with = "ids")]
    pub all: bool,
    /// Options of all requests.
    #[command(flatten)]
    pub options: CtlOptions,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<FactFormats>,
    /// Dry run.
    #[command(flatten)]
    pub dry_run: DryRunArgs,
}

/// `peal ctl status`.
#[derive(ClapArgs)]
pub struct CtlStatus {
    /// Names of the requests; default: all of your own
    #[arg(add = ArgValueCandidates::new(completion::requests), value_name = "ID")]
    pub ids: Vec<String>,
    /// Wait until the requests have ended
    #[arg(long)]
    pub wait: bool,
    /// Options of all requests.
    #[command(flatten)]
    pub options: CtlOptions,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<TableFormats>,
    /// Selection by state.
    #[command(flatten)]
    pub state: StateArgs<ControlStatus>,
    /// Order of the requests.
    #[command(flatten)]
    pub order: SortArgs<ControlStatus>,
}

/// Signals with names. Real-time signals have numbers only.
const SIGNALS: [(&str, Signal); 31] = [
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("ILL", Signal::ILL),
    ("TRAP", Signal::TRAP),
    ("ABRT", Signal::ABORT),
    ("BUS", Signal::BUS),
    ("FPE", Signal::FPE),
    ("KILL", Signal::KILL),
    ("USR1", Signal::USR1),
    ("SEGV", Signal::SEGV),
    ("USR2", Signal::USR2),
    ("PIPE", Signal::PIPE),
    ("ALRM", Signal::ALARM),
    ("TERM", Signal::TERM),
    ("STKFLT", Signal::STKFLT),
    ("CHLD", Signal::CHILD),
    ("CONT", Signal::CONT),
    ("STOP", Signal::STOP),
    ("TSTP", Signal::TSTP),
    ("TTIN", Signal::TTIN),
    ("TTOU", Signal::TTOU),
    ("URG", Signal::URG),
    ("XCPU", Signal::XCPU),
    ("XFSZ", Signal::XFSZ),
    ("VTALRM", Signal::VTALARM),
    ("PROF", Signal::PROF),
    ("WINCH", Signal::WINCH),
    ("IO", Signal::IO),
    ("PWR", Signal::POWER),
    ("SYS", Signal::SYS),
];

/// Highest number of a signal.
const HIGHEST: u8 = 64;

fn signal(text: &str) -> Result<u8, String> {
    let upper = text.to_ascii_uppercase();
    // Names may be written as `kill` lists them or as signal(7) does.
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let named = SIGNALS
        .iter()
        .find(|row| row.0 == name)
        .and_then(|row| u8::try_from(row.1.as_raw()).ok());
    let numbered = || {
        text.parse()
            .ok()
            .filter(|number| (1..=HIGHEST).contains(number))
    };
    named.or_else(numbered).ok_or_else(|| {
        let names = SIGNALS.map(|row| row.0).join(", ");
        format!(
            "{text:?} is no signal; it should be a number from 1 to {HIGHEST}, or one of {names}"
        )
    })
}

fn preemption(text: &str) -> Result<Preemption, String> {
    let found = Preemption::ALL
        .into_iter()
        .find(|action| action.name() == text);
    found.ok_or_else(|| {
        format!(
            "it should be one of {}",
            Preemption::ALL.map(Preemption::name).join(", ")
        )
    })
}

/// Parses a time: a number of seconds, or numbers with units.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map(Duration::from_secs).ok();
    seconds
        .or_else(|| humantime::parse_duration(text).ok())
        .ok_or_else(|| {
            format!(
                "{text:?} is no time; it should be in seconds, as in 90, or as in 90s, 5m or 1h30m"
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        for (text, number) in [
            ("USR1", 10),
            ("sigterm", 15),
            ("9", 9),
            ("64", 64),
            ("SIGKILL", 9),
        ] {
            assert_eq!(signal(text), Ok(number), "{text}");
        }
        for text in ["0", "65", "-9", "SIG", "USR3", ""] {
            assert!(
                signal(text).unwrap_err().contains("one of HUP, INT"),
                "{text}"
            );
        }
    }

    #[test]
    fn times_without_a_unit_are_seconds() {
        for (text, seconds) in [
            ("0", 0),
            ("90", 90),
            ("5m", 300),
            ("1h30m", 5400),
            ("2s", 2),
        ] {
            assert_eq!(time(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert!(time("soon").unwrap_err().contains("is no time"));
        assert!(time("-1").is_err());
    }
}

//! What can be said on the command line about procs that run: controlling them.
use super::ToolArgs;
use clap::{Args as ClapArgs, Subcommand};
use peal_client::{CheckpointMethod, Preemption};
use peal_config::words::{self, TargetKeywords};
use peal_model::{Info, Status};
use rustix::process::Signal;
use std::time::Duration;

/// What can be done to procs.
#[derive(Subcommand)]
pub enum CtlCommand {
    /// Stop procs from running until they are resumed
    #[command(after_help = TARGETS)]
    Pause(CtlAct),
    /// Let procs run again that were paused
    #[command(after_help = TARGETS)]
    Resume(CtlAct),
    /// Send procs a signal
    #[command(after_help = TARGETS)]
    Signal(CtlSignal),
    /// Ask procs to end, and kill those that have not after the grace (run.grace_ms)
    #[command(after_help = TARGETS)]
    Terminate(CtlAct),
    /// Kill procs, with everything that they have started
    #[command(after_help = TARGETS)]
    Kill(CtlAct),
    /// Have procs save their state
    ///
    /// The procs must have declared how they are told (PMIX_JOB_CTRL_CHECKPOINT_METHOD), unless --event or --by-signal says how. It is answered
    /// when it is accepted; --wait waits until all have said that they are done.
    #[command(after_help = TARGETS)]
    Checkpoint(CtlCheckpoint),
    /// End procs and start them again as who they were
    ///
    /// Whether those that are named are restarted or the whole job, the server decides (run.restart). It is answered when it is accepted;
    /// --wait waits until they run again.
    #[command(after_help = TARGETS)]
    Restart(CtlRestart),
    /// Have procs make room
    ///
    /// They are alerted, have a grace period to save what they want to keep, and then it is done to them. Only those that have declared
    /// themselves preemptible (PMIX_JOB_CTRL_PREEMPTIBLE).
    #[command(after_help = TARGETS)]
    Preempt(CtlPreempt),
    /// Let requests go that are not done yet
    Cancel(CtlCancel),
    /// Show how far requests are
    ///
    /// Those of your own that the server keeps, the oldest first.
    #[command(after_help = STATUS_EXAMPLES)]
    Status(CtlStatus),
}

pub(super) const CTL_EXAMPLES: &str = "\
What is asked for is checked whole before it is done to any proc. Whether it may be done the
server's policies decide: without one, you may control procs of your own.

Exit status: 0 if it was done to all, or was accepted; 1 if it was refused or not done to all, or,
with --wait, did not end well; 124 if the time was over; 125 if no server could be asked, or it went
away before it answered.

Examples:
  peal ctl pause solver && peal ctl resume solver
  peal ctl signal USR1 solver:0-3,7
  peal ctl checkpoint night.1 solver --wait --timeout 10m
  peal ctl status --json | jq '.[].state'";

const TARGETS: &str = "\
A target is a job (solver), one of its procs (solver:0) or some of them (solver:0-3,7). All of a job
are solver:*, too.";

const STATUS_EXAMPLES: &str = "\
A request is accepted, running, done, failed, cancelled or denied.

Examples:
  peal ctl status
  peal ctl status nightly --wait";

/// What all requests have.
#[derive(ClapArgs)]
pub struct CtlAsk {
    /// Which server is meant.
    #[command(flatten)]
    pub server: ToolArgs,
    /// How long to wait, as in 90, 90s or 5m; 60s unless it is given, with --wait as long as it takes. What was asked for may still happen later
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub timeout: Option<Duration>,
    /// Print how it went as a line of JSON
    #[arg(long)]
    pub json: bool,
}

/// `peal ctl pause`, `resume`, `terminate` and `kill`.
#[derive(ClapArgs)]
pub struct CtlAct {
    /// To whom
    #[arg(value_name = "TARGET", required = true, value_parser = words::targets)]
    pub targets: Vec<TargetKeywords>,
    /// A name for the request, by which it can be asked about and cancelled
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// Have mail sent to this address when it is asked for and when it has ended; give it again for more
    #[arg(long, value_name = "ADDRESS")]
    pub mail_to: Vec<String>,
    /// A directive that there is no option for; give it again for more
    #[arg(long = "directive", value_name = "KEY=VALUE", value_parser = words::info)]
    pub directives: Vec<Info>,
    /// What all requests have.
    #[command(flatten)]
    pub ask: CtlAsk,
}

/// `peal ctl signal`.
#[derive(ClapArgs)]
pub struct CtlSignal {
    /// Which one, by name or number, as in USR1 or 10
    #[arg(value_name = "SIGNAL", value_parser = signal)]
    pub signal: u8,
    /// To whom.
    #[command(flatten)]
    pub act: CtlAct,
}

/// `peal ctl checkpoint`.
#[derive(ClapArgs)]
pub struct CtlCheckpoint {
    /// What the checkpoint shall be called
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Tell them by an event of this code, instead of the way that they have declared
    #[arg(long, value_name = "CODE", value_parser = words::status, allow_negative_numbers = true, conflicts_with = "by_signal")]
    pub event: Option<Status>,
    /// Tell them by this signal, instead of the way that they have declared
    #[arg(long, value_name = "SIGNAL", value_parser = signal)]
    pub by_signal: Option<u8>,
    /// How long they may take, as in 90s or 5m
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub within: Option<Duration>,
    /// Wait until it has ended
    #[arg(long)]
    pub wait: bool,
    /// To whom.
    #[command(flatten)]
    pub act: CtlAct,
}

impl CtlCheckpoint {
    /// How they are told, if that is said.
    pub fn method(&self) -> Option<CheckpointMethod> {
        self.event
            .map(CheckpointMethod::Event)
            .or(self.by_signal.map(CheckpointMethod::Signal))
    }
}

/// `peal ctl restart`.
#[derive(ClapArgs)]
pub struct CtlRestart {
    /// The checkpoint from which they go on; without it from their beginning
    #[arg(long, value_name = "NAME")]
    pub checkpoint: Option<String>,
    /// Wait until it has ended
    #[arg(long)]
    pub wait: bool,
    /// To whom.
    #[command(flatten)]
    pub act: CtlAct,
}

/// `peal ctl preempt`.
#[derive(ClapArgs)]
pub struct CtlPreempt {
    /// What is done after the grace: pause, terminate or kill
    #[arg(long, value_name = "WHAT", value_parser = preemption, default_value = "terminate")]
    pub action: Preemption,
    /// How long they have after the alert, as in 30s; without it as long as the server gives
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub grace: Option<Duration>,
    /// Wait until it has ended
    #[arg(long)]
    pub wait: bool,
    /// To whom.
    #[command(flatten)]
    pub act: CtlAct,
}

/// `peal ctl cancel`.
#[derive(ClapArgs)]
pub struct CtlCancel {
    /// Which requests, by their names
    #[arg(value_name = "ID", required_unless_present = "all")]
    pub ids: Vec<String>,
    /// All of your own
    #[arg(long, conflicts_with = "ids")]
    pub all: bool,
    /// What all requests have.
    #[command(flatten)]
    pub ask: CtlAsk,
}

/// `peal ctl status`.
#[derive(ClapArgs)]
pub struct CtlStatus {
    /// Which requests, by their names; all of your own if none is given
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// Wait until they have ended
    #[arg(long)]
    pub wait: bool,
    /// What all requests have.
    #[command(flatten)]
    pub ask: CtlAsk,
}

/// The signals that have names. Real-time signals go by their numbers.
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

/// The highest number that a signal has.
const HIGHEST: u8 = 64;

fn signal(text: &str) -> Result<u8, String> {
    let upper = text.to_ascii_uppercase();
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
        format!("{text:?} is no signal: a number from 1 to {HIGHEST} is wanted, or one of {names}")
    })
}

fn preemption(text: &str) -> Result<Preemption, String> {
    let found = Preemption::ALL
        .into_iter()
        .find(|action| action.name() == text);
    found.ok_or_else(|| {
        format!(
            "one of {} is wanted",
            Preemption::ALL.map(Preemption::name).join(", ")
        )
    })
}

/// A number of seconds, or a time as people write it.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map(Duration::from_secs).ok();
    seconds
        .or_else(|| humantime::parse_duration(text).ok())
        .ok_or_else(|| {
            format!("{text:?} is no time: seconds are wanted, as in 90, or 90s, 5m or 1h30m")
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
    fn times_are_seconds_unless_they_say_otherwise() {
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

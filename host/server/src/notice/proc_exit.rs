//! Exit of a proc's process: its status, and the event that an abnormal exit raises.
use peal_core::job::ProcPhase;
use peal_model::{Info, ProcState, Status, Value, code, key};
use std::{
    fmt,
    os::unix::process::ExitStatusExt,
    process::ExitStatus,
    time::{SystemTime, UNIX_EPOCH},
};

/// Exit of a proc's process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcExit {
    /// The process exited with this status.
    Exited(i32),
    /// The process was terminated by this signal.
    Signalled(i32),
}

impl From<ExitStatus> for ProcExit {
    fn from(status: ExitStatus) -> ProcExit {
        match (status.code(), status.signal()) {
            (Some(code), _) => ProcExit::Exited(code),
            (None, signal) => ProcExit::Signalled(signal.unwrap_or_default()),
        }
    }
}

impl fmt::Display for ProcExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcExit::Exited(code) => write!(f, "exited with status {code}"),
            ProcExit::Signalled(signal) => write!(f, "was ended by signal {signal}"),
        }
    }
}

impl ProcExit {
    /// Returns the exit status as a shell reports it: 128 plus the number for a signal.
    pub fn exit_status(self) -> i32 {
        match self {
            ProcExit::Exited(code) => code,
            ProcExit::Signalled(signal) => 128 + signal,
        }
    }

    /// Returns the state that a table of procs shows for an exit. `abnormal` is the code of an
    /// abnormal exit.
    pub fn state(self, abnormal: Option<Status>) -> ProcState {
        match (self, abnormal) {
            (_, None) => ProcState::TERMINATED,
            (ProcExit::Signalled(_), Some(_)) => ProcState::ABORTED_BY_SIG,
            (ProcExit::Exited(0), Some(_)) => ProcState::TERM_WO_SYNC,
            (ProcExit::Exited(_), Some(_)) => ProcState::TERM_NON_ZERO,
        }
    }

    /// Returns the event code and the infos of an abnormal exit, with the current time as
    /// timestamp; none for a normal exit. An exit without finalization is abnormal for a proc that
    /// had connected.
    pub fn abnormal(self, life: Option<ProcPhase>) -> Option<(Status, Vec<Info>)> {
        let code = match (self, life) {
            (ProcExit::Signalled(_), _) => code::PMIX_ERR_PROC_ABORTED_BY_SIG,
            (ProcExit::Exited(0), Some(ProcPhase::Connected(_) | ProcPhase::Lost)) => {
                code::PMIX_ERR_PROC_TERM_WO_SYNC
            }
            // A program that does not use PMIx never connects, and need not finalize.
            (ProcExit::Exited(0), _) => return None,
            (ProcExit::Exited(_), _) => code::PMIX_ERR_EXIT_NONZERO_TERM,
        };
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        let infos = vec![
            Info::new(key::PMIX_EXIT_CODE, Value::Int(self.exit_status())),
            Info::new(key::PMIX_EVENT_TIMESTAMP, Value::Time(now)),
        ];
        Some((code, infos))
    }
}

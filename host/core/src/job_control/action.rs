//! Actions of job control.
use peal_model::{Info, Value, key};
use serde::{Deserialize, Serialize};
use std::fmt;

/// An action on the targets of a job-control request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum JobAction {
    /// Asks procs to end, and kills those that do not (`PMIX_JOB_CTRL_TERMINATE`).
    Terminate,
    /// Kills procs at once (`PMIX_JOB_CTRL_KILL`).
    Kill,
    /// Sends a signal with this number, 1 to 64 (`PMIX_JOB_CTRL_SIGNAL`).
    Signal(u8),
    /// Stops procs until they are resumed (`PMIX_JOB_CTRL_PAUSE`).
    Pause,
    /// Resumes stopped procs (`PMIX_JOB_CTRL_RESUME`).
    Resume,
    /// Ends procs and starts them again under the same names (`PMIX_JOB_CTRL_RESTART`).
    Restart {
        /// The checkpoint to continue from; none to start from the beginning.
        checkpoint: Option<String>,
    },
}

impl JobAction {
    /// Returns the directive that requests the action.
    pub fn directive(&self) -> Info {
        let (key, value) = match self {
            JobAction::Terminate => (key::PMIX_JOB_CTRL_TERMINATE, Value::Bool(true)),
            JobAction::Kill => (key::PMIX_JOB_CTRL_KILL, Value::Bool(true)),
            JobAction::Signal(number) => {
                (key::PMIX_JOB_CTRL_SIGNAL, Value::Int(i32::from(*number)))
            }
            JobAction::Pause => (key::PMIX_JOB_CTRL_PAUSE, Value::Bool(true)),
            JobAction::Resume => (key::PMIX_JOB_CTRL_RESUME, Value::Bool(true)),
            JobAction::Restart { checkpoint } => (
                key::PMIX_JOB_CTRL_RESTART,
                Value::String(checkpoint.as_deref().map(Into::into)),
            ),
        };
        Info::new(key, value)
    }
}

impl fmt::Display for JobAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobAction::Terminate => f.write_str("terminate"),
            JobAction::Kill => f.write_str("kill"),
            JobAction::Signal(number) => write!(f, "signal {number}"),
            JobAction::Pause => f.write_str("pause"),
            JobAction::Resume => f.write_str("resume"),
            JobAction::Restart { checkpoint: None } => f.write_str("restart"),
            JobAction::Restart {
                checkpoint: Some(checkpoint),
            } => write!(f, "restart from {checkpoint:?}"),
        }
    }
}

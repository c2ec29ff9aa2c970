//! What can be done to procs.
use std::fmt;

/// What is to be done to the targets of a job-control request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobAction {
    /// Ask them to end, and end them if they do not (`PMIX_JOB_CTRL_TERMINATE`).
    Terminate,
    /// End them at once (`PMIX_JOB_CTRL_KILL`).
    Kill,
    /// Send them a signal of this number, 1 to 64 (`PMIX_JOB_CTRL_SIGNAL`).
    Signal(u8),
    /// Stop them from running until they are resumed (`PMIX_JOB_CTRL_PAUSE`).
    Pause,
    /// Let them run again (`PMIX_JOB_CTRL_RESUME`).
    Resume,
    /// End them, and start them again as who they were (`PMIX_JOB_CTRL_RESTART`).
    Restart {
        /// The checkpoint from which they are to go on; none: from their beginning.
        checkpoint: Option<String>,
    },
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

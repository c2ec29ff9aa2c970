//! Errors of job-control requests. Each names the obstacle and what would be right.
use super::nodes::NodesError;
use crate::targets::UnknownTarget;
use peal_model::{Key, Proc, Status, code};
use thiserror::Error;

/// The reason why a request is refused before any effect.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JobControlError {
    /// The request has no action.
    #[error(
        "the request has no action; it should have one of them (pmix.jctrl.pause, .resume, .sig, .term, .kill, .restart, .ckpt, .cancel, .pvn) \
         or a registration"
    )]
    Nothing,
    /// The request has two actions.
    #[error("the request has both {first} and {second}; it should have one action")]
    Several {
        /// One of them.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// A directive has no meaning without another one.
    #[error("{key} means nothing without {requires}")]
    Misplaced {
        /// The key string.
        key: &'static str,
        /// The directive that it belongs to.
        requires: &'static str,
    },
    /// A directive has the wrong type or is out of bounds.
    #[error("{key} should be {expected}")]
    BadDirective {
        /// The key string.
        key: &'static str,
        /// The accepted values.
        expected: &'static str,
    },
    /// A path is both removed and ignored, or both a file and a directory.
    #[error("{path:?} {contradiction}")]
    ConflictingCleanup {
        /// The path.
        path: String,
        /// The contradiction.
        contradiction: &'static str,
    },
    /// A required directive is not supported.
    #[error("{0} is not supported")]
    Unsupported(Key),
    /// A target does not exist.
    #[error(transparent)]
    UnknownTarget(#[from] UnknownTarget),
    /// Files are to be removed after procs of other nodes alone.
    #[error("{0} is on another node, where it should register what is removed after it")]
    CleanupElsewhere(Proc),
    /// A target of a checkpoint has not declared a method.
    #[error(
        "{0} has not declared how it is checkpointed; it should register pmix.jctrl.ckmethod, or the request name a signal or event"
    )]
    NoMethod(Proc),
    /// A target of a preemption has not declared that it is preemptible.
    #[error("{0} has not declared that it can be preempted; it should register pmix.jctrl.preempt")]
    NotPreemptible(Proc),
    /// A declaration comes from a requester that is no proc of a job.
    #[error("{0} is no proc of a job, so it cannot declare anything")]
    NoProc(Proc),
    /// A request without targets comes from a module of the site, which has no namespace.
    #[error("no targets are named, and the requester has no namespace; name the targets")]
    NoTargets,
    /// A cleanup comes from a module of the site, which has no proc.
    #[error("modules of the site cannot register files for removal; a proc of the job should")]
    NoCleanupRequester,
    /// An open request of the requester has the same name.
    #[error("a request of yours that has not ended is called {0:?}; choose another name")]
    NameTaken(String),
    /// No request of the requester has this name.
    #[error("no request of yours is called {0:?}")]
    UnknownRequest(String),
    /// A request can no longer be cancelled.
    #[error("{name:?} cannot be cancelled: {reason}")]
    NotCancellable {
        /// The name of the request.
        name: String,
        /// The reason.
        reason: String,
    },
    /// A description of nodes is invalid.
    #[error("pmix.jctrl.pvn: {0}")]
    Nodes(#[from] NodesError),
    /// The number of open requests has reached the limit.
    #[error("too many requests have not ended; the limit is {max}")]
    Full {
        /// The limit.
        max: usize,
    },
}

impl JobControlError {
    /// Returns the status for the requester.
    pub fn status(&self) -> Status {
        match self {
            JobControlError::Nothing
            | JobControlError::Several { .. }
            | JobControlError::Misplaced { .. }
            | JobControlError::BadDirective { .. }
            | JobControlError::NoProc(_)
            | JobControlError::NoTargets
            | JobControlError::Nodes(_) => code::PMIX_ERR_BAD_PARAM,
            JobControlError::ConflictingCleanup { .. } => {
                code::PMIX_ERR_CONFLICTING_CLEANUP_DIRECTIVES
            }
            JobControlError::Unsupported(_)
            | JobControlError::CleanupElsewhere(_)
            | JobControlError::NoMethod(_)
            | JobControlError::NoCleanupRequester => code::PMIX_ERR_NOT_SUPPORTED,
            JobControlError::UnknownTarget(_) | JobControlError::UnknownRequest(_) => {
                code::PMIX_ERR_NOT_FOUND
            }
            // A proc permits its preemption by declaring it.
            JobControlError::NotPreemptible(_) => code::PMIX_ERR_NO_PERMISSIONS,
            JobControlError::NameTaken(_) => code::PMIX_ERR_EXISTS,
            JobControlError::NotCancellable { .. } => code::PMIX_ERR_INVALID_OPERATION,
            JobControlError::Full { .. } => code::PMIX_ERR_OUT_OF_RESOURCE,
        }
    }
}

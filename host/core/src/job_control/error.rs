//! Why a job-control request is refused. Each error names what stands in the way and what would be right.
use super::nodes::NodesError;
use crate::targets::UnknownTarget;
use peal_model::{Key, Proc, Status, code};
use thiserror::Error;

/// Why a request is refused before anything has happened to any proc.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JobControlError {
    /// It asks for nothing.
    #[error(
        "nothing is asked for; give one action (pmix.jctrl.pause, .resume, .sig, .term, .kill, .restart, .ckpt, .cancel, .pvn) \
         or what is to be registered"
    )]
    Nothing,
    /// It asks for two things.
    #[error("{first} and {second} are asked for at once; give one action")]
    Several {
        /// One of them.
        first: &'static str,
        /// Another.
        second: &'static str,
    },
    /// A directive that means nothing without another.
    #[error("{key} means nothing without {wanted}")]
    Misplaced {
        /// Its key string.
        key: &'static str,
        /// What it belongs to.
        wanted: &'static str,
    },
    /// A directive of the wrong type or out of its bounds.
    #[error("{key} should be {wanted}")]
    BadDirective {
        /// Its key string.
        key: &'static str,
        /// What would be right.
        wanted: &'static str,
    },
    /// A path that is both to be removed and to be left, or to be a file and a directory.
    #[error("{path:?} {why}")]
    ConflictingCleanup {
        /// The path.
        path: String,
        /// What contradicts what.
        why: &'static str,
    },
    /// Something that Peal does not do.
    #[error("{0} is not supported")]
    Unsupported(Key),
    /// A target that is not there.
    #[error(transparent)]
    UnknownTarget(#[from] UnknownTarget),
    /// A checkpoint of somebody who did not say how.
    #[error(
        "{0} has not said how it is checkpointed; it should register pmix.jctrl.ckmethod, or the request name a signal or event"
    )]
    NoMethod(Proc),
    /// A preemption of somebody who did not agree to it.
    #[error("{0} has not declared that it can be preempted; it should register pmix.jctrl.preempt")]
    NotPreemptible(Proc),
    /// A declaration of somebody who is no proc of a job.
    #[error("{0} is no proc of a job, so there is nothing that it could declare")]
    NoProc(Proc),
    /// A request of a module of the site, which is no proc, about itself.
    #[error("no targets are named, and whoever asks has no namespace that could be meant")]
    Nobody,
    /// A request has this name and has not ended.
    #[error("a request of yours that has not ended is called {0:?}; choose another name")]
    NameTaken(String),
    /// Nobody knows a request of this name.
    #[error("no request of yours is called {0:?}")]
    UnknownRequest(String),
    /// A request that has gone too far.
    #[error("{name:?} cannot be cancelled: {why}")]
    NotCancellable {
        /// What it is called.
        name: String,
        /// Why not.
        why: String,
    },
    /// A description that names no nodes.
    #[error("pmix.jctrl.pvn: {0}")]
    Nodes(#[from] NodesError),
    /// There are too many requests.
    #[error("{max} requests have not ended, more are not allowed")]
    Full {
        /// How many are allowed.
        max: usize,
    },
}

impl JobControlError {
    /// The status that tells a program of it.
    pub fn status(&self) -> Status {
        match self {
            JobControlError::Nothing
            | JobControlError::Several { .. }
            | JobControlError::Misplaced { .. }
            | JobControlError::BadDirective { .. }
            | JobControlError::NoProc(_)
            | JobControlError::Nobody
            | JobControlError::Nodes(_) => code::PMIX_ERR_BAD_PARAM,
            JobControlError::ConflictingCleanup { .. } => {
                code::PMIX_ERR_CONFLICTING_CLEANUP_DIRECTIVES
            }
            JobControlError::Unsupported(_) | JobControlError::NoMethod(_) => {
                code::PMIX_ERR_NOT_SUPPORTED
            }
            JobControlError::UnknownTarget(_) | JobControlError::UnknownRequest(_) => {
                code::PMIX_ERR_NOT_FOUND
            }
            JobControlError::NotPreemptible(_) => code::PMIX_ERR_NO_PERMISSIONS,
            JobControlError::NameTaken(_) => code::PMIX_ERR_EXISTS,
            JobControlError::NotCancellable { .. } => code::PMIX_ERR_INVALID_OPERATION,
            JobControlError::Full { .. } => code::PMIX_ERR_OUT_OF_RESOURCE,
        }
    }
}

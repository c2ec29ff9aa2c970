//! Reasons for which messages of other servers are refused: a server is believed only about itself.
use peal_model::{Nspace, Proc};
use thiserror::Error;

/// The reason why a message of another server is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MessageRefusal {
    /// Another server has announced a job of this name with another size or owner.
    #[error("job {0:?} is known with another size or owner")]
    OtherJob(Nspace),
    /// Another server has announced the proc.
    #[error("{0} is a proc of another server")]
    TakenProc(Proc),
    /// The rank is not below the size of its job.
    #[error("{0} is beyond the size of its job")]
    NoProc(Proc),
}

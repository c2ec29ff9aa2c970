//! Reasons for which messages of other servers are refused: a server is believed only about itself.
use peal_model::{Nspace, Proc};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The reason why a message of another server is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum MessageRefusal {
    /// Another server has announced a job of this name with another size or owner.
    #[error("job {0:?} is known with another size or owner")]
    OtherJob(Nspace),
    /// Another server has announced the proc.
    #[error("{0} is a proc of another server")]
    TakenProc(Proc),
    /// The proc is not one of the sender's.
    #[error("{0} is no proc of the sender")]
    ForeignProc(Proc),
    /// The sender has no procs of the job.
    #[error("sender has no procs of job {0:?}")]
    NoPart(Nspace),
    /// The sender does not coordinate groups.
    #[error("sender does not coordinate groups")]
    NotCoordinator,
    /// The event is for users other than that of its source.
    #[error("event of {0} is for another user")]
    ForeignUser(Proc),
    /// The sender has none of the procs of the fence.
    #[error("sender has no procs of the fence")]
    NoParticipant,
    /// The sender is not between this server and the root of the fence, and is not the root.
    #[error("sender is not above this server in the tree of the fence")]
    NotAbove,
    /// The sender has counted further than servers can be apart.
    #[error("fence {generation} of its procs is too far ahead; {begun} have begun here")]
    Generation {
        /// The generation in the message.
        generation: u64,
        /// The last one that has begun here.
        begun: u64,
    },
    /// The sender does not hold the published data of all servers.
    #[error("sender does not hold published data")]
    NotHolder,
    /// A proc cannot have given the range.
    #[error("range of {0} is not one that the proc can give")]
    ForeignRange(Proc),
    /// The rank is not below the size of its job.
    #[error("{0} is beyond the size of its job")]
    NoProc(Proc),
}

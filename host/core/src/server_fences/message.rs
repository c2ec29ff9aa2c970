//! Messages about fences between servers.
use crate::fence::FenceContribution;
use peal_model::{NamedProcs, Status};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One fence of a set of procs that several servers have.
///
/// The generation counts the fences of the set. Every server with procs of the set counts alike, so
/// a message about an earlier fence of the same procs, however late, is never taken for one about
/// this fence.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct FenceRound {
    /// The named procs.
    pub procs: NamedProcs,
    /// The number of this fence among those of these procs. The first one is 1.
    pub generation: u64,
}

/// The result of a fence for all servers: the values of all procs, or the status of the failure.
pub type FenceOutcome = Result<Arc<FenceContribution>, Status>;

/// A message about a fence. The root of a fence is the lowest of the servers that have its procs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum FenceMessage {
    /// Contributes to a fence at its root: all procs of the sender have arrived or ended.
    Contribute {
        /// The fence.
        round: FenceRound,
        /// The generation up to which all fences of these procs are over at the sender.
        completed: u64,
        /// The contribution of the sender's procs.
        contribution: FenceContribution,
    },
    /// Fails a fence at its root, because procs of the sender do not wait for it any more.
    GiveUp {
        /// The fence.
        round: FenceRound,
        /// The status that the sender's procs got.
        status: Status,
    },
    /// Asks a server that has not contributed, which may have no living proc of the set.
    Await(FenceRound),
    /// Tells the result; sent by the root, and to the next root after the loss of one.
    Result {
        /// The fence.
        round: FenceRound,
        /// The generation up to which the fences of these procs are over at all servers.
        settled: u64,
        /// The result.
        outcome: FenceOutcome,
    },
}

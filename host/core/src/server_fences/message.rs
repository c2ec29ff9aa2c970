//! Messages about fences between servers.
use crate::{fence::FenceContribution, group::ServerId};
use peal_model::{NamedProcs, Status};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, sync::Arc};

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

/// A message about a fence. The root of a fence is the lowest of the servers that have its procs; the
/// others are in a tree below it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum FenceMessage {
    /// Contributes to a fence at the next server towards the root: all procs of the sender have arrived
    /// or ended, and so have those of the servers below it.
    Contribute {
        /// The fence.
        round: FenceRound,
        /// The root, as the sender knows it.
        root: ServerId,
        /// The number of the message among those of the sender about this fence. The first one is 1.
        number: u64,
        /// The servers whose contributions these are.
        covered: BTreeSet<ServerId>,
        /// The generation up to which all fences of these procs are over at these servers.
        completed: u64,
        /// The contributions of their procs as one.
        contribution: FenceContribution,
    },
    /// Fails a fence, because procs of the sender, or of a server below it, do not wait for it any more.
    GiveUp {
        /// The fence.
        round: FenceRound,
        /// The status that these procs got.
        status: Status,
    },
    /// Asks a server that has not contributed, which may have no living proc of the set.
    Await(FenceRound),
    /// Tells the result to the servers below the sender. After the loss of a root it is also told
    /// upwards, to the next root.
    Result {
        /// The fence.
        round: FenceRound,
        /// The root that has decided, or that has taken the result over from an earlier root.
        root: ServerId,
        /// The generation up to which the fences of these procs are over at all servers.
        settled: u64,
        /// The result.
        outcome: FenceOutcome,
    },
}

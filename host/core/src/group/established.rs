//! An established group, as seen by a server with members and by the coordinator.
use super::{DecisionSeq, Formed, ServerId, directory::JobDirectory, remaining::RemainingProcs};
use crate::MonotonicTime;
use peal_model::{NamedProcs, Proc};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A group with local members.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LocalGroup {
    /// The last decision about the group.
    pub(super) instance: DecisionSeq,
    pub(super) formed: Arc<Formed>,
    /// Former members.
    pub(super) former_members: BTreeSet<Proc>,
    /// Members that have asked to leave, which the coordinator has not decided yet, with the members that
    /// their own events have notified.
    pub(super) leaving: BTreeMap<Proc, NamedProcs>,
}

impl LocalGroup {
    /// Returns true if a proc is a member.
    pub(super) fn has(&self, proc: &Proc) -> bool {
        self.formed.members.contains(proc) && !self.former_members.contains(proc)
    }

    /// Returns true if a proc is a member and has not asked to leave.
    pub(super) fn stays(&self, proc: &Proc) -> bool {
        self.has(proc) && !self.leaving.contains_key(proc)
    }

    /// Returns the remaining members in their order.
    pub(super) fn members(&self) -> impl Iterator<Item = &Proc> {
        self.formed
            .members
            .iter()
            .filter(|member| !self.former_members.contains(member))
    }

    /// Returns the remaining members in the order of procs.
    pub(super) fn left(&self) -> NamedProcs {
        let named = self.formed.members.named();
        // Shared and not copied while all members are left.
        if self.former_members.is_empty() {
            return named.clone();
        }
        named
            .iter()
            .filter(|member| !self.former_members.contains(member))
            .cloned()
            .collect()
    }

    /// Returns the remaining members on a server.
    pub(super) fn members_at(
        &self,
        server: ServerId,
        directory: &JobDirectory,
    ) -> impl Iterator<Item = &Proc> {
        // Spares a lookup for each member of a job without procs there.
        let may_be_here = move |procs: &&[Proc]| {
            procs
                .first()
                .is_some_and(|proc| directory.has_procs_at(&proc.nspace, server))
        };
        let here = self
            .formed
            .members
            .named()
            .of_each_job()
            .filter(may_be_here)
            .flatten();
        here.filter(move |member| {
            directory.is_at(member, server) && !self.former_members.contains(member)
        })
    }
}

/// An established group, for its coordinator.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EstablishedGroup {
    pub(super) instance: DecisionSeq,
    pub(super) members: RemainingProcs,
    pub(super) destruct: Option<PendingDestruct>,
}

/// A pending destruct.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PendingDestruct {
    /// Members that have not called it.
    pub(super) missing: RemainingProcs,
    pub(super) deadline: MonotonicTime,
}

impl EstablishedGroup {
    pub(super) fn new(instance: DecisionSeq, members: NamedProcs) -> EstablishedGroup {
        EstablishedGroup {
            instance,
            members: members.into(),
            destruct: None,
        }
    }

    /// Returns true if all remaining members have called destruct.
    pub(super) fn is_dissolved(&self) -> bool {
        self.destruct
            .as_ref()
            .is_some_and(|dissolving| dissolving.missing.is_empty())
    }

    /// Returns the servers of the members.
    pub(super) fn servers(&self, directory: &JobDirectory) -> BTreeSet<ServerId> {
        directory.homes(self.members.iter())
    }
}

//! A group that is there: as a server with members sees it, and as its coordinator does.
use super::{DecisionSeq, Formed, ServerId, directory::JobDirectory, remaining::RemainingProcs};
use crate::MonotonicTime;
use peal_model::{NamedProcs, Proc};
use std::{collections::BTreeSet, sync::Arc};

/// A group with members here.
#[derive(Debug)]
pub(super) struct LocalGroup {
    /// What was decided of it last.
    pub(super) instance: DecisionSeq,
    pub(super) formed: Arc<Formed>,
    /// Who was in it and is not any more.
    pub(super) gone: BTreeSet<Proc>,
}

impl LocalGroup {
    /// Whether somebody is in it.
    pub(super) fn has(&self, proc: &Proc) -> bool {
        self.formed.members.contains(proc) && !self.gone.contains(proc)
    }

    /// Who is left, in their order.
    pub(super) fn members(&self) -> impl Iterator<Item = &Proc> {
        self.formed
            .members
            .iter()
            .filter(|member| !self.gone.contains(member))
    }

    /// Who is left, whatever their order is.
    pub(super) fn left(&self) -> NamedProcs {
        let named = self.formed.members.named();
        if self.gone.is_empty() {
            return named.clone();
        }
        named
            .iter()
            .filter(|member| !self.gone.contains(member))
            .cloned()
            .collect()
    }

    /// Who is left at a server.
    pub(super) fn members_at(
        &self,
        server: ServerId,
        directory: &JobDirectory,
    ) -> impl Iterator<Item = &Proc> {
        let is_here = move |procs: &&[Proc]| {
            procs
                .first()
                .is_some_and(|proc| directory.is_at(&proc.nspace, server))
        };
        let here = self
            .formed
            .members
            .named()
            .of_each_job()
            .filter(is_here)
            .flatten();
        here.filter(|member| !self.gone.contains(member))
    }
}

/// A group, for its coordinator.
#[derive(Debug)]
pub(super) struct EstablishedGroup {
    pub(super) instance: DecisionSeq,
    pub(super) members: RemainingProcs,
    pub(super) dissolving: Option<Dissolving>,
}

/// Its end, for which somebody has called.
#[derive(Debug)]
pub(super) struct Dissolving {
    /// Who has not.
    pub(super) missing: RemainingProcs,
    pub(super) deadline: MonotonicTime,
}

impl EstablishedGroup {
    pub(super) fn new(instance: DecisionSeq, members: NamedProcs) -> EstablishedGroup {
        EstablishedGroup {
            instance,
            members: members.into(),
            dissolving: None,
        }
    }

    /// Whether all who are left have called for its end.
    pub(super) fn is_dissolved(&self) -> bool {
        self.dissolving
            .as_ref()
            .is_some_and(|dissolving| dissolving.missing.is_empty())
    }

    /// Where its members are.
    pub(super) fn servers(&self, directory: &JobDirectory) -> BTreeSet<ServerId> {
        directory.homes(self.members.iter())
    }
}

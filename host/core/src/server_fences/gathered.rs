//! Contributions that a server has gathered for a fence, and what it believes of them.
use super::{
    SetKnowledge, SetLocator,
    set::{OwnPart, Round},
    tree::FenceTree,
};
use crate::{
    fence::{Completeness, FenceContribution},
    group::ServerId,
    modex::PutSnapshot,
};
use peal_model::Proc;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of roots for which contributions are held: the present one, and next ones of whose
/// turn this server has not heard.
const MAX_ROOTS: usize = 4;

/// The contribution of a server, with those of servers below it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SubtreePart {
    /// The sender's number of the message. A later one replaces an earlier one.
    pub(super) number: u64,
    /// The servers whose contributions these are.
    pub(super) covered: BTreeSet<ServerId>,
    /// The generation up to which all fences of the set are over at each of them.
    pub(super) completed: u64,
    pub(super) contribution: FenceContribution,
}

/// Contributions of one fence, by the root that the senders meant and by sender.
///
/// After the loss of a root each server contributes anew, for the next one, unless it has the result.
/// So no root decides from contributions of servers that have got the result of an earlier one.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Gathered(BTreeMap<ServerId, BTreeMap<ServerId, SubtreePart>>);

impl Gathered {
    /// Keeps a contribution for the present root or a next one. One for an earlier root is dropped,
    /// because its sender will contribute anew.
    pub(super) fn add(
        &mut self,
        root: ServerId,
        from: ServerId,
        part: SubtreePart,
        tree: &FenceTree,
    ) {
        // While servers are not known, neither is the root.
        let is_earlier = tree.root().is_some_and(|present| root < present);
        if is_earlier && tree.knowledge == SetKnowledge::Complete {
            return;
        }
        let is_full = self.0.len() >= MAX_ROOTS && !self.0.contains_key(&root);
        if is_full && tree.root() != Some(root) {
            return;
        }
        let of_root = self.0.entry(root).or_default();
        let known = of_root.get(&from).map_or(0, |known| known.number);
        if part.number > known {
            of_root.insert(from, part);
        }
    }

    /// Drops what was meant for the last root, and for those before the next one. Losses bring greater
    /// ids. After another change all contribute anew, and only what is for the next root stays.
    pub(super) fn root_changed(&mut self, last: ServerId, next: ServerId) {
        let is_after = |meant: ServerId| last < next && meant > next;
        self.0.retain(|meant, _| *meant == next || is_after(*meant));
    }

    /// Returns the servers that have contributed for roots after this one.
    pub(super) fn senders_after(&self, root: ServerId) -> impl Iterator<Item = ServerId> {
        let later = self.0.iter().filter(move |(meant, _)| **meant > root);
        later.flat_map(|(_, parts)| parts.keys().copied())
    }

    /// Returns true if a server has contributed.
    pub(super) fn has(&self, root: ServerId, from: ServerId) -> bool {
        self.0
            .get(&root)
            .is_some_and(|parts| parts.contains_key(&from))
    }

    fn of(&self, root: ServerId) -> impl Iterator<Item = (ServerId, &SubtreePart)> {
        let parts = self.0.get(&root).into_iter().flatten();
        parts.map(|(from, part)| (*from, part))
    }
}

/// The contributions of several servers as one.
#[derive(Debug)]
pub(super) struct MergedParts {
    /// The servers.
    pub(super) covered: BTreeSet<ServerId>,
    /// The generation up to which all fences of the set are over at each of them.
    pub(super) completed: u64,
    pub(super) contribution: FenceContribution,
}

impl Round {
    /// Returns true if this server and all servers directly below it have contributed.
    pub(super) fn may_be_complete(&self, me: ServerId, tree: &FenceTree) -> bool {
        let has = |server: &ServerId| {
            tree.root()
                .is_some_and(|root| self.below.has(root, *server))
        };
        matches!(self.own, OwnPart::Contributed(..)) && tree.children_of(me).iter().all(has)
    }

    /// Returns the contributions of this server and of those below it as one.
    ///
    /// A server is believed about itself and the servers below it, and about servers that are lost:
    /// these tell nobody else any more. Of another server it brings neither the contribution nor
    /// values.
    pub(super) fn merged(
        &self,
        me: ServerId,
        completed: u64,
        tree: &FenceTree,
        locator: &impl SetLocator,
    ) -> MergedParts {
        let mut merged = MergedParts {
            covered: BTreeSet::new(),
            completed,
            contribution: FenceContribution::default(),
        };
        if let OwnPart::Contributed(_, own) = &self.own {
            merged.covered.insert(me);
            merged.contribution = own.clone();
        }
        let Some(root) = tree.root() else {
            return merged;
        };
        let mut brought: BTreeSet<Proc> = BTreeSet::new();
        for (from, part) in self.below.of(root) {
            // One that contributed here under another tree now contributes elsewhere.
            if tree.contains(from) && !tree.is_in_subtree(from, me) {
                continue;
            }
            let is_believed =
                |server: &ServerId| self.lost.contains(server) || tree.is_in_subtree(*server, from);
            let believed = part.covered.iter().filter(|server| is_believed(server));
            let before = merged.covered.len();
            merged.covered.extend(believed);
            if merged.covered.len() == before {
                continue;
            }
            merged.completed = merged.completed.min(part.completed);
            let attendance = merged.contribution.attendance;
            merged.contribution.attendance = attendance.and(part.contribution.attendance);
            let is_brought = |data: &&PutSnapshot| {
                let home = locator.server_of(&data.values.proc);
                // The servers of others are lost.
                home.is_none_or(|home| part.covered.contains(&home) && is_believed(&home))
            };
            for data in part.contribution.data.iter().filter(is_brought) {
                if brought.insert(data.values.proc.clone()) {
                    merged.contribution.data.push(data.clone());
                }
            }
        }
        merged
    }

    /// Returns the completeness of a fence of which these are the contributions of all servers.
    pub(super) fn attendance_of(&self, all: &MergedParts) -> Completeness {
        let attendance = all.contribution.attendance.and(self.attendance);
        // A server that contributed before it left has brought all of its procs.
        if self.lost.iter().all(|lost| all.covered.contains(lost)) {
            attendance
        } else {
            Completeness::Partial
        }
    }
}

//! Tree of the servers that have the procs of a fence.
use super::{SetKnowledge, SetServers};
use crate::{fence::Completeness, group::ServerId};
use serde::{Deserialize, Serialize};
use std::iter::successors;

/// The servers of a fence as a tree.
///
/// The servers are ordered by their ids. The first one is the *root*, the next ones are below it, as
/// many as the fan-out says, those that follow are below these, and so on. So servers that know of the
/// same servers compute the same tree, and the order of ids is all that they need for that.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FenceTree {
    servers: Vec<ServerId>,
    fan_out: usize,
    pub(super) knowledge: SetKnowledge,
    pub(super) attendance: Completeness,
}

impl FenceTree {
    pub(super) fn new(at: SetServers, fan_out: usize) -> FenceTree {
        FenceTree {
            servers: at.servers.into_iter().collect(),
            fan_out: fan_out.max(1),
            knowledge: at.knowledge,
            attendance: at.attendance,
        }
    }

    /// Returns the server that decides.
    pub(super) fn root(&self) -> Option<ServerId> {
        self.servers.first().copied()
    }

    fn position_of(&self, server: ServerId) -> Option<usize> {
        self.servers.binary_search(&server).ok()
    }

    pub(super) fn contains(&self, server: ServerId) -> bool {
        self.position_of(server).is_some()
    }

    /// Returns the position above another one, unless that is the root's.
    fn above(&self, position: usize) -> Option<usize> {
        position.checked_sub(1)?.checked_div(self.fan_out)
    }

    /// Returns the server to which another one contributes. The root has none.
    pub(super) fn parent_of(&self, server: ServerId) -> Option<ServerId> {
        let parent = self.above(self.position_of(server)?)?;
        self.servers.get(parent).copied()
    }

    /// Returns the servers that contribute to another one.
    pub(super) fn children_of(&self, server: ServerId) -> &[ServerId] {
        let Some(position) = self.position_of(server) else {
            return &[];
        };
        let first = position.saturating_mul(self.fan_out).saturating_add(1);
        let end = first.saturating_add(self.fan_out).min(self.servers.len());
        self.servers.get(first..end).unwrap_or_default()
    }

    /// Returns true if a server is another one, or is somewhere below it.
    pub(super) fn is_in_subtree(&self, server: ServerId, of: ServerId) -> bool {
        let (Some(position), Some(of)) = (self.position_of(server), self.position_of(of)) else {
            return false;
        };
        let mut upwards = successors(Some(position), |position| self.above(*position));
        upwards.any(|position| position == of)
    }

    /// Returns a server and all servers below it.
    pub(super) fn subtree_of(&self, server: ServerId) -> impl Iterator<Item = ServerId> {
        let below = |(first, end): &(usize, usize)| {
            let first = first.saturating_mul(self.fan_out).saturating_add(1);
            let end = end.saturating_mul(self.fan_out).saturating_add(1);
            let end = end.min(self.servers.len());
            (first < end).then_some((first, end))
        };
        // The servers of one level of a subtree follow each other.
        let top = self.position_of(server);
        let levels = successors(top.map(|position| (position, position + 1)), below);
        let levels = levels.filter_map(|(first, end)| self.servers.get(first..end));
        levels.flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn tree_equals_list_of_parents(
            ids in prop::collection::btree_set(0u32..200, 1..60),
            fan_out in 1usize..5,
        ) {
            let ids: BTreeSet<ServerId> = ids.into_iter().map(ServerId).collect();
            let ordered: Vec<ServerId> = ids.iter().copied().collect();
            let at = SetServers { servers: ids, ..SetServers::default() };
            let tree = FenceTree::new(at, fan_out);
            // Each server in turn is put below the first one that has room.
            let mut parents: Vec<Option<usize>> = vec![None];
            for _ in 1..ordered.len() {
                let has_room = |parent: &usize| {
                    parents.iter().filter(|of| **of == Some(*parent)).count() < fan_out
                };
                parents.push((0..parents.len()).find(has_room));
            }
            for (n, server) in ordered.iter().enumerate() {
                prop_assert_eq!(tree.parent_of(*server), parents[n].map(|of| ordered[of]));
                let children = (0..ordered.len()).filter(|other| parents[*other] == Some(n));
                let children: Vec<ServerId> = children.map(|other| ordered[other]).collect();
                prop_assert_eq!(tree.children_of(*server), &children[..]);
                let subtree: BTreeSet<ServerId> = tree.subtree_of(*server).collect();
                for (m, other) in ordered.iter().enumerate() {
                    let mut up = Some(m);
                    while up.is_some_and(|up| up != n) {
                        up = up.and_then(|up| parents[up]);
                    }
                    prop_assert_eq!(tree.is_in_subtree(*other, *server), up.is_some());
                    prop_assert_eq!(subtree.contains(other), up.is_some());
                }
            }
            prop_assert_eq!(tree.root(), ordered.first().copied());
            prop_assert!(!tree.contains(ServerId(200)) && tree.children_of(ServerId(200)).is_empty());
        }
    }
}

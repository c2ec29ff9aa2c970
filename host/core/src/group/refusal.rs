//! Procs that policies refuse a part in a group: what the others are told of that, and who they are.
use super::{
    ConstructRequest, ConstructRole, GroupFailure, GroupKey, GroupTransition, Participation,
};
use crate::{MonotonicTime, policy::REASON};
use peal_model::{Info, Proc, Status, Value, key};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

/// Of how many refused calls of a user's the others are told in the time that this is remembered. Of more only whoever is refused.
const TOLD: usize = 128;

/// That a proc may not take part.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupRefusal {
    /// Who.
    pub proc: Proc,
    /// The status that says so, to it and to the others.
    pub status: Status,
    /// Why.
    pub reasons: Vec<Info>,
}

impl GroupRefusal {
    pub(super) fn failure(self: &Arc<GroupRefusal>) -> GroupFailure {
        let words: Vec<&str> = self
            .reasons
            .iter()
            .filter_map(|info| info.value.as_str())
            .collect();
        let reason = format!("{} may not take part: {}", self.proc, words.join("; "));
        GroupFailure {
            status: self.status,
            reason,
            refusal: Some(self.clone()),
        }
    }

    /// What events say of it: answers have room for a status only.
    pub(super) fn told(&self, group: &GroupKey) -> Vec<Info> {
        let head = [
            Info::new(
                key::PMIX_GROUP_ID,
                Value::String(group.name.called().cloned()),
            ),
            Info::new(
                key::PMIX_EVENT_AFFECTED_PROC,
                Value::Proc(self.proc.clone()),
            ),
            // It is for those who want to hear of it, and nothing that a program should die of.
            Info::new(key::PMIX_EVENT_NON_DEFAULT, Value::Bool(true)),
        ];
        // Nothing that a policy says takes the place of what this says.
        let reasons = self
            .reasons
            .iter()
            .filter(|info| info.key == REASON || head.iter().all(|own| own.key != info.key));
        head.iter().chain(reasons).cloned().collect()
    }
}

impl GroupTransition {
    /// Whether it says that somebody may not take part.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(
            self,
            GroupTransition::NotFormed {
                failure: GroupFailure {
                    refusal: Some(_),
                    ..
                },
                ..
            }
        )
    }

    /// Whether this answers a call that was made before it was decided. That somebody is refused is nothing to those who form another
    /// group of the same name without them; but who names nobody goes by the name alone.
    pub(super) fn answers(&self, part: &Participation) -> bool {
        let GroupTransition::NotFormed {
            failure:
                GroupFailure {
                    refusal: Some(refusal),
                    ..
                },
            late,
            called,
        } = self
        else {
            return true;
        };
        called.contains(&part.proc)
            || late.as_ref().is_some_and(|late| late.contains(&part.proc))
            || part
                .construct
                .as_ref()
                .is_some_and(|construct| construct.counts_on(&refusal.proc))
    }
}

impl ConstructRequest {
    /// Whether its caller takes somebody for a participant.
    fn counts_on(&self, proc: &Proc) -> bool {
        let names = match &self.role {
            ConstructRole::Leader(named) => named.iter().any(|named| named.covers(proc)),
            ConstructRole::Bootstrap(_) | ConstructRole::Member => true,
        };
        names || self.additions.iter().any(|added| added.covers(proc))
    }
}

/// When procs of each user were refused of late.
#[derive(Debug, Default)]
pub(super) struct RecentRefusals(BTreeMap<u32, VecDeque<MonotonicTime>>);

impl RecentRefusals {
    /// Counts one more, unless there are too many.
    pub(super) fn one_more(&mut self, uid: u32, now: MonotonicTime) -> bool {
        let times = self.0.entry(uid).or_default();
        let has_room = times.len() < TOLD;
        if has_room {
            times.push_back(now);
        }
        has_room
    }

    /// What is longer ago does not count.
    pub(super) fn forget(&mut self, memory: Duration, now: MonotonicTime) {
        self.0.retain(|_, times| {
            times.retain(|at| *at + memory > now);
            !times.is_empty()
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

//! Refused participants of groups, and the notification of the other participants.
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

/// Number of refused calls of one user that are reported to other participants within the retention
/// time. Beyond it, only the caller gets the refusal.
const TOLD: usize = 128;

/// The refusal of a participant.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupRefusal {
    /// The refused proc.
    pub proc: Proc,
    /// The status for the proc and the other participants.
    pub status: Status,
    /// The reasons.
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

    /// Returns the infos of an event about the refusal, because replies carry a status only.
    pub(super) fn event_infos(&self, group: &GroupKey) -> Vec<Info> {
        let head = [
            Info::new(
                key::PMIX_GROUP_ID,
                Value::String(group.name.called().cloned()),
            ),
            Info::new(
                key::PMIX_EVENT_AFFECTED_PROC,
                Value::Proc(self.proc.clone()),
            ),
            // Default handlers of programs must not treat it as fatal.
            Info::new(key::PMIX_EVENT_NON_DEFAULT, Value::Bool(true)),
        ];
        // Infos of a policy must not replace those of the event itself.
        let reasons = self
            .reasons
            .iter()
            .filter(|info| info.key == REASON || head.iter().all(|own| own.key != info.key));
        head.iter().chain(reasons).cloned().collect()
    }
}

impl GroupTransition {
    /// Returns true if the reason is a refused participant.
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

    /// Returns true if this answers a call that precedes the decision. A refusal does not affect
    /// callers that form another group of the same name without the refused proc. Callers that name
    /// no procs are matched by the group's name only.
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
    /// Returns true if the caller counts on a proc as a participant.
    fn counts_on(&self, proc: &Proc) -> bool {
        let names = match &self.role {
            ConstructRole::Leader(named) => named.iter().any(|named| named.covers(proc)),
            // These callers name no procs, so any caller for the group may be one of those they
            // wait for.
            ConstructRole::Bootstrap(_) | ConstructRole::Member => true,
        };
        names || self.additions.iter().any(|added| added.covers(proc))
    }
}

/// Times of recent refusals of each user's procs.
#[derive(Debug, Default)]
pub(super) struct RecentRefusals(BTreeMap<u32, VecDeque<MonotonicTime>>);

impl RecentRefusals {
    /// Counts a refusal. Returns false if the limit is reached.
    pub(super) fn one_more(&mut self, uid: u32, now: MonotonicTime) -> bool {
        let times = self.0.entry(uid).or_default();
        let has_room = times.len() < TOLD;
        if has_room {
            times.push_back(now);
        }
        has_room
    }

    /// Forgets refusals that are older than the retention time.
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

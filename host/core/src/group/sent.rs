//! Decisions about a group that the coordinator has sent: they answer calls that servers sent before they knew of them.
use super::{DecisionSeq, GroupDecision, Participation, ServerId};
use crate::MonotonicTime;
use std::collections::{BTreeMap, BTreeSet};

/// What the last things were that servers were told of a group: what they say without knowing that is not meant any more.
#[derive(Debug, Default)]
pub(super) struct SentDecisions {
    pub(super) all: DecisionSeq,
    pub(super) each: BTreeMap<ServerId, DecisionSeq>,
    /// That somebody may not take part, which does not concern every call: until when, to whom if not to all, and what.
    pub(super) refusals: Vec<(MonotonicTime, Option<BTreeSet<ServerId>>, GroupDecision)>,
    pub(super) until: MonotonicTime,
}

impl SentDecisions {
    /// Whether a server was told something that answers a call of its procs'.
    pub(super) fn answers(&self, server: ServerId, part: &Participation) -> bool {
        let last = self
            .each
            .get(&server)
            .copied()
            .unwrap_or_default()
            .max(self.all);
        let by_refusal = self.refusals.iter().any(|(_, servers, outcome)| {
            let was_told = servers
                .as_ref()
                .is_none_or(|servers| servers.contains(&server));
            was_told && part.after < outcome.instance && outcome.what.answers(part)
        });
        part.after < last || by_refusal
    }
}

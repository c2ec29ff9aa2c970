//! Decisions about a group that the coordinator has sent. They answer calls that servers sent
//! before they received them.
use super::{DecisionSeq, GroupDecision, Participation, ServerId};
use crate::MonotonicTime;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The last decisions about a group that servers were sent.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SentDecisions {
    pub(super) all: DecisionSeq,
    pub(super) by_server: BTreeMap<ServerId, DecisionSeq>,
    /// Refusals, which do not answer every call: the end of their retention, the servers (none:
    /// all), and the decision.
    pub(super) refusals: Vec<(MonotonicTime, Option<BTreeSet<ServerId>>, GroupDecision)>,
    pub(super) until: MonotonicTime,
}

impl SentDecisions {
    /// Gives a server another number.
    pub(super) fn renumber(&mut self, old: ServerId, new: ServerId) {
        if let Some(last) = self.by_server.remove(&old) {
            self.by_server.insert(new, last);
        }
        let refusals = self.refusals.iter_mut();
        for servers in refusals.filter_map(|(_, servers, _)| servers.as_mut()) {
            if servers.remove(&old) {
                servers.insert(new);
            }
        }
    }

    /// Returns true if a server was sent a decision that answers a call of its procs.
    pub(super) fn answers(&self, server: ServerId, part: &Participation) -> bool {
        let last = self
            .by_server
            .get(&server)
            .copied()
            .unwrap_or_default()
            .max(self.all);
        // A refusal does not answer all callers of the name, so refusals are searched one by one.
        let by_refusal = self.refusals.iter().any(|(_, servers, outcome)| {
            let was_sent = servers
                .as_ref()
                .is_none_or(|servers| servers.contains(&server));
            was_sent && part.after < outcome.instance && outcome.transition.answers(part)
        });
        part.after < last || by_refusal
    }
}

//! Requests for values between nodes: those of this server that the host environment passes on, and
//! those of other nodes for values of local procs.
use super::Action;
use peal_model::{Nspace, Proc, RankData, Status, code};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Identifier of another node's request for the values of a local proc.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ModexId(pub u64);

/// Largest number of requests of other nodes that wait for one proc. Each node needs one.
const MAX_WAITING: usize = 16_384;

/// Open requests.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct NodeExchange {
    /// Procs of other nodes whose values were requested.
    requested: BTreeSet<Proc>,
    /// Requests of other nodes that wait until a local proc puts values.
    waiting: BTreeMap<Proc, Vec<ModexId>>,
}

impl NodeExchange {
    /// Notes that the values of a proc are needed. Returns true if they must be requested.
    pub(super) fn request(&mut self, proc: &Proc) -> bool {
        self.requested.insert(proc.clone())
    }

    /// Notes that a request was answered. The next get requests again.
    pub(super) fn received(&mut self, proc: &Proc) {
        self.requested.remove(proc);
    }

    /// Holds a request until a local proc puts values. Returns the refusal of one too many.
    pub(super) fn wait(&mut self, proc: Proc, id: ModexId) -> Option<Action> {
        let waiting = self.waiting.entry(proc).or_default();
        if waiting.len() >= MAX_WAITING {
            return Some(refusal(id, code::PMIX_ERR_OUT_OF_RESOURCE));
        }
        waiting.push(id);
        None
    }

    /// Answers the requests that wait for a proc, which has put values or has left.
    pub(super) fn answer(
        &mut self,
        proc: &Proc,
        values: impl FnOnce() -> Option<RankData>,
    ) -> Vec<Action> {
        // Values are only copied if a node waits for them.
        let Some(waiting) = self.waiting.remove(proc) else {
            return Vec::new();
        };
        let values = values().ok_or(code::PMIX_ERR_NOT_FOUND);
        let answer = |to| Action::ModexReply {
            to,
            values: values.clone(),
        };
        waiting.into_iter().map(answer).collect()
    }

    /// Refuses the requests that wait for procs of a removed job.
    pub(super) fn drop_job(&mut self, nspace: &Nspace) -> Vec<Action> {
        self.requested.retain(|proc| proc.nspace != *nspace);
        let gone = self
            .waiting
            .extract_if(.., |proc, _| proc.nspace == *nspace);
        gone.flat_map(|(_, waiting)| waiting)
            .map(|id| refusal(id, code::PMIX_ERR_INVALID_NAMESPACE))
            .collect()
    }
}

fn refusal(to: ModexId, status: Status) -> Action {
    Action::ModexReply {
        to,
        values: Err(status),
    }
}

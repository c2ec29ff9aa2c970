//! State of the fences of one set of procs at one server.
use super::{FenceOutcome, MAX_RESULTS, gathered::Gathered, tree::FenceTree};
use crate::{
    MonotonicTime,
    fence::{Completeness, FenceContribution, FenceId},
    group::ServerId,
};
use peal_model::Status;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The part of this server in one fence.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) enum OwnPart {
    /// No local proc has called, and no other server has asked.
    NotBegun,
    /// Local procs are awaited.
    Open(FenceId),
    /// The local procs have arrived, and wait for the result.
    Contributed(FenceId, FenceContribution),
    /// The local procs wait no more.
    GivenUp,
}

/// A contribution that was sent upwards.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SentPart {
    pub(super) to: ServerId,
    /// The root for which it was meant.
    pub(super) root: ServerId,
    /// The servers that it covered.
    pub(super) covered: BTreeSet<ServerId>,
}

/// A result, and the servers that have yet to get it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KnownResult {
    pub(super) outcome: FenceOutcome,
    /// The root that has decided or confirmed it.
    pub(super) root: ServerId,
    /// Servers that may have contributed for a later root: then they take a result of that one alone.
    pub(super) waiting: BTreeSet<ServerId>,
}

/// A fence that is not decided.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Round {
    pub(super) own: OwnPart,
    /// Contributions of other servers.
    pub(super) below: Gathered,
    /// Servers that have contributed or given up here. They get the result, too, also if they are not
    /// below this one as it knows: servers may hear of several losses in different orders.
    pub(super) heard: BTreeSet<ServerId>,
    /// Servers at which this one has contributed. It takes a result of them.
    pub(super) asked: BTreeSet<ServerId>,
    /// Status with which procs of this server, or of one below it, have given up.
    pub(super) failure: Option<Status>,
    /// A result that a server below this one got from a root that is lost.
    pub(super) inherited: Option<(ServerId, FenceOutcome)>,
    /// True if a server above this one has asked. Then this one contributes also while it does not
    /// know the servers of all procs.
    pub(super) is_asked: bool,
    /// The contribution that was sent last.
    pub(super) sent: Option<SentPart>,
    /// The number of contributions that were sent.
    pub(super) number: u64,
    /// The server to which the failure or the inherited result was sent.
    pub(super) passed_to: Option<ServerId>,
    /// Servers that have left, or removed their procs of the set, since the fence began here.
    pub(super) lost: BTreeSet<ServerId>,
    /// Partial if a proc of the set had ended with its server before.
    pub(super) attendance: Completeness,
    /// Time at which this server asks those below it that have not contributed.
    pub(super) ask_at: Option<MonotonicTime>,
}

impl Round {
    pub(super) fn new(attendance: Completeness) -> Round {
        Round {
            own: OwnPart::NotBegun,
            below: Gathered::default(),
            heard: BTreeSet::new(),
            asked: BTreeSet::new(),
            failure: None,
            inherited: None,
            is_asked: false,
            sent: None,
            number: 0,
            passed_to: None,
            lost: BTreeSet::new(),
            attendance,
            ask_at: None,
        }
    }

    /// Returns true if procs of this server or other servers wait for the fence.
    pub(super) fn is_awaited(&self) -> bool {
        matches!(self.own, OwnPart::Contributed(..)) || self.is_asked || !self.heard.is_empty()
    }
}

/// The place of this server in the tree of a set, as it was when a change was last handled.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct TreePlace {
    pub(super) root: Option<ServerId>,
    pub(super) parent: Option<ServerId>,
    pub(super) children: Vec<ServerId>,
}

impl TreePlace {
    pub(super) fn of(me: ServerId, tree: &FenceTree) -> TreePlace {
        TreePlace {
            root: tree.root(),
            parent: tree.parent_of(me),
            children: tree.children_of(me).to_vec(),
        }
    }
}

/// The fences of one set of procs.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct FenceSet {
    /// The last generation that began here.
    begun: u64,
    /// Later generations that have failed before they began here.
    skipped: BTreeSet<u64>,
    /// The generation up to which all are over here.
    pub(super) completed: u64,
    /// Generations after that which are over here.
    over: BTreeSet<u64>,
    pub(super) open: BTreeMap<u64, Round>,
    /// Results that another server may still need: a server may be lost while it tells them.
    pub(super) results: BTreeMap<u64, KnownResult>,
    /// The tree, and the number of changes of the view from which it was computed.
    pub(super) tree: Option<(u64, Arc<FenceTree>)>,
    pub(super) place: TreePlace,
    /// The last generation of which servers below this one may know a result that it does not, because
    /// a root was lost.
    pub(super) inherited_up_to: u64,
}

impl FenceSet {
    pub(super) fn new(me: ServerId, changes: u64, tree: Arc<FenceTree>) -> FenceSet {
        FenceSet {
            place: TreePlace::of(me, &tree),
            tree: Some((changes, tree)),
            ..FenceSet::default()
        }
    }

    /// Returns the last generation that began here or was skipped in order.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// Returns the next generation, which begins here.
    pub(super) fn begin(&mut self) -> u64 {
        loop {
            self.begun += 1;
            if !self.skipped.remove(&self.begun) {
                return self.begun;
            }
        }
    }

    /// Returns true if a generation is over here.
    pub(super) fn is_over(&self, generation: u64) -> bool {
        generation <= self.completed || self.over.contains(&generation)
    }

    /// Returns true if servers wait until a root confirms the result of a generation, which is later
    /// than the one that has decided.
    pub(super) fn awaits_root(&self, generation: u64, root: Option<ServerId>) -> bool {
        let result = self.results.get(&generation);
        result.is_some_and(|result| !result.waiting.is_empty() && Some(result.root) < root)
    }

    /// Records the result of a generation. Local procs that call later begin a later generation.
    pub(super) fn decide(&mut self, generation: u64, result: KnownResult) {
        if generation > self.begun {
            self.skipped.insert(generation);
        }
        self.over.insert(generation);
        while self.over.remove(&(self.completed + 1)) {
            self.completed += 1;
        }
        self.results.insert(generation, result);
        // Only failures accumulate: a fence that succeeds settles those before it.
        if self.results.len() > MAX_RESULTS {
            self.results.pop_first();
        }
    }

    /// Forgets the results that all servers have.
    pub(super) fn settle(&mut self, settled: u64) {
        self.results = self.results.split_off(&settled.saturating_add(1));
    }
}

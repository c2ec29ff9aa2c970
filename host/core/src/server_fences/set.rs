//! State of the fences of one set of procs at one server.
use super::{FenceOutcome, MAX_RESULTS};
use crate::{
    MonotonicTime,
    fence::{Completeness, FenceContribution, FenceId},
    group::ServerId,
};
use peal_model::Status;
use std::collections::{BTreeMap, BTreeSet};

/// The part of this server in one fence.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum OwnPart {
    /// No local proc has called, and the root has not asked.
    NotBegun,
    /// Local procs are awaited.
    Open(FenceId),
    /// The local procs have arrived, and wait for the result.
    Contributed(FenceId, FenceContribution),
    /// The local procs wait no more, and got this status.
    GivenUp(Status),
}

/// A fence that is not decided.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) own: OwnPart,
    /// Contributions of other servers, with the generation that is over there.
    pub(super) others: BTreeMap<ServerId, (u64, FenceContribution)>,
    /// Servers that have left, or removed their procs of the set, since the fence began here.
    pub(super) lost: BTreeSet<ServerId>,
    /// Partial if a proc of the set had ended with its server before.
    pub(super) attendance: Completeness,
    /// Time at which the root asks the servers that have not contributed.
    pub(super) ask_at: Option<MonotonicTime>,
}

impl Round {
    pub(super) fn new(attendance: Completeness) -> Round {
        Round {
            own: OwnPart::NotBegun,
            others: BTreeMap::new(),
            lost: BTreeSet::new(),
            attendance,
            ask_at: None,
        }
    }

    /// Returns true if a server has contributed, as far as this one knows.
    pub(super) fn has(&self, server: ServerId, me: ServerId) -> bool {
        match &self.own {
            OwnPart::Contributed(..) if server == me => true,
            _ => self.others.contains_key(&server),
        }
    }

    /// Returns the contributions of all servers as one.
    pub(super) fn merged(&self, me: ServerId) -> FenceContribution {
        let own = match &self.own {
            OwnPart::Contributed(_, own) => Some(own),
            _ => None,
        };
        let others = self.others.values().map(|(_, contribution)| contribution);
        let mut all = FenceContribution {
            data: Vec::new(),
            attendance: self.attendance,
        };
        for contribution in own.into_iter().chain(others) {
            all.data.extend(contribution.data.iter().cloned());
            all.attendance = all.attendance.and(contribution.attendance);
        }
        // A server that contributed before it left has brought all of its procs.
        if self.lost.iter().any(|server| !self.has(*server, me)) {
            all.attendance = Completeness::Partial;
        }
        all
    }
}

/// The fences of one set of procs.
#[derive(Debug, Default)]
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
    /// Results that another server may still need: the root may be lost while it tells them.
    pub(super) results: BTreeMap<u64, FenceOutcome>,
    /// The root, as it was last computed.
    pub(super) root: Option<ServerId>,
    /// The last generation of which others may know a result that this server does not, because it
    /// became the root by the loss of another one.
    pub(super) inherited_up_to: u64,
}

impl FenceSet {
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

    /// Records the result of a generation. Local procs that call later begin a later generation.
    pub(super) fn decide(&mut self, generation: u64, outcome: FenceOutcome) {
        if generation > self.begun {
            self.skipped.insert(generation);
        }
        self.over.insert(generation);
        while self.over.remove(&(self.completed + 1)) {
            self.completed += 1;
        }
        self.results.insert(generation, outcome);
        // Only failures accumulate: a fence that succeeds settles those before it.
        if self.results.len() > MAX_RESULTS {
            self.results.pop_first();
        }
    }

    /// Forgets the results that all servers have.
    pub(super) fn settle(&mut self, settled: u64) {
        self.results = self.results.split_off(&settled.saturating_add(1));
    }

    /// Returns the generation up to which all servers have the results, as far as their
    /// contributions to a fence say.
    pub(super) fn settled_by(
        &self,
        round: &Round,
        servers: &BTreeSet<ServerId>,
        me: ServerId,
    ) -> u64 {
        let others = servers.iter().filter(|server| **server != me);
        let completed =
            others.map(|server| round.others.get(server).map_or(0, |(up_to, _)| *up_to));
        completed.fold(self.completed, u64::min)
    }

    /// Returns the result of a generation.
    pub(super) fn result(&self, generation: u64) -> Option<FenceOutcome> {
        self.results.get(&generation).cloned()
    }
}

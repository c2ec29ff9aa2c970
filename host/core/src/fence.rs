//! Fences: local collectives of procs, identified by the set of procs that they name and by
//! purpose. Connect and disconnect use them, too.
use crate::{
    MonotonicTime,
    deadlines::Deadlines,
    job::NodeRoute,
    modex::PutSnapshot,
    request_id::{PeerId, RequestId},
};
use peal_model::{NamedProcs, Nspace, Proc};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Identifier of a fence on this server, as the server transport knows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct FenceId(pub u64);

/// The purpose of a collective. Procs with different purposes do not wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Purpose {
    /// Synchronization.
    Fence,
    /// Connecting procs.
    Connect,
    /// Disconnecting procs.
    Disconnect,
}

impl Purpose {
    /// Returns true if finalized procs are waited for, because they may initialize again. They have
    /// left connections for good.
    pub(crate) fn awaits_finalized(self) -> bool {
        self == Purpose::Fence
    }
}

/// The handling of put values in a fence (`PMIX_COLLECT_DATA`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Collect {
    /// The values are exchanged.
    Data,
    /// The values are not exchanged.
    Nothing,
}

/// The completeness of a collective.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Completeness {
    /// All participants arrived.
    #[default]
    Full,
    /// A participant ended before it arrived.
    Partial,
}

impl Completeness {
    /// Returns the completeness of two parts of one fence together.
    pub fn and(self, other: Completeness) -> Completeness {
        if self == Completeness::Full {
            other
        } else {
            Completeness::Partial
        }
    }
}

/// The contribution of one server, or of all other servers, to a fence.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct FenceContribution {
    /// Values that its procs have put for procs of other servers.
    pub data: Vec<PutSnapshot>,
    /// The completeness of its procs.
    pub attendance: Completeness,
}

/// The way of a collective to its participants on other nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum FenceReach {
    /// There are none.
    ThisServer,
    /// Other servers have some. The collective has this generation there.
    Servers(u64),
    /// The host environment has placed some.
    HostEnvironment,
}

#[derive(Debug, Serialize, Deserialize)]
struct Fence {
    id: FenceId,
    purpose: Purpose,
    procs: NamedProcs,
    reach: FenceReach,
    missing: BTreeSet<Proc>,
    arrived: BTreeSet<Proc>,
    waiting: Vec<RequestId>,
    collect: Collect,
    attendance: Completeness,
    deadline: Option<MonotonicTime>,
}

/// A fence whose local procs have all arrived.
#[derive(Debug)]
pub(crate) struct LocallyComplete {
    pub(crate) id: FenceId,
    pub(crate) purpose: Purpose,
    pub(crate) procs: NamedProcs,
    pub(crate) reach: FenceReach,
    pub(crate) arrived: Vec<Proc>,
    pub(crate) collect: Collect,
    pub(crate) attendance: Completeness,
}

/// The arrival of a proc.
#[derive(Debug)]
pub(crate) struct FenceArrival {
    pub(crate) proc: Proc,
    pub(crate) request: RequestId,
    pub(crate) collect: Collect,
    /// The time of the arrival.
    pub(crate) at: MonotonicTime,
    pub(crate) deadline: Option<MonotonicTime>,
}

/// A fence that is complete on all servers.
#[derive(Debug)]
pub(crate) struct CompletedFence {
    pub(crate) purpose: Purpose,
    /// The named procs.
    pub(crate) procs: NamedProcs,
    pub(crate) reach: FenceReach,
    /// The local procs that arrived.
    pub(crate) arrived: BTreeSet<Proc>,
    pub(crate) waiting: Vec<RequestId>,
    pub(crate) attendance: Completeness,
}

/// The participants of a fence.
#[derive(Debug)]
pub(crate) struct Participants {
    /// The named procs. Fences with equal sets are the same.
    pub(crate) procs: NamedProcs,
    /// The local ones that can still arrive.
    pub(crate) expected: BTreeSet<Proc>,
    /// Partial if one of them has ended already.
    pub(crate) attendance: Completeness,
    /// The way to the others, if there are any.
    pub(crate) route: Option<NodeRoute>,
}

/// All pending fences.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Fences {
    open: BTreeMap<FenceId, Fence>,
    next: u64,
    deadlines: Deadlines,
    /// Maximum number of fences in which one proc waits.
    #[serde(skip)]
    max: usize,
}

impl Fences {
    pub(crate) fn new(max: usize) -> Fences {
        Fences {
            open: BTreeMap::new(),
            next: 0,
            deadlines: Deadlines::default(),
            max,
        }
    }

    pub(crate) fn set_limit(&mut self, max: usize) {
        self.max = max;
    }

    /// Returns the fence of this set that waits for this proc, if any. A proc that calls twice with
    /// the same set before the first call is answered takes part in two fences.
    pub(crate) fn awaiting(
        &self,
        purpose: Purpose,
        procs: &NamedProcs,
        proc: &Proc,
    ) -> Option<FenceId> {
        let awaits = |fence: &&Fence| {
            fence.missing.contains(proc) && fence.purpose == purpose && fence.procs == *procs
        };
        // Ids increase, so the oldest of several fences is found first.
        self.open.values().find(awaits).map(|fence| fence.id)
    }

    /// Starts a fence.
    pub(crate) fn start(
        &mut self,
        purpose: Purpose,
        participants: Participants,
        reach: FenceReach,
    ) -> FenceId {
        let Participants {
            procs,
            expected,
            attendance,
            route: _,
        } = participants;
        // Never reused: a result may still come for a fence that has ended.
        self.next += 1;
        let id = FenceId(self.next);
        let arrived = BTreeSet::new();
        let waiting = Vec::new();
        let collect = Collect::Nothing;
        let missing = expected;
        let fence = Fence {
            id,
            purpose,
            procs,
            reach,
            missing,
            arrived,
            waiting,
            collect,
            attendance,
            deadline: None,
        };
        self.open.insert(id, fence);
        id
    }

    /// Returns a fence that misses no proc from its start on.
    pub(crate) fn complete_at_start(&self, id: FenceId) -> Option<LocallyComplete> {
        self.open.get(&id)?.complete()
    }

    /// Returns true if a proc waits in the maximum number of fences.
    pub(crate) fn is_busy(&self, proc: &Proc) -> bool {
        self.open
            .values()
            .filter(|fence| fence.arrived.contains(proc))
            .count()
            >= self.max
    }

    /// Adds the arrival of a proc. Returns the fence if it was the last one awaited here.
    pub(crate) fn arrive(&mut self, id: FenceId, arrival: FenceArrival) -> Option<LocallyComplete> {
        let fence = self.open.get_mut(&id)?;
        fence.missing.remove(&arrival.proc);
        fence.arrived.insert(arrival.proc);
        fence.waiting.push(arrival.request);
        // Participants may differ here. One that needs the values is enough.
        if arrival.collect == Collect::Data {
            fence.collect = Collect::Data;
        }
        // A timeout ends the fence for all participants, so the earliest one counts.
        let deadline = [fence.deadline, arrival.deadline]
            .into_iter()
            .flatten()
            .min();
        let before = std::mem::replace(&mut fence.deadline, deadline);
        before.into_iter().for_each(|at| self.deadlines.remove(at));
        deadline.into_iter().for_each(|at| self.deadlines.add(at));
        fence.complete()
    }

    /// Removes an ended proc from the fences that wait for it. Returns those that are complete by
    /// that.
    pub(crate) fn leave(&mut self, proc: &Proc) -> Vec<LocallyComplete> {
        self.go_on_without(proc, |_| true)
    }

    /// Removes a finalized proc from the collectives that do not wait for finalized procs. Returns
    /// those that are complete by that.
    pub(crate) fn finalized(&mut self, proc: &Proc) -> Vec<LocallyComplete> {
        self.go_on_without(proc, |purpose| !purpose.awaits_finalized())
    }

    fn go_on_without(
        &mut self,
        proc: &Proc,
        concerned: impl Fn(Purpose) -> bool,
    ) -> Vec<LocallyComplete> {
        let mut complete = Vec::new();
        for fence in self
            .open
            .values_mut()
            .filter(|fence| concerned(fence.purpose))
        {
            // A proc that arrived before its end has contributed, so that fence is not partial.
            if fence.missing.remove(proc) {
                fence.attendance = Completeness::Partial;
                complete.extend(fence.complete());
            }
        }
        complete
    }

    /// Removes a fence that is complete on all servers.
    pub(crate) fn finish(&mut self, id: FenceId) -> Option<CompletedFence> {
        let fence = self.open.remove(&id)?;
        // Without this, `deadline` would go on returning the time of a fence that is gone.
        fence
            .deadline
            .into_iter()
            .for_each(|at| self.deadlines.remove(at));
        let Fence {
            purpose,
            procs,
            reach,
            arrived,
            waiting,
            attendance,
            ..
        } = fence;
        Some(CompletedFence {
            purpose,
            procs,
            reach,
            arrived,
            waiting,
            attendance,
        })
    }

    /// Removes fences and returns them.
    fn give_up(&mut self, gone: Vec<FenceId>) -> Vec<CompletedFence> {
        gone.into_iter().filter_map(|id| self.finish(id)).collect()
    }

    /// Removes the connects that an ended proc takes part in, and returns them.
    pub(crate) fn unconnectable(&mut self, proc: &Proc) -> Vec<CompletedFence> {
        // Arrived procs count, too: the others would be connected with a proc that has ended.
        let has_part =
            |fence: &&Fence| fence.missing.contains(proc) || fence.arrived.contains(proc);
        let connects = self
            .open
            .values()
            .filter(|fence| fence.purpose == Purpose::Connect)
            .filter(has_part);
        let gone = connects.map(|fence| fence.id).collect();
        self.give_up(gone)
    }

    /// Removes a closed connection. A fence that has no waiting request left is removed, too, unless
    /// other servers wait for it.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        let mut deserted = Vec::new();
        for fence in self
            .open
            .values_mut()
            .filter(|fence| !fence.waiting.is_empty())
        {
            fence.waiting.retain(|request| request.peer != peer);
            // A fence that misses no proc is being gathered. It stays, because the values of other
            // servers are stored only for a fence that exists.
            let is_awaited = matches!(fence.reach, FenceReach::Servers(_));
            if fence.waiting.is_empty() && !fence.missing.is_empty() && !is_awaited {
                deserted.push(fence.id);
            }
        }
        deserted.into_iter().for_each(|id| drop(self.finish(id)));
    }

    /// Removes the fences that name a removed job, and returns them.
    pub(crate) fn drop_job(&mut self, nspace: &Nspace) -> Vec<CompletedFence> {
        let names = |fence: &&Fence| fence.procs.iter().any(|proc| proc.nspace == *nspace);
        let gone: Vec<FenceId> = self
            .open
            .values()
            .filter(names)
            .map(|fence| fence.id)
            .collect();
        self.give_up(gone)
    }

    /// Removes the fences that a restarted proc takes part in, because its new process does not
    /// know them. Returns the fences.
    pub(crate) fn drop_proc(&mut self, proc: &Proc) -> Vec<CompletedFence> {
        let has_part =
            |fence: &&Fence| fence.missing.contains(proc) || fence.arrived.contains(proc);
        let gone: Vec<FenceId> = self
            .open
            .values()
            .filter(has_part)
            .map(|fence| fence.id)
            .collect();
        self.give_up(gone)
    }

    /// Removes the fences that are past their deadline, and returns them.
    pub(crate) fn expire(&mut self, now: MonotonicTime) -> Vec<CompletedFence> {
        // The sorted deadlines spare a look at every fence at each tick.
        if self.deadlines.next().is_none_or(|next| next > now) {
            return Vec::new();
        }
        let due: Vec<FenceId> = self
            .open
            .values()
            .filter(|fence| fence.deadline.is_some_and(|at| at <= now))
            .map(|fence| fence.id)
            .collect();
        self.give_up(due)
    }

    /// Returns the next deadline.
    pub(crate) fn deadline(&self) -> Option<MonotonicTime> {
        self.deadlines.next()
    }
}

impl Fence {
    fn complete(&self) -> Option<LocallyComplete> {
        self.missing.is_empty().then(|| LocallyComplete {
            id: self.id,
            purpose: self.purpose,
            procs: self.procs.clone(),
            reach: self.reach,
            arrived: self.arrived.iter().cloned().collect(),
            collect: self.collect,
            attendance: self.attendance,
        })
    }
}

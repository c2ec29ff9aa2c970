//! Fences: procs wait for each other, by the set of procs they name and by what for. Procs that connect or disconnect wait the same way.
use crate::{
    MonotonicTime,
    deadlines::Deadlines,
    server::{PeerId, RequestId},
};
use peal_model::{NamedProcs, Nspace, Proc, RankData};
use std::collections::{BTreeMap, BTreeSet};

/// A fence under way on this server, as the fabric knows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FenceId(pub u64);

/// What procs wait for each other for. Those who wait for different things do not wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Purpose {
    /// To be at the same point.
    Fence,
    /// To connect.
    Connect,
    /// To disconnect.
    Disconnect,
}

impl Purpose {
    /// Whether procs that have finalized are waited for, since they may initialize again. To connections they have left.
    pub(crate) fn awaits_finalized(self) -> bool {
        self == Purpose::Fence
    }
}

/// Whether the values that were put are handed round with the fence (`PMIX_COLLECT_DATA`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Collect {
    /// They are.
    Data,
    /// They stay where they are.
    Nothing,
}

/// Whether everybody took part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completeness {
    /// Everybody did.
    Full,
    /// Somebody ended before arriving.
    Partial,
}

impl Completeness {
    /// That of two parts of one fence.
    pub fn and(self, other: Completeness) -> Completeness {
        if self == Completeness::Full {
            other
        } else {
            Completeness::Partial
        }
    }
}

/// What a server brings to a fence, or the others bring to it.
#[derive(Clone, PartialEq, Debug)]
pub struct FenceContribution {
    /// What its procs have put for others.
    pub data: Vec<RankData>,
    /// Whether all of its procs took part.
    pub attendance: Completeness,
}

#[derive(Debug)]
struct Fence {
    id: FenceId,
    purpose: Purpose,
    procs: NamedProcs,
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
    pub(crate) arrived: Vec<Proc>,
    pub(crate) collect: Collect,
    pub(crate) attendance: Completeness,
}

/// A proc's arrival.
#[derive(Debug)]
pub(crate) struct FenceArrival {
    pub(crate) proc: Proc,
    pub(crate) request: RequestId,
    pub(crate) collect: Collect,
    pub(crate) deadline: Option<MonotonicTime>,
}

/// A fence that is over everywhere.
#[derive(Debug)]
pub(crate) struct CompletedFence {
    pub(crate) purpose: Purpose,
    /// The procs named.
    pub(crate) procs: NamedProcs,
    /// Those of them who arrived here, and who of them still wait.
    pub(crate) arrived: BTreeSet<Proc>,
    pub(crate) waiting: Vec<RequestId>,
    pub(crate) attendance: Completeness,
}

/// Who takes part in a fence.
#[derive(Debug)]
pub(crate) struct Participants {
    /// The procs named, as a set: two fences are the same if their sets are.
    pub(crate) procs: NamedProcs,
    /// Those of them that live here and can still arrive.
    pub(crate) expected: BTreeSet<Proc>,
    /// Whether one of them has ended already.
    pub(crate) attendance: Completeness,
}

/// All fences under way.
#[derive(Debug)]
pub(crate) struct Fences {
    open: BTreeMap<FenceId, Fence>,
    next: u64,
    deadlines: Deadlines,
    /// How many fences one proc may wait in.
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

    /// The fence of this set that waits for this proc, if there is one. A proc that calls twice with the same set before the
    /// first call is answered takes part in two fences.
    pub(crate) fn awaiting(
        &self,
        purpose: Purpose,
        procs: &NamedProcs,
        proc: &Proc,
    ) -> Option<FenceId> {
        let awaits = |fence: &&Fence| {
            fence.missing.contains(proc) && fence.purpose == purpose && fence.procs == *procs
        };
        self.open.values().find(awaits).map(|fence| fence.id)
    }

    /// Begins a fence.
    pub(crate) fn start(&mut self, purpose: Purpose, participants: Participants) -> FenceId {
        let Participants {
            procs,
            expected,
            attendance,
        } = participants;
        self.next += 1;
        let id = FenceId(self.next);
        let (arrived, waiting, collect) = (BTreeSet::new(), Vec::new(), Collect::Nothing);
        let missing = expected;
        let fence = Fence {
            id,
            purpose,
            procs,
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

    /// Whether this proc waits in as many fences as it may.
    pub(crate) fn is_busy(&self, proc: &Proc) -> bool {
        self.open
            .values()
            .filter(|fence| fence.arrived.contains(proc))
            .count()
            >= self.max
    }

    /// Counts a proc in, and says whether that was the last that had to come.
    pub(crate) fn arrive(&mut self, id: FenceId, arrival: FenceArrival) -> Option<LocallyComplete> {
        let fence = self.open.get_mut(&id)?;
        fence.missing.remove(&arrival.proc);
        fence.arrived.insert(arrival.proc);
        fence.waiting.push(arrival.request);
        if arrival.collect == Collect::Data {
            fence.collect = Collect::Data;
        }
        let deadline = [fence.deadline, arrival.deadline]
            .into_iter()
            .flatten()
            .min();
        let before = std::mem::replace(&mut fence.deadline, deadline);
        before.into_iter().for_each(|at| self.deadlines.remove(at));
        deadline.into_iter().for_each(|at| self.deadlines.add(at));
        fence.complete()
    }

    /// A proc has ended and will not arrive any more: fences that wait for it go on without it.
    pub(crate) fn leave(&mut self, proc: &Proc) -> Vec<LocallyComplete> {
        self.go_on_without(proc, |_| true)
    }

    /// A proc has finalized: fences that do not wait for such procs go on without it.
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
            if fence.missing.remove(proc) {
                fence.attendance = Completeness::Partial;
                complete.extend(fence.complete());
            }
        }
        complete
    }

    /// The fence is over everywhere.
    pub(crate) fn finish(&mut self, id: FenceId) -> Option<CompletedFence> {
        let fence = self.open.remove(&id)?;
        fence
            .deadline
            .into_iter()
            .for_each(|at| self.deadlines.remove(at));
        let Fence {
            purpose,
            procs,
            arrived,
            waiting,
            attendance,
            ..
        } = fence;
        Some(CompletedFence {
            purpose,
            procs,
            arrived,
            waiting,
            attendance,
        })
    }

    /// Who waits in fences that come to nothing.
    fn give_up(&mut self, gone: Vec<FenceId>) -> Vec<RequestId> {
        gone.into_iter()
            .filter_map(|id| self.finish(id))
            .flat_map(|finished| finished.waiting)
            .collect()
    }

    /// A proc has ended and can be connected with nobody: who waits to connect with it.
    pub(crate) fn unconnectable(&mut self, proc: &Proc) -> Vec<RequestId> {
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

    /// A connection is closed. A fence in which nobody waits any more is gone with it.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        let mut deserted = Vec::new();
        for fence in self
            .open
            .values_mut()
            .filter(|fence| !fence.waiting.is_empty())
        {
            fence.waiting.retain(|request| request.peer != peer);
            if fence.waiting.is_empty() && !fence.missing.is_empty() {
                deserted.push(fence.id);
            }
        }
        deserted.into_iter().for_each(|id| drop(self.finish(id)));
    }

    /// A job is gone: who waits in fences that name it; the fences are gone, too.
    pub(crate) fn drop_job(&mut self, nspace: &Nspace) -> Vec<RequestId> {
        let names = |fence: &&Fence| fence.procs.iter().any(|proc| proc.nspace == *nspace);
        let gone: Vec<FenceId> = self
            .open
            .values()
            .filter(names)
            .map(|fence| fence.id)
            .collect();
        self.give_up(gone)
    }

    /// A proc starts anew and knows of no fence: who waits in those that it has a part in; the fences are gone.
    pub(crate) fn drop_proc(&mut self, proc: &Proc) -> Vec<RequestId> {
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

    /// Those who wait in fences whose time is over; the fences are gone.
    pub(crate) fn expire(&mut self, now: MonotonicTime) -> Vec<RequestId> {
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

    /// When the next fence's time is over.
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
            arrived: self.arrived.iter().cloned().collect(),
            collect: self.collect,
            attendance: self.attendance,
        })
    }
}

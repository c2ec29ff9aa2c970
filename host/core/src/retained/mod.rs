//! Events kept for those who cannot hear them yet: procs that register late, connections that read slowly.
//!
//! Every event that is spread has a number. An event is *kept* as long as it is in the [`ring`], *owed* to a proc that it is
//! meant for and that no connection of has heard it, or *held* for a connection that asked for it and is catching up.
//! How many of these there are is in a [`RefCounts`]; at zero the event goes.
#[cfg(test)]
mod check;
mod code_counts;
mod index;
mod intervals;
mod readers;
mod ref_counts;
mod ring;
mod seq;
mod spill_owner;

use crate::{
    class::{Class, EventSummary},
    server::PeerId,
    user_bytes::UserBytes,
    user_scope::UserScope,
};
use code_counts::CodeCounts;
use index::{Set, UserIndexes, in_tree};
use intervals::Intervals;
use peal_model::{Event, Nspace, Proc, Rank, Size, Status};
use readers::LaggingPeer;
pub(crate) use readers::{DeliveryReason, NextRetained, Waits};
use ref_counts::RefCounts;
use ring::{Ring, RingEntry};
pub use seq::Seq;
use spill_owner::SpillOwner;
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

/// How much may be kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetentionLimits {
    /// Events in the ring ...
    pub(crate) ring: usize,
    /// ... and the bytes that they take.
    pub(crate) ring_bytes: usize,
    /// Bytes that the contents of all other events may take before they are spilled.
    pub(crate) memory: usize,
    /// Bytes that the spilled events of one user may take.
    pub(crate) user_spill: usize,
    /// Bytes that it may take to know what is kept, and for whom; half of them for what one user needs.
    pub(crate) index: usize,
}

/// For whom an event is kept, and who need it no more.
#[derive(Debug, Default)]
pub(crate) struct EventRecipients {
    /// Connections that hear it at once.
    pub(crate) told: BTreeSet<PeerId>,
    /// Connections that asked for it and are catching up, and whose they are.
    pub(crate) late: BTreeMap<PeerId, Proc>,
    /// Procs that it is meant for and that are told by none of their connections, and as which user they run.
    pub(crate) owed: Vec<(Proc, u32)>,
}

/// What the keeper of spilled events is to do.
#[derive(Debug)]
pub(crate) enum SpillAction {
    /// Store an event.
    Spill(Seq, Arc<Event>),
    /// Delete what is stored from the first to the last of these.
    Forget(Seq, Seq),
}

/// An event that somebody still needs.
#[derive(Debug)]
struct RetainedEvent {
    head: EventSummary,
    bytes: u32,
    /// The user who raised it, if it is for that user's procs alone.
    owner: SpillOwner,
    /// None: it is spilled, or there was no room for that.
    content: Option<Arc<Event>>,
}

/// The kept events.
#[derive(Debug)]
pub(crate) struct Retained {
    limits: RetentionLimits,
    next: Seq,
    kept: BTreeMap<Seq, RetainedEvent>,
    demand: RefCounts,
    ring: Ring,
    owed: BTreeMap<Proc, Set>,
    readers: BTreeMap<PeerId, LaggingPeer>,
    /// What all that is owed or held comes to.
    users: UserIndexes,
    /// What the contents outside of the ring take.
    bytes: usize,
    spilled: usize,
    /// What the spilled events take of users whose procs alone they are for.
    spilled_bytes: UserBytes,
    lost: u64,
    /// The events that were lost to procs, until these are told how many.
    lost_to: BTreeMap<Proc, CodeCounts>,
    chores: Vec<SpillAction>,
}

impl Retained {
    pub(crate) fn new(limits: RetentionLimits) -> Retained {
        Retained {
            ring: Ring::new(limits.ring, limits.ring_bytes),
            spilled_bytes: UserBytes::default(),
            limits,
            next: Seq::FIRST,
            kept: BTreeMap::new(),
            demand: RefCounts::default(),
            owed: BTreeMap::new(),
            readers: BTreeMap::new(),
            users: UserIndexes::default(),
            bytes: 0,
            spilled: 0,
            lost: 0,
            lost_to: BTreeMap::new(),
            chores: Vec::new(),
        }
    }

    /// Keeps an event for those who need it, if there are any.
    pub(crate) fn keep(
        &mut self,
        event: Arc<Event>,
        head: EventSummary,
        reach: UserScope,
        audience: EventRecipients,
    ) {
        let EventRecipients {
            told,
            mut late,
            mut owed,
        } = audience;
        let at = self.next;
        self.next = at.next();
        let stays = !event.is_do_not_cache();
        let rings = stays && head.class == Class::Environment && self.ring.takes_any();
        if !stays {
            owed.clear();
        }
        if !(owed.is_empty() && late.is_empty()) {
            self.limit(&mut owed, &mut late, &head);
        }
        let demand = owed.len() + late.len() + usize::from(rings);
        if demand == 0 {
            return;
        }
        let bytes = u32::try_from(Size::of_event(&event).bytes).unwrap_or(u32::MAX);
        self.kept.insert(
            at,
            RetainedEvent {
                head,
                bytes,
                owner: SpillOwner::of(reach.user()),
                content: Some(event),
            },
        );
        self.demand
            .add(at, u32::try_from(demand).unwrap_or(u32::MAX));
        let mut sets: BTreeMap<u32, u32> = BTreeMap::new();
        for (proc, uid) in owed {
            self.users
                .add(self.owed.entry(proc).or_insert_with(|| Set::of(uid)), at);
            *sets.entry(uid).or_default() += 1;
        }
        for peer in late.into_keys() {
            if let Some(reader) = self.readers.get_mut(&peer) {
                self.users.add(&mut reader.held, at);
                *sets.entry(reader.held.uid).or_default() += 1;
            }
        }
        sets.into_iter()
            .for_each(|(uid, count)| self.users.count(uid, at, count));
        if rings {
            self.ring.push(at, RingEntry { reach, told, bytes });
            self.eject();
        } else {
            self.weigh(at, bytes);
        }
    }

    /// Passes over those for whose users there is no room, as nobody can be made to wait for it here. Procs to which an event about
    /// their job is lost are told later.
    fn limit(
        &mut self,
        owed: &mut Vec<(Proc, u32)>,
        late: &mut BTreeMap<PeerId, Proc>,
        head: &EventSummary,
    ) {
        let RetentionLimits { index, .. } = self.limits;
        let (wanted, is_room) = (owed.len() + late.len(), self.index_bytes() <= index);
        // One user's backlog leaves room for the others.
        let has_room = |uid| is_room && self.users.bytes_of(uid, RECORD) <= index / 2;
        // A proc that is owed an event may have a connection that is catching up.
        let mut lost_to: BTreeSet<Proc> = owed
            .extract_if(.., |(_, uid)| !has_room(*uid))
            .map(|(proc, _)| proc)
            .collect();
        let is_passed_over = |peer: &PeerId| {
            self.readers
                .get(peer)
                .is_none_or(|reader| !has_room(reader.held.uid))
        };
        lost_to.extend(
            late.extract_if(.., |peer, _| is_passed_over(peer))
                .map(|(_, proc)| proc),
        );
        self.lost += u64::from(owed.len() + late.len() < wanted);
        if head.class == Class::JobSpecific {
            lost_to
                .iter()
                .for_each(|proc| self.count_lost(proc, head.code));
        }
    }

    /// An event of this code was lost to a proc, which is told so when it hears the next one about its job.
    fn count_lost(&mut self, proc: &Proc, code: Status) {
        match self.lost_to.get_mut(proc) {
            Some(counts) => counts.count(code),
            None => self
                .lost_to
                .entry(proc.clone())
                .or_insert_with(|| CodeCounts::new(MAX_LOST_CODES))
                .count(code),
        }
    }

    /// The number of events of the codes that it hears that were lost to a proc at most; the proc is told once.
    pub(crate) fn take_lost(&mut self, proc: &Proc, hears: impl Fn(Status) -> bool) -> u64 {
        let Some(counts) = self.lost_to.get_mut(proc) else {
            return 0;
        };
        let taken = counts.take(hears);
        if counts.total == 0 {
            self.lost_to.remove(proc);
        }
        taken
    }

    /// Whether events were lost to any proc that has not been told so.
    pub(crate) fn has_lost(&self) -> bool {
        !self.lost_to.is_empty()
    }

    /// Lets the oldest events in the ring make room.
    fn eject(&mut self) {
        while let Some(at) = self.ring.overflow() {
            let Some(RetainedEvent { head, bytes, .. }) = self.kept.get(&at) else {
                continue;
            };
            let bytes = *bytes;
            self.ring.ejected.count(head.code);
            if self.demand.at(at) > 1 {
                // Some still read it: from now on it is like what was never in the ring.
                self.demand.subtract(at, at);
                self.weigh(at, bytes);
            } else {
                self.bytes += bytes as usize;
                self.release(at, at);
            }
        }
    }

    /// Counts the contents of an event that is not in the ring, and spills them if they are too much. The older ones stay:
    /// those are read first.
    fn weigh(&mut self, at: Seq, bytes: u32) {
        self.bytes += bytes as usize;
        if self.bytes <= self.limits.memory {
            return;
        }
        let Some(kept) = self.kept.get_mut(&at) else {
            return;
        };
        let Some(event) = kept.content.take() else {
            return;
        };
        self.bytes -= bytes as usize;
        self.spilled += 1;
        let share = self.limits.user_spill;
        let charge = |uid| self.spilled_bytes.replace(uid, 0, bytes as usize, share);
        if kept
            .owner
            .uid()
            .map(charge)
            .is_none_or(|charged| charged.is_ok())
        {
            self.chores.push(SpillAction::Spill(at, event));
        } else {
            // It cannot be had again: each who needs it comes to that, and is told.
            kept.owner = SpillOwner::NOBODY;
        }
    }

    /// One less needs the events from the first to the last of these; what nobody needs goes.
    fn release(&mut self, first: Seq, last: Seq) {
        for (first, last) in self.demand.subtract(first, last) {
            let mut stored: Option<(Seq, Seq)> = None;
            for (at, kept) in self.kept.extract_if(first..=last, |_, _| true) {
                match kept.content {
                    Some(_) => self.bytes -= kept.bytes as usize,
                    None => {
                        self.spilled -= 1;
                        if let Some(uid) = kept.owner.uid() {
                            self.spilled_bytes.give_back(uid, kept.bytes as usize);
                        }
                        stored = Some((stored.map_or(at, |(first, _)| first), at));
                    }
                }
            }
            let Some((first, last)) = stored else {
                continue;
            };
            match self.chores.last_mut() {
                // A row of single ones is one order.
                Some(SpillAction::Forget(_, end)) if end.precedes(first) => *end = last,
                _ => self.chores.push(SpillAction::Forget(first, last)),
            }
        }
    }

    /// A connection of this proc was told of an event, or never will be: nothing of it is owed to the proc or held for the
    /// connection any more.
    pub(crate) fn settle(&mut self, peer: PeerId, proc: &Proc, at: Seq) {
        if let Some(owed) = self.owed.get_mut(proc) {
            let removed = self.users.remove(owed, at);
            if owed.members.pieces() == 0 {
                self.owed.remove(proc);
            }
            if removed {
                self.release(at, at);
            }
        }
        self.ring.tell(at, peer);
        self.pass_by(peer, at);
    }

    /// A connection does not want an event, whatever its proc may.
    pub(crate) fn pass_by(&mut self, peer: PeerId, at: Seq) {
        let Some(reader) = self.readers.get_mut(&peer) else {
            return;
        };
        if self.users.remove(&mut reader.held, at) {
            self.release(at, at);
        }
    }

    /// The contents of an event could not be had again.
    pub(crate) fn lose(&mut self, peer: PeerId, proc: &Proc, at: Seq) {
        self.lost += 1;
        if let Some(EventSummary {
            code,
            class: Class::JobSpecific,
            ..
        }) = self.kept.get(&at).map(|kept| kept.head)
        {
            self.count_lost(proc, code);
        }
        self.settle(peer, proc, at);
    }

    /// A proc has ended, or left: nothing is owed to it any more.
    pub(crate) fn free_proc(&mut self, proc: &Proc) {
        self.lost_to.remove(proc);
        if let Some(owed) = self.owed.remove(proc) {
            self.let_go(&owed);
        }
    }

    /// A job is gone: nothing is owed to its procs any more.
    pub(crate) fn free_job(&mut self, nspace: &Nspace) {
        let first = || Proc::new(nspace.clone(), Rank(0))..;
        let of_job = |proc: &&Proc| proc.nspace == *nspace;
        let owed = self
            .owed
            .range(first())
            .map(|(proc, _)| proc)
            .take_while(of_job);
        let lost_to = self
            .lost_to
            .range(first())
            .map(|(proc, _)| proc)
            .take_while(of_job);
        let theirs: BTreeSet<Proc> = owed.chain(lost_to).cloned().collect();
        theirs.iter().for_each(|proc| self.free_proc(proc));
    }

    /// A connection is heard no more.
    pub(crate) fn part(&mut self, peer: PeerId) {
        self.arrive(peer);
        self.ring.forget(peer);
    }

    fn let_go(&mut self, set: &Set) {
        self.users.drop_set(set);
        set.members
            .iter()
            .for_each(|(first, last)| self.release(first, last));
    }

    /// How many events of these codes (none: all) the ring ejected, at most, beside those that were heard already.
    pub(crate) fn missed(&self, codes: &[Status], hears: impl Fn(Option<Status>) -> bool) -> u64 {
        self.ring.ejected.missed(codes, hears)
    }

    /// What is to be done about spilled events, in this order.
    pub(crate) fn take_chores(&mut self) -> Vec<SpillAction> {
        mem::take(&mut self.chores)
    }

    /// How many events the ring ejected.
    pub(crate) fn ejected(&self) -> u64 {
        self.ring.ejected.total
    }

    /// How many events are kept outside of the ring, spilled ones among them.
    pub(crate) fn kept(&self) -> usize {
        self.kept.len() - self.ring.len()
    }

    /// How many of these are spilled.
    pub(crate) fn spilled(&self) -> usize {
        self.spilled
    }

    /// How often an event was lost.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// The memory that it takes to know what is kept and for whom, in bytes, nearly.
    pub(crate) fn index_bytes(&self) -> usize {
        self.kept.len() * RECORD + in_tree::<(Seq, u32)>(self.demand.pieces()) + self.users.bytes()
    }
}

/// For how many codes the events that were lost to one proc are counted apart. Each proc takes some memory for it.
const MAX_LOST_CODES: usize = 8;

/// The memory that each kept event takes beside its contents.
const RECORD: usize = in_tree::<(Seq, RetainedEvent)>(1);

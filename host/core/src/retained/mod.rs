//! Events kept for those who cannot hear them yet: procs that register late, connections that read slowly.
//!
//! Every event that is spread has a number. An event is *kept* as long as it is in the [`ring`], *owed* to a proc that it is
//! meant for and that no connection of has heard it, or *held* for a connection that asked for it and is catching up.
//! How many of these there are is in a [`Tally`]; at zero the event goes.
mod intervals;
mod ring;
mod seq;
mod tally;

use crate::{
    class::{Class, Head},
    reach::Reach,
    server::PeerId,
};
use intervals::Intervals;
use peal_model::{Event, Nspace, Proc, Rank, Size, Status};
use ring::{Ring, Ringed};
pub use seq::Seq;
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};
use tally::Tally;

/// How much may be kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Events in the ring ...
    pub(crate) ring: usize,
    /// ... and the bytes that they take.
    pub(crate) ring_bytes: usize,
    /// Bytes that the contents of all other events may take before they are spilled.
    pub(crate) memory: usize,
    /// Bytes that it may take to know what is kept, and for whom.
    pub(crate) index: usize,
}

/// For whom an event is kept, and who need it no more.
#[derive(Debug, Default)]
pub(crate) struct Audience {
    /// Connections that hear it at once.
    pub(crate) told: BTreeSet<PeerId>,
    /// Connections that asked for it and are catching up.
    pub(crate) late: BTreeSet<PeerId>,
    /// Procs that it is meant for and that none of its connections tells.
    pub(crate) owed: Vec<Proc>,
}

/// What the keeper of spilled events is to do.
#[derive(Debug)]
pub(crate) enum Chore {
    /// Store an event.
    Spill(Seq, Arc<Event>),
    /// Delete what is stored from the first to the last of these.
    Forget(Seq, Seq),
}

/// An event that somebody still needs.
#[derive(Debug)]
struct Kept {
    head: Head,
    bytes: u32,
    /// None: it is spilled.
    content: Option<Arc<Event>>,
}

/// A connection that is catching up.
#[derive(Debug)]
struct Reader {
    /// What comes before was looked at.
    cursor: Seq,
    waits: Waits,
    /// What was spread since it is catching up, is not in its past and was asked for.
    held: Intervals,
    /// How many events of the environment it may have missed, until it is told so.
    missed: u64,
}

/// What a connection waits for that is catching up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// That what it was sent has been written.
    ForRoom,
    /// The contents of these.
    ForContents(Vec<Seq>),
}

/// What [`Retained::next_for`] found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Next {
    pub(crate) at: Seq,
    pub(crate) head: Head,
    pub(crate) bytes: u32,
    pub(crate) claim: Claim,
}

/// Why an event may be for somebody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claim {
    /// It is owed to the proc or held for the connection.
    Entitled,
    /// It is in the ring, reaches these, and this connection was not told of it.
    Ring(Reach),
    /// It is in the ring, and this connection was told of it.
    Told,
}

/// The kept events.
#[derive(Debug)]
pub(crate) struct Retained {
    limits: Limits,
    next: Seq,
    kept: BTreeMap<Seq, Kept>,
    demand: Tally,
    ring: Ring,
    owed: BTreeMap<Proc, Intervals>,
    readers: BTreeMap<PeerId, Reader>,
    /// The intervals of all that is owed or held.
    pieces: usize,
    /// What the contents outside of the ring take.
    bytes: usize,
    spilled: usize,
    lost: u64,
    chores: Vec<Chore>,
}

impl Retained {
    pub(crate) fn new(limits: Limits) -> Retained {
        Retained {
            ring: Ring::new(limits.ring, limits.ring_bytes),
            limits,
            next: Seq::FIRST,
            kept: BTreeMap::new(),
            demand: Tally::default(),
            owed: BTreeMap::new(),
            readers: BTreeMap::new(),
            pieces: 0,
            bytes: 0,
            spilled: 0,
            lost: 0,
            chores: Vec::new(),
        }
    }

    /// Keeps an event for those who need it, if there are any.
    pub(crate) fn keep(&mut self, event: Arc<Event>, head: Head, reach: Reach, audience: Audience) {
        let Audience { told, mut late, mut owed } = audience;
        let at = self.next;
        self.next = at.next();
        let stays = !event.is_do_not_cache();
        let rings = stays && head.class == Class::Environment && self.ring.takes_any();
        if !stays {
            owed.clear();
        }
        if !(owed.is_empty() && late.is_empty()) && self.index_bytes() > self.limits.index {
            // Nobody can be made to wait for room here.
            self.lost += 1;
            owed.clear();
            late.clear();
        }
        let demand = owed.len() + late.len() + usize::from(rings);
        if demand == 0 {
            return;
        }
        let bytes = u32::try_from(Size::of_event(&event).bytes).unwrap_or(u32::MAX);
        self.kept.insert(at, Kept { head, bytes, content: Some(event) });
        self.demand.add(at, u32::try_from(demand).unwrap_or(u32::MAX));
        for proc in owed {
            add(&mut self.pieces, self.owed.entry(proc).or_default(), at);
        }
        for peer in late {
            if let Some(reader) = self.readers.get_mut(&peer) {
                add(&mut self.pieces, &mut reader.held, at);
            }
        }
        if rings {
            self.ring.push(at, Ringed { reach, told, bytes });
            self.eject();
        } else {
            self.weigh(at, bytes);
        }
    }

    /// Lets the oldest events in the ring make room.
    fn eject(&mut self) {
        while let Some(at) = self.ring.overflow() {
            let Some(Kept { head, bytes, .. }) = self.kept.get(&at) else { continue };
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
        if let Some(event) = self.kept.get_mut(&at).and_then(|kept| kept.content.take()) {
            self.bytes -= bytes as usize;
            self.spilled += 1;
            self.chores.push(Chore::Spill(at, event));
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
                        stored = Some((stored.map_or(at, |(first, _)| first), at));
                    }
                }
            }
            let Some((first, last)) = stored else { continue };
            match self.chores.last_mut() {
                // A row of single ones is one order.
                Some(Chore::Forget(_, end)) if end.precedes(first) => *end = last,
                _ => self.chores.push(Chore::Forget(first, last)),
            }
        }
    }

    /// A connection of this proc was told of an event, or never will be: nothing of it is owed to the proc or held for the
    /// connection any more.
    pub(crate) fn settle(&mut self, peer: PeerId, proc: &Proc, at: Seq) {
        if let Some(owed) = self.owed.get_mut(proc) {
            let removed = remove(&mut self.pieces, owed, at);
            if owed.pieces() == 0 {
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
        let Some(reader) = self.readers.get_mut(&peer) else { return };
        if remove(&mut self.pieces, &mut reader.held, at) {
            self.release(at, at);
        }
    }

    /// The contents of an event could not be had again.
    pub(crate) fn lose(&mut self, peer: PeerId, proc: &Proc, at: Seq) {
        self.lost += 1;
        self.settle(peer, proc, at);
    }

    /// A proc has ended, or left: nothing is owed to it any more.
    pub(crate) fn free_proc(&mut self, proc: &Proc) {
        if let Some(owed) = self.owed.remove(proc) {
            self.let_go(&owed);
        }
    }

    /// A job is gone: nothing is owed to its procs any more.
    pub(crate) fn free_job(&mut self, nspace: &Nspace) {
        let theirs = self.owed.range(Proc::new(nspace.clone(), Rank(0))..);
        let theirs: Vec<Proc> =
            theirs.take_while(|(proc, _)| proc.nspace == *nspace).map(|(proc, _)| proc.clone()).collect();
        theirs.iter().for_each(|proc| self.free_proc(proc));
    }

    /// A connection is heard no more.
    pub(crate) fn part(&mut self, peer: PeerId) {
        self.arrive(peer);
        self.ring.forget(peer);
    }

    fn let_go(&mut self, set: &Intervals) {
        self.pieces -= set.pieces();
        set.iter().for_each(|(first, last)| self.release(first, last));
    }

    /// A connection has registered: it looks at everything that is kept, from the oldest on. Whether it was not catching up
    /// until now.
    pub(crate) fn begin(&mut self, peer: PeerId, missed: u64) -> bool {
        let is_new = self.fall_behind(peer);
        if let Some(reader) = self.readers.get_mut(&peer) {
            reader.cursor = Seq::FIRST;
            reader.missed += missed;
        }
        is_new
    }

    /// From now on this connection is catching up with what comes. Whether it was not until now.
    pub(crate) fn fall_behind(&mut self, peer: PeerId) -> bool {
        if self.is_behind(peer) {
            return false;
        }
        let reader = Reader { cursor: self.next, waits: Waits::ForRoom, held: Intervals::default(), missed: 0 };
        self.readers.insert(peer, reader);
        true
    }

    /// A connection has caught up: it hears what comes at once.
    pub(crate) fn arrive(&mut self, peer: PeerId) {
        if let Some(reader) = self.readers.remove(&peer) {
            self.let_go(&reader.held);
        }
    }

    /// Whether a connection is catching up.
    pub(crate) fn is_behind(&self, peer: PeerId) -> bool {
        self.readers.contains_key(&peer)
    }

    /// Where a connection is that is catching up.
    pub(crate) fn cursor(&self, peer: PeerId) -> Option<Seq> {
        self.readers.get(&peer).map(|reader| reader.cursor)
    }

    /// From here a connection goes on when it has what it waits for.
    pub(crate) fn wait(&mut self, peer: PeerId, cursor: Seq, waits: Waits) {
        if let Some(reader) = self.readers.get_mut(&peer) {
            (reader.cursor, reader.waits) = (cursor, waits);
        }
    }

    /// What a connection that is catching up waits for; from now on it waits for room.
    pub(crate) fn take_waits(&mut self, peer: PeerId) -> Option<Waits> {
        self.readers.get_mut(&peer).map(|reader| mem::replace(&mut reader.waits, Waits::ForRoom))
    }

    /// The first event from here on that may be for this connection of this proc.
    pub(crate) fn next_for(&self, peer: PeerId, proc: &Proc, from: Seq) -> Option<Next> {
        let owed = self.owed.get(proc).and_then(|owed| owed.next_from(from));
        let held = self.readers.get(&peer).and_then(|reader| reader.held.next_from(from));
        let entitled = owed.into_iter().chain(held).min();
        let at = entitled.into_iter().chain(self.ring.next_from(from)).min()?;
        let Kept { head, bytes, .. } = self.kept.get(&at)?;
        let claim = match self.ring.get(at) {
            _ if entitled == Some(at) => Claim::Entitled,
            Some(ringed) if !ringed.told.contains(&peer) => Claim::Ring(ringed.reach),
            _ => Claim::Told,
        };
        Some(Next { at, head: *head, bytes: *bytes, claim })
    }

    /// The contents of an event, unless they are spilled.
    pub(crate) fn content(&self, at: Seq) -> Option<Arc<Event>> {
        self.kept.get(&at)?.content.clone()
    }

    /// How many events of the environment a connection may have missed that it was not told of; it is told once.
    pub(crate) fn take_missed(&mut self, peer: PeerId) -> u64 {
        self.readers.get_mut(&peer).map_or(0, |reader| mem::take(&mut reader.missed))
    }

    /// How many events of these codes (none: all) the ring ejected, at most, beside those that were heard already.
    pub(crate) fn missed(&self, codes: &[Status], hears: impl Fn(Option<Status>) -> bool) -> u64 {
        self.ring.ejected.missed(codes, hears)
    }

    /// What is to be done about spilled events, in this order.
    pub(crate) fn take_chores(&mut self) -> Vec<Chore> {
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
        // Nodes of B-trees are two thirds full, mostly.
        let each = (size_of::<(Seq, Kept)>() * self.kept.len())
            + size_of::<(Seq, Seq)>() * self.pieces
            + size_of::<(Seq, u32)>() * self.demand.pieces();
        each.saturating_add(each / 2)
    }
}

fn add(pieces: &mut usize, set: &mut Intervals, at: Seq) {
    let before = set.pieces();
    set.insert(at);
    *pieces = (*pieces + set.pieces()).saturating_sub(before);
}

fn remove(pieces: &mut usize, set: &mut Intervals, at: Seq) -> bool {
    let before = set.pieces();
    let removed = set.remove(at);
    *pieces = (*pieces + set.pieces()).saturating_sub(before);
    removed
}

#[cfg(test)]
impl Retained {
    /// What must hold at all times.
    pub(crate) fn check(&self) {
        let sets = || self.owed.values().chain(self.readers.values().map(|reader| &reader.held));
        assert_eq!(self.pieces, sets().map(Intervals::pieces).sum::<usize>());
        let outside = |at: &Seq| self.ring.get(*at).is_none();
        let bytes = self.kept.iter().filter(|(at, kept)| outside(at) && kept.content.is_some());
        assert_eq!(self.bytes, bytes.map(|(_, kept)| kept.bytes as usize).sum::<usize>());
        assert!(self.bytes <= self.limits.memory);
        assert_eq!(self.spilled, self.kept.values().filter(|kept| kept.content.is_none()).count());
        for at in (0..=self.next.0).map(Seq) {
            let needed = sets().filter(|set| set.contains(at)).count() + usize::from(!outside(&at));
            assert_eq!(self.demand.at(at) as usize, needed, "{at:?}");
            assert_eq!(self.kept.contains_key(&at), needed > 0, "{at:?}");
        }
        assert!(self.chores.is_empty());
    }

    /// What must hold when everybody is gone.
    pub(crate) fn check_empty(&self) {
        self.check();
        assert!(self.owed.is_empty() && self.readers.is_empty());
        assert_eq!((self.bytes, self.pieces, self.kept.len()), (0, 0, self.ring.len()));
    }
}

//! Events retained for later recipients: procs that register late, and lagging connections.
//!
//! Every distributed event has a number. An event is retained as long as it is in the event ring
//! ([`ring`]), *owed* to a proc that it is meant for and that has not received it on any
//! connection, or *held* for a lagging connection that registered for it. [`RefCounts`] counts
//! these reasons; at zero the event is removed.
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
    quota::{Quota, QuotaRefusals, QuotaReport, unreserved},
    request_id::PeerId,
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
use serde::{Deserialize, Serialize};
use spill_owner::SpillOwner;
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

/// Limits of retained events.
#[derive(Clone, Copy, Debug)]
pub struct RetentionLimits {
    /// Number of environment events in the event ring for late registrations
    /// (`PMIx_server_cache_size`).
    pub ring: usize,
    /// Memory of the event ring, in bytes.
    pub ring_bytes: usize,
    /// Memory of the contents of all other retained events, in bytes: events for procs that have
    /// not registered and for lagging connections. Further events are spilled.
    pub memory: usize,
    /// Bytes of spilled events. An eighth is reserved for events that no user is charged for, and
    /// those of root and the server's user. Further events are lost, and their recipients are
    /// notified.
    pub spill: usize,
    /// Bytes of spilled events that one user is charged for: those for this user's procs alone, and
    /// those that this user raised for others.
    pub user_spill: usize,
    /// Memory of the index of retained events, spilled ones included, in bytes. Beyond it, events
    /// are delivered at once only; they are lost to all other recipients, and counted. An eighth is
    /// reserved for the procs of root and the server's user.
    pub index: usize,
    /// Part of the index for one user's procs and connections.
    pub user_index: usize,
}

impl Default for RetentionLimits {
    fn default() -> Self {
        RetentionLimits {
            ring: 512,
            ring_bytes: 64 << 20,
            memory: 64 << 20,
            spill: 4 << 30,
            user_spill: 2 << 30,
            index: 256 << 20,
            user_index: 128 << 20,
        }
    }
}

/// The recipients of an event.
#[derive(Debug, Default)]
pub(crate) struct EventRecipients {
    /// Connections that receive it at once.
    pub(crate) direct_recipients: BTreeSet<PeerId>,
    /// Lagging connections that registered for it, with their procs.
    pub(crate) late: BTreeMap<PeerId, Proc>,
    /// Procs that it is meant for and that receive it on no connection now, with their users.
    pub(crate) owed: Vec<(Proc, u32)>,
}

/// An action on the spill.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SpillAction {
    /// Stores an event that a user is charged for.
    Spill(Seq, Arc<Event>, Option<u32>),
    /// Deletes a range of events, both ends included.
    Forget(Seq, Seq),
}

/// An event that some recipient still needs.
#[derive(Debug, Serialize, Deserialize)]
struct RetainedEvent {
    head: EventSummary,
    bytes: u32,
    /// The user that is charged if the event is spilled.
    owner: SpillOwner,
    /// None if the event is spilled, or was lost because the spill had no capacity.
    content: Option<Arc<Event>>,
}

/// All retained events.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Retained {
    #[serde(skip)]
    limits: RetentionLimits,
    /// The user of the server, which has no share; none until it is known.
    server: Option<u32>,
    next: Seq,
    events: BTreeMap<Seq, RetainedEvent>,
    demand: RefCounts,
    ring: Ring,
    owed: BTreeMap<Proc, Set>,
    readers: BTreeMap<PeerId, LaggingPeer>,
    /// The totals of the index.
    users: UserIndexes,
    /// Bytes of the contents outside of the event ring.
    bytes: usize,
    spilled: usize,
    /// Bytes of the spilled events that each user is charged for.
    spilled_bytes: UserBytes,
    /// Bytes of all spilled events.
    all_spilled_bytes: usize,
    lost: u64,
    refusals: QuotaRefusals,
    /// Events that were lost to procs and not reported to them yet.
    lost_to: BTreeMap<Proc, CodeCounts>,
    spill_actions: Vec<SpillAction>,
}

impl Retained {
    pub(crate) fn new(limits: RetentionLimits) -> Retained {
        Retained {
            ring: Ring::new(limits.ring, limits.ring_bytes),
            spilled_bytes: UserBytes::default(),
            all_spilled_bytes: 0,
            limits,
            server: None,
            next: Seq::FIRST,
            events: BTreeMap::new(),
            demand: RefCounts::default(),
            owed: BTreeMap::new(),
            readers: BTreeMap::new(),
            users: UserIndexes::default(),
            bytes: 0,
            spilled: 0,
            lost: 0,
            refusals: QuotaRefusals::default(),
            lost_to: BTreeMap::new(),
            spill_actions: Vec::new(),
        }
    }

    /// Sets the limits. What exceeds them leaves with the next event.
    pub(crate) fn set_limits(&mut self, limits: RetentionLimits) {
        self.ring.set_limits(limits.ring, limits.ring_bytes);
        self.limits = limits;
    }

    /// Sets the user that the server runs as.
    pub(crate) fn set_server(&mut self, uid: u32) {
        self.server = Some(uid);
    }

    /// Returns true for users that have a share: all but root and the server's user.
    fn is_bounded(&self, uid: u32) -> bool {
        uid != 0 && Some(uid) != self.server
    }

    /// Retains an event for its recipients, if there are any. A user is charged for it if it is
    /// spilled.
    pub(crate) fn keep(
        &mut self,
        event: Arc<Event>,
        head: EventSummary,
        (reach, charged): (UserScope, Option<u32>),
        audience: EventRecipients,
    ) {
        let EventRecipients {
            direct_recipients,
            mut late,
            mut owed,
        } = audience;
        let at = self.next;
        self.next = at.next();
        let stays = !event.is_do_not_cache();
        let rings = stays && head.class == Class::Environment && self.ring.takes_any();
        // `PMIX_EVENT_DO_NOT_CACHE` concerns late registrations. A lagging connection has
        // registered already, so the event is held for it.
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
        self.events.insert(
            at,
            RetainedEvent {
                head,
                bytes,
                owner: SpillOwner::of(charged),
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
                self.users.add(&mut reader.pending, at);
                *sets.entry(reader.pending.uid).or_default() += 1;
            }
        }
        sets.into_iter()
            .for_each(|(uid, count)| self.users.count(uid, at, count));
        if rings {
            // Contents of events in the ring count against the limit of the ring alone.
            self.ring.push(
                at,
                RingEntry {
                    reach,
                    direct_recipients,
                    bytes,
                },
            );
            self.eject();
        } else {
            self.weigh(at, bytes);
        }
    }

    /// Drops recipients whose users have exhausted the index, because distribution cannot wait for
    /// capacity. Procs that lose an event about their job are notified later.
    fn limit(
        &mut self,
        owed: &mut Vec<(Proc, u32)>,
        late: &mut BTreeMap<PeerId, Proc>,
        head: &EventSummary,
    ) {
        let RetentionLimits {
            index, user_index, ..
        } = self.limits;
        let wanted = owed.len() + late.len();
        let used = self.index_bytes();
        let has_room = |uid| {
            let is_within_share = || self.users.bytes_of(uid, EVENT_OVERHEAD_BYTES) <= user_index;
            used <= index
                && (!self.is_bounded(uid) || (used <= unreserved(index) && is_within_share()))
        };
        // A proc that is owed an event may also have a lagging connection.
        let mut lost_to: BTreeMap<Proc, u32> =
            owed.extract_if(.., |(_, uid)| !has_room(*uid)).collect();
        let user = |peer: &PeerId| self.readers.get(peer).map(|reader| reader.pending.uid);
        let without_room =
            late.extract_if(.., |peer, _| user(peer).is_none_or(|uid| !has_room(uid)));
        lost_to.extend(without_room.filter_map(|(peer, proc)| Some((proc, user(&peer)?))));
        // Counts the event, not its recipients.
        self.lost += u64::from(owed.len() + late.len() < wanted);
        for (proc, uid) in lost_to {
            self.refusals.count(uid, Quota::RetainedIndexBytes);
            if head.class == Class::JobSpecific {
                self.count_lost(&proc, Some(head.code), 1);
            }
        }
    }

    /// Counts events, of one code or of unknown ones, as lost to a proc. The next event about its job
    /// reports the number.
    pub(crate) fn count_lost(&mut self, proc: &Proc, code: Option<Status>, number: u64) {
        // `entry` would clone the proc for each lost event.
        let counts = match self.lost_to.get_mut(proc) {
            Some(counts) => counts,
            None => self
                .lost_to
                .entry(proc.clone())
                .or_insert_with(|| CodeCounts::new(MAX_LOST_CODES)),
        };
        counts.count_several(code, number);
    }

    /// Counts events that were lost before they got here.
    pub(crate) fn lose_unseen(&mut self, number: u64) {
        self.lost = self.lost.saturating_add(number);
    }

    /// Takes the number of lost events of a proc, an upper bound, of the codes that it registered
    /// for.
    pub(crate) fn take_lost(&mut self, proc: &Proc, receives: impl Fn(Status) -> bool) -> u64 {
        let Some(counts) = self.lost_to.get_mut(proc) else {
            return 0;
        };
        let taken = counts.take(receives);
        if counts.total == 0 {
            self.lost_to.remove(proc);
        }
        taken
    }

    /// Returns true if any proc has lost events that were not reported to it.
    pub(crate) fn has_lost(&self) -> bool {
        !self.lost_to.is_empty()
    }

    /// Ejects the oldest events of the ring until it is within its limits.
    fn eject(&mut self) {
        while let Some(at) = self.ring.overflow() {
            let Some(RetainedEvent { head, bytes, .. }) = self.events.get(&at) else {
                continue;
            };
            let bytes = *bytes;
            self.ring.ejected.count(head.code);
            if self.demand.at(at) > 1 {
                // Other recipients remain, so the event is from now on one outside of the ring.
                self.demand.subtract(at, at);
                self.weigh(at, bytes);
            } else {
                // `release` subtracts the contents, which did not count while the event was in the
                // ring.
                self.bytes += bytes as usize;
                self.release(at, at);
            }
        }
    }

    /// Accounts for the contents of an event outside of the ring, and spills them if they exceed
    /// the memory. Older events stay in memory because they are read first.
    fn weigh(&mut self, at: Seq, bytes: u32) {
        self.bytes += bytes as usize;
        if self.bytes <= self.limits.memory {
            return;
        }
        let Some(kept) = self.events.get_mut(&at) else {
            return;
        };
        let Some(event) = kept.content.take() else {
            return;
        };
        self.bytes -= bytes as usize;
        self.spilled += 1;
        let owner = kept.owner;
        if self.charge_spilled(owner.uid(), bytes as usize) {
            self.spill_actions
                .push(SpillAction::Spill(at, event, owner.uid()));
        } else if let Some(kept) = self.events.get_mut(&at) {
            // The event is lost. Each recipient is notified when its delivery reaches the event.
            (kept.owner, kept.bytes) = (SpillOwner::UNKNOWN, 0);
        }
    }

    /// Charges the bytes of an event to be spilled. Returns false if there is no room.
    fn charge_spilled(&mut self, uid: Option<u32>, bytes: usize) -> bool {
        let RetentionLimits {
            spill, user_spill, ..
        } = self.limits;
        let bounded = uid.filter(|uid| self.is_bounded(*uid));
        let total = bounded.map_or(spill, |_| unreserved(spill));
        let share = bounded.map_or(usize::MAX, |_| user_spill);
        let after = self.all_spilled_bytes.saturating_add(bytes);
        let mut charge = |uid| self.spilled_bytes.replace(uid, 0, bytes, share).is_ok();
        let has_room = after <= total && uid.is_none_or(&mut charge);
        if has_room {
            self.all_spilled_bytes = after;
        } else if let Some(uid) = uid {
            self.refusals.count(uid, Quota::SpilledBytes);
        }
        has_room
    }

    /// Releases one reference to a range of events, and removes events without references.
    fn release(&mut self, first: Seq, last: Seq) {
        for (first, last) in self.demand.subtract(first, last) {
            // One action for all spilled events of the run. Numbers in between that were never
            // spilled do no harm (`Action::Forget`).
            let mut stored: Option<(Seq, Seq)> = None;
            for (at, kept) in self.events.extract_if(first..=last, |_, _| true) {
                match kept.content {
                    Some(_) => self.bytes -= kept.bytes as usize,
                    None => {
                        self.spilled -= 1;
                        self.all_spilled_bytes -= kept.bytes as usize;
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
            match self.spill_actions.last_mut() {
                // Consecutive deletions are merged into one action.
                Some(SpillAction::Forget(_, end)) if end.precedes(first) => *end = last,
                _ => self.spill_actions.push(SpillAction::Forget(first, last)),
            }
        }
    }

    /// Records that a connection of a proc has received an event, or never will. The event is then
    /// neither owed to the proc nor held for the connection.
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
        self.ring.mark_delivered(at, peer);
        self.skip(peer, at);
    }

    /// Records that a connection skips an event, independent of its proc.
    pub(crate) fn skip(&mut self, peer: PeerId, at: Seq) {
        let Some(reader) = self.readers.get_mut(&peer) else {
            return;
        };
        if self.users.remove(&mut reader.pending, at) {
            self.release(at, at);
        }
    }

    /// Records that the contents of an event could not be recalled.
    pub(crate) fn lose(&mut self, peer: PeerId, proc: &Proc, at: Seq) {
        self.lost += 1;
        if let Some(EventSummary {
            code,
            class: Class::JobSpecific,
            ..
        }) = self.events.get(&at).map(|kept| kept.head)
        {
            self.count_lost(proc, Some(code), 1);
        }
        self.settle(peer, proc, at);
    }

    /// Releases the events owed to a proc that has ended or finalized.
    pub(crate) fn free_proc(&mut self, proc: &Proc) {
        self.lost_to.remove(proc);
        if let Some(owed) = self.owed.remove(proc) {
            self.let_go(&owed);
        }
    }

    /// Releases the events owed to the procs of a removed job.
    pub(crate) fn free_job(&mut self, nspace: &Nspace) {
        // Procs are sorted by namespace first, so those of a job are one range.
        let first = || Proc::new(nspace.clone(), Rank(0))..;
        let of_job = |proc: &&Proc| proc.nspace == *nspace;
        let owed = self
            .owed
            .range(first())
            .map(|(proc, _)| proc)
            .take_while(of_job);
        // A proc may have lost events without being owed any.
        let lost_to = self
            .lost_to
            .range(first())
            .map(|(proc, _)| proc)
            .take_while(of_job);
        let theirs: BTreeSet<Proc> = owed.chain(lost_to).cloned().collect();
        theirs.iter().for_each(|proc| self.free_proc(proc));
    }

    /// Removes a connection that is no longer active.
    pub(crate) fn remove_peer(&mut self, peer: PeerId) {
        self.end_lagging(peer);
        self.ring.forget(peer);
    }

    fn let_go(&mut self, set: &Set) {
        self.users.drop_set(set);
        set.members
            .iter()
            .for_each(|(first, last)| self.release(first, last));
    }

    /// Returns an upper bound of the events of these codes (none: every code) that the ring
    /// ejected, without codes that are registered already.
    pub(crate) fn missed(
        &self,
        codes: &[Status],
        receives: impl Fn(Option<Status>) -> bool,
    ) -> u64 {
        self.ring.ejected.missed(codes, receives)
    }

    /// Takes the pending actions on the spill, in order.
    pub(crate) fn take_spill_actions(&mut self) -> Vec<SpillAction> {
        mem::take(&mut self.spill_actions)
    }

    /// Returns the number of events that the ring ejected.
    pub(crate) fn ejected(&self) -> u64 {
        self.ring.ejected.total
    }

    /// Returns the number of retained events outside of the ring, spilled ones included.
    pub(crate) fn retained_count(&self) -> usize {
        self.events.len() - self.ring.len()
    }

    /// Returns the number of spilled events.
    pub(crate) fn spilled(&self) -> usize {
        self.spilled
    }

    /// Returns the number of lost deliveries.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Adds what is retained for each user to a report.
    pub(crate) fn report_quotas(&self, report: &mut QuotaReport) {
        let RetentionLimits {
            spill,
            user_spill,
            index,
            user_index,
            ..
        } = self.limits;
        report.limit(Quota::RetainedIndexBytes, user_index, Some(index));
        report.hold(
            Quota::RetainedIndexBytes,
            self.users.by_user(EVENT_OVERHEAD_BYTES),
        );
        report.limit(Quota::SpilledBytes, user_spill, Some(spill));
        report.hold(Quota::SpilledBytes, self.spilled_bytes.by_user());
        report.refuse(&self.refusals);
    }

    /// Estimates the memory of the index, in bytes.
    pub(crate) fn index_bytes(&self) -> usize {
        self.events.len() * EVENT_OVERHEAD_BYTES
            + in_tree::<(Seq, u32)>(self.demand.pieces())
            + self.users.bytes()
    }
}

/// Number of codes for which lost events of one proc are counted separately, to bound the memory of
/// each proc.
const MAX_LOST_CODES: usize = 8;

/// Memory of each retained event beside its contents, in bytes.
const EVENT_OVERHEAD_BYTES: usize = in_tree::<(Seq, RetainedEvent)>(1);

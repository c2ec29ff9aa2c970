//! Delivery of retained events in batches, in the order of distribution: to connections that have
//! just registered, and to lagging ones.
use super::EventDelivery;
#[cfg(doc)]
use crate::server::ServerState;
use crate::server::{Action, PeerId, ServerContext, clients::ConnectedPeer};
use crate::{
    audience::{Coverage, PeerRegistrations},
    class::{Class, EventSummary},
    event_targets::EventTargets,
    retained::{DeliveryReason, NextRetained, Retained, Seq, Waits},
};
use peal_model::{Event, Info, KeyName, Value};
use std::{collections::BTreeMap, mem, sync::Arc};

/// Key of an info (`PMIX_UINT64`) with the number of events that a client missed, among the codes
/// that it registered for. The number is an upper bound: some may not have been for the client.
///
/// The first event from the event ring carries the number of events that the ring ejected before
/// the registration. The next event about the client's job carries the number of events about that
/// job that were dropped for lack of memory or could not be recalled.
pub const EVENTS_MISSED: KeyName = KeyName("peal.events.missed");

/// Maximum number of retained events examined for one batch, so that other requests get their turn.
const MAX_EXAMINED: usize = 4096;

/// The remaining capacity of a batch.
struct Batch {
    events: usize,
    bytes: usize,
    examinations: usize,
    is_fresh: bool,
}

impl Batch {
    /// Takes the bytes of one event from the batch. Returns false if they do not fit; the first
    /// event always fits.
    fn take(&mut self, bytes: u32) -> bool {
        let bytes = bytes as usize;
        if !mem::take(&mut self.is_fresh) && (self.events == 0 || self.bytes < bytes) {
            return false;
        }
        (self.events, self.bytes) = (
            self.events.saturating_sub(1),
            self.bytes.saturating_sub(bytes),
        );
        true
    }

    /// Counts one examined event. Returns false if the limit is exceeded.
    fn count_examination(&mut self) -> bool {
        self.examinations += 1;
        self.examinations <= MAX_EXAMINED
    }
}

/// The reason why a batch ended.
enum BatchEnd {
    /// No retained event is left.
    CaughtUp,
    /// The batch is full; the next event is this one.
    Full(Seq),
    /// The next event is this one, and it is spilled.
    Spilled(Seq),
}

impl EventDelivery {
    /// Marks a connection as lagging because its outbox is full, or nearly. From now on its events
    /// are retained instead of delivered, until calls of [`ServerState::resume`] have delivered all
    /// of them: slow readers lose no events.
    ///
    /// Returns an [`Action::Pause`], unless the connection is lagging already or no longer active.
    pub(in crate::server) fn mark_lagging(
        &mut self,
        ctx: ServerContext<'_>,
        peer: PeerId,
    ) -> Vec<Action> {
        let uid = ctx.clients.active_peer(peer).map(|peer| peer.identity.uid);
        let is_new = uid.is_some_and(|uid| self.retained.mark_lagging(peer, uid));
        if is_new {
            vec![Action::Pause { peer }]
        } else {
            Vec::new()
        }
    }

    /// Delivers the next batch after everything before an [`Action::Pause`] has been written, or
    /// nearly. One call answers one `Pause`. A connection that is not paused gets nothing.
    pub(in crate::server) fn resume(
        &mut self,
        ctx: ServerContext<'_>,
        peer: PeerId,
    ) -> Vec<Action> {
        match self.retained.take_waits(peer) {
            Some(Waits::ForRoom) => self.feed(ctx, peer, BTreeMap::new()),
            Some(waits @ Waits::ForContents(_)) => {
                // `take_waits` has replaced the condition. The contents are still awaited.
                if let Some(cursor) = self.retained.cursor(peer) {
                    self.retained.wait(peer, cursor, waits);
                }
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    /// Continues a delivery with the contents that an [`Action::Recall`] requested. Each event
    /// stays stored until an [`Action::Forget`]. Contents that are none or missing are lost: they
    /// are counted and skipped.
    ///
    /// One call answers one `Recall`. A connection that has closed in the meantime is no error.
    pub(in crate::server) fn recalled(
        &mut self,
        ctx: ServerContext<'_>,
        peer: PeerId,
        contents: Vec<(Seq, Option<Event>)>,
    ) -> Vec<Action> {
        match self.retained.take_waits(peer) {
            Some(Waits::ForContents(requested)) => {
                // Contents that are missing must be counted, so each requested one has an entry.
                let mut found: BTreeMap<Seq, Option<Arc<Event>>> =
                    requested.into_iter().map(|at| (at, None)).collect();
                for (at, content) in contents {
                    found.insert(at, content.map(Arc::new));
                }
                self.feed(ctx, peer, found)
            }
            Some(Waits::ForRoom) | None => Vec::new(),
        }
    }

    /// Delivers the next batch to a connection, with the contents recalled for it.
    pub(super) fn feed(
        &mut self,
        ctx: ServerContext<'_>,
        id: PeerId,
        recalled: BTreeMap<Seq, Option<Arc<Event>>>,
    ) -> Vec<Action> {
        let (Some(peer), Some(cursor)) = (ctx.clients.peer(id), self.retained.cursor(id)) else {
            return Vec::new();
        };
        // A client that has deregistered everything still moves on to the last event.
        let no_interests = PeerRegistrations::default();
        let events = ctx.settings.event_batch;
        let bytes = ctx.settings.event_batch_bytes;
        let batch = Batch {
            events,
            bytes,
            examinations: 0,
            is_fresh: true,
        };
        let mut feeding = Feeding {
            id,
            peer,
            interests: self.interests.get(&id).unwrap_or(&no_interests),
            log: &mut self.retained,
            batch,
            recalled,
        };
        let (events, ended) = feeding.take_events(cursor);
        let ended = match ended {
            // The client reads what precedes the spilled event while its contents are fetched
            // later.
            BatchEnd::Spilled(next) if !events.is_empty() => BatchEnd::Full(next),
            ended => ended,
        };
        let end = match ended {
            BatchEnd::CaughtUp => None,
            BatchEnd::Full(next) => Some((next, Waits::ForRoom, Action::Pause { peer: id })),
            BatchEnd::Spilled(next) => {
                let events = feeding.spilled_from(next);
                Some((
                    next,
                    Waits::ForContents(events.clone()),
                    Action::Recall { peer: id, events },
                ))
            }
        };
        let mut actions: Vec<Action> = events
            .into_iter()
            .map(|event| Action::Deliver { peer: id, event })
            .collect();
        match end {
            None => self.retained.end_lagging(id),
            Some((next, waits, action)) => {
                self.retained.wait(id, next, waits);
                actions.push(action);
            }
        }
        self.with_pending_actions(actions)
    }
}

/// A batch under construction.
struct Feeding<'a> {
    id: PeerId,
    peer: &'a ConnectedPeer,
    interests: &'a PeerRegistrations,
    log: &'a mut Retained,
    batch: Batch,
    /// Contents of spilled events that were recalled; none if lost.
    recalled: BTreeMap<Seq, Option<Arc<Event>>>,
}

impl Feeding<'_> {
    /// Takes events from a cursor on until the batch ends. The events count as delivered.
    fn take_events(&mut self, mut cursor: Seq) -> (Vec<Arc<Event>>, BatchEnd) {
        let mut events = Vec::new();
        while let Some(next) = self.log.next_for(self.id, &self.peer.proc, cursor) {
            if !self.batch.count_examination() {
                return (events, BatchEnd::Full(next.at));
            }
            cursor = next.at.next();
            let coverage = self.coverage(&next);
            if coverage == Coverage::Uncovered {
                // Only this connection skips the event. Another one of the proc may register for
                // it.
                self.log.skip(self.id, next.at);
                continue;
            }
            let event = match (self.log.content(next.at), self.recalled.remove(&next.at)) {
                (Some(event), _) | (None, Some(Some(event))) => event,
                (None, Some(None)) => {
                    self.log.lose(self.id, &self.peer.proc, next.at);
                    continue;
                }
                (None, None) => return (events, BatchEnd::Spilled(next.at)),
            };
            if !self.is_recipient(&next, coverage, &event) {
                self.log.skip(self.id, next.at);
                continue;
            }
            if !self.batch.take(next.bytes) {
                return (events, BatchEnd::Full(next.at));
            }
            events.push(self.add_missed_count(&next.head, event));
            self.log.settle(self.id, &self.peer.proc, next.at);
        }
        (events, BatchEnd::CaughtUp)
    }

    /// Collects the spilled events from `first` on that fit into the batch.
    fn spilled_from(&mut self, first: Seq) -> Vec<Seq> {
        let mut spilled = vec![first];
        let mut cursor = first;
        while let Some(next) = self.log.next_for(self.id, &self.peer.proc, cursor) {
            cursor = next.at.next();
            // Events in memory take from the batch as well, because they are delivered with it.
            if self.coverage(&next) != Coverage::Uncovered {
                if !self.batch.take(next.bytes) {
                    break;
                }
                if next.at > first && self.log.content(next.at).is_none() {
                    spilled.push(next.at);
                }
            }
            if !self.batch.count_examination() {
                break;
            }
        }
        spilled
    }

    /// Decides by the summary of an event whether the connection receives it.
    fn coverage(&self, next: &NextRetained) -> Coverage {
        let reaches = match next.claim {
            DeliveryReason::Entitled => true,
            DeliveryReason::Ring(reach) => reach.includes(Some(self.peer.identity.uid)),
            DeliveryReason::Told => false,
        };
        if reaches {
            self.interests.coverage(&next.head)
        } else {
            Coverage::Uncovered
        }
    }

    /// Decides the same with the event's contents, where the summary leaves it open.
    fn is_recipient(&self, next: &NextRetained, coverage: Coverage, event: &Event) -> bool {
        let is_meant = next.claim == DeliveryReason::Entitled;
        let is_covered = coverage == Coverage::Covered;
        if is_meant && is_covered {
            return true;
        }
        let aim = EventTargets::of(event);
        (is_meant || aim.is_meant_for(event, &self.peer.proc))
            && (is_covered || self.interests.cover(&next.head, &aim))
    }

    /// Adds to the event the number of missed events of its class that were not reported yet.
    fn add_missed_count(&mut self, head: &EventSummary, event: Arc<Event>) -> Arc<Event> {
        let proc = &self.peer.proc;
        let interests = self.interests;
        let missed = match head.class {
            Class::Environment => self.log.take_missed(self.id),
            Class::JobSpecific => self
                .log
                .take_lost(proc, |code| interests.covers_code(head.class, Some(code))),
        };
        with_missed(event, missed)
    }
}

/// Adds the number of missed events of the same class to an event.
pub(super) fn with_missed(event: Arc<Event>, missed: u64) -> Arc<Event> {
    if missed == 0 {
        return event;
    }
    // Other recipients share the event, so the one that missed some gets a copy.
    let mut event = Arc::unwrap_or_clone(event);
    event
        .infos
        .push(Info::new(EVENTS_MISSED, Value::Uint64(missed)));
    Arc::new(event)
}

//! Connections that are catching up: those that have registered and are told what was kept, and those that read slowly. They
//! are fed in batches, in the order in which events were spread.
use super::{Action, ConnectedPeer, ConnectionState, PeerId, ServerState};
use crate::{
    audience::{Coverage, EventTargets},
    class::{Class, EventSummary},
    retained::{DeliveryReason, NextRetained, Retained, Seq, SpillAction, Waits},
};
use peal_model::{Event, Info, KeyName, Value};
use std::{collections::BTreeMap, mem, sync::Arc};

/// The key of the info, a `PMIX_UINT64`, by which a client is told how many events of the codes that it registered for it missed
/// (at most: some may not have been for it). The first event of the ring that it is told of says how many the ring ejected before it
/// registered. The next event about its job says how many others about its job there was no room for, or could not be had again.
pub const EVENTS_MISSED: KeyName = KeyName("peal.events.missed");

/// How many events are looked at before others have their turn.
const LOOK: usize = 4096;

/// What is left of a batch.
struct Batch {
    events: usize,
    bytes: usize,
    looks: usize,
    is_fresh: bool,
}

impl Batch {
    /// Takes so many bytes for one event, if there is room; for a first one there always is.
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

    /// Looks at one more, if that many may be looked at.
    fn look(&mut self) -> bool {
        self.looks += 1;
        self.looks <= LOOK
    }
}

/// How a batch ended.
enum BatchEnd {
    /// Everything was looked at.
    CaughtUp,
    /// It is full; this comes next.
    Full(Seq),
    /// This comes next, and is spilled.
    Spilled(Seq),
}

impl ServerState {
    /// The caller found the outbox of a connection (nearly) full. From now on events are kept for it instead of being
    /// delivered, until calls of [`ServerState::resume`] have brought it to the end of them: nobody who reads slowly loses events.
    /// Follows an [`Action::Pause`], unless the connection is catching up already or is heard no more.
    pub fn mark_lagging(&mut self, peer: PeerId) -> Vec<Action> {
        let uid = self
            .peers
            .get(&peer)
            .filter(|peer| peer.standing == ConnectionState::Active)
            .map(|peer| peer.identity.uid);
        let is_new = uid.is_some_and(|uid| self.retained.fall_behind(peer, uid));
        if is_new {
            vec![Action::Pause { peer }]
        } else {
            Vec::new()
        }
    }

    /// Everything before an [`Action::Pause`] has been written, or nearly: the next batch follows. One call answers one
    /// `Pause`. Nothing follows for a connection that is not paused.
    pub fn resume(&mut self, peer: PeerId) -> Vec<Action> {
        match self.retained.take_waits(peer) {
            Some(Waits::ForRoom) => self.feed(peer, BTreeMap::new()),
            Some(waits @ Waits::ForContents(_)) => {
                if let Some(cursor) = self.retained.cursor(peer) {
                    self.retained.wait(peer, cursor, waits);
                }
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    /// The contents that an [`Action::Recall`] asked for: the delivery goes on with them. Each stays stored until it is
    /// forgotten. What is none or missing is lost: it is counted, and the connection passes it by. One call answers one
    /// `Recall`; that its connection is gone does not matter.
    pub fn recalled(&mut self, peer: PeerId, contents: Vec<(Seq, Option<Event>)>) -> Vec<Action> {
        match self.retained.take_waits(peer) {
            Some(Waits::ForContents(asked)) => {
                let mut found: BTreeMap<Seq, Option<Arc<Event>>> =
                    asked.into_iter().map(|at| (at, None)).collect();
                for (at, content) in contents {
                    found.insert(at, content.map(Arc::new));
                }
                self.feed(peer, found)
            }
            Some(Waits::ForRoom) | None => Vec::new(),
        }
    }

    /// The next batch for a connection, with what was recalled for it.
    pub(super) fn feed(
        &mut self,
        id: PeerId,
        recalled: BTreeMap<Seq, Option<Arc<Event>>>,
    ) -> Vec<Action> {
        let (Some(peer), Some(cursor)) = (self.peers.get(&id), self.retained.cursor(id)) else {
            return Vec::new();
        };
        let (events, bytes) = (self.settings.event_batch, self.settings.event_batch_bytes);
        let batch = Batch {
            events,
            bytes,
            looks: 0,
            is_fresh: true,
        };
        let mut feeding = Feeding {
            id,
            peer,
            log: &mut self.retained,
            batch,
            recalled,
        };
        let (events, ended) = feeding.go_on(cursor);
        let ended = match ended {
            // It is fetched when what comes before it has been written.
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
            None => self.retained.arrive(id),
            Some((next, waits, action)) => {
                self.retained.wait(id, next, waits);
                actions.push(action);
            }
        }
        self.settled(actions)
    }

    /// These actions, and then what is to be done about spilled events, and where watches have ended.
    pub(super) fn settled(&mut self, mut actions: Vec<Action>) -> Vec<Action> {
        actions.extend(
            self.retained
                .take_chores()
                .into_iter()
                .map(|chore| match chore {
                    SpillAction::Spill(at, event) => Action::Spill { at, event },
                    SpillAction::Forget(first, last) => Action::Forget { first, last },
                }),
        );
        actions.extend(self.watches_ended());
        actions
    }
}

/// A batch in the making.
struct Feeding<'a> {
    id: PeerId,
    peer: &'a ConnectedPeer,
    log: &'a mut Retained,
    batch: Batch,
    /// What was spilled and is here again; none: lost.
    recalled: BTreeMap<Seq, Option<Arc<Event>>>,
}

impl Feeding<'_> {
    /// Takes events from here on, until the batch ends. They count as told.
    fn go_on(&mut self, mut cursor: Seq) -> (Vec<Arc<Event>>, BatchEnd) {
        let mut events = Vec::new();
        while let Some(next) = self.log.next_for(self.id, &self.peer.proc, cursor) {
            if !self.batch.look() {
                return (events, BatchEnd::Full(next.at));
            }
            cursor = next.at.next();
            let coverage = self.coverage(&next);
            if coverage == Coverage::Uncovered {
                self.log.pass_by(self.id, next.at);
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
            if !self.is_for_it(&next, coverage, &event) {
                self.log.pass_by(self.id, next.at);
                continue;
            }
            if !self.batch.take(next.bytes) {
                return (events, BatchEnd::Full(next.at));
            }
            events.push(self.told_what_it_missed(&next.head, event));
            self.log.settle(self.id, &self.peer.proc, next.at);
        }
        (events, BatchEnd::CaughtUp)
    }

    /// The spilled events among those that come next, from this one on, as far as they fit into the batch.
    fn spilled_from(&mut self, first: Seq) -> Vec<Seq> {
        let mut spilled = vec![first];
        let mut cursor = first;
        while let Some(next) = self.log.next_for(self.id, &self.peer.proc, cursor) {
            cursor = next.at.next();
            if self.coverage(&next) != Coverage::Uncovered {
                if !self.batch.take(next.bytes) {
                    break;
                }
                if next.at > first && self.log.content(next.at).is_none() {
                    spilled.push(next.at);
                }
            }
            if !self.batch.look() {
                break;
            }
        }
        spilled
    }

    /// Whether the connection is to be told of an event, as far as its head tells.
    fn coverage(&self, next: &NextRetained) -> Coverage {
        let reaches = match next.claim {
            DeliveryReason::Entitled => true,
            DeliveryReason::Ring(reach) => reach.includes(Some(self.peer.identity.uid)),
            DeliveryReason::Told => false,
        };
        if reaches {
            self.peer.interests.coverage(&next.head)
        } else {
            Coverage::Uncovered
        }
    }

    /// The rest of the question, which takes the event itself.
    fn is_for_it(&self, next: &NextRetained, coverage: Coverage, event: &Event) -> bool {
        let (is_meant, is_covered) = (
            next.claim == DeliveryReason::Entitled,
            coverage == Coverage::Covered,
        );
        if is_meant && is_covered {
            return true;
        }
        let aim = EventTargets::of(event);
        (is_meant || aim.is_meant_for(event, &self.peer.proc))
            && (is_covered || self.peer.interests.cover(&next.head, &aim))
    }

    /// The event, with how many others of its class were missed and not told of yet.
    fn told_what_it_missed(&mut self, head: &EventSummary, event: Arc<Event>) -> Arc<Event> {
        let ConnectedPeer {
            proc, interests, ..
        } = self.peer;
        let missed = match head.class {
            Class::Environment => self.log.take_missed(self.id),
            Class::JobSpecific => self
                .log
                .take_lost(proc, |code| interests.hears(head.class, Some(code))),
        };
        missing(event, missed)
    }
}

/// An event that says how many of its class were missed before it.
pub(super) fn missing(event: Arc<Event>, missed: u64) -> Arc<Event> {
    if missed == 0 {
        return event;
    }
    let mut event = Arc::unwrap_or_clone(event);
    event
        .infos
        .push(Info::new(EVENTS_MISSED, Value::Uint64(missed)));
    Arc::new(event)
}

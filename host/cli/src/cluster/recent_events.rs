//! Events that the server of this node has passed lately, for administrators of other nodes who watch.
//!
//! They are kept while somebody asks for them. A request waits for the next ones, so that a watcher hears of
//! an event without delay, and an answer that is lost is asked for again.
use super::requests::{EventPosition, NodeReply};
use crate::node;
use peal_core::server::EventOrigin;
use peal_server::{Listener, ListenerItem, Notice, Notices, admin::WatchedEvent};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep_until, timeout},
};

/// Time for which a request waits for events.
const WAIT: Duration = Duration::from_secs(3);
/// Time without a request after which no events are kept.
const IDLE: Duration = Duration::from_secs(60);
/// Maximum number of kept events, and of their bytes as JSON.
const MAX_EVENTS: usize = 1024;
const MAX_BYTES: usize = 1 << 20;

/// Events that have passed lately.
pub struct RecentEvents {
    notices: Notices,
    listening: Mutex<Option<Listening>>,
}

/// Task that keeps events, until nobody asks any more.
#[derive(Clone)]
struct Listening {
    run: u64,
    kept: watch::Receiver<KeptEvents>,
    /// Tells the task of each request.
    asked: Arc<Notify>,
}

/// Kept events.
#[derive(Debug, Default)]
struct KeptEvents {
    events: VecDeque<KeptEvent>,
    bytes: usize,
    /// Number of the next event.
    next: u64,
}

#[derive(Debug)]
struct KeptEvent {
    number: u64,
    event: WatchedEvent,
    bytes: usize,
}

impl KeptEvents {
    fn add(&mut self, event: WatchedEvent) {
        // One that cannot be encoded counts as missed.
        let bytes = serde_json::to_vec(&event).map_or(usize::MAX, |json| json.len());
        let number = self.next;
        self.next += 1;
        if bytes > MAX_BYTES {
            return;
        }
        self.bytes += bytes;
        self.events.push_back(KeptEvent {
            number,
            event,
            bytes,
        });
        while self.events.len() > MAX_EVENTS || self.bytes > MAX_BYTES {
            let Some(first) = self.events.pop_front() else {
                break;
            };
            self.bytes -= first.bytes;
        }
    }

    /// Returns the events from a number on.
    fn since(&self, next: u64) -> impl Iterator<Item = &KeptEvent> {
        self.events.iter().filter(move |kept| kept.number >= next)
    }

    /// Returns those of these codes.
    fn wanted(&self, next: u64, codes: &[i32]) -> impl Iterator<Item = &WatchedEvent> {
        let events = self.since(next).map(|kept| &kept.event);
        events.filter(|event| codes.is_empty() || codes.contains(&event.code.number))
    }

    /// Returns how many events from a number on are not kept any more.
    fn missed(&self, next: u64) -> u64 {
        let kept = u64::try_from(self.since(next).count()).unwrap_or(u64::MAX);
        self.next.saturating_sub(next).saturating_sub(kept)
    }
}

impl RecentEvents {
    /// Returns the events of the server with these notices.
    pub fn new(notices: Notices) -> RecentEvents {
        RecentEvents {
            notices,
            listening: Mutex::default(),
        }
    }

    /// Waits for events of these codes after a position. Without one, or if events since it cannot be
    /// known, only the present position is returned.
    pub async fn after(&self, position: Option<EventPosition>, codes: &[i32]) -> NodeReply {
        let mut listening = self.listening();
        listening.asked.notify_one();
        let run = listening.run;
        let known = position.filter(|position| position.run == run);
        let Some(EventPosition { next, .. }) = known else {
            let next = listening.kept.borrow().next;
            return NodeReply::Events {
                position: EventPosition { run, next },
                events: Vec::new(),
                missed: 0,
            };
        };
        let is_there =
            |kept: &KeptEvents| kept.wanted(next, codes).next().is_some() || kept.missed(next) > 0;
        // Without an event the answer is empty, and the watcher asks again.
        let _ = timeout(WAIT, listening.kept.wait_for(is_there)).await;
        let kept = listening.kept.borrow();
        NodeReply::Events {
            position: EventPosition {
                run,
                next: kept.next,
            },
            events: kept.wanted(next, codes).cloned().collect(),
            missed: kept.missed(next),
        }
    }

    /// Returns the task that keeps events, and starts it if there is none.
    fn listening(&self) -> Listening {
        let mut listening = self
            .listening
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match &*listening {
            // An error means that the task has ended.
            Some(running) if running.kept.has_changed().is_ok() => running.clone(),
            _ => {
                let (sender, kept) = watch::channel(KeptEvents::default());
                let asked = Arc::new(Notify::new());
                let listener = self.notices.listen(Notice::is_passed);
                tokio::spawn(keep(listener, sender, asked.clone()));
                let run = node::random();
                listening.insert(Listening { run, kept, asked }).clone()
            }
        }
    }
}

/// Keeps events until nobody has asked for some time.
async fn keep(mut listener: Listener, kept: watch::Sender<KeptEvents>, asked: Arc<Notify>) {
    let mut until = Instant::now() + IDLE;
    loop {
        tokio::select! {
            item = listener.recv() => match item {
                Some(ListenerItem::Notice(Notice::Passed { event, results, origin, .. })) => {
                    // The node at which it was raised tells of it.
                    if origin == EventOrigin::ThisServer {
                        let event = WatchedEvent::passed(&event, &results);
                        kept.send_modify(|kept| kept.add(event));
                    }
                }
                Some(ListenerItem::Notice(_)) => {}
                Some(ListenerItem::Missed(events)) => kept.send_modify(|kept| kept.next += events),
                None => return,
            },
            () = asked.notified() => until = Instant::now() + IDLE,
            () = sleep_until(until) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{Event, Range, Status};

    fn event(code: i32) -> WatchedEvent {
        WatchedEvent::of(&Event {
            code: Status(code),
            source: None,
            range: Range::Global,
            infos: Vec::new(),
        })
    }

    #[test]
    fn kept_events_are_bounded_and_dropped_ones_counted() {
        let mut kept = KeptEvents::default();
        let total = MAX_EVENTS as u64 + 10;
        for number in 0..total {
            kept.add(event(-3000 - i32::from(number % 2 == 0)));
        }
        let found =
            |next: u64, codes: &[i32]| (kept.wanted(next, codes).count(), kept.missed(next));
        assert_eq!(found(0, &[]), (MAX_EVENTS, 10));
        assert_eq!(found(total - 4, &[-3001]), (2, 0));
        assert_eq!(found(total, &[]), (0, 0));
    }
}

//! Recent events, kept for handlers that register later. A server does not send an event again that
//! a handler of the process received or its filter dropped (RFC 0002, "PMIx Server Registrations").
use peal_model::{Event, Size};
use std::{collections::VecDeque, sync::Arc};

/// Number of an event in the order of delivery to the handlers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct EventNumber(u64);

impl EventNumber {
    /// Returns the following number.
    pub(crate) fn after(self) -> EventNumber {
        EventNumber(self.0.saturating_add(1))
    }
}

/// Bounded queue of the newest events.
#[derive(Debug)]
pub(crate) struct RecentEvents {
    events: VecDeque<RecentEvent>,
    end: EventNumber,
    bytes: usize,
    max_events: usize,
    max_bytes: usize,
}

#[derive(Debug)]
struct RecentEvent {
    number: EventNumber,
    event: Arc<Event>,
    bytes: usize,
}

impl RecentEvents {
    /// Creates an empty queue with these limits, in events and in bytes.
    pub(crate) fn new(max_events: usize, max_bytes: usize) -> RecentEvents {
        RecentEvents {
            events: VecDeque::new(),
            end: EventNumber(0),
            bytes: 0,
            max_events,
            max_bytes,
        }
    }

    /// Adds an event, and removes the oldest ones above the limits.
    pub(crate) fn push(&mut self, event: Arc<Event>) -> EventNumber {
        let number = self.end;
        let bytes = Size::of_event(&event).bytes;
        self.end = number.after();
        self.bytes = self.bytes.saturating_add(bytes);
        self.events.push_back(RecentEvent {
            number,
            event,
            bytes,
        });
        // The new event goes too if it exceeds the limit alone.
        while self.events.len() > self.max_events || self.bytes > self.max_bytes {
            let Some(oldest) = self.events.pop_front() else {
                break;
            };
            self.bytes = self.bytes.saturating_sub(oldest.bytes);
        }
        number
    }

    /// Removes an event if it is still kept.
    pub(crate) fn remove(&mut self, number: EventNumber) {
        if let Ok(at) = self
            .events
            .binary_search_by_key(&number, |recent| recent.number)
            && let Some(removed) = self.events.remove(at)
        {
            self.bytes = self.bytes.saturating_sub(removed.bytes);
        }
    }

    /// Returns the first kept event from this number on.
    pub(crate) fn next(&self, from: EventNumber) -> Option<(EventNumber, Arc<Event>)> {
        let at = self.events.partition_point(|recent| recent.number < from);
        self.events
            .get(at)
            .map(|recent| (recent.number, recent.event.clone()))
    }

    /// Returns the number of the oldest event, or of the next one if there is none.
    pub(crate) fn first(&self) -> EventNumber {
        self.events.front().map_or(self.end, |oldest| oldest.number)
    }

    /// Returns the number of the next event.
    pub(crate) fn end(&self) -> EventNumber {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{Info, Range, Status, Value, key};

    fn event(code: i32, text: &str) -> Arc<Event> {
        let infos = vec![Info::new(key::PMIX_EVENT_TEXT_MESSAGE, Value::string(text))];
        Arc::new(Event {
            code: Status(code),
            source: None,
            range: Range::Session,
            infos,
        })
    }

    fn codes(recent: &RecentEvents) -> Vec<i32> {
        let mut codes = Vec::new();
        let mut at = recent.first();
        while let Some((number, event)) = recent.next(at) {
            codes.push(event.code.0);
            at = number.after();
        }
        codes
    }

    #[test]
    fn recent_events_are_the_newest_that_have_room() {
        let mut recent = RecentEvents::new(3, 1 << 20);
        let numbers: Vec<EventNumber> = (0..5).map(|code| recent.push(event(code, ""))).collect();
        assert_eq!(codes(&recent), [2, 3, 4]);
        recent.remove(numbers[3]);
        recent.remove(numbers[0]);
        assert_eq!(codes(&recent), [2, 4]);
        assert_eq!(recent.next(numbers[3]).unwrap().1.code, Status(4));
        let bytes = Size::of_event(&event(0, "")).bytes;
        assert_eq!(recent.bytes, 2 * bytes);
    }

    #[test]
    fn recent_events_are_bounded_in_bytes() {
        let mut recent = RecentEvents::new(100, 1000);
        recent.push(event(1, ""));
        recent.push(event(2, &"x".repeat(2000)));
        assert_eq!((codes(&recent), recent.bytes), (vec![], 0));
        recent.push(event(3, ""));
        assert_eq!(codes(&recent), [3]);
    }
}

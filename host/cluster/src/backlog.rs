//! Messages that wait at their sender, because another server has no room for them.
use peal_core::server::{InterServerMessage, MissedEvents};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Messages of one server to another, in order.
///
/// Events are kept up to a limit and counted beyond it. Other messages are kept in any case: each
/// answers a request that a proc waits for, or asks for one, so there are at most as many as the
/// limits of requests allow.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Backlog {
    waiting: VecDeque<InterServerMessage>,
    bytes: usize,
    missed: MissedEvents,
}

impl Backlog {
    /// Adds a message behind the others. `max_bytes` bounds the events.
    pub(crate) fn push(&mut self, message: InterServerMessage, max_bytes: usize) {
        let bytes = message.bytes();
        if let InterServerMessage::Event(event, reach) = &message
            && self.bytes.saturating_add(bytes) > max_bytes
        {
            self.missed.count(event, *reach);
            return;
        }
        // The receiver learns of a loss before what follows it.
        self.flush_missed();
        self.bytes = self.bytes.saturating_add(bytes);
        self.waiting.push_back(message);
    }

    /// Offers the messages to `send` in order, until it returns one, for which there is no room.
    pub(crate) fn offer(
        &mut self,
        mut send: impl FnMut(InterServerMessage) -> Result<(), Box<InterServerMessage>>,
    ) {
        self.flush_missed();
        while let Some(message) = self.waiting.pop_front() {
            let bytes = message.bytes();
            if let Err(message) = send(message) {
                self.waiting.push_front(*message);
                return;
            }
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }

    /// Returns true if nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Puts the number of missed events behind the messages that precede them.
    fn flush_missed(&mut self) {
        if !self.missed.is_empty() {
            let missed = InterServerMessage::Missed(std::mem::take(&mut self.missed));
            self.bytes = self.bytes.saturating_add(missed.bytes());
            self.waiting.push_back(missed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_core::{group::GroupMessage, user_scope::UserScope};
    use peal_model::{Event, Info, Nspace, Proc, Range, Rank, Status, Value, key};
    use std::sync::Arc;

    fn event(code: i32) -> InterServerMessage {
        let proc = Proc::new(Nspace::new("job").unwrap(), Rank(0));
        let event = Event {
            code: Status(code),
            source: None,
            range: Range::Global,
            infos: vec![Info::new(key::PMIX_EVENT_AFFECTED_PROC, Value::Proc(proc))],
        };
        InterServerMessage::Event(Arc::new(event), UserScope::Everybody)
    }

    #[test]
    fn events_beyond_the_limit_are_counted_where_they_are_missing() {
        let group = || InterServerMessage::Group(GroupMessage::JobGone(Nspace::new("a").unwrap()));
        let mut backlog = Backlog::default();
        let limit = 2 * event(-1).bytes();
        for code in -4..0 {
            backlog.push(event(code), limit);
        }
        backlog.push(group(), limit);
        backlog.push(event(-9), limit);
        let mut sent = Vec::new();
        // There is room for one, then for none, then for all.
        for room in [1, 0, 9] {
            let mut room = room;
            backlog.offer(|message| {
                if room == 0 {
                    return Err(Box::new(message));
                }
                room -= 1;
                sent.push(message);
                Ok(())
            });
        }
        assert!(backlog.is_empty());
        let missed = |message: &InterServerMessage| match message {
            InterServerMessage::Missed(missed) => missed.total(),
            _ => 0,
        };
        let missed: Vec<u64> = sent.iter().map(missed).collect();
        assert_eq!(missed, [0, 0, 2, 0, 1], "{sent:?}");
        assert_eq!(sent[..2], [event(-4), event(-3)]);
        assert_eq!(sent[3], group());
        assert_eq!(backlog.bytes, 0);
    }
}

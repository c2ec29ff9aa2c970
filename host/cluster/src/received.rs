//! The receiving end of a stream: delivers each message once and in order.
use crate::{MessageRange, MessageSeq, StreamLimits};
use std::{collections::BTreeMap, sync::Arc};

/// Messages of one stream at their receiver.
#[derive(Debug)]
pub struct ReceivedMessages {
    /// The last message that was delivered or given up.
    passed: MessageSeq,
    /// Messages that came before earlier ones, or wait to be taken.
    waiting: BTreeMap<MessageSeq, Arc<[u8]>>,
    bytes: usize,
    /// The greatest number that the sender has told.
    told: MessageSeq,
    /// The sender does not keep messages up to this number any more.
    gone: MessageSeq,
    limits: StreamLimits,
    repeated: u64,
    lost: u64,
}

impl ReceivedMessages {
    /// Maximum number of messages that are asked for at once.
    pub(crate) const MAX_ASKED: u16 = 256;

    /// Returns the receiver of the messages that follow this number.
    pub fn after(passed: MessageSeq, limits: StreamLimits) -> ReceivedMessages {
        ReceivedMessages {
            passed,
            waiting: BTreeMap::new(),
            bytes: 0,
            told: passed,
            gone: passed,
            limits,
            repeated: 0,
            lost: 0,
        }
    }

    /// Takes a message. One that was taken before is counted and dropped. One that comes early is
    /// dropped if there is no room for it: it is asked for again.
    pub fn take(&mut self, seq: MessageSeq, body: Arc<[u8]>) {
        self.told_last(seq);
        if seq <= self.passed || self.waiting.contains_key(&seq) {
            self.repeated = self.repeated.saturating_add(1);
            return;
        }
        let is_next = seq == self.passed.next();
        // The next message is always taken: it makes room.
        if !is_next
            && self
                .limits
                .are_reached(self.waiting.len(), self.bytes, body.len())
        {
            return;
        }
        self.bytes = self.bytes.saturating_add(body.len());
        self.waiting.insert(seq, body);
    }

    /// Takes the number of the last message.
    pub fn told_last(&mut self, seq: MessageSeq) {
        self.told = self.told.max(seq);
    }

    /// Gives up messages up to a number, unless they wait here.
    pub fn give_up(&mut self, through: MessageSeq) {
        self.told_last(through);
        self.gone = self.gone.max(through);
    }

    /// Returns the next message in order. Messages that the sender does not keep any more are counted
    /// and left out.
    pub fn next_in_order(&mut self) -> Option<Arc<[u8]>> {
        let first = self.waiting.first_entry();
        let first_seq = first.as_ref().map(|entry| *entry.key());
        // Those that precede both the first that waits and what the sender still keeps are lost.
        let lost_through = first_seq.map_or(self.gone, |seq| {
            self.gone.min(MessageSeq(seq.0.saturating_sub(1)))
        });
        if lost_through > self.passed {
            self.lost = self.lost.saturating_add(self.passed.until(lost_through));
            self.passed = lost_through;
        }
        let entry = first.filter(|entry| *entry.key() == self.passed.next())?;
        let body = entry.remove();
        self.bytes = self.bytes.saturating_sub(body.len());
        self.passed = self.passed.next();
        Some(body)
    }

    /// Returns the numbers of the first messages that are missing.
    pub fn missing(&self) -> Option<MessageRange> {
        let first = self.passed.next();
        let before_waiting = self
            .waiting
            .keys()
            .next()
            .map_or(self.told, |seq| MessageSeq(seq.0.saturating_sub(1)));
        let last = before_waiting.min(MessageSeq(
            self.passed
                .0
                .saturating_add(u64::from(ReceivedMessages::MAX_ASKED)),
        ));
        (first <= last).then_some(MessageRange { first, last })
    }

    /// Returns the number of the last message that was delivered or given up.
    pub fn passed(&self) -> MessageSeq {
        self.passed
    }

    /// Returns the number of messages that came more than once.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Returns the number of messages that were lost.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

//! The receiving end of a link: takes each part of a message once and in order.
use crate::{
    MessageRange, MessageSeq, StreamLimits,
    sent::{SentPart, StreamSize},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Parts of one sender's messages at their receiver.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReceivedMessages {
    /// The last part that was taken in order.
    passed: MessageSeq,
    /// Parts that came before earlier ones, or wait to be taken.
    waiting: BTreeMap<MessageSeq, SentPart>,
    bytes: usize,
    /// The greatest number that the sender has told.
    told: MessageSeq,
    limits: StreamLimits,
}

impl ReceivedMessages {
    /// Maximum number of parts that are asked for at once.
    pub(crate) const MAX_ASKED: u16 = 256;

    /// Returns the receiver of a sender's first part and those that follow.
    pub fn new(limits: StreamLimits) -> ReceivedMessages {
        ReceivedMessages {
            passed: MessageSeq::default(),
            waiting: BTreeMap::new(),
            bytes: 0,
            told: MessageSeq::default(),
            limits,
        }
    }

    /// Takes a part. One that was taken before is dropped. One that comes early is dropped
    /// if there is no room for it: it is asked for again.
    pub fn take(&mut self, seq: MessageSeq, part: SentPart) {
        self.told_last(seq);
        if seq <= self.passed || self.waiting.contains_key(&seq) {
            return;
        }
        let kept = StreamSize {
            messages: self.waiting.len(),
            bytes: self.bytes,
        };
        let added = StreamSize {
            messages: 1,
            bytes: part.body.len(),
        };
        // The next part is always taken: it makes room.
        if seq != self.passed.next() && self.limits.are_reached(kept, added) {
            return;
        }
        self.bytes = self.bytes.saturating_add(added.bytes);
        self.waiting.insert(seq, part);
    }

    /// Takes the number of the sender's last part.
    pub fn told_last(&mut self, seq: MessageSeq) {
        self.told = self.told.max(seq);
    }

    /// Returns the next part in order.
    pub fn next_in_order(&mut self) -> Option<SentPart> {
        let next = self.passed.next();
        let part = self.waiting.remove(&next)?;
        self.bytes = self.bytes.saturating_sub(part.body.len());
        self.passed = next;
        Some(part)
    }

    /// Returns the numbers of the first parts that are missing.
    pub fn missing(&self) -> Option<MessageRange> {
        let first = self.passed.next();
        let before_waiting = self
            .waiting
            .keys()
            .next()
            .map_or(self.told, |seq| MessageSeq(seq.0.saturating_sub(1)));
        let most = self.passed.0.saturating_add(Self::MAX_ASKED.into());
        let last = before_waiting.min(MessageSeq(most));
        (first <= last).then_some(MessageRange { first, last })
    }

    /// Returns the number of the last part that was taken in order.
    pub fn passed(&self) -> MessageSeq {
        self.passed
    }
}

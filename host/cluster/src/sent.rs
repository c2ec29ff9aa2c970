//! Messages that were sent and are kept until the receiver has acknowledged them.
use crate::MessagePart;
use serde::{Deserialize, Serialize};
use std::{collections::VecDeque, sync::Arc};
use thiserror::Error;

/// Number of a part of a message on its way from one server to another. The first one has number 1; 0
/// precedes all.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct MessageSeq(pub u64);

impl MessageSeq {
    /// Returns the next number.
    pub fn next(self) -> MessageSeq {
        MessageSeq(self.0.saturating_add(1))
    }

    /// Returns the count of numbers that follow this one up to the other.
    pub fn until(self, last: MessageSeq) -> u64 {
        last.0.saturating_sub(self.0)
    }
}

/// Numbers of parts, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MessageRange {
    /// The first number.
    pub first: MessageSeq,
    /// The last number.
    pub last: MessageSeq,
}

/// Limits of the parts that one end of a link keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StreamLimits {
    /// Maximum number of parts.
    pub max_messages: usize,
    /// Maximum bytes of parts.
    pub max_bytes: usize,
}

impl StreamLimits {
    /// Returns true if there is no room for this much beside what is kept.
    pub(crate) fn are_reached(self, kept: StreamSize, added: StreamSize) -> bool {
        kept.messages.saturating_add(added.messages) > self.max_messages
            || kept.bytes.saturating_add(added.bytes) > self.max_bytes
    }
}

/// Amount of parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct StreamSize {
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
}

/// Error for a message that would exceed the limits of what is kept for the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("{messages} messages of {bytes} bytes are not acknowledged, which is the limit")]
pub struct WindowFull {
    /// Number of parts that are kept.
    pub messages: usize,
    /// Bytes of these parts.
    pub bytes: usize,
}

/// Messages for one receiver that the sender keeps, cut into parts.
#[derive(Debug, Serialize, Deserialize)]
pub struct SentMessages {
    last: MessageSeq,
    /// The last parts, the newest at the end.
    kept: VecDeque<SentPart>,
    bytes: usize,
    /// Number of the kept parts that were transmitted: the oldest ones.
    transmitted: usize,
    transmitted_bytes: usize,
    limits: StreamLimits,
}

/// Part of a message that was sent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SentPart {
    /// Place of the part in its message.
    pub part: MessagePart,
    /// Bytes of the part.
    pub body: Arc<[u8]>,
}

impl SentMessages {
    /// Returns a stream without messages.
    pub fn new(limits: StreamLimits) -> SentMessages {
        SentMessages {
            last: MessageSeq::default(),
            kept: VecDeque::new(),
            bytes: 0,
            transmitted: 0,
            transmitted_bytes: 0,
            limits,
        }
    }

    /// Adds a message of these parts. A message that is larger than the limits is taken if nothing else
    /// is kept.
    ///
    /// # Errors
    ///
    /// Fails if the limits are reached.
    pub fn add(&mut self, parts: Vec<SentPart>) -> Result<(), WindowFull> {
        let kept = StreamSize {
            messages: self.kept.len(),
            bytes: self.bytes,
        };
        let added = StreamSize {
            messages: parts.len(),
            bytes: parts.iter().map(|part| part.body.len()).sum(),
        };
        if kept.messages > 0 && self.limits.are_reached(kept, added) {
            return Err(WindowFull {
                messages: kept.messages,
                bytes: kept.bytes,
            });
        }
        self.bytes = self.bytes.saturating_add(added.bytes);
        let count = u64::try_from(parts.len()).unwrap_or(u64::MAX);
        self.last = MessageSeq(self.last.0.saturating_add(count));
        self.kept.extend(parts);
        Ok(())
    }

    /// Takes the next part to transmit, if the bytes of those that are on their way allow it. One part
    /// is always allowed.
    pub fn next_to_transmit(&mut self, max_bytes: usize) -> Option<(MessageSeq, SentPart)> {
        let part = self.kept.get(self.transmitted)?;
        let bytes = self.transmitted_bytes.saturating_add(part.body.len());
        if self.transmitted > 0 && bytes > max_bytes {
            return None;
        }
        self.transmitted += 1;
        self.transmitted_bytes = bytes;
        Some((self.transmitted(), part.clone()))
    }

    fn forget_oldest(&mut self) {
        if let Some(part) = self.kept.pop_front() {
            self.bytes = self.bytes.saturating_sub(part.body.len());
            self.transmitted = self.transmitted.saturating_sub(1);
            self.transmitted_bytes = self.transmitted_bytes.saturating_sub(part.body.len());
        }
    }

    /// Returns the number of the last part that was transmitted.
    pub fn transmitted(&self) -> MessageSeq {
        let transmitted = u64::try_from(self.transmitted).unwrap_or(u64::MAX);
        MessageSeq(self.acknowledged().0.saturating_add(transmitted))
    }

    /// Returns the number of the last part that the receiver has acknowledged.
    pub fn acknowledged(&self) -> MessageSeq {
        let kept = u64::try_from(self.kept.len()).unwrap_or(u64::MAX);
        MessageSeq(self.last.0.saturating_sub(kept))
    }

    /// Returns true if parts are kept.
    pub fn has_kept(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Forgets the parts up to a number. A number of a part that was not transmitted is that of a peer
    /// that acknowledges what it cannot have: nothing is forgotten.
    pub fn acknowledge(&mut self, through: MessageSeq) {
        if through > self.transmitted() {
            return;
        }
        for _ in 0..self.acknowledged().until(through) {
            self.forget_oldest();
        }
    }

    /// Returns the kept parts with these numbers that were transmitted.
    pub fn kept_within(
        &self,
        range: MessageRange,
    ) -> impl Iterator<Item = (MessageSeq, &SentPart)> {
        let first_kept = self.acknowledged().next();
        let skipped = usize::try_from(first_kept.until(range.first)).unwrap_or(usize::MAX);
        self.kept
            .iter()
            .take(self.transmitted)
            .zip(first_kept.0..)
            .skip(skipped)
            .map(|(part, seq)| (MessageSeq(seq), part))
            .take_while(move |(seq, _)| *seq <= range.last)
    }
}

//! Messages that were sent and are kept, so that they can be sent again.
use serde::{Deserialize, Serialize};
use std::{collections::VecDeque, sync::Arc};
use thiserror::Error;

/// Number of a message in its stream. The first message has number 1; 0 precedes all.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct MessageSeq(pub u64);

impl MessageSeq {
    /// Returns the number of the next message.
    pub fn next(self) -> MessageSeq {
        MessageSeq(self.0.saturating_add(1))
    }

    /// Returns the number of messages that follow this one up to the other.
    pub fn until(self, last: MessageSeq) -> u64 {
        last.0.saturating_sub(self.0)
    }
}

/// Numbers of messages, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MessageRange {
    /// The first number.
    pub first: MessageSeq,
    /// The last number.
    pub last: MessageSeq,
}

/// Limits of the messages that one end of a stream keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamLimits {
    /// Maximum number of messages.
    pub max_messages: usize,
    /// Maximum bytes of messages.
    pub max_bytes: usize,
}

impl StreamLimits {
    /// Returns true if a stream with this much has no room for a message of this length.
    pub(crate) fn are_reached(self, messages: usize, bytes: usize, len: usize) -> bool {
        messages >= self.max_messages || bytes.saturating_add(len) > self.max_bytes
    }
}

/// Error for a message that would exceed the limits of what is kept for the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("{messages} messages of {bytes} bytes are not acknowledged, which is the limit")]
pub struct WindowFull {
    /// Number of messages that are kept.
    pub messages: usize,
    /// Bytes of these messages.
    pub bytes: usize,
}

/// Messages of one stream that the sender keeps.
#[derive(Debug)]
pub struct SentMessages {
    last: MessageSeq,
    /// The last messages, the newest at the end.
    kept: VecDeque<Arc<[u8]>>,
    bytes: usize,
    limits: StreamLimits,
}

impl SentMessages {
    /// Returns a stream without messages.
    pub fn new(limits: StreamLimits) -> SentMessages {
        SentMessages {
            last: MessageSeq::default(),
            kept: VecDeque::new(),
            bytes: 0,
            limits,
        }
    }

    /// Adds a message, and returns its number.
    ///
    /// # Errors
    ///
    /// Fails if the limits are reached.
    pub fn add(&mut self, body: Arc<[u8]>) -> Result<MessageSeq, WindowFull> {
        if self
            .limits
            .are_reached(self.kept.len(), self.bytes, body.len())
        {
            return Err(WindowFull {
                messages: self.kept.len(),
                bytes: self.bytes,
            });
        }
        Ok(self.append(body))
    }

    /// Adds a message in the place of the oldest ones, and returns its number.
    pub fn add_in_place_of_oldest(&mut self, body: Arc<[u8]>) -> MessageSeq {
        while !self.kept.is_empty()
            && self
                .limits
                .are_reached(self.kept.len(), self.bytes, body.len())
        {
            self.forget_oldest();
        }
        self.append(body)
    }

    fn append(&mut self, body: Arc<[u8]>) -> MessageSeq {
        self.bytes = self.bytes.saturating_add(body.len());
        self.kept.push_back(body);
        self.last = self.last.next();
        self.last
    }

    fn forget_oldest(&mut self) {
        if let Some(body) = self.kept.pop_front() {
            self.bytes = self.bytes.saturating_sub(body.len());
        }
    }

    /// Returns the number of the last message.
    pub fn last(&self) -> MessageSeq {
        self.last
    }

    /// Returns the number of the last message that is not kept any more.
    pub fn forgotten(&self) -> MessageSeq {
        let kept = u64::try_from(self.kept.len()).unwrap_or(u64::MAX);
        MessageSeq(self.last.0.saturating_sub(kept))
    }

    /// Returns true if messages are kept.
    pub fn has_kept(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Forgets the messages up to a number. A number beyond the last message is that of a peer that
    /// acknowledges what it cannot have: nothing is forgotten.
    pub fn acknowledge(&mut self, through: MessageSeq) {
        if through > self.last {
            return;
        }
        for _ in 0..self.forgotten().until(through) {
            self.forget_oldest();
        }
    }

    /// Returns the kept messages with these numbers.
    pub fn kept_within(
        &self,
        range: MessageRange,
    ) -> impl Iterator<Item = (MessageSeq, &Arc<[u8]>)> {
        let forgotten = self.forgotten();
        let skipped = usize::try_from(forgotten.next().until(range.first)).unwrap_or(usize::MAX);
        self.kept
            .iter()
            .zip(forgotten.next().0..)
            .skip(skipped)
            .map(|(body, seq)| (MessageSeq(seq), body))
            .take_while(move |(seq, _)| *seq <= range.last)
    }
}

//! The link of this server with one other.
use crate::{
    FrameContents, LinkSettings, MessagePart, MessageRange, MessageSeq, ReceivedMessages,
    SentMessages, WindowFull, retry::Retry, sent::SentPart,
};
use peal_core::MonotonicTime;
use serde::{Deserialize, Serialize};
use std::{mem, sync::Arc};

/// Maximum number of requests for missing parts that are answered within the time after which a peer
/// repeats one.
const MAX_RESENDS: u32 = 8;

/// Result of a frame or a time for one link.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    /// A frame for the peer.
    Transmit(FrameContents),
    /// A message of the peer.
    Deliver(Arc<[u8]>),
    /// A message of the peer was dropped, because it has more bytes than a message may have.
    TooLong(usize),
}

/// Readiness of this server for the messages of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Intake {
    Open,
    /// Messages that arrive are kept within their limits and not acknowledged.
    Paused,
}

/// Message of which parts have been taken.
#[derive(Debug, Serialize, Deserialize)]
enum PartialMessage {
    Kept(Vec<u8>),
    /// It is too long. Its bytes are only counted.
    Dropped(usize),
}

impl Default for PartialMessage {
    fn default() -> PartialMessage {
        PartialMessage::Kept(Vec::new())
    }
}

/// Answered requests for missing parts, since a time.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct AnsweredRequests {
    since: MonotonicTime,
    count: u32,
}

/// The link with one peer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PeerLink {
    sent: SentMessages,
    received: ReceivedMessages,
    partial: PartialMessage,
    intake: Intake,
    asking: Retry,
    /// The last part that was asked for.
    asked: MessageSeq,
    telling_last: Retry,
    /// The peer's last part that this server has acknowledged.
    acknowledged: MessageSeq,
    acknowledge_at: Option<MonotonicTime>,
    /// Bytes that were taken in order since then.
    unacknowledged_bytes: usize,
    /// Time since which nothing came from the peer, although something is kept for it.
    unanswered_since: Option<MonotonicTime>,
    answered: AnsweredRequests,
}

impl PeerLink {
    pub(crate) fn new(settings: &LinkSettings) -> PeerLink {
        PeerLink {
            sent: SentMessages::new(settings.window),
            received: ReceivedMessages::new(settings.early),
            partial: PartialMessage::default(),
            intake: Intake::Open,
            asking: Retry::default(),
            asked: MessageSeq::default(),
            telling_last: Retry::default(),
            acknowledged: MessageSeq::default(),
            acknowledge_at: None,
            unacknowledged_bytes: 0,
            unanswered_since: None,
            answered: AnsweredRequests {
                since: MonotonicTime::default(),
                count: 0,
            },
        }
    }

    /// Sends a message to the peer.
    pub(crate) fn send(
        &mut self,
        body: Arc<[u8]>,
        now: MonotonicTime,
        settings: &LinkSettings,
        events: &mut Vec<LinkEvent>,
    ) -> Result<(), WindowFull> {
        self.sent.add(parts(body, settings.max_part_bytes))?;
        self.telling_last
            .begin(now + settings.repeat_after, settings.repeat_after);
        self.unanswered_since.get_or_insert(now);
        self.transmit(settings, events);
        Ok(())
    }

    /// Transmits what may be on its way.
    fn transmit(&mut self, settings: &LinkSettings, events: &mut Vec<LinkEvent>) {
        while let Some((seq, part)) = self.sent.next_to_transmit(settings.max_transmitted_bytes) {
            events.push(part_frame(seq, part));
        }
    }

    /// Processes a frame of the peer.
    pub(crate) fn receive(
        &mut self,
        contents: FrameContents,
        now: MonotonicTime,
        settings: &LinkSettings,
        events: &mut Vec<LinkEvent>,
    ) {
        match contents {
            FrameContents::Message { seq, part, body } => {
                self.received.take(seq, SentPart { part, body });
                self.advance(now, settings, events);
            }
            FrameContents::Last { seq } => {
                self.received.told_last(seq);
                self.acknowledge_at = Some(now);
                self.advance(now, settings, events);
            }
            FrameContents::Acknowledge { through } => {
                self.sent.acknowledge(through);
                if !self.sent.has_kept() {
                    self.telling_last.end();
                }
                self.transmit(settings, events);
            }
            FrameContents::Resend { range } => self.resend(range, now, settings, events),
        }
        self.hear(now);
    }

    /// Notes a sign of life of the peer.
    pub(crate) fn hear(&mut self, now: MonotonicTime) {
        self.unanswered_since = self.sent.has_kept().then_some(now);
    }

    /// Stops the delivery of messages.
    pub(crate) fn pause(&mut self) {
        self.intake = Intake::Paused;
    }

    /// Delivers messages again.
    pub(crate) fn resume(
        &mut self,
        now: MonotonicTime,
        settings: &LinkSettings,
        events: &mut Vec<LinkEvent>,
    ) {
        self.intake = Intake::Open;
        self.advance(now, settings, events);
    }

    /// Delivers what is in order, asks for what is missing, and acknowledges.
    fn advance(
        &mut self,
        now: MonotonicTime,
        settings: &LinkSettings,
        events: &mut Vec<LinkEvent>,
    ) {
        while self.intake == Intake::Open
            && let Some(part) = self.received.next_in_order()
        {
            self.unacknowledged_bytes = self.unacknowledged_bytes.saturating_add(part.body.len());
            events.extend(self.assemble(part, settings.max_message_bytes));
        }
        if self.received.passed() >= self.asked {
            // The next gap is another one, and is asked for at once.
            self.asking.end();
        }
        if self.received.missing().is_some() {
            self.asking.begin(now, settings.repeat_after);
        } else {
            self.asking.end();
        }
        self.ask(now, settings, events);
        let open = self.acknowledged.until(self.received.passed());
        if open >= settings.acknowledge_each
            || self.unacknowledged_bytes >= settings.acknowledge_each_bytes
        {
            self.acknowledge_at = Some(now);
        } else if open > 0 && self.acknowledge_at.is_none() {
            self.acknowledge_at = Some(now + settings.acknowledge_after);
        }
        self.acknowledge(now, events);
    }

    /// Adds a part to its message. Returns the message with its last part.
    fn assemble(&mut self, part: SentPart, max_bytes: usize) -> Option<LinkEvent> {
        let SentPart { part, body } = part;
        self.partial = match mem::take(&mut self.partial) {
            // Most messages have one part, which is not copied.
            PartialMessage::Kept(bytes)
                if bytes.is_empty() && part == MessagePart::Final && body.len() <= max_bytes =>
            {
                return Some(LinkEvent::Deliver(body));
            }
            PartialMessage::Kept(mut bytes) if bytes.len() + body.len() <= max_bytes => {
                bytes.extend_from_slice(&body);
                PartialMessage::Kept(bytes)
            }
            PartialMessage::Kept(bytes) => PartialMessage::Dropped(bytes.len() + body.len()),
            PartialMessage::Dropped(count) => {
                PartialMessage::Dropped(count.saturating_add(body.len()))
            }
        };
        if part == MessagePart::Continued {
            return None;
        }
        Some(match mem::take(&mut self.partial) {
            PartialMessage::Kept(bytes) => LinkEvent::Deliver(bytes.into()),
            PartialMessage::Dropped(count) => LinkEvent::TooLong(count),
        })
    }

    fn ask(&mut self, now: MonotonicTime, settings: &LinkSettings, events: &mut Vec<LinkEvent>) {
        if self.asking.is_due(now, settings.max_repeat_after)
            && let Some(range) = self.received.missing()
        {
            self.asked = range.last;
            events.push(LinkEvent::Transmit(FrameContents::Resend { range }));
        }
    }

    fn acknowledge(&mut self, now: MonotonicTime, events: &mut Vec<LinkEvent>) {
        if self.acknowledge_at.is_some_and(|at| at <= now) {
            self.acknowledge_at = None;
            self.unacknowledged_bytes = 0;
            self.acknowledged = self.received.passed();
            let through = self.acknowledged;
            events.push(LinkEvent::Transmit(FrameContents::Acknowledge { through }));
        }
    }

    /// Answers a request for parts. A peer that asks too often gets no answer, and asks again later.
    fn resend(
        &mut self,
        range: MessageRange,
        now: MonotonicTime,
        settings: &LinkSettings,
        events: &mut Vec<LinkEvent>,
    ) {
        if now >= self.answered.since + settings.repeat_after {
            self.answered = AnsweredRequests {
                since: now,
                count: 0,
            };
        }
        self.answered.count = self.answered.count.saturating_add(1);
        if self.answered.count > MAX_RESENDS {
            return;
        }
        events.extend(
            self.sent
                .kept_within(range)
                .take(ReceivedMessages::MAX_ASKED.into())
                .map(|(seq, part)| part_frame(seq, part.clone())),
        );
    }

    /// Does what is due at this time.
    pub(crate) fn elapse(
        &mut self,
        now: MonotonicTime,
        settings: &LinkSettings,
        events: &mut Vec<LinkEvent>,
    ) {
        if self.telling_last.is_due(now, settings.max_repeat_after) {
            let seq = self.sent.transmitted();
            events.push(LinkEvent::Transmit(FrameContents::Last { seq }));
        }
        self.ask(now, settings, events);
        self.acknowledge(now, events);
    }

    /// Returns the time at which something is due.
    pub(crate) fn due_at(&self) -> Option<MonotonicTime> {
        [
            self.telling_last.at(),
            self.asking.at(),
            self.acknowledge_at,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Returns the time since which nothing came from the peer, although it has to acknowledge something.
    pub(crate) fn unanswered_since(&self) -> Option<MonotonicTime> {
        self.unanswered_since
    }

    /// Returns true if the peer has acknowledged everything.
    pub(crate) fn is_settled(&self) -> bool {
        !self.sent.has_kept()
    }
}

fn part_frame(seq: MessageSeq, part: SentPart) -> LinkEvent {
    let SentPart { part, body } = part;
    LinkEvent::Transmit(FrameContents::Message { seq, part, body })
}

/// Cuts a message into parts.
fn parts(body: Arc<[u8]>, max_bytes: usize) -> Vec<SentPart> {
    let max_bytes = max_bytes.max(1);
    if body.len() <= max_bytes {
        let part = MessagePart::Final;
        return vec![SentPart { part, body }];
    }
    let count = body.len().div_ceil(max_bytes);
    body.chunks(max_bytes)
        .enumerate()
        .map(|(index, bytes)| SentPart {
            part: if index + 1 == count {
                MessagePart::Final
            } else {
                MessagePart::Continued
            },
            body: Arc::from(bytes),
        })
        .collect()
}

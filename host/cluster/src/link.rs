//! The link of this server with one other.
use crate::{
    FrameContents, LinkSettings, LinkStream, MessageRange, MessageSeq, ReceivedMessages,
    SentMessages, WindowFull, retry::Retry,
};
use peal_core::MonotonicTime;
use std::sync::Arc;

/// Maximum number of requests for missing messages that are answered within the time after which a
/// peer repeats one.
const MAX_RESENDS: u32 = 8;

/// Result of a frame or a time for one link.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    /// A frame for the peer.
    Transmit(FrameContents),
    /// A message of the peer.
    Deliver(LinkStream, Arc<[u8]>),
    /// Messages of the peer are lost.
    Lost(LinkStream, u64),
}

/// One stream of the peer's messages, with the requests for those that are missing.
#[derive(Debug)]
struct IncomingStream {
    stream: LinkStream,
    received: ReceivedMessages,
    asking: Retry,
    /// The last message that was asked for.
    asked: MessageSeq,
}

impl IncomingStream {
    fn new(stream: LinkStream, after: MessageSeq, settings: &LinkSettings) -> IncomingStream {
        IncomingStream {
            stream,
            received: ReceivedMessages::after(after, settings.early),
            asking: Retry::default(),
            asked: MessageSeq::default(),
        }
    }

    /// Delivers what is in order, and asks for what is missing.
    fn advance(
        &mut self,
        now: MonotonicTime,
        settings: &LinkSettings,
        events: &mut Vec<LinkEvent>,
    ) {
        let lost = self.received.lost();
        while let Some(body) = self.received.next_in_order() {
            events.push(LinkEvent::Deliver(self.stream, body));
        }
        let lost = self.received.lost().saturating_sub(lost);
        if lost > 0 {
            events.push(LinkEvent::Lost(self.stream, lost));
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
    }

    fn ask(&mut self, now: MonotonicTime, settings: &LinkSettings, events: &mut Vec<LinkEvent>) {
        if self.asking.is_due(now, settings.max_repeat_after)
            && let Some(range) = self.received.missing()
        {
            self.asked = range.last;
            events.push(LinkEvent::Transmit(FrameContents::Resend {
                stream: self.stream,
                range,
            }));
        }
    }
}

/// The link with one peer.
#[derive(Debug)]
pub(crate) struct PeerLink {
    sent: SentMessages,
    incoming: IncomingStream,
    /// The peer's messages to all; none until the peer has told where they begin for this server.
    incoming_all: Option<IncomingStream>,
    /// This server's last message to all that precedes the peer.
    all_start: MessageSeq,
    /// This server's last message to all that the peer has acknowledged.
    all_acknowledged: MessageSeq,
    asking_start: Retry,
    telling_last: Retry,
    /// The peer's last message that this server has acknowledged.
    acknowledged: MessageSeq,
    acknowledge_at: Option<MonotonicTime>,
    /// Answered requests for missing messages, since a time.
    resends: (MonotonicTime, u32),
}

impl PeerLink {
    pub(crate) fn new(
        all_start: MessageSeq,
        now: MonotonicTime,
        settings: &LinkSettings,
    ) -> PeerLink {
        let mut asking_start = Retry::default();
        asking_start.begin(now, settings.repeat_after);
        PeerLink {
            sent: SentMessages::new(settings.window),
            incoming: IncomingStream::new(LinkStream::Pair, MessageSeq::default(), settings),
            incoming_all: None,
            all_start,
            all_acknowledged: all_start,
            asking_start,
            telling_last: Retry::default(),
            acknowledged: MessageSeq::default(),
            acknowledge_at: None,
            resends: (now, 0),
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
        let seq = self.sent.add(body.clone())?;
        self.telling_last
            .begin(now + settings.repeat_after, settings.repeat_after);
        events.push(LinkEvent::Transmit(FrameContents::Message {
            stream: LinkStream::Pair,
            seq,
            body,
        }));
        Ok(())
    }

    /// Processes a frame of the peer. `all` are this server's messages to all.
    pub(crate) fn receive(
        &mut self,
        contents: FrameContents,
        all: &SentMessages,
        now: MonotonicTime,
        settings: &LinkSettings,
        events: &mut Vec<LinkEvent>,
    ) {
        match contents {
            FrameContents::Message { stream, seq, body } => {
                if let Some(incoming) = self.incoming(stream) {
                    incoming.received.take(seq, body);
                    self.advance(stream, now, settings, events);
                }
            }
            FrameContents::Last { stream, seq } => {
                if let Some(incoming) = self.incoming(stream) {
                    incoming.received.told_last(seq);
                    let through = incoming.received.passed();
                    match stream {
                        LinkStream::Pair => self.acknowledge_at = Some(now),
                        LinkStream::All => {
                            events.push(LinkEvent::Transmit(FrameContents::Acknowledge {
                                stream,
                                through,
                            }))
                        }
                    }
                    self.advance(stream, now, settings, events);
                }
            }
            FrameContents::Lost { stream, through } => {
                if let Some(incoming) = self.incoming(stream) {
                    incoming.received.give_up(through);
                    self.advance(stream, now, settings, events);
                }
            }
            FrameContents::Acknowledge { stream, through } => match stream {
                LinkStream::Pair => {
                    self.sent.acknowledge(through);
                    if !self.sent.has_kept() {
                        self.telling_last.end();
                    }
                }
                LinkStream::All => {
                    // Of what was never sent nothing can have arrived.
                    let through = through.min(all.last());
                    self.all_acknowledged = self.all_acknowledged.max(through);
                }
            },
            FrameContents::Resend { stream, range } => {
                self.resend(stream, range, all, now, settings, events);
            }
            FrameContents::AskStart => events.push(LinkEvent::Transmit(FrameContents::Start {
                after: self.all_start,
                last: all.last(),
            })),
            FrameContents::Start { after, last } => {
                self.asking_start.end();
                if self.incoming_all.is_none() {
                    let mut incoming = IncomingStream::new(LinkStream::All, after, settings);
                    incoming.received.told_last(last);
                    self.incoming_all = Some(incoming);
                    self.advance(LinkStream::All, now, settings, events);
                }
            }
        }
    }

    fn incoming(&mut self, stream: LinkStream) -> Option<&mut IncomingStream> {
        match stream {
            LinkStream::Pair => Some(&mut self.incoming),
            LinkStream::All => self.incoming_all.as_mut(),
        }
    }

    fn advance(
        &mut self,
        stream: LinkStream,
        now: MonotonicTime,
        settings: &LinkSettings,
        events: &mut Vec<LinkEvent>,
    ) {
        if let Some(incoming) = self.incoming(stream) {
            incoming.advance(now, settings, events);
        }
        let passed = self.incoming.received.passed();
        let open = self.acknowledged.until(passed);
        if open >= settings.acknowledge_each {
            self.acknowledge_at = Some(now);
        } else if open > 0 && self.acknowledge_at.is_none() {
            self.acknowledge_at = Some(now + settings.acknowledge_after);
        }
        self.acknowledge(now, events);
    }

    fn acknowledge(&mut self, now: MonotonicTime, events: &mut Vec<LinkEvent>) {
        if self.acknowledge_at.is_some_and(|at| at <= now) {
            self.acknowledge_at = None;
            self.acknowledged = self.incoming.received.passed();
            events.push(LinkEvent::Transmit(FrameContents::Acknowledge {
                stream: LinkStream::Pair,
                through: self.acknowledged,
            }));
        }
    }

    /// Answers a request for messages. A peer that asks too often gets no answer, and asks again
    /// later.
    fn resend(
        &mut self,
        stream: LinkStream,
        range: MessageRange,
        all: &SentMessages,
        now: MonotonicTime,
        settings: &LinkSettings,
        events: &mut Vec<LinkEvent>,
    ) {
        let (since, count) = self.resends;
        self.resends = if now >= since + settings.repeat_after {
            (now, 1)
        } else {
            (since, count.saturating_add(1))
        };
        if self.resends.1 > MAX_RESENDS {
            return;
        }
        let (kept, begin) = match stream {
            LinkStream::Pair => (&self.sent, MessageSeq::default()),
            LinkStream::All => (all, self.all_start),
        };
        let range = MessageRange {
            first: range.first.max(begin.next()),
            last: range.last,
        };
        let forgotten = kept.forgotten();
        if range.first <= forgotten {
            events.push(LinkEvent::Transmit(FrameContents::Lost {
                stream,
                through: forgotten,
            }));
        }
        events.extend(
            kept.kept_within(range)
                .take(usize::from(ReceivedMessages::MAX_ASKED))
                .map(|(seq, body)| {
                    LinkEvent::Transmit(FrameContents::Message {
                        stream,
                        seq,
                        body: body.clone(),
                    })
                }),
        );
    }

    /// Does what is due at this time.
    pub(crate) fn elapse(
        &mut self,
        now: MonotonicTime,
        settings: &LinkSettings,
        events: &mut Vec<LinkEvent>,
    ) {
        if self.asking_start.is_due(now, settings.max_repeat_after) {
            events.push(LinkEvent::Transmit(FrameContents::AskStart));
        }
        if self.telling_last.is_due(now, settings.max_repeat_after) {
            events.push(LinkEvent::Transmit(FrameContents::Last {
                stream: LinkStream::Pair,
                seq: self.sent.last(),
            }));
        }
        self.incoming.ask(now, settings, events);
        if let Some(incoming) = &mut self.incoming_all {
            incoming.ask(now, settings, events);
        }
        self.acknowledge(now, events);
    }

    /// Returns true if the peer has not acknowledged a message to all.
    pub(crate) fn is_behind(&self, all: &SentMessages) -> bool {
        self.all_acknowledged < all.last()
    }

    /// Returns the time at which something is due.
    pub(crate) fn due_at(&self) -> Option<MonotonicTime> {
        [
            self.asking_start.at(),
            self.telling_last.at(),
            self.incoming.asking.at(),
            self.incoming_all
                .as_ref()
                .and_then(|incoming| incoming.asking.at()),
            self.acknowledge_at,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Returns the numbers of messages of the peer that came more than once, and that were lost.
    pub(crate) fn counts(&self) -> PeerCounts {
        let all = self.incoming_all.as_ref().map(|all| &all.received);
        let pair = &self.incoming.received;
        PeerCounts {
            repeated: pair.repeated() + all.map_or(0, ReceivedMessages::repeated),
            lost: pair.lost() + all.map_or(0, ReceivedMessages::lost),
        }
    }
}

/// Counts of one peer's messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PeerCounts {
    /// Messages that came more than once. They were delivered once.
    pub repeated: u64,
    /// Messages that were lost.
    pub lost: u64,
}

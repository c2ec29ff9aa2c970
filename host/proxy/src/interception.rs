//! The two streams of a connection after the handshake, and the interception of events and replies
//! in them.
use crate::{
    client_events::{ClientEvents, PackedDelivery, RelayedRegistration},
    frame_splitter::{FrameSplitter, RawFrame},
    own_requests::{OwnRequestError, OwnRequestId, OwnRequests},
    proxy::{EventDisposition, ProxyEvent, ProxyOutput, ProxySide},
};
use peal_core::MonotonicTime;
use peal_model::{CommandCode, Event, Proc, Request, Status};
use peal_wire::{Codec, DecodeLimits, Frame, Header, Hello, Tag, Welcome, WireError};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

/// Bound on the client's registrations whose reply is tracked. Further ones are passed on
/// untracked.
const REGISTERING: usize = 4096;

/// A connection after the handshake.
#[derive(Debug)]
pub(crate) struct InterceptedConnection {
    codec: Codec,
    /// Pindex in the headers of the client's frames.
    pindex: i32,
    up: FrameSplitter,
    down: FrameSplitter,
    own_requests: OwnRequests,
    client_events: ClientEvents,
    /// Registrations of the client that await their reply.
    registering: BTreeMap<Tag, RelayedRegistration>,
    /// Frames of the proxy, to be inserted between two frames of the stream.
    to_server: VecDeque<Vec<u8>>,
    to_client: VecDeque<Vec<u8>>,
    /// Events that wait for handlers, in their order.
    waiting: VecDeque<HeldMessage>,
    waiting_bytes: usize,
    number: u64,
}

#[derive(Debug)]
struct HeldMessage {
    number: u64,
    parcel: PackedDelivery,
    pindex: i32,
    verdict: Option<EventDisposition>,
}

impl InterceptedConnection {
    /// Makes the connection from both parts of the handshake. Returns `None` if the server refused
    /// the client.
    pub(crate) fn new(
        hello: &Hello,
        welcome: Welcome,
        limits: DecodeLimits,
        request_timeout: Duration,
    ) -> Option<(InterceptedConnection, Option<Proc>)> {
        let (pindex, name) = match welcome {
            Welcome::Client { index } => (index.cast_signed(), None),
            Welcome::Tool { name, security, .. } if security.is_success() => (0, name),
            Welcome::Tool { .. } | Welcome::Refused(_) => return None,
        };
        let me = name.or_else(|| hello.peer.proc().cloned());
        let joined = InterceptedConnection {
            codec: Codec::of(hello, limits),
            pindex,
            up: FrameSplitter::new(limits.max_message),
            down: FrameSplitter::new(limits.max_message),
            own_requests: OwnRequests::new(request_timeout),
            client_events: ClientEvents::default(),
            registering: BTreeMap::new(),
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            number: 0,
        };
        Some((joined, me))
    }

    /// Sends a request to the server as the client.
    pub(crate) fn send_request(
        &mut self,
        request: &Request,
    ) -> Result<OwnRequestId, OwnRequestError> {
        let payload = self
            .codec
            .encode_request(request)
            .map_err(OwnRequestError::Pack)?;
        let (tag, request_id) = self.own_requests.open(request.command())?;
        let frame = Frame {
            pindex: self.pindex,
            tag,
            payload,
        };
        self.to_server
            .push_back(frame.encode().map_err(OwnRequestError::Pack)?);
        Ok(request_id)
    }

    /// Sends an event to the client that did not come from the server.
    pub(crate) fn deliver(&mut self, event: Arc<Event>) -> Result<(), WireError> {
        let bytes = self.packed(&event, 0)?;
        self.send(PackedDelivery { event, bytes });
        Ok(())
    }

    /// Returns the held part of a frame after its side has ended.
    pub(crate) fn rest(&mut self, of: ProxySide) -> Vec<u8> {
        match of {
            ProxySide::Client => self.up.rest(),
            ProxySide::Server => self.down.rest(),
        }
    }

    /// Returns the memory of events that wait for handlers, in bytes.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Returns true if no event waits for handlers.
    pub(crate) fn is_settled(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes bytes of the client.
    pub(crate) fn feed_client(
        &mut self,
        input: &mut &[u8],
        own: &BTreeSet<Status>,
        out: &mut ProxyOutput,
    ) {
        let codec = self.codec;
        let is_wanted = |header: &Header, glance: &[u8]| {
            let command = if header.tag == Tag::HEARTBEAT {
                None
            } else {
                codec.command_of(glance)
            };
            matches!(
                command,
                Some(CommandCode::RegisterEvents | CommandCode::DeregisterEvents)
            )
        };
        loop {
            // Requests of the proxy may go only between two frames of the client.
            if self.up.is_between() {
                out.server.extend(self.to_server.drain(..).flatten());
            }
            let Some(whole) = self.up.feed(input, &mut out.server, is_wanted) else {
                return;
            };
            match codec.decode_request(whole.payload()) {
                Ok(Request::RegisterEvents { codes, infos })
                    // Beyond the bound the registration passes unwatched: a client whose server
                    // never answers must not fill the memory.
                    // One under the tag of events has no reply that could be told from an event.
                    if self.registering.len() < REGISTERING && whole.tag != Tag::NOTIFY =>
                {
                    self.registering
                        .insert(whole.tag, RelayedRegistration::new(codes, &infos));
                    out.server.extend(whole.bytes);
                }
                Ok(Request::DeregisterEvents { codes }) => {
                    self.client_events.remove_codes(&codes);
                    out.server.extend(self.without_own_codes(own, codes, whole));
                }
                _ => out.server.extend(whole.bytes),
            }
        }
    }

    /// Returns a deregistration without the codes for which handlers are registered, or no bytes if
    /// no code is left.
    fn without_own_codes(
        &self,
        own: &BTreeSet<Status>,
        codes: Vec<Status>,
        whole: RawFrame,
    ) -> Vec<u8> {
        if !codes.iter().any(|code| own.contains(code)) {
            return whole.bytes;
        }
        let codes: Vec<Status> = codes
            .into_iter()
            .filter(|code| !own.contains(code))
            .collect();
        // A deregistration has no reply that the client could miss.
        if codes.is_empty() {
            return Vec::new();
        }
        let payload = self
            .codec
            .encode_request(&Request::DeregisterEvents { codes });
        let frame = payload.map(|payload| Frame {
            pindex: whole.pindex,
            tag: whole.tag,
            payload,
        });
        // A request that was decoded can be encoded.
        frame.and_then(|frame| frame.encode()).unwrap_or_default()
    }

    /// Takes bytes of the server.
    pub(crate) fn feed_server(
        &mut self,
        input: &mut &[u8],
        own: &BTreeSet<Status>,
        out: &mut ProxyOutput,
    ) {
        loop {
            if self.down.is_between() {
                out.client.extend(self.to_client.drain(..).flatten());
            }
            let own_requests = &self.own_requests;
            let registering = &self.registering;
            let is_wanted = |header: &Header, _: &[u8]| {
                // Without handlers nothing is decoded, and every byte passes unchanged.
                let is_event = header.tag == Tag::NOTIFY && !own.is_empty();
                is_event
                    || own_requests.contains(header.tag)
                    || registering.contains_key(&header.tag)
            };
            let Some(whole) = self.down.feed(input, &mut out.client, is_wanted) else {
                return;
            };
            if whole.tag == Tag::NOTIFY {
                self.event(whole, out);
            } else if let Some((request_id, command)) = self.own_requests.close(whole.tag) {
                let outcome = self.codec.decode_reply(command, whole.payload());
                if command == CommandCode::RegisterEvents {
                    self.client_events.count_acknowledgement();
                }
                out.events.push_back(ProxyEvent::Answered {
                    request_id,
                    outcome,
                });
            } else {
                self.registered(whole, out);
            }
        }
    }

    /// Handles the reply to a registration of the client. Kept events follow it.
    fn registered(&mut self, whole: RawFrame, out: &mut ProxyOutput) {
        let registration = self.registering.remove(&whole.tag);
        let reply = self
            .codec
            .decode_reply(CommandCode::RegisterEvents, whole.payload());
        // The acknowledgement first: the client takes no events for a registration before it.
        out.client.extend(whole.bytes);
        if let (Some(registration), true) = (
            registration,
            reply.is_ok_and(|reply| reply.status().ok().is_ok()),
        ) {
            let kept = self.client_events.add_registration(registration);
            self.to_client
                .extend(kept.into_iter().map(|parcel| parcel.bytes));
        }
    }

    fn event(&mut self, whole: RawFrame, out: &mut ProxyOutput) {
        let Ok(event) = self.codec.decode_event(whole.payload()) else {
            // The client may be able to decode it.
            self.to_client.push_back(whole.bytes);
            return;
        };
        if self.client_events.is_repeated(&event) {
            return;
        }
        let number = self.number;
        let event = Arc::new(event);
        self.number = self.number.wrapping_add(1);
        self.waiting_bytes = self.waiting_bytes.saturating_add(whole.bytes.len());
        out.events.push_back(ProxyEvent::Event {
            number,
            event: event.clone(),
        });
        let parcel = PackedDelivery {
            event,
            bytes: whole.bytes,
        };
        self.waiting.push_back(HeldMessage {
            number,
            parcel,
            pindex: whole.pindex,
            verdict: None,
        });
    }

    /// Records the verdict of handlers on an event.
    pub(crate) fn decided(&mut self, number: u64, verdict: EventDisposition) {
        if let Some(waiting) = self
            .waiting
            .iter_mut()
            .find(|waiting| waiting.number == number)
        {
            waiting.verdict = Some(verdict);
        }
        self.send_decided();
    }

    /// Sends the events at the head of the queue that have a verdict. Order is kept: a later event
    /// waits for all before it.
    fn send_decided(&mut self) {
        while let Some(HeldMessage {
            parcel,
            pindex,
            verdict,
            ..
        }) = self.waiting.pop_front_if(|first| first.verdict.is_some())
        {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(parcel.bytes.len());
            match verdict {
                Some(EventDisposition::Pass(results)) if !results.is_empty() => {
                    let mut event = Arc::unwrap_or_clone(parcel.event);
                    event.infos.extend(results);
                    // If the results make the event too large, it is sent unchanged.
                    let bytes = self.packed(&event, pindex).unwrap_or(parcel.bytes);
                    self.send(PackedDelivery {
                        event: Arc::new(event),
                        bytes,
                    });
                }
                Some(EventDisposition::Pass(_)) => self.send(parcel),
                Some(EventDisposition::Stop) | None => {}
            }
        }
    }

    fn send(&mut self, parcel: PackedDelivery) {
        self.to_client
            .extend(self.client_events.send(parcel).map(|parcel| parcel.bytes));
    }

    fn packed(&self, event: &Event, pindex: i32) -> Result<Vec<u8>, WireError> {
        let payload = self.codec.encode_event(event)?;
        Frame {
            pindex,
            tag: Tag::NOTIFY,
            payload,
        }
        .encode()
    }

    /// Advances the time. Returns the next deadline of the proxy's own requests.
    pub(crate) fn tick(
        &mut self,
        now: MonotonicTime,
        out: &mut ProxyOutput,
    ) -> Option<MonotonicTime> {
        out.events.extend(
            self.own_requests
                .tick(now)
                .into_iter()
                .map(|request_id| ProxyEvent::Late { request_id }),
        );
        self.own_requests.deadline()
    }

    /// Inserts the proxy's own frames into the streams where no frame is passed on in part.
    pub(crate) fn flush(&mut self, out: &mut ProxyOutput) {
        if self.up.is_between() {
            out.server.extend(self.to_server.drain(..).flatten());
        }
        if self.down.is_between() {
            out.client.extend(self.to_client.drain(..).flatten());
        }
    }
}

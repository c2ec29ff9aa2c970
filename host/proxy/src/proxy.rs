//! A connection from its first byte: the handshake, and the interface of the proxy.
use crate::{
    interception::InterceptedConnection,
    own_requests::{OwnRequestError, OwnRequestId},
};
use peal_core::MonotonicTime;
use peal_model::{Event, Info, Proc, Reply, Request, Status};
use peal_wire::{DecodeLimits, Hello, HelloDecoder, WelcomeDecoder, WireError};
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

/// Memory of events that wait for handlers, in bytes, beyond which the server should not be read.
const MAX_WAITING_EVENT_BYTES: usize = 16 << 20;

/// One of the two ends of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProxySide {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// Verdict of handlers on an event.
#[derive(Clone, PartialEq, Debug)]
pub enum EventDisposition {
    /// The event goes to the client, with these infos after its own.
    Pass(Vec<Info>),
    /// The event is not sent.
    Stop,
}

/// An occurrence on the connection that the caller of the proxy needs.
#[derive(Debug)]
pub enum ProxyEvent {
    /// The server has welcomed the client, which is this proc.
    Welcomed(Option<Proc>),
    /// The connection is not understood. From now on all bytes are passed on unchanged.
    Blind(Option<WireError>),
    /// An event that handlers may see. It waits for a call of [`ClientProxy::decided`].
    Event {
        /// Number of the event.
        number: u64,
        /// The event.
        event: Arc<Event>,
    },
    /// The reply to a request of the proxy.
    Answered {
        /// Number of the request.
        request_id: OwnRequestId,
        /// Decoded reply.
        outcome: Result<Reply, WireError>,
    },
    /// A request of the proxy that was not answered in time. The reply may still come.
    Late {
        /// Number of the request.
        request_id: OwnRequestId,
    },
}

/// A connection between a client and its server.
#[derive(Debug)]
pub struct ClientProxy {
    limits: DecodeLimits,
    request_timeout: Duration,
    phase: ProxyPhase,
    /// Codes for which handlers are registered; `Status::DEFAULT_HANDLER` stands for all.
    own: BTreeSet<Status>,
    out: ProxyOutput,
}

/// Bytes to be sent and occurrences to be reported.
#[derive(Debug, Default)]
pub(crate) struct ProxyOutput {
    pub(crate) client: Vec<u8>,
    pub(crate) server: Vec<u8>,
    pub(crate) events: VecDeque<ProxyEvent>,
}

#[derive(Debug)]
enum ProxyPhase {
    /// The client's handshake is incomplete.
    Hello(HelloDecoder),
    /// The server's answer is incomplete.
    Welcome(Box<Hello>, WelcomeDecoder),
    Connected(Box<InterceptedConnection>),
    Blind,
}

impl ClientProxy {
    /// Makes a proxy for a new connection. `patience` is the time that the server has for the
    /// proxy's own requests. Requests of the client are not timed.
    pub fn new(limits: DecodeLimits, request_timeout: Duration) -> ClientProxy {
        let phase = ProxyPhase::Hello(HelloDecoder::new(limits));
        ClientProxy {
            limits,
            request_timeout,
            phase,
            own: BTreeSet::new(),
            out: ProxyOutput::default(),
        }
    }

    /// Registers handlers for codes, in addition to earlier ones. No codes stand for all events.
    pub fn register_codes(&mut self, codes: &[Status]) -> Result<(), OwnRequestError> {
        let all = [Status::DEFAULT_HANDLER];
        let codes = if codes.is_empty() { &all[..] } else { codes };
        let new: Vec<Status> = codes
            .iter()
            .copied()
            // Codes that are known already are registered with the server, or will be after the
            // welcome.
            .filter(|code| self.own.insert(*code))
            .collect();
        if new.is_empty() {
            Ok(())
        } else {
            self.register(&new)
        }
    }

    fn register(&mut self, codes: &[Status]) -> Result<(), OwnRequestError> {
        let ProxyPhase::Connected(joined) = &mut self.phase else {
            return Ok(());
        };
        let (all, some): (Vec<Status>, Vec<Status>) = codes
            .iter()
            .partition(|code| **code == Status::DEFAULT_HANDLER);
        let lists = [
            (!all.is_empty()).then(Vec::new),
            (!some.is_empty()).then_some(some),
        ];
        for codes in lists.into_iter().flatten() {
            joined.send_request(&Request::RegisterEvents {
                codes,
                infos: Vec::new(),
            })?;
        }
        joined.flush(&mut self.out);
        Ok(())
    }

    /// Sends a request to the server as the client. The reply is a [`ProxyEvent::Answered`]; it may
    /// never come.
    pub fn send_request(&mut self, request: &Request) -> Result<OwnRequestId, OwnRequestError> {
        let ProxyPhase::Connected(joined) = &mut self.phase else {
            return Err(OwnRequestError::NotYet);
        };
        let request_id = joined.send_request(request)?;
        joined.flush(&mut self.out);
        Ok(request_id)
    }

    /// Sends the client an event that did not come from the server, if it is registered for it.
    pub fn deliver(&mut self, event: Arc<Event>) -> Result<(), WireError> {
        let ProxyPhase::Connected(joined) = &mut self.phase else {
            return Ok(());
        };
        joined.deliver(event)?;
        joined.flush(&mut self.out);
        Ok(())
    }

    /// Takes bytes of one side.
    pub fn feed(&mut self, from: ProxySide, mut bytes: &[u8]) {
        match from {
            ProxySide::Client => self.feed_client(&mut bytes),
            ProxySide::Server => self.feed_server(&mut bytes),
        }
        if let ProxyPhase::Connected(joined) = &mut self.phase {
            joined.flush(&mut self.out);
        }
    }

    /// Handles the end of one side. The held part of a frame is passed on unchanged.
    pub fn ended(&mut self, side: ProxySide) {
        let ProxyPhase::Connected(joined) = &mut self.phase else {
            return;
        };
        match side {
            ProxySide::Client => self.out.server.extend(joined.rest(side)),
            ProxySide::Server => self.out.client.extend(joined.rest(side)),
        }
    }

    /// Records the verdict of handlers on an event.
    pub fn decided(&mut self, number: u64, verdict: EventDisposition) {
        let ProxyPhase::Connected(joined) = &mut self.phase else {
            return;
        };
        joined.decided(number, verdict);
        joined.flush(&mut self.out);
    }

    /// Advances the time. The deadline of an own request counts from the first call after it was
    /// made. Returns the time at which to call again at the latest.
    pub fn tick(&mut self, now: MonotonicTime) -> Option<MonotonicTime> {
        let ProxyPhase::Connected(joined) = &mut self.phase else {
            return None;
        };
        joined.tick(now, &mut self.out)
    }

    /// Takes the bytes to be sent to one side.
    pub fn take(&mut self, to: ProxySide) -> Vec<u8> {
        std::mem::take(match to {
            ProxySide::Client => &mut self.out.client,
            ProxySide::Server => &mut self.out.server,
        })
    }

    /// Takes the next occurrence.
    pub fn next_event(&mut self) -> Option<ProxyEvent> {
        self.out.events.pop_front()
    }

    /// Returns true if so many events wait for handlers that the server should not be read.
    pub fn is_full(&self) -> bool {
        matches!(&self.phase, ProxyPhase::Connected(joined) if joined.waiting_bytes() > MAX_WAITING_EVENT_BYTES)
    }

    /// Returns true if no event waits for handlers.
    pub fn is_settled(&self) -> bool {
        !matches!(&self.phase, ProxyPhase::Connected(joined) if !joined.is_settled())
    }

    fn pass_through(&mut self, error: Option<WireError>) {
        self.phase = ProxyPhase::Blind;
        self.out.events.push_back(ProxyEvent::Blind(error));
    }

    fn feed_client(&mut self, input: &mut &[u8]) {
        if let ProxyPhase::Hello(decoder) = &mut self.phase {
            let all = *input;
            match decoder.feed(input) {
                Ok(hello) => {
                    pass_taken(all, input, &mut self.out.server);
                    if let Some(hello) = hello {
                        let decoder =
                            WelcomeDecoder::new(hello.peer.welcome_form(&hello.dialect()));
                        self.phase = ProxyPhase::Welcome(Box::new(hello), decoder);
                    }
                }
                Err(error) => {
                    // The decoder has taken bytes that were not passed on yet; all of them go on
                    // now.
                    *input = all;
                    self.pass_through(Some(error));
                }
            }
        }
        if matches!(self.phase, ProxyPhase::Welcome(..)) && !input.is_empty() {
            // No known client sends anything before its welcome.
            self.pass_through(None);
        }
        match &mut self.phase {
            ProxyPhase::Connected(joined) => joined.feed_client(input, &self.own, &mut self.out),
            _ => self.out.server.extend(std::mem::take(input)),
        }
    }

    fn feed_server(&mut self, input: &mut &[u8]) {
        if let ProxyPhase::Welcome(hello, decoder) = &mut self.phase {
            let all = *input;
            let fed = decoder.feed(input);
            match fed {
                Ok(welcome) => {
                    pass_taken(all, input, &mut self.out.client);
                    let joined = welcome.map(|welcome| {
                        InterceptedConnection::new(
                            hello,
                            welcome,
                            self.limits,
                            self.request_timeout,
                        )
                    });
                    match joined {
                        Some(Some((joined, me))) => {
                            self.phase = ProxyPhase::Connected(Box::new(joined));
                            self.out.events.push_back(ProxyEvent::Welcomed(me));
                            let own: Vec<Status> = self.own.iter().copied().collect();
                            // The first requests are below the bound and can be encoded.
                            let _ = self.register(&own);
                        }
                        Some(None) => self.pass_through(None),
                        None => {}
                    }
                }
                Err(error) => {
                    *input = all;
                    self.pass_through(Some(error));
                }
            }
        }
        match &mut self.phase {
            ProxyPhase::Connected(joined) => joined.feed_server(input, &self.own, &mut self.out),
            _ => self.out.client.extend(std::mem::take(input)),
        }
    }
}

/// Copies the bytes that a decoder has taken.
fn pass_taken(all: &[u8], rest: &[u8], to: &mut Vec<u8>) {
    to.extend_from_slice(
        all.get(..all.len().saturating_sub(rest.len()))
            .unwrap_or_default(),
    );
}

//! A connection from its first byte: the handshake, and what is asked of the relay.
use crate::{
    interception::Joined,
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

/// How much memory events may take that wait for handlers, in bytes, before the server should be read no further.
const WAITING: usize = 16 << 20;

/// One of the two ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProxySide {
    /// The program.
    Client,
    /// Its server.
    Server,
}

/// What becomes of an event.
#[derive(Clone, PartialEq, Debug)]
pub enum EventDisposition {
    /// It goes to the client, with these infos behind its own.
    Pass(Vec<Info>),
    /// It has been dealt with and ends here.
    Stop,
}

/// Something that whoever runs the relay should know.
#[derive(Debug)]
pub enum ProxyEvent {
    /// The server has welcomed the client, which is this proc.
    Welcomed(Option<Proc>),
    /// From here on nothing is understood and everything is passed on as it comes.
    Blind(Option<WireError>),
    /// An event came that handlers may see; it waits until [`ClientProxy::decided`] says what becomes of it.
    Event {
        /// Its number.
        number: u64,
        /// The event.
        event: Arc<Event>,
    },
    /// The answer to a request of the relay's.
    Answered {
        /// To which one.
        ask: OwnRequestId,
        /// What it says.
        outcome: Result<Reply, WireError>,
    },
    /// A request of the relay's has not been answered in time. The answer may still come.
    Late {
        /// Which one.
        ask: OwnRequestId,
    },
}

/// A connection between a client and its server.
#[derive(Debug)]
pub struct ClientProxy {
    limits: DecodeLimits,
    patience: Duration,
    phase: ProxyPhase,
    /// The codes that handlers want; `Status::DEFAULT_HANDLER` stands for all.
    own: BTreeSet<Status>,
    out: Out,
}

/// What is to be sent and told.
#[derive(Debug, Default)]
pub(crate) struct Out {
    pub(crate) client: Vec<u8>,
    pub(crate) server: Vec<u8>,
    pub(crate) happenings: VecDeque<ProxyEvent>,
}

#[derive(Debug)]
enum ProxyPhase {
    /// The client has not said hello yet.
    Hello(HelloDecoder),
    /// The server has not answered it yet.
    Welcome(Box<Hello>, WelcomeDecoder),
    Joined(Box<Joined>),
    Blind,
}

impl ClientProxy {
    /// Before the client has said anything. The server has so long for the relay's own requests; what the client asks for is between
    /// the two.
    pub fn new(limits: DecodeLimits, patience: Duration) -> ClientProxy {
        let phase = ProxyPhase::Hello(HelloDecoder::new(limits));
        ClientProxy {
            limits,
            patience,
            phase,
            own: BTreeSet::new(),
            out: Out::default(),
        }
    }

    /// Handlers want events of these codes (none: of every code) beside those that they want already.
    pub fn want(&mut self, codes: &[Status]) -> Result<(), OwnRequestError> {
        let all = [Status::DEFAULT_HANDLER];
        let codes = if codes.is_empty() { &all[..] } else { codes };
        let new: Vec<Status> = codes
            .iter()
            .copied()
            .filter(|code| self.own.insert(*code))
            .collect();
        if new.is_empty() {
            Ok(())
        } else {
            self.register(&new)
        }
    }

    fn register(&mut self, codes: &[Status]) -> Result<(), OwnRequestError> {
        let ProxyPhase::Joined(joined) = &mut self.phase else {
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
            joined.ask(&Request::RegisterEvents {
                codes,
                infos: Vec::new(),
            })?;
        }
        joined.flush(&mut self.out);
        Ok(())
    }

    /// Asks the server for something as the client. The answer is a [`ProxyEvent`]; it need not come.
    pub fn ask(&mut self, request: &Request) -> Result<OwnRequestId, OwnRequestError> {
        let ProxyPhase::Joined(joined) = &mut self.phase else {
            return Err(OwnRequestError::NotYet);
        };
        let ask = joined.ask(request)?;
        joined.flush(&mut self.out);
        Ok(ask)
    }

    /// Hands the client an event that did not come from the server, if it asked for such.
    pub fn deliver(&mut self, event: Arc<Event>) -> Result<(), WireError> {
        let ProxyPhase::Joined(joined) = &mut self.phase else {
            return Ok(());
        };
        joined.deliver(event)?;
        joined.flush(&mut self.out);
        Ok(())
    }

    /// Takes what one side sends.
    pub fn feed(&mut self, from: ProxySide, mut bytes: &[u8]) {
        match from {
            ProxySide::Client => self.client_says(&mut bytes),
            ProxySide::Server => self.server_says(&mut bytes),
        }
        if let ProxyPhase::Joined(joined) = &mut self.phase {
            joined.flush(&mut self.out);
        }
    }

    /// One side sends nothing more. What is held of a frame that will never be whole goes on as it is.
    pub fn ended(&mut self, side: ProxySide) {
        let ProxyPhase::Joined(joined) = &mut self.phase else {
            return;
        };
        match side {
            ProxySide::Client => self.out.server.extend(joined.rest(side)),
            ProxySide::Server => self.out.client.extend(joined.rest(side)),
        }
    }

    /// What handlers make of an event.
    pub fn decided(&mut self, number: u64, verdict: EventDisposition) {
        let ProxyPhase::Joined(joined) = &mut self.phase else {
            return;
        };
        joined.decided(number, verdict);
        joined.flush(&mut self.out);
    }

    /// It is so late. The relay's own requests are waited for from the first time on that this is said after they were made. Returns
    /// when it should be said again, unless something happens before.
    pub fn tick(&mut self, now: MonotonicTime) -> Option<MonotonicTime> {
        let ProxyPhase::Joined(joined) = &mut self.phase else {
            return None;
        };
        joined.tick(now, &mut self.out)
    }

    /// What is to be sent to one side.
    pub fn take(&mut self, to: ProxySide) -> Vec<u8> {
        std::mem::take(match to {
            ProxySide::Client => &mut self.out.client,
            ProxySide::Server => &mut self.out.server,
        })
    }

    /// What has happened next.
    pub fn happening(&mut self) -> Option<ProxyEvent> {
        self.out.happenings.pop_front()
    }

    /// Whether so much waits for handlers that the server should be read no further.
    pub fn is_full(&self) -> bool {
        matches!(&self.phase, ProxyPhase::Joined(joined) if joined.waiting_bytes() > WAITING)
    }

    /// Whether no event waits for handlers.
    pub fn is_settled(&self) -> bool {
        !matches!(&self.phase, ProxyPhase::Joined(joined) if !joined.is_settled())
    }

    fn pass_through(&mut self, error: Option<WireError>) {
        self.phase = ProxyPhase::Blind;
        self.out.happenings.push_back(ProxyEvent::Blind(error));
    }

    fn client_says(&mut self, input: &mut &[u8]) {
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
                    *input = all;
                    self.pass_through(Some(error));
                }
            }
        }
        if matches!(self.phase, ProxyPhase::Welcome(..)) && !input.is_empty() {
            // Nobody knows a client that does not wait for its welcome.
            self.pass_through(None);
        }
        match &mut self.phase {
            ProxyPhase::Joined(joined) => joined.client_says(input, &self.own, &mut self.out),
            _ => self.out.server.extend(std::mem::take(input)),
        }
    }

    fn server_says(&mut self, input: &mut &[u8]) {
        if let ProxyPhase::Welcome(hello, decoder) = &mut self.phase {
            let all = *input;
            let fed = decoder.feed(input);
            match fed {
                Ok(welcome) => {
                    pass_taken(all, input, &mut self.out.client);
                    let joined = welcome
                        .map(|welcome| Joined::new(hello, welcome, self.limits, self.patience));
                    match joined {
                        Some(Some((joined, me))) => {
                            self.phase = ProxyPhase::Joined(Box::new(joined));
                            self.out.happenings.push_back(ProxyEvent::Welcomed(me));
                            let own: Vec<Status> = self.own.iter().copied().collect();
                            // There is room for the first requests, and they can be packed.
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
            ProxyPhase::Joined(joined) => joined.server_says(input, &self.own, &mut self.out),
            _ => self.out.client.extend(std::mem::take(input)),
        }
    }
}

/// Passes on what a decoder has taken.
fn pass_taken(all: &[u8], rest: &[u8], to: &mut Vec<u8>) {
    to.extend_from_slice(
        all.get(..all.len().saturating_sub(rest.len()))
            .unwrap_or_default(),
    );
}

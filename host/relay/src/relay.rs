//! The two streams of a connection, and what happens in them.
use crate::{
    asked::{Ask, AskError, Asked},
    cut::{Cutter, Whole},
    heard::{Heard, Parcel, Wish},
};
use peal_model::{CommandCode, Event, Info, Proc, Reply, Request, Status};
use peal_wire::{Codec, Frame, Header, Hello, HelloDecoder, Limits, Tag, Welcome, WelcomeDecoder, WireError};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// How many registrations of the client may await their answer to be followed; what is beyond is passed on all the same.
const REGISTERING: usize = 4096;
/// How much memory events may take that wait for handlers, in bytes, before the server should be read no further.
const WAITING: usize = 16 << 20;

/// One of the two ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The program.
    Client,
    /// Its server.
    Server,
}

/// What becomes of an event.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// It goes to the client, with these infos behind its own.
    Pass(Vec<Info>),
    /// It has been dealt with and ends here.
    Stop,
}

/// Something that whoever runs the relay should know.
#[derive(Debug)]
pub enum Happening {
    /// The server has welcomed the client, which is this proc.
    Welcomed(Option<Proc>),
    /// From here on nothing is understood and everything is passed on as it comes.
    Blind(Option<WireError>),
    /// An event came that handlers may see; it waits until [`Relay::decided`] says what becomes of it.
    Event {
        /// Its number.
        number: u64,
        /// The event.
        event: Arc<Event>,
    },
    /// The answer to a request of the relay's.
    Answered {
        /// To which one.
        ask: Ask,
        /// What it says.
        outcome: Result<Reply, WireError>,
    },
}

/// A connection between a client and its server.
#[derive(Debug)]
pub struct Relay {
    limits: Limits,
    phase: Phase,
    /// The codes that handlers want; `Status::DEFAULT_HANDLER` stands for all.
    own: BTreeSet<Status>,
    out: Out,
}

/// What is to be sent and told.
#[derive(Debug, Default)]
struct Out {
    client: Vec<u8>,
    server: Vec<u8>,
    happenings: VecDeque<Happening>,
}

#[derive(Debug)]
enum Phase {
    /// The client has not said hello yet.
    Hello(HelloDecoder),
    /// The server has not answered it yet.
    Welcome(Box<Hello>, WelcomeDecoder),
    Joined(Box<Joined>),
    Blind,
}

/// A connection that is understood.
#[derive(Debug)]
struct Joined {
    codec: Codec,
    /// What stands in the headers of the client's frames.
    pindex: i32,
    up: Cutter,
    down: Cutter,
    asked: Asked,
    heard: Heard,
    /// Registrations of the client whose answer is to come.
    registering: BTreeMap<Tag, Wish>,
    /// Frames of the relay's, to be put in where one of the stream ends.
    to_server: VecDeque<Vec<u8>>,
    to_client: VecDeque<Vec<u8>>,
    /// Events before the handlers, in their order.
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    number: u64,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    parcel: Parcel,
    pindex: i32,
    verdict: Option<Verdict>,
}

impl Relay {
    /// Before the client has said anything.
    pub fn new(limits: Limits) -> Relay {
        let phase = Phase::Hello(HelloDecoder::new(limits));
        Relay { limits, phase, own: BTreeSet::new(), out: Out::default() }
    }

    /// Handlers want events of these codes (none: of every code) beside those that they want already.
    pub fn want(&mut self, codes: &[Status]) -> Result<(), AskError> {
        let all = [Status::DEFAULT_HANDLER];
        let codes = if codes.is_empty() { &all[..] } else { codes };
        let new: Vec<Status> = codes.iter().copied().filter(|code| self.own.insert(*code)).collect();
        if new.is_empty() { Ok(()) } else { self.register(&new) }
    }

    fn register(&mut self, codes: &[Status]) -> Result<(), AskError> {
        let Phase::Joined(joined) = &mut self.phase else { return Ok(()) };
        let (all, some): (Vec<Status>, Vec<Status>) = codes.iter().partition(|code| **code == Status::DEFAULT_HANDLER);
        let lists = [(!all.is_empty()).then(Vec::new), (!some.is_empty()).then_some(some)];
        for codes in lists.into_iter().flatten() {
            joined.ask(&Request::RegisterEvents { codes, infos: Vec::new() })?;
        }
        joined.flush(&mut self.out);
        Ok(())
    }

    /// Asks the server for something as the client. The answer is a [`Happening`]; it need not come.
    pub fn ask(&mut self, request: &Request) -> Result<Ask, AskError> {
        let Phase::Joined(joined) = &mut self.phase else { return Err(AskError::NotYet) };
        let ask = joined.ask(request)?;
        joined.flush(&mut self.out);
        Ok(ask)
    }

    /// Hands the client an event that did not come from the server, if it asked for such.
    pub fn deliver(&mut self, event: Arc<Event>) -> Result<(), WireError> {
        let Phase::Joined(joined) = &mut self.phase else { return Ok(()) };
        let bytes = joined.packed(&event, 0)?;
        joined.send(Parcel { event, bytes });
        joined.flush(&mut self.out);
        Ok(())
    }

    /// Takes what one side sends.
    pub fn feed(&mut self, from: Side, mut bytes: &[u8]) {
        match from {
            Side::Client => self.from_client(&mut bytes),
            Side::Server => self.from_server(&mut bytes),
        }
        if let Phase::Joined(joined) = &mut self.phase {
            joined.flush(&mut self.out);
        }
    }

    /// One side sends nothing more. What is held of a frame that will never be whole goes on as it is.
    pub fn ended(&mut self, side: Side) {
        let Phase::Joined(joined) = &mut self.phase else { return };
        match side {
            Side::Client => self.out.server.extend(joined.up.rest()),
            Side::Server => self.out.client.extend(joined.down.rest()),
        }
    }

    /// What handlers make of an event.
    pub fn decided(&mut self, number: u64, verdict: Verdict) {
        let Phase::Joined(joined) = &mut self.phase else { return };
        if let Some(waiting) = joined.waiting.iter_mut().find(|waiting| waiting.number == number) {
            waiting.verdict = Some(verdict);
        }
        joined.let_go();
        joined.flush(&mut self.out);
    }

    /// What is to be sent to one side.
    pub fn take(&mut self, to: Side) -> Vec<u8> {
        std::mem::take(match to {
            Side::Client => &mut self.out.client,
            Side::Server => &mut self.out.server,
        })
    }

    /// What has happened next.
    pub fn happening(&mut self) -> Option<Happening> {
        self.out.happenings.pop_front()
    }

    /// Whether so much waits for handlers that the server should be read no further.
    pub fn is_full(&self) -> bool {
        matches!(&self.phase, Phase::Joined(joined) if joined.waiting_bytes > WAITING)
    }

    /// Whether no event waits for handlers.
    pub fn is_settled(&self) -> bool {
        !matches!(&self.phase, Phase::Joined(joined) if !joined.waiting.is_empty())
    }

    fn blind(&mut self, error: Option<WireError>) {
        self.phase = Phase::Blind;
        self.out.happenings.push_back(Happening::Blind(error));
    }

    fn from_client(&mut self, input: &mut &[u8]) {
        if let Phase::Hello(decoder) = &mut self.phase {
            let all = *input;
            match decoder.feed(input) {
                Ok(hello) => {
                    pass_taken(all, input, &mut self.out.server);
                    if let Some(hello) = hello {
                        let decoder = WelcomeDecoder::new(hello.peer.welcome_form(&hello.dialect()));
                        self.phase = Phase::Welcome(Box::new(hello), decoder);
                    }
                }
                Err(error) => {
                    *input = all;
                    self.blind(Some(error));
                }
            }
        }
        if matches!(self.phase, Phase::Welcome(..)) && !input.is_empty() {
            // Nobody knows a client that does not wait for its welcome.
            self.blind(None);
        }
        match &mut self.phase {
            Phase::Joined(joined) => joined.from_client(input, &self.own, &mut self.out),
            _ => self.out.server.extend(std::mem::take(input)),
        }
    }

    fn from_server(&mut self, input: &mut &[u8]) {
        if let Phase::Welcome(hello, decoder) = &mut self.phase {
            let all = *input;
            let fed = decoder.feed(input);
            match fed {
                Ok(welcome) => {
                    pass_taken(all, input, &mut self.out.client);
                    let joined = welcome.map(|welcome| Joined::new(hello, welcome, self.limits));
                    match joined {
                        Some(Some((joined, me))) => {
                            self.phase = Phase::Joined(Box::new(joined));
                            self.out.happenings.push_back(Happening::Welcomed(me));
                            let own: Vec<Status> = self.own.iter().copied().collect();
                            // There is room for the first requests, and they can be packed.
                            let _ = self.register(&own);
                        }
                        Some(None) => self.blind(None),
                        None => {}
                    }
                }
                Err(error) => {
                    *input = all;
                    self.blind(Some(error));
                }
            }
        }
        match &mut self.phase {
            Phase::Joined(joined) => joined.from_server(input, &self.own, &mut self.out),
            _ => self.out.client.extend(std::mem::take(input)),
        }
    }
}

/// Passes on what a decoder has taken.
fn pass_taken(all: &[u8], rest: &[u8], to: &mut Vec<u8>) {
    to.extend_from_slice(all.get(..all.len().saturating_sub(rest.len())).unwrap_or_default());
}

impl Joined {
    /// From both halves of the handshake; nothing if the client is not welcome.
    fn new(hello: &Hello, welcome: Welcome, limits: Limits) -> Option<(Joined, Option<Proc>)> {
        let (pindex, name) = match welcome {
            Welcome::Client { index } => (index.cast_signed(), None),
            Welcome::Tool { name, security, .. } if security.is_success() => (0, name),
            Welcome::Tool { .. } | Welcome::Refused(_) => return None,
        };
        let me = name.or_else(|| hello.peer.proc().cloned());
        let joined = Joined {
            codec: Codec::of(hello, limits),
            pindex,
            up: Cutter::new(limits.max_message),
            down: Cutter::new(limits.max_message),
            asked: Asked::new(),
            heard: Heard::default(),
            registering: BTreeMap::new(),
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            number: 0,
        };
        Some((joined, me))
    }

    fn ask(&mut self, request: &Request) -> Result<Ask, AskError> {
        let payload = self.codec.encode_request(request).map_err(AskError::Pack)?;
        let (tag, ask) = self.asked.open(request.command())?;
        let frame = Frame { pindex: self.pindex, tag, payload };
        self.to_server.push_back(frame.encode().map_err(AskError::Pack)?);
        Ok(ask)
    }

    fn from_client(&mut self, input: &mut &[u8], own: &BTreeSet<Status>, out: &mut Out) {
        let codec = self.codec;
        let is_wanted = |header: &Header, glance: &[u8]| {
            let command = if header.tag == Tag::HEARTBEAT { None } else { codec.command_of(glance) };
            matches!(command, Some(CommandCode::RegisterEvents | CommandCode::DeregisterEvents))
        };
        loop {
            if self.up.is_between() {
                out.server.extend(self.to_server.drain(..).flatten());
            }
            let Some(whole) = self.up.feed(input, &mut out.server, is_wanted) else { return };
            match codec.decode_request(whole.payload()) {
                Ok(Request::RegisterEvents { codes, infos }) if self.registering.len() < REGISTERING => {
                    self.registering.insert(whole.tag, Wish::new(codes, &infos));
                    out.server.extend(whole.bytes);
                }
                Ok(Request::DeregisterEvents { codes }) => {
                    self.heard.deregisters(&codes);
                    out.server.extend(self.without(own, codes, whole));
                }
                _ => out.server.extend(whole.bytes),
            }
        }
    }

    /// A deregistration without the codes that handlers want.
    fn without(&self, own: &BTreeSet<Status>, codes: Vec<Status>, whole: Whole) -> Vec<u8> {
        if !codes.iter().any(|code| own.contains(code)) {
            return whole.bytes;
        }
        let codes: Vec<Status> = codes.into_iter().filter(|code| !own.contains(code)).collect();
        if codes.is_empty() {
            return Vec::new();
        }
        let payload = self.codec.encode_request(&Request::DeregisterEvents { codes });
        let frame = payload.map(|payload| Frame { pindex: whole.pindex, tag: whole.tag, payload });
        // What was just unpacked can be packed.
        frame.and_then(|frame| frame.encode()).unwrap_or_default()
    }

    fn from_server(&mut self, input: &mut &[u8], own: &BTreeSet<Status>, out: &mut Out) {
        loop {
            if self.down.is_between() {
                out.client.extend(self.to_client.drain(..).flatten());
            }
            let (asked, registering) = (&self.asked, &self.registering);
            let is_wanted = |header: &Header, _: &[u8]| {
                let is_event = header.tag == Tag::NOTIFY && !own.is_empty();
                is_event || asked.has(header.tag) || registering.contains_key(&header.tag)
            };
            let Some(whole) = self.down.feed(input, &mut out.client, is_wanted) else { return };
            if whole.tag == Tag::NOTIFY {
                self.event(whole, out);
            } else if let Some((ask, command)) = self.asked.answered(whole.tag) {
                let outcome = self.codec.decode_reply(command, whole.payload());
                if command == CommandCode::RegisterEvents {
                    self.heard.acknowledged();
                }
                out.happenings.push_back(Happening::Answered { ask, outcome });
            } else {
                self.registered(whole, out);
            }
        }
    }

    /// The answer to a registration of the client; behind it comes what was kept.
    fn registered(&mut self, whole: Whole, out: &mut Out) {
        let wish = self.registering.remove(&whole.tag);
        let reply = self.codec.decode_reply(CommandCode::RegisterEvents, whole.payload());
        out.client.extend(whole.bytes);
        if let (Some(wish), true) = (wish, reply.is_ok_and(|reply| reply.status().ok().is_ok())) {
            let kept = self.heard.registers(wish);
            self.to_client.extend(kept.into_iter().map(|parcel| parcel.bytes));
        }
    }

    fn event(&mut self, whole: Whole, out: &mut Out) {
        let Ok(event) = self.codec.decode_event(whole.payload()) else {
            // Its client may understand it.
            self.to_client.push_back(whole.bytes);
            return;
        };
        if self.heard.is_repeated(&event) {
            return;
        }
        let (number, event) = (self.number, Arc::new(event));
        self.number = self.number.wrapping_add(1);
        self.waiting_bytes = self.waiting_bytes.saturating_add(whole.bytes.len());
        out.happenings.push_back(Happening::Event { number, event: event.clone() });
        let parcel = Parcel { event, bytes: whole.bytes };
        self.waiting.push_back(Waiting { number, parcel, pindex: whole.pindex, verdict: None });
    }

    /// Lets events go of which it is decided what becomes of them, and of all before them.
    fn let_go(&mut self) {
        while let Some(Waiting { parcel, pindex, verdict, .. }) =
            self.waiting.pop_front_if(|first| first.verdict.is_some())
        {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(parcel.bytes.len());
            match verdict {
                Some(Verdict::Pass(results)) if !results.is_empty() => {
                    let mut event = Arc::unwrap_or_clone(parcel.event);
                    event.infos.extend(results);
                    // With too much behind it, it goes as it came.
                    let bytes = self.packed(&event, pindex).unwrap_or(parcel.bytes);
                    self.send(Parcel { event: Arc::new(event), bytes });
                }
                Some(Verdict::Pass(_)) => self.send(parcel),
                Some(Verdict::Stop) | None => {}
            }
        }
    }

    fn send(&mut self, parcel: Parcel) {
        self.to_client.extend(self.heard.send(parcel).map(|parcel| parcel.bytes));
    }

    fn packed(&self, event: &Event, pindex: i32) -> Result<Vec<u8>, WireError> {
        let payload = self.codec.encode_event(event)?;
        Frame { pindex, tag: Tag::NOTIFY, payload }.encode()
    }

    /// Puts the relay's own frames into the streams, where these are between two of theirs.
    fn flush(&mut self, out: &mut Out) {
        if self.up.is_between() {
            out.server.extend(self.to_server.drain(..).flatten());
        }
        if self.down.is_between() {
            out.client.extend(self.to_client.drain(..).flatten());
        }
    }
}

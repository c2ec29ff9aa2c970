//! Tests of the proxy between a client and a server that the test plays: the bytes of each side,
//! and the proxy's own requests.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
use peal_core::MonotonicTime;
use peal_model::{
    CommandCode, Event, Info, KeyName, Nspace, Proc, Range, Rank, Reply, Request, Status, Value,
    code,
};
use peal_proxy::{ClientProxy, EventDisposition, OwnRequestId, ProxyEvent, ProxySide};
use peal_wire::{
    BufferType, ClaimedUser, Codec, Credential, DecodeLimits, Encoding, Frame, FrameDecoder,
    GDS_HASH, Hello, PeerKind, Tag, Welcome,
};
use proptest::prelude::*;
use std::{sync::Arc, time::Duration};

const NEWS: Status = Status(-3001);
const OTHER: Status = Status(-3002);
const PATIENCE: Duration = Duration::from_millis(100);

fn me() -> Proc {
    Proc::new(Nspace::new("job").unwrap(), Rank(0))
}

fn hello() -> Hello {
    let encoding = Encoding::V41;
    let buffer_type = BufferType::NonDescribed;
    let credential = Credential::Native(ClaimedUser { uid: 7, gid: 8 });
    let peer = PeerKind::Client(me());
    let release = "4.2.2rc2".parse().unwrap();
    Hello {
        credential,
        peer,
        release,
        encoding,
        buffer_type,
        gds: GDS_HASH.into(),
        infos: Vec::new(),
    }
}

/// Both ends of a relayed connection.
struct ProxiedConnection {
    relay: ClientProxy,
    codec: Codec,
    next: u32,
    client: FrameDecoder,
    server: FrameDecoder,
}

impl ProxiedConnection {
    /// After the handshake, with handlers for these codes.
    fn new(wanted: &[Status]) -> ProxiedConnection {
        let limits = DecodeLimits::default();
        let hello = hello();
        let mut relay = ClientProxy::new(limits, PATIENCE);
        if !wanted.is_empty() {
            relay.register_codes(wanted).unwrap();
        }
        let said = hello.encode(limits).unwrap();
        relay.feed(ProxySide::Client, &said);
        assert_eq!(relay.take(ProxySide::Server), said);
        let welcome = Welcome::Client { index: 5 }.encode();
        relay.feed(ProxySide::Server, &welcome);
        assert_eq!(relay.take(ProxySide::Client), welcome);
        assert!(
            matches!(relay.next_event(), Some(ProxyEvent::Welcomed(Some(proc))) if proc == me())
        );
        let client = FrameDecoder::new(&limits);
        let server = FrameDecoder::new(&limits);
        ProxiedConnection {
            relay,
            codec: Codec::of(&hello, limits),
            next: 101,
            client,
            server,
        }
    }

    /// Bytes received by one side.
    fn at(&mut self, side: ProxySide) -> Vec<Frame> {
        let bytes = self.relay.take(side);
        let decoder = if side == ProxySide::Client {
            &mut self.client
        } else {
            &mut self.server
        };
        let mut rest = bytes.as_slice();
        let mut frames = Vec::new();
        while let Some(frame) = decoder.feed(&mut rest).unwrap() {
            frames.push(frame);
        }
        frames
    }

    /// A request of the client. Returns its frame.
    fn asks(&mut self, request: &Request) -> Frame {
        let frame = Frame {
            pindex: 5,
            tag: Tag(self.next),
            payload: self.codec.encode_request(request).unwrap(),
        };
        self.next += 1;
        self.relay.feed(ProxySide::Client, &frame.encode().unwrap());
        frame
    }

    /// The server answers with a status.
    fn answers(&mut self, tag: Tag, status: Status) -> Frame {
        let payload = self.codec.encode_status(status).unwrap();
        let frame = Frame {
            pindex: 0,
            tag,
            payload,
        };
        self.relay.feed(ProxySide::Server, &frame.encode().unwrap());
        frame
    }

    /// The server sends an event. Returns its frame.
    fn raises(&mut self, event: &Event) -> Frame {
        let frame = Frame {
            pindex: 0,
            tag: Tag::NOTIFY,
            payload: self.codec.encode_event(event).unwrap(),
        };
        self.relay.feed(ProxySide::Server, &frame.encode().unwrap());
        frame
    }

    /// The client registers, and that is acknowledged.
    fn registers(&mut self, codes: &[Status]) {
        let asked = self.asks(&Request::RegisterEvents {
            codes: codes.to_vec(),
            infos: Vec::new(),
        });
        assert_eq!(self.at(ProxySide::Server), std::slice::from_ref(&asked));
        let answer = self.answers(asked.tag, code::PMIX_SUCCESS);
        assert_eq!(self.at(ProxySide::Client)[0], answer);
    }

    /// The number of the event that waits for handlers.
    fn waiting(&mut self) -> u64 {
        loop {
            match self.relay.next_event() {
                Some(ProxyEvent::Event { number, .. }) => return number,
                Some(_) => {}
                None => panic!("no event waits"),
            }
        }
    }

    /// The proxy's own registrations are acknowledged.
    fn acknowledge(&mut self) {
        for frame in self.at(ProxySide::Server) {
            assert_eq!(
                self.codec.command_of(&frame.payload),
                Some(CommandCode::RegisterEvents)
            );
            assert_eq!(frame.pindex, 5, "as the client's");
            self.answers(frame.tag, code::PMIX_SUCCESS);
        }
        assert_eq!(
            self.at(ProxySide::Client),
            [],
            "the client hears nothing of it"
        );
    }
}

fn event(code: Status, number: u64) -> Event {
    let source = Some(Proc::new(Nspace::new("job").unwrap(), Rank(1)));
    let infos = vec![Info::new(KeyName("test.number"), Value::Uint64(number))];
    Event {
        code,
        source,
        range: Range::Namespace,
        infos,
    }
}

#[test]
fn handlers_are_registered_and_client_gets_only_own_codes() {
    let mut stage = ProxiedConnection::new(&[NEWS, Status::DEFAULT_HANDLER]);
    stage.acknowledge();
    stage.registers(&[OTHER]);
    stage.raises(&event(NEWS, 1));
    let number = stage.waiting();
    stage
        .relay
        .decided(number, EventDisposition::Pass(Vec::new()));
    assert_eq!(
        stage.at(ProxySide::Client),
        [],
        "only handlers asked for it"
    );
    let wanted = stage.raises(&event(OTHER, 2));
    let number = stage.waiting();
    assert_eq!(stage.at(ProxySide::Client), [], "it waits for the handlers");
    stage
        .relay
        .decided(number, EventDisposition::Pass(Vec::new()));
    assert_eq!(stage.at(ProxySide::Client), [wanted], "as it came");
}

#[test]
fn results_follow_infos_and_completion_ends_chain() {
    let mut stage = ProxiedConnection::new(&[NEWS]);
    stage.acknowledge();
    stage.registers(&[NEWS]);
    stage.raises(&event(NEWS, 1));
    let result = Info::new(KeyName("handler"), Value::Bool(true));
    let number = stage.waiting();
    stage
        .relay
        .decided(number, EventDisposition::Pass(vec![result.clone()]));
    let came = stage.at(ProxySide::Client);
    let heard = stage.codec.decode_event(&came[0].payload).unwrap();
    assert_eq!(heard.infos[1..], [result]);
    stage.raises(&event(NEWS, 2));
    let number = stage.waiting();
    stage.relay.decided(number, EventDisposition::Stop);
    assert_eq!(stage.at(ProxySide::Client), []);
    assert!(stage.relay.is_settled());
}

#[test]
fn events_keep_their_order_and_answers_overtake_them() {
    let mut stage = ProxiedConnection::new(&[NEWS]);
    stage.acknowledge();
    stage.registers(&[NEWS]);
    let first = stage.raises(&event(NEWS, 1));
    let second = stage.raises(&event(NEWS, 2));
    let one = stage.waiting();
    let two = stage.waiting();
    let asked = stage.asks(&Request::Finalize);
    let answer = stage.answers(asked.tag, code::PMIX_SUCCESS);
    assert_eq!(stage.at(ProxySide::Client), [answer]);
    stage.relay.decided(two, EventDisposition::Pass(Vec::new()));
    assert_eq!(stage.at(ProxySide::Client), []);
    stage.relay.decided(one, EventDisposition::Pass(Vec::new()));
    assert_eq!(stage.at(ProxySide::Client), [first, second]);
}

#[test]
fn early_event_is_kept_until_registration_and_sent_once() {
    let mut stage = ProxiedConnection::new(&[NEWS]);
    stage.acknowledge();
    let early = stage.raises(&event(NEWS, 1));
    let number = stage.waiting();
    stage
        .relay
        .decided(number, EventDisposition::Pass(Vec::new()));
    assert_eq!(stage.at(ProxySide::Client), []);
    let asked = stage.asks(&Request::RegisterEvents {
        codes: vec![NEWS],
        infos: Vec::new(),
    });
    let answer = stage.answers(asked.tag, code::PMIX_SUCCESS);
    assert_eq!(
        stage.at(ProxySide::Client),
        [answer, early],
        "behind the acknowledgement"
    );
    // The C library's server has it, too, and says no range.
    let again = Event {
        range: Range::Undef,
        ..event(NEWS, 1)
    };
    stage.raises(&again);
    assert!(
        stage.relay.next_event().is_none() && stage.relay.is_settled(),
        "neither handlers nor the client see it again"
    );
    // But one that is only the same is another one.
    stage.raises(&event(NEWS, 1));
    stage.waiting();
}

#[test]
fn a_client_cannot_deregister_for_handlers() {
    let mut stage = ProxiedConnection::new(&[NEWS]);
    stage.acknowledge();
    stage.registers(&[NEWS, OTHER]);
    stage.asks(&Request::DeregisterEvents {
        codes: vec![NEWS, OTHER],
    });
    let sent = stage.at(ProxySide::Server);
    let told = stage.codec.decode_request(&sent[0].payload).unwrap();
    assert_eq!(told, Request::DeregisterEvents { codes: vec![OTHER] });
    stage.asks(&Request::DeregisterEvents { codes: vec![NEWS] });
    assert_eq!(stage.at(ProxySide::Server), []);
    stage.raises(&event(NEWS, 1));
    let number = stage.waiting();
    stage
        .relay
        .decided(number, EventDisposition::Pass(Vec::new()));
    assert_eq!(stage.at(ProxySide::Client), [], "it wants it no more");
}

#[test]
fn requests_of_handlers_are_answered_to_them_alone() {
    let mut stage = ProxiedConnection::new(&[]);
    let log = Request::Log {
        timestamp: 0,
        data: Vec::new(),
        directives: Vec::new(),
    };
    let request_id: OwnRequestId = stage.relay.send_request(&log).unwrap();
    let sent = stage.at(ProxySide::Server);
    assert_eq!(stage.codec.decode_request(&sent[0].payload).unwrap(), log);
    stage.answers(sent[0].tag, code::PMIX_ERR_NOT_SUPPORTED);
    assert_eq!(stage.at(ProxySide::Client), []);
    let Some(ProxyEvent::Answered {
        request_id: answered,
        outcome,
    }) = stage.relay.next_event()
    else {
        panic!("it is answered")
    };
    assert_eq!(
        (answered, outcome),
        (request_id, Ok(Reply::Status(code::PMIX_ERR_NOT_SUPPORTED)))
    );
}

#[test]
fn silent_server_is_reported_once_and_may_still_answer() {
    let mut stage = ProxiedConnection::new(&[NEWS]);
    let late = |stage: &mut ProxiedConnection| {
        let happenings = std::iter::from_fn(|| stage.relay.next_event());
        let late = happenings.filter_map(|one| {
            if let ProxyEvent::Late { request_id } = one {
                Some(request_id)
            } else {
                None
            }
        });
        late.collect::<Vec<OwnRequestId>>()
    };
    let registered = stage.at(ProxySide::Server);
    assert_eq!(
        stage.relay.tick(MonotonicTime(1000)),
        Some(MonotonicTime(1100)),
        "the registration of handlers is waited for, too"
    );
    let log = Request::Log {
        timestamp: 0,
        data: Vec::new(),
        directives: Vec::new(),
    };
    let request_id = stage.relay.send_request(&log).unwrap();
    let asked = stage.at(ProxySide::Server);
    assert_eq!(
        stage.relay.tick(MonotonicTime(1050)),
        Some(MonotonicTime(1100))
    );
    stage.answers(registered[0].tag, code::PMIX_SUCCESS);
    assert_eq!(
        stage.relay.tick(MonotonicTime(1149)),
        Some(MonotonicTime(1150)),
        "what is answered is not late"
    );
    assert_eq!(late(&mut stage), []);
    assert_eq!(
        stage.relay.tick(MonotonicTime(1150)),
        None,
        "there is nothing more to wait for"
    );
    assert_eq!(late(&mut stage), [request_id]);
    assert_eq!(stage.relay.tick(MonotonicTime(9000)), None);
    assert_eq!(late(&mut stage), [], "it is told once");
    stage.answers(asked[0].tag, code::PMIX_SUCCESS);
    assert_eq!(
        stage.at(ProxySide::Client),
        [],
        "nor is the answer the client's when it comes"
    );
    assert!(
        matches!(stage.relay.next_event(), Some(ProxyEvent::Answered { request_id: answered, .. }) if answered == request_id)
    );
    // Requests of the client itself are not timed.
    stage.asks(&log);
    assert_eq!(stage.relay.tick(MonotonicTime(9000)), None);
}

#[test]
fn events_for_handlers_reach_the_registered_client() {
    let mut stage = ProxiedConnection::new(&[]);
    stage.registers(&[NEWS]);
    stage.relay.deliver(Arc::new(event(NEWS, 1))).unwrap();
    stage.relay.deliver(Arc::new(event(OTHER, 2))).unwrap();
    let heard = stage.at(ProxySide::Client);
    assert_eq!(heard.len(), 1);
    assert_eq!(
        stage.codec.decode_event(&heard[0].payload).unwrap(),
        event(NEWS, 1)
    );
}

#[test]
fn unknown_messages_pass() {
    let mut relay = ClientProxy::new(DecodeLimits::default(), PATIENCE);
    relay.register_codes(&[NEWS]).unwrap();
    let strange = b"GET / HTTP/1.1\r\n\r\n";
    relay.feed(ProxySide::Client, strange);
    relay.feed(ProxySide::Server, strange);
    assert_eq!(
        (relay.take(ProxySide::Client), relay.take(ProxySide::Server)),
        (strange.to_vec(), strange.to_vec())
    );
    assert!(matches!(
        relay.next_event(),
        Some(ProxyEvent::Blind(Some(_)))
    ));
}

/// A step of a conversation.
#[derive(Clone, Debug)]
enum Said {
    /// A request of the client that is no registration, with a payload of this length.
    Asks(usize),
    /// The server answers the request before.
    Answers,
    /// An event that the client registered for.
    Event,
    /// A request of the handlers.
    Wants,
}

fn said() -> impl Strategy<Value = Vec<Said>> {
    let one = prop_oneof![
        (0..3000_usize).prop_map(Said::Asks),
        Just(Said::Answers),
        Just(Said::Event),
        Just(Said::Wants)
    ];
    proptest::collection::vec(one, 0..24)
}

proptest! {
    #[test]
    fn handler_requests_change_nothing_for_client_and_server(said in said(), piece in 1..64_usize) {
        let mut stage = ProxiedConnection::new(&[Status::DEFAULT_HANDLER]);
        stage.acknowledge();
        stage.registers(&[]);
        let mut up = Vec::new();
        let mut down = Vec::new();
        let mut asks = 0;
        let mut rest_up: Vec<u8> = Vec::new();
        let mut rest_down: Vec<u8> = Vec::new();
        for (at, said) in said.iter().enumerate() {
            let tag = Tag(200 + at as u32);
            match said {
                Said::Asks(length) => {
                    let data = vec![Info::new(KeyName("test.text"), Value::string(&"x".repeat(*length)))];
                    let log = Request::Log { timestamp: 0, data, directives: Vec::new() };
                    let frame = Frame { pindex: 5, tag, payload: stage.codec.encode_request(&log).unwrap() };
                    rest_up.extend(frame.encode().unwrap());
                    up.push(frame);
                }
                Said::Answers => {
                    let payload = stage.codec.encode_status(code::PMIX_SUCCESS).unwrap();
                    let frame = Frame { pindex: 0, tag, payload };
                    rest_down.extend(frame.encode().unwrap());
                    down.push(frame);
                }
                Said::Event => {
                    let payload = stage.codec.encode_event(&event(NEWS, at as u64)).unwrap();
                    let frame = Frame { pindex: 0, tag: Tag::NOTIFY, payload };
                    rest_down.extend(frame.encode().unwrap());
                    down.push(frame);
                }
                Said::Wants => {
                    stage.relay.send_request(&Request::Query { queries: Vec::new() }).unwrap();
                    asks += 1;
                }
            }
            // The rest of the previous frame may follow frames that handlers want.
            for (side, rest) in [(ProxySide::Client, &mut rest_up), (ProxySide::Server, &mut rest_down)] {
                let now: Vec<u8> = rest.drain(..piece.min(rest.len())).collect();
                stage.relay.feed(side, &now);
            }
        }
        for (side, rest) in [(ProxySide::Client, rest_up), (ProxySide::Server, rest_down)] {
            rest.chunks(piece).for_each(|piece| stage.relay.feed(side, piece));
        }
        while let Some(happening) = stage.relay.next_event() {
            if let ProxyEvent::Event { number, .. } = happening {
                stage.relay.decided(number, EventDisposition::Pass(Vec::new()));
            }
        }
        let (own, of_client): (Vec<Frame>, Vec<Frame>) =
            stage.at(ProxySide::Server).into_iter().partition(|frame| frame.tag >= Tag(1 << 30));
        prop_assert_eq!(of_client, up);
        prop_assert_eq!(own.len(), asks);
        let is_event = |frame: &Frame| frame.tag == Tag::NOTIFY;
        let (events, answers): (Vec<Frame>, Vec<Frame>) = stage.at(ProxySide::Client).into_iter().partition(is_event);
        let (sent_events, sent_answers): (Vec<Frame>, Vec<Frame>) = down.into_iter().partition(is_event);
        prop_assert_eq!(events, sent_events);
        prop_assert_eq!(answers, sent_answers);
    }

    #[test]
    fn without_handlers_every_byte_passes(data in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert_eq!(peal_proxy::fuzz::streams(&data), Ok(()));
    }

    #[test]
    fn and_behind_a_handshake(data in proptest::collection::vec(any::<u8>(), 0..400)) {
        let said = hello().encode(DecodeLimits::default()).unwrap();
        let mut all = Vec::new();
        // The lengths of `streams`: even ones are the client's.
        for piece in said.chunks(100) {
            all.push((piece.len() * 2) as u8);
            all.extend(piece);
        }
        let welcome = Welcome::Client { index: 5 }.encode();
        all.push((welcome.len() * 2 + 1) as u8);
        all.extend(welcome);
        all.extend(data);
        prop_assert_eq!(peal_proxy::fuzz::streams(&all), Ok(()));
    }
}

//! Invalid input of clients. The server refuses or answers every connection, and counts it. The
//! well-behaved clients of the same server do not notice it.
use peal_client::Client;
use peal_core::quota::Quota;
use peal_model::{
    CommandCode, Commit, DataArray, Info, Infos, KeyName, Kval, Proc, Range, Rank, Request, Scope,
    Status, Text, Value, code, key, rank,
};
use peal_needs::needs;
use peal_server::{Counters, OutboxLimits, ServerSettings, metrics::Gauge};
use peal_tests::{
    flooded_server::{ATTACKER, FLOOD, FloodedServer, NEWS, ROUND, SIZE},
    in_process::{Node, next, soon},
    raw_client::{Peer, RawClient, encoded, handshake_header, hello},
    rng::SplitMix64,
    until,
};
use peal_wire::{ClaimedUser, Codec, Credential, DecodeLimits, Hello, PeerKind, ToolIdentifier};
use std::{
    io::Write,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// First byte of a field with one value.
const ONE: u8 = 2;

#[tokio::test(flavor = "multi_thread")]
async fn garbage_and_half_handshakes_are_refused() {
    let mut flooded = FloodedServer::begin(FloodedServer::settings()).await;
    let mut seeded = SplitMix64(1);
    let good = encoded(&hello(flooded.node.proc(ATTACKER)));
    for attempt in 1..=150 {
        let bytes = match attempt % 3 {
            0 => seeded.bytes(300),
            1 => {
                let body = seeded.bytes(300);
                [handshake_header(u32::try_from(body.len()).unwrap()), body].concat()
            }
            _ => good[..seeded.below(good.len() - 1)].to_vec(),
        };
        let mut raw = RawClient::connect(&flooded.node).await;
        raw.say(&bytes).await;
        raw.say_no_more().await;
        assert!(
            raw.is_closed_without_a_byte().await,
            "attempt {attempt}: {bytes:?}"
        );
        assert_eq!(flooded.refused(), attempt);
    }
    flooded.is_withstood().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_handshake_then_silence_is_refused_at_timeout() {
    let handshake_timeout = Duration::from_secs(2);
    let mut flooded = FloodedServer::begin(ServerSettings {
        handshake_timeout,
        ..ServerSettings::default()
    })
    .await;
    let good = encoded(&hello(flooded.node.proc(ATTACKER)));
    let start = Instant::now();
    let mut halves = Vec::new();
    for len in [0, 1, 15, 16, 17, good.len() - 2] {
        let mut raw = RawClient::connect(&flooded.node).await;
        raw.say(&good[..len]).await;
        halves.push(raw);
    }
    flooded.is_withstood().await;
    for raw in halves {
        assert!(raw.is_closed_without_a_byte().await);
    }
    assert!(start.elapsed() >= handshake_timeout);
    assert_eq!(flooded.refused(), 6);
    flooded.is_withstood().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_handshake_is_refused_and_longest_is_served() {
    let mut flooded = FloodedServer::begin(FloodedServer::settings()).await;
    let limit = DecodeLimits::default().max_handshake;
    let over = u32::try_from(limit + 1).unwrap();
    let wrong_tag = [&[0xff; 4][..], &[0; 4], &[1, 0, 0, 0], &[0; 4]].concat();
    for (at, header) in (1..).zip([
        handshake_header(u32::MAX),
        handshake_header(over),
        wrong_tag,
    ]) {
        let mut raw = RawClient::connect(&flooded.node).await;
        raw.say(&header).await;
        // No payload follows and the connection stays open, so the server refuses the header
        // itself.
        assert!(raw.is_closed_without_a_byte().await, "{header:?}");
        assert_eq!(flooded.refused(), at);
    }

    let with = |len| {
        let mut hello = hello(flooded.node.proc(ATTACKER));
        hello.infos.push(Info::new(
            key::PMIX_CMD_LINE,
            Value::string(&"x".repeat(len)),
        ));
        hello
    };
    let rest = encoded(&with(limit)).len() - 16 - limit;
    let longest = with(limit - rest);
    assert_eq!(encoded(&longest).len(), 16 + limit);
    let raw = RawClient::connect(&flooded.node).await;
    assert!(raw.greet(&longest).await.is_some());
    assert!(
        RawClient::connect(&flooded.node)
            .await
            .greet(&with(limit - rest + 1))
            .await
            .is_none()
    );
    flooded.is_withstood().await;
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn unknown_peer_is_refused_without_a_byte() {
    let mut flooded = FloodedServer::begin(FloodedServer::settings()).await;
    let me = flooded.node.proc(ATTACKER);
    let stranger = Proc::new(peal_model::Nspace::new("elsewhere").unwrap(), Rank(0));
    let Credential::Native(user) = hello(me.clone()).credential else {
        panic!("the good hello is native")
    };
    let next_uid = ClaimedUser {
        uid: user.uid + 1,
        ..user
    };
    let next_gid = ClaimedUser {
        gid: user.gid + 1,
        ..user
    };
    type Lie = Box<dyn Fn(&mut Hello)>;
    let credential = |credential: Credential| -> Lie {
        Box::new(move |hello| hello.credential = credential.clone())
    };
    let peer = |peer: PeerKind| -> Lie { Box::new(move |hello| hello.peer = peer.clone()) };
    let gds = |name: &'static str| -> Lie { Box::new(move |hello| hello.gds = Text::from(name)) };
    let client = |proc: Proc| peer(PeerKind::Client(proc));
    let lies: Vec<(&str, Lie)> = vec![
        ("an unknown namespace", client(stranger.clone())),
        ("a rank beyond the last", client(flooded.node.proc(SIZE))),
        (
            "the wildcard rank",
            client(Proc::new(me.nspace.clone(), rank::PMIX_RANK_WILDCARD)),
        ),
        ("another user", credential(Credential::Native(next_uid))),
        ("another group", credential(Credential::Native(next_gid))),
        ("security module none", credential(Credential::None)),
        (
            "security module munge",
            credential(Credential::Munge(b"MUNGE:\0".as_slice().into())),
        ),
        ("an unknown security module", {
            credential(Credential::Other {
                module: Text::from("trust-me"),
                bytes: b"root".as_slice().into(),
            })
        }),
        ("shared memory", gds("ds21")),
        ("no data store", gds("")),
        (
            "a tool of two users",
            peer(PeerKind::Tool(next_uid, ToolIdentifier::Wanted)),
        ),
        (
            "a tool by another's name",
            peer(PeerKind::Tool(user, ToolIdentifier::Own(me.clone()))),
        ),
        (
            "a tool by the server's name",
            peer(PeerKind::Tool(
                user,
                ToolIdentifier::Own(flooded.node.server.uri().proc.clone()),
            )),
        ),
        (
            "a launcher of another user that nobody started",
            peer(PeerKind::Launcher(
                next_uid,
                ToolIdentifier::Started(stranger.clone()),
            )),
        ),
        ("a singleton", peer(PeerKind::Singleton(user, me.clone()))),
        ("a scheduler", peer(PeerKind::Scheduler(user, me.clone()))),
    ];
    for (refused, (what, lie)) in (1..).zip(lies) {
        let mut hello = hello(me.clone());
        lie(&mut hello);
        let mut raw = RawClient::connect(&flooded.node).await;
        raw.say(&encoded(&hello)).await;
        assert!(raw.is_closed_without_a_byte().await, "{what}");
        assert_eq!(flooded.refused(), refused, "{what}");
    }
    flooded.is_withstood().await;

    // A proc that was lost cannot connect again.
    drop(Peer::connect(&flooded.node, ATTACKER).await);
    let lost = async {
        while flooded.node.server.handle().life(me.clone()).await
            != Some(peal_core::job::ProcPhase::Lost)
        {
            tokio::task::yield_now().await;
        }
    };
    soon("the server notices the end of a connection", lost).await;
    assert!(
        RawClient::connect(&flooded.node)
            .await
            .greet(&hello(me))
            .await
            .is_none()
    );
    flooded.is_withstood().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_sent_one_by_one_are_understood() {
    let flooded = FloodedServer::begin(FloodedServer::settings()).await;
    let hello = hello(flooded.node.proc(ATTACKER));
    let mut raw = RawClient::connect(&flooded.node).await;
    for byte in encoded(&hello) {
        raw.say(&[byte]).await;
    }
    let mut peer = raw
        .welcomed(&hello)
        .await
        .expect("a slow client is a client");
    peer.request(101, &Request::Finalize).await;
    assert_eq!(peer.status(101).await, code::PMIX_SUCCESS);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_absurd_frame_closes_its_connection() {
    let max_message = 1024 * 1024;
    let wire = DecodeLimits {
        max_message,
        ..DecodeLimits::default()
    };
    let mut flooded = FloodedServer::begin(ServerSettings {
        wire,
        ..FloodedServer::settings()
    })
    .await;
    let over = u32::try_from(max_message + 1).unwrap();
    for (attempt, len) in (1..).zip([u32::MAX, over]) {
        let mut peer = Peer::connect(&flooded.node, ATTACKER + attempt).await;
        peer.say_header(101, len).await;
        assert_eq!(peer.next().await, None, "length {len}");
        assert_eq!(flooded.malformed(), u64::from(attempt));
    }
    flooded.is_withstood().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_request_gets_status_and_connection_continues() {
    let mut flooded = FloodedServer::begin(FloodedServer::settings()).await;
    let mut peer = Peer::connect(&flooded.node, ATTACKER).await;
    let mut seeded = SplitMix64(2);
    let mut tag = 101;
    while tag < 400 {
        // The payload is random from the first byte on, or is one value of any command, or of an
        // existing command with random arguments.
        let mut payload = seeded.bytes(120);
        match (tag % 3, payload.as_mut_slice()) {
            (1, [count, _, ..]) => *count = ONE,
            (2, [count, command, ..]) => (*count, *command) = (ONE, *command % 36),
            _ => {}
        }
        let Err(error) = peer.codec.decode_request(&payload) else {
            continue;
        };
        if let Some(CommandCode::JobData | CommandCode::DeregisterEvents) =
            peer.codec.command_of(&payload)
        {
            continue;
        }
        peer.say(tag, payload.clone()).await;
        assert_eq!(peer.status(tag).await, error.status(), "{payload:?}");
        tag += 1;
    }
    let unknown = flooded.count(|counters| &counters.requests_unsupported);
    assert_eq!(flooded.malformed() + unknown, 299);
    assert!(
        flooded.malformed() > 100 && unknown > 50,
        "{unknown} unknown"
    );

    let mut payload = peer.codec.encode_request(&Request::Finalize).unwrap();
    *payload.last_mut().unwrap() = 99;
    peer.say(tag, payload).await;
    assert_eq!(
        peer.status(tag).await,
        Status(-47),
        "PMIX_ERR_NOT_SUPPORTED"
    );
    assert_eq!(
        flooded.count(|counters| &counters.requests_unsupported),
        unknown + 1
    );

    // Arrays are nested beyond the limit.
    let nested = (0..100).fold(Value::Bool(true), |inner, _| {
        Value::DataArray(DataArray::infos([Info::new(ROUND, inner)]))
    });
    let notify = Request::Notify {
        code: NEWS,
        range: Range::Local,
        infos: vec![Info::new(ROUND, nested)],
    };
    let deep = Codec {
        limits: DecodeLimits {
            max_depth: 1000,
            ..DecodeLimits::default()
        },
        ..peer.codec
    };
    peer.say(101, deep.encode_request(&notify).unwrap()).await;
    assert_eq!(peer.status(101).await, code::PMIX_ERR_UNPACK_FAILURE);

    peer.request(102, &Request::Commit(Vec::new())).await;
    assert_eq!(peer.status(102).await, code::PMIX_SUCCESS);
    flooded.is_withstood().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_request_without_status_reply_gets_none() {
    let mut flooded = FloodedServer::begin(FloodedServer::settings()).await;
    let mut peer = Peer::connect(&flooded.node, ATTACKER).await;
    let garbled = |command: CommandCode| vec![ONE, command.number(), 0xff, 0xff];
    // This request has no answer, so its arguments do not matter.
    peer.say(101, garbled(CommandCode::DeregisterEvents)).await;
    peer.request(102, &Request::Commit(Vec::new())).await;
    assert_eq!(peer.status(102).await, code::PMIX_SUCCESS);
    assert_eq!(flooded.malformed(), 1);
    // The answer to this request begins without a status, so only a closed connection can report an
    // error.
    peer.say(103, garbled(CommandCode::JobData)).await;
    assert_eq!(peer.next().await, None);
    assert_eq!(flooded.malformed(), 2);
    flooded.is_withstood().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_beyond_all_measure_are_answered_with_a_status() {
    let core = peal_core::server::StateSettings {
        max_put_bytes: 1000,
        max_event_bytes: 1000,
        max_registrations: 10,
        max_pending_gets: 10,
        ..peal_core::server::StateSettings::default()
    };
    let mut flooded = FloodedServer::begin(ServerSettings {
        core,
        ..FloodedServer::settings()
    })
    .await;
    let mut peer = Peer::connect(&flooded.node, ATTACKER).await;
    let me = flooded.node.proc(ATTACKER);

    let large = Value::string(&"x".repeat(1000));
    let kvals = vec![Kval::new(ROUND, large.clone())];
    peer.request(
        101,
        &Request::Commit(vec![Commit {
            scope: Scope::Local,
            kvals,
        }]),
    )
    .await;
    assert_eq!(peer.status(101).await, code::PMIX_ERR_OUT_OF_RESOURCE);
    peer.request(
        101,
        &Request::Notify {
            code: NEWS,
            range: Range::Local,
            infos: vec![Info::new(ROUND, large)],
        },
    )
    .await;
    assert_eq!(peer.status(101).await, code::PMIX_ERR_OUT_OF_RESOURCE);

    let mut refused = 0;
    for at in 0..12 {
        peer.request(
            101,
            &Request::RegisterEvents {
                codes: vec![Status(-5000 - at)],
                infos: Vec::new(),
            },
        )
        .await;
        match peer.status(101).await {
            code::PMIX_SUCCESS => assert_eq!(refused, 0, "registration {at}"),
            code::PMIX_ERR_OUT_OF_RESOURCE => refused += 1,
            status => panic!("registration {at}: {status}"),
        }
    }
    assert!((1..10).contains(&refused), "{refused} refused");

    // A time-out near the maximum must not overflow.
    let infos = vec![Info::new(key::PMIX_TIMEOUT, Value::Uint64(u64::MAX))];
    for tag in 101..=111 {
        let get = Request::Get {
            proc: me.clone(),
            infos: infos.clone(),
            key: Some("test.never".into()),
        };
        peer.request(tag, &get).await;
    }
    assert_eq!(peer.status(111).await, code::PMIX_ERR_OUT_OF_RESOURCE);

    let fence = Request::Fence {
        procs: vec![Proc::all(flooded.node.proc(0).nspace), me],
        infos,
    };
    peer.request(112, &fence).await;
    flooded.is_withstood().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_too_many_open_requests_is_cut_off() {
    let mut flooded = FloodedServer::begin(ServerSettings {
        max_open_requests: 8,
        ..FloodedServer::settings()
    })
    .await;
    let mut peer = Peer::connect(&flooded.node, ATTACKER).await;
    let infos = vec![Info::new(key::PMIX_TIMEOUT, Value::Uint32(600))];
    let get = Request::Get {
        proc: flooded.node.proc(0),
        infos,
        key: Some("test.never".into()),
    };
    for tag in 101..109 {
        peer.request(tag, &get).await;
    }
    flooded.is_withstood().await;
    assert_eq!(
        flooded.count(|counters| &counters.clients_disconnected_request_limit),
        0
    );
    peer.request(109, &get).await;
    assert_eq!(peer.next().await, None);
    assert_eq!(
        flooded.count(|counters| &counters.clients_disconnected_request_limit),
        1
    );
    flooded.is_withstood().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn flooding_client_not_reading_is_paused_then_gets_all_events() {
    // The number exceeds the limit of open requests, and that of answers for a client that does not
    // read.
    const MANY: u32 = 20_000;
    let mut flooded = FloodedServer::begin(ServerSettings {
        max_open_requests: 64,
        ..FloodedServer::settings()
    })
    .await;
    let mut peer = Peer::connect(&flooded.node, ATTACKER).await;
    let notify = Request::Notify {
        code: NEWS,
        range: Range::Local,
        infos: Vec::new(),
    };
    for tag in 0..MANY {
        peer.request(101 + tag, &notify).await;
    }
    flooded.is_withstood().await;
    for tag in 0..MANY {
        assert_eq!(
            soon("it is answered", peer.status(101 + tag)).await,
            code::PMIX_SUCCESS
        );
    }
    assert_eq!(
        flooded.count(|counters| &counters.clients_disconnected_request_limit),
        0
    );
}

/// Size of a text in bytes, of which few fit in the system's buffers.
const LOAD: usize = 256 * 1024;

/// Returns a text of that size.
fn load() -> Value {
    Value::string(&"x".repeat(LOAD))
}

/// Raises an event of that size.
async fn flood(from: &Client, number: u32) {
    flood_of(from, number, LOAD).await;
}

/// Raises an event with a text of this number of bytes.
async fn flood_of(from: &Client, number: u32, size: usize) {
    let load = Value::string(&"x".repeat(size));
    let infos = vec![
        Info::new(KeyName("test.load"), load),
        Info::new(NUMBER, Value::Uint32(number)),
    ];
    soon(
        "an event is taken",
        from.notify(FLOOD, Range::Namespace, infos),
    )
    .await
    .unwrap();
}

const NUMBER: KeyName = KeyName("test.number");

/// Returns a client that registered for the flood and stops reading.
async fn deaf(node: &Node, rank: u32) -> Peer {
    let mut peer = Peer::connect(node, rank).await;
    peer.request(
        101,
        &Request::RegisterEvents {
            codes: vec![FLOOD],
            infos: Vec::new(),
        },
    )
    .await;
    assert_eq!(peer.status(101).await, code::PMIX_SUCCESS);
    peer
}

#[tokio::test(flavor = "multi_thread")]
async fn client_not_reading_delays_none_and_gets_all_later() {
    const MANY: u32 = 200;
    let few = ServerSettings {
        max_outbox_messages: 8,
        ..FloodedServer::settings()
    };
    let mut small = ServerSettings {
        outbox: OutboxLimits {
            client: 1024 * 1024,
            ..OutboxLimits::default()
        },
        ..FloodedServer::settings()
    };
    small.core.retention.memory = 4 << 20;
    for (settings, spills) in [(few, false), (small, true)] {
        // No other client has unread events.
        let mut flooded = FloodedServer::of_size(settings, ATTACKER + 1).await;
        let mut deaf = deaf(&flooded.node, ATTACKER).await;
        for number in 0..MANY {
            flood(&flooded.first, number).await;
            assert_eq!(next(&mut flooded.heard).await.code, FLOOD);
        }
        let gauge = |name: fn(&Counters) -> &Gauge| name(flooded.node.server.counters()).get();
        assert!(gauge(|counters| &counters.events_retained) > 0);
        assert_eq!(gauge(|counters| &counters.events_spilled) > 0, spills);
        for number in 0..MANY {
            let frame = deaf.next().await.unwrap();
            let event = deaf.codec.decode_event(&frame.payload).unwrap();
            assert_eq!(event.infos.value_of(NUMBER), Some(&Value::Uint32(number)));
        }
        // It receives new events at once again, and no retained one is left.
        flood(&flooded.first, MANY).await;
        let frame = deaf.next().await.unwrap();
        let event = deaf.codec.decode_event(&frame.payload).unwrap();
        assert_eq!(event.infos.value_of(NUMBER), Some(&Value::Uint32(MANY)));
        assert_eq!(next(&mut flooded.heard).await.code, FLOOD);
        assert_eq!(gauge(|counters| &counters.events_spilled), 0);
        assert_eq!(flooded.count(|counters| &counters.events_lost), 0);
        assert_eq!(
            flooded.count(|counters| &counters.clients_disconnected_slow),
            0
        );
        flooded.is_withstood().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_behind_the_last_one_waits_until_that_is_written() {
    const MIB: usize = 1 << 20;
    let mut settings = ServerSettings {
        outbox: OutboxLimits {
            client: 16 * MIB,
            ..OutboxLimits::default()
        },
        ..FloodedServer::settings()
    };
    settings.core.event_batch_bytes = 16 * MIB;
    settings.core.max_event_bytes = 16 * MIB;
    let mut flooded = FloodedServer::of_size(settings, ATTACKER + 1).await;
    // The first two events are retained for the client and come as one batch. The system does not
    // take the first event as a whole. All later events find no room until the rest of that batch
    // is sent.
    for (number, size) in (0..).zip([8 * MIB, 6 * MIB]) {
        flood_of(&flooded.first, number, size).await;
        assert_eq!(next(&mut flooded.heard).await.code, FLOOD);
    }
    let mut deaf = deaf(&flooded.node, ATTACKER).await;
    for number in 2..5 {
        flood_of(&flooded.first, number, 4 * MIB).await;
        assert_eq!(next(&mut flooded.heard).await.code, FLOOD);
    }
    for number in 0..5 {
        let frame = deaf.next().await.unwrap();
        let event = deaf.codec.decode_event(&frame.payload).unwrap();
        assert_eq!(event.infos.value_of(NUMBER), Some(&Value::Uint32(number)));
    }
    assert_eq!(
        flooded.count(|counters| &counters.clients_disconnected_slow),
        0
    );
    flooded.is_withstood().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_one_user_share_the_memory_of_outboxes() {
    // All clients of a node run as one user, which is the server's, so the total is reached.
    let flooded = FloodedServer::begin(ServerSettings {
        outbox: OutboxLimits {
            total: 4 * 1024 * 1024,
            ..OutboxLimits::default()
        },
        ..FloodedServer::settings()
    })
    .await;
    flooded
        .first
        .put(Scope::Local, KeyName("test.load").into(), load());
    flooded.first.commit().await.unwrap();
    let open = || flooded.node.server.counters().connections_open.get();
    let others = open();
    let mut deaf = Peer::connect(&flooded.node, ATTACKER).await;
    let get = Request::Get {
        proc: flooded.first.me().clone(),
        infos: Vec::new(),
        key: Some("test.load".into()),
    };
    let held = || {
        let report = flooded.node.server.metrics().quotas();
        let users = report.users.into_values();
        let used = users.filter_map(|uses| uses.get(&Quota::OutboxBytes).copied());
        used.map(|used| used.held).sum::<u64>()
    };
    for tag in 1000..1200 {
        deaf.request(tag, &get).await;
    }
    soon("its connection is closed", async {
        while open() > others {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(deaf);
    // What was never written is given back with the connection.
    soon("nothing is charged", async {
        while held() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(
        flooded.count(|counters| &counters.clients_disconnected_slow),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn client_with_requests_that_does_not_read_is_disconnected() {
    let flooded = FloodedServer::begin(ServerSettings {
        outbox: OutboxLimits {
            client: 1024 * 1024,
            ..OutboxLimits::default()
        },
        ..FloodedServer::settings()
    })
    .await;
    flooded
        .first
        .put(Scope::Local, KeyName("test.load").into(), load());
    flooded.first.commit().await.unwrap();
    let open = || flooded.node.server.counters().connections_open.get();
    let others = open();
    let mut deaf = Peer::connect(&flooded.node, ATTACKER).await;
    let get = Request::Get {
        proc: flooded.first.me().clone(),
        infos: Vec::new(),
        key: Some("test.load".into()),
    };
    for tag in 1000..1200 {
        deaf.request(tag, &get).await;
    }
    // The client need not read for that.
    soon("its connection is closed", async {
        while open() > others {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut got = 0;
    while deaf.next().await.is_some() {
        got += 1;
    }
    assert!(got < 200, "{got}");
    assert_eq!(
        flooded.count(|counters| &counters.clients_disconnected_slow),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_above_limit_are_refused_until_one_ends() {
    let mut flooded = FloodedServer::begin(ServerSettings {
        max_connections: 4,
        ..FloodedServer::settings()
    })
    .await;
    let third = Peer::connect(&flooded.node, ATTACKER).await;
    let silent = RawClient::connect(&flooded.node).await;
    // The kernel is queried about several connections at once, so they are counted in any order.
    until("the silent connection is counted", || {
        flooded.connections() == 4
    });
    for refused in 1..=3 {
        assert!(
            RawClient::connect(&flooded.node)
                .await
                .is_closed_without_a_byte()
                .await
        );
        assert_eq!(flooded.refused(), refused);
    }
    flooded.is_withstood().await;
    drop(third);
    let hello = hello(flooded.node.proc(ATTACKER + 1));
    let seat = async {
        loop {
            if let Some(peer) = RawClient::connect(&flooded.node).await.greet(&hello).await {
                return peer;
            }
        }
    };
    let fourth = soon("a connection is free again", seat).await;
    flooded.is_withstood().await;
    drop((silent, fourth));
}

#[tokio::test(flavor = "multi_thread")]
async fn finalized_client_gets_nothing_while_connected() {
    let mut flooded = FloodedServer::begin(FloodedServer::settings()).await;
    let mut peer = deaf(&flooded.node, ATTACKER).await;
    flood(&flooded.first, 0).await;
    let event = peer.next().await.unwrap();
    assert_eq!(peer.codec.decode_event(&event.payload).unwrap().code, FLOOD);
    peer.request(102, &Request::Finalize).await;
    assert_eq!(peer.status(102).await, code::PMIX_SUCCESS);
    flood(&flooded.first, 0).await;
    peer.request(103, &Request::Commit(Vec::new())).await;
    assert_eq!(peer.next().await.unwrap().tag, peal_wire::Tag(103));
    for _ in 0..2 {
        assert_eq!(next(&mut flooded.heard).await.code, FLOOD);
    }
    flooded.is_withstood().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_waits_for_no_client() {
    let drain_timeout = Duration::from_millis(300);
    let mut flooded = FloodedServer::begin(ServerSettings {
        drain_timeout,
        ..FloodedServer::settings()
    })
    .await;
    let mut idle = Peer::connect(&flooded.node, ATTACKER).await;
    let silent = RawClient::connect(&flooded.node).await;
    let deaf = deaf(&flooded.node, ATTACKER + 1).await;
    for _ in 0..64 {
        flood(&flooded.first, 0).await;
        assert_eq!(next(&mut flooded.heard).await.code, FLOOD);
    }
    flooded.is_withstood().await;
    let FloodedServer { node, first, .. } = flooded;
    soon("the server stops", node.server.shutdown()).await;
    assert_eq!(idle.next().await, None);
    assert!(silent.is_closed_without_a_byte().await);
    let error = soon("a request fails", first.fence(&[], &[]))
        .await
        .unwrap_err();
    assert_eq!(error.status(), code::PMIX_ERR_LOST_CONNECTION);
    drop(deaf);
}

/// Sends standard input to a port in a process of this user, and prints the number of bytes in the
/// answer, at most 8.
fn answered_to(user: u32, port: u16, bytes: &[u8]) -> String {
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; cat >&3; head -c 8 <&3 | wc -c");
    let mut command = Command::new("bash");
    command
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .uid(user);
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    peal_tests::finish(child)
        .expect_status(0)
        .stdout
        .trim()
        .to_owned()
}

#[needs(root)]
#[tokio::test(flavor = "multi_thread")]
async fn other_user_is_refused_with_any_claim() {
    let mut flooded = FloodedServer::begin(FloodedServer::settings()).await;
    let good = encoded(&hello(flooded.node.proc(ATTACKER)));
    let port = flooded.node.environment(ATTACKER).server.addr.port();
    let answer = |user: u32| {
        let good = good.clone();
        tokio::task::spawn_blocking(move || answered_to(user, port, &good))
    };
    assert_eq!(answer(65_534).await.unwrap(), "0");
    assert_eq!(flooded.refused(), 1);
    assert_eq!(
        answer(0).await.unwrap(),
        "8",
        "the same bytes of the job's own user are welcome"
    );
    flooded.is_withstood().await;
}

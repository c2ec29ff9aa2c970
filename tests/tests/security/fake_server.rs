//! Invalid input to Peal's client. A server refuses, sends invalid, late or no answers, floods, or
//! disconnects. The client loses at most the request or the connection, and raises an internal
//! event if no request is concerned.
use peal_client::{
    Call, Client, ClientError, ClientSettings, Handler, HandlerOutcome, Invited, Join,
};
use peal_model::{
    CommandCode, Event, Info, KeyName, Nspace, Proc, Query, Range, Rank, RankData, Reply, Request,
    Scope, Status, Value, code, key,
};
use peal_tests::{
    fake_server::{FakeServer, deceived, granted, listen},
    in_process::{everything, gate, listener, next, soon},
};
use peal_wire::{Frame, Header, Tag, Welcome};
use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc::unbounded_channel,
    time::timeout,
};

const NEWS: Status = Status(-3301);
const LOST: Status = code::PMIX_ERR_LOST_CONNECTION;

fn news() -> Event {
    Event {
        code: NEWS,
        source: None,
        range: Range::Global,
        infos: Vec::new(),
    }
}

/// Registers this handler for all events.
async fn register(client: &Client, server: &mut FakeServer, handler: Handler) {
    let register = client.register(&[], everything(), handler);
    let (registered, _) = soon("it is registered", async {
        tokio::join!(register, server.grant())
    })
    .await;
    registered.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_the_handshake_that_is_none_is_a_refusal() {
    let (listener, environment) = listen().await;
    for (answer, status) in [
        (&b""[..], None),
        (&[0, 0], None),
        (&[0xff, 0xff, 0xff, 0xe1], Some(Status(-31))),
    ] {
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(answer).await.unwrap();
        };
        let (client, ()) = soon("the client gives up", async {
            tokio::join!(Client::connect(&environment), serve)
        })
        .await;
        let error = client.err().unwrap();
        let ClientError::Unwelcome {
            server,
            status: found,
        } = &error
        else {
            panic!("{answer:?}: {error}")
        };
        assert_eq!(
            (server, *found),
            (&environment.server, status),
            "{answer:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_welcomes_is_given_up() {
    let (listener, environment) = listen().await;
    let settings = ClientSettings {
        connect_timeout: Duration::from_millis(50),
        ..ClientSettings::default()
    };
    let connect = Client::connect_with(&environment, settings);
    let (client, silent) = soon("the client gives up", async {
        tokio::join!(connect, listener.accept())
    })
    .await;
    let error = client.err().unwrap();
    assert!(matches!(error, ClientError::NoWelcome { .. }), "{error}");
    assert_eq!(error.status(), code::PMIX_ERR_UNREACH);
    drop(silent);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_sense_fails_its_request_alone() {
    let (client, mut server) = deceived(ClientSettings::default()).await;
    let serve = async {
        let (tag, request) = server.hear().await;
        // An answer without an open request is ignored.
        server.say(Tag(999), vec![0xff; 40]).await;
        server.say(tag, vec![0xff; 40]).await;
        server.grant().await;
        request.command()
    };
    let ask = async {
        client.put(Scope::Local, KeyName("test.key").into(), Value::Bool(true));
        (client.commit().await, client.fence(&[], &[]).await)
    };
    let ((commit, fence), command) =
        soon("both are answered", async { tokio::join!(ask, serve) }).await;
    assert_eq!(command, CommandCode::Commit);
    let error = commit.unwrap_err();
    assert!(
        matches!(
            error,
            ClientError::Unpack {
                call: Call(CommandCode::Commit),
                ..
            }
        ),
        "{error}"
    );
    fence.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_another_question_fails_its_request_alone() {
    let (client, mut server) = deceived(ClientSettings::default()).await;
    let me = client.me().clone();
    let infos = Reply::Infos {
        status: code::PMIX_SUCCESS,
        infos: vec![Info::new(KeyName("test"), Value::Bool(true))],
    };
    let data = Reply::Data {
        status: code::PMIX_SUCCESS,
        ranks: vec![
            RankData {
                proc: me.clone(),
                kvals: vec![],
            }
            .into(),
        ],
    };
    let serve = async {
        // Data of a query are sent to other requests, and data of a get to the query.
        for reply in [&infos, &infos, &data] {
            let (tag, _) = server.hear().await;
            let as_if = if *reply == infos {
                CommandCode::Query
            } else {
                CommandCode::Get
            };
            server.answer(tag, as_if, reply).await;
        }
        server.grant().await;
    };
    let query = Query {
        keys: vec![Some("test".into())],
        qualifiers: Vec::new(),
    };
    let ask = async {
        let fence = client.fence(&[], &[]).await;
        let get = client.get(&me, KeyName("test.key"), &[]).await.map(drop);
        let query = client.query(&[query]).await.map(drop);
        for (what, outcome) in [("fence", fence), ("get", get), ("query", query)] {
            let error = outcome.expect_err(what);
            assert!(
                matches!(error, ClientError::Unpack { .. }),
                "{what}: {error}"
            );
        }
        client.fence(&[], &[]).await.unwrap();
    };
    soon("all are answered", async { tokio::join!(ask, serve) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refusal_comes_with_its_reasons() {
    let (client, mut server) = deceived(ClientSettings::default()).await;
    let reason = Info::new(key::PMIX_EVENT_TEXT_MESSAGE, Value::string("not yours"));
    let refusal = Reply::Infos {
        status: code::PMIX_ERR_NO_PERMISSIONS,
        infos: vec![reason.clone()],
    };
    let partial = Reply::Infos {
        status: code::PMIX_QUERY_PARTIAL_SUCCESS,
        infos: vec![reason.clone()],
    };
    let serve = async {
        for reply in [&refusal, &partial, &refusal] {
            let (tag, request) = server.hear().await;
            server.answer(tag, request.command(), reply).await;
        }
    };
    let ask = async {
        let kill = [Info::new(key::PMIX_JOB_CTRL_KILL, Value::Bool(true))];
        let control = client.job_control(&[], &kill).await.unwrap_err();
        let ClientError::Refused { status, infos, .. } = &control else {
            panic!("{control}")
        };
        assert_eq!(
            (*status, infos),
            (code::PMIX_ERR_NO_PERMISSIONS, &vec![reason.clone()])
        );
        let text = control.to_string();
        assert!(
            text.starts_with(
                "PMIx_Job_control is refused by the server at false.0;tcp4://127.0.0.1:"
            ),
            "{text}"
        );
        assert!(
            text.contains("PMIX_ERR_NO_PERMISSIONS (-23): ") && text.contains("not yours"),
            "{text}"
        );
        let findings = client.query(&[]).await.unwrap();
        assert!(
            findings.partial && findings.infos == [reason.clone()],
            "{findings:?}"
        );
        assert_eq!(
            client.query(&[]).await.unwrap_err().status(),
            code::PMIX_ERR_NO_PERMISSIONS
        );
    };
    soon("all are answered", async { tokio::join!(ask, serve) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn late_answer_is_given_to_no_other_call() {
    let (client, mut server) = deceived(ClientSettings::default()).await;
    let limit = Duration::from_millis(20);
    let start = Instant::now();
    let hasty = client.within(limit);
    let (outcome, (late, _)) = tokio::join!(hasty.fence(&[], &[]), server.hear());
    let error = outcome.unwrap_err();
    let named = "PMIx_Fence was not answered within 20ms by the server at false.0;tcp4://";
    assert!(error.to_string().starts_with(named), "{error}");
    assert_eq!(error.status(), code::PMIX_ERR_TIMEOUT);
    assert!(start.elapsed() >= limit);
    let serve = async {
        let (tag, request) = server.hear().await;
        assert_ne!(tag, late, "its tag is still in use");
        // The late answer comes first, as an error; then the correct one; then both again.
        server
            .answer(
                late,
                CommandCode::Fence,
                &Reply::Status(code::PMIX_ERR_NOT_FOUND),
            )
            .await;
        for tag in [tag, late, tag] {
            server
                .answer(tag, request.command(), &Reply::Status(code::PMIX_SUCCESS))
                .await;
        }
        server.grant().await;
    };
    let ask = async {
        client.fence(&[], &[]).await.unwrap();
        client.log(&[], &[]).await.unwrap();
    };
    soon("the others are answered", async {
        tokio::join!(ask, serve)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_ends_when_its_time_is_over() {
    // The limit also applies to the job data, and the server that answers may be slow on a busy
    // machine.
    let limit = Duration::from_millis(500);
    let settings = ClientSettings {
        answer_timeout: Some(limit),
        meeting_timeout: Some(limit),
        ..ClientSettings::default()
    };
    let (client, server) = deceived(settings).await;
    let me = client.me().clone();
    client.put(Scope::Local, KeyName("test.key").into(), Value::Bool(true));
    let second = [Info::new(key::PMIX_TIMEOUT, Value::Int(1))];
    let ask = async {
        let unanswered = [
            client.commit().await,
            client.fence(&[], &[]).await,
            client
                .get(&me, KeyName("test.unknown"), &[])
                .await
                .map(drop),
            client.register(&[NEWS], &[], listener().0).await.map(drop),
            client.notify(NEWS, Range::Global, Vec::new()).await,
            client.log(&[], &[]).await.map(drop),
            client.job_control(&[], &[]).await.map(drop),
            client.query(&[]).await.map(drop),
        ];
        for outcome in unanswered {
            let error = outcome.unwrap_err();
            assert!(matches!(error, ClientError::TimedOut { .. }), "{error}");
            let server = client.server().unwrap();
            let named = format!(
                "was not answered within 500ms by the server at {}.{};tcp4://",
                server.nspace, server.rank
            );
            assert!(error.to_string().contains(&named), "{error}");
        }
        // Here the server keeps the time, and has all of it.
        let start = Instant::now();
        let asked = client.fence(&[], &second).await.unwrap_err();
        assert!(matches!(asked, ClientError::TimedOut { .. }), "{asked}");
        assert!(start.elapsed() >= Duration::from_secs(1));
        let error = client.finalize().await.unwrap_err();
        assert!(matches!(error, ClientError::TimedOut { .. }), "{error}");
    };
    soon("all calls end", ask).await;
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn call_above_limit_waits_for_answer_to_earlier_call() {
    let (client, mut server) = deceived(ClientSettings {
        max_open_calls: 2,
        ..ClientSettings::default()
    })
    .await;
    let given_up = Duration::from_millis(10);
    for _ in 0..2 {
        client.within(given_up).log(&[], &[]).await.unwrap_err();
    }
    // Both calls stay open until the server answers, although their callers have given up.
    let crowded = client.within(given_up).fence(&[], &[]).await.unwrap_err();
    assert!(matches!(crowded, ClientError::TimedOut { .. }), "{crowded}");
    let first = server.hear().await.0;
    server.hear().await;
    let serve = async {
        server
            .answer(first, CommandCode::Log, &Reply::Status(code::PMIX_SUCCESS))
            .await;
        // The third request was never sent: the next one is this.
        assert!(matches!(server.grant().await, Request::JobControl { .. }));
    };
    let (done, ()) = soon("there is room", async {
        tokio::join!(client.job_control(&[], &[]), serve)
    })
    .await;
    done.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_events_are_internal_and_later_ones_received() {
    let (client, mut server) = deceived(ClientSettings::default()).await;
    let (handler, mut heard) = listener();
    register(&client, &mut server, handler).await;
    server.say(Tag::NOTIFY, vec![0xff; 40]).await;
    server.send(&news()).await;
    // The message is a request instead of an event.
    server
        .say(
            Tag::NOTIFY,
            server.codec.encode_request(&Request::Finalize).unwrap(),
        )
        .await;
    for code in [
        code::PMIX_ERR_COMM_FAILURE,
        NEWS,
        code::PMIX_ERR_COMM_FAILURE,
    ] {
        assert_eq!(next(&mut heard).await.code, code);
    }
    // The server does not receive these events: its next request is the client's own.
    let (fence, request) = tokio::join!(client.fence(&[], &[]), server.grant());
    fence.unwrap();
    assert!(matches!(request, Request::Fence { .. }), "{request:?}");
    // If the length is invalid, the rest of the stream is, too.
    let header = Header {
        pindex: 0,
        tag: Tag::NOTIFY,
        len: u32::MAX,
    };
    server.stream.write_all(&header.encode()).await.unwrap();
    for code in [code::PMIX_ERR_COMM_FAILURE, LOST] {
        let event = next(&mut heard).await;
        assert_eq!(
            (event.code, event.source.as_ref(), event.range),
            (code, Some(client.me()), Range::ProcLocal)
        );
    }
    assert!(matches!(
        client.fence(&[], &[]).await,
        Err(ClientError::Lost { .. })
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn unencodable_event_of_handler_is_an_internal_event() {
    let (client, mut server) = deceived(ClientSettings::default()).await;
    let (tell, mut told) = unbounded_channel();
    let handler = Handler::native(move |call| {
        tell.send(call.event().code).unwrap();
        if call.event().code == NEWS {
            let deep = (0..100).fold(Value::Bool(true), |inner, _| Value::Value(Box::new(inner)));
            call.notify(
                NEWS,
                Range::Global,
                vec![Info::new(KeyName("test.deep"), deep)],
            );
        }
        HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
    });
    register(&client, &mut server, handler).await;
    server.send(&news()).await;
    // The client's own handler receives its event, which needs no packing. Then it receives the
    // error that other procs do not get it.
    for code in [NEWS, NEWS, code::PMIX_ERR_COMM_FAILURE] {
        assert_eq!(soon("it is told", told.recv()).await, Some(code));
    }
    let deep = (0..100).fold(Value::Bool(true), |inner, _| Value::Value(Box::new(inner)));
    let error = client
        .notify(NEWS, Range::Rm, vec![Info::new(KeyName("test.deep"), deep)])
        .await
        .unwrap_err();
    assert!(matches!(error, ClientError::Pack { .. }), "{error}");
    assert_eq!(error.status(), code::PMIX_ERR_PACK_FAILURE);
    assert_eq!(
        soon("the handler is notified, too", told.recv()).await,
        Some(code::PMIX_ERR_COMM_FAILURE)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn server_closing_at_any_byte_ends_open_calls_at_once() {
    let welcome = Welcome::Client { index: 0 }.encode();
    let codec = {
        let (client, server) = deceived(ClientSettings::default()).await;
        drop(client);
        server.codec
    };
    let frame = |tag, payload| {
        Frame {
            pindex: 0,
            tag,
            payload,
        }
        .encode()
        .unwrap()
    };
    let job_data = codec
        .encode_reply(CommandCode::JobData, &granted(CommandCode::JobData))
        .unwrap();
    let answer = codec
        .encode_reply(CommandCode::Fence, &granted(CommandCode::Fence))
        .unwrap();
    let job_data = frame(Tag::FIRST_REQUEST, job_data);
    let event = frame(Tag::NOTIFY, codec.encode_event(&news()).unwrap());
    let turns = [
        welcome.clone(),
        job_data,
        [event, frame(Tag(102), answer)].concat(),
    ];
    let connected = turns[0].len() + turns[1].len();
    let (listener, environment) = listen().await;
    for end in 0..turns.concat().len() {
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut left = end;
            for turn in &turns {
                // The request fits in one read.
                assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
                let said = turn.len().min(left);
                stream.write_all(&turn[..said]).await.unwrap();
                left -= said;
                if said < turn.len() {
                    break;
                }
            }
            stream.shutdown().await.unwrap();
            stream
        };
        let ask = async {
            let client = Client::connect(&environment).await?;
            client.fence(&[], &[]).await
        };
        let (outcome, _) = soon("the call ends", async { tokio::join!(ask, serve) }).await;
        let error = outcome.unwrap_err();
        match error {
            ClientError::Unwelcome { .. } => assert!(end < welcome.len(), "at byte {end}"),
            ClientError::Lost {
                call: Call(CommandCode::JobData),
                ..
            } => assert!(end < connected, "at byte {end}"),
            ClientError::Lost {
                call: Call(CommandCode::Fence),
                ..
            } => assert!(end >= connected, "at byte {end}"),
            other => panic!("at byte {end}: {other}"),
        }
    }
}

/// Returns an event of this number of bytes.
fn large(server: &FakeServer, bytes: usize) -> Vec<u8> {
    let mut event = news();
    event.infos.push(Info::new(
        KeyName("test.load"),
        Value::string(&"x".repeat(bytes)),
    ));
    let payload = server.codec.encode_event(&event).unwrap();
    Frame {
        pindex: 0,
        tag: Tag::NOTIFY,
        payload,
    }
    .encode()
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_waits_with_the_server_until_the_handlers_have_time() {
    const FAR_TOO_MANY: usize = 16_000;
    let settings = ClientSettings {
        event_queue_bytes: 64 << 10,
        ..ClientSettings::default()
    };
    let (client, mut server) = deceived(settings).await;
    let (gate, go, mut told) = gate();
    register(&client, &mut server, gate).await;
    let frame = large(&server, 16 << 10);
    let mut sent = 0;
    let mut at = 0;
    // The client stops reading at its limit. From some time on its system accepts no more bytes.
    while let Ok(ready) = timeout(Duration::from_millis(500), server.stream.writable()).await {
        ready.unwrap();
        at += server.stream.try_write(&frame[at..]).unwrap_or_default();
        if at == frame.len() {
            (sent, at) = (sent + 1, 0);
            assert!(sent < FAR_TOO_MANY, "the client reads on and on");
        }
    }
    drop(go);
    if at > 0 {
        server.stream.write_all(&frame[at..]).await.unwrap();
        sent += 1;
    }
    let (fence, _) = soon("the fence is answered", async {
        tokio::join!(client.fence(&[], &[]), server.grant())
    })
    .await;
    fence.unwrap();
    for _ in 0..sent {
        assert_eq!(soon("every event is heard", told.recv()).await, Some(NEWS));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_is_noticed_also_while_the_handlers_have_no_time() {
    let settings = ClientSettings {
        event_queue_bytes: 16 << 10,
        ..ClientSettings::default()
    };
    let (client, mut server) = deceived(settings).await;
    let (gate, go, mut told) = gate();
    register(&client, &mut server, gate).await;
    let hear = async {
        server.hear().await;
        // The size is above the client's limit, but not above what the system accepts.
        let frame = large(&server, 4 << 10);
        for _ in 0..24 {
            server.stream.write_all(&frame).await.unwrap();
        }
        drop(server);
    };
    let (fence, ()) = soon("the open call ends", async {
        tokio::join!(client.fence(&[], &[]), hear)
    })
    .await;
    let error = fence.unwrap_err();
    assert!(matches!(error, ClientError::Lost { .. }), "{error}");
    drop(go);
    for wanted in [NEWS; 24].into_iter().chain([LOST]) {
        assert_eq!(soon("it is heard", told.recv()).await, Some(wanted));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn code_is_deregistered_with_last_handler_also_inside_one() {
    let (client, mut server) = deceived(ClientSettings::default()).await;
    let other = Status(-3302);
    let more = Status(-3303);
    let (tell, mut told) = unbounded_channel();
    let first_id = Arc::new(OnceLock::new());
    let id_of_first = first_id.clone();
    let both = Handler::native(move |call| {
        tell.send(()).unwrap();
        call.deregister(call.registration());
        call.deregister(*first_id.get().unwrap());
        HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
    });
    let registering = async {
        let first = client
            .register(&[NEWS, other], everything(), listener().0)
            .await
            .unwrap();
        id_of_first.set(first).unwrap();
        // The registration contains nothing new for the server.
        let second = client
            .register(&[other], everything(), listener().0)
            .await
            .unwrap();
        client
            .register(&[NEWS, more], everything(), both)
            .await
            .unwrap();
        client
            .register(&[], everything(), listener().0)
            .await
            .unwrap();
        second
    };
    let hearing = async {
        for wanted in [vec![NEWS, other], vec![NEWS, more], vec![]] {
            let Request::RegisterEvents { codes, .. } = server.grant().await else {
                panic!("no registration")
            };
            assert_eq!(codes, wanted);
        }
    };
    let (second, ()) = soon("all are registered", async {
        tokio::join!(registering, hearing)
    })
    .await;
    server.send(&news()).await;
    soon("the handler is called", told.recv()).await.unwrap();
    let mut forgotten = Vec::new();
    for _ in 0..2 {
        let (_, Request::DeregisterEvents { codes }) = server.hear().await else {
            panic!("no deregistration")
        };
        forgotten.extend(codes);
    }
    assert_eq!(
        forgotten,
        [more, NEWS],
        "the second handler still wants the other code"
    );
    client.deregister(second).await.unwrap();
    let (_, Request::DeregisterEvents { codes }) = server.hear().await else {
        panic!("no deregistration")
    };
    assert_eq!(codes, [other]);
    assert!(
        matches!(client.deregister(second).await, Err(ClientError::NotRegistered { id }) if id == second)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registration_that_comes_to_nothing_leaves_nothing() {
    let (client, mut server) = deceived(ClientSettings::default()).await;
    let (given_up, mut not_heard) = listener();
    client
        .within(Duration::from_millis(10))
        .register(&[NEWS], everything(), given_up)
        .await
        .unwrap_err();
    assert!(matches!(
        server.hear().await,
        (_, Request::RegisterEvents { .. })
    ));
    // The server may have regarded it as permanent.
    assert!(
        matches!(server.hear().await, (_, Request::DeregisterEvents { codes }) if codes == [NEWS])
    );
    assert_eq!(soon("its handler is dropped", not_heard.recv()).await, None);
    let refuse = async {
        let (tag, request) = server.hear().await;
        server
            .answer(
                tag,
                request.command(),
                &Reply::Status(code::PMIX_ERR_EVENT_REGISTRATION),
            )
            .await;
    };
    let (handler, mut not_heard) = listener();
    let (refused, ()) = tokio::join!(client.register(&[NEWS], everything(), handler), refuse);
    assert_eq!(
        refused.unwrap_err().status(),
        code::PMIX_ERR_EVENT_REGISTRATION
    );
    assert_eq!(soon("its handler is dropped", not_heard.recv()).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn event_of_range_proc_local_is_never_sent() {
    let (client, mut server) = deceived(ClientSettings::default()).await;
    let private = Status(-3304);
    let public = Status(-3305);
    let (tell, mut told) = unbounded_channel();
    let handler = Handler::native(move |call| {
        tell.send(call.event().code).unwrap();
        if call.event().code == NEWS {
            call.notify(private, Range::ProcLocal, Vec::new());
            call.notify(public, Range::Rm, Vec::new());
        }
        HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
    });
    register(&client, &mut server, handler).await;
    server.send(&news()).await;
    for code in [NEWS, private] {
        assert_eq!(soon("it is told", told.recv()).await, Some(code));
    }
    client
        .notify(private, Range::ProcLocal, Vec::new())
        .await
        .unwrap();
    assert_eq!(soon("it is told", told.recv()).await, Some(private));
    // The first request is the public event, for which the client has no handler. No other request
    // comes before the fence.
    let (_, Request::Notify { code, range, .. }) = server.hear().await else {
        panic!("no event")
    };
    assert_eq!((code, range), (public, Range::Rm));
    let (fence, heard) = tokio::join!(client.fence(&[], &[]), server.grant());
    fence.unwrap();
    assert!(matches!(heard, Request::Fence { .. }), "{heard:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clones_are_one_client() {
    let (client, mut server) = deceived(ClientSettings::default()).await;
    let clone = client.clone();
    let left: (Result<(), ClientError>, Request) = tokio::join!(client.finalize(), server.grant());
    left.0.unwrap();
    assert_eq!(left.1, Request::Finalize);
    let me: Proc = clone.me().clone();
    let error = clone.get(&me, KeyName("test.key"), &[]).await.unwrap_err();
    assert!(matches!(error, ClientError::NoConnection { .. }), "{error}");
    assert_eq!(soon("the connection is closed", server.next()).await, None);
}

fn invited() -> Invited {
    Invited {
        group: "crew".to_owned(),
        leader: Proc::new(Nspace::new("leader").unwrap(), Rank(0)),
        leader_infos: Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn join_after_refused_registration_registers_again() {
    let (client, mut server) = deceived(ClientSettings::default()).await;
    let invited = invited();
    for _ in 0..2 {
        let join = client.group_join(&invited, Join::new());
        let serve = async {
            let (tag, request) = server.hear().await;
            let refusal = Reply::Status(code::PMIX_ERR_OUT_OF_RESOURCE);
            server.answer(tag, request.command(), &refusal).await;
            request.command()
        };
        let (joined, heard) = soon("it is refused", async { tokio::join!(join, serve) }).await;
        let error = joined.unwrap_err();
        assert_eq!(error.status(), code::PMIX_ERR_OUT_OF_RESOURCE, "{error}");
        assert_eq!(heard, CommandCode::RegisterEvents);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn join_that_times_out_is_an_error_if_decline_is_refused() {
    let (client, mut server) = deceived(ClientSettings::default()).await;
    let client = client.within(Duration::from_secs(1));
    let invited = invited();
    let join = client.group_join(&invited, Join::new());
    let serve = async {
        let registered = server.grant().await.command();
        let accepted = server.grant().await.command();
        assert_eq!(
            [registered, accepted],
            [CommandCode::RegisterEvents, CommandCode::Notify]
        );
        let (tag, decline) = server.hear().await;
        let refusal = Reply::Status(code::PMIX_ERR_NO_PERMISSIONS);
        server.answer(tag, decline.command(), &refusal).await;
        decline.command()
    };
    let (joined, declined) = soon("the join ends", async { tokio::join!(join, serve) }).await;
    assert_eq!(declined, CommandCode::Notify);
    let error = joined.unwrap_err();
    assert!(matches!(error, ClientError::NotJoined { .. }), "{error}");
}

//! Peal's client end to end: a program of it under Peal's server and under the C library's, and its
//! calls one by one under a server in this process.
use peal_client::{Client, ClientError, Handler, HandlerOutcome};
use peal_core::registration::RegistrationError;
use peal_model::{
    DataArray, Event, Info, Infos, Key, KeyName, Nspace, Proc, Range, Scope, Status, Value, code,
    key,
};
use peal_needs::needs;
use peal_sandbox::{Engine, EngineSettings, Grants, Module, ModuleLimits, Services};
use peal_server::{InProcessNetwork, ServerSettings};
use peal_tests::{
    Done, c_program, guest,
    in_process::{Node, everything, listener, next, soon},
    peal, program, root, run,
};
use std::{
    process::Command,
    sync::{Arc, mpsc},
    time::Duration,
};

const NEWS: Status = Status(-3201);
const OTHER: Status = Status(-3202);
const MARK: Status = Status(-3203);
const NOTE: KeyName = KeyName("test.note");

/// Returns true if four procs printed the lines of the example in any order: a handler may be
/// called before the greeting is read.
fn all_were_greeted(done: Done) {
    let said = done.expect_status(0).stdout;
    let mut said: Vec<&str> = said.lines().collect();
    said.sort_unstable();
    let expected = (0..4).flat_map(|rank| {
        let neighbour = (rank + 1) % 4;
        let greeting =
            format!("rank {rank} of 4: my neighbour says \"hello from rank {neighbour}\"");
        [
            greeting,
            format!("rank {rank}: heard good news from rank 0"),
        ]
    });
    assert_eq!(said, expected.collect::<Vec<_>>());
}

#[needs(prepared, libpmix)]
#[test]
fn a_program_of_it_runs_under_peal_and_under_the_c_library() {
    let example = program("peal-example");
    all_were_greeted(run(peal(["run", "-n", "4", "--"]).arg(&example)));
    let host = c_program("host");
    all_were_greeted(run(Command::new(host).arg("4").arg(&example)));
}

#[needs(prepared, libpmix)]
#[test]
fn client_and_c_library_work_in_one_job_under_both_servers() {
    let host = c_program("host");
    let hello = c_program("hello");
    let mixed = format!(
        "case $PMIX_RANK in 0|3) exec {};; *) exec {};; esac",
        hello.to_str().unwrap(),
        program("peal-example").to_str().unwrap()
    );
    all_were_greeted(run(peal(["run", "-n", "4", "--", "sh", "-c"]).arg(&mixed)));
    all_were_greeted(run(Command::new(host)
        .args(["4", "/bin/sh", "-c"])
        .arg(&mixed)));
}

fn called(name: &str) -> Info {
    Info::new(key::PMIX_EVENT_HDLR_NAME, Value::string(name))
}

fn note(text: &str) -> Info {
    Info::new(NOTE, Value::string(text))
}

fn noted(event: &Event) -> (Status, &str) {
    (
        event.code,
        event
            .infos
            .value_of(NOTE)
            .and_then(Value::as_str)
            .unwrap_or_default(),
    )
}

/// Returns a handler of a module with limits that do not depend on the speed of the machine.
fn component(name: &str, bytes: &[u8]) -> Handler {
    let engine = Engine::new(&EngineSettings::default()).unwrap();
    let limits = ModuleLimits {
        call_time: Duration::from_secs(60),
        ..ModuleLimits::default()
    };
    Handler::component(Arc::new(
        Module::load(
            &engine,
            name,
            bytes,
            &Grants::tenant(),
            limits,
            Services::default(),
        )
        .unwrap(),
    ))
}

/// Returns the result of a handler in the form of RFC 0002.
fn result(name: &str, status: Status, infos: impl IntoIterator<Item = Info>) -> Info {
    let key = Key::new(name).unwrap();
    let first = Info::new(key.clone(), Value::Status(status));
    Info::new(
        key,
        Value::DataArray(DataArray::infos([first].into_iter().chain(infos))),
    )
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn native_handlers_and_components_share_a_chain_with_results() {
    let node = Node::alone(ServerSettings::default(), 2).await;
    let client = node.client(0).await;
    let other = node.client(1).await;
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let last = Handler::native(move |call| {
        tell.send(call.results()).unwrap();
        HandlerOutcome::status(code::PMIX_EVENT_ACTION_COMPLETE)
    });
    let first = Handler::native(|call| {
        assert!(call.results().is_empty());
        HandlerOutcome {
            status: code::PMIX_EVENT_PARTIAL_ACTION_TAKEN,
            infos: vec![note("from the first")],
        }
    });
    let (never, mut heard) = listener();
    let report = component("report", &std::fs::read(guest("report")).unwrap());
    let before = Info::new(key::PMIX_EVENT_HDLR_BEFORE, Value::string("last"));
    let at_the_front = Info::new(key::PMIX_EVENT_HDLR_FIRST, Value::Bool(true));
    client
        .register(&[NEWS, OTHER], &[called("never")], never)
        .await
        .unwrap();
    client
        .register(&[NEWS], &[called("last")], last)
        .await
        .unwrap();
    client
        .register(&[NEWS], &[called("report"), before], report)
        .await
        .unwrap();
    client
        .register(&[NEWS], &[called("first"), at_the_front.clone()], first)
        .await
        .unwrap();

    other
        .notify(NEWS, Range::Namespace, Vec::new())
        .await
        .unwrap();
    let results = soon("the last handler is called", told.recv())
        .await
        .unwrap();
    let seen = Info::new(KeyName("peal.report.seen"), Value::Uint32(1));
    let expected = [
        result(
            "first",
            code::PMIX_EVENT_PARTIAL_ACTION_TAKEN,
            [note("from the first")],
        ),
        result("report", code::PMIX_EVENT_NO_ACTION_TAKEN, [seen]),
    ];
    assert_eq!(results, expected);
    // The complete action ended the chain: the first event of the handler after it is a later one.
    other
        .notify(OTHER, Range::Namespace, Vec::new())
        .await
        .unwrap();
    assert_eq!(next(&mut heard).await.code, OTHER);

    let error = client
        .register(&[OTHER], &[at_the_front], listener().0)
        .await
        .unwrap_err();
    let ClientError::Registration(RegistrationError::Taken { holder, .. }) = &error else {
        panic!("{error}")
    };
    assert_eq!(
        (holder.as_str(), error.status()),
        ("first", code::PMIX_ERR_EVENT_REGISTRATION)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn panicking_handler_has_failed_and_chain_continues() {
    let node = Node::alone(ServerSettings::default(), 2).await;
    let client = node.client(0).await;
    let other = node.client(1).await;
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let last = Handler::native(move |call| {
        tell.send(call.results()).unwrap();
        HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
    });
    client
        .register(
            &[NEWS],
            &[called("here")],
            Handler::non_blocking(|_| panic!("as it must")),
        )
        .await
        .unwrap();
    client
        .register(
            &[NEWS],
            &[called("elsewhere")],
            Handler::native(|_| panic!("as it must")),
        )
        .await
        .unwrap();
    client
        .register(&[NEWS], &[called("last")], last)
        .await
        .unwrap();
    for _ in 0..2 {
        other
            .notify(NEWS, Range::Namespace, Vec::new())
            .await
            .unwrap();
        let results = soon("the last handler is called", told.recv())
            .await
            .unwrap();
        let failed = |name| result(name, Status::PEAL_ERR_MODULE_TRAPPED, []);
        assert_eq!(results, [failed("here"), failed("elsewhere")]);
    }
}

/// Returns a component that raises event -4000 twice for each event that it handles.
fn raises() -> Vec<u8> {
    let read =
        |file| std::fs::read_to_string(root().join("host/sandbox/tests/wat").join(file)).unwrap();
    let parts = ["handler.part", "call.part"];
    let text = parts.iter().fold(read("notify.wat"), |text, part| {
        text.replace(&format!("(;include {part};)"), &read(part))
    });
    wat::parse_str(text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn handler_raising_events_never_waits_for_itself() {
    // The number exceeds the client's read-ahead for its handlers, so that answers follow events
    // that it has not read.
    const MANY: u32 = 5000;
    let node = Node::alone(ServerSettings::default(), 2).await;
    let client = node.client(0).await;
    let other = node.client(1).await;
    let (go, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let gate = Handler::native(move |_| {
        // An error means that the flood is over.
        let _ = wait.lock().unwrap().recv();
        HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
    });
    let (echo, mut heard) = listener();
    client.register(&[NEWS], &[], gate).await.unwrap();
    client
        .register(&[NEWS], &[], component("raises", &raises()))
        .await
        .unwrap();
    other.register(&[Status(-4000)], &[], echo).await.unwrap();
    for _ in 0..MANY {
        other
            .notify(NEWS, Range::Namespace, Vec::new())
            .await
            .unwrap();
    }
    drop(go);
    for _ in 0..2 * MANY {
        assert_eq!(next(&mut heard).await.code, Status(-4000));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_range_proc_local_never_leaves_its_process() {
    let node = Node::alone(ServerSettings::default(), 2).await;
    let client = node.client(0).await;
    let other = node.client(1).await;
    let (own, mut heard) = listener();
    let (others, mut heard_elsewhere) = listener();
    client.register(&[NEWS], everything(), own).await.unwrap();
    other.register(&[], everything(), others).await.unwrap();
    client
        .notify(NEWS, Range::ProcLocal, vec![note("private")])
        .await
        .unwrap();
    client
        .notify(NEWS, Range::Namespace, vec![note("public")])
        .await
        .unwrap();
    assert_eq!(noted(&next(&mut heard).await), (NEWS, "private"));
    // The client's own handlers receive events that it raises for all procs.
    assert_eq!(noted(&next(&mut heard).await), (NEWS, "public"));
    assert_eq!(noted(&next(&mut heard_elsewhere).await), (NEWS, "public"));
}

#[tokio::test(flavor = "multi_thread")]
async fn late_registration_gets_earlier_events_once() {
    let node = Node::alone(ServerSettings::default(), 2).await;
    let client = node.client(0).await;
    let other = node.client(1).await;
    let do_not_cache = Info::new(key::PMIX_EVENT_DO_NOT_CACHE, Value::Bool(true));
    other
        .notify(NEWS, Range::Namespace, vec![note("early")])
        .await
        .unwrap();
    other
        .notify(NEWS, Range::Namespace, vec![note("not kept"), do_not_cache])
        .await
        .unwrap();
    let (handler, mut heard) = listener();
    let id = client
        .register(&[NEWS], &[], handler.clone())
        .await
        .unwrap();
    assert_eq!(noted(&next(&mut heard).await), (NEWS, "early"));
    // Each handler that registers later receives it, too, and none of them twice.
    let second = client
        .register(&[NEWS], &[], handler.clone())
        .await
        .unwrap();
    assert_eq!(noted(&next(&mut heard).await), (NEWS, "early"));
    client.deregister(id).await.unwrap();
    client.deregister(second).await.unwrap();
    client.register(&[NEWS], &[], handler).await.unwrap();
    other
        .notify(NEWS, Range::Namespace, vec![note("late")])
        .await
        .unwrap();
    for text in ["early", "late"] {
        assert_eq!(noted(&next(&mut heard).await), (NEWS, text));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deregistered_or_spent_handler_gets_nothing_more() {
    let node = Node::alone(ServerSettings::default(), 2).await;
    let client = node.client(0).await;
    let other = node.client(1).await;
    let (brief, mut briefly) = listener();
    let (once, mut heard_once) = listener();
    let (always, mut heard) = listener();
    let oneshot = Info::new(key::PMIX_EVENT_ONESHOT, Value::Bool(true));
    let id = client.register(&[NEWS], &[], brief).await.unwrap();
    client.register(&[NEWS], &[oneshot], once).await.unwrap();
    client.register(&[NEWS], &[], always).await.unwrap();
    other
        .notify(NEWS, Range::Namespace, vec![note("1")])
        .await
        .unwrap();
    assert_eq!(noted(&next(&mut briefly).await).1, "1");
    assert_eq!(noted(&next(&mut heard_once).await).1, "1");
    client.deregister(id).await.unwrap();
    // The handlers are dropped, so they can never be called again.
    assert_eq!(soon("the handler is dropped", briefly.recv()).await, None);
    assert_eq!(
        soon("the spent handler is dropped", heard_once.recv()).await,
        None
    );
    other
        .notify(NEWS, Range::Namespace, vec![note("2")])
        .await
        .unwrap();
    for text in ["1", "2"] {
        assert_eq!(noted(&next(&mut heard).await).1, text);
    }
    let error = client.deregister(id).await.unwrap_err();
    assert_eq!(error.status(), code::PMIX_ERR_NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn get_waits_for_later_commit() {
    let node = Node::alone(ServerSettings::default(), 2).await;
    let client = node.client(0).await;
    let other = node.client(1).await;
    let early = KeyName("test.early");
    let late = KeyName("test.late");
    other.put(Scope::Global, early.into(), Value::Uint32(1));
    other.commit().await.unwrap();
    let waiting = client.get(other.me(), late, &[]);
    let meanwhile = async {
        // This request follows the get on the same connection. When it is answered, the server
        // holds the get.
        assert_eq!(
            client.get(other.me(), early, &[]).await.unwrap(),
            Value::Uint32(1)
        );
        other.put(Scope::Global, late.into(), Value::string("here"));
        other.commit().await.unwrap();
    };
    let (value, ()) = soon("the value comes", async {
        tokio::join!(waiting, meanwhile)
    })
    .await;
    assert_eq!(value.unwrap(), Value::string("here"));
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_arrive_with_their_status() {
    let node = Node::alone(ServerSettings::default(), 2).await;
    let client = node.client(0).await;
    let other = node.proc(1);
    let nobody = node.proc(2);
    let stranger = Proc::all(Nspace::new("elsewhere").unwrap());
    let never = KeyName("test.never");
    let given = |key: KeyName, value: Value| [Info::new(key, value)];
    let get = async |proc: &Proc, infos: &[Info]| client.get(proc, never, infos).await.map(drop);
    let proxy = given(key::PMIX_EVENT_PROXY, Value::Proc(other.clone())).to_vec();
    for (what, outcome, status) in [
        (
            "optional",
            get(&other, &given(key::PMIX_OPTIONAL, Value::Bool(true))).await,
            code::PMIX_ERR_NOT_FOUND,
        ),
        (
            "immediate",
            get(&other, &given(key::PMIX_IMMEDIATE, Value::Bool(true))).await,
            code::PMIX_ERR_NOT_FOUND,
        ),
        (
            "in time",
            get(&other, &given(key::PMIX_TIMEOUT, Value::Int(1))).await,
            code::PMIX_ERR_TIMEOUT,
        ),
        (
            "of nobody",
            get(&nobody, &[]).await,
            code::PMIX_ERR_NOT_FOUND,
        ),
        (
            "of another job",
            get(&stranger, &[]).await,
            code::PMIX_ERR_NOT_FOUND,
        ),
        (
            "with another job",
            client.fence(&[stranger, node.proc(0)], &[]).await,
            code::PMIX_ERR_INVALID_NAMESPACE,
        ),
        (
            "without us",
            client.fence(&[other], &[]).await,
            code::PMIX_ERR_BAD_PARAM,
        ),
        (
            "of no range",
            client.notify(NEWS, Range::Undef, Vec::new()).await,
            code::PMIX_ERR_BAD_PARAM,
        ),
        (
            "without targets",
            client.notify(NEWS, Range::Custom, Vec::new()).await,
            code::PMIX_ERR_BAD_PARAM,
        ),
        (
            "as another",
            client.notify(NEWS, Range::Namespace, proxy).await,
            code::PMIX_ERR_NO_PERMISSIONS,
        ),
    ] {
        let error = outcome.expect_err(what);
        assert_eq!(error.status(), status, "{what}: {error}");
    }
    let refused = Client::connect(&node.environment(2)).await.err().unwrap();
    assert!(
        matches!(refused, ClientError::Unwelcome { status: None, .. }),
        "{refused}"
    );
    let environment = node.environment(1);
    soon("the server stops", node.server.shutdown()).await;
    let unreachable = Client::connect(&environment).await.err().unwrap();
    assert!(
        matches!(unreachable, ClientError::Unreachable { .. }),
        "{unreachable}"
    );
    assert_eq!(unreachable.status(), code::PMIX_ERR_UNREACH);
}

#[tokio::test(flavor = "multi_thread")]
async fn finalized_client_gets_nothing_and_may_return() {
    let node = Node::alone(ServerSettings::default(), 2).await;
    let client = node.client(0).await;
    let other = node.client(1).await;
    let (handler, mut heard) = listener();
    client.register(&[NEWS], &[], handler).await.unwrap();
    client.finalize().await.unwrap();
    let do_not_cache = Info::new(key::PMIX_EVENT_DO_NOT_CACHE, Value::Bool(true));
    other
        .notify(NEWS, Range::Namespace, vec![do_not_cache])
        .await
        .unwrap();
    assert_eq!(
        soon("the handlers go with their client", heard.recv()).await,
        None
    );
    let client = node.client(0).await;
    let (handler, mut heard) = listener();
    client.register(&[NEWS], &[], handler).await.unwrap();
    other
        .notify(NEWS, Range::Namespace, vec![note("welcome back")])
        .await
        .unwrap();
    assert_eq!(noted(&next(&mut heard).await).1, "welcome back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_server_is_an_event_and_the_end_of_open_requests() {
    let node = Node::alone(ServerSettings::default(), 2).await;
    let client = node.client(0).await;
    let (handler, mut heard) = listener();
    let lost = code::PMIX_ERR_LOST_CONNECTION;
    client
        .register(&[lost, MARK], everything(), handler)
        .await
        .unwrap();
    let (by_its_other_name, mut heard_too) = listener();
    client
        .register(
            &[code::PMIX_ERR_LOST_CONNECTION_TO_SERVER],
            everything(),
            by_its_other_name,
        )
        .await
        .unwrap();
    let (default, mut heard_by_default) = listener();
    client.register(&[], everything(), default).await.unwrap();
    client.put(Scope::Local, NOTE.into(), Value::Bool(true));
    let me = client.me().clone();
    let other = node.proc(1);
    let server = client.server().unwrap();
    let patience = [Info::new(key::PMIX_TIMEOUT, Value::Uint32(600))];
    let open = client.get(&other, KeyName("test.never"), &patience);
    let lose = async {
        // This commit follows the get, so the get is pending by now.
        client.commit().await.unwrap();
        node.server.shutdown().await;
    };
    let (outcome, ()) = soon("the open request ends", async { tokio::join!(open, lose) }).await;
    assert!(
        matches!(outcome, Err(ClientError::Lost { .. })),
        "{outcome:?}"
    );
    let event = next(&mut heard).await;
    assert_eq!(event.affected(), [server]);
    assert_eq!(
        (event.code, event.source, event.range),
        (lost, Some(me), Range::ProcLocal)
    );
    assert_eq!(
        next(&mut heard_too).await.code,
        code::PMIX_ERR_LOST_CONNECTION_TO_SERVER
    );
    let error = client
        .notify(NEWS, Range::Global, Vec::new())
        .await
        .unwrap_err();
    assert_eq!(error.status(), lost);
    // Events that stay in the process need no server.
    client
        .notify(MARK, Range::ProcLocal, Vec::new())
        .await
        .unwrap();
    assert_eq!(next(&mut heard).await.code, MARK);
    // A handler for all events receives the loss once.
    for code in [lost, NEWS, MARK] {
        assert_eq!(next(&mut heard_by_default).await.code, code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn between_two_servers_an_event_goes_as_far_as_its_range() {
    let network = InProcessNetwork::new();
    let here = Node::start(ServerSettings::default(), &network, "here", 2).await;
    let there = Node::start(ServerSettings::default(), &network, "there", 2).await;
    let client = here.client(0).await;
    let peer = here.client(1).await;
    let foreigner = there.client(0).await;
    let (near, mut heard_near) = listener();
    let (far, mut heard_far) = listener();
    peer.register(&[], everything(), near).await.unwrap();
    foreigner.register(&[], everything(), far).await.unwrap();
    let ranges = [
        (Range::Local, "local"),
        (Range::Namespace, "job"),
        (Range::Session, "session"),
        (Range::Global, "all"),
    ];
    for (range, text) in ranges {
        client.notify(NEWS, range, vec![note(text)]).await.unwrap();
    }
    let custom = Info::new(key::PMIX_EVENT_CUSTOM_RANGE, Value::procs([there.proc(0)]));
    client
        .notify(NEWS, Range::Custom, vec![note("you"), custom])
        .await
        .unwrap();
    let stays = Info::new(key::PMIX_EVENT_STAYS_LOCAL, Value::Bool(true));
    client
        .notify(NEWS, Range::Global, vec![note("stays"), stays])
        .await
        .unwrap();
    client
        .notify(MARK, Range::Global, Vec::new())
        .await
        .unwrap();
    for text in ["local", "job", "session", "all", "stays"] {
        assert_eq!(noted(&next(&mut heard_near).await), (NEWS, text));
    }
    assert_eq!(next(&mut heard_near).await.code, MARK);
    for (text, range) in [
        ("session", Range::Session),
        ("all", Range::Global),
        ("you", Range::Custom),
    ] {
        let event = next(&mut heard_far).await;
        assert_eq!((noted(&event), event.range), ((NEWS, text), range));
        assert_eq!(event.source.as_ref(), Some(client.me()));
    }
    assert_eq!(next(&mut heard_far).await.code, MARK);
    // The same holds in the other direction.
    foreigner
        .notify(OTHER, Range::Global, Vec::new())
        .await
        .unwrap();
    assert_eq!(next(&mut heard_near).await.code, OTHER);
}

//! Handlers that fail, in every possible way: the chain has a result with a status of Peal's own,
//! for hosted handlers and for those of a client. Later handlers run and see it, and the failed
//! module handles the next event.
use peal_client::{Client, Handler, HandlerOutcome};
use peal_core::{
    class::ClassFilter,
    owner::Owner,
    registration::{EventCodes, HandlerRegistration},
};
use peal_launcher::EmbeddedHostEnvironment;
use peal_model::{
    ChainResult, DataArray, Event, Info, Key, KeyName, Range, Status, Value, code, key,
};
use peal_needs::needs;
use peal_sandbox::{Engine, EngineSettings, Grants, Module, ModuleLimits, Services};
use peal_server::{
    Hosted, HostedChains, HostedHandler, InProcessNetwork, Listener, ListenerItem, Notice, Notices,
    ServerSettings,
};
use peal_tests::{
    guest,
    in_process::{Modules, Node, everything, soon},
    text_form::{assemble, of_sandbox},
};
use std::{fs, sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// Event that every module here handles without failure.
const HEALTHY: Status = Status(-100);

const TRAPPED: Status = Status::PEAL_ERR_MODULE_TRAPPED;
const TIMEOUT: Status = Status::PEAL_ERR_MODULE_TIMEOUT;
const MEMORY: Status = Status::PEAL_ERR_MODULE_MEMORY;
const OUTPUT: Status = Status::PEAL_ERR_MODULE_OUTPUT;
const HOST_CALLS: Status = Status::PEAL_ERR_MODULE_HOST_CALLS;

/// Module, and the ways in which it fails.
struct Failing {
    name: &'static str,
    limits: ModuleLimits,
    /// Name of each way, the code of the event that causes it, and the resulting status.
    ways: &'static [(&'static str, i32, Status)],
}

/// Returns limits that do not depend on the speed of the machine.
fn patient() -> ModuleLimits {
    let minute = Duration::from_secs(60);
    ModuleLimits {
        call_time: minute,
        host_call_time: minute,
        ..ModuleLimits::default()
    }
}

fn all() -> Vec<Failing> {
    vec![
        Failing {
            name: "moody",
            limits: ModuleLimits {
                host_calls: 500,
                memory_bytes: 2 << 20,
                output_bytes: 100_000,
                ..patient()
            },
            ways: &[
                ("a crash", -1, TRAPPED),
                ("memory without end", -3, MEMORY),
                ("results without end", -4, OUTPUT),
                ("host calls without end", -5, HOST_CALLS),
                ("too large a result for one host call", -7, OUTPUT),
                ("recursion without end", -8, TRAPPED),
            ],
        },
        Failing {
            name: "moody",
            limits: ModuleLimits {
                call_time: Duration::from_millis(300),
                ..patient()
            },
            ways: &[("a loop without end", -2, TIMEOUT)],
        },
        Failing {
            name: "moody",
            limits: ModuleLimits {
                host_calls: u32::MAX,
                host_call_time: Duration::from_millis(5),
                ..patient()
            },
            ways: &[("too long in host calls", -5, TIMEOUT)],
        },
        Failing {
            name: "generous",
            limits: ModuleLimits {
                memory_bytes: 256 << 20,
                ..patient()
            },
            ways: &[
                ("a result of 100 MB", -21, OUTPUT),
                ("10,000 infos", -22, HOST_CALLS),
                ("10,000 infos in one", -23, OUTPUT),
            ],
        },
        Failing {
            name: "echo",
            limits: ModuleLimits {
                output_bytes: 20_000,
                ..patient()
            },
            ways: &[
                ("an array that is not there", -5, TRAPPED),
                ("a value that was never lent", -6, TRAPPED),
                ("an array of mixed types", -7, TRAPPED),
                ("arrays within arrays", -8, OUTPUT),
                ("an array again and again", -9, OUTPUT),
                ("an array that holds itself", -10, TRAPPED),
            ],
        },
    ]
}

fn module(name: &str, bytes: &[u8], limits: ModuleLimits) -> Arc<Module> {
    let engine = Engine::new(&EngineSettings::default()).unwrap();
    Arc::new(
        Module::load(
            &engine,
            name,
            bytes,
            &Grants::tenant(),
            limits,
            Services::default(),
        )
        .unwrap(),
    )
}

/// Returns a component in text form.
fn in_text(name: &str, limits: ModuleLimits) -> Arc<Module> {
    let bytes = match name {
        "generous" => assemble(include_str!("../../wat/generous.wat")),
        of_the_sandbox => of_sandbox(&format!("{of_the_sandbox}.wat")),
    };
    module(name, &bytes, limits)
}

/// Returns a module that ends the chain, and reports the names and results of the handlers before
/// it.
fn complete() -> Arc<Module> {
    module("complete", &fs::read(guest("complete")).unwrap(), patient())
}

/// Returns the infos of `complete` after this number of handlers, of which the last had this name
/// and status.
fn seen(before: u32, last: &str, status: Status) -> Vec<Info> {
    vec![
        Info::new(KeyName("peal.complete.seen"), Value::Uint32(before)),
        Info::new(KeyName("peal.complete.after"), Value::string(last)),
        Info::new(KeyName("peal.complete.after.status"), Value::Status(status)),
    ]
}

/// Starts a server whose site has these handlers for all events. Returns a listener for their
/// results.
async fn site(handlers: [Arc<Module>; 2]) -> (Node, Listener) {
    let mut chains = HostedChains::default();
    for module in handlers {
        let registration = HandlerRegistration {
            levels: ClassFilter::Both,
            ..HandlerRegistration::new(module.name(), EventCodes::Default)
        };
        chains
            .register(Owner::Site, registration, HostedHandler::new(module))
            .unwrap();
    }
    let notices = Notices::default();
    let passed = notices.listen(Notice::is_passed);
    let modules = Modules {
        hosted: Hosted {
            chains,
            ..Hosted::default()
        },
        notices,
    };
    let host = Arc::new(EmbeddedHostEnvironment::new(Notices::default()));
    let node = Node::with(
        modules,
        host,
        ServerSettings::default(),
        &InProcessNetwork::new(),
        "job",
        1,
    )
    .await;
    (node, passed)
}

/// Raises an event and returns the results of the site's handlers.
async fn steps(node: &Node, passed: &mut Listener, code: Status) -> Vec<ChainResult> {
    node.server.handle().notify(Event {
        code,
        source: None,
        range: Range::Global,
        infos: Vec::new(),
    });
    match soon("the chain is behind the event", passed.recv()).await {
        Some(ListenerItem::Notice(Notice::Passed { results, .. })) => results[0].steps.clone(),
        other => panic!("{other:?}"),
    }
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn failed_module_handler_has_result_and_chain_continues() {
    for Failing { name, limits, ways } in all() {
        let (node, mut passed) = site([in_text(name, limits), complete()]).await;
        let healthy = steps(&node, &mut passed, HEALTHY).await;
        for (what, code, status) in ways {
            let found = steps(&node, &mut passed, Status(*code)).await;
            let [failed, complete] = &found[..] else {
                panic!("{what}: {found:?}")
            };
            assert_eq!(
                (&*failed.name, failed.status, failed.infos.len()),
                (name, *status, 0),
                "{what}"
            );
            assert_eq!(
                (&*complete.name, complete.status),
                ("complete", code::PMIX_EVENT_ACTION_COMPLETE),
                "{what}"
            );
            assert_eq!(complete.infos, seen(1, name, *status), "{what}");
            // A new instance, without the state of the failed one, handled it.
            assert_eq!(
                steps(&node, &mut passed, HEALTHY).await,
                healthy,
                "after {what}"
            );
        }
    }
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn handler_unable_to_run_has_result_and_runs_later() {
    let managed = in_text("managed", patient());
    let (node, mut passed) = site([managed.clone(), complete()]).await;
    // The new instance was not initialized with its settings.
    let found = steps(&node, &mut passed, HEALTHY).await;
    let unavailable = Status::PEAL_ERR_MODULE_UNAVAILABLE;
    assert_eq!(
        (found[0].status, &found[1].infos),
        (unavailable, &seen(1, "managed", unavailable))
    );
    managed.init(&[Info::new(NOTE, Value::Uint64(1))]).unwrap();
    let found = steps(&node, &mut passed, HEALTHY).await;
    assert_eq!(
        (found[0].status, &found[1].infos),
        (Status(11), &seen(1, "managed", Status(11)))
    );
}

fn called(name: &str) -> Vec<Info> {
    [
        &[Info::new(key::PMIX_EVENT_HDLR_NAME, Value::string(name))],
        everything(),
    ]
    .concat()
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

const NOTE: KeyName = KeyName("test.note");

/// Returns the infos that a native handler passes on.
fn noted() -> Vec<Info> {
    let inner = Value::DataArray(DataArray::infos([Info::new(
        NOTE,
        Value::Range(Range::Custom),
    )]));
    vec![
        Info::new(NOTE, Value::string("from the first")),
        Info::new(NOTE, inner),
    ]
}

/// Registers the chain of a client in a job of two procs: a native handler, these components, and a
/// native handler that returns the results before it. Returns the other proc, too.
async fn chain(
    node: &Node,
    components: &[Arc<Module>],
) -> (Client, Client, mpsc::UnboundedReceiver<Vec<Info>>) {
    let client = node.client(0).await;
    let other = node.client(1).await;
    let (tell, told) = mpsc::unbounded_channel();
    let first = Handler::native(|_| HandlerOutcome {
        status: code::PMIX_EVENT_PARTIAL_ACTION_TAKEN,
        infos: noted(),
    });
    let last = Handler::native(move |call| {
        // The test may have received enough.
        let _ = tell.send(call.results());
        HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
    });
    client.register(&[], &called("first"), first).await.unwrap();
    for module in components {
        client
            .register(
                &[],
                &called(module.name()),
                Handler::component(module.clone()),
            )
            .await
            .unwrap();
    }
    client.register(&[], &called("last"), last).await.unwrap();
    (client, other, told)
}

/// Raises an event and returns the results that the last handler sees.
async fn results(
    other: &Client,
    told: &mut mpsc::UnboundedReceiver<Vec<Info>>,
    code: Status,
) -> Vec<Info> {
    other
        .notify(code, Range::Namespace, Vec::new())
        .await
        .unwrap();
    soon("the last handler is called", told.recv())
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_client_component_has_result_for_native_handlers() {
    for Failing { name, limits, ways } in all() {
        let node = Node::alone(ServerSettings::default(), 2).await;
        let (_client, other, mut told) = chain(&node, &[in_text(name, limits)]).await;
        let healthy = results(&other, &mut told, HEALTHY).await;
        let first = result("first", code::PMIX_EVENT_PARTIAL_ACTION_TAKEN, noted());
        assert_eq!((healthy.len(), &healthy[0]), (2, &first));
        for (what, code, status) in ways {
            let found = results(&other, &mut told, Status(*code)).await;
            assert_eq!(found, [first.clone(), result(name, *status, [])], "{what}");
            assert_eq!(
                results(&other, &mut told, HEALTHY).await,
                healthy,
                "after {what}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn results_pass_between_native_handlers_and_components() {
    let node = Node::alone(ServerSettings::default(), 2).await;
    let components = [in_text("echo", patient()), in_text("generous", patient())];
    let (_client, other, mut told) = chain(&node, &components).await;
    // On this event `echo` pushes the name, the status and the infos of each earlier result.
    let found = results(&other, &mut told, Status(-3)).await;
    let echoed = |value| Info::new(KeyName("test.echo"), value);
    let partial = code::PMIX_EVENT_PARTIAL_ACTION_TAKEN;
    let of_the_first = [
        echoed(Value::string("first")),
        echoed(Value::Status(partial)),
    ]
    .into_iter()
    .chain(noted());
    let expected = [
        result("first", partial, noted()),
        result("echo", Status(1), of_the_first),
        result("generous", code::PMIX_EVENT_NO_ACTION_TAKEN, []),
    ];
    assert_eq!(found, expected);
}

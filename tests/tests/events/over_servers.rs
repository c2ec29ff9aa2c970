//! Hosted handlers of several servers of one in-process transport: each is called once for an event, or at each server.
use peal_core::{
    class::ClassFilter,
    owner::Owner,
    registration::{EventCodes, HandlerLocation, HandlerRegistration},
};
use peal_launcher::EmbeddedHostEnvironment;
use peal_model::{Infos, KeyName, Nspace, Range, Status};
use peal_needs::needs;
use peal_sandbox::{Engine, EngineSettings, Grants, Module, ModuleLimits, Services};
use peal_server::{
    Hosted, HostedChains, HostedHandler, InProcessNetwork, Listener, ListenerItem, Notice, Notices,
    ServerSettings,
};
use peal_tests::{
    guest,
    in_process::{Modules, Node, soon},
};
use std::{sync::Arc, time::Duration};

const NEWS: Status = Status(-3001);
const BEFORE: KeyName = KeyName("echo.before");

/// A handler that pushes the names of those before it.
fn echo() -> HostedHandler {
    let engine = Engine::new(&EngineSettings::default()).unwrap();
    let limits = ModuleLimits {
        call_time: Duration::from_secs(60),
        ..ModuleLimits::default()
    };
    let bytes = std::fs::read(guest("echo")).unwrap();
    let services = Services::default();
    let module = Module::load(&engine, "echo", &bytes, &Grants::tenant(), limits, services);
    HostedHandler::new(Arc::new(module.unwrap()))
}

/// Starts a server with a job of this name and one proc. The site and each of these jobs have two
/// handlers: `once` at the origin, `everywhere` at each node.
async fn start(network: &Arc<InProcessNetwork>, job: &str) -> (Node, Listener) {
    let mut chains = HostedChains::default();
    let handler = echo();
    for owner in [Owner::Site, Owner::Namespace(Nspace::new(job).unwrap())] {
        for (name, location) in [
            ("once", HandlerLocation::Origin),
            ("everywhere", HandlerLocation::EachNode),
        ] {
            let registration = HandlerRegistration {
                levels: ClassFilter::Both,
                location,
                ..HandlerRegistration::new(name, EventCodes::Single(NEWS))
            };
            let registered = chains.register(owner.clone(), registration, handler.clone());
            registered.unwrap();
        }
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
    let node = Node::with(modules, host, ServerSettings::default(), network, job, 1).await;
    (node, passed)
}

/// Returns the handlers that were called for the next event, as `owner: name after name`.
async fn called(passed: &mut Listener) -> Vec<String> {
    let item = soon("the event has passed", passed.recv()).await.unwrap();
    let ListenerItem::Notice(Notice::Passed { event, results, .. }) = item else {
        panic!("{item:?}")
    };
    assert_eq!(event.code, NEWS);
    let steps = results.iter().flat_map(|chain| {
        chain.steps.iter().map(|step| {
            let before = step.infos.value_of(BEFORE).unwrap().as_str().unwrap();
            format!("{}: {} after {before:?}", chain.owner, step.name)
        })
    });
    steps.collect()
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn handler_runs_once_for_an_event_or_at_each_node() {
    let network = InProcessNetwork::new();
    let (first, mut at_first) = start(&network, "one").await;
    let (_second, mut at_second) = start(&network, "two").await;
    let (_third, mut at_third) = start(&network, "three").await;
    let client = first.client(0).await;
    let notify = client.notify(NEWS, Range::Global, Vec::new());
    notify.await.unwrap();
    assert_eq!(
        called(&mut at_first).await,
        [
            r#"site: once after """#,
            r#"site: everywhere after "once""#,
            r#"namespace one: once after """#,
            r#"namespace one: everywhere after "once""#,
        ]
    );
    // A job that the origin does not have is served by its own server. No chain goes on elsewhere:
    // each begins without results.
    for (at, job) in [(&mut at_second, "two"), (&mut at_third, "three")] {
        assert_eq!(
            called(at).await,
            [
                r#"site: everywhere after """#.to_owned(),
                format!(r#"namespace {job}: once after """#),
                format!(r#"namespace {job}: everywhere after "once""#),
            ]
        );
    }
}

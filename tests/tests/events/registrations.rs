//! Registrations: decisions of policies, changes by modules, and forwarding by servers to the host
//! environment.
use peal_client::{ClassFilter, ClientError, Handler, HandlerOutcome};
use peal_core::{
    owner::Owner,
    policy::OnFailure,
    registration::{ChainPlacement, HandlerLocation, Mode},
};
use peal_launcher::EmbeddedHostEnvironment;
use peal_model::{
    Event, Hook, Info, Infos, KeyName, ModuleRegistration, Nspace, Range, Status, Value, code, key,
};
use peal_needs::needs;
use peal_sandbox::{Engine, EngineSettings, Grants, Module, ModuleLimits, Services};
use peal_server::{
    EventHandling, HostEnvironment, Hosted, HostedChains, HostedPolicies, InProcessNetwork,
    ListenerItem, Notice, Notices, ServerSettings, UpcallFuture,
};
use peal_tests::{
    guest,
    in_process::{Modules, Node, everything, listener, next, soon},
    raw_client::Peer,
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

const NEWS: Status = Status(-3001);

/// Codes in the order in which they are raised, and the step of `reregister` of each. Only those in
/// their turn are handled.
const ROW: [i32; 6] = [-3001, -3001, -3003, -3002, -3003, -3002];
const STEPS: [Option<u64>; 6] = [Some(0), None, None, Some(1), Some(2), None];
const STEP: KeyName = KeyName("peal.follow.step");

/// Loads a shipped module with limits that do not depend on the speed of the machine. Returns the
/// registrations that it requests, too.
fn module(name: &str) -> (Arc<Module>, Vec<ModuleRegistration>) {
    let engine = Engine::new(&EngineSettings::default()).unwrap();
    let limits = ModuleLimits {
        call_time: Duration::from_secs(60),
        ..ModuleLimits::default()
    };
    let bytes = std::fs::read(guest(name)).unwrap();
    let module = Module::load(
        &engine,
        name,
        &bytes,
        &Grants::tenant(),
        limits,
        Services::default(),
    )
    .unwrap();
    let wishes = module.init(&[]).unwrap();
    (Arc::new(module), wishes)
}

async fn node_with(modules: Modules) -> Node {
    let host = Arc::new(EmbeddedHostEnvironment::new(Notices::default()));
    Node::with(
        modules,
        host,
        ServerSettings::default(),
        &InProcessNetwork::new(),
        "job",
        2,
    )
    .await
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn module_handler_ends_own_registration_and_makes_another() {
    let (follow, wishes) = module("reregister");
    let mut chains = HostedChains::default();
    wishes.iter().for_each(|wish| {
        chains
            .register_requested(
                Owner::Site,
                &follow.clone().into(),
                wish,
                (Mode::Active, HandlerLocation::Origin),
            )
            .unwrap()
    });
    let notices = Notices::default();
    let mut told = notices.listen(|notice| matches!(notice, Notice::Passed { .. }));
    let node = node_with(Modules {
        hosted: Hosted {
            chains,
            ..Hosted::default()
        },
        notices: notices.clone(),
    })
    .await;
    let mut steps = Vec::new();
    for code in ROW {
        node.server.handle().notify(Event {
            code: Status(code),
            source: None,
            range: Range::Namespace,
            infos: affects(&node),
        });
        let Some(ListenerItem::Notice(Notice::Passed { results, .. })) =
            soon("the event has passed", told.recv()).await
        else {
            panic!("no notice")
        };
        let step = results
            .first()
            .and_then(|chain| chain.steps[0].infos.value_of(STEP));
        steps.push(step.and_then(Value::as_u64));
    }
    assert_eq!(steps, STEPS);
}

/// Returns a registration of the shipped `echo`, which returns every info of an event.
fn echo_wish(directives: Vec<Info>) -> (Arc<Module>, ModuleRegistration) {
    let wish = ModuleRegistration {
        tag: 0,
        name: None,
        codes: vec![NEWS],
        directives,
    };
    (module("echo").0, wish)
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn event_for_the_manager_reaches_only_site_handlers() {
    let mut chains = HostedChains::default();
    let uid = rustix::process::geteuid().as_raw();
    let owners = [
        Owner::Site,
        Owner::User(uid),
        Owner::Namespace(Nspace::new("job").unwrap()),
    ];
    for owner in owners.clone() {
        let (echo, wish) = echo_wish(ClassFilter::Both.directives());
        chains
            .register_requested(
                owner,
                &echo.clone().into(),
                &ModuleRegistration {
                    codes: Vec::new(),
                    ..wish
                },
                (Mode::Active, HandlerLocation::Origin),
            )
            .unwrap();
    }
    let notices = Notices::default();
    let mut told = notices.listen(Notice::is_passed);
    let node = node_with(Modules {
        hosted: Hosted {
            chains,
            ..Hosted::default()
        },
        notices,
    })
    .await;
    let mut passed = async || {
        let Some(ListenerItem::Notice(Notice::Passed { event, results, .. })) =
            soon("the event has passed", told.recv()).await
        else {
            panic!("no notice")
        };
        (
            event,
            results
                .iter()
                .map(|chain| chain.owner.clone())
                .collect::<Vec<_>>(),
        )
    };
    let client = node.client(0).await;
    client
        .notify(NEWS, Range::Global, Vec::new())
        .await
        .unwrap();
    assert_eq!(passed().await.1, owners);
    client.notify(NEWS, Range::Rm, Vec::new()).await.unwrap();
    let (event, owners) = passed().await;
    assert_eq!(
        (event.code, event.range, owners),
        (NEWS, Range::Rm, vec![Owner::Site])
    );
    // The same holds for a client that violates the protocol.
    let mut peer = Peer::connect(&node, 1).await;
    peer.say(200, vec![2, 250]).await;
    let (event, owners) = passed().await;
    assert_eq!(
        (event.code, &event.source, owners),
        (code::PMIX_ERR_NOT_SUPPORTED, &None, vec![Owner::Site])
    );
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn module_keeps_its_own_name_and_gets_its_object_back() {
    let object = Info::new(key::PMIX_EVENT_RETURN_OBJECT, Value::Uint64(4711));
    let name = Info::new(key::PMIX_EVENT_HDLR_NAME, Value::string("by-itself"));
    let (echo, wish) = echo_wish(vec![name.clone(), object.clone()]);
    let mut chains = HostedChains::default();
    chains
        .register_requested(
            Owner::Site,
            &echo.clone().into(),
            &wish,
            (Mode::Active, HandlerLocation::Origin),
        )
        .unwrap();
    let notices = Notices::default();
    let mut told = notices.listen(Notice::is_passed);
    let node = node_with(Modules {
        hosted: Hosted {
            chains,
            ..Hosted::default()
        },
        notices,
    })
    .await;
    let client = node.client(0).await;
    let other = node.client(1).await;
    let (tell, mut results_of_client) = tokio::sync::mpsc::unbounded_channel();
    let last = Handler::native(move |call| {
        tell.send(call.steps().to_vec()).unwrap();
        HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
    });
    client
        .register(
            &[NEWS],
            &[name, object],
            Handler::component(module("echo").0),
        )
        .await
        .unwrap();
    client.register(&[], &[], last).await.unwrap();
    // An info under that key from the event's source is not the handler's object.
    let foreign = Info::new(key::PMIX_EVENT_RETURN_OBJECT, Value::Uint64(1));
    other
        .notify(NEWS, Range::Namespace, vec![foreign])
        .await
        .unwrap();
    let Some(ListenerItem::Notice(Notice::Passed { results, .. })) =
        soon("the event has passed", told.recv()).await
    else {
        panic!("no notice")
    };
    let of_client = soon("the last handler is called", results_of_client.recv())
        .await
        .unwrap();
    for step in [&results[0].steps[0], &of_client[0]] {
        let objects = step
            .infos
            .iter()
            .filter(|info| info.key == key::PMIX_EVENT_RETURN_OBJECT);
        let objects: Vec<Option<u64>> = objects.map(|info| info.value.as_u64()).collect();
        assert_eq!((&*step.name, objects), ("by-itself", vec![Some(4711)]));
    }
}

fn affects(node: &Node) -> Vec<Info> {
    vec![Info::new(
        key::PMIX_EVENT_AFFECTED_PROC,
        Value::Proc(node.proc(0)),
    )]
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn client_module_ends_own_registration_and_makes_another() {
    let node = Node::alone(ServerSettings::default(), 2).await;
    let client = node.client(0).await;
    let other = node.client(1).await;
    let (follow, _) = module("reregister");
    client
        .register(&[NEWS], &[], Handler::component(follow))
        .await
        .unwrap();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let last = Handler::native(move |call| {
        let step = call
            .steps()
            .first()
            .and_then(|step| step.infos.value_of(STEP))
            .and_then(Value::as_u64);
        tell.send(step).unwrap();
        HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
    });
    client.register(&[], &[], last).await.unwrap();
    let mut steps = Vec::new();
    // A registration of a client receives recent events, too; here there are none.
    let once = vec![Info::new(key::PMIX_EVENT_DO_NOT_CACHE, Value::Bool(true))];
    for code in ROW {
        other
            .notify(Status(code), Range::Namespace, once.clone())
            .await
            .unwrap();
        steps.push(
            soon("the last handler is called", told.recv())
                .await
                .unwrap(),
        );
    }
    assert_eq!(steps, STEPS);
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn policy_narrows_and_annotates_events_and_refuses_handlers() {
    let (namespace_only, _) = module("namespace-only");
    let mut policies = HostedPolicies::default();
    policies
        .register(
            Hook::Event,
            "namespace-only",
            ChainPlacement::Append,
            OnFailure::Deny,
            namespace_only,
        )
        .unwrap();
    let node = node_with(Modules {
        hosted: Hosted {
            policies,
            ..Hosted::default()
        },
        ..Modules::default()
    })
    .await;
    let client = node.client(0).await;
    let other = node.client(1).await;
    let refused = client
        .register(&[], everything(), listener().0)
        .await
        .unwrap_err();
    let ClientError::Refused { status, .. } = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(status, code::PMIX_ERR_NO_PERMISSIONS);
    let (handler, mut heard) = listener();
    client
        .register(&[NEWS], everything(), handler)
        .await
        .unwrap();
    for (range, becomes, asked) in [
        (Range::Global, Range::Namespace, Some(Range::Global)),
        (Range::Local, Range::Local, None),
    ] {
        other.notify(NEWS, range, Vec::new()).await.unwrap();
        let event = next(&mut heard).await;
        let noted = event
            .infos
            .value_of(KeyName("peal.namespace-only.requested"))
            .cloned();
        assert_eq!((event.range, noted), (becomes, asked.map(Value::Range)));
    }
}

/// Host environment that has events of its own, and records requests and registrations.
#[derive(Default)]
struct Environment {
    asked: Mutex<Vec<(&'static str, Vec<Status>)>>,
    told: Mutex<Vec<Status>>,
}

impl HostEnvironment for Environment {
    fn register_events(&self, codes: Vec<Status>) -> UpcallFuture<'_, ()> {
        self.asked.lock().unwrap().push(("register", codes.clone()));
        // It does not answer at once, like a host environment that asks others.
        Box::pin(async move {
            tokio::task::yield_now().await;
            if codes == [Status(-3666)] {
                Err(code::PMIX_ERR_NO_PERMISSIONS)
            } else {
                Ok(())
            }
        })
    }

    fn deregister_events(&self, codes: Vec<Status>) {
        self.asked.lock().unwrap().push(("deregister", codes));
    }

    fn notify(&self, event: Arc<Event>) -> EventHandling {
        self.told.lock().unwrap().push(event.code);
        EventHandling::ByHost
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn host_gets_first_registration_and_last_deregistration() {
    let host = Arc::new(Environment::default());
    let node = Node::under(
        host.clone(),
        ServerSettings::default(),
        &InProcessNetwork::new(),
        "job",
        2,
    )
    .await;
    let client = node.client(0).await;
    let other = node.client(1).await;
    client.register(&[NEWS], &[], listener().0).await.unwrap();
    assert!(
        host.asked.lock().unwrap().is_empty(),
        "it wants events about jobs only"
    );
    let environment = ClassFilter::Environment.directives();
    let id = client
        .register(&[NEWS], &environment, listener().0)
        .await
        .unwrap();
    other
        .register(&[NEWS, Status(-3002)], &environment, listener().0)
        .await
        .unwrap();
    let register = |codes: &[i32]| {
        (
            "register",
            codes.iter().map(|code| Status(*code)).collect::<Vec<_>>(),
        )
    };
    assert_eq!(
        *host.asked.lock().unwrap(),
        [register(&[-3001]), register(&[-3002])]
    );
    let refused = client
        .register(&[Status(-3666)], &environment, listener().0)
        .await
        .unwrap_err();
    assert!(
        matches!(
            refused,
            ClientError::Refused {
                status: code::PMIX_ERR_NO_PERMISSIONS,
                ..
            }
        ),
        "{refused:?}"
    );
    host.asked.lock().unwrap().clear();
    client.deregister(id).await.unwrap();
    other.finalize().await.unwrap();
    client.finalize().await.unwrap();
    let given_back = |asked: &[(&str, Vec<Status>)]| -> Vec<i32> {
        asked
            .iter()
            .flat_map(|(_, codes)| codes.iter().map(|code| code.0))
            .collect()
    };
    let asked = soon("all is given back", async {
        loop {
            let asked = host.asked.lock().unwrap().clone();
            if given_back(&asked).len() >= 2 {
                return asked;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(
        asked.iter().all(|(what, _)| *what == "deregister"),
        "{asked:?}"
    );
    assert_eq!(given_back(&asked), [-3002, -3001]);
}

/// Host environment that never answers a registration, and records those that are taken back.
#[derive(Default)]
struct Silent(Mutex<Vec<Vec<Status>>>);

impl HostEnvironment for Silent {
    fn register_events(&self, _codes: Vec<Status>) -> UpcallFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn deregister_events(&self, codes: Vec<Status>) {
        self.0.lock().unwrap().push(codes);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn host_that_never_answers_delays_a_registration_so_long() {
    let host = Arc::new(Silent::default());
    let settings = ServerSettings {
        host_environment_timeout: Duration::from_millis(50),
        ..ServerSettings::default()
    };
    let node = Node::under(host.clone(), settings, &InProcessNetwork::new(), "job", 2).await;
    let client = node.client(0).await;
    let other = node.client(1).await;
    let (handler, mut heard) = listener();
    client.register(&[NEWS], &[], handler).await.unwrap();
    let late = client
        .register(
            &[NEWS],
            &ClassFilter::Environment.directives(),
            listener().0,
        )
        .await
        .unwrap_err();
    assert!(
        matches!(
            late,
            ClientError::Refused {
                status: code::PMIX_ERR_TIMEOUT,
                ..
            }
        ),
        "{late:?}"
    );
    assert_eq!(
        *host.0.lock().unwrap(),
        [[NEWS]],
        "the host need not register any more"
    );
    other
        .notify(NEWS, Range::Namespace, Vec::new())
        .await
        .unwrap();
    assert_eq!(
        next(&mut heard).await.code,
        NEWS,
        "the other registration stands"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn protocol_violation_is_reported_to_registered_host() {
    let host = Arc::new(Environment::default());
    let node = Node::under(
        host.clone(),
        ServerSettings::default(),
        &InProcessNetwork::new(),
        "job",
        2,
    )
    .await;
    let garbled = async |rank, expected: &[Status]| {
        let mut peer = Peer::connect(&node, rank).await;
        // The command is unknown.
        peer.say(200, vec![2, 250]).await;
        soon("it is answered", peer.next()).await.unwrap();
        // The peer's answer and the host environment's notification leave the server independently.
        soon("the host environment is notified", async {
            while host.told.lock().unwrap().len() < expected.len() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(*host.told.lock().unwrap(), expected);
    };
    garbled(0, &[]).await;
    node.server.handle().register_events(Vec::new());
    garbled(1, &[code::PMIX_ERR_NOT_SUPPORTED]).await;
}

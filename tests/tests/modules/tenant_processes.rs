//! Modules in the process of their user, which is a thread here: results as in the server's process, the
//! end of the process in the middle of a call, and its start again.
use peal_model::{ChainResult, Event, Info, Key, Range, Status, Value, code};
use peal_needs::needs;
use peal_sandbox::{
    Engine, EngineSettings, EventCall, FailureKind, FuelCount, Grants, HandlerResult, Module,
    ModuleLimits, Services, TenantLimits, inspect,
};
use peal_tenant::{
    ChainOrder, HandlerOrder, HandlerReply, LoadedModule, ModuleOrder, OfferedServices,
    RuntimeSettings, StartedRuntime, TenantModule, TenantRuntimes, serve_tenant,
};
use peal_tests::guest;
use std::{
    fs,
    net::Shutdown,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

const UID: u32 = 4321;

/// Processes of users, each a thread of the test.
struct Processes {
    runtimes: TenantRuntimes,
    /// Server's ends of the first connections, by which a test ends processes.
    connections: Arc<Mutex<Vec<UnixStream>>>,
    _code: tempfile::TempDir,
}

impl Processes {
    fn new() -> Processes {
        let code = tempfile::tempdir().unwrap();
        let own = code.path().join(UID.to_string());
        fs::create_dir(&own).unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o750)).unwrap();
        let connections: Arc<Mutex<Vec<UnixStream>>> = Arc::default();
        let started = connections.clone();
        let start = move |uid| {
            assert_eq!(uid, UID);
            let (ours, theirs) = UnixStream::pair()?;
            started.lock().unwrap().push(ours.try_clone()?);
            // Its error is what the server sees, too: the end of the connections.
            thread::spawn(move || serve_tenant(theirs));
            Ok(StartedRuntime {
                connection: ours,
                pid: std::process::id(),
            })
        };
        let settings = RuntimeSettings {
            code_dir: code.path().to_owned(),
            code_owner: rustix::process::geteuid().as_raw(),
            fuel: FuelCount::Always,
            max_instances: 16,
            threads: 2,
            owner_limits: TenantLimits::default(),
        };
        Processes {
            runtimes: TenantRuntimes::new(Arc::new(start), settings),
            connections,
            _code: code,
        }
    }

    fn load(&self, name: &str, limits: ModuleLimits) -> Arc<TenantModule> {
        let component = fs::read(guest(name)).unwrap();
        let inspection = inspect(&component).unwrap();
        let order = ModuleOrder {
            name: name.to_owned(),
            owner: format!("user {UID}"),
            component: component.into(),
            grants: Grants::tenant(),
            limits,
            settings: Vec::new(),
            services: OfferedServices::default(),
        };
        let loaded = self
            .runtimes
            .load(UID, order, inspection, Services::default());
        loaded.unwrap().0
    }

    fn starts(&self) -> usize {
        self.connections.lock().unwrap().len()
    }

    /// Ends the last process.
    fn end(&self) {
        let connections = self.connections.lock().unwrap();
        connections
            .last()
            .unwrap()
            .shutdown(Shutdown::Both)
            .unwrap();
    }
}

fn patient() -> ModuleLimits {
    ModuleLimits {
        call_time: Duration::from_secs(60),
        ..ModuleLimits::default()
    }
}

fn event() -> Arc<Event> {
    Arc::new(Event {
        code: Status(-77),
        source: None,
        range: Range::Session,
        infos: vec![Info::new(
            Key::new("test.words").unwrap(),
            Value::String(Some("some words".into())),
        )],
    })
}

async fn run(modules: &[Arc<TenantModule>]) -> Vec<HandlerReply> {
    let handlers = modules.iter().enumerate().map(|(at, module)| HandlerOrder {
        module: module.number(),
        registration: at as u64,
        tag: 0,
        name: module.name().into(),
        object: None,
    });
    let order = ChainOrder {
        event_number: 1,
        event: event(),
        identity: None,
        steps: Arc::default(),
        handlers: handlers.collect(),
        time: TenantModule::chain_time(modules.iter().map(|module| &**module)),
    };
    let replies = modules[0].runtime().run_chain(order).await;
    for (module, reply) in modules.iter().zip(&replies) {
        module.follow(reply);
    }
    replies
}

/// Runs the same chain in this process.
fn run_here(names: &[&str]) -> Vec<HandlerResult> {
    let engine = Engine::new(&EngineSettings {
        fuel: FuelCount::Always,
        max_instances: 16,
        ..EngineSettings::default()
    })
    .unwrap();
    let mut steps: Vec<ChainResult> = Vec::new();
    let mut results = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let module = Module::load(
            &engine,
            name,
            &fs::read(guest(name)).unwrap(),
            &Grants::tenant(),
            patient(),
            Services::default(),
        )
        .unwrap();
        let result = module.handle(EventCall {
            number: 1,
            registration: at as u64,
            tag: 0,
            event: event(),
            identity: None,
            steps: Arc::new(steps.clone()),
        });
        steps.push(ChainResult {
            name: (*name).into(),
            status: result.status,
            infos: result.infos.clone(),
        });
        let is_complete = result.status == code::PMIX_EVENT_ACTION_COMPLETE;
        results.push(result);
        if is_complete {
            break;
        }
    }
    results
}

#[needs(prepared)]
#[tokio::test]
async fn chain_in_another_process_has_the_results_of_one_here() {
    let processes = Processes::new();
    // A process ends with the last module of its user.
    let mut loaded = Vec::new();
    for names in [
        ["echo", "report", "echo"],
        ["echo", "complete", "report"],
        ["trap", "echo", "complete"],
    ] {
        let modules = names.map(|name| processes.load(name, patient()));
        let results: Vec<_> = run(&modules)
            .await
            .into_iter()
            .map(|reply| reply.result)
            .collect();
        let here = run_here(&names);
        assert_eq!(results, here, "{names:?}");
        assert!(
            modules
                .iter()
                .all(|module| LoadedModule::Tenant(module.clone()).memory() > 0
                    || module.name() == "trap")
        );
        loaded.extend(modules);
    }
    assert_eq!(
        processes.starts(),
        1,
        "one process for all modules of a user"
    );
}

#[needs(prepared)]
#[tokio::test]
async fn ended_process_fails_open_calls_and_next_has_the_modules() {
    let processes = Arc::new(Processes::new());
    let looping = processes.load("loop-forever", patient());
    let echo = processes.load("echo", patient());
    let chain = [looping, echo.clone()];
    let calling = tokio::spawn(async move { run(&chain).await });
    // The call is under way once the other thread of the process has run a chain behind it.
    let replies = run(std::slice::from_ref(&echo)).await;
    assert_eq!(replies[0].result.failure, None);
    processes.end();
    let replies = calling.await.unwrap();
    assert_eq!(replies.len(), 2, "a failure for each handler");
    for reply in &replies {
        let failure = reply.result.failure.as_ref().unwrap();
        assert_eq!(failure.kind, FailureKind::Unavailable);
        assert!(
            failure.reason.contains("the process has ended"),
            "{failure}"
        );
    }
    let replies = run(std::slice::from_ref(&echo)).await;
    assert_eq!(
        replies[0].result.failure, None,
        "another process has the module"
    );
    assert_eq!(processes.starts(), 2);
    // The memory of the module is new.
    let calls = replies[0]
        .result
        .infos
        .iter()
        .find(|info| info.key.as_str() == "echo.calls");
    assert_eq!(calls.unwrap().value, Value::Uint32(1));
    // A module that was removed is not loaded again.
    LoadedModule::Tenant(echo.clone()).stop();
    let replies = run(&[echo]).await;
    assert!(
        replies[0]
            .result
            .failure
            .as_ref()
            .unwrap()
            .reason
            .contains("not loaded")
    );
}

#[needs(prepared)]
#[tokio::test]
async fn process_that_ends_again_and_again_is_started_ever_later() {
    let processes = Processes::new();
    let echo = processes.load("echo", patient());
    let chain = [echo];
    assert_eq!(run(&chain).await[0].result.failure, None);
    // Ends it each time that it runs. Chains run beside the connection by which it ends, so that some may
    // succeed after the end. Its second end is not forgiven.
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        processes.end();
        let failure = run(&chain).await[0].result.failure.clone();
        let reason = failure.map(|failure| failure.reason).unwrap_or_default();
        if reason.contains("started again in") {
            break;
        }
        assert!(Instant::now() < patience, "{reason}");
    }
    assert_eq!(processes.starts(), 2);
}

#[needs(prepared)]
#[tokio::test]
async fn quarantine_is_known_here_and_outlives_the_process() {
    let processes = Processes::new();
    let limits = ModuleLimits {
        failures: 2,
        ..patient()
    };
    let trap = LoadedModule::Tenant(processes.load("trap", limits));
    let module = trap.tenant().unwrap().clone();
    for _ in 0..2 {
        let replies = run(std::slice::from_ref(&module)).await;
        assert_eq!(
            replies[0].result.failure.as_ref().unwrap().kind,
            FailureKind::Trapped
        );
    }
    assert!(trap.health().quarantined.is_some());
    processes.end();
    let mut replies = run(std::slice::from_ref(&module)).await;
    // The end of the process may be noticed by this call only.
    if replies[0].result.failure.as_ref().unwrap().kind == FailureKind::Unavailable {
        replies = run(std::slice::from_ref(&module)).await;
    }
    assert_eq!(
        replies[0].result.failure.as_ref().unwrap().kind,
        FailureKind::Quarantined
    );
    trap.reset();
    assert!(trap.health().quarantined.is_none());
    let replies = run(&[module]).await;
    assert_eq!(
        replies[0].result.failure.as_ref().unwrap().kind,
        FailureKind::Trapped
    );
}

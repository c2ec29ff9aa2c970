//! Calls of components in each language that were recorded under load have the same results when
//! they are replayed.
use peal_audit::{
    AuditSettings, AuditTrail, Destinations, ModuleFacts, ReplayResult, Replayer, Secrets,
    TrailRetention, TrailSigner, TrailSource, kind,
};
use peal_core::choice::RecordFailurePolicy;
use peal_model::{
    DataArray, Event, EventSubject, Info, Key, Nspace, PolicyRequest, PolicySubject, Proc, Range,
    Rank, Status, UserIdentity, Value, data_type,
};
use peal_needs::needs;
use peal_sandbox::{
    Digest, Engine, EngineSettings, EventCall, FuelCount, Grants, Isolation, Module, ModuleLimits,
    PolicyCall, Services, StateStore,
};
use peal_store::{DatabaseDurability, Filter};
use peal_tests::{guest, languages::ECHOES, memory_state::MemoryState};
use std::{
    num::NonZeroU32,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

/// Total number of calls.
const CALLS: u64 = 10_000;
const THREADS: u64 = 4;

fn settings(dir: &Path) -> AuditSettings {
    AuditSettings {
        path: dir.join("audit.db"),
        signer: TrailSigner::here(dir.join("audit.key")),
        max_bytes: 1 << 30,
        durability: DatabaseDurability::Process,
        on_failure: RecordFailurePolicy::Deny,
        retention: TrailRetention::default(),
        // The queue is large enough that no entry is left out; another test is about gaps.
        queue: 100_000,
        refusal_interval: Duration::from_secs(1),
        secrets: Secrets::default(),
        handlers: NonZeroU32::MIN,
        checkpoint_records: 1000,
        checkpoint_time: Duration::from_secs(10),
        checkpoints: Destinations::default(),
        server: "test".to_owned(),
    }
}

fn engine() -> Engine {
    let cache_dir = Some(peal_tests::root().join("target/test-cache/compiled"));
    let settings = EngineSettings {
        cache_dir,
        fuel: FuelCount::Always,
        ..EngineSettings::default()
    };
    Engine::new(&settings).unwrap()
}

fn load(engine: &Engine, audit: &AuditTrail, name: &str, bytes: Vec<u8>) -> Module {
    let limits = ModuleLimits {
        call_time: Duration::from_secs(60),
        isolation: Isolation::Namespace,
        calls_per_instance: 700,
        ..ModuleLimits::default()
    };
    let facts = ModuleFacts {
        name: name.to_owned(),
        owner: "site".to_owned(),
        mode: "active".to_owned(),
        digest: Digest::of(&bytes),
        grants: Grants::all(),
        limits,
        sinks: Vec::new(),
        directories: Vec::new(),
    };
    let recorder = Some(audit.recorder(&facts, bytes.as_slice().into()).unwrap());
    let state: Option<Arc<dyn StateStore>> = Some(Arc::new(MemoryState::default()));
    let services = Services {
        recorder,
        state,
        ..Services::default()
    };
    let module = Module::load(engine, name, &bytes, &Grants::all(), limits, services).unwrap();
    let config = match name {
        "escalate" => vec![
            info("codes", Value::string("-3101")),
            info("into", Value::Int64(-3100)),
            info("count", Value::Int64(3)),
            info("range", Value::string("global")),
        ],
        "quota" => vec![info("per_minute", Value::Int64(400))],
        _ => Vec::new(),
    };
    module.init(&config).unwrap();
    module
}

fn info(key: &str, value: Value) -> Info {
    Info::new(Key::new(key).unwrap(), value)
}

/// Returns infos whose values are hard to serialize, and differ for each number.
fn infos(number: u64) -> Vec<Info> {
    let inner = DataArray::new(
        data_type::PMIX_DOUBLE,
        vec![Value::Double(f64::NAN), Value::Double(number as f64 / 3.0)],
    );
    vec![
        info("test.number", Value::Uint64(number)),
        info("test.large", Value::Uint64((1 << 53) + number)),
        info(
            "test.text",
            Value::string(&"x".repeat(usize::try_from(number % 50).unwrap())),
        ),
        info("test.array", Value::DataArray(inner.unwrap())),
        info(
            "test.bytes",
            Value::ByteObject(vec![0xff; usize::try_from(number % 30).unwrap()].into()),
        ),
    ]
}

fn proc(number: u64) -> Proc {
    let rank = Rank(u32::try_from(number % 7).unwrap());
    Proc::new(Nspace::new(&format!("job-{}", number % 3)).unwrap(), rank)
}

fn call(module: &Module, number: u64) {
    let source = Some(proc(number));
    let identity = Some(UserIdentity {
        uid: 1000,
        gid: 100,
    });
    let event = Event {
        code: Status(-3101),
        source,
        range: Range::Session,
        infos: infos(number),
    };
    module.handle(EventCall {
        number,
        registration: 1,
        tag: 0,
        event: Arc::new(event),
        identity,
        steps: Arc::default(),
    });
}

fn ask(module: &Module, number: u64) {
    let requester = Some(proc(number));
    let identity = Some(UserIdentity {
        uid: 1000,
        gid: 100,
    });
    let subject = PolicySubject::Event(EventSubject {
        code: Status(-3101),
        range: Range::Session,
        infos: infos(number),
    });
    let request = PolicyRequest {
        subject,
        requester,
        identity,
        groups: Arc::default(),
        server: UserIdentity { uid: 0, gid: 0 },
        targets: Vec::new(),
    };
    module.decide(PolicyCall {
        number,
        request: Arc::new(request),
        steps: Arc::default(),
    });
}

/// Opens the trail once it has ended. Modules learn on another thread that they are no longer
/// needed.
fn ended(dir: &Path) -> TrailSource {
    let patience = Instant::now() + Duration::from_secs(120);
    while Instant::now() < patience {
        let source = TrailSource::open(&dir.join("audit.db")).unwrap();
        if source
            .last(&Filter::default(), 1)
            .unwrap()
            .iter()
            .any(|row| row.kind == kind::ENDED)
        {
            return source;
        }
        std::thread::yield_now();
    }
    panic!("the trail does not end");
}

#[needs(prepared, languages)]
#[test]
fn ten_thousand_calls_in_all_languages_replay_equally() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine();
    let audit = AuditTrail::open(settings(dir.path())).unwrap();
    let read = |path: &Path| std::fs::read(path).unwrap();
    let names = ["echo", "escalate", "report", "reregister"];
    let mut handlers: Vec<Module> = names
        .iter()
        .map(|name| load(&engine, &audit, name, read(&guest(name))))
        .collect();
    // The first one is in Rust.
    for (_, name) in &ECHOES[1..] {
        handlers.push(load(&engine, &audit, name, read(&guest(name))));
    }
    let policies =
        ["same-user", "quota"].map(|name| load(&engine, &audit, name, read(&guest(name))));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let handlers = &handlers;
            let policies = &policies;
            scope.spawn(move || {
                for number in (thread..CALLS).step_by(THREADS as usize) {
                    match usize::try_from(number).unwrap() % 5 {
                        0 => ask(&policies[usize::try_from(number / 5 % 2).unwrap()], number),
                        _ => call(
                            &handlers[usize::try_from(number).unwrap() % handlers.len()],
                            number,
                        ),
                    }
                }
            });
        }
    });
    assert_eq!(audit.health().lost, 0);
    drop((handlers, policies, audit));
    let source = ended(dir.path());
    let mut same = 0;
    let mut others = Vec::new();
    let mut replayer = Replayer::new(&source, engine, None);
    replayer
        .replay(&Filter::default(), |replayed| match replayed.outcome {
            ReplayResult::Same => same += 1,
            _ => others.push(replayed),
        })
        .unwrap();
    assert!(
        others.is_empty(),
        "{} differ, such as {:?}",
        others.len(),
        &others[..others.len().min(3)]
    );
    assert!(same >= CALLS, "{same}");
    println!("{same} calls replayed, all the same");
}

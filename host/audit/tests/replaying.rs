//! Replayed calls of guests give the recorded results.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
mod support;
use peal_audit::{ReplayDifference, ReplayResult, Replayed, Replayer, TrailSource};
use peal_model::{Info, Key, Status, Value};
use peal_sandbox::{Module, ModuleLimits, PolicyCall, Services, StateStore};
use peal_store::Filter;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use support::{Place, component, edited, engine, event, job_control, limits, recorded};

#[derive(Default)]
struct Drawer(Mutex<BTreeMap<String, Vec<u8>>>);

impl StateStore for Drawer {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Status> {
        Ok(self.0.lock().unwrap().get(key).cloned())
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<(), Status> {
        self.0
            .lock()
            .unwrap()
            .insert(key.to_owned(), value.to_vec());
        Ok(())
    }

    fn delete(&self, key: &str) -> Result<(), Status> {
        self.0.lock().unwrap().remove(key);
        Ok(())
    }

    fn keys(&self, prefix: &str) -> Result<Vec<String>, Status> {
        Ok(self
            .0
            .lock()
            .unwrap()
            .keys()
            .filter(|key| key.starts_with(prefix))
            .cloned()
            .collect())
    }
}

fn info(key: &str, value: Value) -> Info {
    Info::new(Key::new(key).unwrap(), value)
}

fn replayed(place: &Place, filter: &Filter, with: Option<Vec<u8>>) -> Vec<Replayed> {
    let source = TrailSource::open(&place.path("audit.db")).unwrap();
    let mut all = Vec::new();
    Replayer::new(&source, engine().clone(), with)
        .replay(filter, |replayed| all.push(replayed))
        .unwrap();
    all
}

/// Returns the calls with results other than `Same`, so also those that were not replayed.
fn different(all: &[Replayed]) -> Vec<&Replayed> {
    all.iter()
        .filter(|replayed| replayed.outcome != ReplayResult::Same)
        .collect()
}

fn handle(module: &Module, codes: impl IntoIterator<Item = i32>, infos: &[Info]) {
    for code in codes {
        module.handle(event(code, infos.to_vec()));
    }
}

#[test]
fn replayed_modules_repeat_recorded_outcomes() {
    let place = Place::new();
    let audit = place.audit();
    let load = |name: &str, limits: ModuleLimits, services| {
        recorded(&audit, name, &component(name), limits, services)
    };
    let infos = [
        info("test.key", Value::string("k")),
        info("test.value", Value::ByteObject(b"v".as_slice().into())),
        info(
            "test.nan",
            Value::Double(f64::from_bits(0x7ff8_0000_0000_1234)),
        ),
        info("test.single", Value::Float(f32::NAN)),
        info("test.none", Value::String(None)),
    ];
    handle(
        &load("echo", limits(), Services::default()),
        [-1, -1, -2],
        &infos,
    );
    handle(&load("clock", limits(), Services::default()), [-1, -1], &[]);
    handle(
        &load("worldly", limits(), Services::default()),
        [-1, 0, -2, 0],
        &[],
    );
    handle(
        &load("notify", limits(), Services::default()),
        [-2, -1, -2],
        &infos,
    );
    let state: Arc<dyn StateStore> = Arc::new(Drawer::default());
    let services = || Services {
        state: Some(state.clone()),
        ..Services::default()
    };
    let one = load("keeper", limits(), services());
    let other = load("keeper", limits(), services());
    handle(&one, [-1, -2, -1, -4], &infos);
    handle(&other, [-1, -3, -1], &infos);
    handle(&one, [-1, -5, -1], &infos);
    // Each way to fail: a trap, memory, output, host calls, recursion, more at once than may be.
    let tight = ModuleLimits {
        output_bytes: 20_000,
        host_calls: 500,
        ..limits()
    };
    handle(
        &load("moody", tight, Services::default()),
        [0, -1, 0, 0, -3, 0, -4, -5, 0, -7, -8, 0],
        &[],
    );
    // Memory that is refused because of what others use, which the guest survives.
    let scarce = ModuleLimits {
        total_memory_bytes: 1 << 18,
        ..limits()
    };
    handle(
        &load("moody", scarce, Services::default()),
        [-6, 0, -6, 0],
        &[],
    );
    // What a clock ends, fuel ends.
    let hasty = ModuleLimits {
        call_time: Duration::from_millis(20),
        ..limits()
    };
    handle(&load("moody", hasty, Services::default()), [0, -2, 0], &[]);
    handle(&load("hoarder", hasty, Services::default()), [-1], &infos);
    let judge = load("judge", limits(), Services::default());
    for ask in [0, 1, 2, 4, 7, 8, 9, 10, 11, 13, 14, 15] {
        let asked = info("test.ask", Value::Uint64(ask));
        let call = PolicyCall {
            number: 1,
            request: job_control(vec![asked]),
            steps: Arc::default(),
        };
        judge.decide(call);
    }
    drop((one, other, judge, audit));
    let all = replayed(&place, &Filter::default(), None);
    assert!(all.len() > 60, "{}", all.len());
    assert_eq!(different(&all), Vec::<&Replayed>::new());
}

#[test]
fn another_version_is_caught_where_it_does_something_else() {
    let place = Place::new();
    let audit = place.audit();
    let module = recorded(
        &audit,
        "moody",
        &component("moody"),
        limits(),
        Services::default(),
    );
    handle(&module, [0, 0, -1, 0, 0, 0], &[]);
    drop((module, audit));
    // The same but for one constant: its third call traps no more.
    let trap = "(i32.const -1)) (then (call $stumble))";
    let text = |text: String| text.replace(trap, &trap.replace("-1", "-99"));
    let other = support::edited("moody", text);
    let all = replayed(&place, &Filter::default(), Some(other));
    let differ = different(&all);
    // The record of the trap; those behind it were of another instance, which did not trap.
    assert_eq!(differ.len(), 1, "{differ:?}");
    assert!(differ[0].was.starts_with("failed"), "{differ:?}");
    let ReplayResult::Differs(differences) = &differ[0].outcome else {
        panic!("{differ:?}")
    };
    assert!(
        matches!(&differences[0], ReplayDifference::End { is, .. } if is.starts_with("status")),
        "{differences:?}"
    );
    let echo = replayed(&place, &Filter::default(), Some(component("echo")));
    assert!(different(&echo).len() > 3, "another component altogether");
}

#[test]
fn call_or_range_is_replayed_from_first_call_of_its_instance() {
    let place = Place::new();
    let audit = place.audit();
    let module = recorded(
        &audit,
        "moody",
        &component("moody"),
        limits(),
        Services::default(),
    );
    handle(&module, [0; 20], &[]);
    drop((module, audit));
    let one = |from, to| {
        replayed(
            &place,
            &Filter {
                from: Some(from),
                to: Some(to),
                ..Filter::default()
            },
            None,
        )
    };
    assert_eq!(one(12, 12).len(), 1);
    assert_eq!(
        one(12, 15)
            .iter()
            .map(|replayed| replayed.seq)
            .collect::<Vec<_>>(),
        [12, 13, 14, 15]
    );
    assert_eq!(different(&one(12, 15)), Vec::<&Replayed>::new());
    // It counts its calls: without those before it would say something else.
    let connection = rusqlite::Connection::open(place.path("audit.db")).unwrap();
    connection
        .execute("delete from record where seq < 5", [])
        .unwrap();
    let cut = one(12, 12);
    assert_eq!(
        cut[0].outcome,
        ReplayResult::Not("the first call of its instance is not kept any more")
    );
    connection
        .execute("delete from blob where length(bytes) > 1000", [])
        .unwrap();
    assert!(matches!(one(12, 12)[0].outcome, ReplayResult::Not(_)));
}

#[test]
fn growths_above_declared_maximum_replay_alike() {
    let place = Place::new();
    let audit = place.audit();
    let bounded = edited("moody", |text| {
        let memory = "(memory (export \"memory\") 1)";
        let function = "(func $grow";
        assert!(text.contains(memory) && text.contains(function));
        text.replace(memory, "(memory (export \"memory\") 1 20)")
            .replace(
                function,
                "(table $few 1 2 funcref) (func $grow (drop (table.grow $few (ref.null func) (i32.const 9)))",
            )
    });
    let module = recorded(&audit, "moody", &bounded, limits(), Services::default());
    handle(&module, [-6, 0, -3, -6, 0], &[]);
    drop((module, audit));
    let all = replayed(&place, &Filter::default(), None);
    assert!(all.len() > 5, "{}", all.len());
    assert_eq!(different(&all), Vec::<&Replayed>::new());
}

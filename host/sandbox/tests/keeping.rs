//! State of a module: operations, and refusals.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
mod support;
use peal_model::{Bytes, Status, Value, code};
use peal_sandbox::{
    FailureKind, Grants, HandlerResult, LimitKind, MAX_STATE_KEY, MAX_STATE_VALUE, Module,
    ModuleLimits, Services, StateStore,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::{call, component, engine, event, info, load, patient};

/// Room for three keys.
#[derive(Default)]
struct Drawer(Mutex<BTreeMap<String, Vec<u8>>>);

/// Takes its time.
struct Slow(Duration);

impl StateStore for Slow {
    fn get(&self, _: &str) -> Result<Option<Vec<u8>>, Status> {
        let start = Instant::now();
        while start.elapsed() < self.0 {
            std::hint::spin_loop();
        }
        Ok(Some(b"late".to_vec()))
    }

    fn set(&self, _: &str, _: &[u8]) -> Result<(), Status> {
        Ok(())
    }

    fn delete(&self, _: &str) -> Result<(), Status> {
        Ok(())
    }

    fn keys(&self, _: &str) -> Result<Vec<String>, Status> {
        Ok(Vec::new())
    }
}

impl StateStore for Drawer {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Status> {
        Ok(self.0.lock().unwrap().get(key).cloned())
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<(), Status> {
        let mut kept = self.0.lock().unwrap();
        if kept.len() >= 3 && !kept.contains_key(key) {
            return Err(code::PMIX_ERR_OUT_OF_RESOURCE);
        }
        kept.insert(key.to_owned(), value.to_vec());
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

const GET: i32 = -1;
const SET: i32 = -2;
const DELETE: i32 = -3;
const KEYS: i32 = -4;
const SET_AND_TRAP: i32 = -5;

fn keeper(state: Arc<dyn StateStore>, limits: ModuleLimits) -> Module {
    let services = Services {
        state: Some(state),
        ..Services::default()
    };
    Module::load(
        engine(),
        "keeper",
        &component("keeper"),
        &Grants::all(),
        limits,
        services,
    )
    .unwrap()
}

fn ask(module: &Module, what: i32, key: &str, value: &[u8]) -> HandlerResult {
    let infos = vec![
        info("test.key", Value::string(key)),
        info("test.value", Value::ByteObject(Bytes::from(value))),
    ];
    module.handle(call(event(what, infos)))
}

/// The status that it answered, and what it pushed.
fn answer(module: &Module, what: i32, key: &str, value: &[u8]) -> (Status, Vec<Value>) {
    let result = ask(module, what, key, value);
    assert_eq!(result.failure, None);
    (
        result.status,
        result.infos.into_iter().map(|info| info.value).collect(),
    )
}

#[test]
fn time_in_host_calls_is_limited_by_itself() {
    let limits = ModuleLimits {
        host_call_time: Duration::from_millis(200),
        ..patient()
    };
    let quick = keeper(Arc::new(Slow(Duration::ZERO)), limits);
    assert_eq!(answer(&quick, GET, "a", b"").0, Status(1));
    let slow = keeper(Arc::new(Slow(Duration::from_millis(250))), limits);
    let failure = ask(&slow, GET, "a", b"").failure.unwrap();
    assert_eq!(
        (failure.kind, failure.limit),
        (FailureKind::Timeout, Some(LimitKind::HostCallTime))
    );
    assert!(
        failure.to_string().contains("200ms in host calls"),
        "{failure}"
    );
}

#[test]
fn set_state_stays_until_deleted() {
    let state = Arc::new(Drawer::default());
    let module = keeper(Arc::<Drawer>::clone(&state), patient());
    assert_eq!(answer(&module, GET, "b", b""), (Status(0), Vec::new()));
    assert_eq!(
        answer(&module, SET, "b", b"\0value"),
        (Status(0), Vec::new())
    );
    assert_eq!(answer(&module, SET, "a", b""), (Status(0), Vec::new()));
    assert_eq!(
        answer(&module, GET, "b", b""),
        (
            Status(1),
            vec![Value::ByteObject(Bytes::from(&b"\0value"[..]))]
        )
    );
    assert_eq!(
        answer(&module, GET, "a", b""),
        (Status(1), vec![Value::ByteObject(Bytes::from(&b""[..]))])
    );
    assert_eq!(
        answer(&module, KEYS, "", b""),
        (Status(2), vec![Value::string("a"), Value::string("b")])
    );
    assert_eq!(
        answer(&module, KEYS, "b", b""),
        (Status(1), vec![Value::string("b")])
    );
    assert_eq!(answer(&module, DELETE, "b", b""), (Status(0), Vec::new()));
    assert_eq!(answer(&module, DELETE, "b", b""), (Status(0), Vec::new()));
    assert_eq!(answer(&module, GET, "b", b""), (Status(0), Vec::new()));
    drop(module);
    assert_eq!(
        answer(&keeper(state, patient()), KEYS, "", b"").1,
        [Value::string("a")],
        "it outlives the module"
    );
}

#[test]
fn store_refusal_is_returned_to_module() {
    let module = keeper(Arc::<Drawer>::default(), patient());
    for key in ["1", "2", "3"] {
        assert_eq!(answer(&module, SET, key, b"x").0, Status(0));
    }
    assert_eq!(
        answer(&module, SET, "4", b"x").0,
        code::PMIX_ERR_OUT_OF_RESOURCE
    );
    assert_eq!(answer(&module, SET, "3", b"y").0, Status(0));
}

#[test]
fn keys_and_values_are_no_longer_than_they_may_be() {
    let state = Arc::new(Drawer::default());
    let module = keeper(Arc::<Drawer>::clone(&state), patient());
    let longest = "k".repeat(MAX_STATE_KEY);
    let longer = "k".repeat(MAX_STATE_KEY + 1);
    let largest = vec![7; MAX_STATE_VALUE];
    let larger = vec![7; MAX_STATE_VALUE + 1];
    assert_eq!(answer(&module, SET, &longest, &largest).0, Status(0));
    assert_eq!(
        answer(&module, SET, &longest, &larger).0,
        code::PMIX_ERR_BAD_PARAM
    );
    assert_eq!(
        state.0.lock().unwrap().get(&longest),
        Some(&largest),
        "what was there stays"
    );
    for what in [GET, SET, DELETE] {
        assert_eq!(
            answer(&module, what, &longer, b"x").0,
            code::PMIX_ERR_BAD_PARAM
        );
        assert_eq!(answer(&module, what, "", b"x").0, code::PMIX_ERR_BAD_PARAM);
    }
    assert_eq!(
        answer(&module, KEYS, &longer, b"").0,
        code::PMIX_ERR_BAD_PARAM
    );
    assert_eq!(answer(&module, KEYS, &longest, b"").0, Status(1));
}

#[test]
fn set_state_counts_as_output_and_takes_effect_at_once() {
    let state = Arc::new(Drawer::default());
    let module = keeper(
        Arc::<Drawer>::clone(&state),
        ModuleLimits {
            output_bytes: 1000,
            ..patient()
        },
    );
    assert_eq!(
        ask(&module, SET, "k", &[1; 1001]).failure.unwrap().kind,
        FailureKind::Output
    );
    assert!(state.0.lock().unwrap().is_empty());
    assert_eq!(
        ask(&module, SET_AND_TRAP, "k", &[1; 1000])
            .failure
            .unwrap()
            .kind,
        FailureKind::Trapped
    );
    assert_eq!(state.0.lock().unwrap()["k"].len(), 1000);
}

#[test]
fn without_a_store_everything_is_refused() {
    let module = load("keeper", patient());
    for what in [GET, SET, DELETE, KEYS] {
        assert_eq!(
            answer(&module, what, "k", b"x").0,
            code::PMIX_ERR_NOT_AVAILABLE
        );
    }
}

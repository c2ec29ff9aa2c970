//! A state that an earlier release has written is read and continued, and one of a later release that has further
//! fields. A field that is added later needs `#[serde(default)]`, or a new form (`FORM` in `host/server/src/handover`) with a file of its own here.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
#[path = "../../core/tests/support/mod.rs"]
mod support;

use peal_core::server::{Action, PeerId, StateSettings};
use peal_handover::{decode_state, encode_state};
use peal_model::{
    Commit, Info, KeyName, Kval, Nspace, Proc, Range, Rank, Request, Scope, Status, UserIdentity,
    Value, code, key,
};
use std::{env, fs};
use support::stage::Stage;

const USER: UserIdentity = UserIdentity {
    uid: 1000,
    gid: 100,
};
const NEWS: Status = Status(-3001);
const VALUE: KeyName = KeyName("test.value");

/// File of the state of [`busy`], as form 1 has it.
const FORM_1: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/form-1.state");

/// Returns a state in which much has begun: of three procs one waits in a fence and one for a value, a heartbeat is
/// monitored, and an event is retained.
fn busy() -> Stage {
    let mut stage = Stage::with_jobs(StateSettings::default(), &[("job", 3, USER)]);
    let [first, second, third] = stage.peers[..] else {
        panic!("three procs are connected")
    };
    let register = Request::RegisterEvents {
        codes: vec![NEWS],
        infos: Vec::new(),
    };
    let (_, actions) = stage.request(second, register);
    stage.accept_registrations(actions);
    let notify = Request::Notify {
        code: NEWS,
        range: Range::Namespace,
        infos: Vec::new(),
    };
    stage.request(first, notify);
    let monitor = Request::Monitor {
        monitor: Info::new(key::PMIX_MONITOR_HEARTBEAT, Value::Bool(true)),
        error: code::PMIX_MONITOR_HEARTBEAT_ALERT,
        directives: vec![Info::new(
            key::PMIX_MONITOR_HEARTBEAT_TIME,
            Value::Uint32(5),
        )],
    };
    stage.request(third, monitor);
    let get = Request::Get {
        proc: Proc::new(Nspace::new("job").unwrap(), Rank(0)),
        infos: Vec::new(),
        key: Some(VALUE.0.into()),
    };
    stage.request(third, get);
    let fence = Request::Fence {
        procs: Vec::new(),
        infos: Vec::new(),
    };
    stage.request(second, fence);
    stage
}

/// Returns true if an action is the reply to this peer.
fn answers(actions: &[Action], peer: PeerId) -> bool {
    actions
        .iter()
        .any(|action| matches!(action, Action::Reply { to, .. } if to.peer == peer))
}

/// Returns a state with a further field in each structure, as a later release may write it.
fn with_further_fields(state: rmpv::Value) -> rmpv::Value {
    let is_field = |key: &rmpv::Value| {
        // Names of jobs are keys, too, and not those of fields. A duration never has others.
        key.as_str().is_some_and(|key| {
            !["job", "secs"].contains(&key)
                && key
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        })
    };
    match state {
        rmpv::Value::Map(entries) => {
            // An empty map may be one of names.
            let is_structure = !entries.is_empty() && entries.iter().all(|(key, _)| is_field(key));
            let further = is_structure.then(|| ("later_field".into(), "later".into()));
            let entries = entries
                .into_iter()
                .map(|(key, value)| (key, with_further_fields(value)));
            rmpv::Value::Map(entries.chain(further).collect())
        }
        rmpv::Value::Array(values) => {
            rmpv::Value::Array(values.into_iter().map(with_further_fields).collect())
        }
        value => value,
    }
}

#[test]
fn further_fields_of_a_later_release_are_ignored() {
    let state = encode_state(&busy().server).unwrap();
    let read = rmpv::decode::read_value(&mut &state[..]).unwrap();
    let mut later = Vec::new();
    rmpv::encode::write_value(&mut later, &with_further_fields(read)).unwrap();
    assert!(later.len() > state.len() + 100, "{}", later.len());
    let continued = decode_state(&later).unwrap();
    assert_eq!(encode_state(&continued).unwrap(), state);
}

#[test]
fn state_of_form_one_is_continued() {
    let mut stage = busy();
    let counts = stage.server.counts();
    if env::var_os("PEAL_WRITE_STATE").is_some() {
        fs::write(FORM_1, encode_state(&stage.server).unwrap()).unwrap();
    }
    let read = decode_state(&fs::read(FORM_1).unwrap()).unwrap();
    stage.server = read.continued(StateSettings::default());
    assert_eq!(stage.server.counts(), counts);
    assert_eq!((counts.jobs, counts.peers, counts.monitors), (1, 3, 1));
    // The value that the third one waits for comes, and the others join the fence of the second one.
    let [first, second, third] = stage.peers[..] else {
        panic!("three procs are connected")
    };
    let commit = Commit {
        scope: Scope::Local,
        kvals: vec![Kval::new(VALUE, Value::Uint32(7))],
    };
    let (_, actions) = stage.request(first, Request::Commit(vec![commit]));
    assert!(answers(&actions, third), "{actions:?}");
    let fence = || Request::Fence {
        procs: Vec::new(),
        infos: Vec::new(),
    };
    stage.request(first, fence());
    let (_, actions) = stage.request(third, fence());
    let is_gathered = actions
        .iter()
        .any(|action| matches!(action, Action::Upcall(_)));
    assert!(is_gathered || answers(&actions, second), "{actions:?}");
}

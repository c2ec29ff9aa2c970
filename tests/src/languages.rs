//! Components in several languages: which there are, and what it takes to call one in this process.
use crate::guest;
use peal_model::{
    ChainResult, Event, Info, Key, Nspace, Proc, Range, Rank, Status, UserIdentity, Value,
};
use peal_sandbox::{
    Engine, EngineSettings, EventCall, Grants, HandlerResult, Module, ModuleLimits, Services,
};
use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

/// The handlers that return what they are handed, by their language.
pub const ECHOES: [(&str, &str); 4] = [
    ("rust", "echo"),
    ("c", "echo-c"),
    ("python", "echo-python"),
    ("js", "echo-js"),
];

/// The component of each, for tests that say `#[needs(c_tools, python_tools, js_tools)]`.
#[track_caller]
pub fn echoes() -> [(&'static str, PathBuf); 4] {
    ECHOES.map(|(language, name)| (language, guest(name)))
}

/// One engine for all tests of a file, whose compiled code is kept: that of Python takes ten seconds.
pub fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(&settings()).unwrap())
}

/// The settings of that engine.
pub fn settings() -> EngineSettings {
    EngineSettings {
        cache_dir: Some(cache_dir()),
        ..EngineSettings::default()
    }
}

/// Where compiled code of tests goes.
pub fn cache_dir() -> PathBuf {
    crate::root().join("target/test-cache/peal/compiled")
}

/// A component with everything granted, of which the test does not wish to know how fast it is.
pub fn load(name: &str, bytes: &[u8]) -> Module {
    let limits = ModuleLimits {
        call_time: Duration::from_secs(60),
        ..ModuleLimits::default()
    };
    Module::load(
        engine(),
        name,
        bytes,
        &Grants::all(),
        limits,
        Services::default(),
    )
    .unwrap_or_else(|error| panic!("{error}"))
}

/// Hands a module an event of a proc, with these infos and what others said before.
pub fn handle(module: &Module, infos: Vec<Info>, steps: Vec<ChainResult>) -> HandlerResult {
    let source = Some(Proc::new(Nspace::new("job").unwrap(), Rank(3)));
    let event = Arc::new(Event {
        code: Status(-3001),
        source,
        range: Range::Namespace,
        infos,
    });
    let identity = Some(UserIdentity {
        uid: 1000,
        gid: 100,
    });
    module.handle(&EventCall {
        number: 0,
        registration: 1,
        tag: 0,
        event,
        identity,
        steps: Arc::new(steps),
    })
}

/// An info of any key.
pub fn info(key: &str, value: Value) -> Info {
    Info::new(Key::new(key).unwrap(), value)
}

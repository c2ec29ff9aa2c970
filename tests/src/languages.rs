//! Components in several languages: the list of them, and the means to call one in this process.
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

/// Handlers that return their input, by language.
pub const ECHOES: [(&str, &str); 7] = [
    ("rust", "echo"),
    ("c", "echo-c"),
    ("cpp", "echo-cpp"),
    ("go", "echo-go"),
    ("python", "echo-python"),
    ("js", "echo-js"),
    ("ts", "echo-ts"),
];

/// Returns the component of each, for tests with `#[needs(languages)]`.
#[track_caller]
pub fn echoes() -> [(&'static str, PathBuf); 7] {
    ECHOES.map(|(language, name)| (language, guest(name)))
}

/// Returns one engine for all tests of a file. It keeps compiled code, since compiling Python takes
/// ten seconds.
pub fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(&settings()).unwrap())
}

/// Returns the settings of that engine.
pub fn settings() -> EngineSettings {
    EngineSettings {
        cache_dir: Some(cache_dir()),
        ..EngineSettings::default()
    }
}

/// Returns the directory of compiled code of tests.
pub fn cache_dir() -> PathBuf {
    crate::root().join("target/test-cache/peal/compiled")
}

/// Loads a component with all grants, and with limits that do not depend on the speed of the
/// machine.
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

/// Calls a module with an event of a proc, with these infos and these results of earlier handlers.
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
    module.handle(EventCall {
        number: 0,
        registration: 1,
        tag: 0,
        event,
        identity,
        steps: Arc::new(steps),
    })
}

/// Returns an info with any key.
pub fn info(key: &str, value: Value) -> Info {
    Info::new(Key::new(key).unwrap(), value)
}

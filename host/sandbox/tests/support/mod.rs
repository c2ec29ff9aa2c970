//! Shared parts of the sandbox's tests: an engine, the components of `wat/`, events, and a way to
//! read the trace.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
#![allow(dead_code, reason = "each test file uses its own part")]
use peal_model::{ChainResult, Event, Info, Proc, Range, Status};
use peal_sandbox::{
    Engine, EngineSettings, EventCall, Grants, HandlerResult, Module, ModuleLimits, Services,
};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, Once, OnceLock};
use std::time::Duration;

/// One engine for all tests of a file, with a short tick.
pub fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    let settings = || EngineSettings {
        tick: Duration::from_millis(1),
        ..EngineSettings::default()
    };
    ENGINE.get_or_init(|| Engine::new(&settings()).unwrap())
}

/// Sources that components include. `push.part` is for core modules.
const PARTS: [&str; 8] = [
    "handler.part",
    "policies.part",
    "channel.part",
    "lifecycle.part",
    "call.part",
    "amendment.part",
    "capabilities.part",
    "push.part",
];

/// The component of that name in `wat/`, in its binary form.
pub fn component(name: &str) -> Vec<u8> {
    edited(name, |text| text)
}

/// The same with its text changed.
pub fn edited(name: &str, edit: impl FnOnce(String) -> String) -> Vec<u8> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wat");
    let read = |file: &str| std::fs::read_to_string(dir.join(file)).unwrap();
    let text = PARTS
        .iter()
        .fold(read(&format!("{name}.wat")), |text, part| {
            text.replace(&format!("(;include {part};)"), &read(part))
        });
    wat::parse_str(edit(text)).unwrap_or_else(|error| panic!("{name}.wat: {error}"))
}

/// The module of that name, with everything granted.
pub fn load(name: &str, limits: ModuleLimits) -> Module {
    Module::load(
        engine(),
        name,
        &component(name),
        &Grants::all(),
        limits,
        Services::default(),
    )
    .unwrap_or_else(|error| panic!("{error}"))
}

/// Roomy enough that a busy machine does not matter, nor how often a module fails.
pub fn patient() -> ModuleLimits {
    ModuleLimits {
        call_time: Duration::from_secs(60),
        failures: 0,
        ..ModuleLimits::default()
    }
}

/// An event of the resource manager with this code.
pub fn event(code: i32, infos: Vec<Info>) -> Event {
    Event {
        code: Status(code),
        source: None,
        range: Range::Session,
        infos,
    }
}

/// A call about it, first in its chain.
pub fn call(event: Event) -> EventCall {
    EventCall {
        number: 0,
        registration: 1,
        tag: 1,
        event: Arc::new(event),
        identity: None,
        steps: Arc::new(Vec::new()),
    }
}

/// Hands a module an event without infos.
pub fn handle(module: &Module, code: i32) -> HandlerResult {
    module.handle(call(event(code, Vec::new())))
}

pub fn proc(nspace: &str, rank: u32) -> Proc {
    Proc::new(
        peal_model::Nspace::new(nspace).unwrap(),
        peal_model::Rank(rank),
    )
}

pub fn info(key: &str, value: peal_model::Value) -> Info {
    Info::new(peal_model::Key::new(key).unwrap(), value)
}

pub fn step(name: &str, status: i32, infos: Vec<Info>) -> ChainResult {
    ChainResult {
        name: name.into(),
        status: Status(status),
        infos,
    }
}

/// Returns the lines that `work` writes to the trace.
pub fn traced<R>(work: impl FnOnce() -> R) -> (R, String) {
    // Otherwise tracing could cache, from another test without a subscriber, that a place is never
    // enabled.
    static EVERYWHERE: Once = Once::new();
    EVERYWHERE.call_once(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
            .with_writer(std::io::sink)
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
    let written = Written::default();
    let writer = written.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let answer = tracing::subscriber::with_default(subscriber, work);
    let bytes = written.0.lock().unwrap().clone();
    (answer, String::from_utf8(bytes).unwrap())
}

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

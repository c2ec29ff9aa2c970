//! The same component in bare wasmtime: no Peal, no limits, nothing passed on. What the sandbox is compared with.
use std::time::Duration;
use wasmtime::{
    Engine, Result, Store,
    component::{Component, HasSelf, Linker},
};

#[allow(
    missing_docs,
    dead_code,
    unused_variables,
    unreachable_pub,
    unsafe_code,
    clippy::all,
    reason = "generated code, as in the sandbox"
)]
mod bindings {
    wasmtime::component::bindgen!({ path: "../../wit", world: "handler" });
}

use bindings::exports::peal::pmix::event_handler::{EventHead, Guest, GuestIndices};
use bindings::peal::pmix::{call, types};

/// A host that has one answer to each question and forgets what it is told.
struct Nothing;

impl types::Host for Nothing {}

impl call::Host for Nothing {
    fn source(&mut self) -> Option<types::Proc> {
        None
    }

    fn credentials(&mut self) -> Option<types::Identity> {
        None
    }

    fn server(&mut self) -> Option<types::Identity> {
        None
    }

    fn targets(&mut self) -> Vec<types::Proc> {
        Vec::new()
    }

    fn owners(&mut self) -> Vec<Option<types::Identity>> {
        Vec::new()
    }

    fn connection(&mut self) -> Option<types::Peer> {
        None
    }

    fn get(&mut self, _: String) -> Option<types::Found> {
        Some(types::Found { value: types::Value::Uint64(1), arrays: Vec::new() })
    }

    fn infos(&mut self) -> types::Content {
        types::Content { infos: Vec::new(), arrays: Vec::new() }
    }

    fn directives(&mut self) -> types::Content {
        self.infos()
    }

    fn steps(&mut self) -> types::Chain {
        types::Chain { steps: Vec::new(), arrays: Vec::new() }
    }

    fn push(&mut self, _: types::Info, _: Vec<types::Array>) {}
}

/// Instances of one component in one store.
pub struct Bare {
    store: Store<Nothing>,
    handlers: Vec<Guest>,
}

impl Bare {
    /// So many.
    pub fn new(component: &[u8], handlers: u32) -> Result<Bare> {
        let engine = Engine::default();
        let component = Component::from_binary(&engine, component)?;
        let mut linker = Linker::<Nothing>::new(&engine);
        types::add_to_linker::<_, HasSelf<Nothing>>(&mut linker, |host| host)?;
        call::add_to_linker::<_, HasSelf<Nothing>>(&mut linker, |host| host)?;
        let ready = linker.instantiate_pre(&component)?;
        let indices = GuestIndices::new(&ready)?;
        let mut store = Store::new(&engine, Nothing);
        let instance = |_| {
            let instance = ready.instantiate(&mut store)?;
            indices.load(&mut store, &instance)
        };
        let handlers = (0..handlers).map(instance).collect::<Result<_>>()?;
        Ok(Bare { store, handlers })
    }

    /// Calls each once.
    pub fn run(&mut self, code: i32, infos: u32) -> Result<Duration> {
        let start = std::time::Instant::now();
        let Bare { store, handlers } = self;
        for (at, handler) in (0..).zip(handlers) {
            let range = types::Range::Local;
            let head = EventHead { registration: 1, tag: 0, code, range, infos, steps: at };
            handler.call_handle(&mut *store, head)?;
        }
        Ok(start.elapsed())
    }
}

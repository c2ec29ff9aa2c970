//! The same component in bare wasmtime, for comparison with the sandbox: without Peal, without
//! limits, and nothing passed on.
use std::time::Duration;
use wasmtime::{
    Engine, Result, Store,
    component::{Component, HasSelf, Linker},
    error::Context as _,
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

/// Host with one constant result for each import. It discards all arguments.
struct Nothing;

impl types::Host for Nothing {}

impl call::Host for Nothing {
    fn source(&mut self) -> Option<types::Proc> {
        None
    }

    fn credentials(&mut self) -> Option<types::UserIdentity> {
        None
    }

    fn unix_groups(&mut self) -> Vec<types::UnixGroup> {
        Vec::new()
    }

    fn server_identity(&mut self) -> Option<types::UserIdentity> {
        None
    }

    fn targets(&mut self) -> Vec<types::Proc> {
        Vec::new()
    }

    fn target_owners(&mut self) -> Vec<Option<types::UserIdentity>> {
        Vec::new()
    }

    fn peer(&mut self) -> Option<types::PeerInfo> {
        None
    }

    fn get(&mut self, _: String) -> Option<types::FlatValue> {
        Some(types::FlatValue {
            value: types::Value::Uint64(1),
            arrays: Vec::new(),
        })
    }

    fn infos(&mut self) -> types::FlatInfos {
        types::FlatInfos {
            infos: Vec::new(),
            arrays: Vec::new(),
        }
    }

    fn directives(&mut self) -> types::FlatInfos {
        self.infos()
    }

    fn previous_results(&mut self) -> types::ChainResults {
        types::ChainResults {
            results: Vec::new(),
            arrays: Vec::new(),
        }
    }

    fn push(&mut self, _: types::Info, _: Vec<types::Array>) {}
}

/// Instances of one component.
pub struct Bare {
    stores: Vec<Store<Nothing>>,
    handlers: Vec<Guest>,
}

/// Assignment of instances to stores.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stores {
    /// Each instance has its own store, which limits per instance require.
    Each,
    /// All instances share one store.
    One,
}

impl Bare {
    /// Creates this number of instances.
    pub fn new(component: &[u8], handlers: u32, kept: Stores) -> Result<Bare> {
        let engine = Engine::default();
        let component = Component::from_binary(&engine, component)?;
        let mut linker = Linker::<Nothing>::new(&engine);
        types::add_to_linker::<_, HasSelf<Nothing>>(&mut linker, |host| host)?;
        call::add_to_linker::<_, HasSelf<Nothing>>(&mut linker, |host| host)?;
        // The SDK reports panics by an import of its own. Measured handlers do not panic.
        linker.define_unknown_imports_as_traps(&component)?;
        let ready = linker.instantiate_pre(&component)?;
        let indices = GuestIndices::new(&ready)?;
        let mut bare = Bare {
            stores: Vec::new(),
            handlers: Vec::new(),
        };
        for _ in 0..handlers {
            if kept == Stores::Each || bare.stores.is_empty() {
                bare.stores.push(Store::new(&engine, Nothing));
            }
            let store = bare.stores.last_mut().context("no store")?;
            let instance = ready.instantiate(&mut *store)?;
            bare.handlers.push(indices.load(store, &instance)?);
        }
        Ok(bare)
    }

    /// Calls each instance once.
    pub fn run(&mut self, code: i32, infos: u32) -> Result<Duration> {
        let start = std::time::Instant::now();
        let Bare { stores, handlers } = self;
        let last = stores.len().saturating_sub(1);
        for (at, handler) in handlers.iter().enumerate() {
            let range = types::Range::Local;
            let previous = u32::try_from(at)?;
            let head = EventHead {
                registration: 1,
                tag: 0,
                code,
                range,
                infos,
                previous,
            };
            let store = stores.get_mut(at.min(last)).context("no store")?;
            handler.call_handle(store, head)?;
        }
        Ok(start.elapsed())
    }
}

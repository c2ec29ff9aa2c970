//! A chain of many instances of one component in one process: in Peal's sandbox, and in bare
//! wasmtime.
use crate::{
    bare::{Bare, Stores},
    times::Times,
};
use anyhow::{Context, Result, anyhow, ensure};
use peal_core::{
    chain::{ChainEnd, HandlerOutcome, NextHandler},
    class::ClassFilter,
    order::Registrations,
    registration::{EventCodes, HandlerRegistration},
};
use peal_declaration::add_custom_section;
use peal_model::{Event, Info, KeyName, Nspace, Proc, Range, Rank, Status, Value};
use peal_sandbox::{
    Engine, EngineSettings, EventCall, Grants, GuestPool, Module, ModuleLimits, PoolSettings,
    Services,
};
use std::{
    num::NonZeroUsize,
    path::PathBuf,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

const NEWS: Status = Status(-3101);

/// Arguments of `peal-bench chain`.
#[derive(clap::Args)]
pub struct Chain {
    /// The component
    component: PathBuf,
    /// The runtime that calls the component
    #[arg(long, value_enum)]
    by: By,
    /// The number of handlers in the chain
    #[arg(long)]
    handlers: u32,
    /// The number of modules to which the handlers belong; the default is one for each handler
    #[arg(long)]
    modules: Option<u32>,
    /// Sharing of compiled code between modules
    #[arg(long, value_enum, default_value_t = Code::Shared)]
    code: Code,
    /// The number of measured events
    #[arg(long)]
    count: u32,
    /// The number of events before the measured ones
    #[arg(long)]
    warm: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Code {
    /// All modules are the same component
    Shared,
    /// Each module is a component of its own, with the same size and behavior
    Own,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum By {
    /// Peal's sandbox with its usual limits
    Peal,
    /// Peal's sandbox; each event is passed to a guest thread, and its result is awaited
    Thread,
    /// Bare wasmtime, each instance in a store of its own
    Bare,
    /// Bare wasmtime, all instances in one store
    BareTogether,
}

impl Chain {
    /// Measures one event after the other.
    pub fn run(&self) -> Result<()> {
        let bytes =
            std::fs::read(&self.component).with_context(|| self.component.display().to_string())?;
        match self.by {
            By::Bare | By::BareTogether => {
                let told = |error: wasmtime::Error| anyhow!("{error:#}");
                let kept = if matches!(self.by, By::Bare) {
                    Stores::Each
                } else {
                    Stores::One
                };
                let mut bare = Bare::new(&bytes, self.handlers, kept).map_err(told)?;
                self.repeat(|_| bare.run(NEWS.0, 4).map_err(told))
            }
            By::Peal => {
                let hosted = self.hosted(&bytes)?;
                self.repeat(|number| {
                    // Bare wasmtime receives the arguments of each call, too.
                    let event = event(number)?;
                    let start = Instant::now();
                    let finished = hosted.walk(event);
                    let took = start.elapsed();
                    hosted.check(&finished)?;
                    Ok(took)
                })
            }
            By::Thread => {
                let hosted = Arc::new(self.hosted(&bytes)?);
                let pool = GuestPool::new(PoolSettings {
                    threads: NonZeroUsize::MIN,
                    queue: 1,
                    ..PoolSettings::default()
                });
                self.repeat(|number| {
                    let start = Instant::now();
                    let event = event(number)?;
                    let walker = hosted.clone();
                    let (tell, told) = mpsc::channel();
                    pool.try_run(move || drop(tell.send(walker.walk(event))))?;
                    let finished = told.recv()?;
                    let took = start.elapsed();
                    hosted.check(&finished)?;
                    Ok(took)
                })
            }
        }
    }

    fn hosted(&self, component: &[u8]) -> Result<Hosted> {
        Hosted::new(
            component,
            self.code,
            self.handlers,
            self.modules.unwrap_or(self.handlers),
        )
    }

    fn repeat(&self, mut one: impl FnMut(u32) -> Result<Duration>) -> Result<()> {
        let mut times = Times::new(self.warm, self.count);
        for number in 0..self.warm + self.count {
            times.add(one(number)?);
        }
        let chain = times.print();
        println!(
            "step_us {:.3}",
            chain.as_secs_f64() * 1e6 / f64::from(self.handlers)
        );
        Ok(())
    }
}

/// Returns the event that the C program sends, too.
fn event(number: u32) -> Result<Arc<Event>> {
    let infos = vec![
        Info::new(KeyName("bench.number"), Value::Uint64(number.into())),
        Info::new(KeyName("bench.sent"), Value::Uint64(0)),
        Info::new(
            KeyName("bench.text"),
            Value::string("a short diagnostic text"),
        ),
        Info::new(KeyName("bench.flag"), Value::Bool(true)),
    ];
    let source = Some(Proc::new(Nspace::new("bench")?, Rank(0)));
    Ok(Arc::new(Event {
        code: NEWS,
        source,
        range: Range::Local,
        infos,
    }))
}

/// Chain as in the server.
struct Hosted {
    registrations: Registrations<Arc<Module>>,
    handlers: usize,
    /// The engine's clock stops when the last reference to the engine is dropped.
    _engine: Engine,
}

impl Hosted {
    fn new(component: &[u8], code: Code, handlers: u32, modules: u32) -> Result<Hosted> {
        let engine = Engine::new(&EngineSettings::default())?;
        let load = |at: u32| {
            let name = format!("module {at}");
            let number = if code == Code::Own { at } else { 0 };
            let mut component = component.to_vec();
            // A component of its own, with the same behavior.
            add_custom_section(&mut component, "bench", &number.to_le_bytes());
            Module::load(
                &engine,
                &name,
                &component,
                &Grants::tenant(),
                ModuleLimits::default(),
                Services::default(),
            )
        };
        let modules = (0..modules)
            .map(|at| load(at).map(Arc::new))
            .collect::<Result<Vec<_>, _>>()?;
        let mut registrations = Registrations::default();
        for (at, module) in (0..handlers).zip(modules.iter().cycle()) {
            let levels = ClassFilter::Both;
            let registration = HandlerRegistration {
                levels,
                ..HandlerRegistration::new(&format!("link {at}"), EventCodes::Single(NEWS))
            };
            registrations.register(registration, module.clone())?;
        }
        Ok(Hosted {
            registrations,
            handlers: handlers as usize,
            _engine: engine,
        })
    }

    /// Runs the chain as the server's worker does.
    fn walk(&self, event: Arc<Event>) -> ChainEnd {
        let mut run = self.registrations.run(event);
        loop {
            let call = match run.advance() {
                NextHandler::Call(call) => call,
                NextHandler::Done(finished) => return finished,
            };
            let member = call.member();
            let result = member.handler.handle(EventCall {
                number: 0,
                registration: member.id.0,
                tag: 0,
                event: call.event().clone(),
                identity: None,
                steps: call.steps().clone(),
            });
            run = call.finish(HandlerOutcome {
                status: result.status,
                infos: result.infos,
            });
        }
    }

    /// Fails if a handler failed: a chain that fails early would appear fast.
    fn check(&self, finished: &ChainEnd) -> Result<()> {
        ensure!(
            finished.steps.len() == self.handlers,
            "{} handlers ran, not {}",
            finished.steps.len(),
            self.handlers
        );
        let failed = finished
            .steps
            .iter()
            .find(|step| step.status.0 <= -1_000_000);
        ensure!(failed.is_none(), "a handler failed: {failed:?}");
        Ok(())
    }
}

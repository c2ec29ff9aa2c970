//! A chain of one component many times over, in one process: through Peal's sandbox, and in bare wasmtime.
use crate::{
    bare::{Bare, Stores},
    times::Times,
};
use anyhow::{Context, Result, anyhow, ensure};
use peal_core::{
    chain::{ChainEnd, HandlerOutcome, NextHandler},
    class::ClassFilter,
    order::Registrations,
    registration::{EventCodes, Registration},
};
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

/// `peal-bench chain`.
#[derive(clap::Args)]
pub struct Chain {
    /// The component
    component: PathBuf,
    /// What calls it
    #[arg(long, value_enum)]
    by: By,
    /// How many handlers the chain has
    #[arg(long)]
    handlers: u32,
    /// How many modules these belong to; as many as there are handlers, if not said
    #[arg(long)]
    modules: Option<u32>,
    /// Whether the modules have their compiled code in common
    #[arg(long, value_enum, default_value_t = Code::Shared)]
    code: Code,
    /// How many events are measured
    #[arg(long)]
    count: u32,
    /// How many pass before those
    #[arg(long)]
    warm: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Code {
    /// All modules are one component
    Shared,
    /// Each module is a component of its own, as large and doing the same
    Own,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum By {
    /// Peal's sandbox, with its usual limits
    Peal,
    /// The same, each event handed over to a guest thread and waited for
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
                    // Bare wasmtime is handed what it is called with, too.
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
                })?;
                self.repeat(|number| {
                    let start = Instant::now();
                    let (event, walker) = (event(number)?, hosted.clone());
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

/// What the C program sends, too.
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

/// The component with a custom section that holds this number: not the same component, and does the same.
fn numbered(component: &[u8], number: u32) -> Vec<u8> {
    const SECTION: [u8; 8] = [0, 10, 5, b'b', b'e', b'n', b'c', b'h'];
    [component, &SECTION, &number.to_le_bytes()].concat()
}

/// A chain as the server has it.
struct Hosted {
    registrations: Registrations<Arc<Module>>,
    handlers: usize,
    /// The engine's clock stands still when nobody holds the engine any more.
    _engine: Engine,
}

impl Hosted {
    fn new(component: &[u8], code: Code, handlers: u32, modules: u32) -> Result<Hosted> {
        let engine = Engine::new(&EngineSettings::default())?;
        let load = |at: u32| {
            let name = format!("module {at}");
            let number = if code == Code::Own { at } else { 0 };
            Module::load(
                &engine,
                &name,
                &numbered(component, number),
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
            let registration = Registration {
                levels,
                ..Registration::new(&format!("link {at}"), EventCodes::Single(NEWS))
            };
            registrations.register(registration, module.clone())?;
        }
        Ok(Hosted {
            registrations,
            handlers: handlers as usize,
            _engine: engine,
        })
    }

    /// As the server's worker does it.
    fn walk(&self, event: Arc<Event>) -> ChainEnd {
        let mut run = self.registrations.run(event);
        loop {
            let call = match run.advance() {
                NextHandler::Call(call) => call,
                NextHandler::Done(finished) => return finished,
            };
            let member = call.member();
            let result = member.handler.handle(&EventCall {
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

    /// A chain that failed fast would look good.
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

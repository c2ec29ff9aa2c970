//! Process of one user, as the server sees it: started on demand, and again after it has ended.
use crate::{
    chain_connections::ChainConnections,
    cpu_times::GuestCpuTimes,
    error::TenantRuntimeError,
    handshake::{FurtherConnections, greet},
    message::{
        ChainCall, FROM_RUNTIME, HandlerOrder, HandlerReply, LineLevel, ModuleAnswer, ModuleNumber,
        ModuleReply, ModuleRequest, PROTOCOL, RuntimeHello, RuntimeSettings, SideEffects,
        TO_RUNTIME,
    },
    restart_pace::RestartPace,
    runtimes::{StartRuntime, StartedRuntime},
    services::{ServiceThread, carry_out},
    tenant_module::TenantModule,
};
use peal_frames::MessageStream;
use peal_model::{ChainResult, Event, UserIdentity};
use peal_sandbox::{CallFailure, HandlerResult};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Time limit of a request about modules. Code that is not in the cache is compiled meanwhile.
const MODULE_TIMEOUT: Duration = Duration::from_secs(120);

/// Bits of a number that count the instances or requests of one process.
const NUMBERS: u32 = 32;

/// Event for the handlers of a user.
pub struct ChainOrder {
    /// Number of the event.
    pub event_number: u64,
    /// The event.
    pub event: Arc<Event>,
    /// User and group of the source.
    pub identity: Option<UserIdentity>,
    /// Results of the handlers before these.
    pub steps: Arc<Vec<ChainResult>>,
    /// Handlers in their order.
    pub handlers: Vec<HandlerOrder>,
    /// Time limit of all of them together.
    pub time: Duration,
}

/// Process of one user.
pub struct TenantRuntime {
    uid: u32,
    settings: RuntimeSettings,
    start: StartRuntime,
    /// Number of processes that a server has started so far.
    started: Arc<AtomicU64>,
    cpu: GuestCpuTimes,
    modules: Arc<ModuleTable>,
    /// Held while a process is started, and while its modules change.
    pace: Mutex<RestartPace>,
    current: Mutex<Option<Arc<RunningRuntime>>>,
}

/// Modules of a user by their numbers.
#[derive(Default)]
pub(crate) struct ModuleTable(Mutex<BTreeMap<ModuleNumber, Weak<TenantModule>>>);

impl ModuleTable {
    /// Returns the module of a number.
    pub(crate) fn get(&self, number: ModuleNumber) -> Option<Arc<TenantModule>> {
        lock(&self.0).get(&number)?.upgrade()
    }

    fn all(&self) -> Vec<Arc<TenantModule>> {
        lock(&self.0).values().filter_map(Weak::upgrade).collect()
    }

    fn insert(&self, module: &Arc<TenantModule>) {
        lock(&self.0).insert(module.number(), Arc::downgrade(module));
    }

    fn remove(&self, number: ModuleNumber) {
        lock(&self.0).remove(&number);
    }
}

/// Connections to a running process.
struct RunningRuntime {
    chains: Arc<ChainConnections>,
    modules: Mutex<MessageStream>,
}

impl fmt::Debug for TenantRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TenantRuntime")
            .field("uid", &self.uid)
            .finish_non_exhaustive()
    }
}

impl TenantRuntime {
    pub(crate) fn new(
        uid: u32,
        settings: RuntimeSettings,
        start: StartRuntime,
        started: Arc<AtomicU64>,
        cpu: GuestCpuTimes,
    ) -> TenantRuntime {
        TenantRuntime {
            uid,
            settings,
            start,
            started,
            cpu,
            modules: Arc::default(),
            pace: Mutex::default(),
            current: Mutex::default(),
        }
    }

    /// Returns the user.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Loads a module into the process. Blocks.
    pub(crate) fn load(
        &self,
        module: &Arc<TenantModule>,
    ) -> Result<ModuleAnswer, TenantRuntimeError> {
        let mut pace = lock(&self.pace);
        match self.load_into_process(module, &mut pace) {
            // Another module, the user or a lack of memory may have ended it meanwhile.
            Err(TenantRuntimeError::Ended) => self.load_into_process(module, &mut pace),
            loaded => loaded,
        }
    }

    fn load_into_process(
        &self,
        module: &Arc<TenantModule>,
        pace: &mut RestartPace,
    ) -> Result<ModuleAnswer, TenantRuntimeError> {
        let running = self.running(pace)?;
        // Before the request: the init of the module may use its services.
        self.modules.insert(module);
        let loaded = self.ask(&running, &module.load_request());
        if loaded.is_err() {
            self.modules.remove(module.number());
        }
        loaded
    }

    /// Carries out a request about a module, if the process runs. Blocks.
    pub(crate) fn change(&self, request: &ModuleRequest) -> Result<(), TenantRuntimeError> {
        let _changing = lock(&self.pace);
        if let ModuleRequest::Stop { module } = request {
            self.modules.remove(*module);
        }
        // A process that starts later gets the state of its modules with them.
        let Some(running) = self.current() else {
            return Ok(());
        };
        match self.ask(&running, request)? {
            ModuleAnswer::Done => Ok(()),
            ModuleAnswer::Loaded { .. } => Err(TenantRuntimeError::Answer),
        }
    }

    /// Runs the handlers of a chain. Returns a result for each handler that was called; if the process
    /// ends meanwhile, one failure for each.
    pub async fn run_chain(self: &Arc<Self>, order: ChainOrder) -> Vec<HandlerReply> {
        let count = order.handlers.len();
        let answered = async {
            let running = match self.current() {
                Some(running) => running,
                None => self.started().await?,
            };
            let call = ChainCall {
                number: running.chains.next_number(),
                event_number: order.event_number,
                event: order.event,
                identity: order.identity,
                steps: order.steps,
                handlers: order.handlers,
                level: traced_level(),
            };
            running.chains.run(&call, order.time).await
        };
        match answered.await {
            Ok(reply) => {
                let effects = reply.side_effects;
                if !effects.is_empty() {
                    self.carry_out(effects).await;
                }
                reply.results
            }
            Err(error) => {
                tracing::warn!(uid = self.uid, %error, "modules of a user not called");
                let failure =
                    CallFailure::unavailable(format!("process of the user's modules: {error}"));
                let failed = || HandlerReply::not_called(HandlerResult::from(failure.clone()));
                std::iter::repeat_with(failed).take(count).collect()
            }
        }
    }

    /// Starts the process on a thread that may block.
    async fn started(self: &Arc<Self>) -> Result<Arc<RunningRuntime>, TenantRuntimeError> {
        let runtime = self.clone();
        let start = move || {
            let mut pace = lock(&runtime.pace);
            runtime.running(&mut pace)
        };
        let started = tokio::task::spawn_blocking(start).await;
        // The thread does not panic; the runtime of tokio may be shutting down.
        started.map_err(|_| TenantRuntimeError::Ended)?
    }

    fn current(&self) -> Option<Arc<RunningRuntime>> {
        let current = lock(&self.current);
        current.clone().filter(|running| !running.chains.is_lost())
    }

    /// Returns the running process; starts it, with the modules that it had, if there is none.
    fn running(&self, pace: &mut RestartPace) -> Result<Arc<RunningRuntime>, TenantRuntimeError> {
        if let Some(running) = self.current() {
            return Ok(running);
        }
        let now = Instant::now();
        if lock(&self.current).take().is_some() {
            pace.ended(now);
            tracing::warn!(uid = self.uid, "process of a user's modules has ended");
        }
        if let Some(wait) = pace.wait(now) {
            let ends = pace.ends();
            return Err(TenantRuntimeError::Paused { ends, wait });
        }
        let running = self.begin()?;
        for module in self.modules.all() {
            // The others work without it; its calls fail.
            if let Err(error) = self.ask(&running, &module.load_request()) {
                tracing::error!(uid = self.uid, module = module.name(), %error, "module not loaded again");
            }
        }
        // Only now: no chain comes before its modules.
        *lock(&self.current) = Some(running.clone());
        Ok(running)
    }

    fn begin(&self) -> Result<Arc<RunningRuntime>, TenantRuntimeError> {
        let StartedRuntime {
            connection: modules,
            pid,
        } = (self.start)(self.uid).map_err(TenantRuntimeError::Start)?;
        self.cpu.begin(self.uid, pid);
        // Its numbers are those of no other process.
        let number = self
            .started
            .fetch_add(1, Ordering::Relaxed)
            .saturating_add(1);
        let hello = RuntimeHello {
            protocol: PROTOCOL,
            settings: self.settings.clone(),
            numbers_after: number.checked_shl(NUMBERS).unwrap_or_default(),
        };
        let FurtherConnections { services, chains } = greet(&modules, &hello)?;
        let chains = Arc::new(ChainConnections::new(chains, modules.try_clone()?)?);
        let serving = ServiceThread {
            uid: self.uid,
            stream: MessageStream::with_limits(services, FROM_RUNTIME, TO_RUNTIME),
            modules: self.modules.clone(),
        };
        let served = Arc::downgrade(&chains);
        thread::Builder::new()
            .name("tenant".to_owned())
            .spawn(move || {
                serving.run();
                // The process has ended, or asked for what is no request.
                if let Some(chains) = served.upgrade() {
                    chains.end();
                }
            })?;
        modules.set_read_timeout(Some(MODULE_TIMEOUT))?;
        modules.set_write_timeout(Some(MODULE_TIMEOUT))?;
        let mut modules = MessageStream::with_limits(modules, FROM_RUNTIME, TO_RUNTIME);
        reply(&mut modules)?
            .answer
            .map_err(TenantRuntimeError::Refused)?;
        Ok(Arc::new(RunningRuntime {
            chains,
            modules: Mutex::new(modules),
        }))
    }

    /// Sends a request about modules and carries out what modules cause meanwhile.
    fn ask(
        &self,
        running: &RunningRuntime,
        request: &ModuleRequest,
    ) -> Result<ModuleAnswer, TenantRuntimeError> {
        let asked = {
            let mut modules = lock(&running.modules);
            let sent = modules.send(request).map_err(TenantRuntimeError::from);
            sent.and_then(|()| reply(&mut modules))
        };
        let reply = match asked {
            Ok(reply) => reply,
            Err(error) => {
                // A late answer would be taken for that to the next request.
                running.chains.end();
                return Err(error);
            }
        };
        carry_out(self.uid, &self.modules, reply.side_effects);
        reply.answer.map_err(TenantRuntimeError::Refused)
    }

    /// Carries out what modules have caused beside their results. Records may wait for room.
    async fn carry_out(self: &Arc<Self>, effects: SideEffects) {
        let runtime = self.clone();
        let span = tracing::Span::current();
        let work = move || {
            let _entered = span.enter();
            carry_out(runtime.uid, &runtime.modules, effects);
        };
        // The thread does not panic; the runtime of tokio may be shutting down.
        let _ = tokio::task::spawn_blocking(work).await;
    }
}

fn reply(modules: &mut MessageStream) -> Result<ModuleReply, TenantRuntimeError> {
    modules.next_message()?.ok_or(TenantRuntimeError::Ended)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the most detailed level of lines of modules that this server traces.
fn traced_level() -> LineLevel {
    macro_rules! first_enabled {
        ($($level:ident = $line:ident),+) => {
            $(if tracing::enabled!(target: "peal::guest", tracing::Level::$level) {
                return LineLevel::$line;
            })+
        };
    }
    first_enabled!(
        TRACE = Trace,
        DEBUG = Debug,
        INFO = Info,
        WARN = Warn,
        ERROR = Error
    );
    LineLevel::Off
}

//! What every verb that runs a server shares: from the configuration to a server that listens.
use crate::{
    audit_trail,
    compiler::CompilerProcesses,
    config::{self, Readable},
    job::{JobRecorder, RecorderCommand},
    trace,
    wait_message::WaitMessage,
};
use anyhow::{Context, Result};
use peal_audit::AuditTrail;
use peal_config::{Config, ConfinementMode, Problems, Resolved};
use peal_core::owner::Owner;
use peal_launcher::{CleanupSettings, EmbeddedHostEnvironment, Stream};
use peal_model::{Info, Nspace, Proc, Rank, Status, UserIdentity};
use peal_modules::{
    Deployer, JobHandlers, Loader, OutputSinks, SinkCatalog, StartedModules, StartupModules,
    UsageSource,
};
use peal_server::{
    GuestPools, HandlerRequest, InProcessTransport, Notices, ProcessObserver, Server, ServerParts,
    StandaloneChain, metrics::MetricsEndpoint,
};
use peal_sinks::{SinkSettings, Sinks};
use peal_store::Store;
use rustix::process::{Resource, Rlimit, getgid, getrlimit, getuid, setrlimit};
use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::SystemTime,
};
use tokio::{runtime::Runtime, sync::mpsc};

/// The message while modules are loaded.
const LOADING: &str = "loading modules: a component that was not seen before is compiled, an interpreter of Python for some 15 s";

/// All that can go wrong before a server is there has not.
pub struct PreparedServer {
    me: Proc,
    observer: ProcessObserver,
    begun: StartedModules,
    ground: Ground,
    refused: Option<Problems>,
}

/// A server that listens.
pub struct LocalServer {
    /// The server.
    pub server: Server,
    /// Its host environment.
    pub host: Arc<EmbeddedHostEnvironment>,
    /// By whom its modules are changed.
    pub deployer: Deployer,
    /// What its channels write to.
    pub sinks: Arc<Sinks>,
    /// What outlives it, if that is wanted.
    pub store: Option<Arc<Store>>,
    /// Who keeps the records of jobs there.
    pub keeper: Option<JobRecorder>,
    /// The audit trail, if there is one.
    pub audit: Option<AuditTrail>,
    /// What is wrong with the modules of the configuration, if those that ran last stand in for them.
    pub refused: Option<Problems>,
}

/// What there must be before there are modules.
struct Ground {
    notices: Notices,
    host: Arc<EmbeddedHostEnvironment>,
    pools: GuestPools,
    sinks: Arc<Sinks>,
    store: Option<Arc<Store>>,
    keeper: Option<JobRecorder>,
    audit: Option<AuditTrail>,
}

impl Ground {
    fn new(
        resolved: &Resolved,
        notices: Notices,
        command: RecorderCommand,
        cleaning: CleanupSettings,
    ) -> Result<(Ground, Loader)> {
        let config = &resolved.config;
        trace::follow(&config.trace.filter)?;
        raise_file_limit();
        let (store, audit) = (store(config)?, audit_trail::open(resolved)?);
        let pools =
            peal_modules::pools(&config.sandbox).context("cannot start the guest threads")?;
        let (keeper, notices) = match &store {
            Some(store) => {
                let (keeper, notices) = JobRecorder::start(notices, store.clone(), command)?;
                (Some(keeper), notices)
            }
            None => (None, notices),
        };
        let host = EmbeddedHostEnvironment::new(notices.clone())
            .cleaning(cleaning)
            .publishing(config::publish_limits(config));
        let host = host.with_grace(config.run.grace);
        let host = Arc::new(host);
        let sinks = Arc::new(open_sinks(resolved, store.as_ref())?);
        let outputs = OutputSinks {
            stdout: host.sink(Stream::Stdout),
            stderr: host.sink(Stream::Stderr),
        };
        let outlets = SinkCatalog::new(outputs, sinks.clone(), store.clone());
        let loader = Loader::new(config.clone(), outlets, store.clone(), audit.clone())
            .measuring(Arc::new(HostUsageSource(host.clone())));
        Ok((
            Ground {
                notices,
                host,
                pools,
                sinks,
                store,
                keeper,
                audit,
            },
            loader,
        ))
    }
}

/// What procs use, as the host that runs them sees it.
struct HostUsageSource(Arc<EmbeddedHostEnvironment>);

impl UsageSource for HostUsageSource {
    fn of(&self, owner: &Owner, procs: &[Proc]) -> Result<Vec<Info>, Status> {
        self.0.used(owner, procs)
    }
}

impl PreparedServer {
    /// Loads, compiles and starts the modules of the configuration and those that a job brings, and opens the store. The server will
    /// be called `me`; the record of the job says that it was started by `command`.
    pub fn for_job(
        resolved: &Resolved,
        me: &str,
        notices: Notices,
        job: &JobHandlers,
        command: RecorderCommand,
    ) -> Result<PreparedServer> {
        let wanted = peal_modules::all(&resolved.modules, &resolved.config)?;
        let cleaning = config::cleanup_settings(&resolved.config, None);
        let (ground, loader) = Ground::new(resolved, notices, command, cleaning)?;
        let loading =
            (!wanted.is_empty() || !job.handlers.is_empty()).then(|| WaitMessage::new(LOADING));
        let begun = StartupModules::of_job(loader, wanted, job)?;
        drop(loading);
        let me = Proc::new(Nspace::new(me)?, Rank(0));
        Ok(PreparedServer {
            me,
            observer: ProcessObserver::default(),
            begun,
            ground,
            refused: None,
        })
    }

    /// The same without a job. If the configuration says of modules what cannot be used, those that ran last are taken where a
    /// store knows them, and what is wrong is told.
    pub fn for_server(
        resolved: &Readable,
        me: &str,
        notices: Notices,
        observer: ProcessObserver,
        compilers: Option<CompilerProcesses>,
    ) -> Result<PreparedServer> {
        let Readable { resolved, modules } = resolved;
        let wanted = match modules {
            Ok(()) => peal_modules::all(&resolved.modules, &resolved.config),
            Err(problems) => Err(problems.clone()),
        };
        if resolved.config.store.path.is_none() {
            // Nothing else could be used: what is wrong is told before anything is touched.
            wanted.as_ref().map(drop).map_err(Problems::clone)?;
        }
        // By what a job was started only whoever started it knows.
        let config = &resolved.config;
        let within = (config.confinement.mode != ConfinementMode::Off)
            .then(|| config.confinement.cleanup_roots.clone());
        let cleaning = config::cleanup_settings(config, within);
        let (ground, loader) =
            Ground::new(resolved, notices, Box::new(|_| String::new()), cleaning)?;
        let loader = match compilers {
            Some(compilers) => loader.compiling_by(Arc::new(compilers)),
            None => loader,
        };
        let loading = WaitMessage::new(LOADING);
        let (begun, refused) = StartupModules::of_server(loader, wanted)?;
        drop(loading);
        if let Some(problems) = &refused {
            crate::print_line(&format!(
                "the modules of the configuration cannot be used, those that ran last do:\n{problems}"
            ));
        }
        Ok(PreparedServer {
            me: Proc::new(Nspace::new(me)?, Rank(0)),
            observer,
            begun,
            ground,
            refused,
        })
    }
}

/// Handlers without a server, and what they stand on.
pub struct StandaloneHandlers {
    /// The handlers.
    pub chain: StandaloneChain,
    /// What they want beyond their answers.
    pub wanted: mpsc::Receiver<HandlerRequest>,
    /// What they write to.
    pub sinks: Arc<Sinks>,
    /// Who keeps the records of jobs, if that is wanted.
    pub keeper: Option<JobRecorder>,
    /// What the modules were loaded with.
    pub beginning: StartupModules,
}

impl StandaloneHandlers {
    /// Starts the handlers of what was prepared, for a proc of a job that another server runs.
    pub fn start(prepared: PreparedServer, job: Nspace, config: &Config) -> StandaloneHandlers {
        let PreparedServer {
            begun: StartedModules { hosted, beginning },
            ground,
            ..
        } = prepared;
        let Ground {
            notices,
            pools,
            sinks,
            keeper,
            ..
        } = ground;
        let us = UserIdentity {
            uid: getuid().as_raw(),
            gid: getgid().as_raw(),
        };
        let settings = config::server_settings(config).chains;
        let (chain, wanted) =
            StandaloneChain::start((job, us), hosted.chains, &pools, settings, notices);
        StandaloneHandlers {
            chain,
            wanted,
            sinks,
            keeper,
            beginning,
        }
    }
}

/// How many tasks have a turn before the thread looks which sockets have become ready. While one client floods the server there
/// is always a task that is; with the usual 61 turns everybody else would wait for them.
const BETWEEN_LOOKS: u32 = 4;

/// What servers run on: one thread. A message passes from a connection to the state and on to another connection, and each
/// hand-over to another thread would take longer than all that is done about it. Guests and files have threads of their own.
pub fn runtime() -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder
        .enable_all()
        .event_interval(BETWEEN_LOOKS)
        .build()
        .context("cannot start the runtime")
}

/// Does what a tool does, and ends with it: a terminal that takes nothing, or a server that says nothing, must not keep us.
pub fn as_tool<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = runtime()?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

impl LocalServer {
    /// Starts the server of what was prepared.
    pub async fn start(prepared: PreparedServer, config: &Config) -> Result<LocalServer> {
        let PreparedServer {
            me,
            observer,
            begun: StartedModules { hosted, beginning },
            ground,
            refused,
        } = prepared;
        let Ground {
            notices,
            host,
            pools,
            sinks,
            store,
            keeper,
            audit,
        } = ground;
        let fabric = InProcessTransport::new();
        let recording = audit.clone();
        let parts = ServerParts {
            me,
            host: host.clone(),
            fabric,
            hosted,
            pools,
            notices,
            observer,
            audit: recording,
        };
        let server = Server::start(config::server_settings(config), parts).await?;
        if let Some(audit) = &audit {
            server.metrics().show_audit(audit.clone());
        }
        if let Some(store) = &store {
            server.metrics().show_store(store.clone());
        }
        peal_modules::show_sinks(&server.metrics(), sinks.clone());
        let deployer = beginning.at(&server);
        Ok(LocalServer {
            server,
            host,
            deployer,
            sinks,
            store,
            keeper,
            audit,
            refused,
        })
    }

    /// Serves metrics, if that is wanted.
    pub async fn metrics_endpoint(&self, config: &Config) -> Result<Option<MetricsEndpoint>> {
        Ok(match config.metrics.listen {
            Some(address) => Some(MetricsEndpoint::start(address, self.server.metrics()).await?),
            None => None,
        })
    }
}

fn store(config: &Config) -> Result<Option<Arc<Store>>> {
    let store = config.store.path.as_deref();
    let store = store
        .map(|path| Store::open(path, config::store_settings(config)))
        .transpose()?;
    Ok(store.map(Arc::new))
}

fn open_sinks(resolved: &Resolved, store: Option<&Arc<Store>>) -> Result<Sinks> {
    let settings = resolved
        .sinks
        .iter()
        .map(|sink| sink.to_open())
        .collect::<Result<Vec<SinkSettings>, Problems>>()?;
    Sinks::open(settings, store).context("cannot open the sinks")
}

/// Has written what happened to jobs until now.
pub async fn finish_records(keeper: Option<JobRecorder>) {
    let Some(keeper) = keeper else { return };
    if let Err(error) = tokio::task::spawn_blocking(move || keeper.finish()).await {
        tracing::error!(%error, "the records of jobs may not be complete");
    }
}

/// Has what waits in sinks delivered, for as long as procs have to read what they are owed. What is not is lost, or in the store.
pub async fn close_sinks(sinks: Arc<Sinks>, config: &Config) {
    let deadline = config.server.drain_timeout;
    match tokio::task::spawn_blocking(move || sinks.close(deadline)).await {
        Ok(busy) if busy.is_empty() => {}
        Ok(busy) => tracing::warn!(
            ?busy,
            "these sinks had more to deliver than there was time for"
        ),
        Err(error) => tracing::error!(%error, "the sinks could not be closed"),
    }
}

/// A name that no other process gives, also where process ids begin anew in every container.
pub fn unique(prefix: &str) -> String {
    let random = RandomState::new().hash_one(SystemTime::now());
    format!(
        "{prefix}-{}-{:08x}",
        std::process::id(),
        random & 0xffff_ffff
    )
}

/// Every proc takes two or three files; what the system allows at most is enough for most jobs.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    ) {
        tracing::debug!(%error, "the number of open files stays limited");
    }
}

//! Server parts that all commands with a server share, from the configuration to a listening
//! server.
use crate::{
    artifact_fetcher::{self, FetcherProcesses},
    audit_trail,
    compiler::CompilerProcesses,
    config::{self, Readable},
    job::{JobRecorder, RecorderCommand},
    trace,
    wait_message::WaitMessage,
};
use anyhow::{Context, Result};
use peal_audit::{AuditTrail, TrailSigner};
use peal_config::{Config, ConfinementMode, Problems, Resolved};
use peal_core::owner::Owner;
use peal_helper::PrivilegedHelper;
use peal_launcher::{CleanupSettings, EmbeddedHostEnvironment, HandedHost, Stream};
use peal_model::{Info, Nspace, Proc, Rank, Status, UserIdentity};
use peal_modules::{
    Deployer, JobHandlers, Loader, OutputSinks, SinkCatalog, StartedModules, StartupModules,
    UsageSource,
};
use peal_nats::SealQueue;
use peal_server::{
    ContinuedServer, ContinuedStubs, EnteredStubs, GuestPools, HandlerRequest, HostRouter, Notices,
    Server, ServerNetwork, ServerParts, StandaloneChain, metrics::MetricsEndpoint,
};
use peal_sinks::{SinkSettings, Sinks};
use peal_store::Store;
use peal_tenant::{GuestCpuTimes, StartRuntime};
use rustix::process::{Resource, Rlimit, getgid, getrlimit, getuid, setrlimit};
use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{runtime::Runtime, sync::mpsc};

/// Message while modules are loaded.
const LOADING: &str = "loading modules: a component that was not seen before is compiled, an interpreter of Python for some 15 s";

/// Server before its start, after everything that can fail.
pub struct PreparedServer {
    me: Proc,
    helper: PrivilegedHelper,
    begun: StartedModules,
    ground: Ground,
    guest_cpu: Option<GuestCpuTimes>,
    refused: Option<Problems>,
}

/// Processes that work for a server.
pub struct ServerProcesses {
    /// Privileged helper.
    pub helper: PrivilegedHelper,
    /// Compilers of users' modules, if users install any.
    pub compilers: Option<CompilerProcesses>,
    /// Processes that fetch artefacts.
    pub fetchers: FetcherProcesses,
    /// Starter of the processes of users, if their modules run in some.
    pub runtimes: Option<StartRuntime>,
    /// Signer of the audit trail, if there is one.
    pub signer: Option<TrailSigner>,
    /// Seals of the audit trail for the cluster, if there is one.
    pub seals: Option<SealQueue>,
}

/// Server that listens.
pub struct LocalServer {
    /// Server.
    pub server: Server,
    /// Host environment.
    pub host: Arc<EmbeddedHostEnvironment>,
    /// Router of upcalls, by which the jobs of other launchers reach their own.
    pub router: Arc<HostRouter>,
    /// Stubs that another process of the server had.
    pub stubs: EnteredStubs,
    /// Deployer of the modules.
    pub deployer: Deployer,
    /// Sinks of the log channels.
    pub sinks: Arc<Sinks>,
    /// Store, if configured.
    pub store: Option<Arc<Store>>,
    /// Recorder of jobs, if there is a store.
    pub recorder: Option<JobRecorder>,
    /// Audit trail, if configured.
    pub audit: Option<AuditTrail>,
    /// Problems of the configured modules, if those that ran last are used instead.
    pub refused: Option<Problems>,
}

/// Parts that exist before the modules are loaded.
struct Ground {
    notices: Notices,
    host: Arc<EmbeddedHostEnvironment>,
    pools: GuestPools,
    sinks: Arc<Sinks>,
    store: Option<Arc<Store>>,
    recorder: Option<JobRecorder>,
    audit: Option<AuditTrail>,
}

impl Ground {
    fn new(
        resolved: &Resolved,
        notices: Notices,
        command: RecorderCommand,
        (cleaning, helper): (CleanupSettings, PrivilegedHelper),
        (signer, seals): (Option<TrailSigner>, Option<SealQueue>),
    ) -> Result<(Ground, Loader)> {
        let config = &resolved.config;
        // First, so that messages about all later parts pass the configured filter.
        trace::follow(&config.trace.filter)?;
        let store = store(config)?;
        let audit = audit_trail::open(resolved, signer, seals)?;
        if let Some(audit) = audit.clone() {
            helper
                .report_refusals(move |refused| audit.refuse(audit_trail::refused_call(&refused)));
        }
        let pools = peal_modules::pools(config);
        // From here on notices pass the recorder, which must not miss the start of a job.
        let (recorder, notices) = match &store {
            Some(store) => {
                let (recorder, notices) = JobRecorder::start(notices, store.clone(), command)?;
                (Some(recorder), notices)
            }
            None => (None, notices),
        };
        let host = EmbeddedHostEnvironment::new(notices.clone())
            .cleaning(cleaning, helper)
            .blocking(config::blocking_limits(config));
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
                recorder,
                audit,
            },
            loader,
        ))
    }
}

/// Resource usage of procs, measured by the host environment.
struct HostUsageSource(Arc<EmbeddedHostEnvironment>);

impl UsageSource for HostUsageSource {
    fn of(&self, owner: &Owner, procs: &[Proc]) -> Result<Vec<Info>, Status> {
        self.0.used(owner, procs)
    }
}

impl PreparedServer {
    /// Loads, compiles and starts the modules of the configuration and the job-supplied handlers,
    /// and opens the store. The server will be named `me`; the record of the job has the result of
    /// `command`.
    pub fn for_job(
        resolved: &Resolved,
        me: &str,
        notices: Notices,
        job: &JobHandlers,
        command: RecorderCommand,
    ) -> Result<PreparedServer> {
        // First, so that an invalid configuration changes nothing.
        let wanted = artifact_fetcher::read_components(resolved)?;
        let cleaning = config::cleanup_settings(&resolved.config, None);
        let helper = PrivilegedHelper::default();
        let signer = audit_trail::key_path(&resolved.config).map(TrailSigner::here);
        let (ground, loader) = Ground::new(
            resolved,
            notices,
            command,
            (cleaning, helper.clone()),
            (signer, None),
        )?;
        let loading =
            (!wanted.is_empty() || !job.handlers.is_empty()).then(|| WaitMessage::new(LOADING));
        let begun = StartupModules::of_job(loader, wanted, job)?;
        drop(loading);
        let me = Proc::new(Nspace::new(me)?, Rank(0));
        Ok(PreparedServer {
            me,
            helper,
            begun,
            ground,
            guest_cpu: None,
            refused: None,
        })
    }

    /// Prepares a server without a job. If the modules' configuration is invalid, the modules that
    /// ran last are taken from the store, if there is one, and the problems are printed.
    pub fn for_server(
        resolved: &Readable,
        me: &str,
        notices: Notices,
        processes: ServerProcesses,
    ) -> Result<PreparedServer> {
        let ServerProcesses {
            helper,
            compilers,
            fetchers,
            runtimes,
            signer,
            seals,
        } = processes;
        let Readable { resolved, modules } = resolved;
        let wanted = match modules {
            Ok(()) => peal_modules::read_components(&resolved.modules, &resolved.config),
            Err(problems) => Err(problems.clone()),
        };
        if resolved.config.store.path.is_none() {
            // There is no substitute for the modules, so the problems are returned before anything
            // is changed.
            wanted.as_ref().map(drop).map_err(Problems::clone)?;
        }
        // The commands of jobs are not known: their launcher is another program.
        let config = &resolved.config;
        // A confined server can remove files only below these directories.
        let within = (config.confinement.mode != ConfinementMode::Off)
            .then(|| config.confinement.cleanup_roots.clone());
        let cleaning = config::cleanup_settings(config, within);
        let (ground, loader) = Ground::new(
            resolved,
            notices,
            Box::new(|_| String::new()),
            (cleaning, helper.clone()),
            (signer, seals),
        )?;
        let loader = loader.fetching_by(Arc::new(fetchers));
        let loader = match compilers {
            Some(compilers) => loader.compiling_by(Arc::new(compilers)),
            None => loader,
        };
        let loader = match runtimes {
            Some(start) => loader.running_tenants_by(start),
            None => loader,
        };
        let guest_cpu = loader.guest_cpu_times();
        let loading = WaitMessage::new(LOADING);
        let (begun, refused) = StartupModules::of_server(loader, wanted)?;
        // The line of the message must be gone before anything else is printed.
        drop(loading);
        if let Some(problems) = &refused {
            crate::print_line(&format!(
                "the modules of the configuration cannot be used, those that ran last do:\n{problems}"
            ));
        }
        Ok(PreparedServer {
            me: Proc::new(Nspace::new(me)?, Rank(0)),
            helper,
            begun,
            ground,
            guest_cpu,
            refused,
        })
    }
}

/// Loads the modules of a configuration as a server does when it starts, without its store and its trail.
///
/// # Errors
///
/// Fails if a module cannot be used.
pub fn check_modules(readable: &Readable) -> Result<()> {
    let Readable { resolved, modules } = readable;
    modules.as_ref().map_err(Problems::clone)?;
    let mut resolved = resolved.clone();
    resolved.config.store.path = None;
    resolved.config.audit.path = None;
    let wanted = peal_modules::read_components(&resolved.modules, &resolved.config);
    let cleaning = config::cleanup_settings(&resolved.config, None);
    let (ground, loader) = Ground::new(
        &resolved,
        Notices::default(),
        Box::new(|_| String::new()),
        (cleaning, PrivilegedHelper::default()),
        (None, None),
    )?;
    let loading = WaitMessage::new(LOADING);
    let loaded = StartupModules::of_server(loader, wanted);
    drop(loading);
    loaded?;
    ground.sinks.close(Duration::ZERO);
    Ok(())
}

/// Handlers without a server, and the parts that they need.
pub struct StandaloneHandlers {
    /// Chain of the handlers.
    pub chain: StandaloneChain,
    /// Requests of the handlers.
    pub requests: mpsc::Receiver<HandlerRequest>,
    /// Sinks of the log channels.
    pub sinks: Arc<Sinks>,
    /// Recorder of jobs, if there is a store.
    pub recorder: Option<JobRecorder>,
    /// Loader of the modules.
    pub beginning: StartupModules,
}

impl StandaloneHandlers {
    /// Starts the prepared handlers, for a proc of a job that another server runs.
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
            recorder,
            ..
        } = ground;
        let us = UserIdentity {
            uid: getuid().as_raw(),
            gid: getgid().as_raw(),
        };
        let settings = config::server_settings(config).chains;
        let (chain, requests) =
            StandaloneChain::start((job, us), hosted.chains, &pools, settings, notices);
        StandaloneHandlers {
            chain,
            requests,
            sinks,
            recorder,
            beginning,
        }
    }
}

/// Number of tasks that run before the thread polls its sockets. While one client floods the
/// server, a task is always ready; with the default of 61, all other clients would wait for those
/// tasks.
const BETWEEN_LOOKS: u32 = 4;

/// Number of tasks that run before one that another thread has made ready, such as the thread of a
/// policy. With the default of 31, decisions about all users would wait for the tasks of one that
/// floods the server.
const BETWEEN_THREADS: u32 = 2;

/// Creates the runtime of a server, which has one thread. A message passes from a connection to the
/// state and on to another connection. A switch to another thread would take longer than all of its
/// processing. Guests and files have threads of their own.
pub fn runtime() -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder
        .enable_all()
        .event_interval(BETWEEN_LOOKS)
        .global_queue_interval(BETWEEN_THREADS)
        .build()
        .context("cannot start the runtime")
}

/// Runs the work of a tool. Blocking tasks are not waited for: a terminal or server that does not
/// respond must not keep the process alive.
pub fn as_tool<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = runtime()?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

impl PreparedServer {
    /// Returns the notices of the server. Their listeners do not end while somebody holds them.
    pub fn notices(&self) -> Notices {
        self.ground.notices.clone()
    }
}

/// Server of another process that goes on here, and the state of its host environment.
pub struct ContinuedNode {
    /// Server.
    pub server: ContinuedServer,
    /// State of the host environment.
    pub host: HandedHost,
    /// Stubs of other launchers.
    pub stubs: ContinuedStubs,
}

impl LocalServer {
    /// Starts a prepared server, which meets others on this network.
    pub async fn start(
        prepared: PreparedServer,
        config: &Config,
        network: Arc<dyn ServerNetwork>,
        continued: Option<ContinuedNode>,
    ) -> Result<LocalServer> {
        let PreparedServer {
            me,
            helper,
            begun: StartedModules { hosted, beginning },
            ground,
            guest_cpu,
            refused,
        } = prepared;
        let Ground {
            notices,
            host,
            pools,
            sinks,
            store,
            recorder,
            audit,
        } = ground;
        let recording = audit.clone();
        let router = Arc::new(HostRouter::new(host.clone()));
        let mut stubs = EnteredStubs::default();
        // Before the connections of their procs.
        let continued = match continued {
            Some(ContinuedNode {
                server,
                host: handed,
                stubs: continued,
            }) => {
                host.continue_from(handed, &server.jobs());
                stubs = continued.enter(&router, &config::stub_settings(config))?;
                Some(server)
            }
            None => None,
        };
        let parts = ServerParts {
            me,
            host: router.clone(),
            network,
            hosted,
            pools,
            notices,
            helper,
            audit: recording,
            continued,
        };
        let server = Server::start(config::server_settings(config), parts).await?;
        host.serve(server.handle());
        if let Some(audit) = &audit {
            server.metrics().show_audit(audit.clone());
        }
        if let Some(store) = &store {
            server.metrics().show_store(store.clone());
        }
        peal_modules::show_sinks(&server.metrics(), sinks.clone());
        if let Some(times) = guest_cpu {
            peal_modules::show_guest_cpu(&server.metrics(), times);
        }
        let deployer = beginning.at(&server);
        Ok(LocalServer {
            server,
            host,
            router,
            stubs,
            deployer,
            sinks,
            store,
            recorder,
            audit,
            refused,
        })
    }

    /// Serves metrics if configured.
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

/// Waits until the recorder has written all entries.
pub async fn finish_records(recorder: Option<JobRecorder>) {
    let Some(recorder) = recorder else { return };
    if let Err(error) = tokio::task::spawn_blocking(move || recorder.finish()).await {
        tracing::error!(%error, "job recorder failed, records may not be complete");
    }
}

/// Closes the sinks. Pending output is delivered within the drain time; the rest is lost or stays
/// in the store.
pub async fn close_sinks(sinks: Arc<Sinks>, deadline: Duration) {
    match tokio::task::spawn_blocking(move || sinks.close(deadline)).await {
        Ok(busy) if busy.is_empty() => {}
        Ok(busy) => tracing::warn!(?busy, "sinks closed with undelivered messages"),
        Err(error) => tracing::error!(%error, "sinks not closed"),
    }
}

/// Returns a name that no other process returns, even in containers that have equal process ids.
pub fn unique(prefix: &str) -> String {
    format!(
        "{prefix}-{}-{:08x}",
        std::process::id(),
        random() & 0xffff_ffff
    )
}

/// Returns a random number.
pub fn random() -> u64 {
    // The keys of this hasher are random.
    RandomState::new().hash_one(SystemTime::now())
}

/// Raises the limit of open files to the maximum: each proc needs two or three.
pub fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    ) {
        tracing::debug!(%error, "limit of open files not raised");
    }
}

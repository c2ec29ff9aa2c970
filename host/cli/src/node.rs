//! What every verb that runs a server shares: from the configuration to a server that listens.
use crate::{
    config::{self, Readable},
    trace,
};
use anyhow::{Context, Result};
use peal_config::{Config, Problems, Resolved};
use peal_deploy::{Beginning, Begun, Brought, Deployer, Loader};
use peal_model::{Nspace, Proc, Rank};
use peal_server::{
    EmbeddedFabric, GuestPools, Notices, Parts, Server, embedded::EmbeddedHost, metrics::MetricsEndpoint,
};
use peal_store::Store;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::SystemTime,
};
use tokio::runtime::Runtime;

/// All that can go wrong before a server is there has not.
pub struct Prepared {
    me: Proc,
    notices: Notices,
    host: Arc<EmbeddedHost>,
    begun: Begun,
    pools: GuestPools,
    store: Option<Arc<Store>>,
}

/// A server that listens.
pub struct Node {
    /// The server.
    pub server: Server,
    /// Its host environment.
    pub host: Arc<EmbeddedHost>,
    /// By whom its modules are changed.
    pub deployer: Deployer,
    /// What outlives it, if that is wanted.
    pub store: Option<Arc<Store>>,
}

/// What modules need before there are any.
struct Ground {
    host: Arc<EmbeddedHost>,
    pools: GuestPools,
    store: Option<Arc<Store>>,
    loader: Loader,
}

impl Ground {
    fn new(config: &Config, notices: &Notices) -> Result<Ground> {
        trace::follow(&config.trace.filter)?;
        raise_file_limit();
        let store = store(config)?;
        let pools = peal_deploy::pools(&config.sandbox).context("cannot start the guest threads")?;
        let host = Arc::new(EmbeddedHost::new(notices.clone()));
        let loader = Loader::new(config.clone(), host.clone(), store.clone());
        Ok(Ground { host, pools, store, loader })
    }
}

impl Prepared {
    /// Loads, compiles and starts the modules of the configuration and those that a job brings, and opens the store. The server will
    /// be called `me`.
    pub fn for_job(resolved: &Resolved, me: &str, notices: Notices, job: &Brought) -> Result<Prepared> {
        let wanted = peal_deploy::all(&resolved.modules, &resolved.config)?;
        let Ground { host, pools, store, loader } = Ground::new(&resolved.config, &notices)?;
        let begun = Beginning::of_job(loader, wanted, Some(job))?;
        Ok(Prepared { me: Proc::new(Nspace::new(me)?, Rank(0)), notices, host, begun, pools, store })
    }

    /// The same without a job. If the configuration says of modules what cannot be used, those that ran last are taken where a
    /// store knows them, and what is wrong is told.
    pub fn for_server(resolved: &Readable, me: &str, notices: Notices) -> Result<Prepared> {
        let Readable { resolved, modules } = resolved;
        let wanted = match modules {
            Ok(()) => peal_deploy::all(&resolved.modules, &resolved.config),
            Err(problems) => Err(problems.clone()),
        };
        if resolved.config.store.path.is_none() {
            // Nothing else could be used: what is wrong is told before anything is touched.
            wanted.as_ref().map(drop).map_err(Problems::clone)?;
        }
        let Ground { host, pools, store, loader } = Ground::new(&resolved.config, &notices)?;
        let (begun, problems) = Beginning::of_server(loader, wanted)?;
        if let Some(problems) = problems {
            crate::say(&format!(
                "the modules of the configuration cannot be used, those that ran last do:\n{problems}"
            ));
        }
        Ok(Prepared { me: Proc::new(Nspace::new(me)?, Rank(0)), notices, host, begun, pools, store })
    }
}

/// How many tasks have a turn before the thread looks which sockets have become ready. While one client floods the server there
/// is always a task that is; with the usual 61 turns everybody else would wait for them.
const BETWEEN_LOOKS: u32 = 4;

/// What servers run on: one thread. A message passes from a connection to the state and on to another connection, and each
/// hand-over to another thread would take longer than all that is done about it. Guests and files have threads of their own.
pub fn runtime() -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().event_interval(BETWEEN_LOOKS).build().context("cannot start the runtime")
}

impl Node {
    /// Starts the server of what was prepared.
    pub async fn start(prepared: Prepared, config: &Config) -> Result<Node> {
        let Prepared { me, notices, host, begun: Begun { hosted, beginning }, pools, store } = prepared;
        let fabric = EmbeddedFabric::new();
        let parts = Parts { me, host: host.clone(), fabric, hosted, pools, notices };
        let server = Server::start(config::server_settings(config), parts).await?;
        if let Some(store) = &store {
            server.metrics().show_store(store.clone());
        }
        let deployer = beginning.at(&server);
        Ok(Node { server, host, deployer, store })
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
    let store = store.map(|path| Store::open(path, config::store_settings(config))).transpose()?;
    Ok(store.map(Arc::new))
}

/// A name that no other server has, also where process ids begin anew in every container.
pub fn name() -> String {
    let random = RandomState::new().hash_one(SystemTime::now());
    format!("peal-{}-{:08x}", std::process::id(), random & 0xffff_ffff)
}

/// This node's name.
pub fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Every proc takes two or three files; what the system allows at most is enough for most jobs.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::debug!(%error, "the number of open files stays limited");
    }
}

//! What every verb that runs a server shares: from the configuration to a server that listens.
use crate::{
    component, config,
    limits::Tenants,
    modules::{self, Hosted, Loader},
    trace,
};
use anyhow::{Context, Result};
use peal_config::{Config, Resolved};
use peal_model::{Nspace, Proc, Rank};
use peal_server::{
    EmbeddedFabric, GuestPools, Notices, Parts, Server, embedded::EmbeddedHost, metrics::MetricsEndpoint,
};
use peal_store::Store;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    hash::{BuildHasher, RandomState},
    path::PathBuf,
    sync::Arc,
    time::SystemTime,
};
use tokio::runtime::Runtime;

/// A job that a verb brings along, and the components that handle its events.
pub struct Brought<'a> {
    /// Its name.
    pub nspace: &'a Nspace,
    /// The components.
    pub handlers: &'a [PathBuf],
}

/// All that can go wrong before a server is there has not.
pub struct Prepared {
    me: Proc,
    notices: Notices,
    host: Arc<EmbeddedHost>,
    hosted: Hosted,
    pools: GuestPools,
    store: Option<Arc<Store>>,
}

/// A server that listens.
pub struct Node {
    /// The server.
    pub server: Server,
    /// Its host environment.
    pub host: Arc<EmbeddedHost>,
    /// What outlives it, if that is wanted.
    pub store: Option<Arc<Store>>,
}

impl Prepared {
    /// Loads, compiles and starts the modules and opens the store. The server will be called `me`.
    pub fn new(resolved: &Resolved, me: &str, notices: Notices, job: Option<Brought<'_>>) -> Result<Prepared> {
        trace::follow(&resolved.config.trace.filter)?;
        raise_file_limit();
        let components = component::all(resolved)?;
        let store = store(&resolved.config)?;
        let pools = modules::pools(&resolved.config.sandbox)?;
        let host = Arc::new(EmbeddedHost::new(notices.clone()));
        let site = resolved.modules.iter().zip(components);
        let handlers = job.as_ref().map(|job| job.handlers).unwrap_or_default();
        let hosted = if resolved.modules.is_empty() && handlers.is_empty() {
            // An engine has a thread of its own, which is for nothing where there is nothing to run.
            Hosted::default()
        } else {
            let engine = modules::engine(&resolved.config.sandbox)?;
            let (config, tenants) = (&resolved.config, &Tenants::new(&resolved.config));
            let loader = Loader { engine: &engine, host: &host, store: store.as_ref(), config, tenants };
            modules::hosted(&loader, site, job)?
        };
        Ok(Prepared { me: Proc::new(Nspace::new(me)?, Rank(0)), notices, host, hosted, pools, store })
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
        let Prepared { me, notices, host, hosted, pools, store } = prepared;
        let Hosted { chains, policies, channels } = hosted;
        let fabric = EmbeddedFabric::new();
        let parts = Parts { me, host: host.clone(), fabric, chains, policies, channels, pools, notices };
        let server = Server::start(config::server_settings(config), parts).await?;
        if let Some(store) = &store {
            server.metrics().show_store(store.clone());
        }
        Ok(Node { server, host, store })
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

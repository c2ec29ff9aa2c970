//! Hosted chains: the components that handle events beside the server, one chain per owner.
//!
//! Every owner has a worker with a bounded queue; an event goes to the owners in their order (site, users, namespaces). An
//! owner that cannot keep up misses events, which are counted and traced; it never holds up the others. A whole chain
//! runs in one hand-over to a guest thread; the site's chain has threads of its own.

mod change;
mod queue;
mod view;
mod worker;

pub use view::{ChainView, Standing};

use crate::{
    handle::Raised,
    metrics::Metrics,
    notice::{ChainResults, Notice, Notices, Wished},
};
use peal_core::{
    order::Registrations,
    owner::Owner,
    reach::Reach,
    registration::{Registration, RegistrationError},
    server::Allowance,
};
use peal_model::{Event, Identity, Nspace};
use peal_sandbox::{GuestPool, Module, ModuleRegistration, Role};
use queue::Route;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};
use worker::Worker;

/// What is registered: a module, and by which tag it knows this registration of its own.
#[derive(Clone, Debug)]
pub struct HostedHandler {
    /// The module.
    pub module: Arc<Module>,
    /// The tag that it gave the registration; zero for those of the configuration.
    pub tag: u32,
}

/// The chains of one server, before it starts.
#[derive(Default)]
pub struct HostedChains {
    owners: BTreeMap<Owner, Registrations<HostedHandler>>,
}

impl HostedChains {
    /// Adds a module's handler to its owner's chain.
    pub fn register(
        &mut self,
        owner: Owner,
        registration: Registration,
        handler: HostedHandler,
    ) -> Result<(), RegistrationError> {
        self.owners.entry(owner).or_default().register(registration, handler).map(|_| ())
    }

    /// Adds a handler of a module as the module wishes it.
    pub fn register_wish(
        &mut self,
        owner: Owner,
        module: &Arc<Module>,
        wish: &ModuleRegistration,
    ) -> Result<(), RegistrationError> {
        let (registration, handler) = change::wished(&owner, module, wish)?;
        self.register(owner, registration, handler)
    }
}

/// The threads on which chains run. The site has its own, so that tenants cannot keep it waiting.
#[derive(Clone)]
pub struct GuestPools {
    /// For the site's chain.
    pub site: Arc<GuestPool>,
    /// For everybody else's.
    pub tenants: Arc<GuestPool>,
    /// For policies: everybody waits for these, and nobody's handlers must keep them.
    pub policies: Arc<GuestPool>,
    /// For log channels, which may wait for disks and networks.
    pub channels: Arc<GuestPool>,
}

/// Limits and times of hosted chains; all of them settings.
#[derive(Clone, Debug)]
pub struct ChainSettings {
    /// How many events may wait for the chain of one owner.
    pub queue: usize,
    /// How much memory these may take, in bytes.
    pub queue_bytes: usize,
    /// How long events that were accepted have to pass the chains at shutdown.
    pub drain_timeout: Duration,
}

impl Default for ChainSettings {
    fn default() -> Self {
        ChainSettings { queue: 65_536, queue_bytes: 64 << 20, drain_timeout: Duration::from_secs(10) }
    }
}

/// An event that is to pass the chains.
pub(crate) struct Entering {
    pub(crate) event: Arc<Event>,
    /// Whose chains it may pass.
    pub(crate) reach: Reach,
    /// How many events their handlers may raise.
    pub(crate) allowance: Allowance,
    /// Who its source is.
    pub(crate) source: Option<Identity>,
    /// The jobs of this server, with their users, when the event was raised.
    pub(crate) jobs: Arc<Vec<(Nspace, Identity)>>,
    /// Who waits for what the handlers wish, if somebody does.
    pub(crate) asked: Option<Asked>,
}

/// Whoever waits is told once: of the wish of the highest owner that has one, as soon as that owner's chain is behind the event.
/// If nobody has one this is dropped, and so it is wherever an event gets lost.
pub(crate) type Asked = oneshot::Sender<Wished>;

/// An event on its way through the owners.
struct Passing {
    entered: Entering,
    bytes: usize,
    /// What it has met so far.
    results: Vec<ChainResults>,
}

impl Passing {
    /// What the last chain says to whoever waits for it.
    fn answer(&mut self) -> Option<(Asked, Wished)> {
        let wished = self.results.last().and_then(Wished::by)?;
        Some((self.entered.asked.take()?, wished))
    }
}

/// What the workers and the server share.
struct Shared {
    notices: Notices,
    metrics: Arc<Metrics>,
    /// How many events are on their way.
    under_way: AtomicUsize,
    /// Set when time is over: chains end before their next handler.
    stopped: AtomicBool,
}

impl Shared {
    /// The last chain is behind an event.
    fn passed(&self, passing: Passing) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        let Passing { entered, results, .. } = passing;
        self.notices.tell(Notice::Passed { event: entered.event, results: Arc::new(results) });
    }
}

/// The running chains.
pub(crate) struct Chains {
    route: Route,
    workers: JoinSet<()>,
    settings: ChainSettings,
    shared: Arc<Shared>,
    view: ChainView,
}

impl Chains {
    /// Starts a worker per owner; what handlers raise goes to `raised`.
    pub(crate) fn start(
        hosted: HostedChains,
        pools: &GuestPools,
        settings: ChainSettings,
        raised: &mpsc::Sender<Raised>,
        notices: Notices,
        metrics: Arc<Metrics>,
    ) -> Chains {
        let (under_way, stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
        let shared = Arc::new(Shared { notices, metrics, under_way, stopped });
        let view = ChainView::default();
        let mut route = Route::end();
        let mut workers = JoinSet::new();
        // From the last owner to the first, so that each knows who comes after it.
        for (owner, registrations) in hosted.owners.into_iter().rev() {
            let pool = if owner == Owner::Site { &pools.site } else { &pools.tenants };
            let after = route.clone();
            let queue = route.begin_with(owner.clone(), &settings);
            let modules = registrations.iter().map(|(_, _, handler)| handler.module.name());
            view.publish(&owner, &registrations);
            let meters = shared.metrics.modules(&owner, Role::EventHandler.name(), modules);
            let worker = Worker {
                meters,
                owner,
                registrations,
                pool: pool.clone(),
                raised: raised.clone(),
                after,
                shared: shared.clone(),
                view: view.clone(),
            };
            workers.spawn(worker.run(queue));
        }
        Chains { route, workers, settings, shared, view }
    }

    /// What is registered, for whoever asks.
    pub(crate) fn view(&self) -> ChainView {
        self.view.clone()
    }

    /// Lets an event pass through the chains.
    pub(crate) fn submit(&self, entered: Entering) {
        let bytes = peal_model::Size::of_event(&entered.event).bytes;
        self.shared.under_way.fetch_add(1, Ordering::Relaxed);
        self.shared.notices.tell(Notice::Raised(entered.event.clone()));
        self.route.pass(Passing { entered, bytes, results: Vec::new() }, &self.shared);
    }

    /// Waits until every event submitted has passed and the modules have stopped, but no longer than may be: slow handlers
    /// with many events before them must not keep a server from ending.
    pub(crate) async fn drain(mut self) {
        drop(self.route);
        // Each worker ends when its queue is closed, which those before it do by ending.
        let all = async { while self.workers.join_next().await.is_some() {} };
        if tokio::time::timeout(self.settings.drain_timeout, all).await.is_err() {
            self.shared.stopped.store(true, Ordering::Relaxed);
            let left = self.shared.under_way.load(Ordering::Relaxed);
            self.shared.metrics.counters().chain_events_dropped.add(left);
            tracing::error!(events = left, after = ?self.settings.drain_timeout, "events before the hosted chains are dropped");
        }
    }
}

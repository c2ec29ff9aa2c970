//! Hosted chains: the components that handle events beside the server, one chain per owner.
//!
//! Every owner has a worker with a bounded queue; an event goes to the owners in their order (site, users, namespaces). An
//! owner that cannot keep up misses events, which are counted and traced; it never holds up the others. A whole chain
//! runs in one hand-over to a guest thread; the site's chain has threads of its own.

mod chain_modules;
mod change;
mod hosted;
mod queue;
mod standalone;
mod view;
mod worker;

pub use hosted::HostedChains;
pub use standalone::{ChainCompletion, StandaloneChain};
pub use view::{ChainView, RegisteredHandler};

use crate::{
    handler_requests::HandlerRequest,
    metrics::Metrics,
    notice::{ChainResults, Notice, Notices, ReachedJobs, Wished},
    shadow::Shadows,
};
use peal_core::{owner::Owner, server::EventBudget, user_scope::UserScope};
use peal_model::{Event, Nspace, UserIdentity};
use peal_sandbox::{GuestPool, Module};
use queue::Route;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};
use tracing::{Span, field};
use worker::ChainWorker;

/// What is registered: a module, and by which tag it knows this registration of its own.
#[derive(Clone, Debug)]
pub struct HostedHandler {
    /// The module.
    pub module: Arc<Module>,
    /// The tag that it gave the registration; zero for those of the configuration.
    pub tag: u32,
}

impl HostedHandler {
    /// A module as the configuration has it.
    pub fn new(module: Arc<Module>) -> HostedHandler {
        HostedHandler { module, tag: 0 }
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
    /// For those that only look on.
    pub shadows: Arc<GuestPool>,
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
        ChainSettings {
            queue: 65_536,
            queue_bytes: 64 << 20,
            drain_timeout: Duration::from_secs(10),
        }
    }
}

/// An event that is to pass the chains.
pub(crate) struct ChainEvent {
    /// Its number, for records.
    pub(crate) number: u64,
    pub(crate) event: Arc<Event>,
    /// Whose chains it may pass.
    pub(crate) reach: UserScope,
    /// How many events their handlers may raise.
    pub(crate) allowance: EventBudget,
    /// Who its source is.
    pub(crate) source: Option<UserIdentity>,
    /// The jobs of this server, with their users, when the event was raised.
    pub(crate) jobs: Arc<Vec<(Nspace, UserIdentity)>>,
    /// Who waits for what the handlers wish, if somebody does.
    pub(crate) asked: Option<TerminationReply>,
    /// Who waits for what all of them answer, if somebody does.
    pub(crate) awaited: Option<Awaited>,
    /// The span of the event, which belongs to the request that raised it.
    pub(crate) span: Span,
}

impl ChainEvent {
    /// Makes the span of an event, within the current one.
    pub(crate) fn span(number: u64, event: &Event) -> Span {
        let source = event.source.as_ref().map(field::display);
        tracing::info_span!("event", number, code = %event.code, source)
    }
}

/// Whoever waits is told when the last chain is behind the event. Wherever an event gets lost this is dropped.
pub(crate) type Awaited = oneshot::Sender<Arc<Vec<ChainResults>>>;

/// Whoever waits is told once: of the wish of the highest owner that has one, as soon as that owner's chain is behind the event.
/// If nobody has one this is dropped, and so it is wherever an event gets lost.
pub(crate) type TerminationReply = oneshot::Sender<Wished>;

/// An event on its way through the owners.
struct EventInFlight {
    entered: ChainEvent,
    bytes: usize,
    /// What it has met so far.
    results: Vec<ChainResults>,
}

impl EventInFlight {
    /// What the last chain says to whoever waits for it.
    fn answer(&mut self) -> Option<(TerminationReply, Wished)> {
        let wished = self.results.last().and_then(Wished::by)?;
        Some((self.entered.asked.take()?, wished))
    }
}

/// What the workers and the server share.
struct SharedChain {
    notices: Notices,
    metrics: Arc<Metrics>,
    shadows: Shadows,
    /// How many events are on their way ...
    under_way: AtomicUsize,
    /// ... and how many there were so far.
    numbered: AtomicU64,
    /// Set when time is over: chains end before their next handler.
    stopped: AtomicBool,
}

impl SharedChain {
    /// The last chain is behind an event.
    fn passed(&self, passing: EventInFlight) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        let EventInFlight {
            entered, results, ..
        } = passing;
        let results = Arc::new(results);
        let reached = ReachedJobs::new(entered.reach, entered.jobs);
        self.notices.tell(Notice::Passed {
            event: entered.event,
            results: results.clone(),
            reached,
        });
        // Who waited may have gone.
        entered.awaited.map(|awaited| awaited.send(results));
    }
}

/// A worker, which ends with this.
struct Working(JoinHandle<()>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The running chains.
pub(crate) struct Chains {
    route: Route,
    /// Also those whose owners have no chain any more, as long as they are at work.
    workers: Vec<(Owner, Working)>,
    pools: GuestPools,
    wanted: mpsc::Sender<HandlerRequest>,
    settings: ChainSettings,
    shared: Arc<SharedChain>,
    view: ChainView,
}

impl Chains {
    /// Starts a worker per owner; what handlers want goes to `wanted`.
    pub(crate) fn start(
        hosted: HostedChains,
        pools: &GuestPools,
        settings: ChainSettings,
        wanted: &mpsc::Sender<HandlerRequest>,
        notices: Notices,
        metrics: Arc<Metrics>,
        shadows: Shadows,
    ) -> Chains {
        let (under_way, numbered, stopped) = (
            AtomicUsize::new(0),
            AtomicU64::new(0),
            AtomicBool::new(false),
        );
        let shared = Arc::new(SharedChain {
            notices,
            metrics,
            shadows,
            under_way,
            numbered,
            stopped,
        });
        let mut chains = Chains {
            route: Route::default(),
            workers: Vec::new(),
            pools: pools.clone(),
            wanted: wanted.clone(),
            settings,
            shared,
            view: ChainView::default(),
        };
        chains.replace(hosted);
        chains
    }

    /// Puts these in the place of those there are, at once for all owners. What is running finishes as it began.
    pub(crate) fn replace(&mut self, hosted: HostedChains) {
        self.workers.retain(|(_, worker)| !worker.0.is_finished());
        for gone in self
            .route
            .owners()
            .iter()
            .filter(|owner| !hosted.owners.contains_key(*owner))
        {
            // Its worker goes on until it is behind what it has been handed.
            self.route.close(gone);
            self.view.withdraw(gone);
        }
        for (owner, seats) in hosted.owners {
            let Some(queue) = self.route.seat(&owner, seats.into(), &self.settings) else {
                continue;
            };
            let pool = if owner == Owner::Site {
                &self.pools.site
            } else {
                &self.pools.tenants
            };
            let worker = ChainWorker::new(
                owner.clone(),
                pool.clone(),
                self.wanted.clone(),
                self.route.clone(),
                self.shared.clone(),
                self.view.clone(),
            );
            self.workers
                .push((owner, Working(tokio::spawn(worker.run(queue)))));
        }
    }

    /// What is registered, for whoever asks.
    pub(crate) fn view(&self) -> ChainView {
        self.view.clone()
    }

    /// The number of one more event, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.shared
            .numbered
            .fetch_add(1, Ordering::Relaxed)
            .saturating_add(1)
    }

    /// Lets an event pass through the chains.
    pub(crate) fn submit(&self, entered: ChainEvent) {
        let bytes = peal_model::Size::of_event(&entered.event).bytes;
        self.shared.under_way.fetch_add(1, Ordering::Relaxed);
        self.shared
            .notices
            .tell(Notice::EventEntered(entered.event.clone()));
        self.route.pass(
            None,
            EventInFlight {
                entered,
                bytes,
                results: Vec::new(),
            },
            &self.shared,
        );
    }

    /// Waits until every event submitted has passed and the modules have stopped, but no longer than may be: slow handlers
    /// with many events before them must not keep a server from ending.
    pub(crate) async fn drain(self) {
        let Chains {
            route,
            mut workers,
            settings,
            shared,
            ..
        } = self;
        workers.sort_by(|one, other| one.0.cmp(&other.0));
        // Whoever is first in the order of owners has nobody who could still hand it an event.
        let all = async {
            for (owner, mut worker) in workers {
                route.close(&owner);
                // One that panicked has said so.
                let _ = (&mut worker.0).await;
            }
        };
        if tokio::time::timeout(settings.drain_timeout, all)
            .await
            .is_err()
        {
            shared.stopped.store(true, Ordering::Relaxed);
            let left = shared.under_way.load(Ordering::Relaxed);
            shared.metrics.counters().chain_events_dropped.add(left);
            if left > 0 {
                let after = settings.drain_timeout;
                tracing::error!(
                    events = left,
                    ?after,
                    "events before the hosted chains are dropped"
                );
            }
        }
    }
}

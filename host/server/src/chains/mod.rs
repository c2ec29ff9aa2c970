//! Hosted chains: components that handle events in the server, one chain for each owner.
//!
//! Every owner has a worker with a bounded queue. An event passes the chain of the site, then those
//! of all users beside each other, each before the chains of the user's namespaces. An owner that
//! does not keep up misses events, which are counted and traced, and delays no other user. A whole
//! chain runs in one hand-over to a guest thread. The site's chain has threads of its own.

mod branches;
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
    notice::{ChainResults, EventMeasurement, Notice, Notices, ReachedJobs, RequestedTermination},
    shadow::Shadows,
};
use branches::EventJoin;
use peal_core::{
    chain::ChainMember,
    owner::Owner,
    quota::{Quota, QuotaReport},
    registration::ChainPart,
    server::{EventBudget, EventOrigin},
    user_scope::UserScope,
};
use peal_model::{Event, Nspace, UserIdentity};
use peal_sandbox::GuestPool;
use peal_tenant::{HandlerOrder, LoadedModule, TenantModule};
use queue::{QueueCharge, Route};
use std::{
    collections::BTreeSet,
    mem,
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

/// Registered handler: a module, and the tag by which it identifies the registration.
#[derive(Clone, Debug)]
pub struct HostedHandler {
    /// The module.
    pub module: LoadedModule,
    /// Tag that the module gave the registration; zero for registrations of the configuration.
    pub tag: u32,
}

impl HostedHandler {
    /// Returns the handler of a module for a registration of the configuration.
    pub fn new(module: impl Into<LoadedModule>) -> HostedHandler {
        HostedHandler {
            module: module.into(),
            tag: 0,
        }
    }
}

/// Returns the order to call a handler in the process of its user.
pub(crate) fn handler_order(
    member: &ChainMember<HostedHandler>,
    module: &TenantModule,
) -> HandlerOrder {
    HandlerOrder {
        module: module.number(),
        registration: member.id.0,
        tag: member.handler.tag,
        name: member.registration.name.clone(),
        object: member.registration.object.clone(),
    }
}

/// Guest pools, on which chains run. The site has a pool of its own, so that tenants cannot delay
/// its chain.
#[derive(Clone)]
pub struct GuestPools {
    /// Pool of the site's chain.
    pub site: Arc<GuestPool>,
    /// Pool of the chains of tenants.
    pub tenants: Arc<GuestPool>,
    /// Pool of policies. It is separate because requests of all users wait for policies, so
    /// handlers must not delay them.
    pub policies: Arc<GuestPool>,
    /// Pool of log channels, which may wait for disks and networks.
    pub channels: Arc<GuestPool>,
    /// Pool of shadow modules.
    pub shadows: Arc<GuestPool>,
}

/// Limits and times of hosted chains. All of them are settings.
#[derive(Clone, Debug)]
pub struct ChainSettings {
    /// Upper bound of the events that wait for the chain of one owner.
    pub queue: usize,
    /// Upper bound of the memory of these events, in bytes.
    pub queue_bytes: usize,
    /// Upper bound of the memory of the events that wait for the chains of one user and its
    /// namespaces, in bytes.
    pub user_queue_bytes: usize,
    /// Upper bound of the memory of the events that wait for the chains of all users and
    /// namespaces, in bytes.
    pub total_queue_bytes: usize,
    /// Time in which accepted events must pass the chains at shutdown.
    pub drain_timeout: Duration,
}

impl Default for ChainSettings {
    fn default() -> Self {
        ChainSettings {
            queue: 65_536,
            queue_bytes: 64 << 20,
            user_queue_bytes: 128 << 20,
            total_queue_bytes: 512 << 20,
            drain_timeout: Duration::from_secs(10),
        }
    }
}

/// Event that is to pass the chains.
pub(crate) struct ChainEvent {
    /// Number of the event, for records.
    pub(crate) number: u64,
    pub(crate) event: Arc<Event>,
    /// Server at which the event was raised.
    pub(crate) origin: EventOrigin,
    /// Owners whose whole chain runs here. Of the others, the handlers that are called at each server
    /// run here.
    pub(crate) whole_chains: WholeChains,
    /// Users whose chains the event may pass.
    pub(crate) reach: UserScope,
    /// Events that the handlers may still raise.
    pub(crate) allowance: EventBudget,
    /// User of the source.
    pub(crate) source: Option<UserIdentity>,
    /// Jobs of this server with their users, at the time when the event was raised.
    pub(crate) jobs: Arc<Vec<(Nspace, UserIdentity)>>,
    /// Sender of the handlers' termination request, if a request waits for it.
    pub(crate) termination_reply: Option<TerminationReply>,
    /// Sender of the results of all handlers, if a request waits for them.
    pub(crate) awaited: Option<Awaited>,
    /// Span of the event, inside the span of the request that raised it.
    pub(crate) span: Span,
}

impl ChainEvent {
    /// Creates the span of an event, inside the current one. At a level where it is disabled, this
    /// is the current span, so that warnings of the chains name the connection.
    pub(crate) fn span(number: u64, event: &Event) -> Span {
        let source = event.source.as_ref().map(field::display);
        tracing::info_span!("event", number, code = %event.code, source).or_current()
    }
}

/// Owners whose whole chain a server runs for an event.
#[derive(Clone, Debug)]
pub(crate) enum WholeChains {
    /// All: the event was raised at this server.
    All,
    /// These: another server runs the chains of the others.
    Of(Arc<BTreeSet<Owner>>),
}

impl WholeChains {
    /// Returns the part of an owner's chain that runs here.
    fn part_of(&self, owner: &Owner) -> ChainPart {
        match self {
            WholeChains::All => ChainPart::Whole,
            WholeChains::Of(owners) if owners.contains(owner) => ChainPart::Whole,
            WholeChains::Of(_) => ChainPart::EachNode,
        }
    }
}

/// Sender of the results, used after the last chain. It is dropped if the event is lost.
pub(crate) type Awaited = oneshot::Sender<Arc<Vec<ChainResults>>>;

/// Sender of the termination request of the first owner that has one. It is used once, as soon as
/// that owner's chain has finished, and dropped if no owner has one or the event is lost.
pub(crate) type TerminationReply = oneshot::Sender<RequestedTermination>;

/// Event on its way through the owners.
struct EventInFlight {
    entered: ChainEvent,
    /// Measurement of the event, if it has a use. A reference keeps the event small for the queues.
    measurement: Option<Arc<EventMeasurement>>,
    bytes: usize,
    /// Results of the chains so far.
    results: Vec<ChainResults>,
    /// Branches of the event, if it passes several chains beside each other.
    join: Option<Arc<EventJoin>>,
    /// Charge to the user of the queue in which it waits.
    charge: Option<QueueCharge>,
}

impl EventInFlight {
    /// Returns the termination request of the last chain and the sender for it, if both exist.
    fn answer(&mut self) -> Option<(TerminationReply, RequestedTermination)> {
        let termination = self.results.last().and_then(RequestedTermination::by)?;
        Some((self.entered.termination_reply.take()?, termination))
    }
}

/// State shared by the workers and the server.
struct SharedChain {
    notices: Notices,
    metrics: Arc<Metrics>,
    shadows: Shadows,
    /// Number of events in the chains.
    under_way: AtomicUsize,
    /// Number of events so far.
    numbered: AtomicU64,
    /// Set when the drain timeout has expired: chains end before their next handler.
    stopped: AtomicBool,
}

impl SharedChain {
    /// Ends a branch of an event. After the last one, notifies listeners and the waiting request.
    fn passed(&self, branch: EventInFlight) {
        let Some(passing) = branch.joined() else {
            return;
        };
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        let EventInFlight {
            entered,
            measurement,
            results,
            ..
        } = passing;
        let measured = measurement.map(|begun| {
            let measured = begun.end(entered.number, entered.user_of_source());
            (measured, begun)
        });
        let results = Arc::new(results);
        let activity = self.metrics.activity();
        match &measured {
            Some((measured, begun)) if begun.is_recorded => {
                activity.record_passage(measured, &entered.event, &results, &entered.jobs);
            }
            _ => activity.leave_passage_out(entered.user_of_source(), &results, &entered.jobs),
        }
        let reached = ReachedJobs::new(entered.reach, entered.jobs);
        self.notices.notify(Notice::Passed {
            event: entered.event,
            results: results.clone(),
            reached,
            origin: entered.origin,
            measured: measured
                .filter(|(_, begun)| begun.is_traced)
                .map(|(measured, _)| measured),
        });
        // Ignore the error: the request may no longer wait.
        entered.awaited.map(|awaited| awaited.send(results));
    }
}

/// Task of a worker, aborted on drop.
struct Working(JoinHandle<()>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Running chains.
pub(crate) struct Chains {
    route: Route,
    /// Workers, including those whose owners have no chain any more and that still process events.
    workers: Vec<(Owner, Working)>,
    pools: GuestPools,
    handler_requests: mpsc::Sender<HandlerRequest>,
    settings: ChainSettings,
    shared: Arc<SharedChain>,
    view: ChainView,
}

impl Chains {
    /// Starts a worker for each owner. Requests of handlers go to `handler_requests`.
    pub(crate) fn start(
        hosted: HostedChains,
        pools: &GuestPools,
        settings: ChainSettings,
        handler_requests: &mpsc::Sender<HandlerRequest>,
        notices: Notices,
        metrics: Arc<Metrics>,
        shadows: Shadows,
    ) -> Chains {
        let under_way = AtomicUsize::new(0);
        let numbered = AtomicU64::new(0);
        let stopped = AtomicBool::new(false);
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
            handler_requests: handler_requests.clone(),
            settings,
            shared,
            view: ChainView::default(),
        };
        chains.replace(hosted);
        chains
    }

    /// Replaces the chains of all owners. An event that is being handled is finished by the
    /// previous modules.
    pub(crate) fn replace(&mut self, hosted: HostedChains) {
        // Drop the workers that have ended, so that the list does not grow with each replacement.
        self.workers.retain(|(_, worker)| !worker.0.is_finished());
        for gone in self
            .route
            .owners()
            .iter()
            .filter(|owner| !hosted.owners.contains_key(*owner))
        {
            // The worker continues until its queue is empty.
            self.route.close(gone);
            self.view.withdraw(gone);
        }
        for (owner, modules) in hosted.owners {
            // Without a queue the owner has a worker, which takes the new modules over.
            let Some(queue) = self
                .route
                .set_modules(&owner, modules.into(), &self.settings)
            else {
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
                self.handler_requests.clone(),
                self.route.clone(),
                self.shared.clone(),
                self.view.clone(),
            );
            self.workers
                .push((owner, Working(tokio::spawn(worker.run(queue)))));
        }
    }

    /// Returns the view of the current registrations.
    pub(crate) fn view(&self) -> ChainView {
        self.view.clone()
    }

    /// Returns the number of the next event, starting at 1.
    pub(crate) fn number(&self) -> u64 {
        self.shared
            .numbered
            .fetch_add(1, Ordering::Relaxed)
            .saturating_add(1)
    }

    /// Returns the number of the last event.
    pub(crate) fn numbered(&self) -> u64 {
        self.shared.numbered.load(Ordering::Relaxed)
    }

    /// Continues the numbers of events after this one.
    pub(crate) fn continue_numbers(&self, last: u64) {
        self.shared.numbered.store(last, Ordering::Relaxed);
    }

    /// Returns true if events are in the chains.
    pub(crate) fn are_busy(&self) -> bool {
        self.shared.under_way.load(Ordering::Relaxed) > 0
    }

    /// Returns the owners whose whole chain runs here, from the part that runs of each.
    pub(crate) fn whole_chains(&self, part: impl Fn(&Owner) -> ChainPart) -> WholeChains {
        let owners = self.route.owners();
        let count = owners.len();
        let whole = owners.into_iter();
        let whole: BTreeSet<Owner> = whole
            .filter(|owner| part(owner) == ChainPart::Whole)
            .collect();
        if whole.len() == count {
            WholeChains::All
        } else {
            WholeChains::Of(Arc::new(whole))
        }
    }

    /// Lets an event pass the chains.
    pub(crate) fn submit(&self, entered: ChainEvent) {
        let bytes = peal_model::Size::of_event(&entered.event).bytes;
        let activity = self.shared.metrics.activity();
        let is_recorded = activity.event_enters(entered.user_of_source(), entered.event.code);
        let is_traced = self.shared.notices.takes_sample();
        let measurement = EventMeasurement::begin(is_traced, is_recorded);
        // Count first: without owners the event has passed before `pass` returns.
        self.shared.under_way.fetch_add(1, Ordering::Relaxed);
        self.shared
            .notices
            .notify(Notice::EventEntered(entered.event.clone()));
        self.route.pass(
            None,
            EventInFlight {
                entered,
                measurement,
                bytes,
                results: Vec::new(),
                join: None,
                charge: None,
            },
            &self.shared,
        );
    }

    /// Adds the events that wait for the chains of each user to a report.
    pub(crate) fn report_quotas(&self, report: &mut QuotaReport) {
        let ChainSettings {
            user_queue_bytes,
            total_queue_bytes,
            ..
        } = self.settings;
        report.limit(
            Quota::ChainQueueBytes,
            user_queue_bytes,
            Some(total_queue_bytes),
        );
        report.hold(Quota::ChainQueueBytes, self.route.bytes_by_user());
    }

    /// Waits until every submitted event has passed and the modules have stopped, at most the drain
    /// timeout. The bound exists because slow handlers with many waiting events must not keep a
    /// server from ending.
    pub(crate) fn drain(&mut self) -> impl Future<Output = ()> + Send + use<> {
        let mut workers = mem::take(&mut self.workers);
        let route = self.route.clone();
        let shared = self.shared.clone();
        let drain_timeout = self.settings.drain_timeout;
        workers.sort_by(|one, other| one.0.cmp(&other.0));
        async move {
            // Close the queues in the order of the owners: once an earlier owner has finished, no event
            // can be passed to the next one.
            let all = async {
                for (owner, mut worker) in workers {
                    route.close(&owner);
                    // A worker that panicked has already reported it.
                    let _ = (&mut worker.0).await;
                }
            };
            if tokio::time::timeout(drain_timeout, all).await.is_err() {
                // The workers are aborted, but a chain on a guest thread continues: this flag ends it
                // before its next handler.
                shared.stopped.store(true, Ordering::Relaxed);
                let left = shared.under_way.load(Ordering::Relaxed);
                shared.metrics.counters().chain_events_dropped.add(left);
                if left > 0 {
                    let after = drain_timeout;
                    tracing::error!(
                        events = left,
                        ?after,
                        "hosted chains not drained in time; events dropped"
                    );
                }
            }
        }
    }
}

//! Hosted chains: the components that handle events beside the server, one chain per owner.
//!
//! Every owner has a worker with a bounded queue; an event goes through the owners' queues in their order (site, user,
//! namespace), so that a slow tenant never delays the site. A whole chain runs in one hand-over to the guest threads.
use crate::{
    actor::ServerHandle,
    counters::Counters,
    notice::{Notice, Notices},
};
use peal_core::{
    chain::{Finished, Next, Outcome},
    owner::Owner,
    registration::{Registration, RegistrationError, Registrations},
    server::Generation,
};
use peal_model::{Event, Nspace, Proc, rank};
use peal_sandbox::{EventCall, GuestPool, Module, Notification};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};

/// The chains of one server, before it starts.
#[derive(Default)]
pub struct HostedChains {
    owners: BTreeMap<Owner, Registrations<Arc<Module>>>,
}

impl HostedChains {
    /// No chains.
    pub fn new() -> HostedChains {
        HostedChains::default()
    }

    /// Adds a module's handler to its owner's chain.
    pub fn register(
        &mut self,
        owner: Owner,
        registration: Registration,
        module: Arc<Module>,
    ) -> Result<(), RegistrationError> {
        self.owners.entry(owner).or_default().register(registration, module).map(|_| ())
    }
}

/// An event on its way through the owners.
struct Passing {
    event: Arc<Event>,
    generation: Generation,
    source: Option<Credentials>,
    /// The jobs of this server, with their users, when the event was raised.
    jobs: Arc<Vec<(Nspace, u32)>>,
    reception: Reception,
}

type Credentials = (u32, u32);

/// Whether an event has met a handler.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reception {
    Handled,
    NoHandler,
}

impl Passing {
    /// The last chain is behind it.
    fn left(self, notices: &Notices) {
        if self.reception == Reception::NoHandler {
            notices.tell(Notice::NotHandled(self.event));
        }
    }
}

/// What the workers share.
struct Workshop {
    pool: Arc<GuestPool>,
    notices: Notices,
    counters: Arc<Counters>,
}

impl Workshop {
    /// Runs something on a guest thread and waits for it; nothing if no thread takes it.
    async fn on_guest_thread<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (tell, told) = oneshot::channel();
        let job = move || {
            // Whoever asked waits; if it is gone, so is the server.
            let _ = tell.send(job());
        };
        self.pool.try_run(job).ok()?;
        told.await.ok()
    }
}

/// The running chains.
pub(crate) struct Chains {
    first: Option<mpsc::Sender<Passing>>,
    workers: JoinSet<()>,
    drain_timeout: Duration,
    notices: Notices,
    counters: Arc<Counters>,
}

impl Chains {
    /// Starts a worker per owner; what handlers raise goes to `server`.
    pub(crate) fn start(
        hosted: HostedChains,
        pool: Arc<GuestPool>,
        queue: usize,
        drain_timeout: Duration,
        server: &ServerHandle,
        notices: Notices,
        counters: Arc<Counters>,
    ) -> Chains {
        let mut chains = Chains { first: None, workers: JoinSet::new(), drain_timeout, notices, counters };
        let shop = Workshop { pool, notices: chains.notices.clone(), counters: chains.counters.clone() };
        let shop = Arc::new(shop);
        // From the last owner to the first, so that each knows where an event goes next.
        for (owner, registrations) in hosted.owners.into_iter().rev() {
            let (send, receive) = mpsc::channel(queue);
            let next = chains.first.replace(send);
            let worker = Worker { owner, registrations, shop: shop.clone(), server: server.clone(), next };
            chains.workers.spawn(worker.run(receive));
        }
        chains
    }

    /// Lets an event pass through the chains. If the first queue is full, the event is counted and traced as dropped.
    pub(crate) fn submit(
        &self,
        event: Arc<Event>,
        generation: Generation,
        source: Option<Credentials>,
        jobs: Arc<Vec<(Nspace, u32)>>,
    ) {
        let code = event.code;
        let passing = Passing { event, generation, source, jobs, reception: Reception::NoHandler };
        let Some(first) = &self.first else { return passing.left(&self.notices) };
        if first.try_send(passing).is_err() {
            self.counters.chain_events_dropped.count();
            tracing::error!(%code, "the queue of the hosted chains is full: the event passes them by");
        }
    }

    /// Waits until every event submitted has passed and the modules have stopped, but no longer than may be: slow handlers
    /// with many events before them must not keep a server from ending.
    pub(crate) async fn drain(mut self) {
        self.first = None;
        // Each worker ends when its queue is closed, which the one before it does by ending.
        let all = async { while self.workers.join_next().await.is_some() {} };
        if tokio::time::timeout(self.drain_timeout, all).await.is_err() {
            self.counters.chain_events_dropped.count();
            tracing::error!(after = ?self.drain_timeout, "events that are still before the hosted chains are dropped");
        }
    }
}

struct Worker {
    owner: Owner,
    registrations: Registrations<Arc<Module>>,
    shop: Arc<Workshop>,
    server: ServerHandle,
    next: Option<mpsc::Sender<Passing>>,
}

impl Worker {
    async fn run(mut self, mut queue: mpsc::Receiver<Passing>) {
        while let Some(mut passing) = queue.recv().await {
            if self.owner.sees(&passing.event, passing.jobs.iter().map(|(nspace, uid)| (nspace, *uid))) {
                self.handle(&mut passing).await;
            }
            match &self.next {
                // The next worker ends only after this one, when its queue is closed.
                Some(next) => drop(next.send(passing).await),
                None => passing.left(&self.shop.notices),
            }
        }
        let modules: Vec<Arc<Module>> = self.registrations.iter().map(|(_, _, module)| module.clone()).collect();
        if self.shop.on_guest_thread(move || modules.iter().for_each(|module| module.stop())).await.is_none() {
            tracing::warn!(owner = %self.owner, "no guest thread was free to tell the modules that they stop");
        }
    }

    async fn handle(&mut self, passing: &mut Passing) {
        let run = self.registrations.run(passing.event.clone());
        if run.is_empty() {
            return;
        }
        let source = passing.source;
        let Some(walked) = self.shop.on_guest_thread(move || walk(run, source)).await else {
            self.shop.counters.chain_events_dropped.count();
            tracing::error!(owner = %self.owner, code = %passing.event.code, "no guest thread could run the chain");
            return;
        };
        for id in &walked.finished.spent {
            self.registrations.deregister(*id);
        }
        self.shop.counters.chains_run.count();
        passing.reception = Reception::Handled;
        let notice =
            Notice::Handled { owner: self.owner.clone(), event: passing.event.clone(), steps: walked.finished.steps };
        self.shop.notices.tell(notice);
        for notification in walked.raised {
            self.raise(notification, passing.generation.next());
        }
    }

    /// Raises an event on behalf of a handler: a job's handlers speak as their job, others as the resource manager.
    fn raise(&self, notification: Notification, generation: Generation) {
        let source = match &self.owner {
            Owner::Namespace(nspace) => Some(Proc::new(nspace.clone(), rank::PMIX_RANK_UNDEF)),
            Owner::Site | Owner::User(_) => None,
        };
        let Notification { code, range, infos, .. } = notification;
        self.server.notify(Event { code, source, range, infos }, generation);
    }
}

struct Walked {
    finished: Finished,
    raised: Vec<Notification>,
}

/// Runs on a guest thread: the whole chain, one handler after the other.
fn walk(mut run: peal_core::chain::ChainRun<Arc<Module>>, credentials: Option<Credentials>) -> Walked {
    let mut raised = Vec::new();
    loop {
        let call = match run.advance() {
            Next::Call(call) => call,
            Next::Done(finished) => return Walked { finished, raised },
        };
        let member = call.member();
        let result = member.handler.handle(&EventCall {
            registration: member.id.0,
            event: call.event().clone(),
            credentials,
            steps: call.steps().clone(),
        });
        raised.extend(result.notifications);
        run = call.finish(Outcome { status: result.status, infos: result.infos });
    }
}

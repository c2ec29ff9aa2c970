//! The one task that owns the server's state: everything that happens goes through it, in one order.
use crate::{
    admission::Arrival,
    chains::Chains,
    fabric::{Fabric, ServerId},
    host::Host,
    metrics::Metrics,
    notice::{Notice, Notices},
    upcalls,
};
use peal_core::{
    Time,
    job::{Census, JobSpec, Life},
    server::{Action, Allowance, FenceId, PeerId, Refusal, RequestId, Server, Upcall},
};
use peal_model::{ConnectionKind, Event, Identity, Info, Kval, Nspace, Proc, RankData, Reply, Request, Size, Status};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use thiserror::Error;
use tokio::sync::{Notify, mpsc, oneshot};

/// What is to be written to a client.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// An answer; in a box, because the queue of each connection keeps room for some messages however few there are.
    Reply { tag: u32, reply: Box<Reply> },
    /// An event.
    Event(Arc<Event>),
}

impl Outgoing {
    /// The memory it takes, nearly. Job data are shared, and what they become on the way is there one at a time; other
    /// answers are small.
    pub(crate) fn bytes(&self) -> usize {
        let data = |kvals: &[Kval]| kvals.iter().map(|kval| Size::of_kval(kval).bytes).sum::<usize>();
        match self {
            Outgoing::Event(event) => Size::of_event(event).bytes,
            Outgoing::Reply { reply, .. } => match &**reply {
                Reply::Data { ranks, .. } => ranks.iter().map(|rank| data(&rank.kvals)).sum(),
                _ => size_of::<Reply>(),
            },
        }
    }
}

/// Where what is for one client waits to be written.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) queue: mpsc::Sender<Outgoing>,
    /// The memory that what waits takes, in bytes.
    pub(crate) waiting: Arc<AtomicUsize>,
    /// Told when the client is cut off: then nothing more is written, not even what waits.
    pub(crate) cut: Arc<Notify>,
}

/// What connections say.
#[derive(Debug)]
pub(crate) enum FromClient {
    /// Somebody wants to connect; what is for them goes to `outbox`.
    Admit { arrival: Arrival, outbox: Outbox, admitted: oneshot::Sender<Result<PeerId, Refusal>> },
    /// A request.
    Request { to: RequestId, request: Request },
    /// A message that is no request, and the status that says so.
    Unfit { to: RequestId, status: Status },
    /// The connection is closed.
    Gone(PeerId),
}

/// An event that a hosted handler raised.
#[derive(Debug)]
pub(crate) struct Raised {
    pub(crate) event: Event,
    /// What it may lead to.
    pub(crate) allowance: Allowance,
    /// The number that the module was told.
    pub(crate) request: u64,
}

/// Why a job is not registered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddJobError {
    /// There is one of that name.
    #[error("a job {0:?} is registered already")]
    Exists(Nspace),
    /// There is no server any more.
    #[error("the server has stopped")]
    Stopped,
}

/// How many raised events may wait; workers with more wait themselves.
const RAISED: usize = 1024;

/// What the host and the fabric say.
enum Internal {
    Answer { to: RequestId, reply: Reply },
    Gathered { id: FenceId, outcome: Result<Vec<RankData>, Status> },
    Notify(Event),
    Distributed { event: Arc<Event>, allowance: Allowance },
    AddJob { spec: JobSpec, done: oneshot::Sender<Result<(), AddJobError>> },
    Jobs(oneshot::Sender<Vec<Census>>),
    RemoveJob(Nspace),
    ProcEnded { proc: Proc, abnormal: Option<(Status, Vec<Info>)> },
    Life { proc: Proc, tell: oneshot::Sender<Option<Life>> },
    Stop,
}

/// By which the host environment and the fabric reach a server.
#[derive(Clone)]
pub struct ServerHandle {
    internal: mpsc::UnboundedSender<Internal>,
}

impl ServerHandle {
    /// Registers a job whose procs may then connect. Returns when the server knows it.
    pub async fn add_job(&self, spec: JobSpec) -> Result<(), AddJobError> {
        let (done, added) = oneshot::channel();
        self.say(Internal::AddJob { spec, done });
        added.await.unwrap_or(Err(AddJobError::Stopped))
    }

    /// The jobs and how far their procs are, in the order of their names; nothing if the server has stopped.
    pub async fn jobs(&self) -> Option<Vec<Census>> {
        let (tell, told) = oneshot::channel();
        self.say(Internal::Jobs(tell));
        told.await.ok()
    }

    /// Raises an event of the host environment.
    pub fn notify(&self, event: Event) {
        self.say(Internal::Notify(event));
    }

    /// Drops a job of which nothing is left.
    pub fn remove_job(&self, nspace: Nspace) {
        self.say(Internal::RemoveJob(nspace));
    }

    /// Another server distributed an event, whose handlers here may raise so many in turn.
    pub fn distributed(&self, event: Arc<Event>, allowance: Allowance) {
        self.say(Internal::Distributed { event, allowance });
    }

    /// A proc's process has ended; if abnormally, with this code and these details.
    pub fn proc_ended(&self, proc: Proc, abnormal: Option<(Status, Vec<Info>)>) {
        self.say(Internal::ProcEnded { proc, abnormal });
    }

    /// Where a proc is in its life.
    pub async fn life(&self, proc: Proc) -> Option<Life> {
        let (tell, told) = oneshot::channel();
        self.say(Internal::Life { proc, tell });
        told.await.ok().flatten()
    }

    pub(crate) fn stop(&self) {
        self.say(Internal::Stop);
    }

    fn say(&self, message: Internal) {
        // A server that has stopped hears nothing any more.
        let _ = self.internal.send(message);
    }
}

/// What the actor works with.
pub(crate) struct Actor {
    pub(crate) state: Server,
    pub(crate) started: Instant,
    pub(crate) outboxes: BTreeMap<PeerId, Outbox>,
    /// The jobs and their users, shared with events on their way through the chains.
    pub(crate) jobs: Arc<Vec<(Nspace, u32)>>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) fabric: Arc<dyn Fabric>,
    pub(crate) id: ServerId,
    pub(crate) chains: Chains,
    pub(crate) notices: Notices,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) outbox_bytes: usize,
    pub(crate) handle: ServerHandle,
    /// As whom the server runs.
    pub(crate) identity: Identity,
}

/// The far ends of a server's queues.
pub(crate) struct Inbox {
    internal: mpsc::UnboundedReceiver<Internal>,
    clients: mpsc::Receiver<FromClient>,
    raised: mpsc::Receiver<Raised>,
}

/// The near ends, for those who talk to the server.
pub(crate) struct Queues {
    pub(crate) handle: ServerHandle,
    pub(crate) clients: mpsc::Sender<FromClient>,
    pub(crate) raised: mpsc::Sender<Raised>,
}

/// The queues of a server that is about to start; at most so many requests of clients wait.
pub(crate) fn queues(requests: usize) -> (Queues, Inbox) {
    let (say, internal) = mpsc::unbounded_channel();
    let (ask, clients) = mpsc::channel(requests);
    let (raise, raised) = mpsc::channel(RAISED);
    let queues = Queues { handle: ServerHandle { internal: say }, clients: ask, raised: raise };
    (queues, Inbox { internal, clients, raised })
}

impl Actor {
    /// Runs until it is told to stop; then lets the hosted chains finish what they have.
    pub(crate) async fn run(mut self, mut inbox: Inbox) {
        loop {
            let actions = tokio::select! {
                message = inbox.internal.recv() => match message {
                    Some(Internal::Stop) | None => break,
                    Some(message) => self.internal(message),
                },
                message = inbox.clients.recv() => match message {
                    Some(message) => self.client(message),
                    None => break,
                },
                Some(raised) = inbox.raised.recv() => self.raised(raised),
                () = until(self.started, self.state.deadline()) => self.state.tick(self.now()),
            };
            actions.into_iter().for_each(|action| self.act(action));
            self.metrics.follow(self.state.counts());
        }
        // Whoever waits for us to listen must not: the chains that are drained below are among them.
        drop(inbox);
        // Closing the outboxes lets each connection write what it has and end.
        self.outboxes.clear();
        self.chains.drain().await;
    }

    fn now(&self) -> Time {
        Time::default() + self.started.elapsed()
    }

    fn client(&mut self, message: FromClient) -> Vec<Action> {
        match message {
            FromClient::Admit { arrival, outbox, admitted } => {
                let identity = arrival.peer.identity;
                let admission = match arrival.kind {
                    ConnectionKind::Client => self.state.admit(&arrival.proc, identity),
                    ConnectionKind::Tool => {
                        self.state.admit_tool(&arrival.proc, identity, self.identity).map(|peer| (peer, Vec::new()))
                    }
                };
                let (answer, actions) = match admission {
                    Ok((peer, actions)) => {
                        self.outboxes.insert(peer, outbox);
                        (Ok(peer), actions)
                    }
                    Err(refusal) => (Err(refusal), Vec::new()),
                };
                // If the connection is gone already, its end is said right behind.
                let _ = admitted.send(answer);
                actions
            }
            FromClient::Request { to, request } => self.state.request(to, request, self.now()),
            // Through the same queue as requests, so that answers keep their order.
            FromClient::Unfit { to, status } => self.state.answer(to, Reply::Status(status)),
            FromClient::Gone(peer) => {
                self.outboxes.remove(&peer);
                self.state.disconnected(peer)
            }
        }
    }

    fn internal(&mut self, message: Internal) -> Vec<Action> {
        match message {
            Internal::Answer { to, reply } => self.state.answer(to, reply),
            Internal::Gathered { id, outcome } => self.state.gathered(id, outcome),
            Internal::Notify(event) => self.state.notify(event).unwrap_or_else(|status| {
                tracing::warn!(%status, "an event of the host is refused");
                Vec::new()
            }),
            Internal::Distributed { event, allowance } => self.state.distributed(event, allowance),
            Internal::AddJob { spec, done } => {
                let _ = done.send(self.add_job(spec));
                Vec::new()
            }
            Internal::Jobs(tell) => {
                let _ = tell.send(self.state.jobs().collect());
                Vec::new()
            }
            Internal::RemoveJob(nspace) => {
                self.remove_job(&nspace);
                Vec::new()
            }
            Internal::ProcEnded { proc, abnormal } => self.state.proc_ended(&proc, abnormal),
            Internal::Life { proc, tell } => {
                let _ = tell.send(self.state.life(&proc));
                Vec::new()
            }
            Internal::Stop => Vec::new(),
        }
    }

    fn raised(&mut self, raised: Raised) -> Vec<Action> {
        let Raised { event, allowance, request } = raised;
        let code = event.code;
        self.state.raise(event, allowance).unwrap_or_else(|status| {
            self.metrics.counters().raised_events_refused.count();
            tracing::warn!(request, %code, %status, "an event that a handler raised is refused");
            Vec::new()
        })
    }

    fn add_job(&mut self, spec: JobSpec) -> Result<(), AddJobError> {
        if self.jobs.iter().any(|(known, _)| *known == spec.nspace) {
            return Err(AddJobError::Exists(spec.nspace));
        }
        self.fabric.hosts(self.id, spec.nspace.clone());
        let mut jobs = (*self.jobs).clone();
        jobs.push((spec.nspace.clone(), spec.uid));
        self.jobs = Arc::new(jobs);
        self.state.add_job(spec);
        Ok(())
    }

    fn remove_job(&mut self, nspace: &Nspace) {
        self.fabric.forgets(self.id, nspace);
        self.jobs = Arc::new(self.jobs.iter().filter(|(known, _)| known != nspace).cloned().collect());
        self.state.remove_job(nspace);
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Reply { to, reply } => self.send(to.peer, Outgoing::Reply { tag: to.tag, reply: Box::new(reply) }),
            Action::Deliver { peer, event } => self.send(peer, Outgoing::Event(event)),
            Action::Chain { event, allowance } => {
                let source = event.source.as_ref().and_then(|source| self.state.identity(source));
                self.chains.submit(event, allowance, source, self.jobs.clone());
            }
            Action::Distribute { event, allowance } => self.fabric.distribute(self.id, event, allowance),
            Action::Gather { id, procs, data } => self.gather(id, procs, data),
            Action::Host(upcall) => self.tell_host(upcall),
        }
    }

    /// Queues what is for a client. One that does not read is cut off, so that the queue stays bounded and nobody else waits.
    fn send(&mut self, peer: PeerId, outgoing: Outgoing) {
        let Some(outbox) = self.outboxes.get(&peer) else { return };
        let bytes = outgoing.bytes();
        let waiting = outbox.waiting.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let full = matches!(outbox.queue.try_send(outgoing), Err(mpsc::error::TrySendError::Full(_)));
        // One message alone may be larger than all that may wait.
        if full || (waiting > self.outbox_bytes && waiting > bytes) {
            self.metrics.counters().clients_too_slow.count();
            tracing::warn!(?peer, "a client does not read what is sent to it: its connection is closed");
            // The end of the connection then comes as any other.
            outbox.cut.notify_one();
            self.outboxes.remove(&peer);
        }
    }

    fn gather(&self, id: FenceId, procs: Vec<Proc>, data: Vec<RankData>) {
        let (fabric, me, handle) = (self.fabric.clone(), self.id, self.handle.clone());
        tokio::spawn(async move {
            let outcome = fabric.gather(me, procs, data).await;
            handle.say(Internal::Gathered { id, outcome });
        });
    }

    fn tell_host(&self, upcall: Upcall) {
        match upcall {
            Upcall::ClientConnected(proc) => {
                self.host.client_connected(&proc);
                self.notices.tell(Notice::ProcConnected(proc));
            }
            Upcall::ClientFinalized(proc) => {
                self.host.client_departed(&proc, Life::Finalized);
                self.notices.tell(Notice::ProcFinalized(proc));
            }
            Upcall::ClientLost(proc) => self.host.client_departed(&proc, Life::Lost),
            Upcall::Notify(event) => self.host.notify(event),
            Upcall::Request { to, source, request } => {
                let (host, handle) = (self.host.clone(), self.handle.clone());
                let identity = self.state.identity(&source);
                tokio::spawn(async move {
                    let reply = upcalls::ask(&*host, source, identity, request).await;
                    handle.say(Internal::Answer { to, reply });
                });
            }
        }
    }
}

/// Waits until the state machine's next deadline; for ever if it has none.
async fn until(started: Instant, deadline: Option<Time>) {
    match deadline {
        Some(at) => tokio::time::sleep_until((started + Duration::from_millis(at.0)).into()).await,
        None => std::future::pending().await,
    }
}

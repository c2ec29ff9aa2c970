//! The client, as a program uses it.
use crate::{
    ClientError, Environment, Handler,
    data::{self, Known},
    events::{self, ForServer, Handlers},
    link::{Arrival, Link, Pending},
};
use peal_core::{
    audience,
    registration::{Registration, RegistrationId},
};
use peal_model::{
    Commit, Event, Info, Infos, Key, Kval, Proc, Range, RankData, Reply, Request, Scope, Status, Value, code, key,
};
use peal_sandbox::{GuestPool, PoolSettings};
use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::{sync::mpsc, task::JoinHandle};

/// What the client and its event task share.
struct Shared {
    me: Proc,
    link: Link,
    handlers: Handlers,
    /// Held while a change of the registrations is made here and told to the server, so that both see the same order. Never
    /// while an answer is waited for, which may lie behind events whose handling needs it.
    changes: tokio::sync::Mutex<()>,
}

/// A proc's connection to its PMIx server.
pub struct Client {
    shared: Arc<Shared>,
    known: Mutex<Known>,
    put: Mutex<Vec<(Scope, Kval)>>,
    events: JoinHandle<()>,
    raise: mpsc::UnboundedSender<Event>,
}

impl Client {
    /// Connects to the server that this process's environment names, and takes the job data from it (`PMIx_Init`).
    pub async fn init() -> Result<Client, ClientError> {
        Client::connect(&Environment::read()?).await
    }

    /// Connects to the server that this environment names.
    pub async fn connect(environment: &Environment) -> Result<Client, ClientError> {
        // One thread: a client's handlers see its events one after the other.
        let threads = PoolSettings { threads: NonZeroUsize::MIN, ..PoolSettings::default() };
        let handlers = Handlers::new(GuestPool::new(threads).map_err(ClientError::Thread)?);
        let (link, arrivals) = Link::connect(environment).await?;
        let Reply::JobData(info) = link.ask(Request::JobData).await? else { return Err(ClientError::UnfitAnswer) };
        let mut known = Known::default();
        known.learn_job(Arc::unwrap_or_clone(info));
        let shared =
            Arc::new(Shared { me: environment.me.clone(), link, handlers, changes: tokio::sync::Mutex::default() });
        let (raise, raised) = mpsc::unbounded_channel();
        let events = tokio::spawn(handle_events(shared.clone(), arrivals, raised));
        Ok(Client { shared, known: Mutex::new(known), put: Mutex::default(), events, raise })
    }

    /// Who we are.
    pub fn me(&self) -> &Proc {
        &self.shared.me
    }

    /// The other procs of our job.
    pub fn peers(&self) -> Vec<Proc> {
        data::peers(self.me(), lock(&self.known).job_size(self.me()).unwrap_or_default())
    }

    /// Keeps a value to be handed over by the next commit (`PMIx_Put`).
    pub fn put(&self, scope: Scope, key: Key, value: Value) {
        lock(&self.put).push((scope, Kval { key, value }));
    }

    /// Hands over what was put (`PMIx_Commit`).
    pub async fn commit(&self) -> Result<(), ClientError> {
        let put = std::mem::take(&mut *lock(&self.put));
        lock(&self.known)
            .learn(RankData { proc: self.me().clone(), kvals: put.iter().map(|(_, kval)| kval.clone()).collect() });
        let of = |scopes: [Scope; 2]| -> Vec<Kval> {
            put.iter().filter(|(scope, _)| scopes.contains(scope)).map(|(_, kval)| kval.clone()).collect()
        };
        let pairs =
            [(Scope::Local, of([Scope::Local, Scope::Global])), (Scope::Remote, of([Scope::Remote, Scope::Global]))];
        let commits = pairs.into_iter().filter(|(_, kvals)| !kvals.is_empty());
        let commits = commits.map(|(scope, kvals)| Commit { scope, kvals }).collect();
        self.shared.link.ask(Request::Commit(commits)).await.map(drop)
    }

    /// Waits until these procs have called it too; none means our whole job (`PMIx_Fence`).
    pub async fn fence(&self, procs: &[Proc], infos: &[Info]) -> Result<(), ClientError> {
        let procs = if procs.is_empty() { vec![Proc::all(self.me().nspace.clone())] } else { procs.to_vec() };
        self.shared.link.ask(Request::Fence { procs, infos: infos.to_vec() }).await.map(drop)
    }

    /// A value of a proc, or of a job for its wildcard rank (`PMIx_Get`). Asks the server for what is not known yet, unless
    /// `PMIX_OPTIONAL` says not to.
    pub async fn get(&self, proc: &Proc, key: impl Into<Key>, infos: &[Info]) -> Result<Value, ClientError> {
        let key = key.into();
        if let Some(value) = lock(&self.known).find(proc, &key) {
            return Ok(value);
        }
        if infos.is_true(key::PMIX_OPTIONAL) {
            return Err(ClientError::Status(code::PMIX_ERR_NOT_FOUND));
        }
        let get = Request::Get { proc: proc.clone(), infos: infos.to_vec(), key: Some(key.as_str().into()) };
        let ranks = match self.shared.link.ask(get).await? {
            Reply::Data { ranks, .. } => ranks,
            Reply::Status(_) => Vec::new(),
            _ => return Err(ClientError::UnfitAnswer),
        };
        let mut known = lock(&self.known);
        ranks.into_iter().for_each(|data| known.learn(data));
        known.find(proc, &key).ok_or(ClientError::Status(code::PMIX_ERR_NOT_FOUND))
    }

    /// Registers a handler for these codes; none means all (`PMIx_Register_event_handler`).
    pub async fn register(
        &self,
        codes: &[Status],
        directives: &[Info],
        handler: Handler,
    ) -> Result<RegistrationId, ClientError> {
        let registration = Registration::from_directives(codes, directives)?;
        let (id, told) = {
            let _turn = self.shared.changes.lock().await;
            // Recorded here first: cached events may come right behind the server's acknowledgement.
            let (id, for_server) = self.shared.handlers.register(codes, registration, handler)?;
            (id, self.shared.tell(for_server).await)
        };
        let answered = match told {
            Ok(Some(pending)) => pending.answer().await.map(drop),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        match answered {
            Ok(()) => Ok(id),
            Err(error) => {
                self.shared.handlers.deregister(id);
                Err(error)
            }
        }
    }

    /// Takes a handler out; `PMIX_ERR_NOT_FOUND` if there is none of that number (`PMIx_Deregister_event_handler`).
    pub async fn deregister(&self, id: RegistrationId) -> Result<(), ClientError> {
        let known = self.shared.deregister(id).await?;
        known.then_some(()).ok_or(ClientError::Status(code::PMIX_ERR_NOT_FOUND))
    }

    /// Raises an event (`PMIx_Notify_event`). Our own handlers see it here, if it is meant for us; the server never sends it
    /// back. One of range `PMIX_RANGE_PROC_LOCAL` goes nowhere else.
    pub async fn notify(&self, code: Status, range: Range, infos: Vec<Info>) -> Result<(), ClientError> {
        let event = Event { code, source: Some(self.me().clone()), range, infos: infos.clone() };
        if audience::includes(&event, self.me()) {
            // The event task lives as long as the client.
            let _ = self.raise.send(event);
        }
        if range == Range::ProcLocal {
            return Ok(());
        }
        self.shared.link.ask(Request::Notify { code, range, infos }).await.map(drop)
    }

    /// Leaves in order (`PMIx_Finalize`).
    pub async fn finalize(self) -> Result<(), ClientError> {
        self.shared.link.ask(Request::Finalize).await.map(drop)
    }
}

impl Drop for Client {
    /// Without the event task nothing holds the connection any more; a client that has not finalized is lost to its server.
    fn drop(&mut self) {
        self.events.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing in here panics half-way, so what a poisoned lock guards is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Tells the server of a change; a registration will be answered.
    async fn tell(&self, what: ForServer) -> Result<Option<Pending>, ClientError> {
        match what {
            ForServer::Nothing => Ok(None),
            ForServer::Register(codes) => {
                self.link.post(Request::RegisterEvents { codes, infos: Vec::new() }).await.map(Some)
            }
            ForServer::Deregister(codes) => self.link.tell(Request::DeregisterEvents { codes }).await.map(|()| None),
        }
    }

    /// Takes a handler out, if there is one of that number.
    async fn deregister(&self, id: RegistrationId) -> Result<bool, ClientError> {
        let _turn = self.changes.lock().await;
        match self.handlers.deregister(id) {
            Some(for_server) => self.tell(for_server).await.map(|_| true),
            None => Ok(false),
        }
    }

    /// Runs an event through our handlers and does what they asked for.
    async fn handle(&self, event: Event, raise: &mut Vec<Event>) {
        let (raised, spent) = self.handlers.run(event).await;
        for id in spent {
            if let Err(error) = self.deregister(id).await {
                tracing::warn!(%error, "the server does not know that a one-shot handler is spent");
            }
        }
        for notification in raised {
            let source = Some(self.me.clone());
            let (code, range, infos) = (notification.code, notification.range, notification.infos);
            let event = Event { code, source, range, infos: infos.clone() };
            if audience::includes(&event, &self.me) {
                raise.push(event);
            }
            let not_sent = move |error| tracing::warn!(%error, %code, "an event that a handler raised is not sent");
            match self.link.post(Request::Notify { code, range, infos }).await {
                // The answer may lie behind more events than may wait: handling them must not wait for it.
                Ok(pending) => drop(tokio::spawn(async move { pending.answer().await.map_err(not_sent) })),
                Err(error) => not_sent(error),
            }
        }
    }
}

/// Takes events as they come, one after the other.
async fn handle_events(
    shared: Arc<Shared>,
    mut arrivals: mpsc::Receiver<Arrival>,
    mut raised: mpsc::UnboundedReceiver<Event>,
) {
    let mut connected = true;
    loop {
        let event = tokio::select! {
            Some(event) = raised.recv() => event,
            arrival = arrivals.recv(), if connected => match arrival {
                Some(Arrival::Event(event)) => event,
                Some(Arrival::Garbled(error)) => {
                    tracing::warn!(%error, "a message of the server is not understood");
                    events::internal(events::GARBLED, &shared.me)
                }
                Some(Arrival::Lost) => events::internal(events::LOST, &shared.me),
                // What stays in this process is handled without a server.
                None => {
                    connected = false;
                    continue;
                }
            },
            else => return,
        };
        let mut more = Vec::new();
        shared.handle(event, &mut more).await;
        // What a handler raised for ourselves is handled once; what comes of that in turn goes to the server only.
        for event in more {
            shared.handle(event, &mut Vec::new()).await;
        }
    }
}

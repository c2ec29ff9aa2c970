//! Client of a program: connection, the end of it, and the data of the client's job.
use crate::{
    Call, ClientError, ClientSettings, Environment, ServerInfo,
    data::{self, KnownData},
    events::ClientHandlers,
    lock,
    posted::Posted,
    queue::{Arrivals, EventQueue},
    realms::RealmSelector,
    recent::RecentEvents,
    server_connection::{ConnectTarget, Connected, ServerConnection},
    session::{ClientSession, ServerPresence, handle_events},
    settlement::SettlingTask,
    singleton, spawn,
};
use peal_model::{
    CommandCode, Commit, Info, InfoFlags, Infos, Key, Kval, Proc, RankData, Reply, Request, Scope,
    SharedData, Value, key, rank,
};
use peal_wire::PeerKind;
use std::{
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};
use tokio::task::{JoinHandle, unconstrained};

/// Connection of a proc to its PMIx server. Clones are cheap and share all state. The drop of the
/// last clone closes the connection; a server regards a proc that has not finalized as lost.
///
/// Every call has a time limit: that of the [`ClientSettings`], or that of [`Client::within`].
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    limit: Option<Duration>,
}

struct Inner {
    session: Arc<ClientSession>,
    known: Mutex<KnownData>,
    posted: Mutex<Posted>,
    events: JoinHandle<()>,
}

impl Client {
    /// Connects to the server that the environment of this process names, and gets the job data
    /// (`PMIx_Init`).
    pub async fn init() -> Result<Client, ClientError> {
        Client::connect(&Environment::read()?).await
    }

    /// Connects to the server that this environment names.
    pub async fn connect(environment: &Environment) -> Result<Client, ClientError> {
        Client::connect_with(environment, ClientSettings::default()).await
    }

    /// Connects to the server that this environment names, with other time limits and bounds than
    /// the default ones.
    pub async fn connect_with(
        environment: &Environment,
        settings: ClientSettings,
    ) -> Result<Client, ClientError> {
        let to = ConnectTarget {
            server: environment.server.clone(),
            release: environment.release.clone(),
            peer: PeerKind::Client(environment.me.clone()),
            infos: Vec::new(),
        };
        Client::start(environment.me.clone(), to, settings).await
    }

    /// Connects for the first time. The server may assign another name than `me`.
    pub(crate) async fn start(
        me: Proc,
        to: ConnectTarget,
        settings: ClientSettings,
    ) -> Result<Client, ClientError> {
        let handlers = handlers(&settings);
        let (queue, arrivals) = EventQueue::new(settings.event_queue_bytes);
        let Connected { link, name } =
            ServerConnection::connect(to, &settings, queue.clone()).await?;
        let mut known = KnownData::new(settings.data_bytes);
        match bounded(
            CommandCode::JobData,
            settings.answer_timeout,
            || Some(link.server_info()),
            link.ask(Request::JobData),
        )
        .await?
        {
            Reply::JobData(info) => known.learn_job(Arc::unwrap_or_clone(info)),
            _ => {
                return Err(ClientError::UnfitAnswer {
                    call: Call(CommandCode::JobData),
                });
            }
        }
        Ok(Client::of(
            ClientSession::new(name.unwrap_or(me), Some(link), settings, handlers, queue),
            arrivals,
            known,
        ))
    }

    /// Creates a client that never has a server.
    pub(crate) fn without_server(
        me: Proc,
        known: KnownData,
        settings: ClientSettings,
    ) -> Result<Client, ClientError> {
        let (queue, arrivals) = EventQueue::new(settings.event_queue_bytes);
        let handlers = handlers(&settings);
        Ok(Client::of(
            ClientSession::new(me, None, settings, handlers, queue),
            arrivals,
            known,
        ))
    }

    fn of(session: ClientSession, arrivals: Arrivals, known: KnownData) -> Client {
        let (session, mut known) = (Arc::new(session), known);
        known.set_me(session.me.clone());
        let inner = Arc::new_cyclic(|inner: &Weak<Inner>| {
            let inner = inner.clone();
            // The event task must not keep the client alive, since the drop of the last clone ends
            // that task.
            let follow = move |advice| {
                if let Some(inner) = inner.upgrade() {
                    tokio::spawn(Client { inner, limit: None }.follow(advice));
                }
            };
            let settlement = session.queue.settlement.clone();
            let events = handle_events(session.clone(), arrivals, follow);
            let events = spawn(unconstrained(SettlingTask::new(events, settlement)));
            Inner {
                session,
                known: Mutex::new(known),
                posted: Mutex::default(),
                events,
            }
        });
        Client { inner, limit: None }
    }

    /// Returns the same client with this time limit for its calls: `client.within(second).get(..)`.
    /// A call that takes longer fails with [`ClientError::TimedOut`]. Effects that the call has on
    /// the server afterwards are not undone.
    pub fn within(&self, limit: Duration) -> Client {
        Client {
            inner: self.inner.clone(),
            limit: Some(limit),
        }
    }

    /// Waits for a call of this client on the thread of the caller, which needs no other thread for its
    /// reply unless events or replies of other calls come first. May not be called in a task.
    pub fn wait<T>(&self, call: impl Future<Output = T>) -> T {
        self.session().wait(call)
    }

    /// Returns the name of this proc.
    pub fn me(&self) -> &Proc {
        &self.session().me
    }

    /// Returns the server that calls go to; `None` if the connection to it is lost.
    pub fn server(&self) -> Option<Proc> {
        self.session().server()
    }

    /// Returns true if there was a server, and the connection to it is lost.
    pub fn has_lost_server(&self) -> bool {
        self.session().presence == ServerPresence::Servers && self.server().is_none()
    }

    /// Returns the other procs of this proc's job.
    pub fn peers(&self) -> Vec<Proc> {
        data::peers(
            self.me(),
            self.known().job_size(self.me()).unwrap_or_default(),
        )
    }

    /// Keeps a value for the next commit (`PMIx_Put`).
    pub fn put(&self, scope: Scope, key: Key, value: Value) {
        lock(&self.inner.posted).put(scope, Kval { key, value });
    }

    /// Sends the values of all puts since the last commit (`PMIx_Commit`). If the commit fails or
    /// the caller cancels it, the next commit sends them again.
    pub async fn commit(&self) -> Result<(), ClientError> {
        let taken = lock(&self.inner.posted).take();
        let mut uncommitted = Uncommitted {
            of: &self.inner,
            put: taken,
        };
        let put = &uncommitted.put;
        // The server is not asked for what this proc itself has put.
        self.known().learn(RankData {
            proc: self.me().clone(),
            kvals: put.iter().map(|(_, kval)| kval.clone()).collect(),
        });
        let of = |scopes: [Scope; 2]| -> Vec<Kval> {
            put.iter()
                .filter(|(scope, _)| scopes.contains(scope))
                .map(|(_, kval)| kval.clone())
                .collect()
        };
        // The message knows these two scopes only: a global value is sent under both. Values of
        // other scopes do not leave the process.
        let pairs = [
            (Scope::Local, of([Scope::Local, Scope::Global])),
            (Scope::Remote, of([Scope::Remote, Scope::Global])),
        ];
        let commits = pairs.into_iter().filter(|(_, kvals)| !kvals.is_empty());
        let commits = commits
            .map(|(scope, kvals)| Commit { scope, kvals })
            .collect();
        self.ask(Request::Commit(commits)).await?;
        lock(&self.inner.posted).note_committed(std::mem::take(&mut uncommitted.put));
        Ok(())
    }

    /// Waits until all of these procs have called it; an empty slice means the whole job
    /// (`PMIx_Fence`). The name of a group stands for its members ([`crate::Group::all`]).
    pub async fn fence(&self, procs: &[Proc], infos: &[Info]) -> Result<(), ClientError> {
        let procs = if procs.is_empty() {
            vec![Proc::all(self.me().nspace.clone())]
        } else {
            procs.to_vec()
        };
        self.ask(Request::Fence {
            procs,
            infos: infos.to_vec(),
        })
        .await
        .map(drop)
    }

    /// Returns a value of a proc, or of a job for its wildcard rank (`PMIx_Get`). The server is
    /// asked for a value that is not known yet, unless `PMIX_OPTIONAL` is set. With
    /// `PMIX_GET_REFRESH_CACHE` it is asked for a known value too, which may have changed. With
    /// [`crate::Group::qualifier`], the value is the one that a member gave about itself in that
    /// group; with other qualifiers, the one that was put with exactly these
    /// (`PMIX_QUALIFIED_VALUE`). `PMIX_NODE_INFO`, `PMIX_APP_INFO` and `PMIX_SESSION_INFO` choose
    /// the value of a node, application or session.
    pub async fn get(
        &self,
        proc: &Proc,
        key: impl Into<Key>,
        infos: &[Info],
    ) -> Result<Value, ClientError> {
        let key = key.into();
        let optional = infos.is_true(key::PMIX_OPTIONAL);
        let realm = RealmSelector::of(infos);
        if let Some(realm) = &realm
            && !infos.is_true(key::PMIX_GET_REFRESH_CACHE)
            && let Some(value) = self.known().find_in_realm(proc, realm, &key)
        {
            return Ok(value);
        }
        let context_id = infos
            .value_of(key::PMIX_GROUP_CONTEXT_ID)
            .and_then(Value::as_u64);
        let is_qualifier = |info: &&Info| info.flags.contains(InfoFlags::QUALIFIER);
        let mut qualifiers: Vec<&Info> = infos.iter().filter(is_qualifier).collect();
        if context_id.is_some() {
            qualifiers.clear();
        }
        if realm.is_none()
            && qualifiers.is_empty()
            && (optional || !infos.is_true(key::PMIX_GET_REFRESH_CACHE))
            && let Some(value) = self.known().find(proc, &key, context_id)
        {
            return Ok(value);
        }
        if optional {
            return Err(ClientError::NotFound {
                proc: proc.clone(),
                key,
            });
        }
        let get = Request::Get {
            proc: proc.clone(),
            infos: infos.to_vec(),
            key: Some(key.as_str().into()),
        };
        let ranks = match self.ask(get).await? {
            Reply::Data { ranks, .. } => ranks.into_iter().map(SharedData::into_inner).collect(),
            // A server of the C library answers a missing key with success and no data.
            Reply::Status(_) => Vec::new(),
            _ => {
                return Err(ClientError::UnfitAnswer {
                    call: Call(CommandCode::Get),
                });
            }
        };
        // Found in the reply, not in the cache, which may have no room for the value.
        let found = if qualifiers.is_empty() {
            data::find(&ranks, proc, &key, context_id)
        } else {
            data::find_qualified(&ranks, proc, &key, &qualifiers)
        };
        let mut known = self.known();
        ranks.into_iter().for_each(|data| known.learn_reply(data));
        // A value of a node, application or session may be in an array of the job.
        let in_array = || match &realm {
            Some(realm) => known.find_in_realm(proc, realm, &key),
            None if proc.rank == rank::PMIX_RANK_WILDCARD => known.find(proc, &key, context_id),
            None => None,
        };
        found
            .or_else(in_array)
            .ok_or_else(|| ClientError::NotFound {
                proc: proc.clone(),
                key,
            })
    }

    /// Keeps a value for gets of this process alone (`PMIx_Store_internal`).
    pub fn store(&self, proc: Proc, key: Key, value: Value) {
        self.known().learn(RankData {
            proc,
            kvals: vec![Kval { key, value }],
        });
    }

    /// Drops the values that the server has sent about this process's own namespace. A process that is a
    /// host environment has only those that it stores itself: Open MPI's `mpirun` passes all of them on,
    /// and fails at types that it does not know.
    pub fn forget_own_job(&self) {
        let nspace = self.me().nspace.clone();
        self.known().forget_job(&nspace);
    }

    /// Returns all values of a proc, or of a job for its wildcard rank, that are known without a
    /// request, sorted by key.
    pub fn known_values(&self, proc: &Proc) -> Vec<Kval> {
        self.known().all_of(proc)
    }

    /// Sends a request for which there is no method, and waits for the reply. An error status is
    /// returned as an error.
    pub async fn send_request(&self, request: Request) -> Result<Reply, ClientError> {
        self.ask(request).await
    }

    /// Finalizes the client (`PMIx_Finalize`): notifies every connected server and drops the
    /// handlers. A handler that runs at this time is not waited for. Clones of this client can make
    /// no more calls.
    pub async fn finalize(self) -> Result<(), ClientError> {
        self.abort_invitations().await;
        // Detached first: servers close these connections, which is no loss.
        let links = self.session().detach_all();
        let mut outcome = Ok(());
        for link in &links {
            let finalize = link.ask(Request::Finalize);
            let left = bounded(
                CommandCode::Finalize,
                self.answer_limit(),
                || Some(link.server_info()),
                finalize,
            )
            .await;
            // The other servers are notified even if one fails.
            outcome = outcome.and(left.map(drop));
        }
        // Not before the replies: without this task a full queue of events stops the reading.
        self.inner.events.abort();
        self.session().handlers.clear();
        outcome
    }

    /// Returns the values that this proc put for procs of other nodes, committed or not.
    pub(crate) fn posted_for_others(&self) -> Vec<Kval> {
        lock(&self.inner.posted).for_others()
    }

    /// Locks the data that is known without a request. The guard must not be held across an await.
    pub(crate) fn known(&self) -> MutexGuard<'_, KnownData> {
        lock(&self.inner.known)
    }

    pub(crate) fn session(&self) -> &Arc<ClientSession> {
        &self.inner.session
    }

    /// Sends a request to the server that calls go to, and waits for the reply within the limit of
    /// that call.
    pub(crate) async fn ask(&self, request: Request) -> Result<Reply, ClientError> {
        if self.session().presence == ServerPresence::Never {
            return singleton::answer(self.me(), &request);
        }
        let command = request.command();
        let limit = self.limit_of(&request);
        let link = self.session().link(command)?;
        let ask = link.ask(request);
        self.session().bounded(command, limit, ask).await
    }

    /// Returns the time limit of a call that does not wait for other procs.
    pub(crate) fn answer_limit(&self) -> Option<Duration> {
        self.limit.or(self.session().settings.answer_timeout)
    }

    /// Returns the limit set by [`Client::within`], if any.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.limit
    }

    fn limit_of(&self, request: &Request) -> Option<Duration> {
        let settings = &self.session().settings;
        let (infos, meets_others) = match request {
            Request::Fence { infos, .. }
            | Request::Get { infos, .. }
            | Request::Lookup { infos, .. }
            | Request::Connect { infos, .. }
            | Request::Disconnect { infos, .. } => (infos.as_slice(), true),
            Request::GroupConstruct { directives, .. }
            | Request::GroupDestruct { directives, .. } => (directives.as_slice(), true),
            Request::Log { directives, .. } | Request::JobControl { directives, .. } => {
                (directives.as_slice(), false)
            }
            Request::Query { queries } => (
                queries
                    .first()
                    .map(|query| query.qualifiers.as_slice())
                    .unwrap_or_default(),
                false,
            ),
            _ => (Default::default(), false),
        };
        let asked = infos
            .value_of(key::PMIX_TIMEOUT)
            .and_then(Value::as_u64)
            // Zero means no limit of the server's (PMIx Standard, `PMIX_TIMEOUT`); that of this
            // client holds.
            .filter(|seconds| *seconds > 0);
        match (self.limit, asked) {
            (Some(limit), _) => Some(limit),
            (None, Some(seconds)) => {
                let answer_timeout = settings.answer_timeout?;
                Some(Duration::from_secs(seconds).saturating_add(answer_timeout))
            }
            (None, None) if meets_others => settings.meeting_timeout,
            (None, None) => settings.answer_timeout,
        }
    }
}

/// Creates the handlers.
fn handlers(settings: &ClientSettings) -> ClientHandlers {
    let recent = RecentEvents::new(settings.recent_events, settings.recent_event_bytes);
    ClientHandlers::new(recent, settings.handler_timeout)
}

/// Waits for a call to this server, at most for `limit`.
pub(crate) async fn bounded<T>(
    command: CommandCode,
    limit: Option<Duration>,
    server: impl FnOnce() -> Option<Box<ServerInfo>>,
    call: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    let Some(limit) = limit else {
        return call.await;
    };
    let late = ClientError::TimedOut {
        call: Call(command),
        server: server(),
        limit,
    };
    tokio::time::timeout(limit, call).await.unwrap_or(Err(late))
}

/// Values of a commit in progress. Unless the commit succeeds, the drop puts them back before later
/// puts.
struct Uncommitted<'a> {
    of: &'a Inner,
    put: Vec<(Scope, Kval)>,
}

impl Drop for Uncommitted<'_> {
    fn drop(&mut self) {
        lock(&self.of.posted).put_back(std::mem::take(&mut self.put));
    }
}

impl Drop for Inner {
    /// Stops the event task, which otherwise keeps the connections open.
    fn drop(&mut self) {
        self.events.abort();
    }
}

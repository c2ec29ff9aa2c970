//! The client, as a program uses it: coming and going, and the data of its job.
use crate::{
    Call, ClientError, ClientSettings, Environment, ServerInfo,
    data::{self, KnownData},
    events::ClientHandlers,
    lock,
    posted::Posted,
    queue::{Arrivals, EventQueue},
    recent::RecentEvents,
    server_connection::{ConnectTarget, Connected, ServerConnection},
    session::{ClientSession, Company, handle_events},
    singleton,
};
use peal_model::{
    CommandCode, Commit, Info, Infos, Key, Kval, Proc, RankData, Reply, Request, Scope, SharedData,
    Value, key,
};
use peal_sandbox::{GuestPool, PoolSettings};
use peal_wire::PeerKind;
use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};
use tokio::task::JoinHandle;

/// A proc's connection to its PMIx server. Clones are cheap and share everything; when the last one is dropped the
/// connection is closed, and a proc that has not finalized is lost to its server.
///
/// Every call has a time limit: one of the [`ClientSettings`], or the one of [`Client::within`].
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
    /// Connects to the server that this process's environment names, and takes the job data from it (`PMIx_Init`).
    pub async fn init() -> Result<Client, ClientError> {
        Client::connect(&Environment::read()?).await
    }

    /// Connects to the server that this environment names.
    pub async fn connect(environment: &Environment) -> Result<Client, ClientError> {
        Client::connect_with(environment, ClientSettings::default()).await
    }

    /// The same with other times and bounds.
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

    /// Connects for the first time. The server may give us another name than we have.
    pub(crate) async fn start(
        me: Proc,
        to: ConnectTarget,
        settings: ClientSettings,
    ) -> Result<Client, ClientError> {
        let handlers = handlers(&settings)?;
        let (queue, arrivals) = EventQueue::new(settings.event_queue_bytes);
        let Connected { link, name } =
            ServerConnection::connect(to, &settings, queue.clone()).await?;
        let mut known = KnownData::new(settings.data_bytes);
        let limit = settings.answer_timeout;
        match bounded(
            CommandCode::JobData,
            Some(limit),
            link.whose(),
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

    /// A client that never has a server, and knows this.
    pub(crate) fn without_server(
        me: Proc,
        known: KnownData,
        settings: ClientSettings,
    ) -> Result<Client, ClientError> {
        let (queue, arrivals) = EventQueue::new(settings.event_queue_bytes);
        let handlers = handlers(&settings)?;
        Ok(Client::of(
            ClientSession::new(me, None, settings, handlers, queue),
            arrivals,
            known,
        ))
    }

    fn of(session: ClientSession, arrivals: Arrivals, known: KnownData) -> Client {
        let session = Arc::new(session);
        let inner = Arc::new_cyclic(|inner: &Weak<Inner>| {
            let inner = inner.clone();
            let follow = move |advice| {
                if let Some(inner) = inner.upgrade() {
                    tokio::spawn(Client { inner, limit: None }.follow(advice));
                }
            };
            let events = tokio::spawn(handle_events(session.clone(), arrivals, follow));
            Inner {
                session,
                known: Mutex::new(known),
                posted: Mutex::default(),
                events,
            }
        });
        Client { inner, limit: None }
    }

    /// The same client, whose calls may take so long: `client.within(second).get(..)`. A call that is over its time fails
    /// with [`ClientError::TimedOut`]; what the server still does about it is not undone.
    pub fn within(&self, limit: Duration) -> Client {
        Client {
            inner: self.inner.clone(),
            limit: Some(limit),
        }
    }

    /// Who we are.
    pub fn me(&self) -> &Proc {
        &self.session().me
    }

    /// The server that calls go to; none if the connection to it is lost.
    pub fn server(&self) -> Option<Proc> {
        self.session().server()
    }

    /// The other procs of our job.
    pub fn peers(&self) -> Vec<Proc> {
        data::peers(
            self.me(),
            self.known().job_size(self.me()).unwrap_or_default(),
        )
    }

    /// Keeps a value to be handed over by the next commit (`PMIx_Put`).
    pub fn put(&self, scope: Scope, key: Key, value: Value) {
        lock(&self.inner.posted).put(scope, Kval { key, value });
    }

    /// Hands over what was put (`PMIx_Commit`). If that fails, or the caller gives up, the next commit tries again.
    pub async fn commit(&self) -> Result<(), ClientError> {
        let taken = lock(&self.inner.posted).take();
        let mut uncommitted = Uncommitted {
            of: &self.inner,
            put: taken,
        };
        let put = &uncommitted.put;
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

    /// Waits until these procs have called it too; none means our whole job (`PMIx_Fence`). A group stands for its members by its name
    /// ([`crate::Group::all`]).
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

    /// A value of a proc, or of a job for its wildcard rank (`PMIx_Get`). Asks the server for what is not known yet, unless
    /// `PMIX_OPTIONAL` says not to, and with `PMIX_GET_REFRESH_CACHE` for what is known too, which may have changed since. With
    /// [`crate::Group::qualifier`], it is what a member said of itself in that group.
    pub async fn get(
        &self,
        proc: &Proc,
        key: impl Into<Key>,
        infos: &[Info],
    ) -> Result<Value, ClientError> {
        let key = key.into();
        let optional = infos.is_true(key::PMIX_OPTIONAL);
        let context_id = infos
            .value_of(key::PMIX_GROUP_CONTEXT_ID)
            .and_then(Value::as_u64);
        if (optional || !infos.is_true(key::PMIX_GET_REFRESH_CACHE))
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
            Reply::Status(_) => Vec::new(),
            _ => {
                return Err(ClientError::UnfitAnswer {
                    call: Call(CommandCode::Get),
                });
            }
        };
        let found = data::find(&ranks, proc, &key, context_id);
        let mut known = self.known();
        ranks.into_iter().for_each(|data| known.learn(data));
        found.ok_or_else(|| ClientError::NotFound {
            proc: proc.clone(),
            key,
        })
    }

    /// Leaves in order (`PMIx_Finalize`): every server that there is is told, and the handlers are dropped. One that is being
    /// called is not waited for. Clones of this client can make no calls any more.
    pub async fn finalize(self) -> Result<(), ClientError> {
        let links = self.session().detach_all();
        let mut outcome = Ok(());
        for link in &links {
            let finalize = link.ask(Request::Finalize);
            let left = bounded(
                CommandCode::Finalize,
                self.answer_limit(),
                link.whose(),
                finalize,
            )
            .await;
            outcome = outcome.and(left.map(drop));
        }
        self.inner.events.abort();
        self.session().handlers.clear();
        outcome
    }

    /// Values that this proc put for procs of other nodes, committed or not.
    pub(crate) fn posted_for_others(&self) -> Vec<Kval> {
        lock(&self.inner.posted).for_others()
    }

    /// What is known without asking. Not to be held while something is waited for.
    pub(crate) fn known(&self) -> MutexGuard<'_, KnownData> {
        lock(&self.inner.known)
    }

    pub(crate) fn session(&self) -> &Arc<ClientSession> {
        &self.inner.session
    }

    /// Asks the server that calls go to, and waits for the answer as long as that call may take.
    pub(crate) async fn ask(&self, request: Request) -> Result<Reply, ClientError> {
        if self.session().company == Company::Nobody {
            return singleton::answer(self.me(), &request);
        }
        let (command, limit) = (request.command(), self.limit_of(&request));
        let link = self.session().link(command)?;
        self.bounded(command, limit, link.ask(request)).await
    }

    /// How long the server may take for a call that waits for nobody else.
    pub(crate) fn answer_limit(&self) -> Option<Duration> {
        Some(self.limit.unwrap_or(self.session().settings.answer_timeout))
    }

    /// The limit of [`Client::within`], if there is one.
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
            .filter(|seconds| *seconds > 0);
        match (self.limit, asked) {
            (Some(limit), _) => Some(limit),
            (None, Some(seconds)) => {
                Some(Duration::from_secs(seconds).saturating_add(settings.answer_timeout))
            }
            (None, None) if meets_others => settings.meeting_timeout,
            (None, None) => Some(settings.answer_timeout),
        }
    }

    pub(crate) async fn bounded<T>(
        &self,
        command: CommandCode,
        limit: Option<Duration>,
        call: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let server = self.session().link(command).ok().map(|link| link.whose());
        bounded(command, limit, server, call).await
    }
}

/// One thread: a client's handlers see its events one after the other.
fn handlers(settings: &ClientSettings) -> Result<ClientHandlers, ClientError> {
    let threads = PoolSettings {
        threads: NonZeroUsize::MIN,
        ..PoolSettings::default()
    };
    let pool = GuestPool::new(threads).map_err(ClientError::Thread)?;
    let recent = RecentEvents::new(settings.recent_events, settings.recent_event_bytes);
    Ok(ClientHandlers::new(pool, recent, settings.handler_timeout))
}

/// Waits no longer than may be for what this server is to answer.
pub(crate) async fn bounded<T>(
    command: CommandCode,
    limit: Option<Duration>,
    server: impl Into<Option<Box<ServerInfo>>>,
    call: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    let Some(limit) = limit else {
        return call.await;
    };
    let late = ClientError::TimedOut {
        call: Call(command),
        server: server.into(),
        limit,
    };
    tokio::time::timeout(limit, call).await.unwrap_or(Err(late))
}

/// What is being committed: unless that succeeds it is put back before what was put since.
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
    /// Without the event task nothing holds the connections any more.
    fn drop(&mut self) {
        self.events.abort();
    }
}

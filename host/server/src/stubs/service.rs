//! Parts that the connections of all stubs share, and the admission of a stub.
use super::{
    handover::{EnteredSession, EnteredStub, EnteredStubs},
    host_router::HostRouter,
    registered_jobs::RegisteredJobs,
    remote_host::{RemoteHost, UpcallLimits},
    session::{MessageWriter, RequestExecutor, RequestReader, Session, SessionEnd, SessionError},
    suspension::{OpenStub, StubPhases, StubSuspender},
    transfer::{MessageReceiver, MessageSender},
};
use crate::{admin::JobJournal, client_environment, handle::ServerHandle, handover::HandoverError};
use peal_core::server::EventBudget;
use peal_model::{Info, Infos, Nspace, Proc, Rank, UserIdentity, key};
use peal_stub::{
    EnvironmentVariable, FrameLimit, PROTOCOL, ServerMessage, ServerWelcome, StubHello,
    StubMessage, StubRefusal, StubSocket,
};
use peal_wire::variable;
use rustix::{
    net::sockopt,
    process::{Pid, PidfdFlags, pidfd_open},
};
use std::{
    collections::VecDeque,
    io,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{net::UnixStream, sync::mpsc, time::timeout};

/// Variables that the host environment sets for each proc.
const OWN_VARIABLES: [&str; 2] = [variable::NAMESPACE, variable::RANK];

/// Prefix of a variable that only a launcher without a host environment of its own sets: Open MPI 4.1
/// takes it as the address of its daemon.
const OPEN_MPI: &str = "OMPI_";

/// Limits of the connections of stubs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StubSettings {
    /// Largest number of stubs that are connected at once.
    pub max_stubs: usize,
    /// Largest number of jobs of one stub.
    pub max_jobs: usize,
    /// Time that a host environment has to answer an upcall that does not wait for other procs.
    pub answer_timeout: Duration,
    /// Largest number of upcalls to one host environment that are not answered.
    pub max_open_upcalls: usize,
    /// Largest number of messages that wait for one stub.
    pub max_queued_messages: usize,
    /// Longest message.
    pub frame_limit: FrameLimit,
    /// Time that a stub has for its first message.
    pub hello_timeout: Duration,
    /// Number of events that handlers may raise in response to an event of a host environment.
    pub allowance: EventBudget,
}

/// Queue of the messages for one stub.
pub(super) struct MessageQueue {
    pub(super) outgoing: mpsc::Sender<ServerMessage>,
    pub(super) queue: mpsc::Receiver<ServerMessage>,
}

/// Parts of the session of a connection.
struct SessionParts {
    receiver: MessageReceiver,
    sender: MessageSender,
    outgoing: mpsc::Sender<ServerMessage>,
    queue: mpsc::Receiver<ServerMessage>,
    host: Arc<RemoteHost>,
    process: Option<OwnedFd>,
    forks: Option<OwnedFd>,
    place: StubPlace,
}

impl StubSettings {
    pub(super) fn queue(&self) -> MessageQueue {
        let (outgoing, queue) = mpsc::channel(self.max_queued_messages);
        MessageQueue { outgoing, queue }
    }

    pub(super) fn upcall_limits(&self) -> UpcallLimits {
        UpcallLimits {
            timeout: self.answer_timeout,
            open: self.max_open_upcalls,
        }
    }
}

impl Default for StubSettings {
    fn default() -> StubSettings {
        StubSettings {
            max_stubs: 1024,
            max_jobs: 1024,
            answer_timeout: Duration::from_secs(60),
            max_open_upcalls: 4096,
            max_queued_messages: 16_384,
            frame_limit: FrameLimit::default(),
            hello_timeout: Duration::from_secs(10),
            allowance: EventBudget::new(64),
        }
    }
}

/// Service for stubs.
pub struct StubService {
    handle: ServerHandle,
    router: Arc<HostRouter>,
    uri: String,
    hostname: String,
    settings: StubSettings,
    journal: JobJournal,
    /// Number of admitted stubs.
    connected: Arc<AtomicUsize>,
    named: AtomicU64,
    pub(super) suspender: StubSuspender,
}

/// Relation of a stub to the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StubRole {
    /// The stub is one of several.
    Guest,
    /// The server was started for the stub, and has no other one.
    Owner,
}

/// A place among the connected stubs.
pub(super) struct StubPlace(Arc<AtomicUsize>);

impl Drop for StubPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connection of a stub that has not been admitted.
pub(super) struct Greeting {
    pub(super) socket: Arc<StubSocket>,
    pub(super) receiver: MessageReceiver,
    /// First message, if it has come.
    pub(super) hello: Option<StubHello>,
    /// Process of the host environment, if it can be watched.
    pub(super) process: Option<OwnedFd>,
    role: StubRole,
}

/// Connection of a stub.
pub(super) enum StubConnection {
    Greeting(Box<Greeting>),
    Session(Box<Session>),
}

impl Greeting {
    fn of(stream: UnixStream, role: StubRole, limit: FrameLimit) -> Result<Greeting, SessionError> {
        let process = stream.peer_cred()?.pid().and_then(watched);
        let socket = Arc::new(StubSocket::new(stream.into_std()?)?);
        Ok(Greeting {
            receiver: MessageReceiver::new(socket.clone(), limit),
            socket,
            hello: None,
            process,
            role,
        })
    }

    /// Reads the first message. Returns false if the connection ends before, as a probe does. Cancelling the
    /// future loses nothing.
    async fn read_hello(&mut self, limit: Duration) -> Result<bool, SessionError> {
        if self.hello.is_some() {
            return Ok(true);
        }
        let first = timeout(limit, self.receiver.first()).await;
        match first.map_err(|_| SessionError::Slow(limit))?? {
            Some(StubMessage::Hello(hello)) => {
                self.hello = Some(hello);
                Ok(true)
            }
            Some(_) => Err(SessionError::NoHello),
            None => Ok(false),
        }
    }
}

impl StubService {
    /// Creates the service of a server, which procs find at `uri`.
    pub fn new(
        handle: ServerHandle,
        router: Arc<HostRouter>,
        uri: String,
        settings: StubSettings,
        journal: JobJournal,
    ) -> StubService {
        StubService {
            handle,
            router,
            uri,
            hostname: peal_system::hostname(),
            settings,
            journal,
            connected: Arc::default(),
            named: AtomicU64::new(0),
            suspender: StubSuspender::default(),
        }
    }

    /// Serves the stub to which this server belongs, until its connection ends. Its jobs are then removed.
    ///
    /// # Errors
    ///
    /// Fails if the stub is refused or violates the protocol.
    pub async fn serve_owner(&self, stream: UnixStream) -> Result<(), SessionError> {
        self.serve(stream, StubRole::Owner, self.suspender.open())
            .await
    }

    /// Serves a stub until its connection ends or the server is suspended.
    pub(super) async fn serve(
        &self,
        stream: UnixStream,
        role: StubRole,
        open: OpenStub,
    ) -> Result<(), SessionError> {
        let greeting = Greeting::of(stream, role, self.settings.frame_limit);
        let connection = StubConnection::Greeting(Box::new(greeting?));
        self.follow(connection, open).await
    }

    /// Serves a connection until it ends or the server is suspended.
    pub(super) async fn follow(
        &self,
        connection: StubConnection,
        open: OpenStub,
    ) -> Result<(), SessionError> {
        let mut phases = self.suspender.phases();
        let mut next = Some(connection);
        while let Some(connection) = next {
            let followed = self.follow_connection(connection, &mut phases).await;
            let suspended = followed.inspect_err(|error| {
                tracing::warn!(%error, "connection of host environment ended");
            })?;
            next = suspended.and_then(|connection| open.suspended(connection, &phases));
        }
        Ok(())
    }

    /// Returns the connection if the server is suspended.
    async fn follow_connection(
        &self,
        connection: StubConnection,
        phases: &mut StubPhases,
    ) -> Result<Option<StubConnection>, SessionError> {
        let session = match connection {
            StubConnection::Session(session) => session,
            StubConnection::Greeting(mut greeting) => {
                let said = tokio::select! {
                    said = greeting.read_hello(self.settings.hello_timeout) => said?,
                    () = phases.suspended() => return Ok(Some(StubConnection::Greeting(greeting))),
                };
                if !said {
                    return Ok(None);
                }
                let turns = self.suspender.turns();
                let _turn = tokio::select! {
                    turn = turns.read() => turn,
                    () = phases.suspended() => return Ok(Some(StubConnection::Greeting(greeting))),
                };
                self.session(*greeting).await?
            }
        };
        let name = session.executor.host.name.clone();
        match session.run(phases).await {
            SessionEnd::Suspended(session) => Ok(Some(StubConnection::Session(session))),
            SessionEnd::Ended(ended) => {
                tracing::info!(host = %name, "host environment disconnected");
                ended.map(|()| None)
            }
        }
    }

    /// Admits a stub that has sent its first message.
    async fn session(&self, greeting: Greeting) -> Result<Box<Session>, SessionError> {
        let Greeting {
            socket,
            mut receiver,
            hello,
            process,
            role,
        } = greeting;
        let hello = hello.ok_or(SessionError::NoHello)?;
        let peer = sockopt::socket_peercred(&socket).map_err(io::Error::from)?;
        let identity = UserIdentity {
            uid: peer.uid.as_raw(),
            gid: peer.gid.as_raw(),
        };
        let mut sender = MessageSender::new(socket, self.settings.frame_limit, Vec::new());
        let place = match self.admit(&hello, identity) {
            Ok(place) => place,
            Err(refusal) => {
                sender
                    .send(&ServerMessage::Refusal(refusal.clone()))
                    .await?;
                return Err(SessionError::Refused(refusal));
            }
        };
        let name = self.name(&hello);
        let welcome = self.welcome(&hello.infos, name.clone());
        sender.add(&ServerMessage::Welcome(welcome))?;
        let (uid, pid) = (identity.uid, peer.pid.as_raw_nonzero());
        tracing::info!(host = %name, uid, pid, release = hello.release, "host environment connected");
        let MessageQueue { outgoing, queue } = self.settings.queue();
        let limits = self.settings.upcall_limits();
        let host = RemoteHost::new(name, identity, hello.offered, outgoing.clone(), limits);
        let host = Arc::new(host);
        self.router.host_connected(host.clone());
        if role == StubRole::Owner {
            self.router.set_owner(host.clone());
        }
        let forks = receiver.take_descriptor();
        Ok(Box::new(self.assembled(SessionParts {
            receiver,
            sender,
            outgoing,
            queue,
            host,
            process,
            forks,
            place,
        })))
    }

    /// Makes the session of a connection.
    fn assembled(&self, parts: SessionParts) -> Session {
        let SessionParts {
            receiver,
            sender,
            outgoing,
            queue,
            host,
            process,
            forks,
            place,
        } = parts;
        let (reader, requests) = RequestReader::new(receiver, self.settings.max_queued_messages);
        let jobs = RegisteredJobs::new(
            self.handle.clone(),
            self.router.clone(),
            host.clone(),
            self.hostname.clone(),
            self.settings.max_jobs,
            self.journal.clone(),
        );
        Session {
            reader,
            writer: MessageWriter { sender, queue },
            executor: RequestExecutor {
                handle: self.handle.clone(),
                router: self.router.clone(),
                host,
                jobs,
                outgoing,
                allowance: self.settings.allowance,
                turns: self.suspender.turns(),
                requests,
                early: VecDeque::new(),
            },
            process,
            forks,
            place,
        }
    }

    /// Returns the number of names that host environments were given.
    pub(super) fn named(&self) -> u64 {
        self.named.load(Ordering::Relaxed)
    }

    /// Returns true if the server belongs to one host environment.
    pub(super) fn has_owner(&self) -> bool {
        self.router.has_owner()
    }

    /// Goes on with the connections that another process of the server had.
    pub(super) fn go_on(self: &Arc<Self>, entered: EnteredStubs) -> Result<(), HandoverError> {
        let EnteredStubs {
            named, connections, ..
        } = entered;
        self.named.store(named, Ordering::Relaxed);
        for EnteredStub {
            socket,
            process,
            forks,
            received,
            unsent,
            session,
        } in connections
        {
            let socket = Arc::new(StubSocket::new(socket.into())?);
            let limit = self.settings.frame_limit;
            let mut receiver = MessageReceiver::new(socket.clone(), limit);
            let connection = match session {
                None => {
                    receiver.go_on_with(&received, forks);
                    StubConnection::Greeting(Box::new(Greeting {
                        socket,
                        receiver,
                        hello: None,
                        process,
                        role: StubRole::Guest,
                    }))
                }
                Some(EnteredSession {
                    host,
                    queue: MessageQueue { outgoing, queue },
                    jobs,
                    values_requests,
                }) => {
                    receiver.go_on_with(&received, None);
                    let sender = MessageSender::new(socket, limit, unsent);
                    let mut session = self.assembled(SessionParts {
                        receiver,
                        sender,
                        outgoing,
                        queue,
                        host,
                        process,
                        forks,
                        place: self.place(),
                    });
                    session.executor.jobs.go_on_with(jobs);
                    for (number, proc) in values_requests {
                        session.executor.modex(number, proc);
                    }
                    StubConnection::Session(Box::new(session))
                }
            };
            self.spawn(connection);
        }
        Ok(())
    }

    /// Serves a connection in a task of its own.
    pub(super) fn spawn(self: &Arc<Self>, connection: StubConnection) {
        let (service, open) = (self.clone(), self.suspender.open());
        // The service traces the end.
        tokio::spawn(async move { service.follow(connection, open).await });
    }

    fn place(&self) -> StubPlace {
        self.connected.fetch_add(1, Ordering::Relaxed);
        StubPlace(self.connected.clone())
    }

    fn admit(&self, hello: &StubHello, identity: UserIdentity) -> Result<StubPlace, StubRefusal> {
        if hello.protocol != PROTOCOL {
            return Err(StubRefusal::Protocol {
                stub: hello.protocol,
                server: PROTOCOL,
            });
        }
        if !self.journal.is_open() {
            return Err(StubRefusal::Draining);
        }
        let own = rustix::process::geteuid().as_raw();
        let uid = identity.uid;
        if uid != 0 && uid != own {
            return Err(StubRefusal::User {
                uid,
                allowed: format!("root and user {own}"),
            });
        }
        let max = self.settings.max_stubs;
        let place = self.place();
        if self.connected.load(Ordering::Relaxed) > max {
            return Err(StubRefusal::TooMany { max });
        }
        Ok(place)
    }

    /// Returns the name of a host environment's process: the one that it has, or a new one. It differs from
    /// those that other servers give, by which an event that comes back to its server is known; process
    /// ids of several nodes may be equal.
    fn name(&self, hello: &StubHello) -> Proc {
        if let Some(name) = &hello.name {
            return name.clone();
        }
        let number = self.named.fetch_add(1, Ordering::Relaxed);
        // The name of a server is in its address, before the rank, and is its own.
        let server = self.uri.split('.').next().unwrap_or_default();
        // Letters and digits are a valid namespace.
        let nspace = Nspace::new(&format!("{server}-host-{number}")).unwrap_or_default();
        Proc::new(nspace, Rank(0))
    }

    fn welcome(&self, infos: &[Info], name: Proc) -> ServerWelcome {
        let variables = client_environment(&name.nspace, &self.hostname, Rank(0), &self.uri);
        let common = variables
            .into_iter()
            .filter(|(name, _)| !OWN_VARIABLES.contains(name) && !name.starts_with(OPEN_MPI));
        let mut environment: Vec<EnvironmentVariable> = common
            .map(|(name, value)| EnvironmentVariable {
                name: name.to_owned(),
                value,
            })
            .collect();
        let directories = [
            (key::PMIX_SERVER_TMPDIR, variable::SERVER_TMPDIR),
            (key::PMIX_SYSTEM_TMPDIR, variable::SYSTEM_TMPDIR),
        ];
        environment.extend(directories.iter().filter_map(|(key, name)| {
            Some(EnvironmentVariable {
                name: (*name).to_owned(),
                value: infos.value_of(*key)?.as_str()?.to_owned(),
            })
        }));
        ServerWelcome {
            name,
            uri: self.uri.clone(),
            environment,
        }
    }
}

/// Returns a descriptor of a process; none if it has ended or is in another PID namespace.
fn watched(pid: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

//! Parts that the connections of all stubs share, and the admission of a stub.
use super::{
    fork_messages,
    host_router::HostRouter,
    registered_jobs::RegisteredJobs,
    remote_host::{RemoteHost, UpcallLimits},
    session::{Session, SessionError},
    transfer::{MessageReceiver, MessageSender, TransferError},
};
use crate::{admin::JobJournal, client_environment, handle::ServerHandle};
use peal_core::server::EventBudget;
use peal_model::{Info, Infos, Nspace, Proc, Rank, UserIdentity, key};
use peal_stub::{
    EnvironmentVariable, FrameLimit, PROTOCOL, ServerMessage, ServerWelcome, StubHello,
    StubMessage, StubRefusal, StubSocket,
};
use peal_wire::variable;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::{
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
    connected: AtomicUsize,
    named: AtomicU64,
}

/// Relation of a stub to the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StubRole {
    /// The stub is one of several.
    Guest,
    /// The server was started for the stub, and has no other one.
    Owner,
}

/// A place among the connected stubs.
struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
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
            connected: AtomicUsize::new(0),
            named: AtomicU64::new(0),
        }
    }

    /// Serves a stub until its connection ends. Its jobs are then removed.
    ///
    /// # Errors
    ///
    /// Fails if the stub is refused or violates the protocol.
    pub async fn serve(&self, stream: UnixStream, role: StubRole) -> Result<(), SessionError> {
        self.serve_stub(stream, role).await.inspect_err(|error| {
            tracing::warn!(%error, "connection of host environment ended");
        })
    }

    async fn serve_stub(&self, stream: UnixStream, role: StubRole) -> Result<(), SessionError> {
        let peer = stream.peer_cred()?;
        let identity = UserIdentity {
            uid: peer.uid(),
            gid: peer.gid(),
        };
        let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
        let process = peer.pid().and_then(watched);
        let socket = Arc::new(StubSocket::new(stream.into_std()?)?);
        let limit = self.settings.frame_limit;
        let mut receiver = MessageReceiver::new(socket.clone(), limit);
        let mut sender = MessageSender::new(socket, limit);
        let first = timeout(self.settings.hello_timeout, receiver.first()).await;
        let first = first.map_err(|_| SessionError::Slow(self.settings.hello_timeout))?;
        let (hello, descriptor) = match first? {
            Some((StubMessage::Hello(hello), descriptor)) => (hello, descriptor),
            Some(_) => return Err(SessionError::NoHello),
            // A probe whether a server listens.
            None => return Ok(()),
        };
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
        sender.send(&ServerMessage::Welcome(welcome)).await?;
        tracing::info!(host = %name, uid = identity.uid, pid, release = hello.release, "host environment connected");
        let (outgoing, queue) = mpsc::channel(self.settings.max_queued_messages);
        let limits = UpcallLimits {
            timeout: self.settings.answer_timeout,
            open: self.settings.max_open_upcalls,
        };
        let host = RemoteHost::new(
            name.clone(),
            identity,
            hello.offered,
            outgoing.clone(),
            limits,
        );
        let host = Arc::new(host);
        if role == StubRole::Owner {
            self.router.set_owner(host.clone());
        }
        let jobs = RegisteredJobs::new(
            self.handle.clone(),
            self.router.clone(),
            host.clone(),
            self.hostname.clone(),
            self.settings.max_jobs,
            self.journal.clone(),
        );
        let forks = descriptor.map(|socket| {
            let follow = fork_messages::follow(socket, jobs.users(), self.handle.clone());
            tokio::spawn(follow)
        });
        let session = Session {
            handle: self.handle.clone(),
            router: self.router.clone(),
            host: host.clone(),
            jobs,
            outgoing,
            allowance: self.settings.allowance,
            max_waiting: self.settings.max_queued_messages,
            process,
        };
        let ended = session.run(receiver, write_all(sender, queue)).await;
        host.end();
        if let Some(forks) = forks {
            forks.abort();
        }
        drop(place);
        tracing::info!(host = %name, "host environment disconnected");
        ended
    }

    fn admit(&self, hello: &StubHello, identity: UserIdentity) -> Result<Place<'_>, StubRefusal> {
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
        let before = self.connected.fetch_add(1, Ordering::Relaxed);
        let place = Place(&self.connected);
        if before >= max {
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

/// Sends the queued messages until the queue ends.
async fn write_all(
    mut sender: MessageSender,
    mut queue: mpsc::Receiver<ServerMessage>,
) -> Result<(), TransferError> {
    while let Some(message) = queue.recv().await {
        sender.send(&message).await?;
    }
    Ok(())
}

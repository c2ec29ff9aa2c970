//! A server from start to shutdown: listener, actor, chains.
use crate::{
    actor::Actor,
    admission::ToolNames,
    chains::{ChainSettings, ChainView, Chains, GuestPools},
    channels::{ChannelSettings, Channels},
    connection::{ConnectionContext, ServePhase},
    decisions::Decisions,
    fair_semaphore::FairSemaphore,
    handle::{self, Queues, ServerHandle},
    heartbeats::HeartbeatTable,
    host_environment::HostEnvironment,
    hosted::Hosted,
    identity::{Checker, IdentityCheck, ProcessObserver},
    listening::{ConnectionListener, listen, report},
    metrics::{Counters, Metrics},
    monitor::MonitorWorker,
    notice::Notices,
    process_watch::ProcessWatch,
    shadow::Shadows,
    shared_actor::SharedActor,
    spill::{SpillSettings, Spiller},
    transport::{InProcessTransport, ServerId, ServerKind, ServerTransport},
    user_shares::{ShareLimits, UserShares},
};
use peal_audit::AuditTrail;
use peal_core::server::Monitoring;
use peal_model::{Proc, UserIdentity};
use peal_store::TraceRateLimit;
use peal_wire::{DecodeLimits, ServerUri};
use rustix::process::{getegid, geteuid};
use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    sync::Arc,
    time::{Duration, Instant},
};
use thiserror::Error;
use tokio::{net::TcpSocket, sync::watch, task::JoinHandle};

/// The least time between two lines on refused connections.
const BETWEEN_REFUSALS: Duration = Duration::from_secs(1);

/// How many peers are checked at once, and how many of one user.
const CHECKS: usize = 8;
const CHECKS_EACH: usize = 2;

/// The connections that may wait to be accepted; the system may allow fewer (`net.core.somaxconn`).
const BACKLOG: u32 = 4096;

/// Limits and times of a server; all of them settings.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Those of the state machine.
    pub core: peal_core::server::StateSettings,
    /// Where events go that there is no room for in memory.
    pub spill: SpillSettings,
    /// Those of messages.
    pub wire: DecodeLimits,
    /// How much of what a peer claims must be true.
    pub identity: IdentityCheck,
    /// What it does for other servers.
    pub duty: ServerKind,
    /// The most connections at once; an eighth of them are root's and the server's user's alone.
    pub max_connections: usize,
    /// How many of them one user may have, unless that is root or the server's.
    pub max_connections_per_user: usize,
    /// How many handshakes of such a user are read at once.
    pub max_handshakes_per_user: usize,
    /// How many bytes messages of such a user may take of which a part has come.
    pub max_partial_frame_bytes_per_user: usize,
    /// How long a message may take from its first byte to its last.
    pub frame_timeout: Duration,
    /// How long a handshake or request waits at most, since others of the same user were refused.
    pub max_refusal_delay: Duration,
    /// How long a handshake may take.
    pub handshake_timeout: Duration,
    /// How many messages may wait for one client; one that does not read them is cut off.
    pub max_outbox_messages: usize,
    /// How much memory these may take, in bytes.
    pub max_outbox_bytes: usize,
    /// How many requests of one client may await their answer.
    pub max_open_requests: usize,
    /// Those of the hosted chains.
    pub chains: ChainSettings,
    /// Those of log channels.
    pub channels: ChannelSettings,
    /// How long connections have to take what is left for them at shutdown.
    pub drain_timeout: Duration,
    /// How long the host environment may take to register for events of the environment.
    pub host_environment_timeout: Duration,
}

impl Default for ServerSettings {
    fn default() -> Self {
        ServerSettings {
            core: peal_core::server::StateSettings::default(),
            spill: SpillSettings::default(),
            wire: DecodeLimits::default(),
            identity: IdentityCheck::default(),
            duty: ServerKind::default(),
            max_connections: 4096,
            max_connections_per_user: 1024,
            max_handshakes_per_user: 64,
            max_partial_frame_bytes_per_user: 128 << 20,
            frame_timeout: Duration::from_secs(60),
            max_refusal_delay: Duration::from_secs(1),
            handshake_timeout: Duration::from_secs(10),
            max_outbox_messages: 65_536,
            max_outbox_bytes: 256 << 20,
            max_open_requests: 4096,
            chains: ChainSettings::default(),
            channels: ChannelSettings::default(),
            drain_timeout: Duration::from_secs(5),
            host_environment_timeout: Duration::from_secs(5),
        }
    }
}

/// Why a server cannot start.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The loopback address cannot be listened on.
    #[error("cannot listen on the loopback address: {0}")]
    Listen(#[from] std::io::Error),
}

/// What a server is made of.
pub struct ServerParts {
    /// Its own name; the namespace should hold no dot (`libpmix` 4.2 cuts a URI at the first one).
    pub me: Proc,
    /// The host environment.
    pub host: Arc<dyn HostEnvironment>,
    /// The other servers.
    pub fabric: Arc<InProcessTransport>,
    /// The modules.
    pub hosted: Hosted,
    /// The threads on which these run.
    pub pools: GuestPools,
    /// Who watches.
    pub notices: Notices,
    /// Who looks which processes clients and tools are.
    pub observer: ProcessObserver,
    /// Where all that is decided is recorded, if it is.
    pub audit: Option<AuditTrail>,
}

/// A running server.
pub struct Server {
    uri: ServerUri,
    handle: ServerHandle,
    metrics: Arc<Metrics>,
    chains: ChainView,
    shadows: Shadows,
    shared_actor: Arc<SharedActor>,
    office: JoinHandle<()>,
    /// None when it has been waited for.
    listener: Option<JoinHandle<()>>,
    stopping: watch::Sender<ServePhase>,
    fabric: Arc<InProcessTransport>,
    id: ServerId,
    drain_timeout: Duration,
}

impl Server {
    /// Starts listening on the loopback address.
    pub async fn start(
        settings: ServerSettings,
        parts: ServerParts,
    ) -> Result<Server, ServerError> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let listener = socket.listen(BACKLOG)?;
        let listener = ConnectionListener::new(listener)?;
        let uri = ServerUri {
            proc: parts.me,
            addr: listener.address,
        };
        let metrics: Arc<Metrics> = Arc::default();
        let (Queues { handle, wanted }, inbox) = handle::queues();
        let Hosted {
            chains,
            policies,
            channels,
        } = parts.hosted;
        let notices = parts.notices;
        let shadows = Shadows::new(&parts.pools.shadows, &metrics);
        let (told, counted, looking) = (notices.clone(), metrics.clone(), shadows.clone());
        let chains = Chains::start(
            chains,
            &parts.pools,
            settings.chains,
            &wanted,
            told,
            counted,
            looking,
        );
        let view = chains.view();
        let id = parts.fabric.allot();
        parts.fabric.join(id, handle.clone(), settings.duty);
        let fabric: Arc<dyn ServerTransport> = parts.fabric.clone();
        let (queue, pool) = (settings.core.max_decisions, &parts.pools.policies);
        let decisions = Decisions::start(
            policies,
            pool,
            queue,
            &handle,
            &metrics,
            &shadows,
            parts.audit.clone(),
        );
        let pool = &parts.pools.channels;
        let beside = (fabric.clone(), id);
        let channels = Channels::start(
            channels,
            pool,
            settings.channels,
            &parts.host,
            beside,
            &handle,
            &metrics,
        );
        let monitoring = match settings.core.monitoring {
            Monitoring::Deferred if parts.host.monitors() => Monitoring::Host,
            Monitoring::Deferred => Monitoring::Server,
            said => said,
        };
        let shares = ShareLimits {
            max_connections: settings.max_connections,
            max_connections_per_user: settings.max_connections_per_user,
            max_handshakes_per_user: settings.max_handshakes_per_user,
            max_partial_frame_bytes_per_user: settings.max_partial_frame_bytes_per_user,
            frame_timeout: settings.frame_timeout,
            max_refusal_delay: settings.max_refusal_delay,
            // Half of the threads are left for others.
            max_message_turns_per_user: tokio::runtime::Handle::current().metrics().num_workers()
                / 2,
            max_tools_per_user: settings.core.max_tools_per_user,
            max_put_bytes_per_user: settings.core.max_put_bytes_per_user,
        };
        let core = peal_core::server::StateSettings {
            id,
            monitoring,
            hostname: peal_system::hostname(),
            ..settings.core
        };
        let mut state = peal_core::server::ServerState::new(core);
        let identity = UserIdentity {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
        };
        if let Some(codes) = parts.host.registered_events() {
            state.host_registers(&codes);
        }
        state.guard(identity, decisions.hooks());
        state.watch(decisions.watched());
        let spiller = Spiller::new(settings.spill, settings.wire, handle.clone());
        let processes = ProcessWatch::new(handle.clone());
        let checker = Arc::new(Checker::new(
            settings.identity,
            parts.host.clone(),
            parts.observer,
        ));
        let started = Instant::now();
        let actor = Actor {
            state,
            runs_as: identity,
            started,
            outboxes: BTreeMap::new(),
            pulses: HeartbeatTable::default(),
            jobs: Arc::default(),
            watchman: MonitorWorker::new(handle.clone(), parts.host.clone()),
            processes: processes.clone(),
            host: parts.host.clone(),
            fabric,
            id,
            chains,
            decisions,
            channels,
            spiller,
            admissions: BTreeMap::new(),
            asked: BTreeMap::new(),
            drain_timeout: settings.drain_timeout,
            host_timeout: settings.host_environment_timeout,
            notices,
            metrics: metrics.clone(),
            outbox_bytes: settings.max_outbox_bytes,
            handle: handle.clone(),
            refused_puts: TraceRateLimit::new(BETWEEN_REFUSALS),
        };
        let user_shares = Arc::new(UserShares::new(shares, identity.uid));
        let shown = user_shares.clone();
        metrics.show(move || shown.families());
        let office = Arc::new(SharedActor::of(actor));
        let (stopping, stage) = watch::channel(ServePhase::Accept);
        let host = parts.host;
        let context = ConnectionContext {
            audit: parts.audit,
            office: office.clone(),
            metrics: metrics.clone(),
            packing: Arc::default(),
            checker,
            processes,
            host,
            checks: Arc::new(FairSemaphore::new(CHECKS, CHECKS_EACH)),
            user_shares,
            tool_names: Arc::new(ToolNames::new(uri.proc.clone())),
            limits: settings.wire,
            handshake_timeout: settings.handshake_timeout,
            outbox: settings.max_outbox_messages,
            max_open_requests: settings.max_open_requests,
            refusals: Arc::new(TraceRateLimit::new(BETWEEN_REFUSALS)),
            stage: stage.clone(),
            started,
        };
        Ok(Server {
            uri,
            handle,
            metrics,
            chains: view,
            shadows,
            shared_actor: office.clone(),
            office: tokio::spawn(office.run(inbox)),
            listener: Some(tokio::spawn(listen(listener, Arc::new(context), stage))),
            stopping,
            fabric: parts.fabric,
            id,
            drain_timeout: settings.drain_timeout,
        })
    }

    /// Where clients find it.
    pub fn uri(&self) -> &ServerUri {
        &self.uri
    }

    /// By which the host environment reaches it.
    pub fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// The hosted chains, as they are.
    pub fn chains(&self) -> ChainView {
        self.chains.clone()
    }

    /// Those that only look on.
    pub fn shadows(&self) -> Shadows {
        self.shadows.clone()
    }

    /// What it counts.
    pub fn counters(&self) -> &Counters {
        self.metrics.counters()
    }

    /// All that it counts and measures.
    pub fn metrics(&self) -> Arc<Metrics> {
        self.metrics.clone()
    }

    /// Waits until a panic has left the server's state half-way, so that it answers nobody any more and its process should end; for
    /// ever if there is none.
    pub fn failure(&self) -> impl Future<Output = ()> + Send + use<> {
        self.shared_actor.failure()
    }

    /// Accepts nobody any more, and returns when the last connection has ended. Whoever gives up waiting has changed
    /// nothing; [`Server::shutdown`] ends the rest.
    pub async fn drain(&mut self) {
        self.stopping.send_if_modified(|stage| {
            let serving = *stage == ServePhase::Accept;
            if serving {
                *stage = ServePhase::Leave;
            }
            serving
        });
        if let Some(listener) = &mut self.listener {
            let ended = listener.await;
            self.listener = None;
            report(ended);
        }
    }

    /// Stops: accepts nobody any more, lets events that were accepted pass the hosted chains, lets clients take what is left
    /// for them, and returns when all of that has ended.
    pub async fn shutdown(self) {
        self.fabric.leave(self.id);
        self.handle.stop();
        // A receiver is there as long as the listener runs.
        let _ = self.stopping.send(ServePhase::Drain(self.drain_timeout));
        for task in self.listener.into_iter().chain([self.office]) {
            report(task.await);
        }
    }
}

//! The server from start to shutdown: listener, actor and hosted modules.
use crate::{
    actor::Actor,
    admission::ToolNames,
    chains::{ChainSettings, ChainView, Chains, GuestPools},
    channels::{ChannelSettings, Channels},
    client_writer::Behind,
    connection::{ConnectionContext, ServePhase},
    decisions::{DecisionObservers, Decisions},
    fair_semaphore::FairSemaphore,
    gateways::Gateways,
    handle::{self, Queues, ServerHandle},
    handover::{BegunServer, ContinuedServer, HandoverError, StartingServer, SuspendedConnections},
    heartbeats::HeartbeatTable,
    host_environment::HostEnvironment,
    hosted::Hosted,
    identity::Checker,
    jobs::users_of_jobs,
    listening::{accept, listen, report},
    metrics::{Counters, Metrics},
    monitor::MonitorWorker,
    networked_server::{NetworkedServer, RefusedMessages},
    notice::Notices,
    outbox_share::OutboxLimits,
    packing::Packing,
    process_watch::ProcessWatch,
    request_pacer::{RequestPacer, runtime_busy},
    server_controls::ControlRecorder,
    server_inbox::InboxLimits,
    shadow::Shadows,
    shared_actor::{FrozenActor, SharedActor},
    spill::{SpillSettings, Spiller},
    spinner::Spinner,
    user_shares::{ShareLimits, UserShares},
};
use peal_audit::AuditTrail;
use peal_cluster::{ServerKind, ServerNetwork, ServerTransport};
use peal_core::{
    choice::IdentityCheck,
    server::{Monitoring, ServerState, StateSettings},
};
use peal_helper::PrivilegedHelper;
use peal_model::{Proc, UserIdentity};
use peal_store::TraceRateLimit;
use peal_wire::{DecodeLimits, ServerUri};
use rustix::process::{getegid, geteuid};
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, TcpListener},
    sync::Arc,
    time::{Duration, Instant},
};
use thiserror::Error;
use tokio::{net::TcpSocket, sync::watch, task::JoinHandle};

/// Least time between two log lines about refused connections.
const BETWEEN_REFUSALS: Duration = Duration::from_secs(1);

/// Maximum number of peers that are checked at once, in total and per user.
const CHECKS: usize = 8;
const CHECKS_EACH: usize = 2;

/// Maximum number of connections that wait to be accepted. The system may allow fewer
/// (`net.core.somaxconn`).
const BACKLOG: u32 = 4096;

/// Limits and times of a server. All of them are settings of the configuration.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Settings of the state machine.
    pub core: peal_core::server::StateSettings,
    /// Directory and limit of events that are spilled to disk.
    pub spill: SpillSettings,
    /// Limits of messages.
    pub wire: DecodeLimits,
    /// Checks of the identity that a peer claims.
    pub identity: IdentityCheck,
    /// Service of this server for other servers.
    pub duty: ServerKind,
    /// Maximum number of connections. An eighth of them is reserved for root and the server's user.
    pub max_connections: usize,
    /// Maximum number of connections of one user. Root and the server's user are exempt.
    pub max_connections_per_user: usize,
    /// Maximum number of handshakes of such a user that are read at once.
    pub max_handshakes_per_user: usize,
    /// Maximum bytes of such a user's messages that have been received in part.
    pub max_partial_frame_bytes_per_user: usize,
    /// Maximum bytes of such messages of all users except root and the server's user.
    pub max_partial_frame_bytes_total: usize,
    /// Maximum time from the first byte of a message to its last.
    pub frame_timeout: Duration,
    /// Maximum delay of a handshake or request after others of the same user were refused.
    pub max_refusal_delay: Duration,
    /// Part of the time in percent for which the server may be busy before it delays the requests of
    /// users who make the most, while several users make requests.
    pub max_busy_percent: u32,
    /// Time after work in which the server looks for more before it sleeps.
    pub spin_time: Duration,
    /// Maximum time of a handshake.
    pub handshake_timeout: Duration,
    /// Maximum number of messages that wait for one client. A client that exceeds it is cut off.
    pub max_outbox_messages: usize,
    /// Maximum memory of these messages, also for all clients of one user and in total.
    pub outbox: OutboxLimits,
    /// Maximum memory of the messages of other servers that wait.
    pub inbox: InboxLimits,
    /// Maximum number of requests of one client that await their answer.
    pub max_open_requests: usize,
    /// Settings of the hosted chains.
    pub chains: ChainSettings,
    /// Settings of log channels.
    pub channels: ChannelSettings,
    /// Time that connections have at shutdown to receive their queued messages.
    pub drain_timeout: Duration,
    /// Time that the host environment has to register for environment events.
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
            max_partial_frame_bytes_total: 512 << 20,
            frame_timeout: Duration::from_secs(60),
            max_refusal_delay: Duration::from_secs(1),
            max_busy_percent: 30,
            spin_time: Duration::ZERO,
            handshake_timeout: Duration::from_secs(10),
            max_outbox_messages: 65_536,
            outbox: OutboxLimits::default(),
            inbox: InboxLimits::default(),
            max_open_requests: 4096,
            chains: ChainSettings::default(),
            channels: ChannelSettings::default(),
            drain_timeout: Duration::from_secs(5),
            host_environment_timeout: Duration::from_secs(5),
        }
    }
}

/// Reason for which a server cannot start.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The server cannot listen on the loopback address.
    #[error("cannot listen on the loopback address: {0}")]
    Listen(#[from] std::io::Error),
    /// The server of another process cannot be continued.
    #[error("cannot continue the server: {0}")]
    Continue(#[from] HandoverError),
}

/// Parts that a server is built from.
pub struct ServerParts {
    /// Name of the server. The namespace should contain no dot (`libpmix` 4.2 cuts a URI at the
    /// first one).
    pub me: Proc,
    /// Host environment.
    pub host: Arc<dyn HostEnvironment>,
    /// Network on which it meets other servers.
    pub network: Arc<dyn ServerNetwork>,
    /// Modules.
    pub hosted: Hosted,
    /// Guest threads on which the modules run.
    pub pools: GuestPools,
    /// Notices for listeners.
    pub notices: Notices,
    /// Helper that identifies the processes of clients and tools, and acts as users.
    pub helper: PrivilegedHelper,
    /// Audit trail that records all decisions, if there is one.
    pub audit: Option<AuditTrail>,
    /// Server of another process that this one continues, if it does. Its name replaces that of these parts.
    pub continued: Option<ContinuedServer>,
}

/// A running server.
pub struct Server {
    pub(crate) uri: ServerUri,
    handle: ServerHandle,
    metrics: Arc<Metrics>,
    chains: ChainView,
    shadows: Shadows,
    pacer: Arc<RequestPacer>,
    pub(crate) shared_actor: Arc<SharedActor>,
    pub(crate) actor_task: JoinHandle<()>,
    /// Task of the listener, `None` once it has been waited for.
    pub(crate) listener: Option<JoinHandle<Option<TcpListener>>>,
    /// Listening socket of a server that is suspended.
    pub(crate) kept_listener: Option<TcpListener>,
    /// Hold on the actor of a server that is suspended.
    pub(crate) frozen: Option<FrozenActor>,
    pub(crate) context: Arc<ConnectionContext>,
    pub(crate) stopping: watch::Sender<ServePhase>,
    pub(crate) transport: Arc<dyn ServerTransport>,
    drain_timeout: Duration,
}

impl Server {
    /// Starts listening on the loopback address.
    pub async fn start(
        settings: ServerSettings,
        parts: ServerParts,
    ) -> Result<Server, ServerError> {
        let monitoring = match settings.core.monitoring {
            Monitoring::Deferred if parts.host.monitors() => Monitoring::Host,
            Monitoring::Deferred => Monitoring::Server,
            configured => configured,
        };
        let core = StateSettings {
            monitoring,
            hostname: peal_system::hostname(),
            ..settings.core
        };
        let limits = core.decisions;
        let StartingServer {
            me,
            listener,
            mut state,
            mut begun,
        } = match parts.continued {
            Some(continued) => continued.starting(core),
            None => StartingServer {
                me: parts.me,
                listener: bound_listener()?,
                state: ServerState::new(core),
                begun: BegunServer::default(),
            },
        };
        let uri = ServerUri {
            proc: me,
            addr: listener.local_addr()?,
        };
        let metrics: Arc<Metrics> = Arc::default();
        let (
            Queues {
                handle,
                handler_requests,
            },
            inbox,
        ) = handle::queues(settings.inbox);
        let Hosted {
            chains,
            policies,
            channels,
        } = parts.hosted;
        let notices = parts.notices;
        let shadows = Shadows::new(&parts.pools.shadows, &metrics);
        let chains = Chains::start(
            chains,
            &parts.pools,
            settings.chains,
            &handler_requests,
            notices.clone(),
            metrics.clone(),
            shadows.clone(),
        );
        let view = chains.view();
        let refused_messages = Arc::new(RefusedMessages {
            audit: parts.audit.clone(),
            metrics: metrics.clone(),
            lines: TraceRateLimit::new(BETWEEN_REFUSALS),
        });
        // Messages of other servers wait in the queue until the task of the actor runs.
        let joined = Arc::new(NetworkedServer {
            handle: handle.clone(),
            refused: refused_messages.clone(),
        });
        let transport = parts.network.join(joined, settings.duty);
        let gateways = Gateways::new(transport.clone(), settings.duty);
        let pool = &parts.pools.policies;
        let decisions = Decisions::start(
            policies,
            pool,
            limits,
            &handle,
            DecisionObservers {
                metrics: metrics.clone(),
                shadows: shadows.clone(),
                audit: parts.audit.clone(),
                notices: notices.clone(),
            },
        );
        let pool = &parts.pools.channels;
        let channels = Channels::start(
            channels,
            pool,
            settings.channels,
            &parts.host,
            gateways.clone(),
            &handle,
            &metrics,
        );
        let shares = ShareLimits {
            max_connections: settings.max_connections,
            max_connections_per_user: settings.max_connections_per_user,
            max_handshakes_per_user: settings.max_handshakes_per_user,
            max_partial_frame_bytes_per_user: settings.max_partial_frame_bytes_per_user,
            max_partial_frame_bytes_total: settings.max_partial_frame_bytes_total,
            frame_timeout: settings.frame_timeout,
            max_refusal_delay: settings.max_refusal_delay,
            outbox: settings.outbox,
        };
        // The clock of a continued server goes on. It began after the machine, so that this time exists.
        let started = Instant::now();
        let started = started
            .checked_sub(Duration::from_millis(begun.clock.0))
            .unwrap_or(started);
        let identity = UserIdentity {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
        };
        // Before the first client connects, so that the host environment misses no event.
        if let Some(codes) = parts.host.registered_events() {
            state.host_registers(&codes);
        }
        // Before the first connection: for an unknown hook the built-in rule would decide.
        state.guard(identity, decisions.hooks());
        state.watch(decisions.watched());
        let spill = begun.spill.take();
        let spiller = Spiller::new(settings.spill, settings.wire, handle.clone(), spill);
        let processes = ProcessWatch::new(handle.clone());
        let checker = Arc::new(Checker::new(
            settings.identity,
            parts.host.clone(),
            parts.helper.clone(),
        ));
        let packing: Arc<Packing> = Arc::default();
        chains.continue_numbers(begun.events_numbered);
        let jobs = users_of_jobs(&state);
        // While nobody served the clients, their silence proved nothing.
        state.excuse_silence(begun.clock);
        let continued_work = state.work_to_continue();
        let mut actor = Actor {
            state,
            runs_as: identity,
            started,
            outboxes: BTreeMap::new(),
            heartbeats: HeartbeatTable::default(),
            jobs: Arc::new(jobs),
            open_answers: Arc::default(),
            open_answers_over_nodes: Arc::default(),
            is_suspended: false,
            monitor_worker: MonitorWorker::new(
                handle.clone(),
                parts.host.clone(),
                parts.helper.clone(),
            ),
            processes: processes.clone(),
            host: parts.host.clone(),
            transport: transport.clone(),
            gateways,
            chains,
            decisions,
            channels,
            spiller,
            admissions: BTreeMap::new(),
            termination_replies: BTreeMap::new(),
            modex_requests: BTreeMap::new(),
            next_modex: 0,
            server_queries: BTreeMap::new(),
            next_query: 0,
            drain_timeout: settings.drain_timeout,
            host_timeout: settings.host_environment_timeout,
            notices,
            metrics: metrics.clone(),
            packing: packing.clone(),
            outbox_bytes: settings.outbox.client,
            behind: Behind::Nothing,
            handle: handle.clone(),
            refused_puts: TraceRateLimit::new(BETWEEN_REFUSALS),
            lost_publications: TraceRateLimit::new(BETWEEN_REFUSALS),
            refused_messages,
            control_recorder: parts
                .audit
                .clone()
                .map(|audit| ControlRecorder::start(audit, handle.clone())),
        };
        actor.act_all(continued_work);
        let spinner = Arc::new(Spinner::new(settings.spin_time));
        let (busy, looking) = (runtime_busy(), spinner.clone());
        let busy = move || busy().saturating_sub(looking.idle_time());
        let pacer = Arc::new(RequestPacer::new(settings.max_busy_percent, busy));
        let user_shares = Arc::new(UserShares::new(shares, identity.uid, pacer.clone()));
        let shared_actor = Arc::new(SharedActor::of(actor, spinner.clone()));
        handle.give_access(&shared_actor);
        let (shares, charging) = (user_shares.clone(), Arc::downgrade(&shared_actor));
        metrics.show_quotas(move |report| {
            shares.report_quotas(report);
            // Without an actor the server has stopped, and users hold nothing else.
            if let Some(actor) = charging.upgrade() {
                let _ = actor.with_actor(|actor| actor.report_quotas(report));
            }
        });
        let (stopping, stage) = watch::channel(ServePhase::Accept);
        let host = parts.host;
        let context = Arc::new(ConnectionContext {
            audit: parts.audit,
            shared_actor: shared_actor.clone(),
            metrics: metrics.clone(),
            packing,
            checker,
            processes,
            host,
            checks: Arc::new(FairSemaphore::new(CHECKS, CHECKS_EACH)),
            user_shares,
            tool_names: Arc::new(ToolNames::after(uri.proc.clone(), begun.tools_named)),
            limits: settings.wire,
            handshake_timeout: settings.handshake_timeout,
            outbox: settings.max_outbox_messages,
            max_open_requests: settings.max_open_requests,
            refusals: Arc::new(TraceRateLimit::new(BETWEEN_REFUSALS)),
            stage: stage.clone(),
            started,
            greeting: Arc::default(),
            suspended: SuspendedConnections::default(),
        });
        let connections = begun.go_on(&context)?;
        let accepted = accept(listener, context.clone(), stage.clone())?;
        let awake = tokio::spawn(async move { spinner.run().await });
        let acting = shared_actor.clone();
        let actor_task = tokio::spawn(async move {
            acting.run(inbox).await;
            awake.abort();
        });
        Ok(Server {
            uri,
            handle,
            metrics,
            chains: view,
            shadows,
            pacer,
            shared_actor,
            actor_task,
            listener: Some(tokio::spawn(listen(
                accepted,
                connections,
                context.clone(),
                stage,
            ))),
            kept_listener: None,
            frozen: None,
            context,
            stopping,
            transport,
            drain_timeout: settings.drain_timeout,
        })
    }

    /// Returns the URI at which clients find the server.
    pub fn uri(&self) -> &ServerUri {
        &self.uri
    }

    /// Returns the handle by which the host environment reaches the server.
    pub fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// Returns a view of the hosted chains, which follows their changes.
    pub fn chains(&self) -> ChainView {
        self.chains.clone()
    }

    /// Returns the shadow modules.
    pub fn shadows(&self) -> Shadows {
        self.shadows.clone()
    }

    /// Returns the pace of requests.
    pub fn pacer(&self) -> Arc<RequestPacer> {
        self.pacer.clone()
    }

    /// Returns the server's counters.
    pub fn counters(&self) -> &Counters {
        self.metrics.counters()
    }

    /// Returns all metrics of the server.
    pub fn metrics(&self) -> Arc<Metrics> {
        self.metrics.clone()
    }

    /// Waits for a panic that has left the server's state inconsistent, or for ever if there is
    /// none. After such a panic the server answers no requests and its process should end.
    pub fn failure(&self) -> impl Future<Output = ()> + Send + use<> {
        self.shared_actor.failure()
    }

    /// Stops accepting connections, and returns when the last one has ended. The future may be
    /// dropped: the connections are still served, and [`Server::shutdown`] ends them.
    pub async fn drain(&mut self) {
        self.stopping.send_if_modified(|stage| {
            // A shutdown that has begun is not taken back.
            let serving = *stage == ServePhase::Accept;
            if serving {
                *stage = ServePhase::Leave;
            }
            serving
        });
        if let Some(listener) = &mut self.listener {
            // Awaited by reference: if this future is dropped, `shutdown` still finds the task.
            let ended = listener.await;
            // A task that has ended must not be awaited again.
            self.listener = None;
            report(ended.map(drop));
        }
    }

    /// Stops the server: accepts no further connections, lets accepted events pass the hosted
    /// chains, and lets clients receive their queued messages. Returns when all of that has ended.
    pub async fn shutdown(self) {
        // First, so that other servers no longer wait for this one.
        let left = self.transport.leave();
        // Queued behind earlier messages, which are still processed.
        self.handle.stop();
        // Ignore an error: without a receiver the listener has ended already.
        let _ = self.stopping.send(ServePhase::Drain(self.drain_timeout));
        if let Some(listener) = self.listener {
            report(listener.await.map(drop));
        }
        report(self.actor_task.await);
        left.await;
    }
}

/// Returns a listening socket on the loopback address.
fn bound_listener() -> std::io::Result<TcpListener> {
    // Port 0 lets the system choose a free port. Clients learn it from the URI.
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    socket.listen(BACKLOG)?.into_std()
}

//! One connection: the handshake, then requests in and answers and events out. Errors affect no
//! other connection.
use crate::{
    admission::{self, AdmissionError, Admitted, ToolNames},
    client_writer::ClientWriter,
    connection_reader::{ConnectionInput, ConnectionReader},
    connection_writer::{ConnectionWriter, FrameBatch},
    fair_semaphore::FairSemaphore,
    handover::SuspendedConnections,
    host_environment::HostEnvironment,
    identity::{Checker, IdentityMismatch, PeerLookup, PeerSearch, PeerSocket, ProcClaim},
    metrics::Metrics,
    open_requests::OpenRequests,
    outbox::{MessageQueue, Outbox, OutboxReceiver},
    packing::Packing,
    process_watch::{OpenConnection, ProcessWatch},
    shared_actor::{ActorStopped, SharedActor},
    user_shares::{ConnectionShare, ShareExceeded, UserShares},
};
use peal_audit::{AdmissionDenial, AuditTrail};
use peal_core::server::PeerId;
use peal_model::{Hook, Proc, Status};
use peal_store::TraceRateLimit;
use peal_wire::{Codec, DecodeLimits, Welcome, WireError};
use std::{
    io,
    net::SocketAddr,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use thiserror::Error;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpStream, tcp::OwnedReadHalf},
    sync::{OwnedSemaphorePermit, watch},
};
use tracing::{Instrument, Span, field};

/// State that all connections of a server share.
pub(crate) struct ConnectionContext {
    pub(crate) shared_actor: Arc<SharedActor>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) packing: Arc<Packing>,
    pub(crate) checker: Arc<Checker>,
    /// Watch for the ends of processes that other launchers started.
    pub(crate) processes: ProcessWatch,
    pub(crate) host: Arc<dyn HostEnvironment>,
    /// Limit of simultaneous checks of peers. Each check takes a thread, which keeps its memory,
    /// and the procs of a job connect all at once.
    pub(crate) checks: Arc<FairSemaphore>,
    pub(crate) user_shares: Arc<UserShares>,
    pub(crate) tool_names: Arc<ToolNames>,
    pub(crate) limits: DecodeLimits,
    pub(crate) handshake_timeout: Duration,
    pub(crate) outbox: usize,
    pub(crate) max_open_requests: usize,
    /// Limit of the log lines about refused connections, since any process of this machine can
    /// cause any number of them.
    pub(crate) refusals: Arc<TraceRateLimit>,
    /// Audit trail that records refusals, if there is one.
    pub(crate) audit: Option<AuditTrail>,
    /// Phase of the server. Once it stops, peers that are not admitted yet are refused.
    pub(crate) stage: watch::Receiver<ServePhase>,
    /// Start of the actor's clock.
    pub(crate) started: Instant,
    /// Number of peers that are not admitted yet, and of threads that accept further ones.
    pub(crate) greeting: Arc<AtomicUsize>,
    pub(crate) suspended: SuspendedConnections,
}

/// Peer that is not admitted yet, or thread that accepts such peers, until this is dropped.
pub(crate) struct Greeting(Arc<AtomicUsize>);

impl Greeting {
    pub(crate) fn begin(context: &ConnectionContext) -> Greeting {
        context.greeting.fetch_add(1, Ordering::AcqRel);
        Greeting(context.greeting.clone())
    }
}

impl Drop for Greeting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Phase of a server's life, as its connections see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ServePhase {
    /// Connections are accepted and served.
    Accept,
    /// Admitted peers are served. Further ones are refused.
    Leave,
    /// Connections receive their queued messages and end, within this time.
    Drain(Duration),
    /// No connections are accepted. Those that were accepted are still admitted.
    Suspend,
    /// Nobody is admitted.
    Suspended,
}

impl ServePhase {
    /// Returns true if peers are admitted that have connected.
    pub(crate) fn completes_handshakes(self) -> bool {
        matches!(self, ServePhase::Accept | ServePhase::Suspend)
    }
}

/// Reason for which a connection ends early.
#[derive(Debug, Error)]
pub(crate) enum ConnectionError {
    #[error("malformed: {0}")]
    Wire(#[from] WireError),
    #[error("a request for job data cannot be answered: {0}")]
    JobData(WireError),
    #[error("tag {0} is in use by a request that awaits its answer")]
    TagInUse(u32),
    #[error("{0}")]
    Stopping(#[from] ActorStopped),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the client did not read the messages sent to it")]
    NotReading,
    /// No fault: the connection goes on later, here or in another process.
    #[error("the connection is suspended")]
    Suspended,
    #[error("more than {0} requests are open (server.max_open_requests)")]
    OpenRequests(usize),
    #[error("a message was not complete within {0:?} (server.frame_timeout_ms)")]
    UnfinishedFrame(Duration),
    #[error(transparent)]
    Share(#[from] ShareExceeded),
}

impl ConnectionError {
    /// Returns the status of a protocol violation, if the client committed one.
    fn violation(&self) -> Option<Status> {
        match self {
            ConnectionError::Wire(error) | ConnectionError::JobData(error) => Some(error.status()),
            ConnectionError::OpenRequests(_)
            | ConnectionError::TagInUse(_)
            | ConnectionError::Stopping(_)
            | ConnectionError::Io(_)
            | ConnectionError::NotReading
            | ConnectionError::Suspended
            | ConnectionError::UnfinishedFrame(_)
            | ConnectionError::Share(_) => None,
        }
    }
}

/// A connection that was accepted.
pub(crate) struct AcceptedConnection {
    /// Socket, not registered with the runtime, because many connections are refused.
    pub(crate) socket: OwnedFd,
    /// Address of the peer.
    pub(crate) from: SocketAddr,
    /// Address of the server.
    pub(crate) to: SocketAddr,
    /// Permit that is released when the user is known.
    pub(crate) unidentified: OwnedSemaphorePermit,
}

/// A connection that is to be served.
pub(crate) enum NewConnection {
    /// Connection that is charged to its user.
    Charged(ChargedConnection),
    /// Connection whose user the kernel did not report at once.
    Unidentified(AcceptedConnection, PeerSearch),
}

/// Connection that was refused.
pub(crate) struct RefusedConnection {
    /// Socket that is closed only after a delay, because its user was refused often.
    pub(crate) delayed: Option<(OwnedFd, Duration)>,
}

/// A connection that is charged to its user, within that user's share.
pub(crate) struct ChargedConnection {
    stream: TcpStream,
    from: SocketAddr,
    peer: PeerSocket,
    share: ConnectionShare,
}

impl AcceptedConnection {
    /// Asks the kernel for the user of the peer, without waiting, and charges the connection to
    /// that user. The result is boxed, because the task of a connection may live for days and keeps
    /// memory for each value that passes through it.
    ///
    /// # Errors
    ///
    /// Fails if the connection is refused.
    pub(crate) fn charge(
        self,
        context: &ConnectionContext,
    ) -> Result<Box<NewConnection>, RefusedConnection> {
        let found = match context
            .checker
            .look_up_peer(&self.socket, self.from, self.to)
        {
            // The search in the kernel's table is slow, so the task of the connection does it.
            Ok(PeerLookup::Undiagnosed(search)) => {
                return Ok(Box::new(NewConnection::Unidentified(self, search)));
            }
            Ok(PeerLookup::Answered(found)) => Ok(found),
            Err(error) => Err(error),
        };
        Ok(Box::new(NewConnection::Charged(
            self.charge_to(found, context)?,
        )))
    }

    fn charge_to(
        self,
        found: io::Result<Option<PeerSocket>>,
        context: &ConnectionContext,
    ) -> Result<ChargedConnection, RefusedConnection> {
        let AcceptedConnection {
            socket,
            from,
            unidentified,
            ..
        } = self;
        // The user is known, or the lookup has failed: another connection may be accepted.
        drop(unidentified);
        let refused = |uid, reason: &AdmissionError| refuse(context, from, uid, reason);
        let found = found.map_err(|error| AdmissionError::from(IdentityMismatch::Kernel(error)));
        let peer = found.and_then(|found| found.ok_or(AdmissionError::Closed));
        let closed_now = RefusedConnection { delayed: None };
        let Ok(peer) = peer.inspect_err(|reason| refused(None, reason)) else {
            return Err(closed_now);
        };
        let share = match context.user_shares.connect(peer.uid) {
            Ok(share) => share,
            Err(exceeded) => {
                refused(Some(peer.uid), &AdmissionError::from(exceeded));
                let shares = &context.user_shares;
                let delay = shares.refused_connection_delay(peer.uid, Instant::now());
                let delayed = (!delay.is_zero()).then_some((socket, delay));
                return Err(RefusedConnection { delayed });
            }
        };
        // After all refusals, since registration with the runtime takes a system call.
        let stream = TcpStream::from_std(socket.into()).map_err(AdmissionError::from);
        let Ok(stream) = stream.inspect_err(|reason| refused(Some(peer.uid), reason)) else {
            return Err(closed_now);
        };
        Ok(ChargedConnection {
            stream,
            from,
            peer,
            share,
        })
    }
}

impl NewConnection {
    /// Returns the peer's address.
    fn from(&self) -> SocketAddr {
        match self {
            NewConnection::Charged(connection) => connection.from,
            NewConnection::Unidentified(accepted, _) => accepted.from,
        }
    }

    async fn charged(self, context: &ConnectionContext) -> Option<ChargedConnection> {
        match self {
            NewConnection::Charged(connection) => Some(connection),
            NewConnection::Unidentified(accepted, search) => {
                let found = context.checker.search_peer(&accepted.socket, search).await;
                accepted.charge_to(found, context).ok()
            }
        }
    }
}

/// Serves a connection until it ends. Log lines of this time carry the peer's address, and its proc
/// once that is known.
pub(crate) fn serve(
    connection: Box<NewConnection>,
    context: Arc<ConnectionContext>,
) -> impl Future<Output = ()> + Send {
    // Before the task runs: a suspension waits for all handshakes.
    let greeting = Greeting::begin(&context);
    // Error level, so that the span is enabled at all log levels: warnings need its fields.
    let span = tracing::error_span!(
        "connection",
        from = %connection.from(),
        nspace = field::Empty,
        rank = field::Empty,
    );
    serve_traced(connection, context, greeting).instrument(span)
}

async fn serve_traced(
    connection: Box<NewConnection>,
    context: Arc<ConnectionContext>,
    greeting: Greeting,
) {
    // Boxed, so that the memory of the handshake is freed: the connection may live for days. The
    // result is boxed as well, because an async function keeps several copies of a value that it
    // passes on.
    let session = Box::pin(greet(connection, &context)).await;
    drop(greeting);
    if let Some(session) = session {
        serve_admitted(session, context).await;
    }
}

/// Serves a connection that was suspended, here or in another process.
pub(crate) async fn serve_again(session: Box<ServedConnection>, context: Arc<ConnectionContext>) {
    let span = tracing::error_span!(
        "connection",
        nspace = %session.proc.nspace,
        rank = session.proc.rank.0,
    );
    serve_admitted(session, context).instrument(span).await;
}

async fn serve_admitted(mut session: Box<ServedConnection>, context: Arc<ConnectionContext>) {
    let ended = session.run(&context).await;
    if let Err(ConnectionError::Suspended) = ended {
        return context.suspended.add(*session);
    }
    let proc = &session.proc;
    match &ended {
        Ok(()) => {}
        // Connections of clients that die end like this. The host environment has more details.
        Err(ConnectionError::Io(error)) => tracing::debug!(%proc, %error, "connection failed"),
        Err(fault) => match context.refusals.allow(Instant::now()) {
            Some(left_out) => tracing::warn!(%proc, %fault, left_out, "connection closed"),
            None => tracing::debug!(%proc, %fault, "connection closed"),
        },
    }
    // Ignore an actor that has stopped: it has no use for the end of a connection.
    let _ = context.shared_actor.with_actor(|actor| {
        // Before `gone`, after which the state does not know the peer any more.
        if let Some(status) = session.violation {
            actor.garbled(session.peer, status);
        }
        actor.gone(session.peer);
    });
}

/// A connection whose peer has been admitted.
pub(crate) struct ServedConnection {
    pub(crate) reader: OwnedReadHalf,
    /// Input that has not been executed.
    pub(crate) input: ConnectionInput,
    pub(crate) writer: Arc<ClientWriter>,
    /// Messages that wait to be written.
    pub(crate) inbox: OutboxReceiver,
    /// Messages that are being written, at first the one that ends the handshake.
    pub(crate) batch: FrameBatch,
    pub(crate) peer: PeerId,
    pub(crate) proc: Proc,
    /// Process at the other end, if it was searched for and found.
    pub(crate) process: Option<u32>,
    /// Status of a protocol violation of the client.
    pub(crate) violation: Option<Status>,
    /// Share of the user that the connection takes.
    pub(crate) share: ConnectionShare,
    /// Kept as long as the connection is open. Boxed, since procs that this server's launcher has
    /// started have none.
    pub(crate) claim: Option<Box<ProcClaim>>,
    /// Dropped after the actor was informed of the end of the connection.
    pub(crate) open: Option<OpenConnection>,
}

impl ServedConnection {
    /// Reads and writes until the connection ends. One task does both, because the memory of a
    /// second one would be a tenth of that of an idle client.
    async fn run(&mut self, context: &ConnectionContext) -> Result<(), ConnectionError> {
        let mut reading =
            ConnectionReader::of((self.peer, &self.proc), &self.writer, &self.share, context);
        let writing = ConnectionWriter {
            writer: &self.writer,
            inbox: &self.inbox,
            peer: self.peer,
            context,
        };
        tokio::select! {
            biased;
            ended = reading.run(&mut self.reader, &mut self.input) => {
                self.violation = ended.as_ref().err().and_then(ConnectionError::violation);
                ended
            }
            ended = writing.run(&mut self.batch) => ended,
        }
    }
}

/// Reads the handshake and has the peer admitted. Returns `None` if it is refused. A refused
/// connection is closed without a byte, the only refusal that every client understands, after the
/// refusal was counted and logged.
async fn greet(
    connection: Box<NewConnection>,
    context: &ConnectionContext,
) -> Option<Box<ServedConnection>> {
    let ChargedConnection {
        mut stream,
        from,
        peer: socket,
        share,
    } = Box::pin(connection.charged(context)).await?;
    // Otherwise the answer to a small request waits for the acknowledgement of the previous one.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY not set, small messages will be delayed");
    }
    let refused = |reason: &AdmissionError| {
        share.note_refused_handshake(Instant::now());
        refuse(context, from, Some(socket.uid), reason);
    };
    let (hello, rest) = Box::pin(admission::hello(&mut stream, &share, context))
        .await
        .inspect_err(refused)
        .ok()?;
    // The clients of a large job wait here, all at once. The other steps are therefore boxed: what
    // they need takes no memory during this one.
    let verified = admission::verify(&socket, &hello, context);
    let verified = admission::unless_stopping(context, verified)
        .await
        .inspect_err(refused)
        .ok()?;
    let named = admission::name_tool(verified, &hello, context);
    let named = Box::pin(admission::unless_stopping(context, named)).await;
    if let Err(AdmissionError::ByHost(status)) = &named {
        let answer = Welcome::Refused(*status).encode();
        // The peer may have gone.
        let _ = stream.write_all(&answer).await;
    }
    let verified = named.inspect_err(refused).ok()?;
    // Allocated only now, in the memory that the handshakes of other clients have freed.
    let (reader, write_half) = stream.into_split();
    let requests = OpenRequests::new(context.max_open_requests);
    let queue = MessageQueue::new(context.outbox);
    let writer = Arc::new(ClientWriter::new(
        write_half,
        Codec::of(&hello, context.limits),
        requests,
        queue,
        share.outbox(),
    ));
    let (outbox, inbox) = Outbox::of(&writer);
    let admitted = Box::pin(admission::admit(verified, &hello, outbox, context))
        .await
        .inspect_err(refused)
        .ok()?;
    let Admitted {
        id: peer,
        proc,
        process,
        welcome,
        claim,
        open,
    } = admitted;
    let span = Span::current();
    span.record("nspace", field::display(&proc.nspace));
    span.record("rank", proc.rank.0);
    Some(Box::new(ServedConnection {
        reader,
        input: ConnectionInput::of(rest, &context.limits),
        writer,
        inbox,
        // Written later, by the side that writes all messages: the actor may have queued some that
        // must follow it.
        batch: FrameBatch::of(welcome.encode()),
        peer,
        proc,
        process,
        violation: None,
        share,
        claim: claim.map(Box::new),
        open,
    }))
}

/// Counts, records and logs a refusal. The content of the handshake is not recorded, because the
/// peer was not admitted: the record has only the user that the kernel reports, and the reason.
fn refuse(
    context: &ConnectionContext,
    from: SocketAddr,
    uid: Option<u32>,
    reason: &AdmissionError,
) {
    reason.count(uid, &context.metrics);
    // Denials by a hook are recorded with the decision.
    let by_hook = matches!(
        reason,
        AdmissionError::Refused(peal_core::server::ConnectionRefusal::Denied(_))
    );
    if let (Some(audit), false) = (&context.audit, by_hook) {
        audit.refuse(AdmissionDenial {
            uid,
            reason: reason.to_string(),
            hook: Some(Hook::Connection.name().to_owned()),
            from: Some(from.to_string()),
            cause: Some(reason.cause().to_owned()),
            ..AdmissionDenial::default()
        });
    }
    match context.refusals.allow(Instant::now()) {
        Some(left_out) => tracing::warn!(%from, %reason, left_out, "connection refused"),
        None => tracing::debug!(%from, %reason, "connection refused"),
    }
}

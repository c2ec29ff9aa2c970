//! One connection: handshake, then requests in and answers and events out. Whatever is wrong with it affects nobody else.
use crate::{
    admission::{self, AdmissionError, Admitted, ToolNames},
    client_writer::ClientWriter,
    connection_reader::ConnectionReader,
    connection_writer::Delivery,
    fair_semaphore::FairSemaphore,
    host_environment::HostEnvironment,
    identity::{Checker, IdentityMismatch, PeerLookup, PeerSearch, PeerSocket, ProcClaim},
    metrics::Metrics,
    open_requests::OpenRequests,
    outbox::{MessageQueue, Outbox},
    packing::Packing,
    process_watch::{OpenConnection, ProcessWatch},
    shared_actor::{ActorStopped, SharedActor},
    user_shares::{ConnectionShare, ShareExceeded, UserShares},
};
use peal_audit::{AdmissionDenial, AuditTrail};
use peal_core::server::PeerId;
use peal_model::{Hook, Proc, Status};
use peal_store::TraceRateLimit;
use peal_wire::{Codec, DecodeLimits, WireError};
use std::{
    io,
    net::SocketAddr,
    os::fd::OwnedFd,
    sync::Arc,
    time::{Duration, Instant},
};
use thiserror::Error;
use tokio::{
    net::{TcpStream, tcp::OwnedReadHalf},
    sync::{OwnedSemaphorePermit, watch},
    task::{JoinError, JoinSet},
};
use tracing::{Instrument, Span, field};

/// What every connection of a server shares.
pub(crate) struct ConnectionContext {
    pub(crate) office: Arc<SharedActor>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) packing: Arc<Packing>,
    pub(crate) checker: Arc<Checker>,
    /// Where the processes of procs are watched that other launchers started.
    pub(crate) processes: ProcessWatch,
    pub(crate) host: Arc<dyn HostEnvironment>,
    /// Each check takes a thread, with memory that it keeps; the procs of a job all come at once.
    pub(crate) checks: Arc<FairSemaphore>,
    pub(crate) user_shares: Arc<UserShares>,
    pub(crate) tool_names: Arc<ToolNames>,
    pub(crate) limits: DecodeLimits,
    pub(crate) handshake_timeout: Duration,
    pub(crate) outbox: usize,
    pub(crate) max_open_requests: usize,
    /// Everybody on this machine can be refused, as often as he likes.
    pub(crate) refusals: Arc<TraceRateLimit>,
    /// Where these are recorded, if they are.
    pub(crate) audit: Option<AuditTrail>,
    /// Who has not been admitted when the server stops is not waited for.
    pub(crate) stage: watch::Receiver<ServePhase>,
    /// When the actor's clock was started.
    pub(crate) started: Instant,
}

/// What connections are to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ServePhase {
    /// Go on.
    Accept,
    /// Go on, if admitted; nobody else is.
    Leave,
    /// Take what is left, for so long.
    Drain(Duration),
}

/// Why a connection ends early.
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
    #[error("what was sent to it was not read")]
    NotReading,
    #[error("more than {0} requests are open")]
    OpenRequests(usize),
    #[error("a message was not complete within {0:?} (server.frame_timeout_ms)")]
    UnfinishedFrame(Duration),
    #[error(transparent)]
    Share(#[from] ShareExceeded),
    #[error("the task that writes to it failed: {0}")]
    Delivery(#[from] JoinError),
}

impl ConnectionError {
    /// What a client did against the protocol, if reading from it ended by that.
    fn violation(&self) -> Option<Status> {
        match self {
            ConnectionError::Wire(error) | ConnectionError::JobData(error) => Some(error.status()),
            ConnectionError::OpenRequests(_)
            | ConnectionError::TagInUse(_)
            | ConnectionError::Stopping(_)
            | ConnectionError::Io(_)
            | ConnectionError::NotReading
            | ConnectionError::UnfinishedFrame(_)
            | ConnectionError::Share(_)
            | ConnectionError::Delivery(_) => None,
        }
    }
}

/// A connection that was accepted.
pub(crate) struct AcceptedConnection {
    /// Not registered with the runtime: many are refused.
    pub(crate) socket: OwnedFd,
    /// The peer's address.
    pub(crate) from: SocketAddr,
    /// The server's own.
    pub(crate) to: SocketAddr,
    /// Given back when its user is known.
    pub(crate) unidentified: OwnedSemaphorePermit,
}

/// A connection that is to be served.
pub(crate) enum NewConnection {
    /// It is charged to its user.
    Charged(ChargedConnection),
    /// The kernel did not say at once whose it is.
    Unidentified(AcceptedConnection, PeerSearch),
}

/// A connection whose user is known and has room for it.
pub(crate) struct ChargedConnection {
    stream: TcpStream,
    from: SocketAddr,
    peer: PeerSocket,
    share: ConnectionShare,
}

impl AcceptedConnection {
    /// Asks the kernel about the peer, before anything is waited for, and charges the connection to that user; none where it is refused.
    /// In a box, because a connection lives on for days and keeps room for what passes through the hands of its task.
    pub(crate) fn charge(self, lobby: &ConnectionContext) -> Option<Box<NewConnection>> {
        let found = match lobby.checker.look_up_peer(&self.socket, self.from, self.to) {
            Ok(PeerLookup::Undiagnosed(search)) => {
                return Some(Box::new(NewConnection::Unidentified(self, search)));
            }
            Ok(PeerLookup::Answered(found)) => Ok(found),
            Err(error) => Err(error),
        };
        Some(Box::new(NewConnection::Charged(
            self.charge_to(found, lobby)?,
        )))
    }

    fn charge_to(
        self,
        found: io::Result<Option<PeerSocket>>,
        lobby: &ConnectionContext,
    ) -> Option<ChargedConnection> {
        let AcceptedConnection {
            socket,
            from,
            unidentified,
            ..
        } = self;
        drop(unidentified);
        let refused = |uid, reason: &AdmissionError| refuse(lobby, from, uid, reason);
        let found = found.map_err(|error| AdmissionError::from(IdentityMismatch::Kernel(error)));
        let peer = found.and_then(|found| found.ok_or(AdmissionError::Closed));
        let peer = peer.inspect_err(|reason| refused(None, reason)).ok()?;
        let share = lobby
            .user_shares
            .connect(peer.uid)
            .map_err(AdmissionError::from);
        let share = share
            .inspect_err(|reason| refused(Some(peer.uid), reason))
            .ok()?;
        let stream = TcpStream::from_std(socket.into()).map_err(AdmissionError::from);
        let stream = stream
            .inspect_err(|reason| refused(Some(peer.uid), reason))
            .ok()?;
        Some(ChargedConnection {
            stream,
            from,
            peer,
            share,
        })
    }
}

impl NewConnection {
    /// The peer's address.
    fn from(&self) -> SocketAddr {
        match self {
            NewConnection::Charged(connection) => connection.from,
            NewConnection::Unidentified(accepted, _) => accepted.from,
        }
    }

    async fn charged(self, lobby: &ConnectionContext) -> Option<ChargedConnection> {
        match self {
            NewConnection::Charged(connection) => Some(connection),
            NewConnection::Unidentified(accepted, search) => {
                let found = lobby.checker.search_peer(&accepted.socket, search).await;
                accepted.charge_to(found, lobby)
            }
        }
    }
}

/// Serves a connection until it ends. The lines that are traced meanwhile carry the peer's address, and its
/// proc once that is known.
pub(crate) async fn serve(connection: Box<NewConnection>, lobby: Arc<ConnectionContext>) {
    // At the level of errors: the span is made once, and a warning without it says nothing of its cause.
    let span = tracing::error_span!(
        "connection",
        from = %connection.from(),
        nspace = field::Empty,
        rank = field::Empty,
    );
    serve_traced(connection, lobby).instrument(span).await;
}

async fn serve_traced(connection: Box<NewConnection>, lobby: Arc<ConnectionContext>) {
    // In boxes, because a connection lives on for days and a handshake does not: its memory is given back. What it leaves behind is in
    // one as well: an async function keeps more than one place for what passes through its hands.
    let Some(mut session) = Box::pin(greet(connection, &lobby)).await else {
        return;
    };
    let ended = session.run(&lobby).await;
    let proc = &session.proc;
    match &ended {
        Ok(()) => {}
        // How clients that die end; the host knows more.
        Err(ConnectionError::Io(error)) => tracing::debug!(%proc, %error, "a connection broke off"),
        Err(fault) => match lobby.refusals.allow(Instant::now()) {
            Some(left_out) => tracing::warn!(%proc, %fault, left_out, "a connection is closed"),
            None => tracing::debug!(%proc, %fault, "a connection is closed"),
        },
    }
    // A server that has stopped need not be told.
    let _ = lobby.office.with_actor(|actor| {
        if let Some(status) = session.violation {
            actor.garbled(session.peer, status);
        }
        actor.gone(session.peer);
    });
}

/// A connection whose peer has been admitted.
struct ServedConnection {
    reader: OwnedReadHalf,
    /// The bytes that came behind the handshake.
    rest: Vec<u8>,
    line: Arc<ClientWriter>,
    peer: PeerId,
    proc: Proc,
    /// The task that writes. One of its own: it has something to do for few of the requests that are read, and is woken for these.
    delivering: JoinSet<Result<(), ConnectionError>>,
    /// What the client did against the protocol.
    violation: Option<Status>,
    /// The share of its user that the connection takes.
    share: ConnectionShare,
    /// Kept as long as the connection is.
    _claim: Option<ProcClaim>,
    /// Dropped when the server has heard that the connection is closed.
    _open: Option<OpenConnection>,
}

impl ServedConnection {
    /// Reads and writes until the connection ends.
    async fn run(&mut self, lobby: &ConnectionContext) -> Result<(), ConnectionError> {
        let mut reading =
            ConnectionReader::of((self.peer, &self.proc), &self.line, &self.share, lobby);
        let ended = tokio::select! {
            biased;
            ended = reading.run(&mut self.reader, &self.rest) => {
                self.violation = ended.as_ref().err().and_then(ConnectionError::violation);
                ended
            }
            Some(delivered) = self.delivering.join_next() => delivered.map_err(ConnectionError::from).flatten(),
        };
        // Nobody is told anything on a connection that has ended.
        self.delivering.abort_all();
        ended
    }
}

/// Reads the handshake and has the peer admitted; none where it is refused. Closing without a byte is the only refusal that every
/// client understands. It is counted and told before the connection closes.
async fn greet(
    connection: Box<NewConnection>,
    lobby: &ConnectionContext,
) -> Option<Box<ServedConnection>> {
    let ChargedConnection {
        mut stream,
        from,
        peer: socket,
        share,
    } = connection.charged(lobby).await?;
    // Without this the answer to a small request waits for the acknowledgement of the one before.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "small messages will be delayed");
    }
    let refused = |reason: &AdmissionError| {
        share.note_refused_handshake(Instant::now());
        refuse(lobby, from, Some(socket.uid), reason);
    };
    let (hello, rest) = admission::hello(&mut stream, &share, lobby)
        .await
        .inspect_err(refused)
        .ok()?;
    let (reader, writer) = stream.into_split();
    let open = OpenRequests::new(lobby.max_open_requests);
    let queue = MessageQueue::new(lobby.outbox);
    let line = Arc::new(ClientWriter::new(
        writer,
        Codec::of(&hello, lobby.limits),
        open,
        queue,
    ));
    let (outbox, inbox) = Outbox::of(&line);
    let admitted = admission::admit(socket, &hello, outbox, lobby)
        .await
        .inspect_err(refused)
        .ok()?;
    let Admitted {
        id: peer,
        proc,
        welcome,
        _claim,
        _open,
    } = admitted;
    let span = Span::current();
    span.record("nspace", field::display(&proc.nspace));
    span.record("rank", proc.rank.0);
    let delivery = Delivery {
        line: line.clone(),
        office: lobby.office.clone(),
        packing: lobby.packing.clone(),
        peer,
    };
    let mut delivering = JoinSet::new();
    delivering.spawn(delivery.run(inbox, welcome.encode()).in_current_span());
    Some(Box::new(ServedConnection {
        reader,
        rest,
        line,
        peer,
        proc,
        delivering,
        violation: None,
        share,
        _claim,
        _open,
    }))
}

/// Counts a refusal and writes it down. Nobody has been let in, so what they said is not recorded: only whose the socket is by the kernel's
/// word, and why it was refused.
fn refuse(lobby: &ConnectionContext, from: SocketAddr, uid: Option<u32>, reason: &AdmissionError) {
    reason.count(lobby.metrics.counters());
    // What was denied by a hook is recorded where that is asked.
    let by_hook = matches!(
        reason,
        AdmissionError::Refused(peal_core::server::ConnectionRefusal::Denied(_))
    );
    if let (Some(audit), false) = (&lobby.audit, by_hook) {
        audit.refuse(AdmissionDenial {
            uid,
            reason: reason.to_string(),
            hook: Some(Hook::Connection.name().to_owned()),
            from: Some(from.to_string()),
            cause: Some(reason.cause().to_owned()),
            ..AdmissionDenial::default()
        });
    }
    match lobby.refusals.allow(Instant::now()) {
        Some(left_out) => tracing::warn!(%from, %reason, left_out, "a connection is refused"),
        None => tracing::debug!(%from, %reason, "a connection is refused"),
    }
}

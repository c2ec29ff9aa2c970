//! One connection: handshake, then requests in and answers and events out. Whatever is wrong with it affects nobody else.
use crate::{
    actor::FromClient,
    admission::{self, ToolNames, Unwelcome},
    delivery::Delivery,
    identity::Checker,
    line::Line,
    metrics::Metrics,
    open_requests::OpenRequests,
    outbox::Outbox,
    packing::Packing,
    pulse::Pulse,
    quiet::{Once, Quiet, warn_once},
    turns::Turns,
};
use peal_audit::{Audit, Entry};
use peal_core::server::{PeerId, RequestId};
use peal_model::{CommandCode, Nspace, Proc, Status};
use peal_wire::{Codec, Frame, FrameDecoder, Limits, Tag, WireError};
use std::{
    cell::RefCell,
    future::poll_fn,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};
use thiserror::Error;
use tokio::{
    io::{AsyncRead, ReadBuf},
    net::{TcpStream, tcp::OwnedReadHalf},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
};

/// How much is read at once, in bytes.
const READ: usize = 64 * 1024;

thread_local! {
    /// What is read into: one for each thread and not for each connection, most of which are idle most of the time.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}

/// How many requests of one connection may wait for the server at once: so many have their turn before the first of somebody
/// else, however many one sends.
const TURNS: usize = 8;

/// What every connection of a server shares.
#[derive(Clone)]
pub(crate) struct Lobby {
    pub(crate) clients: mpsc::Sender<FromClient>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) packing: Arc<Packing>,
    pub(crate) checker: Arc<Checker>,
    /// Each check takes a thread, with memory that it keeps; the procs of a job all come at once.
    pub(crate) checks: Arc<Turns>,
    pub(crate) tool_names: Arc<ToolNames>,
    pub(crate) limits: Limits,
    pub(crate) handshake_timeout: Duration,
    pub(crate) outbox: usize,
    pub(crate) max_open_requests: usize,
    /// Everybody on this machine can be refused, as often as he likes.
    pub(crate) refusals: Arc<Quiet>,
    /// Where these are recorded, if they are.
    pub(crate) audit: Option<Audit>,
    /// Who has not been admitted when the server stops is not waited for.
    pub(crate) stage: watch::Receiver<Stage>,
    /// When the actor's clock was started.
    pub(crate) started: Instant,
}

/// What connections are to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Go on.
    Accept,
    /// Go on, if admitted; nobody else is.
    Leave,
    /// Take what is left, for so long.
    Drain(Duration),
}

/// Why a connection ends early.
#[derive(Debug, Error)]
pub(crate) enum Fault {
    #[error("malformed: {0}")]
    Wire(#[from] WireError),
    #[error("a request for job data cannot be answered: {0}")]
    JobData(WireError),
    #[error("tag {0} is in use by a request that awaits its answer")]
    TagInUse(u32),
    #[error("the server is stopping")]
    Stopping,
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("what was sent to it was not read")]
    NotReading,
    #[error("more than {0} requests are open")]
    OpenRequests(usize),
}

impl Fault {
    /// What a client did against the protocol, if reading from it ended by that.
    fn violation(&self) -> Option<Status> {
        match self {
            Fault::Wire(error) | Fault::JobData(error) => Some(error.status()),
            Fault::OpenRequests(_) | Fault::TagInUse(_) | Fault::Stopping | Fault::Io(_) | Fault::NotReading => None,
        }
    }
}

/// Serves a connection until it ends.
pub(crate) async fn serve(mut stream: TcpStream, lobby: Lobby) {
    let from = stream.peer_addr().map(|addr| addr.to_string()).unwrap_or_default();
    // Without this the answer to a small request waits for the acknowledgement of the one before.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "small messages will be delayed");
    }
    let (hello, rest) = match admission::hello(&mut stream, &lobby).await {
        Ok(received) => received,
        // Closing without a byte is the only refusal that every client understands.
        Err(reason) => return refuse(&lobby, &from, &reason),
    };
    let (queue, inbox) = mpsc::channel(lobby.outbox);
    let (reader, writer) = stream.into_split();
    let open = OpenRequests::new(lobby.max_open_requests);
    let line = Arc::new(Line::new(writer, Codec::of(&hello, lobby.limits), open));
    let outbox = Outbox { queue, line: line.clone() };
    let admitted = match admission::admit(reader.as_ref(), &hello, outbox, &lobby).await {
        Ok(admitted) => admitted,
        Err(reason) => return refuse(&lobby, &from, &reason),
    };
    let (peer, proc) = (admitted.id, &admitted.proc);
    let welcome = admitted.welcome.encode();
    let delivery = Delivery { line: &line, lobby: &lobby, peer };
    let mut violation = None;
    let ended = tokio::select! {
        ended = read_requests(reader, rest, (peer, proc), &line, &lobby) => {
            violation = ended.as_ref().err().and_then(Fault::violation);
            ended
        }
        ended = delivery.run(inbox, &welcome) => ended,
        () = line.is_cut() => Err(Fault::NotReading),
    };
    match ended {
        Ok(()) => {}
        // How clients that die end; the host knows more.
        Err(Fault::Io(ref error)) => tracing::debug!(%proc, %error, "a connection broke off"),
        Err(ref fault) => match lobby.refusals.allow(Instant::now()) {
            Some(left_out) => tracing::warn!(%proc, %fault, left_out, "a connection is closed"),
            None => tracing::debug!(%proc, %fault, "a connection is closed"),
        },
    }
    // A server that has stopped needs not be told.
    if let Some(status) = violation {
        let _ = lobby.clients.send(FromClient::Garbled { peer, status, turn: None }).await;
    }
    let _ = lobby.clients.send(FromClient::Gone(peer)).await;
}

/// Refuses a connection that was accepted although there is no room for it.
pub(crate) fn refuse_for_want_of_room(lobby: &Lobby, from: SocketAddr, max: usize) {
    refuse(lobby, &from.to_string(), &Unwelcome::TooMany(max));
}

fn refuse(lobby: &Lobby, from: &str, reason: &Unwelcome) {
    reason.count(lobby.metrics.counters());
    // What was denied by a hook is recorded where that is asked.
    let by_hook = matches!(reason, Unwelcome::Refused(peal_core::server::Refusal::Denied(_)));
    if let (Some(audit), false) = (&lobby.audit, by_hook) {
        let reason = format!("connection from {from}: {reason}");
        audit.mention(Entry::Denied(peal_audit::Denial { uid: None, job: None, reason }));
    }
    match lobby.refusals.allow(Instant::now()) {
        Some(left_out) => tracing::warn!(from, %reason, left_out, "a connection is refused"),
        None => tracing::debug!(from, %reason, "a connection is refused"),
    }
}

async fn read_requests(
    mut reader: OwnedReadHalf,
    rest: Vec<u8>,
    (peer, proc): (PeerId, &Proc),
    line: &Line,
    lobby: &Lobby,
) -> Result<(), Fault> {
    let mut decoder = FrameDecoder::new(&lobby.limits);
    let turns = Arc::new(Semaphore::new(TURNS));
    let garbled = Once::default();
    let pulse = Arc::new(Pulse::new(lobby.started));
    let mut cut = cut_frames(&mut decoder, &rest);
    drop(rest);
    loop {
        for frame in cut.frames {
            let is_beat = frame.tag == Tag::HEARTBEAT;
            // Before whatever is behind it is asked: who has an answer to that knows that the heartbeat was had.
            if is_beat && !pulse.beat() {
                continue;
            }
            let turn = turns.clone().acquire_owned().await.map_err(|_| Fault::Stopping)?;
            if is_beat {
                let beat = FromClient::Beat { peer, pulse: pulse.clone(), turn };
                lobby.clients.send(beat).await.map_err(|_| Fault::Stopping)?;
            } else {
                request(frame, turn, (peer, &proc.nspace), line, &garbled, lobby).await?;
            }
        }
        if let Some(error) = cut.error {
            lobby.metrics.counters().messages_malformed.count();
            return Err(error.into());
        }
        match poll_fn(|context| receive(&mut reader, &mut decoder, context)).await? {
            Some(received) => cut = received,
            None => return Ok(()),
        }
    }
}

/// Reads once, if there is anything: the frames that this completes, or nothing at the end.
fn receive(
    reader: &mut OwnedReadHalf,
    decoder: &mut FrameDecoder,
    context: &mut Context<'_>,
) -> Poll<std::io::Result<Option<Cut>>> {
    BUFFER.with_borrow_mut(|buffer| {
        let mut buffer = ReadBuf::new(buffer);
        ready!(Pin::new(reader).poll_read(context, &mut buffer))?;
        let received = Some(buffer.filled()).filter(|received| !received.is_empty());
        Poll::Ready(Ok(received.map(|received| cut_frames(decoder, received))))
    })
}

/// The frames that end in what was received, and what is wrong behind them.
struct Cut {
    frames: Vec<Frame>,
    error: Option<WireError>,
}

fn cut_frames(decoder: &mut FrameDecoder, mut received: &[u8]) -> Cut {
    let mut frames = Vec::new();
    loop {
        match decoder.feed(&mut received) {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => return Cut { frames, error: None },
            Err(error) => return Cut { frames, error: Some(error) },
        }
    }
}

async fn request(
    frame: Frame,
    turn: OwnedSemaphorePermit,
    (peer, nspace): (PeerId, &Nspace),
    line: &Line,
    garbled: &Once,
    lobby: &Lobby,
) -> Result<(), Fault> {
    let to = RequestId { peer, tag: frame.tag.0 };
    let (command, message) = match line.codec.decode_request_of(nspace, &frame.payload) {
        Ok(request) => (request.command(), FromClient::Request { to, request, turn }),
        Err(error) => {
            let counter = match error {
                WireError::UnknownCommand { .. } => &lobby.metrics.counters().requests_unknown,
                _ => &lobby.metrics.counters().messages_malformed,
            };
            counter.count();
            warn_once!(garbled, ?peer, %error, "a request is not understood");
            match line.codec.command_of(&frame.payload) {
                Some(CommandCode::DeregisterEvents) => {
                    let garbled = FromClient::Garbled { peer, status: error.status(), turn: Some(turn) };
                    return lobby.clients.send(garbled).await.map_err(|_| Fault::Stopping);
                }
                // A status would be taken for the data: only the end of the connection says that something is wrong.
                Some(CommandCode::JobData) => return Err(Fault::JobData(error)),
                _ => (CommandCode::Finalize, FromClient::Unfit { to, status: error.status(), turn }),
            }
        }
    };
    // The one request without an answer.
    if command != CommandCode::DeregisterEvents {
        line.room().await;
        line.open.open(to.tag, command).inspect_err(|_| lobby.metrics.counters().clients_too_greedy.count())?;
    }
    lobby.clients.send(message).await.map_err(|_| Fault::Stopping)
}

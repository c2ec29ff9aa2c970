//! What a client says: read, cut into frames, decoded, and carried out.
use crate::{
    client_writer::{Behind, ClientWriter},
    connection::{ConnectionContext, ConnectionError},
    heartbeats::HeartbeatCell,
    trace_limit::{Once, warn_once},
    user_shares::{ConnectionShare, MessageTurn, UnfinishedShare},
};
use peal_core::server::{PeerId, RequestId};
use peal_model::{CommandCode, Proc};
use peal_wire::{Frame, FrameDecoder, Tag, WireError};
use std::{
    cell::RefCell,
    collections::VecDeque,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, ReadBuf},
    net::tcp::OwnedReadHalf,
    time::{Instant, timeout_at},
};

/// How much is read at once, in bytes.
const READ: usize = 64 * 1024;

thread_local! {
    /// What is read into: one for each thread and not for each connection, most of which are idle most of the time.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}

/// How many messages of one connection are carried out before others have their turn, however many it sends.
const TURN: u32 = 8;

/// The reason why no more messages are carried out for now.
enum Paused {
    /// All of them have been.
    NothingLeft,
    /// The client has not read its answers.
    Full,
    /// The disk has more to do.
    Behind,
    /// There was no room for what the client asked.
    Refused,
    /// It is the turn of others.
    TurnOver,
}

/// The reading side of a connection.
pub(crate) struct ConnectionReader<'a> {
    peer: PeerId,
    proc: &'a Proc,
    line: &'a ClientWriter,
    share: &'a ConnectionShare,
    lobby: &'a ConnectionContext,
    pulse: Arc<HeartbeatCell>,
    garbled: Once,
    /// How many messages have been carried out in this turn.
    turn: u32,
}

impl<'a> ConnectionReader<'a> {
    pub(crate) fn of(
        (peer, proc): (PeerId, &'a Proc),
        line: &'a ClientWriter,
        share: &'a ConnectionShare,
        lobby: &'a ConnectionContext,
    ) -> ConnectionReader<'a> {
        let pulse = Arc::new(HeartbeatCell::new(lobby.started));
        ConnectionReader {
            peer,
            proc,
            line,
            share,
            lobby,
            pulse,
            garbled: Once::default(),
            turn: 0,
        }
    }

    /// Reads until the client has no more to say; what was read already comes first.
    pub(crate) async fn run(
        &mut self,
        reader: &mut OwnedReadHalf,
        read: &[u8],
    ) -> Result<(), ConnectionError> {
        let mut decoder = FrameDecoder::new(&self.lobby.limits);
        let mut cut = cut_frames(&mut decoder, read);
        loop {
            while cut.has_more() {
                // In boxes, as there is seldom anything to wait for, and each connection would keep room for it.
                if self.line.is_full() {
                    Box::pin(self.line.room()).await;
                }
                let paused = match self.share.try_turn() {
                    Some(turn) => self.take_turn(&mut cut, turn)?,
                    None => Box::pin(self.wait_for_turn(&mut cut)).await?,
                };
                match paused {
                    Paused::NothingLeft | Paused::Full => {}
                    Paused::Behind => Box::pin(self.lobby.office.wait_for_spill_capacity()).await,
                    Paused::Refused => Box::pin(self.wait_behind_refusals()).await,
                    Paused::TurnOver => tokio::task::yield_now().await,
                }
            }
            if let Some(error) = cut.error {
                self.lobby.metrics.counters().messages_malformed.count();
                return Err(error.into());
            }
            // What was charged for the frame that has been carried out.
            drop(cut.unfinished);
            let received = if decoder.is_between_frames() {
                poll_fn(|context| receive(reader, &mut decoder, context)).await?
            } else {
                // In a box, because most connections are between frames most of the time.
                Box::pin(self.rest_of_frame(reader, &mut decoder)).await?
            };
            match received {
                Some(received) => cut = received,
                None => return Ok(()),
            }
        }
    }

    /// A client that goes on asking for what there is no room for is read more slowly: to refuse takes time as well.
    async fn wait_behind_refusals(&self) {
        let delay = self
            .share
            .refused_requests_delay(self.line.take_refused(), std::time::Instant::now());
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
    }

    async fn wait_for_turn(&mut self, cut: &mut SplitFrames) -> Result<Paused, ConnectionError> {
        let turn = self.share.turn().await;
        self.take_turn(cut, turn)
    }

    /// Carries out what was read, as far as a turn goes.
    fn take_turn(
        &mut self,
        cut: &mut SplitFrames,
        _turn: MessageTurn<'_>,
    ) -> Result<Paused, ConnectionError> {
        while let Some(frame) = cut.next() {
            // Before whatever is behind it is asked: who has an answer to that knows that the heartbeat was had.
            if frame.tag == Tag::HEARTBEAT && !self.pulse.beat() {
                continue;
            }
            self.line.read(if cut.has_more() {
                Behind::More
            } else {
                Behind::Nothing
            });
            self.carry_out(frame)?;
            self.turn += 1;
            if self.lobby.office.is_behind() {
                return Ok(Paused::Behind);
            }
            if self.line.has_refused() {
                return Ok(Paused::Refused);
            }
            if self.turn >= TURN {
                self.turn = 0;
                return Ok(Paused::TurnOver);
            }
            if self.line.is_full() {
                return Ok(Paused::Full);
            }
        }
        Ok(Paused::NothingLeft)
    }

    /// Reads on until a frame is complete of which a part has come. The user is charged for all of it before more is read, and until it
    /// has been carried out.
    async fn rest_of_frame(
        &self,
        reader: &mut OwnedReadHalf,
        decoder: &mut FrameDecoder,
    ) -> Result<Option<SplitFrames>, ConnectionError> {
        let timeout = self.share.frame_timeout();
        let deadline = Instant::now() + timeout;
        let over_share = || self.lobby.metrics.counters().frames_over_share.count();
        let mut unfinished = None;
        loop {
            if unfinished.is_none()
                && let Some(bytes) = decoder.awaited_payload()
            {
                let charged = timeout_at(deadline, self.share.frame(bytes)).await;
                unfinished = Some(
                    charged
                        .inspect_err(|_| over_share())
                        .map_err(|_| self.share.frames_exceeded())?,
                );
            }
            let received = timeout_at(
                deadline,
                poll_fn(|context| receive(reader, decoder, context)),
            )
            .await;
            let received =
                received.inspect_err(|_| self.lobby.metrics.counters().frames_unfinished.count());
            match received.map_err(|_| ConnectionError::UnfinishedFrame(timeout))?? {
                Some(cut) if cut.is_empty() => {}
                Some(cut) => return Ok(Some(SplitFrames { unfinished, ..cut })),
                None => return Ok(None),
            }
        }
    }

    fn carry_out(&self, frame: Frame) -> Result<(), ConnectionError> {
        if frame.tag == Tag::HEARTBEAT {
            Ok(self
                .lobby
                .office
                .with_actor(|actor| actor.beat(self.peer, self.pulse.clone()))?)
        } else {
            self.request(&frame)
        }
    }

    fn request(&self, frame: &Frame) -> Result<(), ConnectionError> {
        let ConnectionReader {
            peer, line, lobby, ..
        } = *self;
        let to = RequestId {
            peer,
            tag: frame.tag.0,
        };
        let request = match line
            .codec
            .decode_request_of(&self.proc.nspace, &frame.payload)
        {
            Ok(request) => request,
            Err(error) => return self.unfit(to, frame, error),
        };
        let command = request.command();
        let span = tracing::info_span!("request", ?command, tag = to.tag);
        let _entered = span.enter();
        // The one request without an answer.
        if command != CommandCode::DeregisterEvents {
            self.open(to, command)?;
        }
        Ok(lobby
            .office
            .with_actor(|actor| actor.request(to, request))?)
    }

    /// A request is not understood: its answer says so, if it can.
    fn unfit(&self, to: RequestId, frame: &Frame, error: WireError) -> Result<(), ConnectionError> {
        let counters = self.lobby.metrics.counters();
        match error {
            WireError::UnknownCommand { .. } => counters.requests_unsupported.count(),
            _ => counters.messages_malformed.count(),
        }
        warn_once!(self.garbled, peer = ?self.peer, %error, "a request is not understood");
        let office = &self.lobby.office;
        match self.line.codec.command_of(&frame.payload) {
            Some(CommandCode::DeregisterEvents) => {
                Ok(office.with_actor(|actor| actor.garbled(to.peer, error.status()))?)
            }
            // A status would be taken for the data: only the end of the connection says that something is wrong.
            Some(CommandCode::JobData) => Err(ConnectionError::JobData(error)),
            _ => {
                // An answer that is a status is packed as that to a finalize.
                self.open(to, CommandCode::Finalize)?;
                Ok(office.with_actor(|actor| actor.unfit(to, error.status()))?)
            }
        }
    }

    fn open(&self, to: RequestId, command: CommandCode) -> Result<(), ConnectionError> {
        let opened = self.line.open.open(to.tag, command);
        opened.inspect_err(|_| {
            self.lobby
                .metrics
                .counters()
                .clients_disconnected_request_limit
                .count()
        })
    }
}

/// Reads once, if there is anything: the frames that this completes, or nothing at the end.
fn receive(
    reader: &mut OwnedReadHalf,
    decoder: &mut FrameDecoder,
    context: &mut Context<'_>,
) -> Poll<std::io::Result<Option<SplitFrames>>> {
    BUFFER.with_borrow_mut(|buffer| {
        let mut buffer = ReadBuf::new(buffer);
        ready!(Pin::new(reader).poll_read(context, &mut buffer))?;
        let received = Some(buffer.filled()).filter(|received| !received.is_empty());
        Poll::Ready(Ok(received.map(|received| cut_frames(decoder, received))))
    })
}

/// The frames that end in what was received, and what is wrong behind them.
#[derive(Default)]
struct SplitFrames {
    /// Nearly always the only one.
    first: Option<Frame>,
    further: VecDeque<Frame>,
    error: Option<WireError>,
    /// The share that is charged for the first one.
    unfinished: Option<UnfinishedShare>,
}

impl SplitFrames {
    fn is_empty(&self) -> bool {
        self.first.is_none() && self.error.is_none()
    }
}

impl SplitFrames {
    fn next(&mut self) -> Option<Frame> {
        self.first.take().or_else(|| self.further.pop_front())
    }

    /// True if there is another frame.
    fn has_more(&self) -> bool {
        self.first.is_some() || !self.further.is_empty()
    }
}

fn cut_frames(decoder: &mut FrameDecoder, mut received: &[u8]) -> SplitFrames {
    let mut cut = SplitFrames::default();
    loop {
        match decoder.feed(&mut received) {
            Ok(Some(frame)) if cut.first.is_none() => cut.first = Some(frame),
            Ok(Some(frame)) => cut.further.push_back(frame),
            Ok(None) => return cut,
            Err(error) => {
                return SplitFrames {
                    error: Some(error),
                    ..cut
                };
            }
        }
    }
}

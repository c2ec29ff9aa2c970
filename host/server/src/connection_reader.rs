//! Reading side of a connection: messages of the client are read, split into frames, decoded and
//! executed.
use crate::{
    client_writer::{Behind, ClientWriter},
    connection::{ConnectionContext, ConnectionError},
    heartbeats::HeartbeatCell,
    shared_actor::TURN_TIME,
    trace_limit::{Once, warn_once},
    user_shares::{ConnectionShare, MessageTime, MessageTurn, UnfinishedShare},
};
use peal_core::{
    quota::Quota,
    server::{PeerId, RequestId},
};
use peal_model::{CommandCode, Proc};
use peal_wire::{DecodeLimits, Frame, FrameDecoder, Tag, WireError};
use std::{
    cell::RefCell,
    collections::VecDeque,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, ReadBuf},
    net::tcp::OwnedReadHalf,
    time::{Instant, timeout_at},
};

/// Maximum bytes of one read.
const READ_BYTES: usize = 64 * 1024;

thread_local! {
    /// Read buffer. There is one per thread rather than per connection, because most connections
    /// are idle most of the time.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// Number of open requests of a connection up to which its client waits for each reply: some
/// collective ones are open for long.
const FEW_OPEN: usize = 4;

/// Number of messages of one connection that are executed before other tasks run.
const MESSAGES_PER_TURN: u32 = 8;

/// Reason for a pause in the execution of messages.
#[derive(Clone, Copy)]
enum Paused {
    /// All messages have been executed.
    NothingLeft,
    /// The client has not read its answers.
    Full,
    /// Other connections of the user execute messages.
    NoTurn,
    /// The user makes more requests than others, for this time.
    Paced(Duration),
    /// Too many events wait to be spilled to disk.
    Behind,
    /// A request was refused with `PMIX_ERR_OUT_OF_RESOURCE`.
    Refused,
    /// Other tasks are due.
    TurnOver,
}

/// Next step after the execution of messages.
enum NextStep {
    /// More input is read.
    Read,
    /// Messages are left.
    Pause,
    /// The client has closed its side.
    End,
}

/// Messages that wait until a pause is over.
struct PausedFrames {
    frames: SplitFrames,
    paused: Paused,
}

/// Input of a connection that has not been executed. A connection that was suspended goes on from it.
pub(crate) struct ConnectionInput {
    decoder: FrameDecoder,
    /// Bytes that were received before the decoder gets any.
    received: Vec<u8>,
    paused: Option<Box<PausedFrames>>,
}

impl ConnectionInput {
    /// Returns the input of a connection of which these bytes were received.
    pub(crate) fn of(received: Vec<u8>, limits: &DecodeLimits) -> ConnectionInput {
        ConnectionInput {
            decoder: FrameDecoder::new(limits),
            received,
            paused: None,
        }
    }

    /// Returns all bytes that have not been executed.
    ///
    /// # Errors
    ///
    /// Fails if malformed bytes have been received, after which nothing can be read.
    pub(crate) fn unexecuted(&self) -> Result<Vec<u8>, WireError> {
        let mut bytes = Vec::new();
        if let Some(PausedFrames { frames, .. }) = self.paused.as_deref() {
            for frame in frames.first.iter().chain(&frames.further) {
                bytes.extend(frame.encode()?);
            }
            if let Some(error) = &frames.error {
                return Err(error.clone());
            }
        }
        bytes.extend(&self.received);
        bytes.extend(self.decoder.partial());
        Ok(bytes)
    }
}

/// Reading side of a connection.
pub(crate) struct ConnectionReader<'a> {
    peer: PeerId,
    proc: &'a Proc,
    writer: &'a ClientWriter,
    share: &'a ConnectionShare,
    context: &'a ConnectionContext,
    /// Cell of the heartbeats, since the first one.
    heartbeat: Option<Arc<HeartbeatCell>>,
    garbled: Once,
    /// Number of messages executed in this turn.
    turn: u32,
}

impl<'a> ConnectionReader<'a> {
    pub(crate) fn of(
        (peer, proc): (PeerId, &'a Proc),
        writer: &'a ClientWriter,
        share: &'a ConnectionShare,
        context: &'a ConnectionContext,
    ) -> ConnectionReader<'a> {
        ConnectionReader {
            peer,
            proc,
            writer,
            share,
            context,
            heartbeat: None,
            garbled: Once::default(),
            turn: 0,
        }
    }

    /// Reads and executes messages until the client closes its side. May be dropped at any time: the input
    /// keeps what was not executed.
    ///
    /// All waits except the one for input are boxed, with the messages that wait: they are rare,
    /// and each connection would keep memory for their futures.
    pub(crate) async fn run(
        &mut self,
        reader: &mut OwnedReadHalf,
        input: &mut ConnectionInput,
    ) -> Result<(), ConnectionError> {
        if input.paused.is_some() {
            Box::pin(self.resume(input)).await?;
        }
        let early = std::mem::take(&mut input.received);
        let mut received = Some(split_frames(&mut input.decoder, &early));
        drop(early);
        loop {
            match self.execute_received(received, input)? {
                NextStep::Read => {}
                NextStep::Pause => Box::pin(self.resume(input)).await?,
                NextStep::End => return Ok(()),
            }
            received = if input.decoder.is_between_frames() {
                poll_fn(|context| receive(reader, &mut input.decoder, context)).await?
            } else {
                Box::pin(self.rest_of_frame(reader, &mut input.decoder)).await?
            };
        }
    }

    /// Executes the messages that were received, until a pause is due. Takes them by value: after a
    /// borrow, the future of the connection would reserve memory for them.
    fn execute_received(
        &mut self,
        received: Option<SplitFrames>,
        input: &mut ConnectionInput,
    ) -> Result<NextStep, ConnectionError> {
        let Some(mut frames) = received else {
            return Ok(NextStep::End);
        };
        match self.try_turn(&mut frames)? {
            Paused::NothingLeft => self.end(frames).map(|()| NextStep::Read),
            paused => {
                input.paused = Some(Box::new(PausedFrames { frames, paused }));
                Ok(NextStep::Pause)
            }
        }
    }

    /// Executes the messages that are left, with all pauses that are due.
    async fn resume(&mut self, input: &mut ConnectionInput) -> Result<(), ConnectionError> {
        while let Some(PausedFrames { frames, paused }) = input.paused.as_deref_mut() {
            match *paused {
                Paused::Full if frames.has_more() => self.writer.room().await,
                Paused::NothingLeft | Paused::Full => {
                    let left = input.paused.take();
                    return left.map_or(Ok(()), |left| self.end(left.frames));
                }
                Paused::NoTurn => {
                    let turn = self.share.turn().await;
                    *paused = self.take_turn(frames, turn)?;
                    continue;
                }
                Paused::Paced(wait) => {
                    self.context.metrics.counters().connections_paced.count();
                    tokio::time::sleep(wait).await;
                }
                Paused::Behind => {
                    let uid = self.share.uid();
                    self.context.shared_actor.wait_for_spill_capacity(uid).await;
                }
                Paused::Refused => self.wait_after_refusals().await,
                Paused::TurnOver => tokio::task::yield_now().await,
            }
            *paused = self.try_turn(frames)?;
        }
        Ok(())
    }

    /// Drops the frames, which have been executed, and with them the charge for a partial one.
    /// Fails if malformed bytes follow: only now, since the frames before them are valid requests.
    fn end(&self, frames: SplitFrames) -> Result<(), ConnectionError> {
        match frames.error {
            Some(error) => {
                self.context.metrics.counters().messages_malformed.count();
                Err(error.into())
            }
            None => Ok(()),
        }
    }

    /// Delays reading after refused requests: refusals take time that other clients need.
    async fn wait_after_refusals(&self) {
        let delay = self
            .share
            .refused_requests_delay(self.writer.take_refused(), std::time::Instant::now());
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
    }

    /// Executes messages if that is possible at once.
    fn try_turn(&mut self, frames: &mut SplitFrames) -> Result<Paused, ConnectionError> {
        if !frames.has_more() {
            return Ok(Paused::NothingLeft);
        }
        if self.writer.is_full() {
            return Ok(Paused::Full);
        }
        match self.share.try_turn(std::time::Instant::now()) {
            MessageTime::Now(turn) => self.take_turn(frames, turn),
            MessageTime::InTurn => Ok(Paused::NoTurn),
            MessageTime::After(wait) => Ok(Paused::Paced(wait)),
        }
    }

    /// Executes the messages that were read until the turn ends or a pause is due.
    fn take_turn(
        &mut self,
        frames: &mut SplitFrames,
        _turn: MessageTurn,
    ) -> Result<Paused, ConnectionError> {
        let began = std::time::Instant::now();
        while let Some(frame) = frames.next() {
            // In the order of the frames: an answer to a later request implies that the heartbeat
            // was received.
            if frame.tag == Tag::HEARTBEAT && !self.heartbeat().beat() {
                continue;
            }
            let behind = if frames.has_more() {
                Behind::More
            } else {
                Behind::Nothing
            };
            // Before the execution: by this the actor decides whether to write the answer at once.
            self.writer.read(behind);
            self.execute(frame, behind)?;
            self.turn += 1;
            let now = std::time::Instant::now();
            let behind = match behind {
                Behind::Nothing if self.writer.open.len() > FEW_OPEN => Behind::More,
                behind => behind,
            };
            if !self.share.note_request(behind, now) {
                return Ok(Paused::TurnOver);
            }
            if self.context.shared_actor.is_behind(self.share.uid()) {
                return Ok(Paused::Behind);
            }
            if self.writer.has_refused() {
                return Ok(Paused::Refused);
            }
            if self.turn >= MESSAGES_PER_TURN || now.duration_since(began) >= TURN_TIME {
                self.turn = 0;
                return Ok(Paused::TurnOver);
            }
            if self.writer.is_full() {
                return Ok(Paused::Full);
            }
        }
        Ok(Paused::NothingLeft)
    }

    /// Reads the rest of a frame that has been received in part. Its whole length is charged to the
    /// user before more is read, and until it has been executed.
    async fn rest_of_frame(
        &self,
        reader: &mut OwnedReadHalf,
        decoder: &mut FrameDecoder,
    ) -> Result<Option<SplitFrames>, ConnectionError> {
        let timeout = self.share.frame_timeout();
        let deadline = Instant::now() + timeout;
        let over_share = || {
            self.context.metrics.counters().frames_over_share.count();
            let uid = self.share.uid();
            self.context.metrics.refuse(uid, Quota::PartialFrameBytes);
        };
        let mut unfinished = None;
        loop {
            if unfinished.is_none()
                // The length is known only when the header is complete.
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
                received.inspect_err(|_| self.context.metrics.counters().frames_unfinished.count());
            match received.map_err(|_| ConnectionError::UnfinishedFrame(timeout))?? {
                Some(frames) if frames.is_empty() => {}
                Some(frames) => {
                    return Ok(Some(SplitFrames {
                        _unfinished: unfinished,
                        ..frames
                    }));
                }
                None => return Ok(None),
            }
        }
    }

    fn heartbeat(&mut self) -> &Arc<HeartbeatCell> {
        let started = self.context.started;
        self.heartbeat
            .get_or_insert_with(|| Arc::new(HeartbeatCell::new(started)))
    }

    fn execute(&mut self, frame: Frame, behind: Behind) -> Result<(), ConnectionError> {
        if frame.tag == Tag::HEARTBEAT {
            let cell = self.heartbeat().clone();
            let shared_actor = &self.context.shared_actor;
            Ok(shared_actor.with_actor(|actor| actor.beat(self.peer, cell))?)
        } else {
            self.request(&frame, behind)
        }
    }

    fn request(&self, frame: &Frame, behind: Behind) -> Result<(), ConnectionError> {
        let ConnectionReader {
            peer,
            writer,
            context,
            ..
        } = *self;
        let to = RequestId {
            peer,
            tag: frame.tag.0,
        };
        let request = match writer
            .codec
            .decode_request_of(&self.proc.nspace, &frame.payload)
        {
            Ok(request) => request,
            Err(error) => return self.reject(to, frame, error),
        };
        let command = request.command();
        let span = tracing::info_span!("request", ?command, tag = to.tag);
        let _entered = span.enter();
        // All others are answered.
        let has_answer = command != CommandCode::DeregisterEvents;
        if has_answer {
            // Before the execution, during which the answer may be written.
            self.open(to, command)?;
        }
        context
            .shared_actor
            .with_actor(|actor| actor.request(to, request, behind))?;
        if !has_answer && behind == Behind::Nothing {
            writer.acknowledge();
        }
        Ok(())
    }

    /// Answers a request that cannot be decoded with a status, if it can have one.
    fn reject(
        &self,
        to: RequestId,
        frame: &Frame,
        error: WireError,
    ) -> Result<(), ConnectionError> {
        let counters = self.context.metrics.counters();
        match error {
            WireError::UnknownCommand { .. } => counters.requests_unsupported.count(),
            _ => counters.messages_malformed.count(),
        }
        warn_once!(self.garbled, peer = ?self.peer, %error, "request not decoded");
        let shared_actor = &self.context.shared_actor;
        match self.writer.codec.command_of(&frame.payload) {
            Some(CommandCode::DeregisterEvents) => {
                Ok(shared_actor.with_actor(|actor| actor.garbled(to.peer, error.status()))?)
            }
            // Close the connection: the client would take a status for the job data.
            Some(CommandCode::JobData) => Err(ConnectionError::JobData(error)),
            _ => {
                // Open it as a finalize, whose answer is a plain status.
                self.open(to, CommandCode::Finalize)?;
                Ok(shared_actor.with_actor(|actor| actor.unfit(to, error.status()))?)
            }
        }
    }

    fn open(&self, to: RequestId, command: CommandCode) -> Result<(), ConnectionError> {
        let opened = self.writer.open.open(to.tag, command);
        opened.inspect_err(|_| {
            self.context
                .metrics
                .counters()
                .clients_disconnected_request_limit
                .count()
        })
    }
}

/// Reads once, when there is input. Returns the frames that it completes, or `None` at the end.
fn receive(
    reader: &mut OwnedReadHalf,
    decoder: &mut FrameDecoder,
    context: &mut Context<'_>,
) -> Poll<std::io::Result<Option<SplitFrames>>> {
    BUFFER.with_borrow_mut(|buffer| {
        let mut buffer = ReadBuf::new(buffer);
        ready!(Pin::new(reader).poll_read(context, &mut buffer))?;
        let received = Some(buffer.filled()).filter(|received| !received.is_empty());
        Poll::Ready(Ok(received.map(|received| split_frames(decoder, received))))
    })
}

/// Frames that are complete with the received bytes, and an error in the bytes behind them.
#[derive(Default)]
struct SplitFrames {
    /// First frame, nearly always the only one.
    first: Option<Frame>,
    further: VecDeque<Frame>,
    error: Option<WireError>,
    /// Share that is charged for the first frame until it has been executed.
    _unfinished: Option<UnfinishedShare>,
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

    /// Returns true if there is another frame.
    fn has_more(&self) -> bool {
        self.first.is_some() || !self.further.is_empty()
    }
}

fn split_frames(decoder: &mut FrameDecoder, mut received: &[u8]) -> SplitFrames {
    let mut frames = SplitFrames::default();
    loop {
        match decoder.feed(&mut received) {
            Ok(Some(frame)) if frames.first.is_none() => frames.first = Some(frame),
            Ok(Some(frame)) => frames.further.push_back(frame),
            Ok(None) => return frames,
            Err(error) => {
                return SplitFrames {
                    error: Some(error),
                    ..frames
                };
            }
        }
    }
}

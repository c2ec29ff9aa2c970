//! Stream to the server: requests and their replies, answers of upcalls, and the end of the stream.
use super::lock;
use peal_model::{Status, code};
use peal_stub::{
    CodecError, FrameLimit, HostReply, HostRequest, MessageDecoder, RequestNumber, ServerMessage,
    StubMessage, StubSocket, UpcallNumber, UpcallResult, encode,
};
use std::{
    collections::{HashMap, VecDeque},
    io,
    os::fd::{AsFd, AsRawFd},
    sync::Mutex,
};
use thiserror::Error;
use tokio::sync::{Notify, oneshot};

/// Number of bytes that are read at once.
const READ: usize = 64 << 10;

/// Reason why no further message comes.
#[derive(Debug, Error)]
pub(super) enum LinkError {
    /// The server has closed the stream.
    #[error("the server has ended the connection")]
    Ended,
    /// The stream cannot be read.
    #[error("reading from the server: {0}")]
    Io(#[from] io::Error),
    /// A message of the server is not understood.
    #[error("message of the server: {0}")]
    Codec(#[from] CodecError),
}

/// Stream to the server.
#[derive(Debug)]
pub(super) struct HostLink {
    socket: StubSocket,
    /// Bytes for which the socket had no room.
    outgoing: Mutex<VecDeque<u8>>,
    /// Wakes the task that writes them.
    has_outgoing: Notify,
    state: Mutex<LinkState>,
}

#[derive(Debug, Default)]
struct LinkState {
    phase: LinkPhase,
    /// Number of the latest request.
    latest: u64,
    open: HashMap<RequestNumber, oneshot::Sender<Result<HostReply, Status>>>,
}

/// Phase of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum LinkPhase {
    #[default]
    Open,
    /// This process has finalized.
    Closed,
    /// The server is gone.
    Lost,
}

/// End of a stream, as the reading task sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkEnd {
    /// This process has closed it.
    Closed,
    /// The server is gone.
    Lost,
}

/// Reply that has not come yet.
#[derive(Debug)]
pub(super) struct PendingReply(oneshot::Receiver<Result<HostReply, Status>>);

impl PendingReply {
    /// Waits for the reply.
    pub(super) async fn reply(self) -> Result<HostReply, Status> {
        let lost = Err(code::PMIX_ERR_LOST_CONNECTION);
        self.0.await.unwrap_or(lost)
    }
}

impl HostLink {
    /// Takes a connected socket.
    pub(super) fn new(socket: StubSocket) -> HostLink {
        HostLink {
            socket,
            outgoing: Mutex::default(),
            has_outgoing: Notify::new(),
            state: Mutex::default(),
        }
    }

    pub(super) fn socket(&self) -> &StubSocket {
        &self.socket
    }

    /// Sends a request. Requests of one thread arrive in their order.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_UNREACH` if the server is gone, `PMIX_ERR_PACK_FAILURE` if the request is too long.
    pub(super) fn request(&self, request: HostRequest) -> Result<PendingReply, Status> {
        let (tell, told) = oneshot::channel();
        let number = {
            let mut state = lock(&self.state);
            if state.phase != LinkPhase::Open {
                return Err(code::PMIX_ERR_UNREACH);
            }
            state.latest = state.latest.wrapping_add(1);
            let number = RequestNumber(state.latest);
            state.open.insert(number, tell);
            number
        };
        let message = StubMessage::Request { number, request };
        if let Err(error) = self.send(&message) {
            lock(&self.state).open.remove(&number);
            tracing::warn!(%error, "request not sent to the server");
            return Err(code::PMIX_ERR_PACK_FAILURE);
        }
        Ok(PendingReply(told))
    }

    /// Sends the answer of an upcall.
    pub(super) fn answer(&self, number: UpcallNumber, answer: Result<UpcallResult, Status>) {
        let sent = self.send(&StubMessage::Answer { number, answer });
        if let Err(error) = sent {
            tracing::warn!(%error, "answer of an upcall not sent to the server");
            let answer = Err(code::PMIX_ERR_PACK_FAILURE);
            // A status alone has a short message.
            let _ = self.send(&StubMessage::Answer { number, answer });
        }
    }

    fn send(&self, message: &StubMessage) -> Result<(), CodecError> {
        self.send_bytes(&encode(message, FrameLimit::default())?);
        Ok(())
    }

    /// Sends bytes from the calling thread, as far as the socket has room: a switch to the progress
    /// thread takes longer than the call.
    pub(super) fn send_bytes(&self, bytes: &[u8]) {
        let mut outgoing = lock(&self.outgoing);
        let sent = if outgoing.is_empty() {
            self.socket.try_send(bytes).unwrap_or(0)
        } else {
            0
        };
        outgoing.extend(bytes.get(sent..).unwrap_or_default());
        if !outgoing.is_empty() {
            self.has_outgoing.notify_one();
        }
    }

    /// Sends what the socket had no room for, until it is broken.
    pub(super) async fn send_outgoing(&self) {
        loop {
            self.has_outgoing.notified().await;
            while self.socket.writable().await.is_ok() {
                let mut outgoing = lock(&self.outgoing);
                let (first, _) = outgoing.as_slices();
                if first.is_empty() {
                    break;
                }
                match self.socket.try_send(first) {
                    Ok(sent) => drop(outgoing.drain(..sent)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => {
                        // The reading task sees the end of the stream.
                        outgoing.clear();
                        return;
                    }
                }
            }
        }
    }

    /// Passes a reply to its request.
    pub(super) fn accept_reply(&self, number: RequestNumber, reply: Result<HostReply, Status>) {
        let open = lock(&self.state).open.remove(&number);
        match open {
            // Nothing waits any more after the finalization.
            Some(tell) => drop(tell.send(reply)),
            None => tracing::warn!(number = number.0, "reply to no open request"),
        }
    }

    /// Closes the stream. The server removes what this process has registered.
    pub(super) fn close(&self) {
        lock(&self.state).phase = LinkPhase::Closed;
        // SAFETY: the descriptor is open as long as the stream. A forked child may have another one
        // of it, so that its end alone would not be the end of the stream.
        unsafe { libc::shutdown(self.socket.as_fd().as_raw_fd(), libc::SHUT_RDWR) };
    }

    /// Fails all open requests, since no reply comes any more.
    pub(super) fn end(&self) -> LinkEnd {
        let open = {
            let mut state = lock(&self.state);
            if state.phase == LinkPhase::Closed {
                return LinkEnd::Closed;
            }
            state.phase = LinkPhase::Lost;
            std::mem::take(&mut state.open)
        };
        for tell in open.into_values() {
            drop(tell.send(Err(code::PMIX_ERR_LOST_CONNECTION)));
        }
        LinkEnd::Lost
    }
}

/// Messages of a server, which come in pieces of any length.
#[derive(Debug)]
pub(super) struct Incoming {
    decoder: MessageDecoder,
    piece: Vec<u8>,
}

impl Incoming {
    pub(super) fn new() -> Incoming {
        Incoming {
            decoder: MessageDecoder::new(FrameLimit::default()),
            piece: vec![0; READ],
        }
    }

    /// Waits for the next message.
    pub(super) async fn next(&mut self, link: &HostLink) -> Result<ServerMessage, LinkError> {
        loop {
            if let Some(message) = self.decoder.next_message()? {
                return Ok(message);
            }
            match link.socket.read(&mut self.piece).await? {
                0 => return Err(LinkError::Ended),
                len => self.decoder.push(self.piece.get(..len).unwrap_or_default()),
            }
        }
    }
}

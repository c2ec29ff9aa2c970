//! Frames on the socket of a stub, and the descriptor that comes with its first one.
use peal_stub::{CodecError, FrameLimit, MessageDecoder, StubSocket};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};
use thiserror::Error;

/// Number of bytes that are read at once.
const PIECE: usize = 65_536;

/// Error of a transfer.
#[derive(Debug, Error)]
pub enum TransferError {
    /// The socket failed.
    #[error("socket of the host environment: {0}")]
    Io(#[from] io::Error),
    /// A message cannot be encoded or decoded.
    #[error("{0}")]
    Codec(#[from] CodecError),
    /// The stream ended within a message.
    #[error("connection ended within a message, {0} bytes of it had come")]
    Cut(usize),
}

/// Receiving end of a connection.
pub(super) struct MessageReceiver {
    socket: Arc<StubSocket>,
    decoder: MessageDecoder,
    buffer: Vec<u8>,
}

impl MessageReceiver {
    pub(super) fn new(socket: Arc<StubSocket>, limit: FrameLimit) -> MessageReceiver {
        MessageReceiver {
            socket,
            decoder: MessageDecoder::new(limit),
            buffer: vec![0; PIECE],
        }
    }

    /// Returns the next message; `None` at the end of the stream.
    ///
    /// Cancelling the future loses nothing: what was read stays in the decoder.
    pub(super) async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, TransferError> {
        loop {
            if let Some(message) = self.decoder.next_message()? {
                return Ok(Some(message));
            }
            let count = self.socket.read(&mut self.buffer).await?;
            if count == 0 {
                return match self.decoder.pending() {
                    0 => Ok(None),
                    bytes => Err(TransferError::Cut(bytes)),
                };
            }
            self.decoder
                .push(self.buffer.get(..count).unwrap_or_default());
        }
    }

    /// Returns the first message with the descriptor that came along, if any. Further descriptors are
    /// closed.
    pub(super) async fn first<T: DeserializeOwned>(
        &mut self,
    ) -> Result<Option<(T, Option<OwnedFd>)>, TransferError> {
        let mut descriptor = None;
        loop {
            if let Some(message) = self.decoder.next_message()? {
                return Ok(Some((message, descriptor)));
            }
            let buffer = &mut self.buffer;
            let received = self.socket.read_by(|stream| receive(stream, buffer));
            let (count, received) = received.await?;
            if count == 0 {
                return Ok(None);
            }
            descriptor = descriptor.or(received);
            self.decoder
                .push(self.buffer.get(..count).unwrap_or_default());
        }
    }
}

/// Reads bytes and descriptors.
fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(buffer)];
    let received = recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other(
            "more descriptors than a message may bring",
        ));
    }
    let descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok((received.bytes, descriptors.flatten().next()))
}

/// Sending end of a connection.
pub(super) struct MessageSender {
    socket: Arc<StubSocket>,
    limit: FrameLimit,
}

impl MessageSender {
    pub(super) fn new(socket: Arc<StubSocket>, limit: FrameLimit) -> MessageSender {
        MessageSender { socket, limit }
    }

    pub(super) async fn send<T: Serialize>(&mut self, message: &T) -> Result<(), TransferError> {
        let frame = peal_stub::encode(message, self.limit)?;
        let mut rest = frame.as_slice();
        while !rest.is_empty() {
            match self.socket.try_send(rest) {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.socket.writable().await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

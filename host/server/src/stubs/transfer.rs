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
    /// Descriptor that came before the end of the first message.
    descriptor: Option<OwnedFd>,
}

impl MessageReceiver {
    pub(super) fn new(socket: Arc<StubSocket>, limit: FrameLimit) -> MessageReceiver {
        MessageReceiver {
            socket,
            decoder: MessageDecoder::new(limit),
            buffer: vec![0; PIECE],
            descriptor: None,
        }
    }

    /// Goes on with what another process of the server has received.
    pub(super) fn go_on_with(&mut self, received: &[u8], descriptor: Option<OwnedFd>) {
        self.decoder.push(received);
        self.descriptor = descriptor;
    }

    /// Returns the bytes that were received and not decoded.
    pub(super) fn undecoded(&self) -> &[u8] {
        self.decoder.undecoded()
    }

    /// Takes the descriptor that came with the first message.
    pub(super) fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptor.take()
    }

    /// Returns the descriptor that came before the end of the first message.
    pub(super) fn descriptor(&self) -> Option<&OwnedFd> {
        self.descriptor.as_ref()
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

    /// Returns the first message. A descriptor that comes along is kept, further ones are closed.
    ///
    /// Cancelling the future loses nothing.
    pub(super) async fn first<T: DeserializeOwned>(&mut self) -> Result<Option<T>, TransferError> {
        loop {
            if let Some(message) = self.decoder.next_message()? {
                return Ok(Some(message));
            }
            let buffer = &mut self.buffer;
            let received = self.socket.read_by(|stream| receive(stream, buffer));
            let (count, received) = received.await?;
            if count == 0 {
                return Ok(None);
            }
            self.descriptor = self.descriptor.take().or(received);
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
    /// Bytes that are to be sent.
    unsent: Vec<u8>,
    /// Number of bytes at the beginning of these that were sent.
    sent: usize,
}

impl MessageSender {
    /// Creates the sending end of a connection. These bytes are sent before the first message.
    pub(super) fn new(
        socket: Arc<StubSocket>,
        limit: FrameLimit,
        unsent: Vec<u8>,
    ) -> MessageSender {
        MessageSender {
            socket,
            limit,
            unsent,
            sent: 0,
        }
    }

    /// Returns the socket.
    pub(super) fn socket(&self) -> &Arc<StubSocket> {
        &self.socket
    }

    /// Adds a message to what is to be sent.
    pub(super) fn add<T: Serialize>(&mut self, message: &T) -> Result<(), TransferError> {
        let frame = peal_stub::encode(message, self.limit)?;
        self.unsent.extend(frame);
        Ok(())
    }

    /// Returns the bytes that are to be sent.
    pub(super) fn unsent(&self) -> &[u8] {
        self.unsent.get(self.sent..).unwrap_or_default()
    }

    /// Sends all bytes that are to be sent. Cancelling the future loses nothing.
    pub(super) async fn flush(&mut self) -> Result<(), TransferError> {
        while !self.unsent().is_empty() {
            match self.socket.try_send(self.unsent()) {
                Ok(count) => self.sent = self.sent.saturating_add(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.socket.writable().await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.unsent.clear();
        self.sent = 0;
        Ok(())
    }

    pub(super) async fn send<T: Serialize>(&mut self, message: &T) -> Result<(), TransferError> {
        self.add(message)?;
        self.flush().await
    }
}

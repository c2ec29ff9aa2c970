//! Messages that come with file descriptors. Each is sent and received in one call of the system.
use crate::{
    FrameLimit, MessageDecoder, StreamError,
    codec::{CodecError, HEADER},
    encode,
};
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    io::{IoSlice, IoSliceMut},
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    io::{self, Read, Write},
    mem::MaybeUninit,
    os::unix::net::UnixStream,
};

/// Largest number of descriptors with one message.
pub const MAX_DESCRIPTORS: usize = 32;

/// Maximum bytes of one read of a stream.
const READ: usize = 64 << 10;

/// Message with the descriptors that came with it, at most [`MAX_DESCRIPTORS`].
#[derive(Debug)]
pub struct MessageWithDescriptors<T> {
    /// The message.
    pub message: T,
    /// The descriptors, in their order.
    pub descriptors: Vec<OwnedFd>,
}

/// Sends a message with at most [`MAX_DESCRIPTORS`] descriptors.
///
/// # Errors
///
/// Fails if the message is too long, there are more descriptors, or the socket does not take the message
/// at once.
pub fn send_with_descriptors(
    socket: impl AsFd,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
    limit: FrameLimit,
) -> Result<(), StreamError> {
    let frame = encode(message, limit)?;
    if send_part(socket, &frame, descriptors)? == frame.len() {
        Ok(())
    } else {
        Err(io::Error::from(io::ErrorKind::WriteZero).into())
    }
}

/// Receives a message with its descriptors. Blocks. The other end sends nothing else before it has an
/// answer.
///
/// # Errors
///
/// Fails if the socket fails, or what came is no single message.
pub fn receive_with_descriptors<T: DeserializeOwned>(
    socket: impl AsFd,
    limit: FrameLimit,
) -> Result<MessageWithDescriptors<T>, StreamError> {
    let ReceivedPart { bytes, descriptors } = receive_part(socket, limit.0.saturating_add(HEADER))?;
    let message = decode_single(&bytes, limit)?;
    Ok(MessageWithDescriptors {
        message,
        descriptors,
    })
}

/// Sends bytes with descriptors in one call. Returns the number of bytes that the socket took.
fn send_part(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let parts = [IoSlice::new(bytes)];
    Ok(sendmsg(
        socket,
        &parts,
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?)
}

/// Bytes that were received in one call, and the descriptors that came with them.
struct ReceivedPart {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

/// Receives at most `max` bytes in one call.
fn receive_part(socket: impl AsFd, max: usize) -> io::Result<ReceivedPart> {
    let mut bytes = vec![0; max];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other(
            "this process may not have as many open descriptors as were sent (ulimit -n)",
        ));
    }
    let rights = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptors = rights.flatten().collect();
    bytes.truncate(received.bytes);
    Ok(ReceivedPart { bytes, descriptors })
}

/// Connection on which messages with descriptors follow each other. Blocks.
#[derive(Debug)]
pub struct DescriptorStream {
    socket: UnixStream,
    decoder: MessageDecoder,
    limit: FrameLimit,
}

impl DescriptorStream {
    /// Sends and receives messages up to this length on a connection.
    pub fn new(socket: UnixStream, limit: FrameLimit) -> DescriptorStream {
        DescriptorStream {
            socket,
            decoder: MessageDecoder::new(limit),
            limit,
        }
    }

    /// Sends a message with at most [`MAX_DESCRIPTORS`] descriptors. The other end must answer before another
    /// message with descriptors is sent.
    ///
    /// # Errors
    ///
    /// Fails if the message is too long, there are more descriptors, or the connection fails.
    pub fn send(
        &mut self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), StreamError> {
        let frame = encode(message, self.limit)?;
        let sent = send_part(&self.socket, &frame, descriptors)?;
        // The descriptors are sent with the first part.
        self.socket
            .write_all(frame.get(sent..).unwrap_or_default())?;
        Ok(())
    }

    /// Receives a message with its descriptors.
    ///
    /// # Errors
    ///
    /// Fails if the connection fails or has ended, or the message is invalid.
    pub fn receive<T: DeserializeOwned>(
        &mut self,
    ) -> Result<MessageWithDescriptors<T>, StreamError> {
        let mut descriptors = Vec::new();
        loop {
            if let Some(message) = self.decoder.next_message()? {
                return Ok(MessageWithDescriptors {
                    message,
                    descriptors,
                });
            }
            let part = receive_part(&self.socket, READ)?;
            if part.bytes.is_empty() {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            descriptors.extend(part.descriptors);
            self.decoder.push(&part.bytes);
        }
    }

    /// Waits until the other end has closed the connection.
    ///
    /// # Errors
    ///
    /// Fails if the connection fails in another way.
    pub fn wait_for_end(&mut self) -> io::Result<()> {
        self.socket.set_read_timeout(None)?;
        let mut byte = [0];
        loop {
            match self.socket.read(&mut byte) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The other end was killed with messages that it had not read.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Decodes the one message in these bytes.
///
/// # Errors
///
/// Fails if there is none, more than one, or an invalid one.
pub fn decode_single<T: DeserializeOwned>(
    bytes: &[u8],
    limit: FrameLimit,
) -> Result<T, CodecError> {
    let mut decoder = MessageDecoder::new(limit);
    decoder.push(bytes);
    match decoder.next_message()? {
        Some(message) if decoder.pending() == 0 => Ok(message),
        _ => Err(CodecError::NotSingle(bytes.len())),
    }
}

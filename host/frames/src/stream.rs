//! Messages on a stream socket.
use crate::{CodecError, FrameLimit, MessageDecoder, encode};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
};
use thiserror::Error;

/// Bytes that are read at once.
const CHUNK: usize = 1 << 16;

/// Failure of a stream of messages.
#[derive(Debug, Error)]
pub enum StreamError {
    /// The connection failed, or ended within a message.
    #[error("connection: {0}")]
    Connection(#[from] io::Error),
    /// The other end sent what is no message, or the message is too long.
    #[error("message: {0}")]
    Message(#[from] CodecError),
}

/// Stream socket that carries messages. Blocks.
#[derive(Debug)]
pub struct MessageStream {
    stream: UnixStream,
    decoder: MessageDecoder,
    sent: FrameLimit,
    chunk: Vec<u8>,
}

impl MessageStream {
    /// Carries messages up to this length over a socket.
    pub fn new(stream: UnixStream, limit: FrameLimit) -> MessageStream {
        MessageStream::with_limits(stream, limit, limit)
    }

    /// Carries messages up to these lengths: those that are received, and those that are sent.
    pub fn with_limits(
        stream: UnixStream,
        received: FrameLimit,
        sent: FrameLimit,
    ) -> MessageStream {
        MessageStream {
            stream,
            decoder: MessageDecoder::new(received),
            sent,
            chunk: vec![0; CHUNK],
        }
    }

    /// Returns the next message; none at the end of the stream.
    ///
    /// # Errors
    ///
    /// Fails if the connection fails, ends within a message, or has what is no message.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, StreamError> {
        loop {
            if let Some(message) = self.decoder.next_message()? {
                return Ok(Some(message));
            }
            match self.stream.read(&mut self.chunk) {
                Ok(0) if self.decoder.pending() == 0 => return Ok(None),
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(count) => self
                    .decoder
                    .push(self.chunk.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// Fails if the message is too long or the connection fails.
    pub fn send(&mut self, message: &impl Serialize) -> Result<(), StreamError> {
        let frame = encode(message, self.sent)?;
        Ok(self.stream.write_all(&frame)?)
    }
}

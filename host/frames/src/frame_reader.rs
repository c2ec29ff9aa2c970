//! Reader of messages from a stream that blocks.
use crate::{CodecError, FrameLimit, MessageDecoder};
use serde::de::DeserializeOwned;
use std::io::{self, Read};
use thiserror::Error;

/// Number of bytes that are read at once.
const CHUNK: usize = 64 * 1024;

/// Failure of reading a message.
#[derive(Debug, Error)]
pub enum ReadMessageError {
    /// The stream failed, or ended within a message.
    #[error(transparent)]
    Stream(#[from] io::Error),
    /// The stream has what is no message.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// Reader of the messages of a stream.
#[derive(Debug)]
pub struct FrameReader<S> {
    stream: S,
    decoder: MessageDecoder,
    chunk: Vec<u8>,
}

impl<S: Read> FrameReader<S> {
    /// Creates a reader of messages up to this length.
    pub fn new(stream: S, limit: FrameLimit) -> FrameReader<S> {
        FrameReader {
            stream,
            decoder: MessageDecoder::new(limit),
            chunk: vec![0; CHUNK],
        }
    }

    /// Returns the next message; none at the end of the stream. Blocks.
    ///
    /// # Errors
    ///
    /// Fails if the stream fails, ends within a message, or has what is no message.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ReadMessageError> {
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
}

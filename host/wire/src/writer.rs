//! Writer of a message.
use crate::{Codec, WireError, flex};
use peal_model::DataType;

/// Bytes reserved at first; most messages are shorter.
const INITIAL_CAPACITY: usize = 256;

/// Writer of one payload from front to back.
pub(crate) struct MessageWriter<'a> {
    codec: &'a Codec,
    out: Vec<u8>,
    depth: usize,
}

impl<'a> MessageWriter<'a> {
    /// Makes an empty payload.
    pub(crate) fn new(codec: &'a Codec) -> MessageWriter<'a> {
        MessageWriter {
            codec,
            out: Vec::with_capacity(INITIAL_CAPACITY),
            depth: 0,
        }
    }

    /// Returns the codec of the peer.
    pub(crate) fn codec(&self) -> &'a Codec {
        self.codec
    }

    /// Returns the payload, or an error if it is longer than a message may be.
    pub(crate) fn finish(self) -> Result<Vec<u8>, WireError> {
        let limits = &self.codec.limits;
        limits.check("message", self.out.len() as u64, limits.max_message)?;
        Ok(self.out)
    }

    /// Writes bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Writes a byte.
    pub(crate) fn byte(&mut self, byte: u8) {
        self.out.push(byte);
    }

    /// Writes an unsigned flexible integer.
    pub(crate) fn unsigned(&mut self, number: impl Into<u64>) {
        flex::put(&mut self.out, number.into());
    }

    /// Writes a signed flexible integer.
    pub(crate) fn signed(&mut self, number: impl Into<i64>) {
        flex::put(&mut self.out, flex::fold(number.into()));
    }

    /// Writes a type code.
    pub(crate) fn type_code(&mut self, data_type: DataType) {
        self.unsigned(data_type.0);
    }

    /// Writes a string with a NUL; a length of zero for a NULL pointer.
    pub(crate) fn string(
        &mut self,
        part: &'static str,
        text: Option<&[u8]>,
    ) -> Result<(), WireError> {
        let Some(text) = text else {
            self.signed(0);
            return Ok(());
        };
        let len = text.len() as u64 + 1;
        self.codec
            .limits
            .check(part, len, self.codec.limits.max_string)?;
        // Lengths of strings are signed on the wire, in contrast to those of byte objects.
        self.signed(i32::try_from(len).map_err(|_| WireError::OutOfRange {
            part,
            number: i128::from(len),
        })?);
        self.bytes(text);
        self.byte(0);
        Ok(())
    }

    /// Writes a length and as many bytes.
    pub(crate) fn byte_object(&mut self, bytes: &[u8]) {
        self.unsigned(bytes.len() as u64);
        self.bytes(bytes);
    }

    /// Writes the count of a list. Returns an error if it is larger than the limit.
    pub(crate) fn count(&mut self, part: &'static str, count: usize) -> Result<i32, WireError> {
        self.codec
            .limits
            .check(part, count as u64, self.codec.limits.max_count)?;
        i32::try_from(count).map_err(|_| WireError::OutOfRange {
            part,
            number: count as i128,
        })
    }

    /// Writes a value one level further down.
    pub(crate) fn deeper(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), WireError>,
    ) -> Result<(), WireError> {
        let limit = self.codec.limits.max_depth;
        if self.depth >= limit {
            return Err(WireError::TooDeep { limit });
        }
        self.depth += 1;
        let written = write(self);
        self.depth -= 1;
        written
    }

    /// Returns the bytes that `write` writes, for a part that is put into the payload as a whole.
    pub(crate) fn apart(
        &self,
        write: impl FnOnce(&mut MessageWriter<'a>) -> Result<(), WireError>,
    ) -> Result<Vec<u8>, WireError> {
        let mut inner = MessageWriter {
            codec: self.codec,
            out: Vec::new(),
            // The receiver counts the levels of a nested part on from those around it, so the
            // writer does, too.
            depth: self.depth,
        };
        write(&mut inner)?;
        inner.finish()
    }
}

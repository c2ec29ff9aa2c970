//! The bytes of a message in the making.
use crate::{Codec, WireError, flex};
use peal_model::DataType;

/// For how many bytes there is room at once: most answers are shorter.
const ROOM: usize = 64;

/// Writes one payload from front to back.
pub(crate) struct MessageWriter<'a> {
    codec: &'a Codec,
    out: Vec<u8>,
    depth: usize,
}

impl<'a> MessageWriter<'a> {
    /// An empty payload.
    pub(crate) fn new(codec: &'a Codec) -> MessageWriter<'a> {
        MessageWriter {
            codec,
            out: Vec::with_capacity(ROOM),
            depth: 0,
        }
    }

    /// How the peer speaks.
    pub(crate) fn codec(&self) -> &'a Codec {
        self.codec
    }

    /// The payload; an error if it is longer than a message may be.
    pub(crate) fn finish(self) -> Result<Vec<u8>, WireError> {
        let limits = &self.codec.limits;
        limits.check("message", self.out.len() as u64, limits.max_message)?;
        Ok(self.out)
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// One byte.
    pub(crate) fn byte(&mut self, byte: u8) {
        self.out.push(byte);
    }

    /// A flexible integer without sign.
    pub(crate) fn unsigned(&mut self, number: impl Into<u64>) {
        flex::put(&mut self.out, number.into());
    }

    /// A flexible integer with sign.
    pub(crate) fn signed(&mut self, number: impl Into<i64>) {
        flex::put(&mut self.out, flex::fold(number.into()));
    }

    /// A type code.
    pub(crate) fn type_code(&mut self, data_type: DataType) {
        self.unsigned(data_type.0);
    }

    /// A string, to which a NUL is added; nothing for a NULL pointer.
    pub(crate) fn string(
        &mut self,
        what: &'static str,
        text: Option<&[u8]>,
    ) -> Result<(), WireError> {
        let Some(text) = text else {
            self.signed(0);
            return Ok(());
        };
        let len = text.len() as u64 + 1;
        self.codec
            .limits
            .check(what, len, self.codec.limits.max_string)?;
        self.signed(i32::try_from(len).map_err(|_| WireError::OutOfRange {
            what,
            number: i128::from(len),
        })?);
        self.bytes(text);
        self.byte(0);
        Ok(())
    }

    /// A length and so many bytes.
    pub(crate) fn byte_object(&mut self, bytes: &[u8]) {
        self.unsigned(bytes.len() as u64);
        self.bytes(bytes);
    }

    /// A count, if a list may have so many elements.
    pub(crate) fn count(&mut self, what: &'static str, count: usize) -> Result<i32, WireError> {
        self.codec
            .limits
            .check(what, count as u64, self.codec.limits.max_count)?;
        i32::try_from(count).map_err(|_| WireError::OutOfRange {
            what,
            number: count as i128,
        })
    }

    /// Something one level further down.
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

    /// The bytes of something that is to be put into this payload as a whole.
    pub(crate) fn apart(
        &self,
        write: impl FnOnce(&mut MessageWriter<'a>) -> Result<(), WireError>,
    ) -> Result<Vec<u8>, WireError> {
        let mut inner = MessageWriter {
            codec: self.codec,
            out: Vec::new(),
            depth: self.depth,
        };
        write(&mut inner)?;
        inner.finish()
    }
}

//! Reader of received bytes that never reads, nests or allocates more than the limits allow.
use crate::{BufferType, Codec, WireError, flex, packed::utf8};
use peal_model::{DataType, Nspace};
use std::{ffi::CStr, mem::size_of};

/// Bytes of an allocation beside its content: the counters of an `Arc` or the data of the
/// allocator.
const ALLOCATION: usize = 2 * size_of::<usize>();

/// Elements for which memory is reserved before the first is read, however many are announced.
const MAX_RESERVED_ELEMENTS: usize = 64;

/// Bound on the arrays that may be left out at the end of an array of arrays
/// ([`crate::UntypedArray::TypeAlone`]).
pub(crate) const MOST_LEFT_OUT: usize = 64;
/// Name of these arrays in errors.
pub(crate) const LEFT_OUT: &str = "arrays without type at the end of an array";

/// Reader of one payload from front to back.
pub(crate) struct MessageReader<'a> {
    codec: &'a Codec,
    buffer_type: BufferType,
    data: &'a [u8],
    memory_left: usize,
    depth: usize,
    /// Last namespace that was read. Procs of one message are mostly of one job, so they share its
    /// allocation.
    nspace: Nspace,
}

impl<'a> MessageReader<'a> {
    /// Makes a reader of a payload. Returns an error if it is longer than a message may be.
    pub(crate) fn new(codec: &'a Codec, data: &'a [u8]) -> Result<MessageReader<'a>, WireError> {
        MessageReader::of(codec, Nspace::default(), data)
    }

    /// Makes a reader that expects this namespace to be the first one named.
    pub(crate) fn of(
        codec: &'a Codec,
        nspace: Nspace,
        data: &'a [u8],
    ) -> Result<MessageReader<'a>, WireError> {
        codec
            .limits
            .check("message", data.len() as u64, codec.limits.max_message)?;
        let memory_left = codec.limits.max_memory;
        Ok(MessageReader {
            codec,
            buffer_type: codec.buffer_type,
            data,
            memory_left,
            depth: 0,
            nspace,
        })
    }

    /// Returns the codec of the peer.
    pub(crate) fn codec(&self) -> &'a Codec {
        self.codec
    }

    /// Returns whether fields carry their types here.
    pub(crate) fn buffer_type(&self) -> BufferType {
        self.buffer_type
    }

    /// Returns the namespace of this name.
    pub(crate) fn nspace(&mut self, name: &CStr) -> Result<Nspace, WireError> {
        // Most are of one job: then the shared allocation is used and no check is needed.
        if self.nspace.as_str().as_bytes() != name.to_bytes() {
            self.nspace = Nspace::new(utf8("namespace", name.to_bytes())?)?;
        }
        Ok(self.nspace.clone())
    }

    /// Returns true if everything was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Returns the number of bytes that were not read.
    pub(crate) fn left(&self) -> usize {
        self.data.len()
    }

    /// Returns an error unless everything was read.
    pub(crate) fn finish(&self, part: &'static str) -> Result<(), WireError> {
        match self.data.len() {
            0 => Ok(()),
            count => Err(WireError::Trailing { part, count }),
        }
    }

    /// Reads bytes.
    pub(crate) fn bytes(&mut self, part: &'static str, len: u64) -> Result<&'a [u8], WireError> {
        let split = usize::try_from(len)
            .ok()
            .and_then(|len| self.data.split_at_checked(len));
        let short = || WireError::Truncated {
            part,
            needed: len,
            left: self.data.len(),
        };
        let (bytes, rest) = split.ok_or_else(short)?;
        self.data = rest;
        Ok(bytes)
    }

    /// Reads a byte.
    pub(crate) fn byte(&mut self, part: &'static str) -> Result<u8, WireError> {
        let short = || WireError::Truncated {
            part,
            needed: 1,
            left: 0,
        };
        let (byte, rest) = self.data.split_first().ok_or_else(short)?;
        self.data = rest;
        Ok(*byte)
    }

    /// Reads an unsigned flexible integer. Returns an error if it does not fit into `T`.
    pub(crate) fn unsigned<T: TryFrom<u64>>(&mut self, part: &'static str) -> Result<T, WireError> {
        // Every byte up to the end announces another one, so at least one byte is missing.
        let left = self.data.len();
        let short = || WireError::Truncated {
            part,
            needed: left as u64 + 1,
            left,
        };
        let (number, rest) = flex::take(self.data).ok_or_else(short)?;
        self.data = rest;
        T::try_from(number).map_err(|_| WireError::OutOfRange {
            part,
            number: i128::from(number),
        })
    }

    /// Reads a signed flexible integer. Returns an error if it does not fit into `T`.
    pub(crate) fn signed<T: TryFrom<i64>>(&mut self, part: &'static str) -> Result<T, WireError> {
        let number = flex::unfold(self.unsigned(part)?);
        T::try_from(number).map_err(|_| WireError::OutOfRange {
            part,
            number: i128::from(number),
        })
    }

    /// Reads a type code, known or not.
    pub(crate) fn type_code(&mut self) -> Result<DataType, WireError> {
        self.unsigned("type code").map(DataType)
    }

    /// Reads a string; `None` for a NULL pointer. It ends at its first NUL. Bytes behind it do not
    /// belong to the string, although the length on the wire includes them.
    pub(crate) fn string(&mut self, part: &'static str) -> Result<Option<&'a CStr>, WireError> {
        let len: i32 = self.signed(part)?;
        let len = u64::try_from(len).map_err(|_| WireError::OutOfRange {
            part,
            number: i128::from(len),
        })?;
        // The length includes the NUL, so it is zero for a NULL pointer only. The empty string has
        // length 1.
        if len == 0 {
            return Ok(None);
        }
        self.codec
            .limits
            .check(part, len, self.codec.limits.max_string)?;
        let bytes = self.bytes(part, len)?;
        self.charge(bytes.len().saturating_add(ALLOCATION))?;
        match CStr::from_bytes_until_nul(bytes) {
            Ok(text) if bytes.ends_with(&[0]) => Ok(Some(text)),
            _ => Err(WireError::Unterminated { part }),
        }
    }

    /// Reads a length and as many bytes.
    pub(crate) fn byte_object(&mut self, part: &'static str) -> Result<&'a [u8], WireError> {
        let len = self.unsigned(part)?;
        let bytes = self.bytes(part, len)?;
        self.charge(bytes.len().saturating_add(ALLOCATION))?;
        Ok(bytes)
    }

    /// Reads `count` elements that take at least a byte each. The count is checked before anything
    /// is allocated.
    pub(crate) fn list<T>(
        &mut self,
        part: &'static str,
        count: u64,
        mut read: impl FnMut(&mut Self) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        self.codec
            .limits
            .check(part, count, self.codec.limits.max_count)?;
        // Each element takes at least one byte, so a larger count is wrong whatever follows.
        if count > self.data.len() as u64 {
            return Err(WireError::Truncated {
                part,
                needed: count,
                left: self.data.len(),
            });
        }
        // A count is cheap to claim, and an element may be much larger in memory than on the wire.
        // Beyond a few elements the list grows only as they are read.
        let mut list = Vec::with_capacity(
            usize::try_from(count)
                .unwrap_or(MAX_RESERVED_ELEMENTS)
                .min(MAX_RESERVED_ELEMENTS),
        );
        for _ in 0..count {
            self.push(part, &mut list, &mut read)?;
        }
        Ok(list)
    }

    /// Reads `count` elements, of which those after one that `ends` them are not sent and equal it.
    /// At most [`MOST_LEFT_OUT`] may be left out, since they take memory but no bytes.
    pub(crate) fn list_up_to<T: Clone>(
        &mut self,
        part: &'static str,
        count: u64,
        mut read: impl FnMut(&mut Self) -> Result<T, WireError>,
        ends: impl Fn(&T) -> bool,
    ) -> Result<Vec<T>, WireError> {
        self.codec
            .limits
            .check(part, count, self.codec.limits.max_count)?;
        // The number of bytes left says nothing about the count here, because elements may be left
        // out.
        let mut list: Vec<T> = Vec::new();
        for left in (0..count).rev() {
            let end = list.last().filter(|last| ends(last)).cloned();
            if end.is_some() {
                self.codec.limits.check(LEFT_OUT, left + 1, MOST_LEFT_OUT)?;
            }
            self.push(part, &mut list, |r| end.map_or_else(|| read(r), Ok))?;
        }
        Ok(list)
    }

    /// Reads elements up to the end of the bytes.
    pub(crate) fn list_until_end<T>(
        &mut self,
        part: &'static str,
        mut read: impl FnMut(&mut Self) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        let mut list = Vec::new();
        // The loop ends, because the header of a field takes at least one byte.
        while !self.is_empty() {
            self.push(part, &mut list, &mut read)?;
        }
        Ok(list)
    }

    fn push<T>(
        &mut self,
        part: &'static str,
        list: &mut Vec<T>,
        read: impl FnOnce(&mut Self) -> Result<T, WireError>,
    ) -> Result<(), WireError> {
        self.codec
            .limits
            .check(part, list.len() as u64 + 1, self.codec.limits.max_count)?;
        // Only the element itself is charged here. What it owns on the heap is charged by `string`,
        // `byte_object` and `boxed` when they read it.
        self.charge(size_of::<T>())?;
        list.push(read(self)?);
        Ok(())
    }

    /// Reads a value that is kept on the heap.
    pub(crate) fn boxed<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, WireError>,
    ) -> Result<Box<T>, WireError> {
        self.charge(size_of::<T>().saturating_add(ALLOCATION))?;
        read(self).map(Box::new)
    }

    /// Reads a value one level further down.
    pub(crate) fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, WireError>,
    ) -> Result<T, WireError> {
        let limit = self.codec.limits.max_depth;
        if self.depth >= limit {
            return Err(WireError::TooDeep { limit });
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    /// Reads a value that fills `bytes`, which are part of the payload.
    pub(crate) fn within<T>(
        &mut self,
        part: &'static str,
        data: &'a [u8],
        buffer_type: BufferType,
        read: impl FnOnce(&mut MessageReader<'a>) -> Result<T, WireError>,
    ) -> Result<T, WireError> {
        let mut inner = MessageReader {
            codec: self.codec,
            buffer_type,
            data,
            // Memory and depth are those of the whole message. Otherwise nested byte objects would
            // multiply the limits.
            memory_left: self.memory_left,
            depth: self.depth,
            nspace: self.nspace.clone(),
        };
        let value = read(&mut inner)?;
        inner.finish(part)?;
        // After an error the whole message is refused, so the memory matters only after a success.
        self.memory_left = inner.memory_left;
        Ok(value)
    }

    fn charge(&mut self, bytes: usize) -> Result<(), WireError> {
        let Some(left) = self.memory_left.checked_sub(bytes) else {
            return Err(WireError::TooBig {
                limit: self.codec.limits.max_memory,
            });
        };
        self.memory_left = left;
        Ok(())
    }
}

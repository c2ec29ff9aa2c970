//! Frames: a header of sixteen bytes in network order, and a payload.
use crate::{DecodeLimits, WireError};
use std::fmt;

/// Tag of a frame: its kind, or the number that joins a reply to its request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u32);

impl Tag {
    /// Event, from server to client.
    pub const NOTIFY: Tag = Tag(0);
    /// Heartbeat, from client to server, without payload and without reply.
    pub const HEARTBEAT: Tag = Tag(1);
    /// Forwarded output, from server to client.
    pub const IOF: Tag = Tag(2);
    /// Tag of the first request.
    pub const FIRST_REQUEST: Tag = Tag(101);
    /// Tag in the header of the handshake, not in any frame.
    pub const ANY: Tag = Tag(u32::MAX);

    /// Returns the tag of the next request.
    pub fn next_request(self) -> Tag {
        // Lower tags mark messages without a request, and the highest one is reserved. `libpmix`
        // begins again after it, too.
        match self.0.checked_add(1) {
            Some(next) if Tag(next) > Tag::FIRST_REQUEST && Tag(next) != Tag::ANY => Tag(next),
            _ => Tag::FIRST_REQUEST,
        }
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tag {}", self.0)
    }
}

/// Header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Index from the handshake in frames of the client, 0 in frames of the server. Receivers do
    /// not use it.
    pub pindex: i32,
    /// Kind of the payload.
    pub tag: Tag,
    /// Length of the payload in bytes.
    pub len: u32,
}

impl Header {
    /// Length of a header in bytes.
    pub const LEN: usize = 16;

    /// Encodes the header: three numbers and four bytes of padding.
    pub fn encode(&self) -> [u8; Header::LEN] {
        let [p0, p1, p2, p3] = self.pindex.to_be_bytes();
        let [t0, t1, t2, t3] = self.tag.0.to_be_bytes();
        let [n0, n1, n2, n3] = self.len.to_be_bytes();
        // `libpmix` sends a C structure, which has four bytes of padding in builds for 64 bits.
        [p0, p1, p2, p3, t0, t1, t2, t3, n0, n1, n2, n3, 0, 0, 0, 0]
    }

    /// Decodes a header.
    pub fn decode(bytes: [u8; Header::LEN]) -> Header {
        let [p0, p1, p2, p3, t0, t1, t2, t3, n0, n1, n2, n3, ..] = bytes;
        Header {
            pindex: i32::from_be_bytes([p0, p1, p2, p3]),
            tag: Tag(u32::from_be_bytes([t0, t1, t2, t3])),
            len: u32::from_be_bytes([n0, n1, n2, n3]),
        }
    }
}

/// A frame that is not decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// See [`Header::pindex`].
    pub pindex: i32,
    /// Kind of the payload.
    pub tag: Tag,
    /// Payload, which a [`crate::Codec`] decodes. It is never empty in a reply.
    pub payload: Vec<u8>,
}

impl Frame {
    /// Encodes the frame. Returns an error if the payload is longer than a header can state.
    pub fn encode(&self) -> Result<Vec<u8>, WireError> {
        let len = self.payload.len() as u64;
        let limit = u64::from(u32::MAX);
        let fits = u32::try_from(len).map_err(|_| WireError::TooLong {
            part: "payload",
            len,
            limit,
        })?;
        let header = Header {
            pindex: self.pindex,
            tag: self.tag,
            len: fits,
        };
        let mut bytes = Vec::with_capacity(Header::LEN.saturating_add(self.payload.len()));
        bytes.extend_from_slice(&header.encode());
        bytes.extend_from_slice(&self.payload);
        Ok(bytes)
    }
}

/// Decoder that splits a stream into frames. It holds at most one frame, and never more than was
/// received.
#[derive(Debug)]
pub struct FrameDecoder {
    max_message: usize,
    header: [u8; Header::LEN],
    /// Number of bytes of the header that have been received.
    header_len: usize,
    payload: Gather,
}

impl FrameDecoder {
    /// Makes a decoder at the start of a frame.
    pub fn new(limits: &DecodeLimits) -> FrameDecoder {
        FrameDecoder {
            max_message: limits.max_message,
            header: [0; Header::LEN],
            header_len: 0,
            payload: Gather::default(),
        }
    }

    /// Takes bytes off the front of `input` up to the end of a frame, and returns the frame if it
    /// is complete. Call it until it returns `None`. After an error the stream cannot be used any
    /// more.
    pub fn feed(&mut self, input: &mut &[u8]) -> Result<Option<Frame>, WireError> {
        self.fill_header(input);
        let Some(header) = self.complete_header() else {
            return Ok(None);
        };
        // The header alone decides. Otherwise the payload would be gathered before it is refused.
        let len = u64::from(header.len);
        let limit = self.max_message as u64;
        if len > limit {
            return Err(WireError::TooLong {
                part: "payload",
                len,
                limit,
            });
        }
        let Some(payload) = self.payload.take(input, header.len as usize) else {
            return Ok(None);
        };
        // The header is kept while the payload is incomplete, so that the next call finds it again.
        self.header_len = 0;
        Ok(Some(Frame {
            pindex: header.pindex,
            tag: header.tag,
            payload,
        }))
    }

    /// Returns the payload length of the current frame, once its header is complete.
    pub fn awaited_payload(&self) -> Option<usize> {
        self.complete_header().map(|header| header.len as usize)
    }

    /// Returns the bytes of the frame that has been received in part. Another decoder that gets them first
    /// continues the stream.
    pub fn partial(&self) -> Vec<u8> {
        let header = self.header.get(..self.header_len).unwrap_or_default();
        [header, &self.payload.bytes].concat()
    }

    /// Returns true if no frame has begun, so that the stream may end here.
    pub fn is_between_frames(&self) -> bool {
        self.header_len == 0
    }

    fn complete_header(&self) -> Option<Header> {
        (self.header_len == Header::LEN).then(|| Header::decode(self.header))
    }

    fn fill_header(&mut self, input: &mut &[u8]) {
        let missing = self.header.get_mut(self.header_len..).unwrap_or_default();
        let count = missing.len().min(input.len());
        // `count` is at most either length, so the split always succeeds.
        if let (Some(missing), Some((now, later))) =
            (missing.get_mut(..count), input.split_at_checked(count))
        {
            missing.copy_from_slice(now);
            self.header_len += count;
            *input = later;
        }
    }
}

/// Buffer of bytes that do not yet suffice.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    bytes: Vec<u8>,
}

impl Gather {
    fn fetch(&mut self, input: &mut &[u8], expected: usize) -> bool {
        let missing = expected.saturating_sub(self.bytes.len()).min(input.len());
        // `missing` is at most the length of the input, so the split always succeeds.
        if let Some((now, later)) = input.split_at_checked(missing) {
            self.bytes.extend_from_slice(now);
            *input = later;
        }
        self.bytes.len() >= expected
    }

    /// Returns `expected` bytes and removes them, once they are there.
    pub(crate) fn take(&mut self, input: &mut &[u8], expected: usize) -> Option<Vec<u8>> {
        self.fetch(input, expected)
            .then(|| std::mem::take(&mut self.bytes))
    }

    /// Returns the first bytes and keeps them, once they are there.
    pub(crate) fn fill<const N: usize>(&mut self, input: &mut &[u8]) -> Option<[u8; N]> {
        if self.fetch(input, N) {
            self.bytes.first_chunk().copied()
        } else {
            None
        }
    }
}

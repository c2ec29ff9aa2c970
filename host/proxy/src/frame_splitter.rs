//! Splitter of a stream into frames. Frames that are not inspected are passed on in the pieces in
//! which they arrive.
use peal_wire::{Header, Tag};

/// Bytes of a payload that determine its command, in either buffer type.
const GLANCE: usize = 4;

/// A frame as received.
#[derive(Debug)]
pub(crate) struct RawFrame {
    pub(crate) tag: Tag,
    pub(crate) pindex: i32,
    /// Header and payload.
    pub(crate) bytes: Vec<u8>,
}

impl RawFrame {
    /// Returns the payload.
    pub(crate) fn payload(&self) -> &[u8] {
        self.bytes.get(Header::LEN..).unwrap_or_default()
    }
}

/// Splitter of one direction of a connection.
#[derive(Debug)]
pub(crate) struct FrameSplitter {
    /// Longest payload that is inspected, in bytes.
    longest: usize,
    state: SplitState,
}

#[derive(Debug)]
enum SplitState {
    /// Start of a frame; none of it has been passed on.
    Beginning(Vec<u8>),
    /// A frame that is passed on, with the number of its missing bytes.
    Passing(u64),
    /// A frame that is inspected once it is complete.
    Holding { header: Header, bytes: Vec<u8> },
}

impl FrameSplitter {
    /// Makes a splitter at the start of a frame. Frames with longer payloads are passed on.
    pub(crate) fn new(longest: usize) -> FrameSplitter {
        FrameSplitter {
            longest,
            state: SplitState::Beginning(Vec::new()),
        }
    }

    /// Returns true if another frame may be inserted: no frame is passed on in part.
    pub(crate) fn is_between(&self) -> bool {
        !matches!(self.state, SplitState::Passing(_))
    }

    /// Takes bytes off the front of `input`. Bytes to be passed on go to `out`. A frame that
    /// `is_wanted` is returned once it is complete; the decision uses its header and the start of
    /// its payload. Returns `None` when all input is taken.
    pub(crate) fn feed(
        &mut self,
        input: &mut &[u8],
        out: &mut Vec<u8>,
        mut is_wanted: impl FnMut(&Header, &[u8]) -> bool,
    ) -> Option<RawFrame> {
        loop {
            match &mut self.state {
                SplitState::Beginning(begun) => {
                    take(input, begun, Header::LEN);
                    let header = Header::decode(*begun.first_chunk()?);
                    let glance = GLANCE.min(header.len as usize);
                    let wanted = Header::LEN.saturating_add(glance);
                    take(input, begun, wanted);
                    if begun.len() < wanted {
                        return None;
                    }
                    let begun = std::mem::take(begun);
                    let payload = begun.get(Header::LEN..).unwrap_or_default();
                    // A frame that is too long is passed on unread: the other side refuses it as it
                    // would without the proxy, and the memory here stays bounded.
                    if header.len as usize <= self.longest && is_wanted(&header, payload) {
                        self.state = SplitState::Holding {
                            header,
                            bytes: begun,
                        };
                    } else {
                        out.extend_from_slice(&begun);
                        self.state = SplitState::Passing(
                            u64::from(header.len).saturating_sub(glance as u64),
                        );
                    }
                }
                // The glance was the whole payload.
                SplitState::Passing(0) => self.state = SplitState::Beginning(Vec::new()),
                SplitState::Passing(left) => {
                    let most = usize::try_from(*left)
                        .unwrap_or(usize::MAX)
                        .min(input.len());
                    let (now, later) = input
                        .split_at_checked(most)
                        .filter(|(now, _)| !now.is_empty())?;
                    out.extend_from_slice(now);
                    *left = left.saturating_sub(now.len() as u64);
                    *input = later;
                    if *left == 0 {
                        self.state = SplitState::Beginning(Vec::new());
                    }
                }
                SplitState::Holding { header, bytes } => {
                    let wanted = Header::LEN.saturating_add(header.len as usize);
                    take(input, bytes, wanted);
                    if bytes.len() < wanted {
                        return None;
                    }
                    let whole = RawFrame {
                        tag: header.tag,
                        pindex: header.pindex,
                        bytes: std::mem::take(bytes),
                    };
                    self.state = SplitState::Beginning(Vec::new());
                    return Some(whole);
                }
            }
        }
    }

    /// Returns the held part of a frame after the stream has ended in it.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        match std::mem::replace(&mut self.state, SplitState::Beginning(Vec::new())) {
            SplitState::Beginning(bytes) | SplitState::Holding { bytes, .. } => bytes,
            SplitState::Passing(_) => Vec::new(),
        }
    }
}

/// Moves bytes until `to` has `wanted` bytes.
fn take(input: &mut &[u8], to: &mut Vec<u8>, wanted: usize) {
    let missing = wanted.saturating_sub(to.len()).min(input.len());
    if let Some((now, later)) = input.split_at_checked(missing) {
        to.extend_from_slice(now);
        *input = later;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_wire::Frame;

    fn frame(tag: u32, len: usize) -> Vec<u8> {
        Frame {
            pindex: 7,
            tag: Tag(tag),
            payload: (0..len).map(|byte| byte as u8).collect(),
        }
        .encode()
        .unwrap()
    }

    /// Splits a stream that arrives in pieces of a size, with frames of tag 1 wanted. Returns the
    /// bytes passed on and the wanted frames.
    fn cut(stream: &[u8], piece: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
        let mut cutter = FrameSplitter::new(100);
        let mut out = Vec::new();
        let mut wanted = Vec::new();
        for mut piece in stream.chunks(piece) {
            while let Some(whole) =
                cutter.feed(&mut piece, &mut out, |header, _| header.tag == Tag(1))
            {
                assert_eq!((whole.tag, whole.pindex), (Tag(1), 7));
                wanted.push(whole.bytes);
            }
            assert!(piece.is_empty());
        }
        assert_eq!(cutter.rest(), b"");
        (out, wanted)
    }

    #[test]
    fn selected_frames_are_whole_and_others_pass_at_any_split() {
        let frames = [
            frame(101, 0),
            frame(1, 9),
            frame(102, 3),
            frame(103, 60),
            frame(1, 0),
            frame(1, 101),
        ];
        let stream = frames.concat();
        let passing = [&frames[0][..], &frames[2], &frames[3], &frames[5]].concat();
        for piece in 1..=stream.len() {
            let (passed, wanted) = cut(&stream, piece);
            assert_eq!(passed, passing);
            assert_eq!(wanted, [frames[1].clone(), frames[4].clone()]);
        }
    }

    #[test]
    fn nothing_is_put_into_the_middle_of_a_frame() {
        let mut cutter = FrameSplitter::new(100);
        let mut out = Vec::new();
        let stream = frame(101, 9);
        let mut between = Vec::new();
        for mut byte in stream.chunks(1) {
            between.push(cutter.is_between());
            assert!(cutter.feed(&mut byte, &mut out, |_, _| false).is_none());
            assert_eq!(
                cutter.is_between(),
                out.is_empty() || out.len() == stream.len()
            );
        }
        assert_eq!(out, stream);
        assert_eq!(
            between.iter().filter(|between| !**between).count(),
            5,
            "all but the glance: {between:?}"
        );
    }
}

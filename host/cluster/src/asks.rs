//! Requests of a node to others, and their answers: bytes whose meaning the servers know. An answer comes
//! in parts, in order.
use crate::{ProtocolVersion, version::VersionedContents};
use peal_frames::{CodecError, FrameLimit, named_bytes, of_named_bytes};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// First bytes of every frame of a request or an answer, before the version.
const MARK: [u8; 2] = *b"PA";
/// Maximum length of a request, in bytes.
pub const MAX_ASK: usize = 16 << 10;
/// Maximum length of a part of an answer, in bytes. NATS servers take messages of 1 MiB.
pub const MAX_ANSWER_PART: usize = 512 << 10;
/// Maximum length of an answer, in bytes.
pub const MAX_ANSWER: usize = 4 << 20;
/// Room for names in a frame.
const MAX_OVERHEAD: usize = 1 << 10;

/// Request of a node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AskFrame {
    /// Number of the request, chosen by the node that asks.
    pub request: u64,
    /// The request.
    #[serde(with = "serde_bytes")]
    pub body: Vec<u8>,
}

/// Part of an answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum AnswerFrame {
    /// Further parts follow.
    Continued {
        /// The bytes of the part.
        #[serde(with = "serde_bytes")]
        body: Vec<u8>,
    },
    /// The answer ends with this part.
    Final {
        /// The bytes of the part.
        #[serde(with = "serde_bytes")]
        body: Vec<u8>,
    },
    /// The request is refused.
    Refused {
        /// Reason.
        reason: String,
    },
}

/// Reason for which bytes are no frame of a request or an answer.
#[derive(Debug, Error)]
pub enum AskFrameError {
    /// The bytes do not begin as such a frame does.
    #[error(
        "{len} bytes are no request or answer of a Peal server: one begins with \"PA\" and a version"
    )]
    NoFrame {
        /// The number of bytes.
        len: usize,
    },
    /// The frame has another major version.
    #[error(
        "request or answer has version {theirs} of the protocol between servers; this server understands {}.x",
        ProtocolVersion::CURRENT.major
    )]
    Version {
        /// The version of the frame.
        theirs: ProtocolVersion,
    },
    /// The frame is too long, or of no kind that is known.
    #[error("request or answer of version {theirs}: {cause}")]
    Contents {
        /// The version of the frame.
        theirs: ProtocolVersion,
        /// The reason.
        cause: CodecError,
    },
}

impl AskFrame {
    /// Encodes the request.
    ///
    /// # Errors
    ///
    /// Fails if it is longer than 16 KiB.
    pub fn encode(&self) -> Result<Vec<u8>, CodecError> {
        named_bytes(
            ProtocolVersion::CURRENT.header(MARK),
            self,
            FrameLimit(MAX_ASK + MAX_OVERHEAD),
        )
    }

    /// Decodes a request.
    ///
    /// # Errors
    ///
    /// Says why the bytes are none.
    pub fn decode(bytes: &[u8]) -> Result<AskFrame, AskFrameError> {
        decode(bytes, FrameLimit(MAX_ASK + MAX_OVERHEAD))
    }
}

impl AnswerFrame {
    /// Encodes the part.
    ///
    /// # Errors
    ///
    /// Fails if it is longer than 512 KiB.
    pub fn encode(&self) -> Result<Vec<u8>, CodecError> {
        named_bytes(
            ProtocolVersion::CURRENT.header(MARK),
            self,
            FrameLimit(MAX_ANSWER_PART + MAX_OVERHEAD),
        )
    }

    /// Decodes a part.
    ///
    /// # Errors
    ///
    /// Says why the bytes are none.
    pub fn decode(bytes: &[u8]) -> Result<AnswerFrame, AskFrameError> {
        decode(bytes, FrameLimit(MAX_ANSWER_PART + MAX_OVERHEAD))
    }
}

fn decode<T: for<'de> Deserialize<'de>>(
    bytes: &[u8],
    limit: FrameLimit,
) -> Result<T, AskFrameError> {
    let VersionedContents {
        version: theirs,
        contents,
    } = ProtocolVersion::read(MARK, bytes).ok_or(AskFrameError::NoFrame { len: bytes.len() })?;
    if !ProtocolVersion::CURRENT.understands(theirs) {
        return Err(AskFrameError::Version { theirs });
    }
    of_named_bytes(contents, limit).map_err(|cause| AskFrameError::Contents { theirs, cause })
}

/// Returns the parts of an answer. One that is too long is refused, with the limit.
pub fn answer_frames(answer: Result<Vec<u8>, String>) -> Vec<AnswerFrame> {
    let answer = match answer {
        Ok(answer) if answer.len() > MAX_ANSWER => {
            let reason = format!(
                "the answer has {} bytes; {MAX_ANSWER} is the limit",
                answer.len()
            );
            return vec![AnswerFrame::Refused { reason }];
        }
        Ok(answer) => answer,
        Err(reason) => return vec![AnswerFrame::Refused { reason }],
    };
    let mut chunks: Vec<Vec<u8>> = answer.chunks(MAX_ANSWER_PART).map(Vec::from).collect();
    let last = chunks.pop().unwrap_or_default();
    chunks
        .into_iter()
        .map(|body| AnswerFrame::Continued { body })
        .chain([AnswerFrame::Final { body: last }])
        .collect()
}

/// Failure of a request to one node.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum AskFailure {
    /// The node refuses.
    #[error("it refuses: {0}")]
    Refused(String),
    /// No answer in time.
    #[error("no answer within {0:?}")]
    Silent(std::time::Duration),
    /// Nothing on the node takes requests.
    #[error("no server that takes requests runs there; servers do from protocol 1.2 on")]
    NoServer,
    /// The answer is longer than the limit.
    #[error("its answer has more than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// The answer cannot be read.
    #[error("its answer is invalid: {0}")]
    Invalid(String),
}

/// Answer of one node, of which some parts may have come.
#[derive(Clone, Debug, Default)]
pub struct AnswerParts(Vec<u8>);

impl AnswerParts {
    /// Takes the next part. Returns the answer with the last one.
    pub fn take(&mut self, bytes: &[u8]) -> Option<Result<Vec<u8>, AskFailure>> {
        let (body, is_last) = match AnswerFrame::decode(bytes) {
            Ok(AnswerFrame::Continued { body }) => (body, false),
            Ok(AnswerFrame::Final { body }) => (body, true),
            Ok(AnswerFrame::Refused { reason }) => return Some(Err(AskFailure::Refused(reason))),
            Err(error) => return Some(Err(AskFailure::Invalid(error.to_string()))),
        };
        if self.0.len() + body.len() > MAX_ANSWER {
            return Some(Err(AskFailure::TooLong { limit: MAX_ANSWER }));
        }
        self.0.extend(body);
        is_last.then(|| Ok(std::mem::take(&mut self.0)))
    }

    /// Returns the number of bytes that have come.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if no bytes have come.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Passes the parts of an answer on.
    fn arrived(answer: Result<Vec<u8>, String>) -> Result<Vec<u8>, AskFailure> {
        let mut parts = AnswerParts::default();
        let mut frames = answer_frames(answer).into_iter();
        let taken = frames.find_map(|frame| parts.take(&frame.encode().unwrap()));
        assert!(frames.next().is_none(), "parts follow the last one");
        taken.expect("no part was the last one")
    }

    #[test]
    fn answers_arrive_whole_and_refusals_with_their_reasons() {
        for len in [
            0,
            1,
            MAX_ANSWER_PART - 1,
            MAX_ANSWER_PART,
            MAX_ANSWER_PART + 1,
            MAX_ANSWER,
        ] {
            let answer: Vec<u8> = (0..len).map(|place| (place % 251) as u8).collect();
            assert_eq!(arrived(Ok(answer.clone())), Ok(answer));
        }
        let refused = AskFailure::Refused("no".to_owned());
        assert_eq!(arrived(Err("no".to_owned())), Err(refused));
        let Err(AskFailure::Refused(reason)) = arrived(Ok(vec![0; MAX_ANSWER + 1])) else {
            panic!("an answer that is too long was passed on");
        };
        assert_eq!(reason, "the answer has 4194305 bytes; 4194304 is the limit");
    }

    #[test]
    fn answers_without_end_are_cut_off() {
        let part = AnswerFrame::Continued {
            body: vec![0; MAX_ANSWER_PART],
        };
        let bytes = part.encode().unwrap();
        let mut parts = AnswerParts::default();
        let taken = std::iter::repeat_with(|| parts.take(&bytes)).take(20);
        let taken: Vec<_> = taken.flatten().collect();
        let limit = MAX_ANSWER;
        assert_eq!(taken.first(), Some(&Err(AskFailure::TooLong { limit })));
        assert_eq!(parts.len(), MAX_ANSWER);
    }

    #[test]
    fn frames_of_other_versions_and_senders_are_refused_by_name() {
        let frame = AskFrame {
            request: 7,
            body: b"what".to_vec(),
        };
        let mut bytes = frame.encode().unwrap();
        assert_eq!(AskFrame::decode(&bytes).unwrap(), frame);
        if let Some(minor) = bytes.get_mut(3) {
            *minor = 200;
        }
        assert_eq!(AskFrame::decode(&bytes).unwrap(), frame);
        if let Some(major) = bytes.get_mut(2) {
            *major = 2;
        }
        let error = AskFrame::decode(&bytes).unwrap_err().to_string();
        assert!(error.contains("version 2.200"), "{error}");
        let error = AskFrame::decode(b"{}").unwrap_err().to_string();
        assert!(error.starts_with("2 bytes are no request"), "{error}");
        let long = AskFrame {
            request: 7,
            body: vec![0; MAX_ASK + MAX_OVERHEAD],
        };
        assert!(long.encode().is_err());
    }

    proptest! {
        /// Bytes of others never panic, and never become more than the limit.
        #[test]
        fn parts_of_strangers_are_bounded(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..16)) {
            let mut parts = AnswerParts::default();
            for piece in pieces {
                let mut bytes = b"PA\x01\x02".to_vec();
                bytes.extend(&piece);
                let _ = AskFrame::decode(&bytes);
                let _ = parts.take(&bytes);
                let _ = parts.take(&piece);
            }
            prop_assert!(parts.len() <= MAX_ANSWER);
        }
    }
}

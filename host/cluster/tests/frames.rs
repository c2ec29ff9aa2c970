//! Frames of this version, of others, and bytes that are none.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
use peal_cluster::{
    FrameContents, FrameRefusal, MessagePart, MessageRange, MessageSeq, ProtocolVersion,
    ServerFrame,
};
use peal_core::group::ServerId;
use peal_frames::{CodecError, FrameLimit, named_bytes};
use proptest::prelude::*;
use serde::Serialize;
use std::sync::Arc;

const LIMIT: FrameLimit = FrameLimit(1000);

fn header(major: u8, minor: u8) -> Vec<u8> {
    vec![b'P', b'L', major, minor]
}

fn contents() -> impl Strategy<Value = FrameContents> {
    let seq = || any::<u64>().prop_map(MessageSeq);
    let part = prop_oneof![Just(MessagePart::Continued), Just(MessagePart::Final)];
    prop_oneof![
        (seq(), part, prop::collection::vec(any::<u8>(), 0..500)).prop_map(|(seq, part, body)| {
            FrameContents::Message {
                seq,
                part,
                body: Arc::from(body),
            }
        }),
        seq().prop_map(|seq| FrameContents::Last { seq }),
        seq().prop_map(|through| FrameContents::Acknowledge { through }),
        (seq(), seq()).prop_map(|(first, last)| FrameContents::Resend {
            range: MessageRange { first, last }
        }),
    ]
}

fn frame(contents: FrameContents) -> ServerFrame {
    ServerFrame {
        from: ServerId(1),
        to: ServerId(2),
        contents,
    }
}

proptest! {
    #[test]
    fn frames_are_decoded_as_encoded(from: u32, to: u32, contents in contents()) {
        let frame = ServerFrame { from: ServerId(from), to: ServerId(to), contents };
        let bytes = frame.encode(LIMIT).unwrap();
        prop_assert_eq!(ServerFrame::decode(&bytes, LIMIT).unwrap(), frame);
    }

    #[test]
    fn bytes_that_are_cut_or_changed_panic_nowhere(
        contents in contents(),
        cut in 0..600_usize,
        changed in 0..600_usize,
        byte: u8,
    ) {
        let mut bytes = frame(contents).encode(LIMIT).unwrap();
        if let Some(place) = bytes.get_mut(changed) {
            *place = byte;
        }
        bytes.truncate(cut);
        let _ = ServerFrame::decode(&bytes, LIMIT);
    }
}

/// A frame of a later minor version: with a field, and a kind, that this version does not have.
#[derive(Serialize)]
struct LaterFrame {
    from: ServerId,
    to: ServerId,
    contents: LaterContents,
    priority: u8,
}

#[derive(Serialize)]
enum LaterContents {
    Last { seq: MessageSeq, sent_at: u64 },
    Compressed { body: Vec<u8> },
}

fn later(contents: LaterContents) -> Result<ServerFrame, FrameRefusal> {
    let ProtocolVersion { major, minor } = ProtocolVersion::CURRENT;
    let frame = LaterFrame {
        from: ServerId(1),
        to: ServerId(2),
        contents,
        priority: 3,
    };
    ServerFrame::decode(
        &named_bytes(header(major, minor + 1), &frame, LIMIT).unwrap(),
        LIMIT,
    )
}

#[test]
fn additional_fields_of_a_later_minor_version_are_ignored() {
    let seq = MessageSeq(5);
    let sent_at = 12;
    let decoded = later(LaterContents::Last { seq, sent_at });
    assert_eq!(decoded.unwrap(), frame(FrameContents::Last { seq }));
}

#[test]
fn unknown_kind_of_a_later_minor_version_is_named() {
    let refusal = later(LaterContents::Compressed { body: vec![1] }).unwrap_err();
    let text = refusal.to_string();
    let later = format!("version 1.{}", ProtocolVersion::CURRENT.minor + 1);
    assert!(
        text.contains(&later) && text.contains("Compressed"),
        "{text}"
    );
}

#[test]
fn other_major_version_is_refused_by_name() {
    let seq = MessageSeq(1);
    let frame = frame(FrameContents::Last { seq });
    let mut bytes = header(2, 9);
    bytes.extend(frame.encode(LIMIT).unwrap().into_iter().skip(4));
    let text = ServerFrame::decode(&bytes, LIMIT).unwrap_err().to_string();
    assert!(
        text.contains("version 2.9") && text.contains("1.x"),
        "{text}"
    );
}

#[test]
fn bytes_that_are_no_frame_are_refused() {
    for bytes in [&b""[..], b"PL", b"GET / HTTP/1.1"] {
        let refusal = ServerFrame::decode(bytes, LIMIT).unwrap_err();
        assert!(matches!(refusal, FrameRefusal::NoFrame { len } if len == bytes.len()));
    }
}

#[test]
fn frames_beyond_the_limit_are_neither_encoded_nor_decoded() {
    let frame = frame(FrameContents::Message {
        seq: MessageSeq(1),
        part: MessagePart::Final,
        body: Arc::from(vec![0; 2000]),
    });
    let error = frame.encode(LIMIT).unwrap_err();
    assert!(matches!(error, CodecError::TooLong { max: 1000, .. }));
    let bytes = frame.encode(FrameLimit::default()).unwrap();
    let text = ServerFrame::decode(&bytes, LIMIT).unwrap_err().to_string();
    assert!(text.contains("the limit is 1000"), "{text}");
}

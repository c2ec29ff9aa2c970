//! Frames of this version, of others, and bytes that are none.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
use peal_cluster::{
    FrameContents, FrameRefusal, LinkStream, MessageRange, MessageSeq, ProtocolVersion, ServerFrame,
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

fn stream() -> impl Strategy<Value = LinkStream> {
    prop_oneof![Just(LinkStream::Pair), Just(LinkStream::All)]
}

fn contents() -> impl Strategy<Value = FrameContents> {
    let seq = || any::<u64>().prop_map(MessageSeq);
    prop_oneof![
        (stream(), seq(), prop::collection::vec(any::<u8>(), 0..500)).prop_map(
            |(stream, seq, body)| FrameContents::Message {
                stream,
                seq,
                body: Arc::from(body)
            }
        ),
        (stream(), seq()).prop_map(|(stream, seq)| FrameContents::Last { stream, seq }),
        (stream(), seq())
            .prop_map(|(stream, through)| FrameContents::Acknowledge { stream, through }),
        (stream(), seq(), seq()).prop_map(|(stream, first, last)| FrameContents::Resend {
            stream,
            range: MessageRange { first, last }
        }),
        (stream(), seq()).prop_map(|(stream, through)| FrameContents::Lost { stream, through }),
        Just(FrameContents::AskStart),
        (seq(), seq()).prop_map(|(after, last)| FrameContents::Start { after, last }),
    ]
}

proptest! {
    #[test]
    fn frames_are_decoded_as_encoded(from: u32, contents in contents()) {
        let frame = ServerFrame { from: ServerId(from), contents };
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
        let frame = ServerFrame { from: ServerId(1), contents };
        let mut bytes = frame.encode(LIMIT).unwrap();
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
    contents: LaterContents,
    priority: u8,
}

#[derive(Serialize)]
enum LaterContents {
    Last {
        stream: LinkStream,
        seq: MessageSeq,
        sent_at: u64,
    },
    Compressed {
        body: Vec<u8>,
    },
}

fn later(contents: LaterContents) -> Result<ServerFrame, FrameRefusal> {
    let ProtocolVersion { major, minor } = ProtocolVersion::CURRENT;
    let frame = LaterFrame {
        from: ServerId(7),
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
    let (stream, seq) = (LinkStream::All, MessageSeq(5));
    let sent_at = 12;
    let frame = later(LaterContents::Last {
        stream,
        seq,
        sent_at,
    });
    let contents = FrameContents::Last { stream, seq };
    let from = ServerId(7);
    assert_eq!(frame.unwrap(), ServerFrame { from, contents });
}

#[test]
fn unknown_kind_of_a_later_minor_version_is_named() {
    let refusal = later(LaterContents::Compressed { body: vec![1] }).unwrap_err();
    let text = refusal.to_string();
    assert!(
        text.contains("version 1.1") && text.contains("Compressed"),
        "{text}"
    );
}

#[test]
fn other_major_version_is_refused_by_name() {
    let frame = ServerFrame {
        from: ServerId(1),
        contents: FrameContents::AskStart,
    };
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
    let frame = ServerFrame {
        from: ServerId(1),
        contents: FrameContents::Message {
            stream: LinkStream::Pair,
            seq: MessageSeq(1),
            body: Arc::from(vec![0; 2000]),
        },
    };
    let error = frame.encode(LIMIT).unwrap_err();
    assert!(matches!(error, CodecError::TooLong { max: 1000, .. }));
    let bytes = frame.encode(FrameLimit::default()).unwrap();
    let text = ServerFrame::decode(&bytes, LIMIT).unwrap_err().to_string();
    assert!(text.contains("the limit is 1000"), "{text}");
}

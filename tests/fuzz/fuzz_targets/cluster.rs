//! Frames, requests and answers between the servers of a cluster: any bytes are refused or read, what is read is written again
//! as it was, and the links of a server take it without growing beyond their limits.
#![no_main]
use libfuzzer_sys::fuzz_target;
use peal_cluster::{
    AnswerFrame, AnswerParts, AskFrame, LinkOutput, LinkSettings, Links, MAX_ANSWER, ServerFrame,
    StreamLimits, decode_message, encode_message,
};
use peal_core::{MonotonicTime, group::ServerId};
use peal_frames::FrameLimit;

/// Length of a frame with its length before it.
const PIECE: usize = 64;

/// Maximum number of results that one frame may have: what is kept, and a few frames of the link.
const MAX_OUTPUTS: usize = 64;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = decode_message(bytes, FrameLimit::default()) {
        let again = encode_message(&message, FrameLimit::default()).unwrap();
        decode_message(&again, FrameLimit::default()).unwrap();
    }
    if let Ok(ask) = AskFrame::decode(bytes) {
        assert_eq!(AskFrame::decode(&ask.encode().unwrap()).unwrap(), ask);
    }
    if let Ok(answer) = AnswerFrame::decode(bytes) {
        let again = answer.encode().unwrap();
        assert_eq!(AnswerFrame::decode(&again).unwrap(), answer);
    }
    let mut answer = AnswerParts::default();
    for piece in bytes.chunks(PIECE) {
        let _ = answer.take(piece);
    }
    assert!(answer.len() <= MAX_ANSWER);
    let limits = StreamLimits {
        max_messages: 16,
        max_bytes: 1 << 12,
    };
    let settings = LinkSettings {
        window: limits,
        early: limits,
        ..LinkSettings::default()
    };
    let (me, peer) = (ServerId(1), ServerId(2));
    let mut links = Links::new(me, settings);
    links.join(peer);
    for (count, piece) in bytes.chunks(PIECE).enumerate() {
        let now = MonotonicTime(count as u64 * 50);
        let limit = FrameLimit(PIECE);
        if let Ok(frame) = ServerFrame::decode(piece, limit) {
            let again = frame.encode(FrameLimit::default()).unwrap();
            let decoded = ServerFrame::decode(&again, FrameLimit::default()).unwrap();
            assert_eq!(decoded, frame);
            let is_of_peer = frame.from == peer && frame.to == me;
            assert_eq!(links.receive(frame, now).is_ok(), is_of_peer);
        }
        let _ = links.send(peer, piece.into(), now);
        if piece.len() % 3 == 0 {
            links.pause(peer);
        } else {
            links.resume(peer, now);
        }
        links.elapse(now);
        let mut outputs = 0;
        while let Some(output) = links.next_output() {
            outputs += 1;
            match output {
                LinkOutput::Transmit(frame) => assert_eq!((frame.from, frame.to), (me, peer)),
                LinkOutput::Deliver { from, .. } | LinkOutput::TooLong { from, .. } => {
                    assert_eq!(from, peer);
                }
            }
        }
        assert!(outputs <= MAX_OUTPUTS, "{outputs} results of one frame");
    }
});

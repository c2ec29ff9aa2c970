//! Messages as frames: written messages are read again, in pieces of any length; incomplete, long
//! or deep ones are refused.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
use peal_model::{
    Bytes, DataArray, Event, Info, KeyName, Nspace, Proc, Range, Rank, Status, Text, Value,
};
use peal_stub::{
    CodecError, FrameLimit, HostRequest, HostUpcall, MessageDecoder, RequestNumber, ServerMessage,
    StubMessage, UpcallNumber, UpcallResult, encode,
};
use proptest::prelude::*;

fn proc() -> impl Strategy<Value = Proc> {
    ("[a-z.0-9]{1,20}", any::<u32>())
        .prop_map(|(name, rank)| Proc::new(Nspace::new(&name).unwrap(), Rank(rank)))
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Undef),
        any::<bool>().prop_map(Value::Bool),
        any::<u64>().prop_map(Value::Size),
        any::<i64>().prop_map(Value::Int64),
        any::<f64>()
            .prop_filter("equal to itself", |number| !number.is_nan())
            .prop_map(Value::Double),
        ".{0,20}".prop_map(|text| Value::string(&text)),
        Just(Value::String(None)),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| Value::ByteObject(bytes.into())),
        proc().prop_map(Value::Proc),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop::collection::vec(inner, 0..6).prop_map(|values| {
            let infos = values
                .into_iter()
                .map(|value| Info::new(KeyName("test.a"), value));
            Value::DataArray(DataArray::infos(infos))
        })
    })
}

fn infos() -> impl Strategy<Value = Vec<Info>> {
    let info = value().prop_map(|value| Info::new(KeyName("test.b"), value));
    prop::collection::vec(info, 0..6)
}

fn request() -> impl Strategy<Value = HostRequest> {
    prop_oneof![
        (proc(), any::<i32>(), infos()).prop_map(|(proc, local, infos)| {
            HostRequest::RegisterNamespace {
                nspace: proc.nspace,
                local,
                infos,
            }
        }),
        (proc(), any::<u32>(), any::<u32>())
            .prop_map(|(proc, uid, gid)| HostRequest::RegisterClient { proc, uid, gid }),
        (proc(), any::<i32>(), infos()).prop_map(|(source, code, infos)| HostRequest::Notify {
            event: Event {
                code: Status(code),
                source: Some(source),
                range: Range::Namespace,
                infos,
            },
        }),
    ]
}

fn stub_message() -> impl Strategy<Value = StubMessage> {
    let number = any::<u64>();
    prop_oneof![
        (number, request()).prop_map(|(number, request)| StubMessage::Request {
            number: RequestNumber(number),
            request,
        }),
        (any::<u64>(), infos()).prop_map(|(number, infos)| StubMessage::Answer {
            number: UpcallNumber(number),
            answer: Ok(UpcallResult::Infos(infos)),
        }),
        (any::<u64>(), any::<i32>()).prop_map(|(number, status)| StubMessage::Answer {
            number: UpcallNumber(number),
            answer: Err(Status(status)),
        }),
    ]
}

proptest! {
    #[test]
    fn messages_in_pieces_are_read_as_they_were_written(
        messages in prop::collection::vec(stub_message(), 1..5),
        piece in 1usize..50,
    ) {
        let frames: Vec<u8> = messages
            .iter()
            .flat_map(|message| encode(message, FrameLimit::default()).unwrap())
            .collect();
        let mut decoder = MessageDecoder::new(FrameLimit::default());
        let mut read: Vec<StubMessage> = Vec::new();
        for bytes in frames.chunks(piece) {
            decoder.push(bytes);
            while let Some(message) = decoder.next_message().unwrap() {
                read.push(message);
            }
        }
        prop_assert_eq!(read, messages);
        prop_assert_eq!(decoder.pending(), 0);
    }

    #[test]
    fn any_bytes_are_refused_or_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut decoder = MessageDecoder::new(FrameLimit(1000));
        decoder.push(&bytes);
        while let Ok(Some(_)) = decoder.next_message::<ServerMessage>() {}
    }
}

fn upcall(data: Vec<u8>) -> ServerMessage {
    ServerMessage::Upcall {
        number: UpcallNumber(1),
        upcall: HostUpcall::Fence {
            procs: Vec::new(),
            infos: Vec::new(),
            data: Bytes::from(data),
        },
    }
}

#[test]
fn long_message_is_neither_written_nor_read() {
    let limit = FrameLimit(100);
    let long = upcall(vec![7; 200]);
    assert!(matches!(
        encode(&long, limit),
        Err(CodecError::TooLong { max: 100, .. })
    ));
    let frame = encode(&long, FrameLimit::default()).unwrap();
    let mut decoder = MessageDecoder::new(limit);
    // The header is enough: the rest need not be taken.
    decoder.push(&frame[..4]);
    let refused = decoder.next_message::<ServerMessage>();
    assert!(matches!(refused, Err(CodecError::TooLong { max: 100, .. })));
}

/// Returns the frame of a message with a value that nests this deep. It is put together from the
/// frame of a flat one, since to build such a value takes as much stack as to read it.
fn nested(depth: usize) -> Vec<u8> {
    let level = b"\x81\xa5Value";
    let message = StubMessage::Request {
        number: RequestNumber(1),
        request: HostRequest::RegisterResources {
            infos: vec![Info::new(
                KeyName("test.a"),
                Value::Value(Box::new(Value::Bool(true))),
            )],
        },
    };
    let flat = encode(&message, FrameLimit::default()).unwrap();
    let contents = &flat[4..];
    let at = contents
        .windows(level.len())
        .position(|window| window == level)
        .unwrap();
    let (before, from) = contents.split_at(at);
    let contents = [before, &level.repeat(depth - 1), from].concat();
    let header = u32::try_from(contents.len()).unwrap().to_le_bytes();
    [&header[..], &contents].concat()
}

#[test]
fn deep_value_is_refused() {
    let read = |depth: usize| {
        let mut decoder = MessageDecoder::new(FrameLimit::default());
        decoder.push(&nested(depth));
        decoder
            .next_message::<StubMessage>()
            .map(|message| message.is_some())
    };
    assert!(matches!(read(16), Ok(true)));
    assert!(matches!(read(100_000), Err(CodecError::TooDeep)));
}

#[test]
fn bytes_behind_a_message_are_refused() {
    let mut frame = encode(&Text::from("text"), FrameLimit::default()).unwrap();
    frame.push(0);
    frame[0] += 1;
    let mut decoder = MessageDecoder::new(FrameLimit::default());
    decoder.push(&frame);
    assert!(matches!(
        decoder.next_message::<Text>(),
        Err(CodecError::Trailing(1))
    ));
}

//! Round trips: encoded messages decode to the same, however the bytes arrive.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]

mod arbitrary;

use arbitrary::*;
use peal_model::{
    DataArray, DataType, Event, Info, Key, Nspace, Proc, Range, Request, Status, Text, Value,
    data_type as dt, key,
};
use peal_wire::*;
use proptest::{collection::vec, prelude::*, sample::Index};

/// An event that carries nothing but this value.
fn carrying(value: Value) -> Event {
    let infos = vec![Info::new(Key::new("k").unwrap(), value)];
    Event {
        code: Status(0),
        source: None,
        range: Range::Undef,
        infos,
    }
}

fn codec_for(version: Version, encoding: Encoding) -> Codec {
    let dialect = Dialect::new(version, encoding);
    Codec {
        dialect,
        buffer_type: BufferType::NonDescribed,
        limits: DecodeLimits::default(),
    }
}

fn newest() -> Codec {
    codec_for(Version::new(7, 0, 0), Encoding::V61)
}

/// The stream cut at these places.
fn pieces<'a>(stream: &'a [u8], cuts: &[Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
    at.extend([0, stream.len()]);
    at.sort_unstable();
    at.windows(2)
        .map(|ends| &stream[ends[0]..ends[1]])
        .collect()
}

proptest! {
    #[test]
    fn values((codec, value) in codec().prop_flat_map(|codec| (Just(codec), value(codec.dialect)))) {
        let event = carrying(value);
        prop_assert_eq!(codec.decode_event(&codec.encode_event(&event)?)?, event);
    }

    #[test]
    fn requests((codec, request) in codec().prop_flat_map(|codec| {
        let d = codec.dialect;
        (Just(codec), command(d).prop_flat_map(move |command| request(d, command)))
    })) {
        prop_assert_eq!(codec.decode_request(&codec.encode_request(&request)?)?, request);
    }

    #[test]
    fn replies((codec, command, reply) in codec().prop_flat_map(|codec| {
        let d = codec.dialect;
        let answered = command(d).prop_filter("no reply", move |command| reply(d, *command).is_some());
        let replies = move |command| (Just(codec), Just(command), reply(d, command).unwrap());
        answered.prop_flat_map(replies)
    })) {
        prop_assert_eq!(codec.decode_reply(command, &codec.encode_reply(command, &reply)?)?, reply);
    }

    #[test]
    fn events((codec, event) in codec().prop_flat_map(|codec| (Just(codec), event(codec.dialect)))) {
        prop_assert_eq!(codec.decode_event(&codec.encode_event(&event)?)?, event);
    }

    #[test]
    fn outputs((codec, output) in codec().prop_flat_map(|codec| (Just(codec), output(codec.dialect)))) {
        prop_assert_eq!(codec.decode_output(&codec.encode_output(&output)?)?, output);
    }

    #[test]
    fn hellos(
        hello in codec().prop_flat_map(hello),
        cuts in vec(any::<Index>(), 0..4),
        behind in vec(any::<u8>(), 0..20),
    ) {
        let mut stream = hello.encode(DecodeLimits::default())?;
        stream.extend(&behind);
        let mut decoder = HelloDecoder::new(DecodeLimits::default());
        let mut read = None;
        let mut left: Vec<u8> = Vec::new();
        for mut piece in pieces(&stream, &cuts) {
            if read.is_none() {
                read = decoder.feed(&mut piece)?;
            }
            left.extend(piece);
        }
        prop_assert_eq!(read, Some(hello));
        prop_assert_eq!(left, behind);
    }

    #[test]
    fn frames(
        frames in vec((any::<i32>(), any::<u32>(), vec(any::<u8>(), 0..40)), 0..6),
        cuts in vec(any::<Index>(), 0..10),
    ) {
        let frames: Vec<Frame> =
            frames.into_iter().map(|(pindex, tag, payload)| Frame { pindex, tag: Tag(tag), payload }).collect();
        let mut stream = Vec::new();
        for frame in &frames {
            stream.extend(frame.encode()?);
        }
        let mut decoder = FrameDecoder::new(&DecodeLimits::default());
        let mut read = Vec::new();
        for mut piece in pieces(&stream, &cuts) {
            while let Some(frame) = decoder.feed(&mut piece)? {
                read.push(frame);
            }
            prop_assert!(piece.is_empty());
        }
        prop_assert_eq!(read, frames);
        prop_assert!(decoder.is_between_frames());
    }

    #[test]
    fn any_bytes(data in vec(any::<u8>(), 0..200), head in (0u8..9, 1u8..3, 0u8..4, 0u8..40)) {
        let (dialect, buffer_type, kind, command) = head;
        let mut message = vec![dialect, buffer_type, kind, command];
        message.extend(&data);
        prop_assert_eq!(fuzz::message(&message), Ok(()));
        prop_assert_eq!(fuzz::handshake(&data), Ok(()));
    }
}

#[test]
fn every_type_of_the_newest_dialect_is_tried() {
    let newest = newest();
    let older = codec_for(Version::new(6, 0, 0), Encoding::V61);
    let tried = value_types();
    for number in 0..=u16::MAX {
        let data_type = DataType(number);
        let known = newest.dialect.has_type(data_type) || older.dialect.has_type(data_type);
        assert_eq!(known, tried.contains(&data_type), "{data_type}");
    }
}

#[test]
fn a_peer_gets_no_type_and_no_command_that_it_lacks() {
    let v4 = codec_for(Version::new(5, 0, 11), Encoding::V4);
    let v41 = codec_for(Version::new(5, 0, 11), Encoding::V41);
    let medium = carrying(Value::StorageMedium(1));
    assert!(v41.encode_event(&medium).is_ok());
    let refused = WireError::TypeUnknown {
        data_type: dt::PMIX_STOR_MEDIUM,
        version: Version::new(5, 0, 11),
    };
    assert_eq!(v4.encode_event(&medium), Err(refused));

    let request = Request::ResolveNode { nspace: None };
    assert!(v41.encode_request(&request).is_ok());
    let old = codec_for(Version::new(5, 0, 6), Encoding::V41);
    let error = old.encode_request(&request).unwrap_err();
    assert_eq!(
        error.to_string(),
        "release 5.0.6 has no command ResolveNode"
    );
    assert_eq!(error.status(), peal_model::code::PMIX_ERR_NOT_SUPPORTED);
}

#[test]
fn unknown_commands_and_trailing_bytes_are_refused() {
    let codec = newest();
    assert_eq!(
        codec.decode_request(&[0x02, 99]),
        Err(WireError::UnknownCommand { number: 99 })
    );
    assert_eq!(
        codec.decode_request(&[0x02, 0x05, 0]),
        Err(WireError::Trailing {
            part: "a request",
            count: 1
        })
    );
    let not_supported = codec
        .encode_status(peal_model::code::PMIX_ERR_NOT_SUPPORTED)
        .unwrap();
    assert_eq!(not_supported, [0x02, 0x5d]);
}

#[test]
fn a_connect_may_have_more_infos_behind_its_own() {
    let codec = newest();
    let connect = |infos: Vec<Info>| Request::Connect {
        procs: vec![Proc::all(Nspace::new("job").unwrap())],
        infos,
    };
    let own = Info::new(key::PMIX_TIMEOUT, Value::Int(1));
    let more = Info::new(key::PMIX_PROC_DATA, Value::Bool(true));
    let encode = |infos: Vec<Info>| codec.encode_request(&connect(infos)).unwrap();
    // A field of one info is the same whether it was counted or not.
    let field = encode(vec![more.clone()]).split_off(encode(Vec::new()).len());
    let message = [encode(vec![own.clone()]), field].concat();
    assert_eq!(codec.decode_request(&message), Ok(connect(vec![own, more])));
}

#[test]
fn undecodable_request_names_its_command() {
    use peal_model::CommandCode::*;
    for buffer_type in [BufferType::NonDescribed, BufferType::Described] {
        let codec = Codec {
            buffer_type,
            ..newest()
        };
        let deregister = Request::DeregisterEvents {
            codes: vec![Status(-1)],
        };
        for (command, request) in [(DeregisterEvents, deregister), (JobData, Request::JobData)] {
            let garbled = [&codec.encode_request(&request).unwrap()[..], &[99]].concat();
            assert!(codec.decode_request(&garbled).is_err());
            assert_eq!(codec.command_of(&garbled), Some(command));
        }
        let mut unknown = codec.encode_request(&Request::JobData).unwrap();
        *unknown.last_mut().unwrap() = 99;
        let two_commands = [4, 0, 14];
        for garbled in [&unknown[..], &two_commands, &[2], &[]] {
            assert!(codec.decode_request(garbled).is_err());
            assert_eq!(codec.command_of(garbled), None, "{garbled:?}");
        }
    }
}

#[test]
fn an_error_is_short_however_long_the_text() {
    let mut longest = vec![0x1b; 15_000_000];
    let short = |error: WireError| {
        let shown = error.to_string();
        let debugged = format!("{error:?}");
        assert!(
            shown.len() < 600 && debugged.len() < 1000,
            "{} and {}",
            shown.len(),
            debugged.len()
        );
        assert!(
            !shown.contains('\x1b') && shown.contains("bytes"),
            "{shown}"
        );
    };
    let text = String::from_utf8(longest.clone()).unwrap();
    short(text.parse::<Release>().unwrap_err());
    short(text.parse::<Encoding>().unwrap_err());
    short(text.parse::<ServerUri>().unwrap_err());

    let codec = newest();
    let resolve = |bytes: &[u8]| {
        let payload = codec.encode_request(&Request::ResolvePeers {
            node: Some(Text::from_bytes(bytes)),
            nspace: None,
        });
        // The node and the namespace change places: whatever the node's name is, the namespace must
        // be UTF-8.
        let payload = payload.unwrap();
        let (command, rest) = payload.split_at(2);
        let (node, nspace) = rest.split_at(rest.len() - 2);
        [command, nspace, node].concat()
    };
    longest.push(0xff);
    let error = codec.decode_request(&resolve(&longest)).unwrap_err();
    assert!(
        matches!(
            error,
            WireError::NotUtf8 {
                part: "namespace",
                ..
            }
        ),
        "{error}"
    );
    short(error);

    // A number stands last: the text of another value, under the number's type.
    let mut event = codec
        .encode_event(&carrying(Value::String(Some(Text::from_bytes(&longest)))))
        .unwrap();
    let string = u8::try_from(dt::PMIX_STRING.0).unwrap();
    let at = event
        .windows(3)
        .position(|window| window[..2] == [0, string])
        .unwrap()
        + 1;
    event[at] = u8::try_from(dt::PMIX_DOUBLE.0).unwrap();
    let error = codec.decode_event(&event).unwrap_err();
    assert!(matches!(error, WireError::NotANumber { .. }), "{error}");
    short(error);
}

#[test]
fn floats_are_written_as_c_writes_them_unless_that_loses_digits() {
    let text = |value| {
        let payload = newest().encode_event(&carrying(value)).unwrap();
        String::from_utf8_lossy(&payload).into_owned()
    };
    assert!(text(Value::Double(3.25)).contains("3.250000\0"));
    assert!(text(Value::Float(0.1)).contains("0.100000\0"));
    assert!(text(Value::Double(1e-9)).contains("0.000000001\0"));
}

#[test]
fn values_nest_as_deep_as_the_limit_and_no_deeper() {
    let codec = newest();
    let nested =
        |levels| (1..levels).fold(Value::Bool(true), |value, _| Value::Value(Box::new(value)));
    let limit = codec.limits.max_depth;
    let payload = codec.encode_event(&carrying(nested(limit))).unwrap();
    assert!(codec.decode_event(&payload).is_ok());
    assert_eq!(
        codec.encode_event(&carrying(nested(limit + 1))),
        Err(WireError::TooDeep { limit })
    );
    let shallow = Codec {
        limits: DecodeLimits {
            max_depth: limit - 1,
            ..codec.limits
        },
        ..codec
    };
    assert_eq!(
        shallow.decode_event(&payload),
        Err(WireError::TooDeep { limit: limit - 1 })
    );
}

#[test]
fn small_message_cannot_allocate_much_memory() {
    let codec = newest();
    let payload = |array: DataArray| {
        codec
            .encode_event(&carrying(Value::DataArray(array)))
            .unwrap()
    };
    let flags = payload(DataArray::new(dt::PMIX_BOOL, vec![Value::Bool(true); 10_000]).unwrap());
    assert!(codec.decode_event(&flags).is_ok());
    let poor = Codec {
        limits: DecodeLimits {
            max_memory: 100_000,
            ..codec.limits
        },
        ..codec
    };
    assert_eq!(
        poor.decode_event(&flags),
        Err(WireError::TooBig { limit: 100_000 })
    );
    let few = Codec {
        limits: DecodeLimits {
            max_count: 9_999,
            ..codec.limits
        },
        ..codec
    };
    let part = "elements of an array";
    assert_eq!(
        few.decode_event(&flags),
        Err(WireError::TooLong {
            part,
            len: 10_000,
            limit: 9_999
        })
    );

    // The last two bytes are the type and number of the elements: first more than there are bytes,
    // then untyped ones.
    let head = payload(DataArray::new(dt::PMIX_BOOL, Vec::new()).unwrap());
    let head = &head[..head.len() - 2];
    let claim = |codec: Codec, element: u8, count: &[u8]| {
        codec
            .decode_event(&[head, &[element], count].concat())
            .unwrap_err()
    };
    assert_eq!(
        claim(codec, 1, &[0x80, 0x80, 0x10]),
        WireError::Truncated {
            part,
            needed: 1 << 18,
            left: 0
        }
    );
    // Newer releases write no count of untyped elements.
    let older = codec_for(Version::new(6, 0, 0), Encoding::V61);
    assert_eq!(
        claim(older, 0, &[0x40]),
        WireError::TooLong {
            part: "array of no type",
            len: 0x40,
            limit: 0
        }
    );
}

#[test]
fn lengths_above_the_limit_are_refused_with_the_header() {
    let limits = DecodeLimits {
        max_message: 1000,
        ..DecodeLimits::default()
    };
    let header = |len| {
        Header {
            pindex: 0,
            tag: Tag(101),
            len,
        }
        .encode()
    };
    let refused = WireError::TooLong {
        part: "payload",
        len: 1001,
        limit: 1000,
    };
    assert_eq!(
        FrameDecoder::new(&limits).feed(&mut &header(1001)[..]),
        Err(refused)
    );
    assert_eq!(
        FrameDecoder::new(&limits).feed(&mut &header(1000)[..]),
        Ok(None)
    );

    let mut hello = vec![0xff; 8];
    hello.extend(131_073u32.to_ne_bytes());
    hello.extend([0; 4]);
    let refused = WireError::TooLong {
        part: "handshake",
        len: 131_073,
        limit: 131_072,
    };
    assert_eq!(
        HelloDecoder::new(DecodeLimits::default()).feed(&mut &hello[..]),
        Err(refused)
    );
    assert!(
        HelloDecoder::new(DecodeLimits::default())
            .feed(&mut &b"GET / HTTP/1.1\r\n"[..])
            .is_err()
    );
}

#[test]
fn request_tags_skip_the_reserved_ones() {
    assert_eq!(Tag(0).next_request(), Tag::FIRST_REQUEST);
    assert_eq!(Tag::FIRST_REQUEST.next_request(), Tag(102));
    assert_eq!(Tag(u32::MAX - 1).next_request(), Tag::FIRST_REQUEST);
}

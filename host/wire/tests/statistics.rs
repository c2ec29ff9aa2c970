//! Statistics, in the bytes of `libpmix` 4.2.2 (what `PMIx_Data_pack` makes of them).
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use peal_model::{
    DataArray, DataType, DiskStats, Event, Info, Key, NetStats, NodeStats, Range, Status, Text,
    Value,
};
use peal_wire::*;

const DISK: &[u8] = b"\x08sda\0\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b";
const NET: &[u8] = b"\x0aeth0\0\x01\x02\x03\x04\x05\x06";
/// Up to the number of disks, which is the last byte but one.
const NODE: &[u8] = b"\x0anode\0\x121.000000\0\x122.000000\0\x123.000000\0\x124.000000\0\x125.000000\0\x126.000000\0\
    \x127.000000\0\x128.000000\0\x129.000000\0\x1410.000000\0\x1411.000000\0\x18\x1a";
/// Parts of a proc's statistics: node, name, pid, command, state, time, priority, threads, three
/// sizes, processor, time of the sample.
const PROC: &[u8] = b"\x0anode\0\x10another\0\x03\x0e\xe7\x24\x08cmd\0R\x0a\x0c\x03\x06\
    \x124.500000\0\x125.500000\0\x126.500000\0\x10\x12\x14";

fn codec(version: Version) -> Codec {
    let dialect = Dialect::new(version, Encoding::V41);
    Codec {
        dialect,
        buffer_type: BufferType::NonDescribed,
        limits: DecodeLimits::default(),
    }
}

fn carrying(value: Value) -> Event {
    let infos = vec![Info::new(Key::new("k").unwrap(), value)];
    Event {
        code: Status(0),
        source: None,
        range: Range::Undef,
        infos,
    }
}

/// An event with a value of that type in these bytes.
fn message(codec: &Codec, DataType(number): DataType, value: &[u8]) -> Vec<u8> {
    let untyped = codec.encode_event(&carrying(Value::Undef)).unwrap();
    let (_, head) = untyped.split_last().unwrap();
    [head, &[u8::try_from(number).unwrap()], value].concat()
}

fn disk() -> DiskStats {
    DiskStats {
        disk: Some(Text::from("sda")),
        counters: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
    }
}

#[test]
fn statistics_are_read_and_written_as_the_library_does() {
    let codec = codec(Version::new(4, 2, 2));
    let net = NetStats {
        interface: Some(Text::from("eth0")),
        counters: [1, 2, 3, 4, 5, 6],
    };
    let node = NodeStats {
        node: Some(Text::from("node")),
        load: [1., 2., 3.],
        memory: [4., 5., 6., 7., 8., 9., 10., 11.],
        sample_time: (12, 13),
    };
    for (value, bytes) in [
        (Value::DiskStats(Box::new(disk())), DISK),
        (Value::NetStats(Box::new(net)), NET),
        (Value::NodeStats(Box::new(node)), &[NODE, &[0, 0]].concat()),
    ] {
        let message = message(&codec, value.data_type(), bytes);
        let event = carrying(value);
        assert_eq!(codec.encode_event(&event).unwrap(), message);
        assert_eq!(codec.decode_event(&message).unwrap(), event);
    }
}

#[test]
fn arrays_of_statistics_are_bounded_like_others() {
    let disks = || vec![Value::DiskStats(Box::new(disk())); 1000];
    let event = carrying(Value::DataArray(
        DataArray::new(DataType::DISK_STATS, disks()).unwrap(),
    ));
    let codec = codec(Version::new(4, 2, 2));
    let message = codec.encode_event(&event).unwrap();
    assert_eq!(codec.decode_event(&message).unwrap(), event);
    let poor = Codec {
        limits: DecodeLimits {
            max_memory: 50_000,
            ..codec.limits
        },
        ..codec
    };
    assert_eq!(
        poor.decode_event(&message),
        Err(WireError::TooBig { limit: 50_000 })
    );
}

#[test]
fn nodes_with_disks_or_interfaces_are_refused() {
    let codec = codec(Version::new(4, 2, 2));
    let refused = |rest: &[&[u8]]| {
        codec.decode_event(&message(
            &codec,
            DataType::NODE_STATS,
            &[NODE, &rest.concat()].concat(),
        ))
    };
    assert_eq!(
        refused(&[&[1], DISK, &[0]]),
        Err(WireError::TooLong {
            part: "disks of a node",
            len: 1,
            limit: 0
        })
    );
    let part = "network interfaces of a node";
    assert_eq!(
        refused(&[&[0, 1], NET]),
        Err(WireError::TooLong {
            part,
            len: 1,
            limit: 0
        })
    );
}

#[test]
fn statistics_of_procs_are_refused() {
    let codec = codec(Version::new(4, 2, 2));
    let proc_stats = DataType(61);
    let error = codec
        .decode_event(&message(&codec, proc_stats, PROC))
        .unwrap_err();
    assert_eq!(error.status(), peal_model::code::PMIX_ERR_UNKNOWN_DATA_TYPE);
}

#[test]
fn releases_that_have_retired_statistics_get_none() {
    let event = carrying(Value::DiskStats(Box::new(disk())));
    assert!(codec(Version::new(6, 0, 0)).encode_event(&event).is_ok());
    let version = Version::new(6, 1, 0);
    let refused = WireError::TypeUnknown {
        data_type: DataType::DISK_STATS,
        version,
    };
    assert_eq!(codec(version).encode_event(&event), Err(refused));
}

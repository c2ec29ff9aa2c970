//! Arrays whose elements have no type, in bytes as OpenPMIx of each release writes them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]

use peal_model::{Commit, DataArray, Key, Kval, Request, Scope, Value, data_type as dt};
use peal_wire::*;

/// A commit of `k`, an array, and `n`, the number 3: its bytes up to the array and behind it.
const BEFORE: &[u8] = b"\x02\x02\x02\x01\x02\x01\0\x02\x04k\0\x27";
const BEHIND: &[u8] = b"\x02\x04n\0\x0d\x03";

const UNTYPED: u8 = 0;
const ARRAYS: u8 = 0x27;
const BOOLS: u8 = 1;

fn codec(version: Version) -> Codec {
    let dialect = Dialect::new(version, Encoding::V41);
    Codec {
        dialect,
        buffer_type: BufferType::NonDescribed,
        limits: DecodeLimits::default(),
    }
}

const V5: Version = Version::new(5, 0, 11);
const V6_1: Version = Version::new(6, 1, 0);
const V7: Version = Version::new(7, 0, 0);

fn untyped() -> DataArray {
    DataArray::new(dt::PMIX_UNDEF, Vec::new()).unwrap()
}

fn arrays(items: impl IntoIterator<Item = DataArray>) -> DataArray {
    DataArray::new(
        dt::PMIX_DATA_ARRAY,
        items.into_iter().map(Value::DataArray).collect(),
    )
    .unwrap()
}

fn bools() -> DataArray {
    DataArray::new(dt::PMIX_BOOL, vec![Value::Bool(true)]).unwrap()
}

fn commit(array: DataArray) -> Request {
    let array = Kval {
        key: Key::new("k").unwrap(),
        value: Value::DataArray(array),
    };
    let number = Kval {
        key: Key::new("n").unwrap(),
        value: Value::Uint16(3),
    };
    Request::Commit(vec![Commit {
        scope: Scope::Local,
        kvals: vec![array, number],
    }])
}

/// The commit whose array is in these bytes.
fn message(array: &[u8]) -> Vec<u8> {
    let mut message = [BEFORE, array, BEHIND].concat();
    // The length of the buffer stands before its content.
    let head = BEFORE.len() - 5;
    message[head - 1] = u8::try_from(message.len() - head).unwrap();
    message
}

#[test]
fn untyped_array_has_count_up_to_6_0_and_none_from_6_1() {
    for (version, bytes) in [
        (V5, &[UNTYPED, 0][..]),
        (V6_1, &[UNTYPED]),
        (V7, &[UNTYPED]),
    ] {
        let codec = codec(version);
        let message = message(bytes);
        assert_eq!(
            codec.decode_request(&message),
            Ok(commit(untyped())),
            "{version}"
        );
        assert_eq!(
            codec.encode_request(&commit(untyped())),
            Ok(message),
            "{version}"
        );
    }
}

#[test]
fn untyped_array_among_arrays_is_the_last_from_6_1() {
    let old = codec(V5);
    let new = codec(V7);
    let all = || commit(arrays([bools(), untyped(), bools()]));
    let whole = message(&[ARRAYS, 3, BOOLS, 1, 1, UNTYPED, 0, BOOLS, 1, 1]);
    assert_eq!(
        (old.decode_request(&whole), old.encode_request(&all())),
        (Ok(all()), Ok(whole))
    );
    // The library of these releases stops there, and the receiver takes the rest for untyped
    // arrays.
    let cut = message(&[ARRAYS, 3, BOOLS, 1, 1, UNTYPED]);
    assert_eq!(new.encode_request(&all()), Ok(cut.clone()));
    assert_eq!(
        new.decode_request(&cut),
        Ok(commit(arrays([bools(), untyped(), untyped()])))
    );
}

#[test]
fn arrays_left_out_are_bounded() {
    let codec = codec(V7);
    let most = 64;
    let of = |count: usize| commit(arrays(std::iter::repeat_with(untyped).take(count)));
    // The first of them is there.
    let many = codec.encode_request(&of(most + 1)).unwrap();
    assert_eq!(codec.decode_request(&many), Ok(of(most + 1)));
    let refused = |error: WireError| {
        matches!(
            error,
            WireError::TooLong {
                len: 65,
                limit: 64,
                ..
            }
        )
    };
    assert!(refused(codec.encode_request(&of(most + 2)).unwrap_err()));
    let more = message(&[ARRAYS, 66, UNTYPED]);
    assert!(refused(codec.decode_request(&more).unwrap_err()));
}

//! Values that this crate writes, copied and freed by the C library itself: its code knows best how a
//! value must lie in memory.
use super::{
    FromC, ReadBounds,
    round_trip::{KINDS, info, plain},
    write_into,
};
use crate::{
    abi::{CStatus, CValue},
    destruct::Destruct,
};
use peal_model::{DataArray, Value, data_type as dt};
use peal_needs::needs;
use proptest::{collection::vec, prelude::*, strategy::ValueTree, test_runner::TestRunner};
use std::mem;

/// Functions of the C library.
struct StockLibrary {
    xfer: unsafe extern "C" fn(*mut CValue, *const CValue) -> CStatus,
    destruct: unsafe extern "C" fn(*mut CValue),
}

#[allow(
    clippy::missing_transmute_annotations,
    reason = "the members have the types"
)]
fn stock() -> StockLibrary {
    // SAFETY: the names are strings, and pmix.h declares the functions with these types.
    unsafe {
        let handle = libc::dlopen(c"libpmix.so.2".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!handle.is_null(), "no libpmix.so.2");
        let xfer = libc::dlsym(handle, c"PMIx_Value_xfer".as_ptr());
        let destruct = libc::dlsym(handle, c"PMIx_Value_destruct".as_ptr());
        assert!(!xfer.is_null() && !destruct.is_null());
        StockLibrary {
            xfer: mem::transmute(xfer),
            destruct: mem::transmute(destruct),
        }
    }
}

/// Returns true if 4.2.2 copies values of this type before its initialization.
fn is_copied(value: &Value) -> bool {
    match value {
        // It follows the null pointer of an absent topology and refuses an absent cpuset.
        Value::Topology(_) | Value::Cpuset(None) => false,
        // It needs its initialization to copy a buffer.
        Value::DataBuffer(_) => false,
        other => {
            let data_type = other.data_type();
            let missing = [
                dt::PMIX_COMMAND,
                dt::PMIX_INFO_DIRECTIVES,
                dt::PMIX_DATA_TYPE,
                dt::PMIX_IOF_CHANNEL,
            ];
            data_type.0 < dt::PMIX_DEVICE.0 && !missing.contains(&data_type)
        }
    }
}

/// Returns true if the destructor of 4.2.2 leaks the structure behind a value of this type.
fn is_leaked(value: &Value) -> bool {
    matches!(value, Value::Nspace(_) | Value::NodeStats(_))
}

/// Writes a value, lets the C library copy it, reads the copy, and lets the C library free both. With
/// `ours` this crate frees them.
fn copied(library: &StockLibrary, value: &Value, ours: bool) -> Value {
    let (mut written, mut copy) = (CValue::zeroed(), CValue::zeroed());
    write_into(value, &mut written).unwrap();
    // SAFETY: both values are valid, and each is freed once, by the library that ours replaces.
    unsafe {
        assert_eq!((library.xfer)(&mut copy, &written), 0, "{value:?}");
        let back = Value::from_c(&copy, &mut ReadBounds::default()).unwrap();
        if ours {
            copy.destruct();
            written.destruct();
        }
        (library.destruct)(&mut copy);
        (library.destruct)(&mut written);
        back
    }
}

#[needs(libpmix)]
#[test]
fn stock_library_copies_and_frees_what_is_written() {
    let library = stock();
    let mut runner = TestRunner::deterministic();
    let mut tried = 0;
    for kind in 0..=KINDS {
        let (single, infos) = (plain(kind), vec(info(plain(kind)), 0..4));
        for _ in 0..20 {
            let value = single.new_tree(&mut runner).unwrap().current();
            if !is_copied(&value) {
                continue;
            }
            let ours = is_leaked(&value);
            assert_eq!(copied(&library, &value, ours), value);
            let infos = infos.new_tree(&mut runner).unwrap().current();
            if infos.iter().all(|info| is_copied(&info.value)) {
                let array = Value::DataArray(DataArray::infos(infos));
                assert_eq!(copied(&library, &array, ours), array);
            }
            tried += 1;
        }
    }
    assert!(tried > 900, "{tried}");
}

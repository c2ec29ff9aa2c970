//! Packed statistics of procs. The model has none, so that their members are packed one by one.
//!
//! All releases of the C library unpack `peak_vsize`, which none of them packs. What is packed here is
//! what they unpack; what they pack is not unpacked correctly by any of them, nor here. No release
//! packs `percent_cpu`.
use super::pack::with_codec;
use crate::{
    abi::{CDataArray, CProcStats},
    convert::{read_one, write_element},
    destruct::Destruct,
};
use peal_model::{DataArray, DataType, Status, Value, code, data_type as dt};
use peal_wire::Codec;
use std::{ffi::c_void, mem::offset_of};

/// Member of the structure.
struct StatsMember {
    data_type: DataType,
    /// Place in the structure, in bytes.
    offset: usize,
}

/// Returns the members in their packed order, with the types as which they are packed.
fn members() -> [StatsMember; 14] {
    macro_rules! members {
        ($($data_type:ident $member:ident),+) => {
            [$(StatsMember { data_type: dt::$data_type, offset: offset_of!(CProcStats, $member) }),+]
        };
    }
    members!(
        PMIX_STRING node,
        PMIX_PROC proc,
        PMIX_PID pid,
        PMIX_STRING cmd,
        PMIX_BYTE state,
        PMIX_TIMEVAL time,
        PMIX_INT32 priority,
        PMIX_INT16 num_threads,
        PMIX_FLOAT pss,
        PMIX_FLOAT vsize,
        PMIX_FLOAT rss,
        PMIX_FLOAT peak_vsize,
        PMIX_INT16 processor,
        PMIX_TIMEVAL sample_time
    )
}

/// Returns the bytes of statistics: their number, and the members of each.
///
/// # Safety
///
/// `first` begins an array of `count` valid structures, or is null if there are none.
pub(super) unsafe fn pack_stats(first: *const CProcStats, count: usize) -> Result<Vec<u8>, Status> {
    let number = Value::Int32(i32::try_from(count).map_err(|_| code::PMIX_ERR_BAD_PARAM)?);
    let packed = |data_type, values: &[Value]| {
        with_codec(data_type, |codec| codec.encode_members(data_type, values))
    };
    let mut bytes = packed(dt::PMIX_INT32, &[number])?;
    for at in 0..count {
        for StatsMember { data_type, offset } in members() {
            // SAFETY: the caller guarantees as many structures, and the member is at its offset.
            let member: *const c_void = unsafe { first.add(at).cast::<c_void>().byte_add(offset) };
            let array = CDataArray {
                r#type: data_type.0,
                size: 1,
                array: member.cast_mut(),
            };
            // SAFETY: the member has the type.
            let values: DataArray = unsafe { read_one(&array, "member") }?;
            bytes.extend(packed(data_type, values.items())?);
        }
    }
    Ok(bytes)
}

/// Unpacks statistics into structures of the caller. Returns their number and their length. After an
/// error the structures are zeroed.
///
/// # Safety
///
/// `first` begins memory for `max` structures.
pub(super) unsafe fn unpack_stats(
    bytes: &[u8],
    first: *mut CProcStats,
    max: usize,
) -> Result<(usize, usize), Status> {
    let mut len = 0;
    let number = next_member(bytes, &mut len, dt::PMIX_INT32)?;
    let Value::Int32(count) = number else {
        return Err(code::PMIX_ERR_UNPACK_FAILURE);
    };
    let count = usize::try_from(count).map_err(|_| code::PMIX_ERR_UNPACK_FAILURE)?;
    for at in 0..count.min(max) {
        // SAFETY: the caller guarantees memory for the structure.
        let read = unsafe {
            let target = first.add(at);
            target.write(CProcStats::zeroed());
            unpack_one(bytes, &mut len, &mut *target)
        };
        read.inspect_err(|_| {
            for read in 0..=at {
                // SAFETY: these structures were written here, and nothing else has them.
                unsafe {
                    (*first.add(read)).destruct();
                    first.add(read).write(CProcStats::zeroed());
                }
            }
        })?;
    }
    Ok((count, len))
}

/// Unpacks the members of a zeroed structure, which can be destructed whatever the result is.
fn unpack_one(bytes: &[u8], len: &mut usize, target: &mut CProcStats) -> Result<(), Status> {
    for StatsMember { data_type, offset } in members() {
        let value = next_member(bytes, len, data_type)?;
        // SAFETY: the member is zeroed, has the type and is at its offset.
        unsafe { write_element(&value, (&raw mut *target).cast::<c_void>().byte_add(offset)) }?;
    }
    Ok(())
}

/// Returns the value that follows the first `len` bytes, and adds its length.
fn next_member(bytes: &[u8], len: &mut usize, data_type: DataType) -> Result<Value, Status> {
    let rest = bytes.get(*len..).unwrap_or_default();
    let member = |codec: &Codec| codec.decode_members(data_type, 1, rest);
    let mut field = with_codec(data_type, member)?;
    *len = len.saturating_add(field.len);
    field.values.pop().ok_or(code::PMIX_ERR_UNPACK_FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        abi::CDataBuffer,
        convert::element::PROC_STATS,
        memory::{self, counter},
        values::pack::{data_pack, data_unpack},
    };
    use std::{ffi::CStr, ptr};

    /// Returns statistics whose numbers all differ.
    fn stats() -> CProcStats {
        let mut stats = CProcStats::zeroed();
        stats.node = memory::copy_string(b"node").unwrap();
        stats.cmd = memory::copy_string(b"./app").unwrap();
        stats.proc.rank = 3;
        stats.pid = 4711;
        stats.state = b'R'.cast_signed();
        (stats.time.tv_sec, stats.time.tv_usec) = (5, 6);
        (stats.priority, stats.num_threads) = (-7, 8);
        (stats.pss, stats.vsize, stats.rss) = (9.5, 10.25, 11.0);
        (stats.peak_vsize, stats.processor) = (12.75, 13);
        (stats.sample_time.tv_sec, stats.sample_time.tv_usec) = (14, 15);
        stats
    }

    #[test]
    fn statistics_are_the_same_after_unpacking() {
        let before = counter::live();
        let mut packed = [stats(), CProcStats::zeroed()];
        let mut read = [CProcStats::zeroed(); 2];
        let (mut buffer, mut count) = (CDataBuffer::zeroed(), 2);
        // SAFETY: the arrays have as many structures, which are freed once.
        unsafe {
            let (from, to) = (packed.as_ptr().cast(), read.as_mut_ptr().cast());
            let number = PROC_STATS.0;
            assert_eq!(data_pack(ptr::null(), &mut buffer, from, 2, number), 0);
            let status = data_unpack(ptr::null(), &mut buffer, to, &mut count, number);
            assert_eq!((status, count), (0, 2));
            let [first, second] = &read;
            assert_eq!(CStr::from_ptr(first.cmd), c"./app");
            assert!(second.node.is_null() && second.cmd.is_null());
            let numbers = |stats: &CProcStats| {
                let reals = [stats.pss, stats.vsize, stats.rss, stats.peak_vsize].map(f32::to_bits);
                (
                    reals,
                    stats.pid,
                    stats.priority,
                    stats.num_threads,
                    stats.processor,
                    stats.state,
                )
            };
            assert_eq!(numbers(first), numbers(&packed[0]));
            assert_eq!(first.sample_time.tv_usec, 15);
            for stats in packed.iter_mut().chain(&mut read) {
                stats.destruct();
            }
            buffer.destruct();
        }
        assert_eq!(counter::live(), before);
    }

    #[test]
    fn damaged_statistics_leave_nothing_behind() {
        let before = counter::live();
        let mut packed = stats();
        // SAFETY: there is one structure, and memory for two.
        unsafe {
            let bytes = pack_stats(&packed, 1).unwrap();
            for end in 0..bytes.len() {
                let mut read = [CProcStats::zeroed(); 2];
                let done = unpack_stats(&bytes[..end], read.as_mut_ptr(), 2);
                assert!(done.is_err() && read[0].node.is_null(), "{end}");
            }
            packed.destruct();
        }
        assert_eq!(counter::live(), before);
    }
}

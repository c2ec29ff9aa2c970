//! Packing and unpacking (`PMIx_Data_pack`, `PMIx_Data_unpack`) in the encoding that all releases of
//! the C library from 4.1 read, and copies of single elements (`PMIx_Data_copy`).
use super::{
    buffer::{append, buffer_mut, unpack_offset},
    packed_expressions::{pack_expressions, unpack_expressions},
    packed_stats::{pack_stats, unpack_stats},
    regex::regex_bytes,
};
use crate::{
    abi::{CDataArray, CDataBuffer, CProc, CStatus},
    border,
    convert::{ConvertError, ReadBounds, element, read_one, write_element},
    destruct::destruct_element,
    duplicate::{copy_text, duplicate_alone, unpacked},
    memory,
};
use peal_model::{DataArray, DataType, Status, Value, code, data_type as dt};
use peal_wire::{BufferType, Codec, DecodeLimits, Dialect, Encoding, Version, WireError};
use std::{ffi::c_void, ptr};

/// Releases whose types are packed: the last that had the statistics, and the newest.
const RELEASES: [Version; 2] = [Version::new(6, 0, 0), Version::new(7, 0, 0)];

/// Returns the codec of a release, without types in fields, as release builds of the C library are.
fn codec(version: Version) -> Codec {
    Codec {
        dialect: Dialect::new(version, Encoding::V61),
        buffer_type: BufferType::NonDescribed,
        limits: DecodeLimits::default(),
    }
}

/// Runs an operation with the codec of the first release that has the type.
pub(super) fn with_codec<T>(
    data_type: DataType,
    run: impl FnOnce(&Codec) -> Result<T, WireError>,
) -> Result<T, Status> {
    let mut codecs = RELEASES.into_iter().map(codec);
    let known = codecs.find(|codec| codec.dialect.has_type(data_type));
    match known {
        Some(codec) => run(&codec).map_err(|error| error.status()),
        None if element::layout(data_type).is_some() => Err(code::PMIX_ERR_NOT_SUPPORTED),
        None => Err(code::PMIX_ERR_UNKNOWN_DATA_TYPE),
    }
}

/// Returns the bytes of elements, as a field.
///
/// # Safety
///
/// `first` is null or begins an array of `count` elements of the data type.
unsafe fn pack(first: *const c_void, count: usize, data_type: DataType) -> Result<Vec<u8>, Status> {
    if data_type == element::REGEX {
        // SAFETY: the caller guarantees pointers to expressions.
        return unsafe { pack_expressions(first.cast(), count) };
    }
    if data_type == element::PROC_STATS {
        // SAFETY: the caller guarantees statistics.
        return unsafe { pack_stats(first.cast(), count) };
    }
    let array = CDataArray {
        r#type: data_type.0,
        size: count,
        array: first.cast_mut(),
    };
    // SAFETY: the caller guarantees as many elements.
    let values: DataArray = unsafe { read_one(&array, "elements") }?;
    with_codec(data_type, |codec| {
        codec.encode_field(data_type, values.items())
    })
}

/// `PMIx_Data_pack`: adds a field of elements to a buffer. The receiver makes no difference: every
/// release reads the encoding.
///
/// # Safety
///
/// `buffer` is null or points to a buffer; `first` is null or begins an array of `count` elements of
/// the data type, which are pointers for strings and expressions.
#[unsafe(export_name = "PMIx_Data_pack")]
pub unsafe extern "C" fn data_pack(
    _receiver: *const CProc,
    buffer: *mut CDataBuffer,
    first: *const c_void,
    count: i32,
    data_type: u16,
) -> CStatus {
    border::status("PMIx_Data_pack", || {
        let count = usize::try_from(count).map_err(|_| code::PMIX_ERR_BAD_PARAM)?;
        if first.is_null() && count > 0 {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        // SAFETY: the caller guarantees what these demand.
        unsafe {
            let buffer = buffer_mut(buffer)?;
            let bytes = pack(first, count, DataType(data_type))?;
            Ok(append(buffer, &bytes)?)
        }
    })
}

/// Writes values as elements of the caller. After an error all of them are zeroed.
///
/// # Safety
///
/// `first` begins memory for as many elements of the data type.
unsafe fn write_all(
    values: &[Value],
    first: *mut c_void,
    data_type: DataType,
) -> Result<(), ConvertError> {
    let layout = element::layout(data_type).ok_or(ConvertError::UnknownType(data_type))?;
    // SAFETY: the caller guarantees this memory, and zero is valid for all elements.
    unsafe { first.write_bytes(0, values.len() * layout.size) };
    for (at, value) in values.iter().enumerate() {
        // SAFETY: the element is zeroed, and within the memory.
        let written = unsafe { write_element(value, first.byte_add(at * layout.size)) };
        written.inspect_err(|_| {
            for written in 0..=at {
                // SAFETY: the elements so far can be destructed.
                unsafe {
                    let at = first.byte_add(written * layout.size);
                    destruct_element(data_type, at);
                    at.write_bytes(0, layout.size);
                }
            }
        })?;
    }
    Ok(())
}

/// `PMIx_Data_unpack`: reads a field of elements from a buffer. `count` is the number of elements for
/// which there is memory, and afterwards that of the elements written; of a field with more,
/// `PMIX_ERR_UNPACK_INADEQUATE_SPACE` says so. After any other error nothing is read.
///
/// # Safety
///
/// `buffer` is null or points to a buffer; `count` is null or points to a number; `first` is null or
/// begins memory for as many elements of the data type.
#[unsafe(export_name = "PMIx_Data_unpack")]
pub unsafe extern "C" fn data_unpack(
    _sender: *const CProc,
    buffer: *mut CDataBuffer,
    first: *mut c_void,
    count: *mut i32,
    data_type: u16,
) -> CStatus {
    border::status("PMIx_Data_unpack", || {
        // SAFETY: the caller guarantees a buffer and a number, or null.
        let (buffer, count) = unsafe { (buffer_mut(buffer)?, count.as_mut()) };
        let count = count.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        let max = usize::try_from(*count).map_err(|_| code::PMIX_ERR_BAD_PARAM)?;
        if first.is_null() {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        if max == 0 {
            return Err(code::PMIX_ERR_UNPACK_INADEQUATE_SPACE);
        }
        *count = 0;
        // SAFETY: the caller guarantees the buffer and the memory.
        let (found, len) = unsafe { unpack(buffer, first, max, DataType(data_type)) }?;
        let done = unpack_offset(buffer).saturating_add(len);
        buffer.unpack_ptr = buffer.base_ptr.wrapping_add(done);
        *count = i32::try_from(found.min(max)).unwrap_or(i32::MAX);
        if found > max {
            return Err(code::PMIX_ERR_UNPACK_INADEQUATE_SPACE);
        }
        Ok(())
    })
}

/// Reads a field from the rest of a buffer. Returns the number of its elements and its length.
///
/// # Safety
///
/// As [`data_unpack`].
unsafe fn unpack(
    buffer: &CDataBuffer,
    first: *mut c_void,
    max: usize,
    data_type: DataType,
) -> Result<(usize, usize), Status> {
    // SAFETY: the caller guarantees a buffer.
    let bytes = unsafe { unpacked(buffer) };
    if bytes.is_empty() {
        return Err(code::PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER);
    }
    if data_type == element::REGEX {
        // SAFETY: the caller guarantees memory for pointers.
        return unsafe { unpack_expressions(bytes, first.cast(), max) };
    }
    if data_type == element::PROC_STATS {
        // SAFETY: the caller guarantees memory for statistics.
        return unsafe { unpack_stats(bytes, first.cast(), max) };
    }
    let field = with_codec(data_type, |codec| codec.decode_field(data_type, max, bytes))?;
    // SAFETY: there are at most `max` values, for which the caller guarantees memory.
    unsafe { write_all(&field.values, first, data_type) }?;
    Ok((field.count, field.len))
}

/// `PMIx_Data_copy`: copies one element into new memory. A string is given as itself.
///
/// # Safety
///
/// `target` is null or points to a variable; `source` is null, or a string, an expression, or a
/// pointer to an element of the data type.
#[unsafe(export_name = "PMIx_Data_copy")]
pub unsafe extern "C" fn data_copy(
    target: *mut *mut c_void,
    source: *const c_void,
    data_type: u16,
) -> CStatus {
    border::status("PMIx_Data_copy", || {
        // SAFETY: the caller guarantees a variable or null.
        let target = unsafe { target.as_mut() }.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        *target = ptr::null_mut();
        if source.is_null() {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        let data_type = DataType(data_type);
        if data_type == dt::PMIX_UNDEF {
            return Err(code::PMIX_ERR_UNKNOWN_DATA_TYPE);
        }
        // SAFETY: the caller guarantees what these demand.
        *target = unsafe {
            match data_type {
                dt::PMIX_STRING => copy_text(source.cast())?.cast(),
                element::REGEX => {
                    let text = regex_bytes(source.cast()).ok_or(code::PMIX_ERR_BAD_PARAM)?;
                    memory::copy_bytes(text)?.cast()
                }
                _ => duplicate_alone(data_type, source, &mut ReadBounds::default())?,
            }
        };
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        abi::CValue,
        convert::{round_trip, write_into},
        destruct::Destruct,
        memory::counter,
    };
    use proptest::prelude::*;

    #[test]
    fn null_pointers_wrong_counts_and_ends_have_their_statuses() {
        let bad = code::PMIX_ERR_BAD_PARAM.0;
        let (mut buffer, mut number, mut count) = (CDataBuffer::zeroed(), 0i32, 1);
        let at: *mut c_void = (&raw mut number).cast();
        let (null, int) = (ptr::null(), dt::PMIX_INT.0);
        // SAFETY: null is allowed, and the number is an element.
        unsafe {
            assert_eq!(data_pack(null, ptr::null_mut(), at, 1, int), bad);
            assert_eq!(data_pack(null, &mut buffer, ptr::null(), 1, int), bad);
            assert_eq!(data_pack(null, &mut buffer, at, -1, int), bad);
            let unknown = code::PMIX_ERR_UNKNOWN_DATA_TYPE.0;
            assert_eq!(data_pack(null, &mut buffer, at, 1, 499), unknown);
            assert_eq!(data_unpack(null, ptr::null_mut(), at, &mut count, int), bad);
            assert_eq!(
                data_unpack(null, &mut buffer, at, ptr::null_mut(), int),
                bad
            );
            assert_eq!(
                data_unpack(null, &mut buffer, ptr::null_mut(), &mut count, int),
                bad
            );
            let end = code::PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER.0;
            assert_eq!(data_unpack(null, &mut buffer, at, &mut count, int), end);
            assert_eq!(count, 0);
            let space = code::PMIX_ERR_UNPACK_INADEQUATE_SPACE.0;
            assert_eq!(data_unpack(null, &mut buffer, at, &mut count, int), space);
            let mut copy = ptr::null_mut();
            assert_eq!(data_copy(ptr::null_mut(), at, int), bad);
            assert_eq!(data_copy(&mut copy, ptr::null(), int), bad);
            assert_eq!(data_copy(&mut copy, at, 0), unknown);
        }
    }

    #[test]
    fn too_little_space_gets_what_fits() {
        let (mut buffer, mut read, mut count) = (CDataBuffer::zeroed(), [0i32; 2], 2);
        let numbers = [1, 2, 3];
        let int = dt::PMIX_INT.0;
        // SAFETY: the arrays have as many numbers.
        unsafe {
            let from = numbers.as_ptr().cast();
            assert_eq!(data_pack(ptr::null(), &mut buffer, from, 3, int), 0);
            let to = read.as_mut_ptr().cast();
            let status = data_unpack(ptr::null(), &mut buffer, to, &mut count, int);
            assert_eq!(status, code::PMIX_ERR_UNPACK_INADEQUATE_SPACE.0);
            buffer.destruct();
        }
        assert_eq!((read, count), ([1, 2], 2));
    }

    proptest! {
        #[test]
        fn packed_values_are_the_same_after_unpacking(models in proptest::collection::vec(round_trip::value(), 0..4)) {
            let before = counter::live();
            let packable = |model: &Value| with_codec(dt::PMIX_VALUE, |codec| {
                codec.encode_field(dt::PMIX_VALUE, &[Value::Value(Box::new(model.clone()))])
            }).is_ok();
            let models: Vec<Value> = models.into_iter().filter(packable).collect();
            let mut buffer = CDataBuffer::zeroed();
            for model in &models {
                let mut value = CValue::zeroed();
                write_into(model, &mut value).unwrap();
                // SAFETY: the value was written here.
                unsafe {
                    let at = (&raw const value).cast();
                    prop_assert_eq!(data_pack(ptr::null(), &mut buffer, at, 1, dt::PMIX_VALUE.0), 0);
                    value.destruct();
                }
            }
            for model in &models {
                let (mut value, mut count) = (CValue::zeroed(), 1);
                // SAFETY: there is memory for a value, which is freed once.
                unsafe {
                    let at = (&raw mut value).cast();
                    prop_assert_eq!(data_unpack(ptr::null(), &mut buffer, at, &mut count, dt::PMIX_VALUE.0), 0);
                    let read: Value = read_one(&value, "value").unwrap();
                    prop_assert_eq!(&read, model);
                    value.destruct();
                }
            }
            // SAFETY: the buffer was made here.
            unsafe { buffer.destruct() };
            prop_assert_eq!(counter::live(), before);
        }
    }
}

//! Loading, unloading and copying of values (`PMIx_Value_*`).
use super::regex::regex_bytes;
use crate::{
    abi::{CNspace, CProc, CStatus, CValue},
    border,
    convert::{
        ConvertError, ReadBounds,
        element::{self, Storage},
    },
    destruct::Destruct,
    duplicate::{copy_text, duplicate_alone, duplicate_element, duplicate_into, duplicate_target},
    memory,
};
use peal_model::{DataType, Status, code, data_type as dt};
use std::{
    ffi::{CStr, c_int, c_void},
    slice,
};

/// `PMIX_BOOL_TRUE`, `PMIX_BOOL_FALSE` and `PMIX_NON_BOOL`.
const TRUE: c_int = 0;
const FALSE: c_int = 1;
const NOT_BOOLEAN: c_int = 2;

/// Makes a value of data. Null data are zero, or true for a boolean: that an attribute is given means
/// that it is true.
///
/// # Errors
///
/// Fails if no value holds the type, or the heap has no memory left.
///
/// # Safety
///
/// `data` is null; or a string or expression for these types; or any pointer for `PMIX_POINTER`; or
/// points to an element of the data type.
pub(super) unsafe fn load(
    data: *const c_void,
    data_type: DataType,
) -> Result<CValue, ConvertError> {
    let layout = element::layout(data_type).ok_or(ConvertError::UnknownType(data_type))?;
    if layout.storage == Storage::ArrayOnly {
        return Err(ConvertError::UnsupportedType {
            data_type,
            place: "in a value",
        });
    }
    let mut value = CValue::zeroed();
    if data.is_null() {
        value.r#type = data_type.0;
        if data_type == dt::PMIX_BOOL {
            value.data.flag = 1;
        }
        return Ok(value);
    }
    let bounds = &mut ReadBounds::default();
    // SAFETY: the caller guarantees data of the type. After an error the value can be destructed.
    unsafe {
        match data_type {
            dt::PMIX_STRING => value.data.string = copy_text(data.cast())?,
            dt::PMIX_POINTER => value.data.ptr = data.cast_mut(),
            element::REGEX => {
                let text = regex_bytes(data.cast()).ok_or(ConvertError::UnsupportedType {
                    data_type,
                    place: "in this form",
                })?;
                value.data.bo.bytes = memory::copy_bytes(text)?;
                value.data.bo.size = text.len();
            }
            _ if layout.storage == Storage::Pointer => {
                value.data.ptr = duplicate_target(data_type, data.cast_mut(), bounds)?;
            }
            _ => {
                value.r#type = data_type.0;
                let target = (&raw mut value.data).cast();
                duplicate_element(data_type, data, target, bounds)
                    .inspect_err(|_| value.destruct())?;
            }
        }
    }
    value.r#type = data_type.0;
    Ok(value)
}

/// `PMIx_Value_load`: copies data into a value, whose old contents are not freed.
///
/// # Safety
///
/// `value` is null or points to memory for a value; `data` is null or of the data type: a string for
/// `PMIX_STRING`, the pointer itself for `PMIX_POINTER`, otherwise a pointer to the data.
#[unsafe(export_name = "PMIx_Value_load")]
pub unsafe extern "C" fn value_load(
    value: *mut CValue,
    data: *const c_void,
    data_type: u16,
) -> CStatus {
    border::status("PMIx_Value_load", || {
        if value.is_null() {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        // SAFETY: the caller guarantees memory for a value.
        unsafe { value.write(CValue::zeroed()) };
        // SAFETY: the caller guarantees what `load` demands.
        unsafe { value.write(load(data, DataType(data_type))?) };
        Ok(())
    })
}

/// `PMIx_Value_xfer`: copies a value into another one, whose old contents are not freed.
///
/// # Safety
///
/// `target` is null or points to memory for a value, `source` is null or points to a value.
#[unsafe(export_name = "PMIx_Value_xfer")]
pub unsafe extern "C" fn value_xfer(target: *mut CValue, source: *const CValue) -> CStatus {
    border::status("PMIx_Value_xfer", || {
        // SAFETY: the caller guarantees a value or null.
        let source = *unsafe { source.as_ref() }.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        if target.is_null() {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        let mut copy = CValue::zeroed();
        // SAFETY: the caller guarantees that the value is valid, and memory for the copy.
        unsafe {
            let copied = duplicate_into(&source, &mut copy);
            target.write(copy);
            Ok(copied?)
        }
    })
}

/// `PMIx_Value_unload`: copies the data of a value.
///
/// - Numbers and procs are written to the memory at `*data`. A null pointer there is an error, or
///   gets new memory for a proc or namespace.
/// - A string, the bytes of a byte object, and every other structure are copied to new memory, to
///   which `*data` points afterwards.
///
/// # Safety
///
/// Each pointer is null or points to a variable of its type; `*data` is null or points to memory for
/// the data.
#[unsafe(export_name = "PMIx_Value_unload")]
pub unsafe extern "C" fn value_unload(
    value: *const CValue,
    data: *mut *mut c_void,
    size: *mut usize,
) -> CStatus {
    border::status("PMIx_Value_unload", || {
        // SAFETY: the caller guarantees variables or null.
        let arguments = unsafe { (value.as_ref(), data.as_mut(), size.as_mut()) };
        let (Some(value), Some(data), Some(size)) = arguments else {
            return Err(code::PMIX_ERR_BAD_PARAM);
        };
        // SAFETY: the caller guarantees memory at `*data`.
        unsafe { unload(value, data, size) }
    })
}

/// Copies the data of a value, as [`value_unload`].
///
/// # Safety
///
/// As [`value_unload`].
unsafe fn unload(value: &CValue, data: &mut *mut c_void, size: &mut usize) -> Result<(), Status> {
    let data_type = DataType(value.r#type);
    if data_type == dt::PMIX_UNDEF {
        return Err(code::PMIX_ERR_UNKNOWN_DATA_TYPE);
    }
    let layout = element::layout(data_type).ok_or(code::PMIX_ERR_UNKNOWN_DATA_TYPE)?;
    let bounds = &mut ReadBounds::default();
    let inline: *const c_void = (&raw const value.data).cast();
    // SAFETY: the type says which member of the union is valid; the caller guarantees memory.
    unsafe {
        match data_type {
            dt::PMIX_STRING => {
                let text = value.data.string;
                *data = copy_text(text)?.cast();
                *size = if text.is_null() {
                    0
                } else {
                    libc::strlen(text)
                };
            }
            dt::PMIX_BYTE_OBJECT
            | DataType::COMPRESSED_STRING
            | dt::PMIX_COMPRESSED_BYTE_OBJECT
            | element::REGEX => {
                let object = value.data.bo;
                let bytes: &[u8] = if object.bytes.is_null() {
                    &[]
                } else {
                    slice::from_raw_parts(object.bytes.cast(), object.size)
                };
                *data = memory::copy_bytes(bytes)?.cast();
                *size = bytes.len();
            }
            dt::PMIX_POINTER => {
                *data = value.data.ptr;
                *size = size_of::<*mut c_void>();
            }
            dt::PMIX_ENVAR => {
                *data = duplicate_alone(data_type, inline, bounds)?;
                *size = layout.size;
            }
            _ if layout.storage == Storage::Pointer => {
                let from = value.data.ptr;
                if from.is_null() {
                    return Err(code::PMIX_ERR_BAD_PARAM);
                }
                *size = layout.size;
                match data_type {
                    dt::PMIX_PROC if !data.is_null() => {
                        data.cast::<CProc>().write(*from.cast::<CProc>());
                    }
                    dt::PMIX_PROC_NSPACE => {
                        let nspace = *from.cast::<CNspace>();
                        *size = libc::strnlen(nspace.as_ptr(), nspace.len());
                        if data.is_null() {
                            *data = memory::copy_bytes(bytes_of(&nspace))?.cast();
                        } else {
                            data.cast::<CNspace>().write(nspace);
                        }
                    }
                    _ => *data = duplicate_target(data_type, from, bounds)?,
                }
            }
            _ if data.is_null() => return Err(code::PMIX_ERR_BAD_PARAM),
            _ => {
                data.cast::<u8>()
                    .copy_from_nonoverlapping(inline.cast(), layout.size);
                *size = layout.size;
            }
        }
    }
    Ok(())
}

/// Returns the characters of a namespace as bytes.
fn bytes_of(nspace: &CNspace) -> &[u8] {
    // SAFETY: signed and unsigned characters have the same layout.
    unsafe { slice::from_raw_parts(nspace.as_ptr().cast(), nspace.len()) }
}

/// `PMIx_Value_true`: returns 0 for true, 1 for false and 2 for what is neither. A value without type
/// and an empty string are true; strings may be numbers or words such as `yes` and `disable`.
///
/// # Safety
///
/// `value` is null or points to a value.
#[unsafe(export_name = "PMIx_Value_true")]
pub unsafe extern "C" fn value_true(value: *const CValue) -> c_int {
    border::value("PMIx_Value_true", NOT_BOOLEAN, || {
        // SAFETY: the caller guarantees a valid value or null.
        unsafe { value.as_ref().map_or(NOT_BOOLEAN, |value| truth(value)) }
    })
}

/// Returns the truth of a value, as [`value_true`].
///
/// # Safety
///
/// The value is valid.
pub(super) unsafe fn truth(value: &CValue) -> c_int {
    let as_number = |truth: bool| if truth { TRUE } else { FALSE };
    match DataType(value.r#type) {
        dt::PMIX_UNDEF => TRUE,
        // SAFETY: the type says which member of the union is valid.
        dt::PMIX_BOOL => as_number(unsafe { value.data.flag } != 0),
        dt::PMIX_STRING => {
            // SAFETY: as above.
            let text = unsafe { value.data.string };
            if text.is_null() {
                return TRUE;
            }
            // SAFETY: the caller guarantees a string.
            word_truth(unsafe { CStr::from_ptr(text) }.to_bytes()).map_or(NOT_BOOLEAN, as_number)
        }
        _ => NOT_BOOLEAN,
    }
}

/// Returns the truth of a word or number; `None` if it has none.
fn word_truth(text: &[u8]) -> Option<bool> {
    /// Words, and whether more may follow them.
    const WORDS: [(&[u8], bool, bool); 10] = [
        (b"yes", true, true),
        (b"true", true, true),
        (b"enable", true, true),
        (b"y", false, true),
        (b"t", false, true),
        (b"no", true, false),
        (b"false", true, false),
        (b"disable", true, false),
        (b"n", false, false),
        (b"f", false, false),
    ];
    let text = text.trim_ascii_start();
    if text.is_empty() {
        return Some(true);
    }
    if text.first().is_some_and(u8::is_ascii_digit) {
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
        return Some(digits.into_iter().any(|digit| *digit != b'0'));
    }
    let word = WORDS.iter().find(|(word, open, _)| {
        let begin = if *open {
            text.get(..word.len())
        } else {
            Some(text)
        };
        begin.is_some_and(|begin| begin.eq_ignore_ascii_case(word))
    });
    word.map(|entry| entry.2)
}

/// Makes a value for tests of other modules.
#[cfg(test)]
pub(super) fn number_value(data_type: DataType, data: crate::abi::CValueData) -> CValue {
    CValue {
        r#type: data_type.0,
        data,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{convert::round_trip, convert::write_into, memory::counter};
    use proptest::prelude::*;
    use std::ptr;

    #[test]
    fn null_and_unknown_types_are_refused() {
        let bad = code::PMIX_ERR_BAD_PARAM.0;
        let mut value = CValue::zeroed();
        let (mut data, mut size) = (ptr::null_mut(), 0);
        // SAFETY: null is allowed.
        unsafe {
            assert_eq!(value_load(ptr::null_mut(), ptr::null(), 1), bad);
            assert_eq!(value_xfer(ptr::null_mut(), &value), bad);
            assert_eq!(value_xfer(&mut value, ptr::null()), bad);
            assert_eq!(value_unload(ptr::null(), &mut data, &mut size), bad);
            let unknown = code::PMIX_ERR_UNKNOWN_DATA_TYPE.0;
            assert_eq!(value_unload(&value, &mut data, &mut size), unknown);
            assert_eq!(value_load(&mut value, ptr::null(), 499), unknown);
            assert_eq!(value_load(&mut value, ptr::null(), dt::PMIX_BOOL.0), 0);
            assert_eq!((value.data.flag, value_true(&value)), (1, TRUE));
            assert_eq!(value_unload(&value, &mut data, &mut size), bad);
            assert_eq!(value_unload(&value, &mut data, ptr::null_mut()), bad);
            assert_eq!(value_true(ptr::null()), NOT_BOOLEAN);
        }
    }

    #[test]
    fn words_and_numbers_are_true_or_false() {
        for (text, truth) in [
            (&b""[..], Some(true)),
            (b"  Yes, please", Some(true)),
            (b"00", Some(false)),
            (b"010", Some(true)),
            (b"Disabled", Some(false)),
            (b"f", Some(false)),
            (b"fo", None),
            (b"maybe", None),
        ] {
            assert_eq!(word_truth(text), truth, "{}", String::from_utf8_lossy(text));
        }
    }

    /// Returns the data pointer that `PMIx_Value_load` expects for a value.
    unsafe fn data_of(value: &CValue) -> *const c_void {
        let data_type = DataType(value.r#type);
        // SAFETY: the caller has a valid value.
        unsafe {
            match element::layout(data_type).map(|layout| layout.storage) {
                _ if matches!(data_type, dt::PMIX_STRING) => value.data.string.cast(),
                Some(Storage::Pointer) => value.data.ptr,
                _ => (&raw const value.data).cast(),
            }
        }
    }

    proptest! {
        #[test]
        fn loaded_values_and_copies_equal_the_original(model in round_trip::value()) {
            let before = counter::live();
            let mut original = CValue::zeroed();
            write_into(&model, &mut original).unwrap();
            // SAFETY: the value was written here, and each copy is freed once.
            unsafe {
                let mut copy = CValue::zeroed();
                prop_assert_eq!(value_xfer(&mut copy, &original), 0);
                prop_assert_eq!(&crate::convert::read_one::<peal_model::Value>(&copy, "copy").unwrap(), &model);
                copy.destruct();
                let data = data_of(&original);
                if !data.is_null() && original.r#type != dt::PMIX_POINTER.0 {
                    prop_assert_eq!(value_load(&mut copy, data, original.r#type), 0);
                    prop_assert_eq!(&crate::convert::read_one::<peal_model::Value>(&copy, "copy").unwrap(), &model);
                    copy.destruct();
                }
                original.destruct();
            }
            prop_assert_eq!(counter::live(), before);
        }
    }
}

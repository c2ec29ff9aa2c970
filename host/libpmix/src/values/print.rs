//! Values and structures as text (`PMIx_Data_print`, `PMIx_*_string`). The texts are for people; they
//! are those of the C library.
use super::{
    element_texts::{app, element, info},
    strings::device_type_string,
};
use crate::{
    abi::{CApp, CInfo, CResourceUnit, CStatus, CValue},
    border,
    convert::element::REGEX,
    memory,
};
use peal_model::{DataType, code, data_type as dt};
use std::{
    ffi::{CStr, c_char, c_void},
    ptr,
};

/// Prefix of a line without another one.
const NO_PREFIX: &[u8] = b" ";

/// Gives a text to the caller; null for none.
fn give(text: Option<Vec<u8>>) -> *mut c_char {
    let copy = text.map(|text| memory::copy_string(&text));
    copy.and_then(Result::ok).unwrap_or(ptr::null_mut())
}

/// `PMIx_Value_string`: returns a text that the caller frees; null if the value has none.
///
/// # Safety
///
/// `at` is null or points to a value.
#[unsafe(export_name = "PMIx_Value_string")]
pub unsafe extern "C" fn value_string(at: *const CValue) -> *mut c_char {
    border::value("PMIx_Value_string", ptr::null_mut(), || {
        // SAFETY: the caller guarantees a valid value or null.
        let text = unsafe { element(dt::PMIX_VALUE, at.cast(), NO_PREFIX, 0) };
        give(text.ok())
    })
}

/// `PMIx_Info_string`: returns a text that the caller frees; null if the value has none.
///
/// # Safety
///
/// `at` is null or points to an info.
#[unsafe(export_name = "PMIx_Info_string")]
pub unsafe extern "C" fn info_string(at: *const CInfo) -> *mut c_char {
    border::value("PMIx_Info_string", ptr::null_mut(), || {
        // SAFETY: the caller guarantees a valid info or null.
        let text = unsafe { at.as_ref().map(|at| info(at, NO_PREFIX, 0)) };
        give(text.and_then(Result::ok))
    })
}

/// `PMIx_App_string`: returns a text that the caller frees; null for null.
///
/// # Safety
///
/// `at` is null or points to an application.
#[unsafe(export_name = "PMIx_App_string")]
pub unsafe extern "C" fn app_string(at: *const CApp) -> *mut c_char {
    border::value("PMIx_App_string", ptr::null_mut(), || {
        // SAFETY: the caller guarantees a valid application or null.
        let text = unsafe { at.as_ref().map(|at| app(at, 0)) };
        give(text.and_then(Result::ok))
    })
}

/// `PMIx_Resource_unit_string`: returns a text that the caller frees; null for null.
///
/// # Safety
///
/// `at` is null or points to a resource unit.
#[unsafe(export_name = "PMIx_Resource_unit_string")]
pub unsafe extern "C" fn resource_unit_string(at: *const CResourceUnit) -> *mut c_char {
    border::value("PMIx_Resource_unit_string", ptr::null_mut(), || {
        // SAFETY: the caller guarantees a resource unit or null.
        let text = unsafe { at.as_ref() }.map(|unit| {
            // SAFETY: the function returns a string that is never freed.
            let kind = unsafe { CStr::from_ptr(device_type_string(unit.r#type)) };
            let count = format!("  COUNT: {}", unit.count);
            [b"TYPE: ", kind.to_bytes(), count.as_bytes()].concat()
        });
        give(text)
    })
}

/// `PMIx_Data_print`: writes the text of one element, which the caller frees. A string is given as
/// itself; null is printed as such.
///
/// # Safety
///
/// `output` is null or points to a variable; `prefix` is null or a string; `source` is null, a string,
/// an expression, or a pointer to an element of the data type.
#[unsafe(export_name = "PMIx_Data_print")]
pub unsafe extern "C" fn data_print(
    output: *mut *mut c_char,
    prefix: *const c_char,
    source: *const c_void,
    data_type: u16,
) -> CStatus {
    border::status("PMIx_Data_print", || {
        // SAFETY: the caller guarantees a variable or null.
        let output = unsafe { output.as_mut() }.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        *output = ptr::null_mut();
        let data_type = DataType(data_type);
        // SAFETY: the caller guarantees a string or null, and an element or what stands for it.
        let text = unsafe {
            let prefix = if prefix.is_null() {
                NO_PREFIX
            } else {
                CStr::from_ptr(prefix).to_bytes()
            };
            let itself = [dt::PMIX_STRING, dt::PMIX_POINTER, REGEX].contains(&data_type);
            if itself && !source.is_null() {
                element(data_type, (&raw const source).cast(), prefix, 0)
            } else {
                element(data_type, source, prefix, 0)
            }
        }?;
        *output = memory::copy_string(&text)?;
        Ok(())
    })
}

/// Returns the text of a value for tests of other modules.
#[cfg(test)]
pub(super) fn text_of(at: &CValue) -> String {
    // SAFETY: the tests have valid values.
    let text = unsafe { super::element_texts::value(at, NO_PREFIX, 0) };
    String::from_utf8_lossy(&text.unwrap()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{convert::write_into, destruct::Destruct};
    use peal_model::{DataArray, Nspace, Proc, Rank, Value};

    fn printed(model: &Value) -> String {
        let mut at = CValue::zeroed();
        write_into(model, &mut at).unwrap();
        let text = text_of(&at);
        // SAFETY: the value was written here.
        unsafe { at.destruct() };
        text
    }

    #[test]
    fn values_are_printed_as_by_the_c_library() {
        let proc = Proc::new(Nspace::new("job").unwrap(), Rank(3));
        for (model, expected) in [
            (
                Value::Int(-5),
                " PMIX_VALUE:  Data type: PMIX_INT\tValue: -5",
            ),
            (
                Value::Bool(true),
                " PMIX_VALUE:  Data type: PMIX_BOOL\tValue: TRUE",
            ),
            (Value::Undef, " PMIX_VALUE:  Data type: PMIX_UNDEF"),
            (Value::Proc(proc), " PMIX_VALUE:  PROC: job:3"),
            (
                Value::DataArray(DataArray::strings(["a".into(), "b".into()])),
                " PMIX_VALUE:  Data type: PMIX_DATA_ARRAY\tType: PMIX_STRING\tSize: 2\n  Data type: \
                 PMIX_STRING\tValue: a\n  Data type: PMIX_STRING\tValue: b",
            ),
        ] {
            assert_eq!(printed(&model), expected);
        }
    }

    #[test]
    fn null_pointers_are_printed_or_refused() {
        let mut output = ptr::null_mut();
        // SAFETY: null is allowed.
        unsafe {
            let bad = code::PMIX_ERR_BAD_PARAM.0;
            assert_eq!(
                data_print(ptr::null_mut(), ptr::null(), ptr::null(), 1),
                bad
            );
            for data_type in 1..80 {
                let status = data_print(&mut output, c"p".as_ptr(), ptr::null(), data_type);
                let known = super::super::strings::data_type_name(DataType(data_type));
                assert_eq!(status == 0, known.is_some(), "{data_type}");
                memory::free(output);
            }
            assert_eq!(
                data_print(&mut output, c"p".as_ptr(), ptr::null(), dt::PMIX_INT.0),
                0
            );
            let text = CStr::from_ptr(output);
            assert_eq!(text, c"pData type: PMIX_INT\tValue: NULL pointer");
            memory::free(output);
            let text = value_string(ptr::null());
            assert_eq!(
                CStr::from_ptr(text),
                c" Data type: PMIX_VALUE\tValue: NULL pointer"
            );
            memory::free(text);
            assert!(info_string(ptr::null()).is_null());
            assert!(app_string(ptr::null()).is_null());
            assert!(resource_unit_string(ptr::null()).is_null());
        }
    }
}

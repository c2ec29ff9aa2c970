//! Names of attributes and their key strings.
use super::interned::c_name;
use crate::border;
use peal_model::names::ATTRIBUTES;
use std::ffi::{CStr, c_char};

/// Returns what a search for a string finds, or the string itself.
///
/// # Safety
///
/// `text` is null or points to a string that ends with a NUL.
unsafe fn find(
    function: &'static str,
    text: *const c_char,
    find: impl FnOnce(&[u8]) -> Option<&'static str>,
) -> *const c_char {
    border::value(function, text, || {
        if text.is_null() {
            return text;
        }
        // SAFETY: the caller guarantees a string.
        let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
        find(bytes).map_or(text, c_name)
    })
}

/// Returns the name of an attribute by its key string, in any case of the letters.
pub(super) fn name_of(key: &[u8]) -> Option<&'static str> {
    let found = ATTRIBUTES
        .iter()
        .find(|attribute| attribute.key.as_bytes().eq_ignore_ascii_case(key));
    found.map(|attribute| attribute.name)
}

/// `PMIx_Get_attribute_string`: returns the key string of an attribute's name, which is never freed,
/// or the name itself if it is unknown.
///
/// # Safety
///
/// `name` is null or points to a string that ends with a NUL.
#[unsafe(export_name = "PMIx_Get_attribute_string")]
pub unsafe extern "C" fn get_attribute_string(name: *const c_char) -> *const c_char {
    // SAFETY: the caller guarantees a string or null.
    unsafe {
        find("PMIx_Get_attribute_string", name, |name| {
            let mut all = ATTRIBUTES.iter();
            let found = all.find(|attribute| attribute.name.as_bytes().eq_ignore_ascii_case(name));
            found.map(|attribute| attribute.key)
        })
    }
}

/// `PMIx_Get_attribute_name`: returns the name of a key string, which is never freed, or the key
/// string itself if it is unknown.
///
/// # Safety
///
/// `key` is null or points to a string that ends with a NUL.
#[unsafe(export_name = "PMIx_Get_attribute_name")]
pub unsafe extern "C" fn get_attribute_name(key: *const c_char) -> *const c_char {
    // SAFETY: the caller guarantees a string or null.
    unsafe { find("PMIx_Get_attribute_name", key, name_of) }
}

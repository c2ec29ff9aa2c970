//! Strings, lists of strings, keys and namespaces.
use super::{ConvertError, ReadBounds};
use crate::{
    abi::{CKey, CNspace, KEY_SIZE, NSPACE_SIZE},
    memory,
};
use peal_model::{Key, Nspace, Text};
use std::{ffi::c_char, ptr, slice};

/// Reads a string; `None` for a null pointer, as in the C library.
///
/// # Errors
///
/// Fails if the string is longer than the longest in a message.
///
/// # Safety
///
/// `text` is null or points to a string that ends with a NUL.
pub(crate) unsafe fn text(
    text: *const c_char,
    bounds: &mut ReadBounds,
) -> Result<Option<Text>, ConvertError> {
    if text.is_null() {
        return Ok(None);
    }
    let limit = bounds.max_string();
    // SAFETY: the caller guarantees that a NUL ends the string, at which `strnlen` stops.
    let len = unsafe { libc::strnlen(text, limit) };
    if len == limit {
        return Err(ConvertError::TooLarge {
            what: "length of a string with its NUL",
            found: len.saturating_add(1),
            limit,
        });
    }
    bounds.bytes(len)?;
    // SAFETY: `strnlen` found no NUL in these bytes.
    let bytes = unsafe { slice::from_raw_parts(text.cast::<u8>(), len) };
    Ok(Some(Text::from_bytes(bytes)))
}

/// Reads a list of strings that ends with a null pointer; empty for null.
///
/// # Errors
///
/// Fails if the list or a string is too long.
///
/// # Safety
///
/// `argv` is null, or a list of strings that ends with a null pointer.
pub(crate) unsafe fn argv(
    argv: *const *mut c_char,
    bounds: &mut ReadBounds,
) -> Result<Vec<Option<Text>>, ConvertError> {
    let mut texts = Vec::new();
    if argv.is_null() {
        return Ok(texts);
    }
    for at in 0.. {
        // SAFETY: the caller guarantees a null pointer at the end, and this loop stops there.
        let string = unsafe { *argv.add(at) };
        if string.is_null() {
            break;
        }
        bounds.count(1)?;
        // SAFETY: the caller guarantees strings before the null pointer.
        texts.push(unsafe { text(string, bounds) }?);
    }
    Ok(texts)
}

/// Returns the text in an array of characters, up to the first NUL. An array without NUL is cut by
/// one character, as by `PMIX_LOAD_KEY` and `PMIX_LOAD_NSPACE`.
fn array_text<'a>(array: &'a [c_char], what: &'static str) -> Result<&'a str, ConvertError> {
    // SAFETY: signed and unsigned characters have the same layout.
    let bytes = unsafe { slice::from_raw_parts(array.as_ptr().cast::<u8>(), array.len()) };
    let end = bytes.iter().position(|byte| *byte == 0);
    let end = end.unwrap_or(bytes.len().saturating_sub(1));
    str::from_utf8(bytes.get(..end).unwrap_or_default()).map_err(|_| ConvertError::NotUtf8 { what })
}

/// Returns the text of a string argument, which may not be null. No more than `size` bytes are read:
/// the argument may be an array of that size without NUL.
///
/// # Safety
///
/// `text` is null, or points to a string that ends with a NUL, or to `size` bytes.
unsafe fn argument<'a>(
    text: *const c_char,
    size: usize,
    what: &'static str,
) -> Result<&'a str, ConvertError> {
    if text.is_null() {
        return Err(ConvertError::NullPointer { what });
    }
    // SAFETY: the caller guarantees a NUL or `size` bytes.
    let len = unsafe { libc::strnlen(text, size) };
    if len == size {
        return Err(ConvertError::TooLarge {
            what,
            found: size,
            limit: size.saturating_sub(1),
        });
    }
    // SAFETY: `strnlen` found no NUL in these bytes.
    let bytes = unsafe { slice::from_raw_parts(text.cast::<u8>(), len) };
    str::from_utf8(bytes).map_err(|_| ConvertError::NotUtf8 { what })
}

/// Reads a `pmix_key_t`. One without NUL is cut to 511 bytes, as by the C library.
///
/// # Errors
///
/// Fails if the key is not UTF-8.
pub fn key_from_array(key: &CKey) -> Result<Key, ConvertError> {
    Ok(Key::new(array_text(key, "key")?)?)
}

/// Reads a `pmix_nspace_t`. One without NUL is cut to 255 bytes, as by the C library.
///
/// # Errors
///
/// Fails if the namespace is not UTF-8 or has control characters.
pub fn nspace_from_array(nspace: &CNspace) -> Result<Nspace, ConvertError> {
    Ok(Nspace::new(array_text(nspace, "namespace")?)?)
}

/// Reads a `pmix_nspace_t` as [`nspace_from_array`] does. Consecutive equal ones share the allocation
/// of the first: a list mostly names procs of one job.
///
/// # Errors
///
/// As for [`nspace_from_array`].
pub(crate) fn shared_nspace(
    nspace: &CNspace,
    bounds: &mut ReadBounds,
) -> Result<Nspace, ConvertError> {
    let text = array_text(nspace, "namespace")?;
    if bounds.last_nspace.as_str() != text {
        bounds.last_nspace = Nspace::new(text)?;
    }
    Ok(bounds.last_nspace.clone())
}

/// Reads a key that is an argument of a function.
///
/// # Errors
///
/// Fails if the key is null, longer than 511 bytes, as for `PMIx_Put` of the C library, or not
/// UTF-8.
///
/// # Safety
///
/// `key` is null, or points to a string that ends with a NUL, or is a `pmix_key_t`.
pub unsafe fn key_from_argument(key: *const c_char) -> Result<Key, ConvertError> {
    // SAFETY: the caller guarantees a string or null.
    Ok(Key::new(unsafe { argument(key, KEY_SIZE, "key") }?)?)
}

/// Reads a namespace that is an argument of a function.
///
/// # Errors
///
/// Fails if the namespace is null, longer than 255 bytes, not UTF-8 or has control characters.
///
/// # Safety
///
/// `nspace` is null, or points to a string that ends with a NUL, or is a `pmix_nspace_t`.
pub unsafe fn nspace_from_argument(nspace: *const c_char) -> Result<Nspace, ConvertError> {
    // SAFETY: the caller guarantees a string or null.
    Ok(Nspace::new(unsafe {
        argument(nspace, NSPACE_SIZE, "namespace")
    }?)?)
}

/// Copies text into an array of characters, which it cuts to leave room for a NUL.
pub(crate) fn fill_characters(array: &mut [c_char], text: &[u8]) {
    array.fill(0);
    copy_characters(array, text);
}

/// Copies text and its NUL into an array of characters, whose rest stays as it is. Arrays of keys and
/// namespaces are large, and most of their texts short.
pub(crate) fn copy_characters(array: &mut [c_char], text: &[u8]) {
    let room = array.len().saturating_sub(1);
    let text = text.get(..room).unwrap_or(text);
    for (character, byte) in array.iter_mut().zip(text) {
        *character = byte.cast_signed();
    }
    if let Some(end) = array.get_mut(text.len()) {
        *end = 0;
    }
}

/// Returns a key as a `pmix_key_t`.
pub fn key_array(key: &Key) -> CKey {
    let mut array = [0; _];
    fill_characters(&mut array, key.as_bytes());
    array
}

/// Returns a namespace as a `pmix_nspace_t`.
pub fn nspace_array(nspace: &Nspace) -> CNspace {
    let mut array = [0; _];
    fill_characters(&mut array, nspace.as_str().as_bytes());
    array
}

/// Copies a string to the C heap; null if it is absent.
///
/// # Errors
///
/// Fails if the heap has no memory left.
pub fn text_to_c(text: Option<&Text>) -> Result<*mut c_char, ConvertError> {
    text.map_or(Ok(ptr::null_mut()), |text| {
        memory::copy_string(text.as_bytes())
    })
}

/// Copies a list of strings to the C heap, with a null pointer at its end; null for an empty list.
/// Absent strings are left out, since they would end the list.
///
/// # Errors
///
/// Fails if the heap has no memory left. Then `target` has the strings copied so far.
pub(crate) fn fill_argv(
    target: &mut *mut *mut c_char,
    texts: &[Option<Text>],
) -> Result<(), ConvertError> {
    let present: Vec<&Text> = texts.iter().flatten().collect();
    if present.is_empty() {
        return Ok(());
    }
    *target = memory::allocate(present.len() + 1)?;
    for (at, text) in present.into_iter().enumerate() {
        let copy = memory::copy_string(text.as_bytes())?;
        // SAFETY: the list has one place more than there are texts.
        unsafe { *target.add(at) = copy };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn array_without_nul_is_cut_by_one_character() {
        let key = key_from_array(&[b'k'.cast_signed(); KEY_SIZE]).unwrap();
        assert_eq!(key.as_str(), "k".repeat(Key::MAX));
        let nspace = nspace_from_array(&[b'n'.cast_signed(); NSPACE_SIZE]).unwrap();
        assert_eq!(nspace.as_str(), "n".repeat(Nspace::MAX));
        assert_eq!(key_from_array(&key_array(&key)), Ok(key));
        assert_eq!(nspace_from_array(&nspace_array(&nspace)), Ok(nspace));
    }

    #[test]
    fn long_null_and_unreadable_arguments_are_refused() {
        let long = std::ffi::CString::new("k".repeat(Key::MAX + 1)).unwrap();
        // SAFETY: the arguments are strings or null.
        unsafe {
            assert!(matches!(
                key_from_argument(long.as_ptr()),
                Err(ConvertError::TooLarge {
                    limit: Key::MAX,
                    ..
                })
            ));
            assert!(matches!(
                nspace_from_argument(c"a\nb".as_ptr()),
                Err(ConvertError::Identifier(_))
            ));
            assert_eq!(
                key_from_argument(c"\xff".as_ptr()),
                Err(ConvertError::NotUtf8 { what: "key" })
            );
            assert_eq!(
                key_from_argument(ptr::null()),
                Err(ConvertError::NullPointer { what: "key" })
            );
            assert_eq!(key_from_argument(c"key".as_ptr()).unwrap().as_str(), "key");
        }
    }

    #[test]
    fn absent_text_is_null_and_absent_list_is_empty() {
        let bounds = &mut ReadBounds::default();
        assert!(text_to_c(None).unwrap().is_null());
        // SAFETY: null is allowed.
        unsafe {
            assert_eq!(text(ptr::null(), bounds), Ok(None));
            assert_eq!(argv(ptr::null(), bounds), Ok(Vec::new()));
        }
    }

    #[test]
    fn longest_text_is_read_and_a_longer_one_refused() {
        let limit = peal_wire::DecodeLimits::default().max_string;
        let long = std::ffi::CString::new(vec![b'x'; limit]).unwrap();
        // SAFETY: both are strings, of which the second begins at the second character.
        unsafe {
            let bounds = &mut ReadBounds::default();
            assert!(matches!(
                text(long.as_ptr(), bounds),
                Err(ConvertError::TooLarge { .. })
            ));
            let shorter = text(long.as_ptr().add(1), bounds).unwrap().unwrap();
            assert_eq!(shorter.as_bytes().len(), limit - 1);
        }
    }
}

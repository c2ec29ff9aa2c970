//! Lists of strings that end with a null pointer (`PMIx_Argv_*`).
use crate::{
    abi::{CBool, CStatus},
    border,
    convert::ConvertError,
    destruct::free_argv,
    memory,
};
use peal_model::{Status, code};
use std::{
    ffi::{CStr, c_char, c_int},
    ptr,
};

/// A list of strings in C.
pub(super) type CArgv = *mut *mut c_char;

/// Returns the number of strings of a list; zero for null.
///
/// # Safety
///
/// `argv` is null, or a list that ends with a null pointer.
unsafe fn count(argv: *const *mut c_char) -> usize {
    let mut len = 0;
    if !argv.is_null() {
        // SAFETY: the caller guarantees a null pointer at the end, and this loop stops there.
        while !unsafe { *argv.add(len) }.is_null() {
            len += 1;
        }
    }
    len
}

/// Returns the bytes of the strings of a list.
///
/// # Safety
///
/// As [`count`], and nothing changes or frees the list and its strings while they are borrowed.
pub(super) unsafe fn strings<'a>(argv: *const *mut c_char) -> Vec<&'a [u8]> {
    // SAFETY: the caller guarantees a list of strings.
    unsafe {
        let texts = (0..count(argv)).map(|at| CStr::from_ptr(*argv.add(at)).to_bytes());
        texts.collect()
    }
}

/// Makes a list of strings, also one without strings.
fn new_list(texts: &[&[u8]]) -> Result<CArgv, ConvertError> {
    let list: CArgv = memory::allocate(texts.len() + 1)?;
    for (at, text) in texts.iter().enumerate() {
        // SAFETY: a null pointer ends the list also when it is incomplete.
        let copy = memory::copy_string(text).inspect_err(|_| unsafe { free_argv(list) })?;
        // SAFETY: the list has one place more than there are texts.
        unsafe { *list.add(at) = copy };
    }
    Ok(list)
}

/// Adds a string to a list at a position, and moves those behind it. A null list becomes one.
///
/// # Safety
///
/// `argv` points to null, or to a list from `malloc` that ends with a null pointer.
pub(super) unsafe fn insert(argv: &mut CArgv, at: usize, text: &[u8]) -> Result<(), ConvertError> {
    // SAFETY: the caller guarantees a list or null.
    let len = unsafe { count(*argv) };
    let longer: CArgv = memory::allocate(len.saturating_add(2))?;
    let copy = memory::copy_string(text).inspect_err(|_| {
        // SAFETY: the list was made here.
        unsafe { memory::free(longer) };
    })?;
    let at = at.min(len);
    // SAFETY: the old list has `len` strings, the new one two places more.
    unsafe {
        if len > 0 {
            longer.copy_from_nonoverlapping(*argv, at);
            longer
                .add(at + 1)
                .copy_from_nonoverlapping((*argv).add(at), len - at);
        }
        *longer.add(at) = copy;
        memory::free(std::mem::replace(argv, longer));
    }
    Ok(())
}

/// Reads the arguments of a function that adds a string to a list.
///
/// # Safety
///
/// `argv` is null or points to a list or null; `text` is null or a string.
pub(super) unsafe fn arguments<'a>(
    argv: *mut CArgv,
    text: *const c_char,
) -> Result<(&'a mut CArgv, &'a [u8]), Status> {
    // SAFETY: the caller guarantees a pointer to a list, or null.
    let argv = unsafe { argv.as_mut() }.ok_or(code::PMIX_ERR_BAD_PARAM)?;
    if text.is_null() {
        return Err(code::PMIX_ERR_BAD_PARAM);
    }
    // SAFETY: the caller guarantees a string.
    Ok((argv, unsafe { CStr::from_ptr(text) }.to_bytes()))
}

/// `PMIx_Argv_append_nosize`: adds a copy of a string at the end.
///
/// # Safety
///
/// `argv` is null, or points to null or a list from `malloc`; `text` is null or a string.
#[unsafe(export_name = "PMIx_Argv_append_nosize")]
pub unsafe extern "C" fn argv_append_nosize(argv: *mut CArgv, text: *const c_char) -> CStatus {
    border::status("PMIx_Argv_append_nosize", || {
        // SAFETY: the caller guarantees what both demand.
        unsafe {
            let (argv, text) = arguments(argv, text)?;
            Ok(insert(argv, usize::MAX, text)?)
        }
    })
}

/// `PMIx_Argv_prepend_nosize`: adds a copy of a string at the beginning.
///
/// # Safety
///
/// As [`argv_append_nosize`].
#[unsafe(export_name = "PMIx_Argv_prepend_nosize")]
pub unsafe extern "C" fn argv_prepend_nosize(argv: *mut CArgv, text: *const c_char) -> CStatus {
    border::status("PMIx_Argv_prepend_nosize", || {
        // SAFETY: the caller guarantees what both demand.
        unsafe {
            let (argv, text) = arguments(argv, text)?;
            Ok(insert(argv, 0, text)?)
        }
    })
}

/// `PMIx_Argv_append_unique_nosize`: adds a copy of a string at the end unless the list has it.
///
/// # Safety
///
/// As [`argv_append_nosize`].
#[unsafe(export_name = "PMIx_Argv_append_unique_nosize")]
pub unsafe extern "C" fn argv_append_unique_nosize(
    argv: *mut CArgv,
    text: *const c_char,
) -> CStatus {
    border::status("PMIx_Argv_append_unique_nosize", || {
        // SAFETY: the caller guarantees what these demand.
        unsafe {
            let (argv, text) = arguments(argv, text)?;
            if strings(*argv).contains(&text) {
                return Ok(());
            }
            Ok(insert(argv, usize::MAX, text)?)
        }
    })
}

/// `PMIx_Argv_count`: returns the number of strings; zero for null.
///
/// # Safety
///
/// `argv` is null or a list.
#[unsafe(export_name = "PMIx_Argv_count")]
pub unsafe extern "C" fn argv_count(argv: *const *mut c_char) -> c_int {
    border::value("PMIx_Argv_count", 0, || {
        // SAFETY: the caller guarantees a list or null.
        c_int::try_from(unsafe { count(argv) }).unwrap_or(c_int::MAX)
    })
}

/// `PMIx_Argv_free`: frees a list and its strings; does nothing for null.
///
/// # Safety
///
/// `argv` is null, or a list from `malloc` that is used by nothing else any more.
#[unsafe(export_name = "PMIx_Argv_free")]
pub unsafe extern "C" fn argv_free(argv: CArgv) {
    // SAFETY: the caller guarantees what `free_argv` demands.
    border::value("PMIx_Argv_free", (), || unsafe { free_argv(argv) });
}

/// `PMIx_Argv_copy`: copies a list; null for null, and if the heap has no memory left.
///
/// # Safety
///
/// `argv` is null or a list.
#[unsafe(export_name = "PMIx_Argv_copy")]
pub unsafe extern "C" fn argv_copy(argv: *const *mut c_char) -> CArgv {
    border::value("PMIx_Argv_copy", ptr::null_mut(), || {
        if argv.is_null() {
            return ptr::null_mut();
        }
        // SAFETY: the caller guarantees a list.
        new_list(&unsafe { strings(argv) }).unwrap_or(ptr::null_mut())
    })
}

/// `PMIx_Argv_join`: joins the strings of a list by a character; empty for null. The caller frees
/// the result, which is null if the heap has no memory left.
///
/// # Safety
///
/// `argv` is null or a list.
#[unsafe(export_name = "PMIx_Argv_join")]
pub unsafe extern "C" fn argv_join(argv: *const *mut c_char, delimiter: c_int) -> *mut c_char {
    border::value("PMIx_Argv_join", ptr::null_mut(), || {
        // SAFETY: the caller guarantees a list or null.
        let joined = unsafe { strings(argv) }.join(&character(delimiter));
        memory::copy_string(&joined).unwrap_or(ptr::null_mut())
    })
}

/// Returns the character that C passes as a number.
fn character(number: c_int) -> u8 {
    number as u8
}

/// Splits a string. An empty part at its end is left out in any case, as in the C library. Returns
/// null for no parts.
///
/// # Safety
///
/// `text` is null or a string.
unsafe fn split(
    function: &'static str,
    text: *const c_char,
    delimiter: c_int,
    with_empty: bool,
) -> CArgv {
    border::value(function, ptr::null_mut(), || {
        if text.is_null() {
            return ptr::null_mut();
        }
        // SAFETY: the caller guarantees a string.
        let text = unsafe { CStr::from_ptr(text) }.to_bytes();
        let mut parts: Vec<&[u8]> = text.split(|byte| *byte == character(delimiter)).collect();
        parts.pop_if(|last| last.is_empty());
        parts.retain(|part| with_empty || !part.is_empty());
        if parts.is_empty() {
            return ptr::null_mut();
        }
        new_list(&parts).unwrap_or(ptr::null_mut())
    })
}

/// `PMIx_Argv_split`: splits a string at a character, without empty parts.
///
/// # Safety
///
/// `text` is null or a string.
#[unsafe(export_name = "PMIx_Argv_split")]
pub unsafe extern "C" fn argv_split(text: *const c_char, delimiter: c_int) -> CArgv {
    // SAFETY: the caller guarantees what `split` demands.
    unsafe { split("PMIx_Argv_split", text, delimiter, false) }
}

/// `PMIx_Argv_split_with_empty`: splits a string at a character, with empty parts.
///
/// # Safety
///
/// `text` is null or a string.
#[unsafe(export_name = "PMIx_Argv_split_with_empty")]
pub unsafe extern "C" fn argv_split_with_empty(text: *const c_char, delimiter: c_int) -> CArgv {
    // SAFETY: the caller guarantees what `split` demands.
    unsafe { split("PMIx_Argv_split_with_empty", text, delimiter, true) }
}

/// `PMIx_Argv_split_inter`: splits a string at a character, with or without empty parts.
///
/// # Safety
///
/// `text` is null or a string.
#[unsafe(export_name = "PMIx_Argv_split_inter")]
pub unsafe extern "C" fn argv_split_inter(
    text: *const c_char,
    delimiter: c_int,
    with_empty: CBool,
) -> CArgv {
    // SAFETY: the caller guarantees what `split` demands.
    unsafe { split("PMIx_Argv_split_inter", text, delimiter, with_empty != 0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::counter;

    /// Returns the strings of a list joined by `|`, and frees the list.
    fn taken(argv: CArgv) -> String {
        // SAFETY: the list was made by the functions under test.
        unsafe {
            let joined = strings(argv).join(&b'|');
            argv_free(argv);
            String::from_utf8(joined).unwrap()
        }
    }

    #[test]
    fn strings_are_added_once_or_at_either_end() {
        let before = counter::live();
        let mut list = ptr::null_mut();
        // SAFETY: the list is made by these functions; the texts are strings.
        unsafe {
            assert_eq!(argv_append_nosize(&mut list, c"b".as_ptr()), 0);
            assert_eq!(argv_prepend_nosize(&mut list, c"a".as_ptr()), 0);
            assert_eq!(argv_append_unique_nosize(&mut list, c"a".as_ptr()), 0);
            assert_eq!(argv_append_unique_nosize(&mut list, c"c".as_ptr()), 0);
            assert_eq!(argv_count(list), 3);
            assert_eq!(taken(argv_copy(list)), "a|b|c");
            let joined = argv_join(list, c_int::from(b','));
            assert_eq!(CStr::from_ptr(joined), c"a,b,c");
            memory::free(joined);
        }
        assert_eq!(taken(list), "a|b|c");
        assert_eq!(counter::live(), before);
    }

    #[test]
    fn parts_are_split_with_and_without_empty_ones() {
        let comma = c_int::from(b',');
        // SAFETY: the texts are strings.
        unsafe {
            assert_eq!(taken(argv_split(c",a,,b,".as_ptr(), comma)), "a|b");
            assert_eq!(
                taken(argv_split_with_empty(c",a,,b,".as_ptr(), comma)),
                "|a||b"
            );
            assert_eq!(taken(argv_split_inter(c"a".as_ptr(), comma, 1)), "a");
            assert!(argv_split(c",,".as_ptr(), comma).is_null());
            assert!(argv_split(c"".as_ptr(), comma).is_null());
        }
    }

    #[test]
    fn null_pointers_are_refused_or_empty() {
        let bad = code::PMIX_ERR_BAD_PARAM.0;
        let mut list = ptr::null_mut();
        // SAFETY: null is allowed.
        unsafe {
            assert_eq!(argv_append_nosize(ptr::null_mut(), c"a".as_ptr()), bad);
            assert_eq!(argv_prepend_nosize(&mut list, ptr::null()), bad);
            assert_eq!(argv_count(ptr::null()), 0);
            assert!(argv_copy(ptr::null()).is_null() && argv_split(ptr::null(), 0).is_null());
            argv_free(ptr::null_mut());
            let empty = argv_join(ptr::null(), 0);
            assert_eq!(*empty, 0);
            memory::free(empty);
        }
    }
}

//! Lines of text, and the forms of their parts.
use crate::values::keys::bounded;
use std::ffi::{CStr, c_char};

/// Returns a C string; `(null)` for null, as `printf` of the C library prints it.
///
/// # Safety
///
/// `text` is null or a string that nothing changes while it is borrowed.
pub(in crate::values) unsafe fn c_text<'a>(text: *const c_char) -> &'a [u8] {
    if text.is_null() {
        return b"(null)";
    }
    // SAFETY: the caller guarantees a string.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}

/// Returns a C string; `NULL` for null.
///
/// # Safety
///
/// As [`c_text`].
pub(super) unsafe fn text_or_null<'a>(text: *const c_char) -> &'a [u8] {
    if text.is_null() {
        return b"NULL";
    }
    // SAFETY: the caller guarantees a string.
    unsafe { c_text(text) }
}

/// Returns a floating-point number as `%f` prints it.
pub(super) fn decimal(number: f64) -> String {
    if number.is_nan() {
        let sign = if number.is_sign_negative() { "-" } else { "" };
        return format!("{sign}nan");
    }
    format!("{number:.6}")
}

/// Returns a time in the form of `ctime`.
pub(super) fn calendar(seconds: libc::time_t) -> Vec<u8> {
    // `ctime_r` writes 26 characters, and more for years of more than four digits.
    let mut text: [c_char; 64] = [0; 64];
    // SAFETY: the function reads a number and writes fewer characters than there are.
    let written = unsafe { libc::ctime_r(&seconds, text.as_mut_ptr()) };
    if written.is_null() {
        return seconds.to_string().into_bytes();
    }
    // SAFETY: the function wrote a string, or nothing into a zeroed array.
    let text = unsafe { bounded(text.as_ptr(), text.len() - 1) };
    text.trim_ascii_end().to_vec()
}

/// Returns a line: the prefix, the data type, a tab and the rest.
pub(super) fn line(prefix: &[u8], name: &str, rest: &[u8]) -> Vec<u8> {
    [prefix, b"Data type: ", name.as_bytes(), b"\t", rest].concat()
}

/// Returns the line of a value that has one word.
pub(super) fn value_line(prefix: &[u8], name: &str, text: impl AsRef<[u8]>) -> Vec<u8> {
    line(prefix, name, &[b"Value: ", text.as_ref()].concat())
}

/// Returns the text of a function that returns one that is never freed.
pub(super) fn fixed(text: *const c_char) -> &'static [u8] {
    // SAFETY: the functions of `strings` return strings that are never freed.
    unsafe { c_text(text) }
}

/// Returns a number as C converts it to an unsigned long.
pub(super) fn long(number: i32) -> u64 {
    i64::from(number).cast_unsigned()
}

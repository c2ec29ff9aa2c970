//! Memory of the C heap. The caller frees with `free` what it gets from here, and the destructors of
//! this crate free with [`free`] what the caller has from `malloc`.
use crate::convert::ConvertError;
use std::ffi::{c_char, c_void};

/// Allocates `count` zeroed elements of `size` bytes. Returns null for no bytes.
pub(crate) fn allocate_bytes(count: usize, size: usize) -> Result<*mut c_void, ConvertError> {
    if count == 0 || size == 0 {
        return Ok(std::ptr::null_mut());
    }
    // SAFETY: `calloc` may be called with any numbers; it checks their product.
    let memory = unsafe { libc::calloc(count, size) };
    if memory.is_null() {
        return Err(ConvertError::NoMemory {
            bytes: count.saturating_mul(size),
        });
    }
    counter::add(1);
    Ok(memory)
}

/// Allocates an array of `count` zeroed elements. Returns null for none.
///
/// # Errors
///
/// Fails if the heap has no memory left.
pub fn allocate<T>(count: usize) -> Result<*mut T, ConvertError> {
    allocate_bytes(count, size_of::<T>()).map(<*mut c_void>::cast)
}

/// Gives an array room for `count` elements. The elements may move; what is behind them is not
/// initialized.
///
/// # Errors
///
/// Fails if the heap has no memory left. The array is then as before.
///
/// # Safety
///
/// `array` is null or came from this module, and is used no more after a success. The elements may be
/// moved.
pub(crate) unsafe fn reallocate<T>(array: *mut T, count: usize) -> Result<*mut T, ConvertError> {
    let bytes = count.saturating_mul(size_of::<T>()).max(1);
    // SAFETY: the caller guarantees memory of the C heap or null.
    let memory = unsafe { libc::realloc(array.cast(), bytes) };
    if memory.is_null() {
        return Err(ConvertError::NoMemory { bytes });
    }
    if array.is_null() {
        counter::add(1);
    }
    Ok(memory.cast())
}

/// Copies bytes. Returns null for none.
///
/// # Errors
///
/// Fails if the heap has no memory left.
pub fn copy_bytes(bytes: &[u8]) -> Result<*mut c_char, ConvertError> {
    if bytes.is_empty() {
        return Ok(std::ptr::null_mut());
    }
    // SAFETY: null is no array.
    let copy: *mut u8 = unsafe { reallocate(std::ptr::null_mut(), bytes.len()) }?;
    // SAFETY: `copy` has `bytes.len()` bytes, and is new, so that the two do not overlap.
    unsafe { copy.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(copy.cast())
}

/// Copies a string and ends it with a NUL. A NUL in the string ends it for C.
///
/// # Errors
///
/// Fails if the heap has no memory left.
pub fn copy_string(text: &[u8]) -> Result<*mut c_char, ConvertError> {
    // SAFETY: null is no array.
    let copy: *mut u8 = unsafe { reallocate(std::ptr::null_mut(), text.len().saturating_add(1)) }?;
    // SAFETY: `copy` has a byte more than `text`, and is new.
    unsafe {
        copy.copy_from_nonoverlapping(text.as_ptr(), text.len());
        copy.add(text.len()).write(0);
    }
    Ok(copy.cast())
}

/// Frees memory of the C heap, or does nothing for null.
///
/// # Safety
///
/// `memory` is null, or came from `malloc` or a function of this module and was not freed.
pub unsafe fn free<T>(memory: *mut T) {
    if memory.is_null() {
        return;
    }
    counter::add(-1);
    // SAFETY: the caller guarantees that `memory` came from `malloc` and was not freed.
    unsafe { libc::free(memory.cast()) };
}

/// Count of live allocations of a thread, for tests that look for leaks.
#[cfg(test)]
pub(crate) mod counter {
    use std::cell::Cell;

    thread_local! {
        static LIVE: Cell<isize> = const { Cell::new(0) };
    }

    pub(crate) fn add(change: isize) {
        LIVE.set(LIVE.get() + change);
    }

    pub(crate) fn live() -> isize {
        LIVE.get()
    }
}

#[cfg(not(test))]
mod counter {
    pub(super) fn add(_: isize) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn copies_equal_their_originals_and_are_freed() {
        let before = counter::live();
        let text = copy_string(b"text").unwrap();
        let bytes = copy_bytes(b"a\0b").unwrap();
        assert_eq!(counter::live(), before + 2);
        // SAFETY: `text` was made by `copy_string`, `bytes` has three bytes; each is freed once.
        unsafe {
            assert_eq!(CStr::from_ptr(text).to_bytes(), b"text");
            assert_eq!(std::slice::from_raw_parts(bytes.cast::<u8>(), 3), b"a\0b");
            free(text);
            free(bytes);
        }
        assert_eq!(counter::live(), before);
    }

    #[test]
    fn nothing_is_null_and_too_much_is_an_error() {
        assert!(allocate::<u64>(0).unwrap().is_null());
        assert!(copy_bytes(&[]).unwrap().is_null());
        assert!(matches!(
            allocate::<u64>(usize::MAX),
            Err(ConvertError::NoMemory { .. })
        ));
    }
}

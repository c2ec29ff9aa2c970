//! Compression in the form of the C library: the length in host order, then a zlib stream
//! (`PMIx_Data_compress`, `PMIx_Data_decompress`).
use super::strings::c_bool;
use crate::{abi::CBool, border, memory};
use miniz_oxide::{deflate::compress_to_vec_zlib, inflate::decompress_to_vec_zlib_with_limit};
use std::{ptr, slice};

/// Bytes that are worth the work: the default of the C library.
const LEAST: usize = 4096;
/// Level of zlib that the C library uses.
const LEVEL: u8 = 9;
/// Bytes of the length.
const LENGTH: usize = size_of::<u32>();

/// Compresses bytes; `None` if they are few, or would not become fewer.
pub(crate) fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() < LEAST {
        return None;
    }
    let len = u32::try_from(bytes.len()).ok()?;
    let mut out = len.to_ne_bytes().to_vec();
    out.extend(compress_to_vec_zlib(bytes, LEVEL));
    (out.len() < bytes.len()).then_some(out)
}

/// Decompresses bytes; `None` if they are not compressed, or have another length than they say.
pub(crate) fn decompress(bytes: &[u8]) -> Option<Vec<u8>> {
    let (len, stream) = bytes.split_at_checked(LENGTH)?;
    let len = u32::from_ne_bytes(len.try_into().ok()?) as usize;
    // The memory grows with what is really there, so a wrong length costs nothing.
    let out = decompress_to_vec_zlib_with_limit(stream, len).ok()?;
    (out.len() == len).then_some(out)
}

/// Runs a function from bytes to bytes, and gives its result to the caller.
///
/// # Safety
///
/// `bytes` is null or points to `size` bytes; the others are null or point to variables.
unsafe fn run(
    function: &'static str,
    (bytes, size): (*const u8, usize),
    (target, target_size): (*mut *mut u8, *mut usize),
    convert: fn(&[u8]) -> Option<Vec<u8>>,
) -> CBool {
    border::value(function, 0, || {
        // SAFETY: the caller guarantees variables or null.
        let variables = unsafe { (target.as_mut(), target_size.as_mut()) };
        let (Some(target), Some(target_size)) = variables else {
            return 0;
        };
        (*target, *target_size) = (ptr::null_mut(), 0);
        if bytes.is_null() || isize::try_from(size).is_err() {
            return 0;
        }
        // SAFETY: the caller guarantees `size` bytes.
        let Some(out) = convert(unsafe { slice::from_raw_parts(bytes, size) }) else {
            return 0;
        };
        *target = memory::copy_bytes(&out).map_or(ptr::null_mut(), <*mut _>::cast);
        *target_size = if target.is_null() { 0 } else { out.len() };
        c_bool(!target.is_null())
    })
}

/// `PMIx_Data_compress`: compresses bytes into new memory. Returns false, and no memory, for fewer
/// than 4096 bytes, and for bytes that would not become fewer.
///
/// # Safety
///
/// `bytes` is null or points to `size` bytes; the others are null or point to variables.
#[unsafe(export_name = "PMIx_Data_compress")]
pub unsafe extern "C" fn data_compress(
    bytes: *const u8,
    size: usize,
    target: *mut *mut u8,
    target_size: *mut usize,
) -> CBool {
    // SAFETY: the caller guarantees what `run` demands.
    unsafe {
        run(
            "PMIx_Data_compress",
            (bytes, size),
            (target, target_size),
            compress,
        )
    }
}

/// `PMIx_Data_decompress`: decompresses bytes into new memory. Returns false, and no memory, for bytes
/// that are not compressed.
///
/// # Safety
///
/// As [`data_compress`].
#[unsafe(export_name = "PMIx_Data_decompress")]
pub unsafe extern "C" fn data_decompress(
    bytes: *const u8,
    size: usize,
    target: *mut *mut u8,
    target_size: *mut usize,
) -> CBool {
    // SAFETY: the caller guarantees what `run` demands.
    unsafe {
        run(
            "PMIx_Data_decompress",
            (bytes, size),
            (target, target_size),
            decompress,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::counter;

    #[test]
    fn bytes_are_the_same_after_compression() {
        let bytes: Vec<u8> = (0..20_000u32).map(|n| (n / 100) as u8).collect();
        let out = compress(&bytes).unwrap();
        assert!(out.len() < bytes.len() / 10, "{}", out.len());
        assert_eq!(decompress(&out).unwrap(), bytes);
        assert!(compress(&bytes[..LEAST - 1]).is_none());
    }

    #[test]
    fn malformed_bytes_and_null_pointers_are_refused() {
        let before = counter::live();
        let out = compress(&[0; 5000]).unwrap();
        let mut huge = out.clone();
        huge[..LENGTH].fill(255);
        for bytes in [&out[..3], &out[..10], &huge, b"", b"\0\0\0\0"] {
            assert!(decompress(bytes).is_none());
        }
        let (mut target, mut size) = (ptr::null_mut(), 1);
        // SAFETY: null is allowed.
        unsafe {
            assert_eq!(data_compress(ptr::null(), 5, &mut target, &mut size), 0);
            assert_eq!((target.is_null(), size), (true, 0));
            assert_eq!(
                data_compress(out.as_ptr(), 5, ptr::null_mut(), &mut size),
                0
            );
            assert_eq!(
                data_decompress(out.as_ptr(), out.len(), &mut target, &mut size),
                1
            );
            assert_eq!(size, 5000);
            memory::free(target);
        }
        assert_eq!(counter::live(), before);
    }
}

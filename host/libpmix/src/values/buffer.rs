//! Buffers of packed data (`PMIx_Data_load` and related functions): memory, not contents.
use crate::{
    abi::{CByteObject, CDataBuffer, CStatus},
    border,
    convert::ConvertError,
    destruct::Destruct,
    duplicate::unpacked,
    memory,
};
use peal_model::{Status, code};
use std::{ffi::c_char, mem, ptr, slice};

/// Least memory of a buffer that grows, in bytes.
const LEAST: usize = 128;

/// Adds bytes at the end of a buffer.
///
/// # Safety
///
/// `base_ptr` is null or points to `bytes_allocated` bytes from `malloc`.
pub(super) unsafe fn append(buffer: &mut CDataBuffer, bytes: &[u8]) -> Result<(), ConvertError> {
    let used = if buffer.base_ptr.is_null() {
        0
    } else {
        buffer.bytes_used
    };
    let needed = used.saturating_add(bytes.len());
    if needed > buffer.bytes_allocated || buffer.base_ptr.is_null() {
        let size = needed
            .max(buffer.bytes_allocated.saturating_mul(2))
            .max(LEAST);
        let larger: *mut c_char = memory::allocate(size)?;
        let done = unpack_offset(buffer);
        // SAFETY: the caller guarantees `used` bytes; the new memory has more.
        unsafe {
            if used > 0 {
                larger.copy_from_nonoverlapping(buffer.base_ptr, used);
            }
            memory::free(buffer.base_ptr);
        }
        buffer.base_ptr = larger;
        buffer.unpack_ptr = larger.wrapping_add(done);
        buffer.bytes_allocated = size;
    }
    // SAFETY: the buffer has room for the bytes after those that are used.
    unsafe {
        buffer
            .base_ptr
            .add(used)
            .copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len());
    }
    buffer.bytes_used = needed;
    buffer.pack_ptr = buffer.base_ptr.wrapping_add(needed);
    Ok(())
}

/// Returns the number of bytes that are unpacked. A position outside of the buffer counts as its
/// beginning.
pub(super) fn unpack_offset(buffer: &CDataBuffer) -> usize {
    let done = buffer
        .unpack_ptr
        .addr()
        .wrapping_sub(buffer.base_ptr.addr());
    if buffer.base_ptr.is_null() || done > buffer.bytes_used {
        0
    } else {
        done
    }
}

/// Returns a buffer of the caller.
///
/// # Safety
///
/// `buffer` is null or points to a buffer that nothing else uses.
pub(super) unsafe fn buffer_mut<'a>(
    buffer: *mut CDataBuffer,
) -> Result<&'a mut CDataBuffer, Status> {
    // SAFETY: the caller guarantees a buffer or null.
    unsafe { buffer.as_mut() }.ok_or(code::PMIX_ERR_BAD_PARAM)
}

/// `PMIx_Data_load`: frees the contents of a buffer and gives it the bytes of a payload, which has
/// none afterwards.
///
/// # Safety
///
/// `buffer` is null or points to a buffer; `payload` is null or points to a byte object whose bytes
/// are from `malloc`.
#[unsafe(export_name = "PMIx_Data_load")]
pub unsafe extern "C" fn data_load(buffer: *mut CDataBuffer, payload: *mut CByteObject) -> CStatus {
    border::status("PMIx_Data_load", || {
        // SAFETY: the caller guarantees what these demand.
        unsafe {
            let buffer = buffer_mut(buffer)?;
            buffer.destruct();
            if let Some(payload) = payload.as_mut() {
                give(buffer, mem::replace(payload, CByteObject::zeroed()));
            }
        }
        Ok(())
    })
}

/// Gives bytes to an empty buffer.
fn give(buffer: &mut CDataBuffer, payload: CByteObject) {
    if payload.bytes.is_null() {
        return;
    }
    *buffer = CDataBuffer {
        base_ptr: payload.bytes,
        pack_ptr: payload.bytes.wrapping_add(payload.size),
        unpack_ptr: payload.bytes,
        bytes_allocated: payload.size,
        bytes_used: payload.size,
    };
}

/// Takes the bytes of a buffer that are not unpacked, and empties it.
///
/// # Safety
///
/// As [`append`].
unsafe fn take(buffer: &mut CDataBuffer) -> Result<CByteObject, ConvertError> {
    let done = unpack_offset(buffer);
    let size = buffer.bytes_used.saturating_sub(done);
    if buffer.base_ptr.is_null() || size == 0 {
        // SAFETY: the caller guarantees a buffer.
        unsafe { buffer.destruct() };
        return Ok(CByteObject::zeroed());
    }
    if done == 0 {
        let bytes = mem::replace(&mut buffer.base_ptr, ptr::null_mut());
        *buffer = CDataBuffer::zeroed();
        return Ok(CByteObject { bytes, size });
    }
    // SAFETY: the caller guarantees a buffer.
    unsafe {
        let bytes = memory::copy_bytes(unpacked(buffer))?;
        buffer.destruct();
        Ok(CByteObject { bytes, size })
    }
}

/// `PMIx_Data_unload`: gives the bytes that are not unpacked to a byte object, and empties the buffer.
///
/// # Safety
///
/// `buffer` is null or points to a buffer; `payload` is null or points to memory for a byte object,
/// whose old contents are not freed.
#[unsafe(export_name = "PMIx_Data_unload")]
pub unsafe extern "C" fn data_unload(
    buffer: *mut CDataBuffer,
    payload: *mut CByteObject,
) -> CStatus {
    border::status("PMIx_Data_unload", || {
        // SAFETY: the caller guarantees what these demand.
        unsafe {
            let buffer = buffer_mut(buffer)?;
            if payload.is_null() {
                return Err(code::PMIX_ERR_BAD_PARAM);
            }
            payload.write(CByteObject::zeroed());
            payload.write(take(buffer)?);
        }
        Ok(())
    })
}

/// `PMIx_Data_embed`: frees the contents of a buffer and copies the bytes of a payload into it.
///
/// # Safety
///
/// `buffer` is null or points to a buffer; `payload` is null or points to a byte object.
#[unsafe(export_name = "PMIx_Data_embed")]
pub unsafe extern "C" fn data_embed(
    buffer: *mut CDataBuffer,
    payload: *const CByteObject,
) -> CStatus {
    border::status("PMIx_Data_embed", || {
        // SAFETY: the caller guarantees what these demand.
        unsafe {
            let buffer = buffer_mut(buffer)?;
            buffer.destruct();
            if let Some(payload) = payload.as_ref().filter(|payload| !payload.bytes.is_null()) {
                append(
                    buffer,
                    slice::from_raw_parts(payload.bytes.cast(), payload.size),
                )?;
            }
        }
        Ok(())
    })
}

/// `PMIx_Data_copy_payload`: adds the bytes of a buffer that are not unpacked to another one.
///
/// # Safety
///
/// Both are null or point to buffers.
#[unsafe(export_name = "PMIx_Data_copy_payload")]
pub unsafe extern "C" fn data_copy_payload(
    target: *mut CDataBuffer,
    source: *const CDataBuffer,
) -> CStatus {
    border::status("PMIx_Data_copy_payload", || {
        // SAFETY: the caller guarantees buffers or null. The bytes are copied before the target
        // changes, which may be the same buffer.
        unsafe {
            let source = source.as_ref().ok_or(code::PMIX_ERR_BAD_PARAM)?;
            let bytes = unpacked(source).to_vec();
            Ok(append(buffer_mut(target)?, &bytes)?)
        }
    })
}

/// `PMIx_Data_buffer_create`: makes an empty buffer; null if the heap has no memory left.
#[unsafe(export_name = "PMIx_Data_buffer_create")]
pub extern "C" fn data_buffer_create() -> *mut CDataBuffer {
    border::value("PMIx_Data_buffer_create", ptr::null_mut(), || {
        memory::allocate(1).unwrap_or(ptr::null_mut())
    })
}

/// `PMIx_Data_buffer_load`: frees the contents of a buffer and gives it bytes of the caller.
///
/// # Safety
///
/// `buffer` is null or points to a buffer; `bytes` is null or points to `size` bytes from `malloc`.
#[unsafe(export_name = "PMIx_Data_buffer_load")]
pub unsafe extern "C" fn data_buffer_load(
    buffer: *mut CDataBuffer,
    bytes: *mut c_char,
    size: usize,
) {
    border::value("PMIx_Data_buffer_load", (), || {
        // SAFETY: the caller guarantees a buffer or null.
        unsafe {
            if let Some(buffer) = buffer.as_mut() {
                buffer.destruct();
                give(buffer, CByteObject { bytes, size });
            }
        }
    });
}

/// `PMIx_Data_buffer_unload`: gives the bytes that are not unpacked to the caller, and empties the
/// buffer.
///
/// # Safety
///
/// Each pointer is null or points to a buffer or variable.
#[unsafe(export_name = "PMIx_Data_buffer_unload")]
pub unsafe extern "C" fn data_buffer_unload(
    buffer: *mut CDataBuffer,
    bytes: *mut *mut c_char,
    size: *mut usize,
) {
    border::value("PMIx_Data_buffer_unload", (), || {
        // SAFETY: the caller guarantees variables or null.
        let (Some(bytes), Some(size)) = (unsafe { bytes.as_mut() }, unsafe { size.as_mut() })
        else {
            return;
        };
        // SAFETY: the caller guarantees a buffer or null.
        let taken = unsafe { buffer.as_mut().map(|buffer| take(buffer)) };
        let object = taken.and_then(Result::ok).unwrap_or(CByteObject::zeroed());
        (*bytes, *size) = (object.bytes, object.size);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::counter;

    /// Returns the bytes of a buffer and frees them.
    unsafe fn unloaded(buffer: *mut CDataBuffer) -> Vec<u8> {
        let mut payload = CByteObject::zeroed();
        // SAFETY: the caller has a buffer.
        unsafe {
            assert_eq!(data_unload(buffer, &mut payload), 0);
            let bytes = if payload.bytes.is_null() {
                Vec::new()
            } else {
                slice::from_raw_parts(payload.bytes.cast::<u8>(), payload.size).to_vec()
            };
            payload.destruct();
            bytes
        }
    }

    #[test]
    fn bytes_are_loaded_copied_and_unloaded() {
        let before = counter::live();
        let (first, second) = (data_buffer_create(), data_buffer_create());
        let long = [7; 300];
        // SAFETY: the buffers were made here, and the payloads are from the C heap.
        unsafe {
            let mut payload = CByteObject {
                bytes: memory::copy_bytes(b"abc").unwrap(),
                size: 3,
            };
            assert_eq!(data_embed(first, &payload), 0);
            assert_eq!(data_load(second, &mut payload), 0);
            assert!(payload.bytes.is_null());
            (*second).unpack_ptr = (*second).unpack_ptr.add(1);
            assert_eq!(data_copy_payload(first, second), 0);
            append(&mut *first, &long).unwrap();
            assert_eq!(unloaded(first), [b"abcbc", &long[..]].concat());
            assert_eq!(unloaded(second), b"bc");
            assert_eq!(unloaded(second), b"");
            let copy = memory::copy_bytes(b"xy").unwrap();
            data_buffer_load(first, copy, 2);
            assert_eq!(data_copy_payload(first, first), 0);
            let (mut bytes, mut size) = (ptr::null_mut(), 0);
            data_buffer_unload(first, &mut bytes, &mut size);
            assert_eq!(slice::from_raw_parts(bytes.cast::<u8>(), size), b"xyxy");
            memory::free(bytes);
            memory::free(first);
            memory::free(second);
        }
        assert_eq!(counter::live(), before);
    }

    #[test]
    fn null_buffers_are_refused() {
        let bad = code::PMIX_ERR_BAD_PARAM.0;
        let mut buffer = CDataBuffer::zeroed();
        // SAFETY: null is allowed.
        unsafe {
            assert_eq!(data_load(ptr::null_mut(), ptr::null_mut()), bad);
            assert_eq!(data_load(&mut buffer, ptr::null_mut()), 0);
            assert_eq!(data_unload(ptr::null_mut(), ptr::null_mut()), bad);
            assert_eq!(data_unload(&mut buffer, ptr::null_mut()), bad);
            assert_eq!(data_embed(ptr::null_mut(), ptr::null()), bad);
            assert_eq!(data_copy_payload(&mut buffer, ptr::null()), bad);
            assert_eq!(data_copy_payload(ptr::null_mut(), &buffer), bad);
            data_buffer_load(ptr::null_mut(), ptr::null_mut(), 3);
            data_buffer_unload(&mut buffer, ptr::null_mut(), ptr::null_mut());
        }
    }
}

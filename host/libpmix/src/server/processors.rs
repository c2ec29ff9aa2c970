//! Cpusets and localities as text. They need hwloc's library, and no server.
use crate::{
    abi::{CCpuset, CStatus},
    border,
    client::check_initialized,
    convert::ConvertError,
    hwloc::{self, HwlocLibrary},
    memory,
    values::cpuset,
};
use peal_model::{Status, code};
use std::{
    ffi::{c_char, c_void},
    ptr,
};

/// A bitmap of a cpuset, and the library that it belongs to.
struct Processors {
    hwloc: &'static HwlocLibrary,
    bitmap: *const c_void,
}

/// Reads a cpuset. It has no processors if its bitmap is null.
///
/// # Errors
///
/// `PMIX_ERR_BAD_PARAM` for null, `PMIX_ERR_NOT_SUPPORTED` for a source that is not hwloc, and
/// without hwloc's library.
///
/// # Safety
///
/// `cpuset` is null or points to a cpuset.
unsafe fn read(cpuset: *const CCpuset) -> Result<Processors, Status> {
    // SAFETY: the caller guarantees a cpuset or null.
    let cpuset = unsafe { cpuset.as_ref() }.ok_or(code::PMIX_ERR_BAD_PARAM)?;
    // SAFETY: the source of a cpuset is a string or null.
    if !unsafe { hwloc::is_source(cpuset.source) } {
        return Err(code::PMIX_ERR_NOT_SUPPORTED);
    }
    let hwloc = hwloc::library().ok_or(ConvertError::NoHwloc { what: "cpuset" })?;
    Ok(Processors {
        hwloc,
        bitmap: cpuset.bitmap,
    })
}

/// `PMIx_server_generate_locality_string`: writes where the processors of a cpuset are, such as
/// `SK0:L30:L20-1:L10-1:CR0-1:HT0-1:NM0`, which the caller frees. It writes null if the cpuset has none,
/// or all.
///
/// # Safety
///
/// `cpuset` is null or points to a cpuset, `locality` is null or points to a place for a string.
#[unsafe(export_name = "PMIx_server_generate_locality_string")]
pub unsafe extern "C" fn server_generate_locality_string(
    cpuset: *const CCpuset,
    locality: *mut *mut c_char,
) -> CStatus {
    border::status("PMIx_server_generate_locality_string", || {
        check_initialized()?;
        // SAFETY: the caller guarantees what `write_locality` demands.
        unsafe { write_locality(cpuset, locality) }
    })
}

/// Writes a locality, whether the library is initialized or not.
///
/// # Safety
///
/// As for [`server_generate_locality_string`].
unsafe fn write_locality(cpuset: *const CCpuset, locality: *mut *mut c_char) -> Result<(), Status> {
    // SAFETY: the caller guarantees a place or null.
    let place = unsafe { locality.as_mut() }.ok_or(code::PMIX_ERR_BAD_PARAM)?;
    *place = ptr::null_mut();
    // SAFETY: the caller guarantees a cpuset or null.
    let Processors { hwloc, bitmap } = unsafe { read(cpuset) }?;
    if bitmap.is_null() {
        return Ok(());
    }
    // SAFETY: the source of the cpuset says that it is a bitmap of hwloc.
    let list = unsafe { hwloc.bitmap_text(bitmap) }?;
    if list.as_bytes() == b"0-" {
        return Ok(());
    }
    let topology = hwloc.local_topology()?;
    // SAFETY: the topology is loaded, and the bitmap is one of hwloc.
    let text = unsafe { hwloc.locality(topology, bitmap) };
    if !text.is_empty() {
        *place = memory::copy_string(text.as_bytes())?;
    }
    Ok(())
}

/// `PMIx_server_generate_cpuset_string`: writes a cpuset as text, such as `hwloc:0-3,8`, which the caller
/// frees.
///
/// # Safety
///
/// `cpuset` is null or points to a cpuset, `cpuset_string` is null or points to a place for a string.
#[unsafe(export_name = "PMIx_server_generate_cpuset_string")]
pub unsafe extern "C" fn server_generate_cpuset_string(
    cpuset: *const CCpuset,
    cpuset_string: *mut *mut c_char,
) -> CStatus {
    border::status("PMIx_server_generate_cpuset_string", || {
        check_initialized()?;
        // SAFETY: the caller guarantees what `write_cpuset` demands.
        unsafe { write_cpuset(cpuset, cpuset_string) }
    })
}

/// Writes a cpuset, whether the library is initialized or not.
///
/// # Safety
///
/// As for [`server_generate_cpuset_string`].
unsafe fn write_cpuset(cpuset: *const CCpuset, text: *mut *mut c_char) -> Result<(), Status> {
    // SAFETY: the caller guarantees a place or null.
    let place = unsafe { text.as_mut() }.ok_or(code::PMIX_ERR_BAD_PARAM)?;
    *place = ptr::null_mut();
    // SAFETY: the caller guarantees a cpuset or null.
    let Processors { hwloc, bitmap } = unsafe { read(cpuset) }?;
    if bitmap.is_null() {
        return Err(code::PMIX_ERR_BAD_PARAM);
    }
    // SAFETY: the source of the cpuset says that it is a bitmap of hwloc.
    let list = unsafe { hwloc.bitmap_text(bitmap) }?;
    *place = memory::copy_string(&[b"hwloc:", list.as_bytes()].concat())?;
    Ok(())
}

/// `PMIx_server_generate_cpuset`: makes a cpuset of its text; since 6.1.
///
/// # Safety
///
/// `cpuset_string` is null or a string; `cpuset` is null or points to memory for a cpuset, whose old
/// contents are not freed.
#[unsafe(export_name = "PMIx_server_generate_cpuset")]
pub unsafe extern "C" fn server_generate_cpuset(
    cpuset_string: *const c_char,
    cpuset: *mut CCpuset,
) -> CStatus {
    border::status("PMIx_server_generate_cpuset", || {
        check_initialized()?;
        // SAFETY: the caller guarantees what `parse` demands.
        unsafe { cpuset::parse(cpuset_string, cpuset) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destruct::Destruct;
    use peal_needs::needs;
    use std::ffi::CStr;

    /// The C library needs hwloc, so it is there with it.
    #[needs(libpmix)]
    #[test]
    fn cpuset_has_a_text_and_a_locality() {
        let mut made = CCpuset::zeroed();
        let mut text = ptr::null_mut();
        // SAFETY: the cpuset is zeroed or hwloc's; the texts are strings or null.
        unsafe {
            let other = Err(code::PMIX_ERR_NOT_SUPPORTED);
            assert_eq!(write_cpuset(&made, &mut text), other);
            assert_eq!(write_locality(&made, &mut text), other);
            let bad = Err(code::PMIX_ERR_BAD_PARAM);
            assert_eq!(write_cpuset(ptr::null(), &mut text), bad);
            assert_eq!(write_locality(&made, ptr::null_mut()), bad);
            cpuset::parse(c"hwloc:0".as_ptr(), &mut made).unwrap();
            write_cpuset(&made, &mut text).unwrap();
            assert_eq!(CStr::from_ptr(text), c"hwloc:0");
            memory::free(text);
            write_locality(&made, &mut text).unwrap();
            let locality = CStr::from_ptr(text).to_str().unwrap();
            assert!(
                locality.contains("CR0") && locality.contains("HT0"),
                "{locality}"
            );
            memory::free(text);
            made.destruct();
            cpuset::parse(c"hwloc:0-".as_ptr(), &mut made).unwrap();
            write_locality(&made, &mut text).unwrap();
            assert!(text.is_null(), "all processors have no locality");
            made.destruct();
        }
    }
}

//! Cpusets and localities as text.
use crate::{
    abi::{CCpuset, CLocality, CStatus},
    border,
    client::check_initialized,
    convert::{CpusetList, write_into},
    destruct::Destruct,
};
use peal_model::{Status, Text, code, names::number};
use std::ffi::{CStr, c_char};

/// Beginning of what hwloc's part of the C library writes.
const SOURCE: &[u8] = b"hwloc:";

/// Returns what follows the source of a text.
///
/// # Errors
///
/// Fails with `PMIX_ERR_BAD_PARAM` for null and without a source, and with `PMIX_ERR_NOT_SUPPORTED`
/// for any source but hwloc.
///
/// # Safety
///
/// `text` is null or a string, which nothing changes while it is borrowed.
unsafe fn after_source<'a>(text: *const c_char) -> Result<&'a [u8], Status> {
    if text.is_null() {
        return Err(code::PMIX_ERR_BAD_PARAM);
    }
    // SAFETY: the caller guarantees a string.
    let text = unsafe { CStr::from_ptr(text) }.to_bytes();
    match text.split_at_checked(SOURCE.len()) {
        Some((source, rest)) if source.eq_ignore_ascii_case(SOURCE) => Ok(rest),
        _ if text.contains(&b':') => Err(code::PMIX_ERR_NOT_SUPPORTED),
        _ => Err(code::PMIX_ERR_BAD_PARAM),
    }
}

/// `PMIx_Parse_cpuset_string`: makes a cpuset of its text, such as `hwloc:0-3,8`. It needs hwloc's
/// library.
///
/// # Safety
///
/// `text` is null or a string; `cpuset` is null or points to memory for a cpuset, whose old contents
/// are not freed.
#[unsafe(export_name = "PMIx_Parse_cpuset_string")]
pub unsafe extern "C" fn parse_cpuset_string(text: *const c_char, cpuset: *mut CCpuset) -> CStatus {
    border::status("PMIx_Parse_cpuset_string", || {
        check_initialized()?;
        // SAFETY: the caller guarantees what `parse` demands.
        unsafe { parse(text, cpuset) }
    })
}

/// Makes a cpuset, whether the library is initialized or not.
///
/// # Safety
///
/// As for [`parse_cpuset_string`].
pub(crate) unsafe fn parse(text: *const c_char, cpuset: *mut CCpuset) -> Result<(), Status> {
    if cpuset.is_null() {
        return Err(code::PMIX_ERR_BAD_PARAM);
    }
    // SAFETY: the caller guarantees a string or null.
    let list = Text::from_bytes(unsafe { after_source(text) }?);
    let mut made = CCpuset::zeroed();
    let written = write_into(&CpusetList(Some(list)), &mut made);
    // SAFETY: the caller guarantees memory for a cpuset.
    unsafe { cpuset.write(made) };
    Ok(written?)
}

/// Returns the ranges of a list such as `0-3,8`; one without end has none. `None` for anything else.
fn ranges(list: &[u8]) -> Option<Vec<(u64, u64)>> {
    let text = str::from_utf8(list).ok()?;
    let parts = text.split(',').filter(|part| !part.is_empty());
    let range = |part: &str| {
        Some(match part.split_once('-') {
            Some((first, "")) => (first.parse().ok()?, u64::MAX),
            Some((first, last)) => (first.parse().ok()?, last.parse().ok()?),
            None => (part.parse().ok()?, part.parse().ok()?),
        })
    };
    parts.map(range).collect()
}

/// Returns true if two lists have a number in common.
fn intersect(first: &[u8], second: &[u8]) -> bool {
    let (Some(first), Some(second)) = (ranges(first), ranges(second)) else {
        return false;
    };
    let mut pairs = first
        .iter()
        .flat_map(|first| second.iter().map(move |second| (first, second)));
    pairs.any(|(first, second)| first.0 <= second.1 && second.0 <= first.1)
}

/// Returns what two localities share, such as `NM0:SK0:L30-1:CR2`.
fn shared(first: &[u8], second: &[u8]) -> CLocality {
    /// Letters of the parts of a locality.
    const PARTS: [(&[u8], u64); 7] = [
        (b"NM", number::PMIX_LOCALITY_SHARE_NUMA),
        (b"SK", number::PMIX_LOCALITY_SHARE_PACKAGE),
        (b"L3", number::PMIX_LOCALITY_SHARE_L3CACHE),
        (b"L2", number::PMIX_LOCALITY_SHARE_L2CACHE),
        (b"L1", number::PMIX_LOCALITY_SHARE_L1CACHE),
        (b"CR", number::PMIX_LOCALITY_SHARE_CORE),
        (b"HT", number::PMIX_LOCALITY_SHARE_HWTHREAD),
    ];
    fn part<'a>(locality: &'a [u8], letters: &[u8]) -> Option<&'a [u8]> {
        let mut parts = locality.split(|byte| *byte == b':');
        parts.find_map(|part| part.strip_prefix(letters))
    }
    let mut all = number::PMIX_LOCALITY_SHARE_NODE;
    for (letters, bit) in PARTS {
        if let (Some(first), Some(second)) = (part(first, letters), part(second, letters))
            && intersect(first, second)
        {
            all |= bit;
        }
    }
    all as CLocality
}

/// `PMIx_Get_relative_locality`: writes what two procs of a node share, by the texts of their
/// localities, such as `hwloc:SK0:CR0-1`.
///
/// # Safety
///
/// The texts are null or strings; `locality` is null or points to a variable.
#[unsafe(export_name = "PMIx_Get_relative_locality")]
pub unsafe extern "C" fn get_relative_locality(
    first: *const c_char,
    second: *const c_char,
    locality: *mut CLocality,
) -> CStatus {
    border::status("PMIx_Get_relative_locality", || {
        check_initialized()?;
        // SAFETY: the caller guarantees what `compare` demands.
        unsafe { compare(first, second, locality) }
    })
}

/// Writes what two localities share, whether the library is initialized or not.
///
/// # Safety
///
/// As for [`get_relative_locality`].
pub(crate) unsafe fn compare(
    first: *const c_char,
    second: *const c_char,
    locality: *mut CLocality,
) -> Result<(), Status> {
    // SAFETY: the caller guarantees strings and a variable, or null.
    let (first, second) = unsafe { (after_source(first)?, after_source(second)?) };
    // SAFETY: as above.
    let locality = unsafe { locality.as_mut() }.ok_or(code::PMIX_ERR_BAD_PARAM)?;
    *locality = shared(first, second);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hwloc;
    use std::ptr;

    #[test]
    fn localities_share_what_their_numbers_share() {
        let node = number::PMIX_LOCALITY_SHARE_NODE as CLocality;
        let socket = number::PMIX_LOCALITY_SHARE_PACKAGE as CLocality;
        let core = number::PMIX_LOCALITY_SHARE_CORE as CLocality;
        assert_eq!(shared(b"SK0:CR0-1", b"SK0:CR2"), node | socket);
        assert_eq!(shared(b"SK0:CR0-1", b"SK0:CR1,5"), node | socket | core);
        assert_eq!(shared(b"SK0", b"SK1"), node);
        assert_eq!(shared(b"CRx", b"CR0-"), node);
        let bad = Err(code::PMIX_ERR_BAD_PARAM);
        let mut locality = 0;
        // SAFETY: the texts are strings or null.
        unsafe {
            let text = c"hwloc:SK0".as_ptr();
            assert_eq!(compare(text, text, &mut locality), Ok(()));
            assert_eq!(locality, node | socket);
            assert_eq!(compare(text, ptr::null(), &mut locality), bad);
            assert_eq!(compare(text, text, ptr::null_mut()), bad);
        }
    }

    #[test]
    fn cpuset_of_hwloc_is_made_and_others_are_refused() {
        let mut cpuset = CCpuset::zeroed();
        // SAFETY: the texts are strings or null.
        unsafe {
            let bad = Err(code::PMIX_ERR_BAD_PARAM);
            let unsupported = Err(code::PMIX_ERR_NOT_SUPPORTED);
            assert_eq!(parse(ptr::null(), &mut cpuset), bad);
            assert_eq!(parse(c"0-1".as_ptr(), &mut cpuset), bad);
            assert_eq!(parse(c"other:0".as_ptr(), &mut cpuset), unsupported);
            assert_eq!(parse(c"hwloc:0".as_ptr(), ptr::null_mut()), bad);
            let status = parse(c"HWLOC:0-3,8".as_ptr(), &mut cpuset);
            assert_eq!(
                status,
                if hwloc::library().is_some() {
                    Ok(())
                } else {
                    unsupported
                }
            );
            cpuset.destruct();
        }
    }
}

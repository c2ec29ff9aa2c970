//! Keys, namespaces and procs: what the macros `PMIX_LOAD_*`, `PMIX_CHECK_*` and `PMIX_*_INVALID` of
//! 4.2 do.
use super::strings::c_bool;
use crate::{
    abi::{CBool, CKey, CNspace, CProc, CRank, KEY_SIZE, NSPACE_SIZE},
    border,
    convert::fill_characters,
};
use peal_model::rank;
use std::{ffi::c_char, slice};

/// Longest key and namespace, without a NUL.
const MAX_KEY: usize = KEY_SIZE - 1;
const MAX_NSPACE: usize = NSPACE_SIZE - 1;

/// Returns a string of at most `max` bytes, which need no NUL; empty for null.
///
/// # Safety
///
/// `text` is null, or points to a string that ends with a NUL or to `max` bytes. Nothing changes them
/// while they are borrowed.
pub(super) unsafe fn bounded<'a>(text: *const c_char, max: usize) -> &'a [u8] {
    if text.is_null() {
        return &[];
    }
    // SAFETY: the caller guarantees a NUL or `max` bytes.
    unsafe { slice::from_raw_parts(text.cast(), libc::strnlen(text, max)) }
}

/// Writes a string into an array of characters, and clears the rest. The string may be in the array.
///
/// # Safety
///
/// `target` is null or points to an array; `text` is as for [`bounded`].
unsafe fn load<const SIZE: usize>(target: *mut [c_char; SIZE], text: *const c_char) {
    // SAFETY: the caller guarantees a string or null.
    let text = unsafe { bounded(text, SIZE.saturating_sub(1)) }.to_vec();
    // SAFETY: the caller guarantees an array or null.
    if let Some(target) = unsafe { target.as_mut() } {
        fill_characters(target, &text);
    }
}

/// `PMIx_Load_key`: copies a string into a key, cut to 511 bytes; null clears it.
///
/// # Safety
///
/// `key` is null or points to a key; `text` is null, or a string or a key.
#[unsafe(export_name = "PMIx_Load_key")]
pub unsafe extern "C" fn load_key(key: *mut CKey, text: *const c_char) {
    // SAFETY: the caller guarantees what `load` demands.
    border::value("PMIx_Load_key", (), || unsafe { load(key, text) });
}

/// `PMIx_Load_nspace`: copies a string into a namespace, cut to 255 bytes; null clears it.
///
/// # Safety
///
/// `nspace` is null or points to a namespace; `text` is null, or a string or a namespace.
#[unsafe(export_name = "PMIx_Load_nspace")]
pub unsafe extern "C" fn load_nspace(nspace: *mut CNspace, text: *const c_char) {
    // SAFETY: the caller guarantees what `load` demands.
    border::value("PMIx_Load_nspace", (), || unsafe { load(nspace, text) });
}

/// Writes a proc.
///
/// # Safety
///
/// As [`load_procid`].
unsafe fn write_proc(proc: *mut CProc, nspace: *const c_char, rank: CRank) {
    if proc.is_null() {
        return;
    }
    // SAFETY: the caller guarantees a proc, and a string, a namespace or null.
    unsafe {
        load(&raw mut (*proc).nspace, nspace);
        (*proc).rank = rank;
    }
}

/// `PMIx_Load_procid`: writes a proc of a namespace and a rank.
///
/// # Safety
///
/// `proc` is null or points to a proc; `nspace` is null, or a string or a namespace.
#[unsafe(export_name = "PMIx_Load_procid")]
pub unsafe extern "C" fn load_procid(proc: *mut CProc, nspace: *const c_char, rank: CRank) {
    // SAFETY: the caller guarantees what `write_proc` demands.
    border::value("PMIx_Load_procid", (), || unsafe {
        write_proc(proc, nspace, rank)
    });
}

/// `PMIx_Proc_load`: the same as [`load_procid`].
///
/// # Safety
///
/// As [`load_procid`].
#[unsafe(export_name = "PMIx_Proc_load")]
pub unsafe extern "C" fn proc_load(proc: *mut CProc, nspace: *const c_char, rank: CRank) {
    // SAFETY: the caller guarantees what `write_proc` demands.
    border::value("PMIx_Proc_load", (), || unsafe {
        write_proc(proc, nspace, rank)
    });
}

/// `PMIx_Xfer_procid`: copies a proc.
///
/// # Safety
///
/// Both pointers are null or point to procs, which may be the same.
#[unsafe(export_name = "PMIx_Xfer_procid")]
pub unsafe extern "C" fn xfer_procid(target: *mut CProc, source: *const CProc) {
    border::value("PMIx_Xfer_procid", (), || {
        // SAFETY: the caller guarantees procs or null.
        if let (false, Some(source)) = (target.is_null(), unsafe { source.as_ref() }) {
            let copy = *source;
            // SAFETY: the pointer is not null.
            unsafe { *target = copy };
        }
    });
}

/// `PMIx_Check_key`: returns true if two keys are equal.
///
/// # Safety
///
/// Each argument is null, or a string or a key.
#[unsafe(export_name = "PMIx_Check_key")]
pub unsafe extern "C" fn check_key(key: *const c_char, other: *const c_char) -> CBool {
    border::value("PMIx_Check_key", 0, || {
        if key.is_null() || other.is_null() {
            return 0;
        }
        // SAFETY: the caller guarantees strings or keys.
        c_bool(unsafe { bounded(key, MAX_KEY) == bounded(other, MAX_KEY) })
    })
}

/// `PMIx_Check_reserved_key`: returns true if a key belongs to the Standard.
///
/// # Safety
///
/// `key` is null, or a string or a key.
#[unsafe(export_name = "PMIx_Check_reserved_key")]
pub unsafe extern "C" fn check_reserved_key(key: *const c_char) -> CBool {
    border::value("PMIx_Check_reserved_key", 0, || {
        // SAFETY: the caller guarantees a string, a key or null.
        c_bool(unsafe { bounded(key, MAX_KEY) }.starts_with(b"pmix"))
    })
}

/// `PMIx_Nspace_invalid`: returns true if a namespace is empty.
///
/// # Safety
///
/// `nspace` is null, or a string or a namespace.
#[unsafe(export_name = "PMIx_Nspace_invalid")]
pub unsafe extern "C" fn nspace_invalid(nspace: *const c_char) -> CBool {
    border::value("PMIx_Nspace_invalid", 1, || {
        // SAFETY: the caller guarantees a string, a namespace or null.
        c_bool(unsafe { bounded(nspace, MAX_NSPACE) }.is_empty())
    })
}

/// Returns true if two namespaces are equal, or if one of them is empty, which stands for all.
///
/// # Safety
///
/// Each argument is null, or a string or a namespace.
unsafe fn is_same_nspace(nspace: *const c_char, other: *const c_char) -> bool {
    // SAFETY: the caller guarantees strings, namespaces or null.
    let (first, second) = unsafe { (bounded(nspace, MAX_NSPACE), bounded(other, MAX_NSPACE)) };
    first.is_empty() || second.is_empty() || first == second
}

/// Returns true if two ranks are equal, or if one of them stands for all.
fn is_same_rank(first: CRank, second: CRank) -> bool {
    let wildcard = rank::PMIX_RANK_WILDCARD.0;
    first == second || first == wildcard || second == wildcard
}

/// `PMIx_Check_nspace`: returns true if two namespaces are equal or one of them is empty.
///
/// # Safety
///
/// Each argument is null, or a string or a namespace.
#[unsafe(export_name = "PMIx_Check_nspace")]
pub unsafe extern "C" fn check_nspace(nspace: *const c_char, other: *const c_char) -> CBool {
    border::value("PMIx_Check_nspace", 0, || {
        // SAFETY: the caller guarantees what `is_same_nspace` demands.
        c_bool(unsafe { is_same_nspace(nspace, other) })
    })
}

/// `PMIx_Check_rank`: returns true if two ranks are equal or one of them is the wildcard.
#[unsafe(export_name = "PMIx_Check_rank")]
pub extern "C" fn check_rank(first: CRank, second: CRank) -> CBool {
    border::value("PMIx_Check_rank", 0, || c_bool(is_same_rank(first, second)))
}

/// `PMIx_Rank_valid`: returns true if a rank is that of a proc, not one of the Standard's own.
#[unsafe(export_name = "PMIx_Rank_valid")]
pub extern "C" fn rank_valid(number: CRank) -> CBool {
    border::value("PMIx_Rank_valid", 0, || {
        c_bool(number < rank::PMIX_RANK_VALID.0)
    })
}

/// `PMIx_Check_procid`: returns true if namespaces and ranks are equal, or stand for all.
///
/// # Safety
///
/// Each argument is null or points to a proc.
#[unsafe(export_name = "PMIx_Check_procid")]
pub unsafe extern "C" fn check_procid(first: *const CProc, second: *const CProc) -> CBool {
    border::value("PMIx_Check_procid", 0, || {
        // SAFETY: the caller guarantees procs or null.
        let (Some(first), Some(second)) = (unsafe { first.as_ref() }, unsafe { second.as_ref() })
        else {
            return 0;
        };
        // SAFETY: both are namespaces.
        let same = unsafe { is_same_nspace(first.nspace.as_ptr(), second.nspace.as_ptr()) };
        c_bool(same && is_same_rank(first.rank, second.rank))
    })
}

/// `PMIx_Procid_invalid`: returns true if a proc has no namespace, or an invalid rank.
///
/// # Safety
///
/// `proc` is null or points to a proc.
#[unsafe(export_name = "PMIx_Procid_invalid")]
pub unsafe extern "C" fn procid_invalid(proc: *const CProc) -> CBool {
    border::value("PMIx_Procid_invalid", 1, || {
        // SAFETY: the caller guarantees a proc or null.
        let Some(proc) = (unsafe { proc.as_ref() }) else {
            return 1;
        };
        // SAFETY: the pointer is to a namespace.
        let nspace = unsafe { bounded(proc.nspace.as_ptr(), MAX_NSPACE) };
        c_bool(nspace.is_empty() || proc.rank == rank::PMIX_RANK_INVALID.0)
    })
}

/// `PMIx_Multicluster_nspace_construct`: joins a cluster and a namespace by a colon. The result is
/// empty if it would be too long.
///
/// # Safety
///
/// `target` is null or points to a namespace; the others are null, or a string or a namespace.
#[unsafe(export_name = "PMIx_Multicluster_nspace_construct")]
pub unsafe extern "C" fn multicluster_nspace_construct(
    target: *mut CNspace,
    cluster: *const c_char,
    nspace: *const c_char,
) {
    border::value("PMIx_Multicluster_nspace_construct", (), || {
        // SAFETY: the caller guarantees strings, namespaces or null.
        let joined =
            unsafe { [bounded(cluster, MAX_NSPACE), bounded(nspace, MAX_NSPACE)].join(&b':') };
        // SAFETY: the caller guarantees a namespace or null.
        if let Some(target) = unsafe { target.as_mut() } {
            let fits = joined.len() <= MAX_NSPACE;
            fill_characters(target, if fits { &joined } else { &[] });
        }
    });
}

/// `PMIx_Multicluster_nspace_parse`: splits a namespace at its first colon. Without a colon all of it
/// is the cluster.
///
/// # Safety
///
/// `source` is null, or a string or a namespace; the others are null or point to namespaces.
#[unsafe(export_name = "PMIx_Multicluster_nspace_parse")]
pub unsafe extern "C" fn multicluster_nspace_parse(
    source: *const c_char,
    cluster: *mut CNspace,
    nspace: *mut CNspace,
) {
    border::value("PMIx_Multicluster_nspace_parse", (), || {
        // SAFETY: the caller guarantees a string, a namespace or null.
        let joined = unsafe { bounded(source, MAX_NSPACE) }.to_vec();
        let mut parts = joined.splitn(2, |byte| *byte == b':');
        for target in [cluster, nspace] {
            let part = parts.next().unwrap_or_default();
            // SAFETY: the caller guarantees a namespace or null.
            if let Some(target) = unsafe { target.as_mut() } {
                fill_characters(target, part);
            }
        }
    });
}

/// `PMIx_Proc_string`: returns a proc as `[namespace,rank]`, which the caller frees; null if the heap
/// has no memory left.
///
/// # Safety
///
/// `proc` is null or points to a proc.
#[unsafe(export_name = "PMIx_Proc_string")]
pub unsafe extern "C" fn proc_string(proc: *const CProc) -> *mut c_char {
    border::value("PMIx_Proc_string", std::ptr::null_mut(), || {
        // SAFETY: the caller guarantees a proc or null.
        let text = unsafe { proc.as_ref() }.map_or_else(|| b"[NO-NAME]".to_vec(), proc_text);
        crate::memory::copy_string(&text).unwrap_or(std::ptr::null_mut())
    })
}

/// Returns a proc as `[namespace,rank]`.
pub(super) fn proc_text(proc: &CProc) -> Vec<u8> {
    // SAFETY: the pointer is to a namespace.
    let nspace = unsafe { bounded(proc.nspace.as_ptr(), MAX_NSPACE) };
    let rank = match peal_model::Rank(proc.rank) {
        rank::PMIX_RANK_UNDEF => "UNDEF".to_owned(),
        rank::PMIX_RANK_WILDCARD => "WILDCARD".to_owned(),
        rank::PMIX_RANK_LOCAL_NODE => "LOCAL_NODE".to_owned(),
        rank::PMIX_RANK_LOCAL_PEERS => "LOCAL_PEERS".to_owned(),
        rank::PMIX_RANK_INVALID => "INVALID".to_owned(),
        peal_model::Rank(number) => number.to_string(),
    };
    [b"[", nspace, b",", rank.as_bytes(), b"]"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destruct::Destruct;
    use std::ptr;

    fn proc(nspace: &std::ffi::CStr, rank: CRank) -> CProc {
        let mut proc = CProc::zeroed();
        // SAFETY: the pointers are to a proc and a string.
        unsafe { load_procid(&mut proc, nspace.as_ptr(), rank) };
        proc
    }

    #[test]
    fn null_pointers_match_nothing_and_change_nothing() {
        // SAFETY: null is allowed.
        unsafe {
            load_key(ptr::null_mut(), c"k".as_ptr());
            load_nspace(ptr::null_mut(), ptr::null());
            load_procid(ptr::null_mut(), ptr::null(), 0);
            xfer_procid(ptr::null_mut(), ptr::null());
            multicluster_nspace_construct(ptr::null_mut(), ptr::null(), ptr::null());
            multicluster_nspace_parse(ptr::null(), ptr::null_mut(), ptr::null_mut());
            assert_eq!(check_key(ptr::null(), ptr::null()), 0);
            assert_eq!(check_reserved_key(ptr::null()), 0);
            assert_eq!(check_procid(ptr::null(), ptr::null()), 0);
            assert_eq!(check_nspace(ptr::null(), c"n".as_ptr()), 1);
            assert_eq!(
                (nspace_invalid(ptr::null()), procid_invalid(ptr::null())),
                (1, 1)
            );
        }
    }

    #[test]
    fn procs_match_by_namespace_and_rank_or_wildcard() {
        let wildcard = rank::PMIX_RANK_WILDCARD.0;
        for (first, second, same) in [
            (proc(c"job", 1), proc(c"job", 1), 1),
            (proc(c"job", 1), proc(c"job", 2), 0),
            (proc(c"job", 1), proc(c"job", wildcard), 1),
            (proc(c"job", 1), proc(c"other", 1), 0),
            (proc(c"job", 1), proc(c"", 1), 1),
        ] {
            // SAFETY: both are procs.
            assert_eq!(unsafe { check_procid(&first, &second) }, same);
        }
        assert_eq!((rank_valid(0), rank_valid(wildcard)), (1, 0));
    }

    #[test]
    fn key_may_be_loaded_from_itself_and_long_ones_are_cut() {
        let mut key = [0; KEY_SIZE];
        let long = std::ffi::CString::new("k".repeat(600)).unwrap();
        // SAFETY: the pointers are to a key and strings.
        unsafe {
            load_key(&mut key, long.as_ptr());
            load_key(&mut key, key.as_ptr());
            assert_eq!(bounded(key.as_ptr(), KEY_SIZE).len(), MAX_KEY);
            assert_eq!(check_key(key.as_ptr(), long.as_ptr()), 1);
            load_key(&mut key, ptr::null());
            assert_eq!(key, [0; KEY_SIZE]);
        }
    }

    #[test]
    fn clusters_and_namespaces_join_and_split() {
        let (mut joined, mut cluster, mut nspace) = ([0; NSPACE_SIZE], [1; NSPACE_SIZE], [1; 256]);
        let long = std::ffi::CString::new("n".repeat(255)).unwrap();
        // SAFETY: the pointers are to namespaces and strings.
        unsafe {
            multicluster_nspace_construct(&mut joined, c"c".as_ptr(), c"n:1".as_ptr());
            multicluster_nspace_parse(joined.as_ptr(), &mut cluster, &mut nspace);
            assert_eq!(bounded(cluster.as_ptr(), 255), b"c");
            assert_eq!(bounded(nspace.as_ptr(), 255), b"n:1");
            multicluster_nspace_construct(&mut joined, c"c".as_ptr(), long.as_ptr());
            assert_eq!(nspace_invalid(joined.as_ptr()), 1);
        }
    }
}

//! Data symbols of the library.
use std::ffi::c_char;

/// A list of names that ends with a null pointer.
#[repr(transparent)]
pub struct CNames<const SIZE: usize>([*const c_char; SIZE]);

// SAFETY: the pointers are to strings that never change.
unsafe impl<const SIZE: usize> Sync for CNames<SIZE> {}

/// `pmix_framework_names`: the frameworks of the C library. Open MPI 5 takes a setting whose name
/// begins with one of them for a setting of PMIx.
#[unsafe(export_name = "pmix_framework_names")]
pub static FRAMEWORK_NAMES: CNames<18> = CNames([
    c"bfrops".as_ptr(),
    c"gds".as_ptr(),
    c"pcompress".as_ptr(),
    c"pdl".as_ptr(),
    c"pgpu".as_ptr(),
    c"pif".as_ptr(),
    c"pinstalldirs".as_ptr(),
    c"plog".as_ptr(),
    c"pmdl".as_ptr(),
    c"pnet".as_ptr(),
    c"preg".as_ptr(),
    c"prm".as_ptr(),
    c"psec".as_ptr(),
    c"psensor".as_ptr(),
    c"psquash".as_ptr(),
    c"pstat".as_ptr(),
    c"ptl".as_ptr(),
    std::ptr::null(),
]);

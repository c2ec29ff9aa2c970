//! C strings of names that are Rust strings: made once, and never freed.
use std::{
    collections::HashMap,
    ffi::{CStr, CString, c_char},
    sync::{Mutex, PoisonError},
};

/// Returns a name as a C string that is never freed. There are as many as the registry has names.
pub(super) fn c_name(name: &'static str) -> *const c_char {
    static NAMES: Mutex<Option<HashMap<&'static str, &'static CStr>>> = Mutex::new(None);
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = names.get_or_insert_default();
    let text = known.entry(name).or_insert_with(|| {
        // No name has a NUL; one that had would be printed as empty.
        Box::leak(CString::new(name).unwrap_or_default().into_boxed_c_str())
    });
    text.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_has_one_address() {
        let first = c_name("PMIX_HOST");
        assert_eq!(first, c_name("PMIX_HOST"));
        // SAFETY: the pointer is to a string that is never freed.
        assert_eq!(unsafe { CStr::from_ptr(first) }, c"PMIX_HOST");
    }
}

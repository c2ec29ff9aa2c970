//! Statuses as texts, and texts as statuses.
use super::{interned::c_name, status_texts::STATUS_TEXTS};
use crate::{abi::CStatus, border};
use peal_model::{
    Status,
    names::{STATUS_ALIASES, STATUS_NAMES},
};
use std::ffi::{CStr, c_char};

/// `PMIx_Error_string`: returns a text that is never freed: that of 4.2.2, or the name of a status
/// that 4.2.2 lacks.
#[unsafe(export_name = "PMIx_Error_string")]
pub extern "C" fn error_string(status: CStatus) -> *const c_char {
    const UNKNOWN: &CStr = c"ERROR STRING NOT FOUND";
    border::value("PMIx_Error_string", UNKNOWN.as_ptr(), || match STATUS_TEXTS
        .binary_search_by_key(&status, |entry| entry.0)
    {
        Ok(at) => STATUS_TEXTS
            .get(at)
            .map_or(UNKNOWN, |entry| entry.1)
            .as_ptr(),
        Err(_) => Status(status).name().map_or(UNKNOWN.as_ptr(), c_name),
    })
}

/// `PMIx_Error_code`: returns the status of a name, or of a text of [`error_string`], in any case of
/// the letters; the smallest number if there is none.
///
/// # Safety
///
/// `name` is null or points to a string that ends with a NUL.
#[unsafe(export_name = "PMIx_Error_code")]
pub unsafe extern "C" fn error_code(name: *const c_char) -> CStatus {
    border::value("PMIx_Error_code", CStatus::MIN, || {
        if name.is_null() {
            return CStatus::MIN;
        }
        // SAFETY: the caller guarantees a string.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        let names = STATUS_NAMES
            .iter()
            .map(|entry| (entry.1.as_bytes(), entry.0));
        let aliases = STATUS_ALIASES
            .iter()
            .map(|entry| (entry.0.as_bytes(), entry.1));
        let texts = STATUS_TEXTS
            .iter()
            .map(|entry| (entry.1.to_bytes(), entry.0));
        let mut all = names.chain(aliases).chain(texts);
        let found = all.find(|entry| entry.0.eq_ignore_ascii_case(name));
        found.map_or(CStatus::MIN, |entry| entry.1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::code;

    #[test]
    fn code_of_a_name_in_any_case_and_of_a_text() {
        // SAFETY: the arguments are strings or null.
        unsafe {
            assert_eq!(
                error_code(c"pmix_err_TIMEOUT".as_ptr()),
                code::PMIX_ERR_TIMEOUT.0
            );
            assert_eq!(
                error_code(c"BAD-PARAM".as_ptr()),
                code::PMIX_ERR_BAD_PARAM.0
            );
            assert_eq!(error_code(c"none".as_ptr()), i32::MIN);
            assert_eq!(error_code(std::ptr::null()), i32::MIN);
        }
    }

    #[test]
    fn status_that_4_2_lacks_has_its_name() {
        // SAFETY: the function returns a string.
        let text = unsafe { CStr::from_ptr(error_string(-405)) };
        assert_eq!(text, c"PMIX_ERR_IOF_XOFF");
    }
}

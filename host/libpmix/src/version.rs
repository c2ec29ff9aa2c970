//! The version of the library.
use crate::border;
use std::ffi::{CStr, c_char};

/// Text of `PMIx_Get_version`: the form of OpenPMIx, of which programs read the first number, with
/// the version of Peal in the place of the revision of a repository. The release is the one of which
/// the library has the behaviour.
const VERSION: &str = concat!(
    "OpenPMIx 4.2.2, Peal ",
    env!("CARGO_PKG_VERSION"),
    " (PMIx Standard: 4.2, Stable ABI: 0.0, Provisional ABI: 0.0)\0"
);

/// `PMIx_Get_version`: returns a text that is never freed. It may be called before the
/// initialization.
#[unsafe(export_name = "PMIx_Get_version")]
pub extern "C" fn get_version() -> *const c_char {
    border::value("PMIx_Get_version", c"".as_ptr(), || {
        CStr::from_bytes_with_nul(VERSION.as_bytes())
            .unwrap_or_default()
            .as_ptr()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_begins_as_that_of_openpmix() {
        // SAFETY: the function returns a string.
        let version = unsafe { CStr::from_ptr(get_version()) }.to_str().unwrap();
        let begin = concat!("OpenPMIx 4.2.2, Peal ", env!("CARGO_PKG_VERSION"), " (");
        assert!(version.starts_with(begin), "{version}");
    }
}

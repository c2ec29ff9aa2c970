//! Executable of the server that a host environment starts.
use super::home::{HomeError, Setting};
use std::{
    ffi::{CStr, OsStr},
    fs, mem,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
};

/// Places of the executable, after that beside the library.
const PLACES: [&str; 2] = ["/usr/bin/peal", "/usr/local/bin/peal"];

/// Finds the executable: the one that is set, or else the one beside the library.
pub(super) fn find(set: Option<PathBuf>) -> Result<PathBuf, HomeError> {
    let looked = match set {
        Some(path) => vec![path],
        None => candidates(library().as_deref()),
    };
    match looked.iter().find(|path| is_executable(path)) {
        Some(path) => Ok(path.clone()),
        None => Err(HomeError::NoExecutable {
            variable: Setting::EXECUTABLE,
            looked,
        }),
    }
}

/// Returns the places of the executable for a library in this file.
fn candidates(library: Option<&Path>) -> Vec<PathBuf> {
    let beside = |library: &Path| Some(library.parent()?.parent()?.join("bin/peal"));
    // The library may be loaded by a link into another directory.
    let real = library.and_then(|library| fs::canonicalize(library).ok());
    let mut places: Vec<PathBuf> = [library, real.as_deref()]
        .into_iter()
        .flatten()
        .filter_map(beside)
        .collect();
    places.extend(PLACES.map(PathBuf::from));
    places.dedup();
    places
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Returns the file of this library, as it was loaded.
fn library() -> Option<PathBuf> {
    // SAFETY: numbers and pointers may be zero.
    let mut found: libc::Dl_info = unsafe { mem::zeroed() };
    let address: fn() -> Option<PathBuf> = library;
    // SAFETY: the address is one of this library, and `found` is a place for the result.
    if unsafe { libc::dladdr(address as *const libc::c_void, &mut found) } == 0
        || found.dli_fname.is_null()
    {
        return None;
    }
    // SAFETY: the name is a string of the loader, which lives as long as the library.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    let path = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
    // One that was loaded by a relative name is where it was loaded; the directory may be another.
    std::path::absolute(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_beside_the_library_is_found() {
        let root = tempfile::tempdir().unwrap();
        let lib = root.path().join("lib");
        let bin = root.path().join("bin");
        fs::create_dir_all(&lib).unwrap();
        fs::create_dir_all(&bin).unwrap();
        let peal = bin.join("peal");
        fs::write(&peal, "").unwrap();
        let places = candidates(Some(&lib.join("libpmix.so.2")));
        assert_eq!(places.first(), Some(&peal));
        assert!(!is_executable(&peal));
        fs::set_permissions(&peal, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(is_executable(&peal));
        assert_eq!(find(Some(peal.clone())).unwrap(), peal);
        assert!(library().is_some_and(|path| path.is_absolute()));
    }

    #[test]
    fn error_names_every_place_that_was_looked_at() {
        let set = PathBuf::from("/nowhere/peal");
        let text = find(Some(set)).unwrap_err().to_string();
        assert!(text.contains("/nowhere/peal"), "{text}");
        let text = HomeError::NoExecutable {
            variable: Setting::EXECUTABLE,
            looked: candidates(Some(Path::new("/opt/peal/lib/libpmix.so.2"))),
        };
        let text = text.to_string();
        for place in ["/opt/peal/bin/peal", "/usr/bin/peal", "/usr/local/bin/peal"] {
            assert!(text.contains(place), "{text}");
        }
    }
}

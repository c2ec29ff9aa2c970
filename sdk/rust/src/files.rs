//! Capability `files`: reads and writes files in directories that the admin granted to this module.
//!
//! A path is relative to its directory and cannot leave it. Operations take effect immediately,
//! also if the call then fails. All are refused with [`crate::status::PMIX_ERR_NOT_FOUND`] for a
//! directory or file that does not exist, with [`crate::status::PMIX_ERR_NO_PERMISSIONS`] for a
//! path that leaves its directory and for missing access rights, and with
//! [`crate::status::PMIX_ERR_BAD_PARAM`] for a path that is empty, longer than 4096 bytes, or not
//! that of a regular file.
use crate::bindings::files;

/// Returns the names of the granted directories, sorted.
pub fn directories() -> Vec<String> {
    files::directories()
}

/// Returns the content of a file.
///
/// # Errors
/// The status of the refusal: [`crate::status::PMIX_ERR_OUT_OF_RESOURCE`] beyond 16 MiB.
pub fn read(directory: &str, path: &str) -> Result<Vec<u8>, i32> {
    files::read(directory, path)
}

/// Replaces the content of a file, or creates the file; creates no directories.
///
/// # Errors
/// The status of the refusal: [`crate::status::PMIX_ERR_OUT_OF_RESOURCE`] if the file would exceed
/// 16 MiB, or the directory its quota.
pub fn write(directory: &str, path: &str, bytes: impl AsRef<[u8]>) -> Result<(), i32> {
    files::write(directory, path, bytes.as_ref())
}

/// Appends to a file, or creates the file.
///
/// # Errors
/// Those of [`write`].
pub fn append(directory: &str, path: &str, bytes: impl AsRef<[u8]>) -> Result<(), i32> {
    files::append(directory, path, bytes.as_ref())
}

/// Removes a file.
///
/// # Errors
/// The status of the refusal.
pub fn remove(directory: &str, path: &str) -> Result<(), i32> {
    files::remove(directory, path)
}

/// Returns the names of the entries of a directory, sorted; the path `.` is the granted directory
/// itself.
///
/// # Errors
/// The status of the refusal: [`crate::status::PMIX_ERR_OUT_OF_RESOURCE`] beyond 10,000 entries.
pub fn list(directory: &str, path: &str) -> Result<Vec<String>, i32> {
    files::list(directory, path)
}

//! Capability `files`: files in directories that the admin named for this module.
//!
//! A path is relative to its directory and leads nowhere else. Whatever is done takes effect at once, also if the call then
//! fails. Everything is refused with [`crate::status::PMIX_ERR_NOT_FOUND`] for a directory or file that is not there, with
//! [`crate::status::PMIX_ERR_NO_PERMISSIONS`] for a path that leads out of its directory and for what may not be read or
//! changed, and with [`crate::status::PMIX_ERR_BAD_PARAM`] for a path that is empty or longer than 4096 bytes, or that names
//! no regular file.
use crate::bindings::files;

/// The names of the directories, in their order.
pub fn directories() -> Vec<String> {
    files::directories()
}

/// All of a file.
///
/// # Errors
/// The status with which it was refused: [`crate::status::PMIX_ERR_OUT_OF_RESOURCE`] for one of more than 16 MiB.
pub fn read(directory: &str, path: &str) -> Result<Vec<u8>, i32> {
    files::read(directory, path)
}

/// Puts these bytes in the place of a file's, or makes it; no directories are made.
///
/// # Errors
/// The status with which it was refused: [`crate::status::PMIX_ERR_OUT_OF_RESOURCE`] where the file would have more than
/// 16 MiB, or the directory more than its quota.
pub fn write(directory: &str, path: &str, bytes: impl AsRef<[u8]>) -> Result<(), i32> {
    files::write(directory, path, bytes.as_ref())
}

/// Puts these bytes behind those of a file, or makes it.
///
/// # Errors
/// As of [`write`].
pub fn append(directory: &str, path: &str, bytes: impl AsRef<[u8]>) -> Result<(), i32> {
    files::append(directory, path, bytes.as_ref())
}

/// Drops a file.
///
/// # Errors
/// The status with which it was refused.
pub fn remove(directory: &str, path: &str) -> Result<(), i32> {
    files::remove(directory, path)
}

/// The names of what is in a directory, in their order: by the path `.` in the named one itself.
///
/// # Errors
/// The status with which it was refused: [`crate::status::PMIX_ERR_OUT_OF_RESOURCE`] where there are more than 10,000.
pub fn entries(directory: &str, path: &str) -> Result<Vec<String>, i32> {
    files::entries(directory, path)
}

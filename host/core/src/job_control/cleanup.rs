//! Removal of files after the end of procs (`PMIX_REGISTER_CLEANUP`, `PMIX_REGISTER_CLEANUP_DIR`
//! and related directives).
use super::JobControlError;
use peal_model::{Proc, Value, key};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

/// Maximum number of files, of directories and of ignored names in one registration.
const MAX_PATHS: usize = 65_536;
/// Maximum length of a path, in bytes.
const MAX_PATH: usize = 4096;

/// Files and directories to remove when all of some procs have ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cleanup {
    /// Single known procs, each once, in order. The removal follows the end of the last one.
    pub procs: Vec<Proc>,
    /// Absolute paths of files. A path that is a directory by then is left alone.
    pub files: BTreeSet<PathBuf>,
    /// Absolute paths of directories. A path that is no directory by then, or a link to one, is
    /// left alone.
    pub directories: BTreeSet<PathBuf>,
    /// The depth of the removal.
    pub depth: Depth,
    /// The entries of directories that are removed.
    pub subdirectories: Subdirectories,
    /// The handling of the directories themselves.
    pub top: TopDirectory,
    /// Names without a path that are left alone anywhere in the directories
    /// (`PMIX_CLEANUP_IGNORE`).
    pub ignored: BTreeSet<OsString>,
}

/// The depth of a removal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Depth {
    /// Removes files directly in a directory only.
    #[default]
    Flat,
    /// Removes files in subdirectories, too (`PMIX_CLEANUP_RECURSIVE`).
    Recursive,
}

/// The entries of directories that are removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Subdirectories {
    /// Files, and directories that are empty after that.
    #[default]
    All,
    /// Empty directories only (`PMIX_CLEANUP_EMPTY`).
    OnlyEmpty,
}

/// The handling of a registered directory itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum TopDirectory {
    /// Removes the directory if it is empty.
    #[default]
    Remove,
    /// Leaves the directory (`PMIX_CLEANUP_LEAVE_TOPDIR`).
    Leave,
}

impl Cleanup {
    /// Checks that no path is both removed and ignored, or both a file and a directory.
    pub(super) fn check_consistency(&self) -> Result<(), JobControlError> {
        let all = self.files.iter().chain(&self.directories);
        // Ignored names have no path, so they are compared with the last component only.
        let ignored = all.into_iter().find(|path| {
            path.file_name()
                .is_some_and(|name| self.ignored.contains(name))
        });
        let twice = self.files.intersection(&self.directories).next();
        let (path, contradiction) = match (ignored, twice) {
            (Some(path), _) => (
                path,
                "is to be removed, and its name is among those that are ignored",
            ),
            (None, Some(path)) => (path, "is to be removed as a file and as a directory"),
            (None, None) => return Ok(()),
        };
        Err(JobControlError::ConflictingCleanup {
            path: path.to_string_lossy().into_owned(),
            contradiction,
        })
    }
}

/// Adds the comma-separated paths of a directive to those of earlier directives.
pub(super) fn add_paths(
    paths: &mut BTreeSet<PathBuf>,
    value: &Value,
    key: &'static str,
) -> Result<(), JobControlError> {
    let expected = "absolute paths without .., of at most 4096 bytes each and with commas between them, a PMIX_STRING; \
                  one request registers at most 65536";
    let path = |word: &[u8]| {
        let path = Path::new(OsStr::from_bytes(word));
        // `..` could lead out of the directories below which the site permits removals.
        let is_plain = path
            .components()
            .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        let fits =
            word.len() <= MAX_PATH && path.is_absolute() && is_plain && path.file_name().is_some();
        fits.then(|| path.to_path_buf())
    };
    add(paths, value, path).ok_or(JobControlError::BadDirective { key, expected })
}

/// Adds the comma-separated names of a directive to those of earlier directives.
pub(super) fn add_names(
    names: &mut BTreeSet<OsString>,
    value: &Value,
) -> Result<(), JobControlError> {
    let expected = "names of files, without a path and with commas between them, a PMIX_STRING; \
                  one request ignores at most 65536";
    let name = |word: &[u8]| {
        // No file has such a name.
        let is_name = !word.contains(&b'/') && word != b"." && word != b"..";
        is_name.then(|| OsStr::from_bytes(word).to_os_string())
    };
    add(names, value, name).ok_or(JobControlError::BadDirective {
        key: key::PMIX_CLEANUP_IGNORE.0,
        expected,
    })
}

/// Adds each word of a value, parsed by `read`. Returns none if a word is invalid, there is none,
/// or the number exceeds the limit.
fn add<T: Ord>(
    known: &mut BTreeSet<T>,
    value: &Value,
    read: impl Fn(&[u8]) -> Option<T>,
) -> Option<()> {
    for word in split_list(value)? {
        known.insert(read(word)?);
        // Checked for each word, so that a long text takes no more memory than the limit.
        if known.len() > MAX_PATHS {
            return None;
        }
    }
    Some(())
}

/// Returns the words of a string, if there are any.
fn split_list(value: &Value) -> Option<Vec<&[u8]>> {
    let Value::String(Some(text)) = value else {
        return None;
    };
    let words: Vec<&[u8]> = text
        .as_bytes()
        .split(|byte| *byte == b',')
        .filter(|word| !word.is_empty())
        .collect();
    Some(words).filter(|words| !words.is_empty())
}

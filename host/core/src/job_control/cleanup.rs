//! What is to be removed when procs have ended (`PMIX_REGISTER_CLEANUP`, `PMIX_REGISTER_CLEANUP_DIR` and what goes with them).
use super::JobControlError;
use peal_model::{Proc, Value, key};
use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

/// How many files, directories and ignored names one registration may have, of each.
const MAX_PATHS: usize = 65_536;
/// How long a path may be, in bytes.
const MAX_PATH: usize = 4096;

/// What is to be removed, once all of some procs have ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cleanup {
    /// Single procs, each once and known, in their order: when the last of them has ended, it is removed.
    pub procs: Vec<Proc>,
    /// Absolute paths of files. One that is a directory by then is left alone.
    pub files: BTreeSet<PathBuf>,
    /// Absolute paths of directories. One that is no directory by then, a link to one too, is left alone.
    pub directories: BTreeSet<PathBuf>,
    /// How deep it goes in the directories.
    pub depth: Depth,
    /// Which of the directories in them are removed.
    pub subdirectories: Subdirectories,
    /// Whether the directories themselves go.
    pub top: TopDirectory,
    /// Names, without a path, of what is left alone wherever it lies in the directories (`PMIX_CLEANUP_IGNORE`).
    pub ignored: BTreeSet<OsString>,
}

/// How deep it goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Depth {
    /// Only files that lie in a directory itself are removed.
    #[default]
    Flat,
    /// What lies in the directories in it, too (`PMIX_CLEANUP_RECURSIVE`).
    Recursive,
}

/// What of directories is removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Subdirectories {
    /// Files, and the directories that are empty then.
    #[default]
    All,
    /// No file, only directories that are empty (`PMIX_CLEANUP_EMPTY`).
    OnlyEmpty,
}

/// What becomes of a registered directory itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TopDirectory {
    /// It is removed if nothing is left in it.
    #[default]
    Remove,
    /// It stays (`PMIX_CLEANUP_LEAVE_TOPDIR`).
    Leave,
}

impl Cleanup {
    /// Nothing is to be removed that is to be left, or is both a file and a directory.
    pub(super) fn contradicts_nothing(&self) -> Result<(), JobControlError> {
        let all = self.files.iter().chain(&self.directories);
        let ignored = all.into_iter().find(|path| {
            path.file_name()
                .is_some_and(|name| self.ignored.contains(name))
        });
        let twice = self.files.intersection(&self.directories).next();
        let (path, why) = match (ignored, twice) {
            (Some(path), _) => (
                path,
                "is to be removed, and its name is among those that are ignored",
            ),
            (None, Some(path)) => (path, "is to be removed as a file and as a directory"),
            (None, None) => return Ok(()),
        };
        Err(JobControlError::ConflictingCleanup {
            path: path.to_string_lossy().into_owned(),
            why,
        })
    }
}

/// Adds the paths of one directive to those of the directives before it. Commas separate paths.
pub(super) fn add_paths(
    paths: &mut BTreeSet<PathBuf>,
    value: &Value,
    key: &'static str,
) -> Result<(), JobControlError> {
    let wanted = "absolute paths without .., of at most 4096 bytes each and with commas between them, a PMIX_STRING; \
                  one request registers at most 65536";
    let path = |word: &[u8]| {
        let path = Path::new(OsStr::from_bytes(word));
        let is_plain = path
            .components()
            .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        let fits =
            word.len() <= MAX_PATH && path.is_absolute() && is_plain && path.file_name().is_some();
        fits.then(|| path.to_path_buf())
    };
    add(paths, value, path).ok_or(JobControlError::BadDirective { key, wanted })
}

/// Adds the names of one directive to those of the directives before it. Commas separate names.
pub(super) fn add_names(
    names: &mut BTreeSet<OsString>,
    value: &Value,
) -> Result<(), JobControlError> {
    let wanted = "names of files, without a path and with commas between them, a PMIX_STRING; \
                  one request ignores at most 65536";
    let name = |word: &[u8]| {
        let is_name = !word.contains(&b'/') && word != b"." && word != b"..";
        is_name.then(|| OsStr::from_bytes(word).to_os_string())
    };
    add(names, value, name).ok_or(JobControlError::BadDirective {
        key: key::PMIX_CLEANUP_IGNORE.0,
        wanted,
    })
}

/// Adds each word of a value as `read` reads it; none if a word is wrong, there is none, or there are too many in all.
fn add<T: Ord>(
    known: &mut BTreeSet<T>,
    value: &Value,
    read: impl Fn(&[u8]) -> Option<T>,
) -> Option<()> {
    for word in words(value)? {
        known.insert(read(word)?);
        if known.len() > MAX_PATHS {
            return None;
        }
    }
    Some(())
}

/// The words of a string, if there are any.
fn words(value: &Value) -> Option<Vec<&[u8]>> {
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

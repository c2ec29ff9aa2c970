//! Files of a project on which its component and its results depend.
use anyhow::{Context, Result, bail};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, Metadata},
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Largest number of files. More are no project, but a home directory perhaps.
const MAX_FILES: usize = 20_000;

/// Directories that build tools write.
const WRITTEN: [&str; 3] = ["target", "node_modules", "__pycache__"];

/// Extensions of files that `peal module build` and `sign` write.
const RESULTS: [&str; 2] = ["wasm", "minisig"];

/// Files and their states. A file that was only read is equal.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SourceFiles {
    files: BTreeMap<PathBuf, FileState>,
    directories: BTreeSet<PathBuf>,
}

/// State of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
struct FileState {
    len: u64,
    modified: Option<SystemTime>,
}

impl FileState {
    fn of(metadata: &Metadata) -> FileState {
        FileState {
            len: metadata.len(),
            modified: metadata.modified().ok(),
        }
    }
}

impl SourceFiles {
    /// Reads the states of the files below a directory, and of others.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be read or has too many files.
    pub fn read(dir: &Path, others: &[PathBuf]) -> Result<SourceFiles> {
        let mut found = SourceFiles::default();
        found.add_directory(dir)?;
        for file in others {
            // A file that is missing for a moment is there again after the next change.
            if let Ok(metadata) = fs::metadata(file) {
                found.files.insert(file.clone(), FileState::of(&metadata));
            }
            found.directories.extend(file.parent().map(Path::to_owned));
        }
        Ok(found)
    }

    /// Returns the directories in which a change shows.
    pub fn directories(&self) -> impl Iterator<Item = PathBuf> {
        self.directories.iter().cloned()
    }

    fn add_directory(&mut self, dir: &Path) -> Result<()> {
        self.directories.insert(dir.to_owned());
        for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let path = entry.path();
            // Editors write hidden files, and so do version control systems.
            if name.starts_with('.') || is_result(&path) {
                continue;
            }
            // Not through links: they may lead around in a circle.
            let kind = entry.file_type()?;
            if kind.is_dir() && !WRITTEN.contains(&&*name) {
                self.add_directory(&path)?;
            } else if kind.is_file()
                && let Ok(metadata) = entry.metadata()
            {
                self.files.insert(path, FileState::of(&metadata));
            }
            if self.files.len() > MAX_FILES {
                bail!(
                    "more than {MAX_FILES} files are in {}: this is no project of one module",
                    dir.display()
                );
            }
        }
        Ok(())
    }
}

fn is_result(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    RESULTS.iter().any(|result| extension == *result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_count_and_what_tools_write_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let file = dir.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        let read = || SourceFiles::read(dir.path(), &[]).unwrap();
        write("src/lib.rs", "one");
        let first = read();
        for written in [
            "target/x.o",
            "own.wasm",
            "own.wasm.minisig",
            ".lib.rs.swp",
            "a/.git/x",
        ] {
            write(written, "x");
        }
        assert_eq!(read().files, first.files);
        write("src/lib.rs", "other");
        let second = read();
        assert_ne!(second, first);
        write("tests/cases.toml", "");
        assert_ne!(read(), second);
        assert!(read().directories.contains(&dir.path().join("tests")));
    }
}

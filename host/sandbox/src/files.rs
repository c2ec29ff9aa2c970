//! Capability `files`: directories that an admin named for a module. `cap-std` ensures that no path
//! leads out of them.
use crate::bindings::peal::pmix::files;
use crate::host_calls::{HostCallRequest, RecordedResult};
use crate::instance_state::InstanceState;
use crate::services::CapabilityResult;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, MetadataExt, OpenOptions, OpenOptionsExt};
use peal_model::{Status, code};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Bound on the size of a file that is read or written, in bytes.
pub const MAX_FILE: u64 = 16 * 1024 * 1024;
/// Bound on the length of a path, in bytes.
pub const MAX_PATH: usize = 4096;
/// Bound on the entries of a directory that are listed.
const MAX_ENTRIES: usize = 10_000;
/// Bytes that a file counts for at least: an empty file takes space as well.
pub const LEAST_FILE: u64 = 4096;
/// Depth to which nested directories are counted.
const MAX_DEPTH: usize = 32;

/// Access to a granted directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileAccess {
    /// Files may be read.
    Read,
    /// Files may be read and written. All files together may have at most `quota` bytes, and each
    /// counts [`LEAST_FILE`] bytes at least.
    ReadWrite {
        /// Bound on the bytes of all files.
        quota: u64,
    },
}

/// An open directory.
#[derive(Debug)]
pub struct GrantedDirectory {
    dir: Dir,
    access: FileAccess,
    used: Arc<Used>,
}

/// Bytes of all files in a directory. Other programs may write there, so the number is an estimate.
/// The lock is held while a file is written.
type Used = Mutex<u64>;

/// Directories that are open for writing, by device and inode. Opening one again shares its count,
/// so that the copies of a module share one quota.
#[derive(Debug, Default)]
pub struct Directories(Mutex<BTreeMap<(u64, u64), Weak<Used>>>);

impl Directories {
    /// Opens a directory. If it may be written to, the files in it are counted.
    pub fn open(&self, path: &Path, access: FileAccess) -> io::Result<GrantedDirectory> {
        let dir = Dir::open_ambient_dir(path, ambient_authority())?;
        let used = match access {
            FileAccess::Read => Arc::default(),
            FileAccess::ReadWrite { .. } => {
                let used = self.used(&dir)?;
                // Hold the lock so that no guest writes while the files are counted.
                let mut counted = locked(&used);
                *counted = size_of_files(&dir, MAX_DEPTH)?;
                drop(counted);
                used
            }
        };
        Ok(GrantedDirectory { dir, access, used })
    }

    fn used(&self, dir: &Dir) -> io::Result<Arc<Used>> {
        let metadata = dir.dir_metadata()?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Directories that no module has open any more are forgotten.
        known.retain(|_, used| used.strong_count() > 0);
        let known = known.entry((metadata.dev(), metadata.ino())).or_default();
        Ok(known.upgrade().unwrap_or_else(|| {
            let used = Arc::default();
            *known = Arc::downgrade(&used);
            used
        }))
    }
}

fn locked(used: &Used) -> MutexGuard<'_, u64> {
    used.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the bytes that a file of a length counts for.
fn cost(len: u64) -> u64 {
    len.max(LEAST_FILE)
}

/// Files of a directory that a module may use. It is called on a guest thread.
pub trait DirectoryService: Send + Sync {
    /// Returns the contents of a file.
    fn read(&self, path: &str) -> Result<Vec<u8>, Status>;
    /// Writes to a file, which is created if it does not exist.
    fn write(&self, path: &str, bytes: &[u8], place: WritePosition) -> Result<(), Status>;
    /// Removes a file.
    fn remove(&self, path: &str) -> Result<(), Status>;
    /// Returns the names of the entries of a directory, sorted.
    fn entries(&self, path: &str) -> Result<Vec<String>, Status>;
}

impl GrantedDirectory {
    /// Opens a directory without sharing its count.
    pub fn open(path: &Path, access: FileAccess) -> io::Result<GrantedDirectory> {
        Directories::default().open(path, access)
    }

    /// Opens a regular file. `O_NONBLOCK` keeps a pipe from blocking the guest thread.
    fn open_file(&self, path: &str, options: &mut OpenOptions) -> Result<File, Status> {
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
        let file = self
            .dir
            .open_with(checked(path)?, options.custom_flags(flags))
            .map_err(status)?;
        // Ask the open file: the path may lead to another one by now.
        let is_file = file.metadata().map_err(status)?.is_file();
        if is_file {
            Ok(file)
        } else {
            Err(code::PMIX_ERR_BAD_PARAM)
        }
    }
}

impl DirectoryService for GrantedDirectory {
    fn read(&self, path: &str) -> Result<Vec<u8>, Status> {
        let file = self.open_file(path, OpenOptions::new().read(true))?;
        let mut bytes = Vec::new();
        // The length of the file can change while it is read. One byte more than allowed shows that
        // it is too long.
        file.take(MAX_FILE + 1)
            .read_to_end(&mut bytes)
            .map_err(status)?;
        if bytes.len() as u64 > MAX_FILE {
            Err(code::PMIX_ERR_OUT_OF_RESOURCE)
        } else {
            Ok(bytes)
        }
    }

    fn write(&self, path: &str, bytes: &[u8], place: WritePosition) -> Result<(), Status> {
        let FileAccess::ReadWrite { quota } = self.access else {
            return Err(code::PMIX_ERR_NO_PERMISSIONS);
        };
        let mut used = locked(&self.used);
        // Neither create nor truncate yet: a write that is refused below must leave no empty file
        // and keep the old content.
        let there = match self.open_file(path, OpenOptions::new().write(true)) {
            Ok(file) => Some((file.metadata().map_err(status)?.len(), file)),
            Err(code::PMIX_ERR_NOT_FOUND) => None,
            Err(status) => return Err(status),
        };
        let (old, before) = there.as_ref().map_or((0, 0), |(len, _)| (*len, cost(*len)));
        let start = match place {
            WritePosition::Replace => 0,
            WritePosition::Append => old,
        };
        let len = start.saturating_add(bytes.len() as u64);
        let all = used.saturating_sub(before).saturating_add(cost(len));
        // Over the quota, only a write that does not enlarge the file is allowed.
        if len > MAX_FILE || all > quota && cost(len) > before {
            return Err(code::PMIX_ERR_OUT_OF_RESOURCE);
        }
        let mut file = match there {
            Some((_, file)) => file,
            None => self.open_file(
                path,
                OpenOptions::new().write(true).create(true).mode(0o600),
            )?,
        };
        let written = file.set_len(start).and_then(|()| {
            file.seek(SeekFrom::Start(start))?;
            file.write_all(bytes)
        });
        // A failed write may have written a part, so the length is read again.
        let now = file.metadata().map_or(len, |metadata| metadata.len());
        *used = used.saturating_sub(before).saturating_add(cost(now));
        written.map_err(status)
    }

    fn remove(&self, path: &str) -> Result<(), Status> {
        if self.access == FileAccess::Read {
            return Err(code::PMIX_ERR_NO_PERMISSIONS);
        }
        let path = checked(path)?;
        // Locked before the file is looked at, so that no write changes its size in between.
        let mut used = locked(&self.used);
        // Of a link itself, since that is what is removed.
        let found = self.dir.symlink_metadata(path).map_err(status)?;
        self.dir.remove_file(path).map_err(status)?;
        // Only files were counted (`size_of_files`).
        *used = used.saturating_sub(if found.is_file() {
            cost(found.len())
        } else {
            0
        });
        Ok(())
    }

    fn entries(&self, path: &str) -> Result<Vec<String>, Status> {
        let mut names = Vec::new();
        for entry in self.dir.read_dir(checked(path)?).map_err(status)? {
            if names.len() >= MAX_ENTRIES {
                return Err(code::PMIX_ERR_OUT_OF_RESOURCE);
            }
            // A name that is not UTF-8 has no form in the contract and is left out.
            names.extend(entry.map_err(status)?.file_name().into_string());
        }
        names.sort_unstable();
        Ok(names)
    }
}

/// Position at which bytes are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum WritePosition {
    /// The start: the old content is replaced.
    Replace,
    /// The end of the file.
    Append,
}

fn size_of_files(dir: &Dir, depth: usize) -> io::Result<u64> {
    let mut sum: u64 = 0;
    for entry in dir.entries()? {
        let entry = entry?;
        // Links are neither followed nor counted.
        let kind = entry.file_type()?;
        if kind.is_file() {
            sum = sum.saturating_add(cost(entry.metadata()?.len()));
        } else if kind.is_dir() && depth > 0 {
            sum = sum.saturating_add(size_of_files(&entry.open_dir()?, depth - 1)?);
        }
    }
    Ok(sum)
}

/// Checks the length of a path and that it has no NUL; `cap-std` checks its target.
fn checked(path: &str) -> Result<&str, Status> {
    match path.len() {
        1..=MAX_PATH if !path.contains('\0') => Ok(path),
        _ => Err(code::PMIX_ERR_BAD_PARAM),
    }
}

/// Returns the status for an error. A path out of the directory counts as missing permission.
fn status(error: io::Error) -> Status {
    match error.kind() {
        ErrorKind::NotFound => code::PMIX_ERR_NOT_FOUND,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            code::PMIX_ERR_NO_PERMISSIONS
        }
        ErrorKind::IsADirectory
        | ErrorKind::NotADirectory
        | ErrorKind::InvalidInput
        | ErrorKind::InvalidFilename => code::PMIX_ERR_BAD_PARAM,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            code::PMIX_ERR_OUT_OF_RESOURCE
        }
        _ => code::PMIX_ERROR,
    }
}

impl files::Host for InstanceState {
    fn directories(&mut self) -> wasmtime::Result<Vec<String>> {
        self.recorded_call(
            0,
            || HostCallRequest::Directories,
            |host| Ok(host.services.files.keys().cloned().collect()),
        )
    }

    fn read(&mut self, directory: String, path: String) -> CapabilityResult<Vec<u8>> {
        let request = || HostCallRequest::ReadFile {
            directory: directory.clone(),
            path: path.clone(),
        };
        self.in_directory(&directory, 0, request, |dir| dir.read(&path))
    }

    fn write(&mut self, directory: String, path: String, bytes: Vec<u8>) -> CapabilityResult<()> {
        let request = || HostCallRequest::WriteFile {
            directory: directory.clone(),
            path: path.clone(),
            bytes: bytes.as_slice().into(),
        };
        self.in_directory(&directory, bytes.len(), request, |dir| {
            dir.write(&path, &bytes, WritePosition::Replace)
        })
    }

    fn append(&mut self, directory: String, path: String, bytes: Vec<u8>) -> CapabilityResult<()> {
        let request = || HostCallRequest::AppendFile {
            directory: directory.clone(),
            path: path.clone(),
            bytes: bytes.as_slice().into(),
        };
        self.in_directory(&directory, bytes.len(), request, |dir| {
            dir.write(&path, &bytes, WritePosition::Append)
        })
    }

    fn remove(&mut self, directory: String, path: String) -> CapabilityResult<()> {
        let request = || HostCallRequest::RemoveFile {
            directory: directory.clone(),
            path: path.clone(),
        };
        self.in_directory(&directory, 0, request, |dir| dir.remove(&path))
    }

    fn list(&mut self, directory: String, path: String) -> CapabilityResult<Vec<String>> {
        let request = || HostCallRequest::Entries {
            directory: directory.clone(),
            path: path.clone(),
        };
        self.in_directory(&directory, 0, request, |dir| dir.entries(&path))
    }
}

impl InstanceState {
    /// Runs `work` on a directory, at the cost of `output` bytes.
    fn in_directory<R: RecordedResult>(
        &mut self,
        directory: &str,
        output: usize,
        request: impl FnOnce() -> HostCallRequest,
        work: impl FnOnce(&dyn DirectoryService) -> Result<R, Status>,
    ) -> CapabilityResult<R> {
        let answer: Result<R, Status> = self.recorded_call(output, request, |host| {
            let found = host.services.files.get(directory);
            Ok(found.map_or(Err(code::PMIX_ERR_NOT_FOUND), |directory| {
                work(&**directory)
            }))
        })?;
        Ok(answer.map_err(|status| status.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::{fs, process::Command};

    const GONE: Status = code::PMIX_ERR_NOT_FOUND;
    const DENIED: Status = code::PMIX_ERR_NO_PERMISSIONS;
    const FULL: Status = code::PMIX_ERR_OUT_OF_RESOURCE;

    /// Returns a granted directory and a file `secret` beside it.
    fn setting(access: FileAccess) -> (tempfile::TempDir, GrantedDirectory) {
        let temporary = tempfile::tempdir().unwrap();
        fs::create_dir_all(temporary.path().join("open/sub")).unwrap();
        fs::write(temporary.path().join("secret"), "secret").unwrap();
        fs::write(temporary.path().join("open/sub/note"), "note").unwrap();
        let dir = GrantedDirectory::open(&temporary.path().join("open"), access).unwrap();
        (temporary, dir)
    }

    fn writing(quota: u64) -> (tempfile::TempDir, GrantedDirectory) {
        setting(FileAccess::ReadWrite { quota })
    }

    #[test]
    fn files_are_written_read_listed_and_removed() {
        let (_temporary, dir) = writing(5 * LEAST_FILE);
        dir.write("a", b"one", WritePosition::Replace).unwrap();
        dir.write("a", b" two", WritePosition::Append).unwrap();
        dir.write("sub/b", b"", WritePosition::Append).unwrap();
        assert_eq!(dir.read("a").unwrap(), b"one two");
        dir.write("a", b"x", WritePosition::Replace).unwrap();
        assert_eq!(
            dir.read("sub/../a").unwrap(),
            b"x",
            "the way back is no way out"
        );
        assert_eq!(
            (dir.entries(".").unwrap(), dir.entries("sub").unwrap()),
            (
                vec!["a".into(), "sub".into()],
                vec!["b".into(), "note".into()]
            )
        );
        dir.remove("a").unwrap();
        assert_eq!((dir.read("a"), dir.remove("a")), (Err(GONE), Err(GONE)));
        assert_eq!(dir.write("none/a", b"", WritePosition::Replace), Err(GONE));
    }

    #[test]
    fn no_path_leads_out() {
        let (temporary, dir) = writing(1000);
        let inside = temporary.path().join("open");
        let secret = temporary.path().join("secret");
        symlink("../secret", inside.join("link")).unwrap();
        symlink(&secret, inside.join("absolute")).unwrap();
        symlink("..", inside.join("up")).unwrap();
        symlink("/", inside.join("root")).unwrap();
        symlink("../../secret", inside.join("sub/link")).unwrap();
        symlink("sub/note", inside.join("good")).unwrap();
        let secret = secret.to_str().unwrap();
        for path in [
            "../secret",
            "sub/../../secret",
            "link",
            "absolute",
            "up/secret",
            "sub/link",
            secret,
            "/etc/passwd",
            "root/etc/passwd",
        ] {
            assert_eq!(dir.read(path), Err(DENIED), "{path}");
            assert_eq!(
                dir.write(path, b"x", WritePosition::Replace),
                Err(DENIED),
                "{path}"
            );
            assert_eq!(
                dir.write(path, b"x", WritePosition::Append),
                Err(DENIED),
                "{path}"
            );
        }
        for path in ["..", "up", "root", "/", "sub/../.."] {
            assert_eq!(dir.entries(path), Err(DENIED), "{path}");
        }
        for path in ["../secret", "up/secret", "/etc/passwd"] {
            assert_eq!(dir.remove(path), Err(DENIED), "{path}");
        }
        assert_eq!(fs::read(secret).unwrap(), b"secret");
        assert_eq!(
            dir.read("good").unwrap(),
            b"note",
            "a link may lead to what is within"
        );
        dir.remove("link").unwrap();
        assert_eq!(
            fs::read(secret).unwrap(),
            b"secret",
            "a link is removed, not what it leads to"
        );
    }

    #[test]
    fn a_link_that_is_swapped_meanwhile_leads_out_neither() {
        let (temporary, dir) = writing(1_000_000);
        let inside = temporary.path().join("open");
        let real = inside.join("turn");
        let outside = temporary.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("note"), "outside").unwrap();
        std::thread::scope(|scope| {
            let swapping = scope.spawn(|| {
                for _ in 0..2000 {
                    fs::create_dir(&real).unwrap();
                    fs::write(real.join("note"), "inside").unwrap();
                    fs::remove_dir_all(&real).unwrap();
                    symlink(&outside, &real).unwrap();
                    fs::remove_file(&real).unwrap();
                }
            });
            while !swapping.is_finished() {
                assert_ne!(dir.read("turn/note").as_deref(), Ok(&b"outside"[..]));
                // It may be made while the directory is taken away; then that is not empty.
                let _ = dir.write("other", b"x", WritePosition::Replace);
            }
        });
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    }

    #[test]
    fn read_only_directory_is_not_changed() {
        let (_temporary, dir) = setting(FileAccess::Read);
        assert_eq!(dir.read("sub/note").unwrap(), b"note");
        assert_eq!(
            (
                dir.write("x", b"", WritePosition::Replace),
                dir.remove("sub/note")
            ),
            (Err(DENIED), Err(DENIED))
        );
    }

    #[test]
    fn sizes_are_limited() {
        let (temporary, dir) = writing(4 * LEAST_FILE);
        let inside = temporary.path().join("open");
        let large = vec![0; 3 * LEAST_FILE as usize];
        dir.write("a", &large, WritePosition::Replace).unwrap();
        assert_eq!(
            dir.write("b", b"", WritePosition::Replace),
            Err(FULL),
            "with the one that was there it is full"
        );
        assert!(!inside.join("b").exists(), "not even made");
        assert_eq!(dir.write("a", b"1", WritePosition::Append), Err(FULL));
        dir.write("sub/note", b"longer", WritePosition::Append)
            .unwrap();
        dir.write("a", b"12345", WritePosition::Replace).unwrap();
        for name in ["b", "c"] {
            dir.write(name, b"", WritePosition::Replace).unwrap();
        }
        assert_eq!(
            dir.write("d", b"", WritePosition::Replace),
            Err(FULL),
            "empty files count as well"
        );
        dir.remove("sub/note").unwrap();
        dir.write("b", b"123", WritePosition::Append).unwrap();
        dir.write("d", b"", WritePosition::Replace).unwrap();
        let large = fs::File::create(inside.join("large")).unwrap();
        large.set_len(MAX_FILE + 1).unwrap();
        assert_eq!(dir.read("large"), Err(FULL));
        large.set_len(MAX_FILE).unwrap();
        assert_eq!(dir.read("large").unwrap().len() as u64, MAX_FILE);
        let roomy =
            GrantedDirectory::open(&inside, FileAccess::ReadWrite { quota: u64::MAX }).unwrap();
        assert_eq!(roomy.write("large", b"x", WritePosition::Append), Err(FULL));
    }

    #[test]
    fn directory_opened_twice_is_counted_once() {
        let temporary = tempfile::tempdir().unwrap();
        let directories = Directories::default();
        let access = FileAccess::ReadWrite {
            quota: 3 * LEAST_FILE,
        };
        let open = || directories.open(temporary.path(), access).unwrap();
        let one = open();
        one.write("a", b"1", WritePosition::Replace).unwrap();
        let two = open();
        two.write("b", b"1", WritePosition::Replace).unwrap();
        one.write("c", b"1", WritePosition::Replace).unwrap();
        assert_eq!(
            (
                one.write("d", b"", WritePosition::Replace),
                two.write("e", b"", WritePosition::Replace)
            ),
            (Err(FULL), Err(FULL))
        );
        one.remove("a").unwrap();
        two.write("e", b"", WritePosition::Replace).unwrap();
        drop((one, two));
        fs::remove_file(temporary.path().join("b")).unwrap();
        open().write("d", b"", WritePosition::Replace).unwrap();
    }

    #[test]
    fn irregular_file_is_neither_read_nor_waited_for() {
        let (temporary, dir) = writing(1000);
        let pipe = temporary.path().join("open/pipe");
        assert!(
            Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        for path in [
            "pipe",
            ".",
            "sub",
            "",
            "a\0b",
            "x".repeat(MAX_PATH + 1).as_str(),
        ] {
            assert_eq!(dir.read(path), Err(code::PMIX_ERR_BAD_PARAM), "{path}");
        }
        assert!(dir.write("sub", b"x", WritePosition::Replace).is_err());
        assert!(dir.write("pipe", b"x", WritePosition::Replace).is_err());
        assert_eq!(dir.entries("sub/note"), Err(code::PMIX_ERR_BAD_PARAM));
    }
}

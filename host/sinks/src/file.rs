//! Files as sinks. A message is written at once, as a whole or not at all, and the sender gets the
//! result. A file that is full is rotated; the oldest one is removed.
//!
//! Several processes may write to one file. They take turns by a lock on the file `NAME.lock`
//! beside it, which only its owner can open, so that no other user can block them.
use crate::{SinkError, SinkWriteError};
use cap_std::{
    ambient_authority,
    fs::{Dir, File, MetadataExt, OpenOptions, OpenOptionsExt},
};
use rustix::fs::OFlags;
use std::{
    fs::TryLockError,
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// Maximum time to wait for the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between attempts to take the lock.
const LOCK_POLL: Duration = Duration::from_millis(2);

/// Settings of a file sink.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileSettings {
    /// Path of the file. Its directory must exist.
    pub path: PathBuf,
    /// Mode of a new file.
    pub mode: u32,
    /// Size in bytes at which the file is rotated.
    pub max_bytes: u64,
    /// Number of rotated files that are kept: `NAME.1`, the latest, `NAME.2` and so on.
    pub keep: u32,
    /// Maximum length of a message in bytes.
    pub max_message: usize,
    /// Durability of a message.
    pub sync: FileSync,
}

/// Durability of a message that was written to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FileSync {
    /// The message survives the end of the process. The last ones may be lost in a crash of the
    /// machine.
    #[default]
    Never,
    /// The message survives a crash of the machine: each write waits for the disk.
    Each,
}

impl FileSettings {
    /// Returns the default settings, with a file that other users cannot read.
    pub fn new(path: impl Into<PathBuf>) -> FileSettings {
        FileSettings {
            path: path.into(),
            mode: 0o600,
            max_bytes: 64 << 20,
            keep: 5,
            max_message: 1 << 20,
            sync: FileSync::default(),
        }
    }
}

/// An open file sink.
#[derive(Debug)]
pub(crate) struct FileSink {
    name: String,
    settings: FileSettings,
    dir: Dir,
    file_name: String,
    lock: std::fs::File,
    file: Mutex<File>,
}

impl FileSink {
    pub(crate) fn open(name: &str, settings: FileSettings) -> Result<FileSink, SinkError> {
        let invalid = |setting, value, right| SinkError::Setting {
            name: name.to_owned(),
            setting,
            value,
            right,
        };
        let path = &settings.path;
        let file_name = path
            .file_name()
            .and_then(|file| file.to_str())
            .map(str::to_owned);
        let file_name = file_name
            .ok_or_else(|| invalid("path", format!("{path:?}"), "that of a file, in UTF-8"))?;
        if settings.mode & !0o666 != 0 {
            return Err(invalid(
                "mode",
                format!("{:o}", settings.mode),
                "permissions to read and write, such as 640",
            ));
        }
        if settings.max_bytes == 0 || settings.max_message == 0 {
            return Err(invalid(
                "max_bytes or max_message",
                "0".to_owned(),
                "one at least",
            ));
        }
        let of = |source| SinkError::File {
            name: name.to_owned(),
            path: path.clone(),
            source,
        };
        let parent = path
            .parent()
            .filter(|dir| !dir.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let dir = Dir::open_ambient_dir(parent, ambient_authority()).map_err(of)?;
        // A file of its own: the sink's file is replaced by rotation, and its mode may let others
        // lock it.
        let lock = open_file(&dir, &format!("{file_name}.lock"), 0o600)
            .map_err(of)?
            .into_std();
        let file = Mutex::new(open_file(&dir, &file_name, settings.mode).map_err(of)?);
        Ok(FileSink {
            name: name.to_owned(),
            settings,
            dir,
            file_name,
            lock,
            file,
        })
    }

    /// Writes a message and appends a newline if it has none. After an error the file is unchanged.
    pub(crate) fn write(&self, mut bytes: Vec<u8>) -> Result<(), SinkWriteError> {
        if bytes.is_empty() {
            return Err(SinkWriteError::Empty {
                name: self.name.clone(),
            });
        }
        if bytes.len() > self.settings.max_message {
            let most = self.settings.max_message;
            return Err(SinkWriteError::TooLong {
                name: self.name.clone(),
                bytes: bytes.len(),
                most,
            });
        }
        // The next message has to begin on a line of its own.
        if !bytes.ends_with(b"\n") {
            bytes.push(b'\n');
        }
        self.append(&bytes).map_err(|source| SinkWriteError::File {
            name: self.name.clone(),
            source,
        })
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        // After a panic of another thread a partial message may remain; it is cut off or precedes
        // the next one.
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let _turn = WriteLock::take(&self.lock)?;
        // Another process, or logrotate, may have renamed the file since.
        if !self.is_current(&file)? {
            *file = open_file(&self.dir, &self.file_name, self.settings.mode)?;
        }
        let mut start = file.metadata()?.len();
        // An empty file is not rotated: a message that is larger than a file would be rotated for
        // ever.
        if start > 0 && start.saturating_add(bytes.len() as u64) > self.settings.max_bytes {
            self.rotate()?;
            *file = open_file(&self.dir, &self.file_name, self.settings.mode)?;
            start = file.metadata()?.len();
        }
        write_whole(&mut file, bytes, self.settings.sync).inspect_err(|_| {
            if let Err(error) = file.set_len(start) {
                tracing::error!(sink = self.name, %error, "partial message not removed from sink file");
            }
        })
    }

    /// Returns false if another process has rotated the file, or it was moved or removed.
    fn is_current(&self, file: &File) -> io::Result<bool> {
        let ours = file.metadata()?;
        match self.dir.symlink_metadata(&self.file_name) {
            Ok(there) => Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Renames each file to the next number, beginning with the oldest, which is lost.
    fn rotate(&self) -> io::Result<()> {
        let name = |number: u32| match number {
            0 => self.file_name.clone(),
            number => format!("{}.{number}", self.file_name),
        };
        if self.settings.keep == 0 {
            return self.dir.remove_file(name(0));
        }
        // From the oldest on, so that no rename replaces a file that is still to be renamed.
        for number in (0..self.settings.keep).rev() {
            match self
                .dir
                .rename(name(number), &self.dir, name(number.saturating_add(1)))
            {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Opens a file for appending. It follows no link, does not wait for a pipe and rejects files with
/// further links, which may belong to another user.
fn open_file(dir: &Dir, name: &str, mode: u32) -> io::Result<File> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
    let mut options = OpenOptions::new();
    let file = dir.open_with(
        name,
        options
            .append(true)
            .create(true)
            .mode(mode)
            .custom_flags(flags),
    )?;
    let found = file.metadata()?;
    // A user who can write to the directory could link a file of the server here, and the sink
    // would append to it.
    if !found.is_file() || found.nlink() > 1 {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "it should be a regular file without further links",
        ));
    }
    Ok(file)
}

/// Writes in one system call, so that lines of other processes are not mixed in.
fn write_whole(file: &mut File, bytes: &[u8], sync: FileSync) -> io::Result<()> {
    let written = loop {
        // One write in append mode: only a full disk leaves a part of a message, which is cut off
        // again.
        match file.write(bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => break done?,
        }
    };
    if written < bytes.len() {
        // A short write to a regular file means that the file system is full.
        return Err(io::Error::new(
            ErrorKind::StorageFull,
            format!("only {written} bytes were written"),
        ));
    }
    match sync {
        FileSync::Never => Ok(()),
        FileSync::Each => file.sync_data(),
    }
}

/// Exclusive access to the file.
struct WriteLock<'a>(&'a std::fs::File);

impl WriteLock<'_> {
    fn take(lock: &std::fs::File) -> io::Result<WriteLock<'_>> {
        let start = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(WriteLock(lock)),
                Err(TryLockError::WouldBlock) if start.elapsed() < LOCK_TIMEOUT => {
                    thread::sleep(LOCK_POLL)
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for WriteLock<'_> {
    fn drop(&mut self) {
        // If this fails, the lock is released when the file is closed.
        let _ = self.0.unlock();
    }
}

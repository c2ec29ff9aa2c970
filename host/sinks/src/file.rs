//! Files: a message is written at once, whole or not at all, and its sender is told. What grows too large is put aside under
//! another name, and the oldest of those goes.
//!
//! Several processes may write one file: they take turns by a lock on a file beside it, `NAME.lock`, which only its owner can
//! open, so that nobody else can hold them up.
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

/// How long another process may have its turn.
const TURN: Duration = Duration::from_secs(5);
/// How often it is looked whether it is ours.
const GLANCE: Duration = Duration::from_millis(2);

/// A file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileSettings {
    /// Where it is, or will be. Its directory must be there.
    pub path: PathBuf,
    /// Who may do what with it when it is made.
    pub mode: u32,
    /// How large it may become before it is put aside, in bytes.
    pub max_bytes: u64,
    /// How many of those that were put aside are kept, as `NAME.1`, the latest, `NAME.2` and so on.
    pub keep: u32,
    /// The longest message, in bytes.
    pub max_message: usize,
    /// What a message survives.
    pub sync: FileSync,
}

/// What a message survives that was written to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FileSync {
    /// The end of the process. When the machine goes down, the last ones may be missing.
    #[default]
    Never,
    /// The end of the machine: each waits for the disk.
    Each,
}

impl FileSettings {
    /// A file that nobody else can read, with the defaults.
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

/// A file that is open.
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
        let setting = |what, value, right| SinkError::Setting {
            name: name.to_owned(),
            what,
            value,
            right,
        };
        let path = &settings.path;
        let file_name = path
            .file_name()
            .and_then(|file| file.to_str())
            .map(str::to_owned);
        let file_name = file_name
            .ok_or_else(|| setting("path", format!("{path:?}"), "that of a file, in UTF-8"))?;
        if settings.mode & !0o666 != 0 {
            return Err(setting(
                "mode",
                format!("{:o}", settings.mode),
                "who may read and write, such as 640",
            ));
        }
        if settings.max_bytes == 0 || settings.max_message == 0 {
            return Err(setting(
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

    /// Writes a message, with the end of a line behind it where it has none. If that fails the file is as it was.
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
        if !bytes.ends_with(b"\n") {
            bytes.push(b'\n');
        }
        self.append(&bytes).map_err(|source| SinkWriteError::File {
            name: self.name.clone(),
            source,
        })
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        // Whatever is half-written by a thread that panicked is behind the end that the next one sees, or cut off by it.
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let _turn = Turn::take(&self.lock)?;
        if !self.is_at_its_name(&file)? {
            *file = open_file(&self.dir, &self.file_name, self.settings.mode)?;
        }
        let mut start = file.metadata()?.len();
        if start > 0 && start.saturating_add(bytes.len() as u64) > self.settings.max_bytes {
            self.put_aside()?;
            *file = open_file(&self.dir, &self.file_name, self.settings.mode)?;
            start = file.metadata()?.len();
        }
        write_whole(&mut file, bytes, self.settings.sync).inspect_err(|_| {
            if let Err(error) = file.set_len(start) {
                tracing::error!(sink = self.name, %error, "what was written of a message cannot be taken back");
            }
        })
    }

    /// Not, if another process has put it aside, or somebody moved it away.
    fn is_at_its_name(&self, file: &File) -> io::Result<bool> {
        let ours = file.metadata()?;
        match self.dir.symlink_metadata(&self.file_name) {
            Ok(there) => Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Gives each file the name of the one before it, from the oldest on, which is lost.
    fn put_aside(&self) -> io::Result<()> {
        let name = |number: u32| match number {
            0 => self.file_name.clone(),
            number => format!("{}.{number}", self.file_name),
        };
        if self.settings.keep == 0 {
            return self.dir.remove_file(name(0));
        }
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

/// Opens a file to write behind what it has. A link is not followed, a pipe not waited for, and what has other names as well is
/// somebody else's.
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
    if !found.is_file() || found.nlink() > 1 {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "it is no regular file, or has other names as well",
        ));
    }
    Ok(file)
}

/// In one piece, so that no line of another process can be within it.
fn write_whole(file: &mut File, bytes: &[u8], sync: FileSync) -> io::Result<()> {
    let written = loop {
        match file.write(bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => break done?,
        }
    };
    if written < bytes.len() {
        // The system says why only when nothing more goes in; but with files there is one reason for it.
        return Err(io::Error::new(
            ErrorKind::StorageFull,
            format!("there was room for {written} bytes only"),
        ));
    }
    match sync {
        FileSync::Never => Ok(()),
        FileSync::Each => file.sync_data(),
    }
}

/// A turn to write.
struct Turn<'a>(&'a std::fs::File);

impl Turn<'_> {
    fn take(lock: &std::fs::File) -> io::Result<Turn<'_>> {
        let start = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Turn(lock)),
                Err(TryLockError::WouldBlock) if start.elapsed() < TURN => thread::sleep(GLANCE),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // The system gives it back with the file, if not now.
        let _ = self.0.unlock();
    }
}

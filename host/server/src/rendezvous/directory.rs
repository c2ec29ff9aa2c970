//! Files in directories where other users may place links and files. Every access starts at a
//! checked directory, no link is followed, and a file appears complete or not at all.
//!
//! Beside each file lies a lock file that its server holds. It is separate because tools of all
//! users may read the rendezvous file, and any process that can open a file can lock it.
use super::{RendezvousError, file};
use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{
        self, AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, fchmod, flock, fstat,
        openat, renameat, statat, unlinkat,
    },
    io::Errno,
    process::geteuid,
};
use std::{
    fs::File,
    io::{Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Upper bound of the bytes read from a file.
const MAX_FILE_BYTES: u64 = 4096;

const LOCK: &str = ".lock";

/// Upper bound of the attempts at a lock file that other servers remove at the same time.
const ATTEMPTS: usize = 8;

/// Write access of other users to a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sharing {
    /// No write access. The directory is created if it is missing.
    Own,
    /// Write access for all users, each only to its own files (sticky bit).
    Sticky,
}

/// Directory that was checked to be safe for rendezvous files.
#[derive(Clone, Debug)]
pub(super) struct RendezvousDirectory {
    path: PathBuf,
    fd: Arc<OwnedFd>,
}

/// Rendezvous file of this server, removed on drop.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    directory: RendezvousDirectory,
    name: String,
    file: File,
    /// Lock, held so that other servers see that this one is running.
    lock: OwnedFd,
}

impl Drop for Entry {
    fn drop(&mut self) {
        // Another server may have taken over the name.
        if self.directory.has(&self.name, &self.file)
            && let Err(error) = unlinkat(&self.directory.fd, &self.name, AtFlags::empty())
        {
            tracing::warn!(path = ?self.path, %error, "rendezvous file not removed");
        }
        let lock = lock_of(&self.name);
        if self.directory.has(&lock, &self.lock) {
            let _ = unlinkat(&self.directory.fd, lock, AtFlags::empty());
        }
    }
}

impl RendezvousDirectory {
    /// Opens a directory, unless other users could change the files in it.
    pub(super) fn open(
        path: &Path,
        sharing: Sharing,
    ) -> Result<RendezvousDirectory, RendezvousError> {
        let unfit = |why: String| RendezvousError::Directory {
            path: path.to_owned(),
            why,
        };
        if sharing == Sharing::Own {
            match fs::mkdir(path, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(unfit(error.to_string())),
            }
        }
        let flags = match sharing {
            // A link would let its creator choose the directory.
            Sharing::Own => OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            Sharing::Sticky => OFlags::DIRECTORY | OFlags::CLOEXEC,
        };
        let fd = openat(CWD, path, flags, Mode::empty()).map_err(|error| match error {
            Errno::NOTDIR | Errno::LOOP => {
                unfit("it is a link or a file; it must be a directory".to_owned())
            }
            error => unfit(error.to_string()),
        })?;
        let stat = fstat(&fd).map_err(|error| unfit(error.to_string()))?;
        let own_uid = geteuid().as_raw();
        let owner = stat.st_uid;
        let mode = stat.st_mode;
        let open = mode & 0o022 != 0;
        let sticky = mode & 0o1000 != 0;
        match sharing {
            Sharing::Own if owner != own_uid => Err(unfit(format!(
                "it belongs to user {owner}; it must belong to user {own_uid}"
            ))),
            Sharing::Sticky if owner != own_uid && owner != 0 => Err(unfit(format!(
                "it belongs to user {owner}; it must belong to user {own_uid} or root"
            ))),
            Sharing::Own if open => Err(unfit(format!(
                "other users may write to it; its mode is {:o}, but must be 755",
                mode & 0o7777
            ))),
            Sharing::Sticky if open && !sticky => Err(unfit(format!(
                "other users may remove files in it; its mode is {:o}, but must be 1777 or 755",
                mode & 0o7777
            ))),
            _ => Ok(RendezvousDirectory {
                path: path.to_owned(),
                fd: Arc::new(fd),
            }),
        }
    }

    /// Waits until no other server of this user sweeps the directory. Excludes others while the
    /// returned lock is kept.
    pub(super) fn lock_for_sweep(&self) -> Result<OwnedFd, RendezvousError> {
        let name = ".peal.lock";
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Other users cannot open the lock file, so they cannot block the server with it.
        let lock = openat(&self.fd, name, flags, Mode::from_raw_mode(0o600))
            .map_err(|error| self.io(name, error))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| self.io(name, error))?;
        Ok(lock)
    }

    /// Removes the files of servers that were killed.
    pub(super) fn sweep(&self) {
        let Ok(entries) = Dir::read_from(&self.fd) else {
            return;
        };
        for entry in entries.flatten() {
            let Some(name) = entry.file_name().to_str().ok().filter(|name| is_ours(name)) else {
                continue;
            };
            if let Some(locked) = locked_by(name) {
                // A lock file with a rendezvous file is removed together with that one.
                let alone = statat(&self.fd, locked, AtFlags::SYMLINK_NOFOLLOW).is_err();
                if alone && self.lock_state(locked) == LockState::Free {
                    self.remove(name);
                }
            } else if let Some(Found {
                owner: DirectoryOwner::NoServer,
                ..
            }) = self.look_at(name)
            {
                self.remove(name);
                if self.lock_state(name) == LockState::Free {
                    self.remove(&lock_of(name));
                }
            }
        }
    }

    fn remove(&self, name: &str) {
        match unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) => {
                tracing::info!(path = ?self.path.join(name), "rendezvous file of terminated server removed")
            }
            // Another server may have removed the file in its own sweep.
            Err(rustix::io::Errno::NOENT) => {}
            Err(error) => {
                tracing::warn!(path = ?self.path.join(name), %error, "rendezvous file of terminated server not removed")
            }
        }
    }

    /// Writes a complete file, or replaces the file of a terminated server.
    pub(super) fn write(&self, name: &str, contents: &str) -> Result<Entry, RendezvousError> {
        if let Some(Found {
            owner: DirectoryOwner::Process(pid),
            uid,
        }) = self.look_at(name)
            && [0, geteuid().as_raw()].contains(&uid)
        {
            return Err(RendezvousError::Taken {
                path: self.path.join(name),
                pid,
            });
        }
        let Some(lock) = self
            .lock(name)
            .map_err(|error| self.io(&lock_of(name), error))?
        else {
            // The server that holds the lock has not written its process id yet.
            return Err(RendezvousError::Taken {
                path: self.path.join(name),
                pid: 0,
            });
        };
        let unfinished = format!(".{name}.{}", std::process::id());
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
        let create = || openat(&self.fd, &unfinished, flags, Mode::from_raw_mode(0o600));
        let fd = create().or_else(|error| match error {
            // A file of an earlier server with this process id. The removal fails if another user
            // owns it in a sticky directory, and so does the creation.
            Errno::EXIST => {
                unlinkat(&self.fd, &unfinished, AtFlags::empty()).and_then(|()| create())
            }
            error => Err(error),
        });
        let file = File::from(fd.map_err(|error| self.io(name, error))?);
        let written = self
            .fill(&file, contents)
            .and_then(|()| renameat(&self.fd, &unfinished, &self.fd, name));
        if let Err(error) = written {
            // The next sweep removes the file if this fails.
            let _ = unlinkat(&self.fd, &unfinished, AtFlags::empty());
            return Err(self.io(name, error));
        }
        Ok(Entry {
            path: self.path.join(name),
            directory: self.clone(),
            name: name.to_owned(),
            file,
            lock,
        })
    }

    /// Locks a name; none if a server holds the lock. Removes what is in the way and belongs to no
    /// server, if the system permits it.
    fn lock(&self, name: &str) -> Result<Option<OwnedFd>, Errno> {
        let lock = lock_of(name);
        let flags =
            OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        for _ in 0..ATTEMPTS {
            let fd = match openat(&self.fd, &lock, flags, Mode::from_raw_mode(0o600)) {
                Ok(fd) => fd,
                // A link, or a file of another user in a sticky directory.
                Err(Errno::LOOP | Errno::ACCESS) => {
                    unlinkat(&self.fd, &lock, AtFlags::empty())?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            if !is_trusted_file(&fstat(&fd)?) {
                unlinkat(&self.fd, &lock, AtFlags::empty())?;
                continue;
            }
            match flock(&fd, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => return Ok(None),
                locked => locked?,
            }
            // The previous server may have removed the file just before it was locked.
            if self.has(&lock, &fd) {
                return Ok(Some(fd));
            }
        }
        Err(Errno::AGAIN)
    }

    /// Returns true if the name refers to the open file.
    fn has(&self, name: &str, file: impl AsFd) -> bool {
        match (
            fstat(file),
            statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW),
        ) {
            (Ok(ours), Ok(there)) => (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino),
            _ => false,
        }
    }

    /// Returns the state of the lock of a name.
    fn lock_state(&self, name: &str) -> LockState {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(fd) = openat(&self.fd, lock_of(name), flags, Mode::empty()) else {
            return LockState::None;
        };
        if !fstat(&fd).is_ok_and(|stat| is_trusted_file(&stat)) {
            return LockState::None;
        }
        match flock(&fd, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => LockState::Held,
            _ => LockState::Free,
        }
    }

    fn fill(&self, mut file: &File, contents: &str) -> Result<(), Errno> {
        file.write_all(contents.as_bytes())
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        // All users may read the file: the location of a server is not secret, and the server
        // itself decides which tools may connect.
        fchmod(file.as_fd(), Mode::from_raw_mode(0o644))
    }

    /// Returns the owner of a file; none if no server can have written it.
    fn look_at(&self, name: &str) -> Option<Found> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&self.fd, name, flags, Mode::empty()).ok()?);
        let stat = fstat(&file).ok()?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return None;
        }
        let mut contents = String::new();
        let read = (&file).take(MAX_FILE_BYTES).read_to_string(&mut contents);
        let pid = read.ok().and_then(|_| file::pid(&contents));
        let owner = match (self.lock_state(name), pid) {
            // A server in another container holds its lock, although its process id means nothing
            // here.
            (LockState::Held, pid) => DirectoryOwner::Process(pid.unwrap_or_default()),
            // The process id may belong to another process by now.
            (LockState::Free, _) => DirectoryOwner::NoServer,
            // Servers of the C library have no lock file.
            (LockState::None, Some(pid)) if Path::new(&format!("/proc/{pid}")).exists() => {
                DirectoryOwner::Process(pid)
            }
            (LockState::None, _) => DirectoryOwner::NoServer,
        };
        Some(Found {
            owner,
            uid: stat.st_uid,
        })
    }

    fn io(&self, name: &str, error: Errno) -> RendezvousError {
        RendezvousError::Io {
            path: self.path.join(name),
            source: error.into(),
        }
    }
}

/// Existing rendezvous file.
struct Found {
    owner: DirectoryOwner,
    uid: u32,
}

/// Server that a file belongs to.
enum DirectoryOwner {
    Process(u32),
    NoServer,
}

/// State of the lock beside a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LockState {
    /// No lock file of root or this user exists.
    None,
    /// The lock is free: its server has ended.
    Free,
    /// The lock is held: its server is running.
    Held,
}

/// Returns the name of the lock file of a file.
fn lock_of(name: &str) -> String {
    format!(".{name}{LOCK}")
}

/// Returns the name of the file that a lock file belongs to; none for other files.
fn locked_by(name: &str) -> Option<&str> {
    name.strip_prefix('.')?.strip_suffix(LOCK)
}

/// Returns true if the file is regular and belongs to root or this user.
fn is_trusted_file(stat: &fs::Stat) -> bool {
    let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    regular && [0, geteuid().as_raw()].contains(&stat.st_uid)
}

/// Returns true if the file is named like a rendezvous file, complete or not.
fn is_ours(name: &str) -> bool {
    name.strip_prefix('.').unwrap_or(name).starts_with("pmix.")
}

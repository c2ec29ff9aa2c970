//! Files in directories where others may lay traps: everything is reached from a directory that was looked at, no link is
//! followed, and a file appears whole or not at all.
//!
//! Beside each file lies a lock that its server holds. It is a file of its own because tools of all users may read the other,
//! and whoever can open a file can lock it.
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

/// The longest file that is read, in bytes.
const LONGEST: u64 = 4096;

const LOCK: &str = ".lock";

/// How often a lock is tried that others remove at the same time.
const ATTEMPTS: usize = 8;

/// Who else may write in a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sharing {
    /// Nobody. It is made if it is not there.
    Own,
    /// Perhaps everybody, each only what is theirs.
    Sticky,
}

/// A directory that is fit for files that tools trust.
#[derive(Clone, Debug)]
pub(super) struct RendezvousDirectory {
    path: PathBuf,
    fd: Arc<OwnedFd>,
}

/// A file of ours, which is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    directory: RendezvousDirectory,
    name: String,
    file: File,
    /// Held, so that others see that the file's server lives.
    lock: OwnedFd,
}

impl Drop for Entry {
    fn drop(&mut self) {
        // Another server may have taken the name.
        if self.directory.has(&self.name, &self.file)
            && let Err(error) = unlinkat(&self.directory.fd, &self.name, AtFlags::empty())
        {
            tracing::warn!(path = ?self.path, %error, "a rendezvous file cannot be removed");
        }
        let lock = lock_of(&self.name);
        if self.directory.has(&lock, &self.lock) {
            let _ = unlinkat(&self.directory.fd, lock, AtFlags::empty());
        }
    }
}

impl RendezvousDirectory {
    /// Opens a directory, unless others could change what we write there.
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
            // Whoever could lay a link there could choose the directory.
            Sharing::Own => OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            Sharing::Sticky => OFlags::DIRECTORY | OFlags::CLOEXEC,
        };
        let fd = openat(CWD, path, flags, Mode::empty()).map_err(|error| match error {
            Errno::NOTDIR | Errno::LOOP => {
                unfit("it is a link or a file; it should be a directory".to_owned())
            }
            error => unfit(error.to_string()),
        })?;
        let stat = fstat(&fd).map_err(|error| unfit(error.to_string()))?;
        let me = geteuid().as_raw();
        let (owner, mode) = (stat.st_uid, stat.st_mode);
        let (open, sticky) = (mode & 0o022 != 0, mode & 0o1000 != 0);
        match sharing {
            Sharing::Own if owner != me => Err(unfit(format!(
                "it belongs to user {owner}; it should to user {me}"
            ))),
            Sharing::Sticky if owner != me && owner != 0 => Err(unfit(format!(
                "it belongs to user {owner}; it should to user {me} or root"
            ))),
            Sharing::Own if open => Err(unfit(format!(
                "others may write in it, its mode {:o} should be 755",
                mode & 0o7777
            ))),
            Sharing::Sticky if open && !sticky => Err(unfit(format!(
                "others may remove what is in it, its mode {:o} should be 1777 or 755",
                mode & 0o7777
            ))),
            _ => Ok(RendezvousDirectory {
                path: path.to_owned(),
                fd: Arc::new(fd),
            }),
        }
    }

    /// Waits until no other server of this user looks through the directory, and lets none as long as what comes back is kept.
    pub(super) fn take_turn(&self) -> Result<OwnedFd, RendezvousError> {
        let name = ".peal.lock";
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Others cannot open it, and so not hold us up.
        let lock = openat(&self.fd, name, flags, Mode::from_raw_mode(0o600))
            .map_err(|error| self.io(name, error))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| self.io(name, error))?;
        Ok(lock)
    }

    /// Removes what servers left that were killed.
    pub(super) fn sweep(&self) {
        let Ok(entries) = Dir::read_from(&self.fd) else {
            return;
        };
        for entry in entries.flatten() {
            let Some(name) = entry.file_name().to_str().ok().filter(|name| is_ours(name)) else {
                continue;
            };
            if let Some(locked) = locked_by(name) {
                // Those with a file go with it.
                let alone = statat(&self.fd, locked, AtFlags::SYMLINK_NOFOLLOW).is_err();
                if alone && self.lock_state(locked) == LockState::Free {
                    self.remove(name);
                }
            } else if let Some(Found {
                owner: DirectoryOwner::Nobody,
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
                tracing::info!(path = ?self.path.join(name), "what a dead server left is removed")
            }
            // Another server that sweeps at the same time has removed it.
            Err(rustix::io::Errno::NOENT) => {}
            Err(error) => {
                tracing::warn!(path = ?self.path.join(name), %error, "what a dead server left stays")
            }
        }
    }

    /// Writes a file whole, in place of what a dead server left.
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
            // Its server has not come to say its number.
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
            // Of a server that had our number before; whose else it is stays, and we fail.
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
            // What is left of it the next sweep removes.
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

    /// Locks a name; nothing if a server has it. What is in the way and no server's is removed, if the system lets us.
    fn lock(&self, name: &str) -> Result<Option<OwnedFd>, Errno> {
        let lock = lock_of(name);
        let flags =
            OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        for _ in 0..ATTEMPTS {
            let fd = match openat(&self.fd, &lock, flags, Mode::from_raw_mode(0o600)) {
                Ok(fd) => fd,
                // A link, or a file of somebody else's in a directory of all.
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
            // Its server may have removed it just before we had it.
            if self.has(&lock, &fd) {
                return Ok(Some(fd));
            }
        }
        Err(Errno::AGAIN)
    }

    /// Whether what has this name is the file that is open.
    fn has(&self, name: &str, file: impl AsFd) -> bool {
        match (
            fstat(file),
            statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW),
        ) {
            (Ok(ours), Ok(there)) => (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino),
            _ => false,
        }
    }

    /// Whether a server holds the lock of a name.
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
        // Where a server is, is no secret: who may attach it decides itself, and tools of other users may.
        fchmod(file.as_fd(), Mode::from_raw_mode(0o644))
    }

    /// Whose a file is; nothing if there is none that could be a server's.
    fn look_at(&self, name: &str) -> Option<Found> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&self.fd, name, flags, Mode::empty()).ok()?);
        let stat = fstat(&file).ok()?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return None;
        }
        let mut contents = String::new();
        let read = (&file).take(LONGEST).read_to_string(&mut contents);
        let pid = read.ok().and_then(|_| file::pid(&contents));
        let owner = match (self.lock_state(name), pid) {
            // One in another container has a number that means nothing here, and holds its lock all the same.
            (LockState::Held, pid) => DirectoryOwner::Process(pid.unwrap_or_default()),
            // The number may be that of another process by now.
            (LockState::Free, _) => DirectoryOwner::Nobody,
            // A server of the C library's has none.
            (LockState::None, Some(pid)) if Path::new(&format!("/proc/{pid}")).exists() => {
                DirectoryOwner::Process(pid)
            }
            (LockState::None, _) => DirectoryOwner::Nobody,
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

/// A file that is there.
struct Found {
    owner: DirectoryOwner,
    uid: u32,
}

/// Which server a file tells of.
enum DirectoryOwner {
    Process(u32),
    Nobody,
}

/// How the lock beside a file is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LockState {
    /// There is none that root or we have made.
    None,
    /// Its server has ended.
    Free,
    /// Its server lives.
    Held,
}

/// What the lock of a file is called.
fn lock_of(name: &str) -> String {
    format!(".{name}{LOCK}")
}

/// Of which file a file is the lock, if it is one.
fn locked_by(name: &str) -> Option<&str> {
    name.strip_prefix('.')?.strip_suffix(LOCK)
}

/// Whether something is a file that nobody made who is not trusted.
fn is_trusted_file(stat: &fs::Stat) -> bool {
    let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    regular && [0, geteuid().as_raw()].contains(&stat.st_uid)
}

/// Whether a file is named as servers name theirs, finished or not.
fn is_ours(name: &str) -> bool {
    name.strip_prefix('.').unwrap_or(name).starts_with("pmix.")
}

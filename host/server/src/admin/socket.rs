//! Admin socket in its directory. Every user that can reach it may connect, and its remains never
//! prevent a later start.
//!
//! A server holds the lock beside its socket while it runs. The kernel releases the lock however
//! the server ends, so a socket whose lock is free is left over and may be replaced.
use super::access::AdminGroup;
use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{
            ffi::OsStrExt,
            fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt},
        },
    },
    path::{Path, PathBuf},
};
use thiserror::Error;
use tokio::net::UnixListener;

/// Write permission of group and others.
const WRITE_BY_OTHERS: u32 = 0o022;
/// Sticky bit: only the owner of a file in such a directory can rename or remove it.
const STICKY: u32 = 0o1000;

/// Error of the creation of the admin socket.
#[derive(Debug, Error)]
pub enum SocketError {
    /// A step of the creation failed.
    #[error("cannot create the admin socket {path:?}: {doing}: {source}")]
    Make {
        /// Path of the socket.
        path: PathBuf,
        /// Failed step.
        doing: &'static str,
        /// System error.
        source: io::Error,
    },
    /// Another user could replace the socket.
    #[error(
        "the admin socket {path:?} cannot be in {dir:?}, which has owner {owner} and mode {mode:o}; it must belong \
         to root or the server's user and be writable by its owner only"
    )]
    Exposed {
        /// Path of the socket.
        path: PathBuf,
        /// Directory of the socket, or an ancestor of it.
        dir: PathBuf,
        /// Owner of the directory.
        owner: u32,
        /// Mode of the directory.
        mode: u32,
    },
    /// Another server uses the socket.
    #[error("a server is running on the admin socket {path:?}{}", .pid.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Served {
        /// Path of the socket.
        path: PathBuf,
        /// Process id of the server, if the lock file contains one.
        pid: Option<u32>,
    },
    /// The path exists and is no socket.
    #[error("cannot create the admin socket: {path:?} exists and is no socket")]
    NoSocket {
        /// Path.
        path: PathBuf,
    },
}

/// Exclusive claim on the path of a socket, released on drop.
#[derive(Debug)]
pub struct SocketClaim {
    path: PathBuf,
    lock: LockFile,
}

/// Lock beside a socket.
#[derive(Debug)]
struct LockFile {
    _file: File,
    /// Path of a lock file that is removed on drop.
    removed: Option<PathBuf>,
}

impl Drop for LockFile {
    fn drop(&mut self) {
        if let Some(path) = &self.removed {
            // What is left, the next server of this kind removes.
            let _ = fs::remove_file(path);
        }
    }
}

/// Suffix of a lock file.
const LOCK: &str = ".lock";

/// Listening socket. Its file is removed on drop.
#[derive(Debug)]
pub(crate) struct AdminSocket {
    pub(crate) listener: UnixListener,
    claim: SocketClaim,
    inode: u64,
}

impl SocketClaim {
    /// Claims a path. Creates the directory if it is missing.
    ///
    /// # Errors
    ///
    /// Fails with [`SocketError::Served`] if another server holds the claim.
    pub fn new(path: &Path) -> Result<SocketClaim, SocketError> {
        SocketClaim::beside_listener(path, None)
    }

    /// Claims a path, as in [`SocketClaim::new`]. At the path `inherited` this process listens already, on the
    /// socket of another one.
    ///
    /// # Errors
    ///
    /// Those of [`SocketClaim::new`].
    pub fn beside_listener(
        path: &Path,
        inherited: Option<&Path>,
    ) -> Result<SocketClaim, SocketError> {
        let of = |doing| {
            move |source| SocketError::Make {
                path: path.to_owned(),
                doing,
                source,
            }
        };
        let dir = path
            .parent()
            .filter(|dir| !dir.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let mode = if is_root() { 0o755 } else { 0o700 };
        DirBuilder::new()
            .recursive(true)
            .mode(mode)
            .create(dir)
            .map_err(of("creating its directory"))?;
        let dir = dir.canonicalize().map_err(of("resolving its directory"))?;
        check_directory(path, &dir)?;
        // Use the resolved path from here on: links in the given path were not checked, and may
        // have changed.
        let name = path.file_name().ok_or_else(|| SocketError::NoSocket {
            path: path.to_owned(),
        })?;
        let path = dir.join(name);
        let of = |doing| {
            let path = path.clone();
            move |source| SocketError::Make {
                path,
                doing,
                source,
            }
        };
        let lock_path = beside(&path, LOCK);
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            // A running server may hold the file, which then contains its process id.
            .truncate(false)
            .mode(0o600);
        let mut lock = options
            .open(&lock_path)
            .map_err(of("opening its lock file"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // The file may be empty, because its server has not written its process id yet.
                let _ = lock.take(32).read_to_string(&mut pid);
                return Err(SocketError::Served {
                    path,
                    pid: pid.trim().parse().ok(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(of("locking its lock file")(source)),
        }
        lock.set_len(0)
            .and_then(|()| writeln!(lock, "{}", std::process::id()))
            .map_err(of("writing its lock file"))?;
        match fs::symlink_metadata(&path) {
            Ok(found) if !found.file_type().is_socket() => Err(SocketError::NoSocket { path }),
            // The listener does not hold the lock, so it is another program.
            Ok(_)
                if inherited != Some(&*path)
                    && std::os::unix::net::UnixStream::connect(&path).is_ok() =>
            {
                Err(SocketError::Served { path, pid: None })
            }
            _ => {
                let lock = LockFile {
                    _file: lock,
                    removed: None,
                };
                Ok(SocketClaim { path, lock })
            }
        }
    }

    /// Removes what servers that were killed have left in the directory of a path: sockets with this
    /// prefix whose lock is free.
    pub fn remove_left_over(path: &Path, prefix: &str) {
        let entries = path.parent().and_then(|dir| fs::read_dir(dir).ok());
        for entry in entries.into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let Some(socket) = name.strip_suffix(LOCK) else {
                continue;
            };
            if !socket.starts_with(prefix) {
                continue;
            }
            let lock = entry.path();
            let is_free = File::open(&lock).is_ok_and(|lock| lock.try_lock().is_ok());
            if is_free {
                // Another server may remove them at the same time.
                let _ = fs::remove_file(entry.path().with_file_name(socket));
                let _ = fs::remove_file(lock);
            }
        }
    }

    /// Removes the lock file when the claim ends: no other server will claim the path.
    pub fn of_one_process(mut self) -> SocketClaim {
        self.lock.removed = Some(beside(&self.path, LOCK));
        self
    }

    /// Listens on the claimed path. The socket has a temporary name until its group and mode are
    /// set, so that no caller can connect before.
    pub(crate) fn listen(self, group: Option<&AdminGroup>) -> Result<AdminSocket, SocketError> {
        let of = |doing| {
            let path = self.path.clone();
            move |source| SocketError::Make {
                path,
                doing,
                source,
            }
        };
        let temporary = beside(&self.path, ".new");
        // A server that was killed before the rename has left this file.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(of("removing an earlier one")(error));
            }
            _ => {}
        }
        let listener = UnixListener::bind(&temporary).map_err(of("binding"))?;
        if let Some(group) = group
            // A server that is not root, and not in that group, may not set it.
            && let Err(error) = std::os::unix::fs::chown(&temporary, None, Some(group.gid))
            && error.kind() != io::ErrorKind::PermissionDenied
        {
            return Err(of("setting its group")(error));
        }
        // The kernel's credentials of a caller decide. Every user may ask for its own quotas.
        let mode = 0o666;
        fs::set_permissions(&temporary, Permissions::from_mode(mode))
            .map_err(of("setting its permissions"))?;
        // Read before the rename, after which another program could replace the socket.
        let inode = fs::symlink_metadata(&temporary)
            .map_err(of("reading its inode number"))?
            .ino();
        // This also replaces the socket of a killed server.
        fs::rename(&temporary, &self.path).map_err(of("renaming it"))?;
        Ok(AdminSocket {
            listener,
            claim: self,
            inode,
        })
    }

    /// Listens on the socket of another process, which has the claimed path.
    pub(crate) fn listen_further(self, socket: OwnedFd) -> Result<AdminSocket, SocketError> {
        let of = |doing| {
            let path = self.path.clone();
            move |source| SocketError::Make {
                path,
                doing,
                source,
            }
        };
        let listener = std::os::unix::net::UnixListener::from(socket);
        let listener = listener
            .set_nonblocking(true)
            .and_then(|()| UnixListener::from_std(listener))
            .map_err(of("listening on that of another process"))?;
        let inode = fs::symlink_metadata(&self.path)
            .map_err(of("reading its inode number"))?
            .ino();
        Ok(AdminSocket {
            listener,
            claim: self,
            inode,
        })
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl AdminSocket {
    /// Returns the path of the socket.
    pub(crate) fn path(&self) -> &Path {
        self.claim.path()
    }

    /// Ends the claim, and leaves the file to another process that listens on the socket.
    pub(crate) fn leave_file(mut self) {
        // That of no file.
        self.inode = 0;
    }

    /// Returns another descriptor of the socket.
    ///
    /// # Errors
    ///
    /// Fails if the system has no further descriptors.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.listener.as_fd().try_clone_to_owned()
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        // Another program may have replaced the socket; that file is not removed.
        let ours =
            fs::symlink_metadata(&self.claim.path).is_ok_and(|found| found.ino() == self.inode);
        if ours && let Err(error) = fs::remove_file(&self.claim.path) {
            tracing::warn!(socket = %self.claim.path.display(), %error, "admin socket not removed");
        }
    }
}

/// Returns the path with a suffix appended to the file name.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().as_bytes().to_vec();
    name.extend_from_slice(suffix.as_bytes());
    PathBuf::from(std::ffi::OsStr::from_bytes(&name))
}

/// Checks that no other user can replace the socket, in its directory or by a replacement of one of
/// the ancestors.
fn check_directory(path: &Path, dir: &Path) -> Result<(), SocketError> {
    let own_uid = rustix::process::geteuid().as_raw();
    for (depth, dir) in dir.ancestors().enumerate() {
        let found = dir.metadata().map_err(|source| SocketError::Make {
            path: path.to_owned(),
            doing: "reading the metadata of its directory",
            source,
        })?;
        let owner = found.uid();
        let mode = found.mode() & 0o7777;
        // A sticky ancestor is safe, since only its owner can rename an entry. The socket's own
        // directory must not be writable by others at all: they could bind the name first.
        let closed = mode & WRITE_BY_OTHERS == 0 || (depth > 0 && mode & STICKY != 0);
        if !(owner == 0 || owner == own_uid) || !closed {
            return Err(SocketError::Exposed {
                path: path.to_owned(),
                dir: dir.to_owned(),
                owner,
                mode,
            });
        }
    }
    Ok(())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn listen(path: &Path) -> Result<AdminSocket, SocketError> {
        SocketClaim::new(path).and_then(|claim| claim.listen(None))
    }

    #[tokio::test]
    async fn claimed_path_is_refused_until_its_server_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/peal/admin.sock");
        let first = listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o666);
        UnixStream::connect(&path).unwrap();
        let error = listen(&path).unwrap_err().to_string();
        let wanted = format!(
            "a server is running on the admin socket {path:?} (process {})",
            std::process::id()
        );
        assert_eq!(error, wanted);
        // The refused claim has not changed the socket.
        UnixStream::connect(&path).unwrap();
        drop(first);
        assert!(!path.exists());
        listen(&path).unwrap();
    }

    #[tokio::test]
    async fn socket_of_dead_server_is_replaced_and_foreign_file_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        // Files as a killed server leaves them: sockets of both names, and a lock file that no
        // process holds.
        drop(UnixListener::bind(&path).unwrap());
        drop(UnixListener::bind(beside(&path, ".new")).unwrap());
        fs::write(beside(&path, ".lock"), "1\n").unwrap();
        let socket = listen(&path).unwrap();
        UnixStream::connect(&path).unwrap();
        // Another socket in its place is not removed at the end.
        fs::remove_file(&path).unwrap();
        let other = std::os::unix::net::UnixListener::bind(&path).unwrap();
        drop(socket);
        assert!(path.exists());
        assert!(matches!(
            listen(&path),
            Err(SocketError::Served { pid: None, .. })
        ));
        drop(other);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        assert!(matches!(listen(&path), Err(SocketError::NoSocket { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[tokio::test]
    async fn directory_writable_by_others_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        for (mode, refused) in [
            (0o777, true),
            (0o775, true),
            (0o1777, true),
            (0o755, false),
            (0o700, false),
        ] {
            fs::set_permissions(&open, Permissions::from_mode(mode)).unwrap();
            let outcome = listen(&open.join("admin.sock"));
            assert_eq!(
                matches!(outcome, Err(SocketError::Exposed { .. })),
                refused,
                "{mode:o}: {outcome:?}"
            );
        }
        // A directory inside of such a directory could be replaced.
        let inner = open.join("inner");
        fs::create_dir(&inner).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        let error = listen(&inner.join("admin.sock")).unwrap_err().to_string();
        assert!(
            error.contains("and mode 777; it must belong to root or the server's user"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn socket_stays_in_checked_directory_despite_later_links() {
        let dir = tempfile::tempdir().unwrap();
        let checked = dir.path().join("checked");
        let other = dir.path().join("other");
        let link = dir.path().join("link");
        fs::create_dir(&checked).unwrap();
        fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&checked, &link).unwrap();
        let claim = SocketClaim::new(&link.join("admin.sock")).unwrap();
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
        let socket = claim.listen(None).unwrap();
        UnixStream::connect(checked.join("admin.sock")).unwrap();
        assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
        drop(socket);
        assert!(!checked.join("admin.sock").exists());
        assert!(matches!(
            SocketClaim::new(&dir.path().join("..")),
            Err(SocketError::NoSocket { .. })
        ));
    }

    #[tokio::test]
    async fn socket_gets_the_admin_group() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        let gid = rustix::process::getegid().as_raw();
        let group = AdminGroup {
            gid,
            name: "ours".into(),
        };
        let _socket = SocketClaim::new(&path)
            .unwrap()
            .listen(Some(&group))
            .unwrap();
        let found = fs::metadata(&path).unwrap();
        assert_eq!((found.mode() & 0o777, found.gid()), (0o666, gid));
    }
}

//! The admin socket in its directory: made so that only those it is for can open it, never in the way of a later start.
//!
//! A lock beside the socket says whether its server lives. The kernel lets go of it however the server ends, so a socket
//! whose lock is free is left over and makes room.
use super::access::AdminGroup;
use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError},
    io::{self, Read, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};
use thiserror::Error;
use tokio::net::UnixListener;

/// Others may write.
const WRITE_BY_OTHERS: u32 = 0o022;
/// What is in such a directory can be renamed and removed by its owner only.
const STICKY: u32 = 0o1000;

/// Why there is no admin socket.
#[derive(Debug, Error)]
pub enum SocketError {
    /// It cannot be made.
    #[error("cannot make the admin socket {path:?}: {doing}: {source}")]
    Make {
        /// The socket.
        path: PathBuf,
        /// What failed.
        doing: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// Somebody else could put another socket in its place.
    #[error(
        "the admin socket {path:?} cannot be in {dir:?}, which belongs to user {owner} and has mode {mode:o}: it must belong \
         to root or to the server's user, who alone may write there"
    )]
    Exposed {
        /// The socket.
        path: PathBuf,
        /// The directory, or one that it is in.
        dir: PathBuf,
        /// Whose that is.
        owner: u32,
        /// Who may do what there.
        mode: u32,
    },
    /// Another server is there.
    #[error("a server is running on the admin socket {path:?}{}", .pid.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Served {
        /// The socket.
        path: PathBuf,
        /// The server's process, if it said so.
        pid: Option<u32>,
    },
    /// Something else has that name.
    #[error(
        "the admin socket cannot be {path:?}: there is something else of that name, which is no socket"
    )]
    NoSocket {
        /// The name.
        path: PathBuf,
    },
}

/// The right to a name for a socket, for as long as it is kept.
#[derive(Debug)]
pub struct SocketClaim {
    path: PathBuf,
    _lock: File,
}

/// A socket that listens; its name goes when it is dropped.
#[derive(Debug)]
pub(crate) struct AdminSocket {
    pub(crate) listener: UnixListener,
    claim: SocketClaim,
    inode: u64,
}

impl SocketClaim {
    /// Claims a name, or says who has it. The directory is made if it is missing.
    pub fn new(path: &Path) -> Result<SocketClaim, SocketError> {
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
            .map_err(of("its directory"))?;
        let dir = dir.canonicalize().map_err(of("its directory"))?;
        check_directory(path, &dir)?;
        // From here on where it really is: links on the way there were not looked at, and may lead elsewhere by now.
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
        let lock_path = beside(&path, ".lock");
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600);
        let mut lock = options.open(&lock_path).map_err(of("its lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // The file may hold nothing yet; then there is no number to tell.
                let _ = lock.take(32).read_to_string(&mut pid);
                return Err(SocketError::Served {
                    path,
                    pid: pid.trim().parse().ok(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(of("its lock")(source)),
        }
        lock.set_len(0)
            .and_then(|()| writeln!(lock, "{}", std::process::id()))
            .map_err(of("its lock"))?;
        match fs::symlink_metadata(&path) {
            Ok(found) if !found.file_type().is_socket() => Err(SocketError::NoSocket { path }),
            // Whoever listens there does so without the lock, and is no server of ours.
            Ok(_) if std::os::unix::net::UnixStream::connect(&path).is_ok() => {
                Err(SocketError::Served { path, pid: None })
            }
            _ => Ok(SocketClaim { path, _lock: lock }),
        }
    }

    /// Listens. Until all of it is right, the socket has another name.
    pub(crate) fn listen(self, group: Option<&AdminGroup>) -> Result<AdminSocket, SocketError> {
        let of = |doing| {
            let path = self.path.clone();
            move |source| SocketError::Make {
                path,
                doing,
                source,
            }
        };
        let early = beside(&self.path, ".new");
        match fs::remove_file(&early) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(of("an earlier one")(error));
            }
            _ => {}
        }
        let listener = UnixListener::bind(&early).map_err(of("binding it"))?;
        if let Some(group) = group {
            std::os::unix::fs::chown(&early, None, Some(group.gid))
                .map_err(of("giving it to its group"))?;
        }
        let mode = if group.is_some() { 0o660 } else { 0o600 };
        fs::set_permissions(&early, Permissions::from_mode(mode)).map_err(of("its permissions"))?;
        let inode = fs::symlink_metadata(&early)
            .map_err(of("looking at it"))?
            .ino();
        fs::rename(&early, &self.path).map_err(of("giving it its name"))?;
        Ok(AdminSocket {
            listener,
            claim: self,
            inode,
        })
    }

    /// The socket's name.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        // Somebody may have removed it and put another there.
        let ours =
            fs::symlink_metadata(&self.claim.path).is_ok_and(|found| found.ino() == self.inode);
        if ours && let Err(error) = fs::remove_file(&self.claim.path) {
            tracing::warn!(socket = %self.claim.path.display(), %error, "the admin socket stays");
        }
    }
}

/// A file of nearly the same name.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().as_bytes().to_vec();
    name.extend_from_slice(suffix.as_bytes());
    PathBuf::from(std::ffi::OsStr::from_bytes(&name))
}

/// Nobody else may be able to put another socket in the place of ours: neither in its directory, nor by putting another
/// directory in that one's place.
fn check_directory(path: &Path, dir: &Path) -> Result<(), SocketError> {
    let me = rustix::process::geteuid().as_raw();
    for (depth, dir) in dir.ancestors().enumerate() {
        let found = dir.metadata().map_err(|source| SocketError::Make {
            path: path.to_owned(),
            doing: "looking at its directory",
            source,
        })?;
        let (owner, mode) = (found.uid(), found.mode() & 0o7777);
        let closed = mode & WRITE_BY_OTHERS == 0 || (depth > 0 && mode & STICKY != 0);
        if !(owner == 0 || owner == me) || !closed {
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
    async fn a_name_is_served_once_and_is_free_again_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/peal/admin.sock");
        let first = listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        UnixStream::connect(&path).unwrap();
        let error = listen(&path).unwrap_err().to_string();
        let wanted = format!(
            "a server is running on the admin socket {path:?} (process {})",
            std::process::id()
        );
        assert_eq!(error, wanted);
        // The refused one has harmed nothing.
        UnixStream::connect(&path).unwrap();
        drop(first);
        assert!(!path.exists());
        listen(&path).unwrap();
    }

    #[tokio::test]
    async fn socket_of_dead_server_is_replaced_and_foreign_file_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        // As a killed server leaves it: sockets of both names, and a lock that nobody holds.
        drop(UnixListener::bind(&path).unwrap());
        drop(UnixListener::bind(beside(&path, ".new")).unwrap());
        fs::write(beside(&path, ".lock"), "1\n").unwrap();
        let socket = listen(&path).unwrap();
        UnixStream::connect(&path).unwrap();
        // Another socket in its place is left alone at the end.
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
    async fn a_directory_that_others_can_write_is_refused() {
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
        // One that is inside such a directory could be replaced.
        let inner = open.join("inner");
        fs::create_dir(&inner).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        let error = listen(&inner.join("admin.sock")).unwrap_err().to_string();
        assert!(
            error.contains("and has mode 777: it must belong to root or to the server's user"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn socket_stays_in_checked_directory_despite_later_links() {
        let dir = tempfile::tempdir().unwrap();
        let (checked, other, link) = (
            dir.path().join("checked"),
            dir.path().join("other"),
            dir.path().join("link"),
        );
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
    async fn the_group_may_open_it() {
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
        assert_eq!((found.mode() & 0o777, found.gid()), (0o660, gid));
    }
}

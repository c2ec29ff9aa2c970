//! Directory in which a user installs modules.
use crate::{
    component_file::{ReadError, contents},
    signature::{Signature, SignatureError, signature_place},
};
use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{
        AtFlags, Dir, FileType, Mode, OFlags, Stat, StatxAttributes, StatxFlags, fstat, openat,
        statx,
    },
    io::Errno,
};
use std::{
    fs::File,
    io::{self, Read},
    path::{Component, Path, PathBuf},
};

/// Maximum size of a file in bytes.
const MAX_FILE: u64 = 1 << 20;
/// Mode bits of write permission for group and others.
const OTHERS_WRITE: u32 = 0o022;

/// The directory of a user.
pub(crate) struct UserDirectory {
    pub(crate) uid: u32,
    pub(crate) path: PathBuf,
    pub(crate) fd: OwnedFd,
}

impl UserDirectory {
    /// Returns the uid of the user.
    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    /// Reads a component in the directory. The size is checked before it is read.
    pub(crate) fn component(&self, path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
        let io = |source| ReadError::Io {
            path: path.to_owned(),
            source,
        };
        let outside = || {
            io(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "a component of a user lies beside its .toml",
            ))
        };
        let name = path.strip_prefix(&self.path).map_err(|_| outside())?;
        // Component files lie in the directory itself; another path could lead through a directory
        // of another user.
        if name.components().count() != 1 {
            return Err(outside());
        }
        let file = self.file(name).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        if size > limit {
            return Err(ReadError::TooLarge {
                path: path.to_owned(),
                size,
                limit,
            });
        }
        // The user may be writing the file, so its size is checked again.
        let bytes = contents(path, file)?;
        let size = bytes.len() as u64;
        if size > limit {
            Err(ReadError::TooLarge {
                path: path.to_owned(),
                size,
                limit,
            })
        } else {
            Ok(bytes)
        }
    }

    /// Reads the signature of a component in the directory.
    pub(crate) fn signature(&self, component: &Path) -> Result<Signature, SignatureError> {
        let path = signature_place(component);
        let name = path.file_name().map(Path::new).unwrap_or(&path);
        Signature::read(&path, self.file(name))
    }

    /// Reads a text file of the directory.
    pub(crate) fn text(&self, name: &Path) -> io::Result<String> {
        let mut text = String::new();
        let read = self
            .file(name)?
            .take(MAX_FILE + 1)
            .read_to_string(&mut text)? as u64;
        if read > MAX_FILE {
            return Err(io::Error::other(format!(
                "it has more than {MAX_FILE} bytes"
            )));
        }
        Ok(text)
    }

    /// Opens a file of the directory that belongs to the user and is writable by no other user
    /// except root.
    fn file(&self, name: &Path) -> io::Result<File> {
        // Without `O_NONBLOCK` a pipe would block this thread until something writes to it.
        let fd = open(&self.fd, name, OFlags::NONBLOCK)?;
        let stat = fstat(&fd)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("it is not a regular file"));
        }
        if !is_safe(&stat, &[self.uid]) {
            let why = format!(
                "it must belong to user {} and be writable by them alone",
                self.uid
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(File::from(fd))
    }
}

/// Flags of all opens.
pub(crate) const OPEN: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Opens an entry of a directory, unless it is a link or a mount point. The confinement has no
/// `openat2`, whose modes it cannot check.
pub(crate) fn open(
    at: impl AsFd,
    name: impl AsRef<Path>,
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    let name = name.as_ref();
    let mut parts = name.components();
    let (Some(Component::Normal(_)), None) = (parts.next(), parts.next()) else {
        return Err(Errno::XDEV);
    };
    let fd = openat(at, name, OPEN | flags, Mode::empty())?;
    let stat = statx(&fd, "", AtFlags::EMPTY_PATH, StatxFlags::empty())?;
    if stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        return Err(Errno::XDEV);
    }
    Ok(fd)
}

/// Returns true if one of these users owns the file and only the owner can write to it.
pub(crate) fn is_safe(stat: &Stat, owners: &[u32]) -> bool {
    owners.contains(&stat.st_uid) && stat.st_mode & OTHERS_WRITE == 0
}

/// Returns the names in a directory, except for hidden ones and ones with control characters. Fails
/// if there are too many.
pub(crate) fn names(directory: &OwnedFd, most: usize) -> io::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        // Names with control characters would appear in errors and in the trace.
        if name.starts_with('.') || name.contains(char::is_control) {
            continue;
        }
        if names.len() == most {
            return Err(io::Error::other(format!(
                "there are more than {most} files"
            )));
        }
        names.push(PathBuf::from(name));
    }
    Ok(names)
}

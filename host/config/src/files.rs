//! Search and reading of configuration files.
use std::{
    ffi::OsString,
    fs::{self, File, Metadata},
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// Limit of a file's length, in bytes.
const MAX_FILE: u64 = 4 << 20;
/// Limit of files in `modules.d`.
const MAX_DROP_INS: usize = 1024;
/// Write permission of the group and of other users.
const OTHERS_WRITE: u32 = 0o022;

/// Reason why a file is not read.
#[derive(Debug, Error)]
pub(crate) enum FileError {
    #[error("cannot read the configuration {path:?}: {source}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the configuration {path:?} has {len} bytes, {MAX_FILE} are allowed")]
    TooLong { path: PathBuf, len: u64 },
    #[error(transparent)]
    Exposed(#[from] UnsafePermissions),
    #[error("{path:?} holds more than {MAX_DROP_INS} files")]
    TooMany { path: PathBuf },
}

/// Permissions that let a user other than root change a file that controls a server of root.
#[derive(Debug, Error)]
#[error(
    "{path:?} has owner {owner} and mode {mode:o}; for a server of root it must belong to root and be writable by its owner \
     alone (chown root, chmod go-w)"
)]
pub struct UnsafePermissions {
    /// Path of the file or directory.
    pub path: PathBuf,
    /// Uid of the owner.
    pub owner: u32,
    /// Permission bits.
    pub mode: u32,
}

/// Returns the default configuration file: `/etc/peal/peal.toml` for root, one in the user's own
/// directory otherwise.
pub(crate) fn usual_place(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // Root takes no variable into account: `sudo -E` keeps those of another user.
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from("/etc/peal/peal.toml"));
    }
    let absolute = |name| {
        variable(name)
            .map(PathBuf::from)
            // A relative path is to be ignored (XDG Base Directory Specification).
            .filter(|path| path.is_absolute())
    };
    let base =
        absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")));
    base.map(|base| base.join("peal").join("peal.toml"))
}

/// Reads a file; `None` if there is none.
pub(crate) fn read(path: &Path) -> Result<Option<String>, FileError> {
    let cannot = |source| FileError::Read {
        path: path.to_owned(),
        source,
    };
    let file = match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(cannot)?,
    };
    // Of the opened file: another one could take its path after the check.
    let metadata = file.metadata().map_err(cannot)?;
    check_owner(path, &metadata)?;
    let mut text = String::new();
    // One byte more shows that the file is too long, also for a pipe.
    let len = file
        .take(MAX_FILE + 1)
        .read_to_string(&mut text)
        .map_err(cannot)? as u64;
    if len > MAX_FILE {
        return Err(FileError::TooLong {
            path: path.to_owned(),
            // The length of a pipe is 0 in its metadata.
            len: metadata.len().max(len),
        });
    }
    Ok(Some(text))
}

/// Returns the files in `modules.d` beside a file, sorted by name. Hidden files are ignored.
pub(crate) fn drop_ins(beside: &Path) -> Result<Vec<PathBuf>, FileError> {
    let dir = beside.parent().unwrap_or(Path::new("")).join("modules.d");
    let cannot = |source| FileError::Read {
        path: dir.clone(),
        source,
    };
    let entries = match fs::read_dir(&dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(cannot)?,
    };
    // A user who can write to the directory could add modules.
    check_owner(&dir, &fs::metadata(&dir).map_err(cannot)?)?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(cannot)?.path();
        // Editors have lock files under hidden names, as in `.#10-a.toml`.
        let is_hidden = path
            .file_name()
            .is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        if is_hidden || path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        if files.len() == MAX_DROP_INS {
            return Err(FileError::TooMany { path: dir });
        }
        files.push(path);
    }
    // Modules are registered in this order, which must not depend on the file system.
    files.sort();
    Ok(files)
}

/// Checks that only root can write a file that controls a server of root. Pipes are exempt, since
/// they have no other name by which another user could write.
pub fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), UnsafePermissions> {
    let is_lasting = metadata.is_file() || metadata.is_dir();
    let owner = metadata.uid();
    let mode = metadata.mode() & 0o7777;
    if is_lasting && rustix::process::geteuid().is_root() && is_exposed(owner, mode) {
        return Err(UnsafePermissions {
            path: path.to_owned(),
            owner,
            mode,
        });
    }
    Ok(())
}

/// Returns true if users other than root can write the file.
fn is_exposed(owner: u32, mode: u32) -> bool {
    owner != 0 || mode & OTHERS_WRITE != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn files_writable_by_others_are_not_used_by_root() {
        for (owner, mode, exposed) in [
            (0, 0o644, false),
            (0, 0o600, false),
            (1000, 0o600, true),
            (0, 0o664, true),
            (0, 0o602, true),
        ] {
            assert_eq!(is_exposed(owner, mode), exposed, "{owner} {mode:o}");
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("peal.toml");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let read = read(&path);
        if rustix::process::geteuid().is_root() {
            let error = read.unwrap_err().to_string();
            assert!(
                error.contains("has owner 0 and mode 666") && error.contains("chmod go-w"),
                "{error}"
            );
        } else {
            assert_eq!(read.unwrap().as_deref(), Some(""));
        }
    }

    #[test]
    fn drop_ins_are_sorted_by_name_without_editor_files() {
        let dir = tempfile::tempdir().unwrap();
        let main = dir.path().join("peal.toml");
        assert!(drop_ins(&main).unwrap().is_empty());
        fs::create_dir(dir.path().join("modules.d")).unwrap();
        for name in [
            "20-b.toml",
            "10-a.toml",
            ".#10-a.toml",
            "10-a.toml~",
            "readme",
        ] {
            fs::write(dir.path().join("modules.d").join(name), "").unwrap();
        }
        let names: Vec<_> = drop_ins(&main)
            .unwrap()
            .iter()
            .map(|path| path.file_name().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["10-a.toml", "20-b.toml"]);
    }
}

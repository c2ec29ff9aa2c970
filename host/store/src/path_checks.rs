//! Checks of the path of a store. A user who can write or replace its file controls the state of
//! modules and the records, so only root and the server's user may.
use crate::StoreError;
use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Mode bits that let other users write.
const WRITE_BY_OTHERS: u32 = 0o022;
/// Mode bit of a directory in which only their owners rename and remove files.
const STICKY: u32 = 0o1000;

/// Suffixes of the two files of a trail's journal.
pub(crate) const AUDIT_JOURNAL_SUFFIXES: [&str; 2] = ["-tail", "-tail2"];
/// Suffixes of the files of a database: none for the database itself, those of SQLite, the journal.
const FILES: [&str; 6] = [
    "",
    "-wal",
    "-shm",
    "-journal",
    AUDIT_JOURNAL_SUFFIXES[0],
    AUDIT_JOURNAL_SUFFIXES[1],
];

/// Returns the resolved path of a store, if no other user can replace a directory above it.
pub(crate) fn checked_path(path: &Path) -> Result<PathBuf, StoreError> {
    let resolved = resolved_path(path)?;
    // A user who can rename any directory above could replace the whole path below it.
    for above in resolved.ancestors().skip(1) {
        let found = above.metadata().map_err(|source| StoreError::Create {
            path: path.to_owned(),
            source,
        })?;
        // In a sticky directory other users can add files, which `check_files` refuses, but cannot
        // replace those of the store.
        let closed = found.mode() & WRITE_BY_OTHERS == 0 || found.mode() & STICKY != 0;
        if !is_trusted(&found) || !closed {
            return Err(exposed(path, above, &found));
        }
    }
    Ok(resolved)
}

/// Returns the path of a file with its directory resolved. SQLite refuses links in the whole path.
pub(crate) fn resolved_path(path: &Path) -> Result<PathBuf, StoreError> {
    let of = |source| StoreError::Create {
        path: path.to_owned(),
        source,
    };
    let name = path
        .file_name()
        .ok_or_else(|| of(io::ErrorKind::InvalidInput.into()))?;
    // A bare name has an empty parent, which `canonicalize` rejects.
    let dir = path
        .parent()
        .filter(|dir| !dir.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    Ok(dir.canonicalize().map_err(of)?.join(name))
}

/// Refuses files of a store that another user made or can write, and paths that are not files.
/// Missing files are accepted.
pub(crate) fn check_files(path: &Path) -> Result<(), StoreError> {
    for end in FILES {
        let file = with_end(path, end);
        // A link is refused wherever it leads: its owner could change the target later.
        match fs::symlink_metadata(&file) {
            Ok(found) => check_file(path, &file, &found)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(StoreError::Create { path: file, source }),
        }
    }
    Ok(())
}

/// Checks one file of a store.
pub(crate) fn check_file(path: &Path, file: &Path, found: &Metadata) -> Result<(), StoreError> {
    if !found.is_file() {
        return Err(StoreError::Foreign {
            path: file.to_owned(),
            found: "not a regular file",
        });
    }
    if !is_trusted(found) || found.mode() & WRITE_BY_OTHERS != 0 {
        return Err(exposed(path, file, found));
    }
    Ok(())
}

/// Appends a suffix to the path of a database.
pub(crate) fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn is_trusted(found: &Metadata) -> bool {
    found.uid() == 0 || found.uid() == rustix::process::geteuid().as_raw()
}

fn exposed(path: &Path, by: &Path, found: &Metadata) -> StoreError {
    let owner = found.uid();
    let mode = found.mode() & 0o7777;
    StoreError::Exposed {
        path: path.to_owned(),
        by: by.to_owned(),
        owner,
        mode,
    }
}

#[cfg(test)]
mod tests {
    use crate::{Store, StoreError, StoreSettings};
    use peal_needs::needs;
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt, chown, symlink},
        path::Path,
    };

    fn open(path: &Path) -> Result<Store, StoreError> {
        Store::open(path, StoreSettings::default())
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_file_that_others_can_write_or_have_made_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("peal.db");
        drop(open(&path).unwrap());
        for (mode, refused) in [(0o666, true), (0o620, true), (0o644, false), (0o600, false)] {
            set_mode(&path, mode);
            let opened = open(&path);
            assert_eq!(
                matches!(opened, Err(StoreError::Exposed { .. })),
                refused,
                "{mode:o}: {opened:?}"
            );
        }
        // SQLite reads what is beside it as well.
        let log = dir.path().join("peal.db-wal");
        fs::write(&log, "").unwrap();
        set_mode(&log, 0o666);
        let error = open(&path).unwrap_err().to_string();
        assert!(
            error.contains("peal.db-wal\" belongs to user") && error.contains("mode 666"),
            "{error}"
        );
    }

    #[needs(root)]
    #[test]
    fn file_of_another_user_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("peal.db");
        drop(open(&path).unwrap());
        chown(&path, Some(65_534), None).unwrap();
        let error = open(&path).unwrap_err();
        assert!(
            matches!(error, StoreError::Exposed { owner: 65_534, .. }),
            "{error}"
        );
    }

    #[test]
    fn non_file_is_refused_and_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real.db");
        let link = dir.path().join("link.db");
        symlink(&real, &link).unwrap();
        // Whether the link leads anywhere or not.
        for _ in 0..2 {
            assert!(matches!(open(&link), Err(StoreError::Foreign { .. })));
            if !real.exists() {
                drop(open(&real).unwrap());
            }
        }
        fs::create_dir(dir.path().join("dir.db")).unwrap();
        assert!(matches!(
            open(&dir.path().join("dir.db")),
            Err(StoreError::Foreign { .. })
        ));
    }

    #[test]
    fn directory_writable_by_others_is_refused_unless_sticky() {
        let dir = tempfile::tempdir().unwrap();
        let (outer, inner) = (dir.path().join("outer"), dir.path().join("outer/inner"));
        fs::create_dir_all(&inner).unwrap();
        for exposed in [&outer, &inner] {
            for (mode, refused) in [
                (0o777, true),
                (0o775, true),
                (0o1777, false),
                (0o755, false),
            ] {
                set_mode(exposed, mode);
                let opened = open(&inner.join("peal.db"));
                assert_eq!(
                    matches!(opened, Err(StoreError::Exposed { .. })),
                    refused,
                    "{mode:o}: {opened:?}"
                );
            }
        }
        // A link to a directory is only a way there.
        let link = dir.path().join("link");
        symlink(&inner, &link).unwrap();
        assert_eq!(
            open(&link.join("peal.db")).unwrap().database.path(),
            inner.canonicalize().unwrap().join("peal.db")
        );
    }
}

//! Monitored files. The privileged helper opens and reads each with the rights of the requester of the
//! monitor, so that the requester learns nothing that it could not read itself.
use super::refused;
use peal_core::{
    monitor::{FileStat, MonitorId},
    server::FileSeen,
};
use peal_helper::{FileFault, FilePlace, FileRequest, HelperError, PrivilegedHelper};
use peal_model::{Status, UserIdentity, code};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Monitored files.
#[derive(Debug, Default)]
pub(crate) struct MonitoredFiles {
    helper: PrivilegedHelper,
    watched: Mutex<BTreeMap<MonitorId, Watched>>,
}

#[derive(Debug)]
struct Watched {
    identity: UserIdentity,
    path: PathBuf,
    /// None until this process has opened the file.
    place: Option<FilePlace>,
}

impl MonitoredFiles {
    pub(super) fn new(helper: PrivilegedHelper) -> MonitoredFiles {
        MonitoredFiles {
            helper,
            watched: Mutex::default(),
        }
    }

    /// Adds a monitor whose file is not open yet.
    pub(super) fn expect(&self, watch: MonitorId, path: &Path, identity: UserIdentity) {
        let watched = Watched {
            identity,
            path: path.to_owned(),
            place: None,
        };
        self.watched().insert(watch, watched);
    }

    /// Returns the user for which a file is monitored; none after the monitor has ended.
    pub(super) fn owner(&self, watch: MonitorId) -> Option<UserIdentity> {
        self.watched().get(&watch).map(|watched| watched.identity)
    }

    /// Removes a monitor.
    pub(super) fn close(&self, watch: MonitorId) {
        let removed = self.watched().remove(&watch);
        if let Some(place) = removed.and_then(|watched| watched.place) {
            self.helper.close_file(place);
        }
    }

    /// Opens a file and reads its metadata. Blocks.
    pub(super) fn open(&self, watch: MonitorId, path: &Path, identity: UserIdentity) -> FileSeen {
        match self.opened(watch, path, identity) {
            Ok(stat) => Ok(stat),
            Err(why) => {
                self.watched().remove(&watch);
                Err(why)
            }
        }
    }

    /// Reads the metadata of a file again; none if it no longer exists or its user may not read it.
    /// Blocks.
    pub(super) fn look(&self, watch: MonitorId) -> Option<FileStat> {
        // The lock is held only for the copy: reading the metadata may block.
        let (identity, path, place) = {
            let all = self.watched();
            let watched = all.get(&watch)?;
            (watched.identity, watched.path.clone(), watched.place)
        };
        let reopened = || self.opened(watch, &path, identity).ok();
        let Some(place) = place else {
            return reopened();
        };
        match self.helper.read_file(place) {
            Ok(stat) => stat,
            // A helper that was started in the place of a lost one has no open files.
            Err(HelperError::Refused(_) | HelperError::Lost(_)) => reopened(),
            Err(error @ HelperError::Timeout) => {
                tracing::warn!(%error, ?path, "monitored file not read");
                None
            }
        }
    }

    fn opened(&self, watch: MonitorId, path: &Path, identity: UserIdentity) -> FileSeen {
        let request = FileRequest {
            path: path.to_owned(),
            identity,
        };
        let opened = match self.helper.open_file(request) {
            Ok(Ok(opened)) => opened,
            Ok(Err(FileFault::Irregular)) => return Err(no_file(path)),
            Ok(Err(FileFault::System(number))) => {
                let error = io::Error::from_raw_os_error(number);
                return Err((refused(&error), format!("{}: {error}", path.display())));
            }
            Err(error) => return Err((code::PMIX_ERR_NO_PERMISSIONS, error.to_string())),
        };
        match self.watched().get_mut(&watch) {
            Some(watched) => watched.place = Some(opened.place),
            // The monitor was removed meanwhile.
            None => self.helper.close_file(opened.place),
        }
        Ok(opened.stat)
    }

    fn watched(&self) -> MutexGuard<'_, BTreeMap<MonitorId, Watched>> {
        // No holder of this lock panics while the map is inconsistent, so a poisoned map is usable.
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_file(path: &Path) -> (Status, String) {
    let why = format!(
        "{} is no regular file; for a link, name its target",
        path.display()
    );
    (code::PMIX_ERR_BAD_PARAM, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_needs::needs;
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
        path::PathBuf,
    };
    use tempfile::TempDir;

    const WATCH: MonitorId = MonitorId(1);
    const OTHER_USER: UserIdentity = UserIdentity {
        uid: 54_321,
        gid: 54_322,
    };

    fn me() -> UserIdentity {
        UserIdentity {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        }
    }

    /// Returns the monitored files of a user, with a monitor of `path`.
    fn watched(path: &Path, identity: UserIdentity) -> (MonitoredFiles, FileSeen) {
        let files = MonitoredFiles::default();
        files.expect(WATCH, path, identity);
        let seen = files.open(WATCH, path, identity);
        (files, seen)
    }

    /// Returns a directory that all users may use, with a secret file of the test's user in a
    /// closed subdirectory.
    fn shared_dir_with_secret() -> (TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let shut = dir.path().join("shut");
        fs::create_dir(&shut).unwrap();
        fs::set_permissions(&shut, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(shut.join("log"), "a secret of some length").unwrap();
        (dir, shut)
    }

    #[test]
    fn growing_file_is_seen_and_found_after_directory_moved() {
        let dir = tempfile::tempdir().unwrap();
        let before = dir.path().join("before");
        let after = dir.path().join("after");
        fs::create_dir(&before).unwrap();
        fs::write(before.join("log"), "one").unwrap();
        let (files, seen) = watched(&before.join("log"), me());
        assert_eq!(seen.unwrap().size, 3);
        fs::rename(&before, &after).unwrap();
        fs::write(after.join("log"), "one and two").unwrap();
        assert_eq!(files.look(WATCH).unwrap().size, 11);
        fs::remove_file(after.join("log")).unwrap();
        assert_eq!(files.look(WATCH), None);
        fs::write(after.join("log"), "").unwrap();
        assert_eq!(files.look(WATCH).unwrap().size, 0);
        files.close(WATCH);
        assert_eq!((files.look(WATCH), files.owner(WATCH)), (None, None));
    }

    #[test]
    fn path_of_non_file_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("log"), "").unwrap();
        symlink("log", dir.path().join("link")).unwrap();
        let refused = |name: &str| watched(&dir.path().join(name), me()).1.unwrap_err();
        assert_eq!(refused("missing").0, code::PMIX_ERR_NOT_FOUND);
        assert_eq!(refused("missing/log").0, code::PMIX_ERR_NOT_FOUND);
        let (status, why) = refused("link");
        assert_eq!(status, code::PMIX_ERR_BAD_PARAM);
        assert!(why.contains("/link is no regular file"), "{why}");
        assert_eq!(
            watched(dir.path(), me()).1.unwrap_err().0,
            code::PMIX_ERR_BAD_PARAM
        );
    }

    #[needs(root)]
    #[test]
    fn swapped_path_shows_no_forbidden_file() {
        let (dir, shut) = shared_dir_with_secret();
        let (_, refused) = watched(&shut.join("log"), OTHER_USER);
        assert_eq!(refused.unwrap_err().0, code::PMIX_ERR_NO_PERMISSIONS);

        // A link in the path reveals nothing more.
        let way = dir.path().join("way");
        symlink(&shut, &way).unwrap();
        let (_, refused) = watched(&way.join("log"), OTHER_USER);
        assert_eq!(refused.unwrap_err().0, code::PMIX_ERR_NO_PERMISSIONS);

        // The user replaces its own directory by a link to the closed one after the file is
        // monitored.
        let theirs = dir.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        fs::write(theirs.join("log"), "own").unwrap();
        let (files, seen) = watched(&theirs.join("log"), OTHER_USER);
        assert_eq!(seen.unwrap().size, 3);
        fs::rename(&theirs, dir.path().join("moved")).unwrap();
        symlink(&shut, &theirs).unwrap();
        assert_eq!(
            files.look(WATCH).unwrap().size,
            3,
            "the directory is the one that was opened"
        );

        // The user replaces the file by a link, and then by another file.
        let log = dir.path().join("moved/log");
        fs::remove_file(&log).unwrap();
        symlink(shut.join("log"), &log).unwrap();
        assert_eq!(files.look(WATCH), None, "links are not followed");
        // A file that the user can no longer open is no longer visible.
        fs::set_permissions(dir.path().join("moved"), fs::Permissions::from_mode(0o700)).unwrap();
        fs::remove_file(&log).unwrap();
        fs::write(&log, "own").unwrap();
        assert_eq!(files.look(WATCH), None);
    }

    #[needs(root)]
    #[test]
    fn race_of_paths_gains_nothing() {
        let (dir, shut) = shared_dir_with_secret();
        let theirs = dir.path().join("theirs");
        let link = dir.path().join("link");
        fs::create_dir(&theirs).unwrap();
        fs::write(theirs.join("log"), "own").unwrap();
        symlink(&shut, &link).unwrap();
        let name = dir.path().join("name");
        symlink(&theirs, &name).unwrap();
        std::thread::scope(|scope| {
            let swapping = scope.spawn(|| {
                for turn in 0..2000 {
                    let next = dir.path().join("next");
                    symlink(if turn % 2 == 0 { &shut } else { &theirs }, &next).unwrap();
                    fs::rename(&next, &name).unwrap();
                }
            });
            while !swapping.is_finished() {
                let (files, seen) = watched(&name.join("log"), OTHER_USER);
                for seen in [seen.ok(), files.look(WATCH)].into_iter().flatten() {
                    assert_eq!(seen.size, 3, "the secret was seen");
                }
            }
        });
    }
}

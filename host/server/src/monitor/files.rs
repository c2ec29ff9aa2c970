//! Files that are watched: each by its directory, which stays open, and its name there.
//!
//! Whoever wants a file watched learns what a look at it tells. So every look is one that they could take themselves: as their
//! user, in the directory that they could open when they asked, at what bears the name there and is no link. Whatever is swapped
//! for what, nobody sees more.
use super::refused;
use peal_core::{
    monitor::{FileStat, MonitorId},
    server::FileSeen,
};
use peal_model::{Status, UserIdentity, code};
use peal_system::as_user;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, open, statat};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    os::fd::OwnedFd,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The files that are watched.
#[derive(Debug, Default)]
pub(crate) struct MonitoredFiles(Mutex<BTreeMap<MonitorId, Watched>>);

#[derive(Debug)]
struct Watched {
    identity: UserIdentity,
    /// None until it is open.
    place: Option<Arc<FileLocation>>,
}

/// Where a file is.
#[derive(Debug)]
struct FileLocation {
    directory: OwnedFd,
    name: OsString,
}

impl MonitoredFiles {
    /// A file is about to be opened.
    pub(super) fn expect(&self, watch: MonitorId, identity: UserIdentity) {
        self.watched().insert(
            watch,
            Watched {
                identity,
                place: None,
            },
        );
    }

    /// For whom a file is looked at, if it is.
    pub(super) fn owner(&self, watch: MonitorId) -> Option<UserIdentity> {
        self.watched().get(&watch).map(|watched| watched.identity)
    }

    /// A file is looked at no more.
    pub(super) fn close(&self, watch: MonitorId) {
        self.watched().remove(&watch);
    }

    /// Opens the directory of a file and looks at the file. Blocks.
    pub(super) fn open(&self, watch: MonitorId, path: &Path, identity: UserIdentity) -> FileSeen {
        let found = as_user::run(identity, || find(path)).unwrap_or_else(Err);
        let found =
            found.map_err(|error| (refused(&error), format!("{}: {error}", path.display())));
        let opened = found.and_then(|(place, stat)| match seen(&stat) {
            Some(seen) => Ok((place, seen)),
            None => Err(no_file(path)),
        });
        let mut all = self.watched();
        match (opened, all.get_mut(&watch)) {
            (Ok((place, seen)), Some(watched)) => {
                watched.place = Some(Arc::new(place));
                Ok(seen)
            }
            // Nobody wants it any more.
            (Ok((_, seen)), None) => Ok(seen),
            (Err(why), _) => {
                all.remove(&watch);
                Err(why)
            }
        }
    }

    /// Looks at a file again; nothing, where there is none any more, or none for its user. Blocks.
    pub(super) fn look(&self, watch: MonitorId) -> Option<FileStat> {
        let (identity, place) = {
            let all = self.watched();
            let watched = all.get(&watch)?;
            (watched.identity, watched.place.clone()?)
        };
        let stat = as_user::run(identity, || look_at(&place))
            .and_then(|stat| stat.map_err(io::Error::from));
        seen(&stat.ok()?)
    }

    fn watched(&self) -> MutexGuard<'_, BTreeMap<MonitorId, Watched>> {
        // Nothing in here panics half-way, so what a poisoned lock guards is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn find(path: &Path) -> io::Result<(FileLocation, Stat)> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // A place and no more: neither is the directory read nor anything in it opened, so nothing can hang, or notice.
    let directory = open(
        parent,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let place = FileLocation {
        directory,
        name: name.to_owned(),
    };
    let stat = look_at(&place)?;
    Ok((place, stat))
}

fn look_at(place: &FileLocation) -> rustix::io::Result<Stat> {
    statat(
        &place.directory,
        &place.name,
        AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT,
    )
}

/// What is seen of a file; nothing, if it is none.
fn seen(stat: &Stat) -> Option<FileStat> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let time = |seconds, nanoseconds| i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
    Some(FileStat {
        size: u64::try_from(stat.st_size).unwrap_or_default(),
        accessed: time(stat.st_atime, stat.st_atime_nsec),
        modified: time(stat.st_mtime, stat.st_mtime_nsec),
    })
}

fn no_file(path: &Path) -> (Status, String) {
    let why = format!(
        "{} is no regular file; of a link, name what it leads to",
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
    const SOMEBODY: UserIdentity = UserIdentity {
        uid: 54_321,
        gid: 54_322,
    };

    fn me() -> UserIdentity {
        UserIdentity {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        }
    }

    /// Files of somebody for whom one is watched there.
    fn watched(path: &Path, identity: UserIdentity) -> (MonitoredFiles, FileSeen) {
        let files = MonitoredFiles::default();
        files.expect(WATCH, identity);
        let seen = files.open(WATCH, path, identity);
        (files, seen)
    }

    /// A directory that everybody may use, with a secret of ours in one that nobody else may enter.
    fn stage() -> (TempDir, PathBuf) {
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
        let (before, after) = (dir.path().join("before"), dir.path().join("after"));
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
        let (dir, shut) = stage();
        let (_, refused) = watched(&shut.join("log"), SOMEBODY);
        assert_eq!(refused.unwrap_err().0, code::PMIX_ERR_NO_PERMISSIONS);

        // By a link on the way, there is no more to be seen.
        let way = dir.path().join("way");
        symlink(&shut, &way).unwrap();
        let (_, refused) = watched(&way.join("log"), SOMEBODY);
        assert_eq!(refused.unwrap_err().0, code::PMIX_ERR_NO_PERMISSIONS);

        // A directory of theirs is swapped for a link to ours when the file is watched already.
        let theirs = dir.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        fs::write(theirs.join("log"), "own").unwrap();
        let (files, seen) = watched(&theirs.join("log"), SOMEBODY);
        assert_eq!(seen.unwrap().size, 3);
        fs::rename(&theirs, dir.path().join("moved")).unwrap();
        symlink(&shut, &theirs).unwrap();
        assert_eq!(
            files.look(WATCH).unwrap().size,
            3,
            "the directory is the one that was opened"
        );

        // The file itself is swapped for a link, and for another one of ours.
        let log = dir.path().join("moved/log");
        fs::remove_file(&log).unwrap();
        symlink(shut.join("log"), &log).unwrap();
        assert_eq!(files.look(WATCH), None, "links are not followed");
        // What they can open no more, they see no more.
        fs::set_permissions(dir.path().join("moved"), fs::Permissions::from_mode(0o700)).unwrap();
        fs::remove_file(&log).unwrap();
        fs::write(&log, "own").unwrap();
        assert_eq!(files.look(WATCH), None);
    }

    #[needs(root)]
    #[test]
    fn race_of_paths_gains_nothing() {
        let (dir, shut) = stage();
        let (theirs, link) = (dir.path().join("theirs"), dir.path().join("link"));
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
                let (files, seen) = watched(&name.join("log"), SOMEBODY);
                for seen in [seen.ok(), files.look(WATCH)].into_iter().flatten() {
                    assert_eq!(seen.size, 3, "the secret was seen");
                }
            }
        });
    }
}

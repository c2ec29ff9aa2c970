//! Monitored files. Each is identified by its open directory and its name there.
//!
//! The requester of a monitor learns the metadata of its file, so only what the requester could read
//! itself is read. Every read has the rights of that user, starts at the directory that the user
//! could open at the time of the request, and does not follow a link. Replacing a directory or file
//! therefore reveals nothing more.
use crate::message::{FileFault, FileRequest, HelperRefusal, OpenedFile};
use peal_core::monitor::FileStat;
use peal_model::UserIdentity;
use peal_system::as_user;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, open, statat};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    os::fd::OwnedFd,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Maximum number of files that are open at once. Each takes a file descriptor.
const MAX_FILES: usize = 1 << 14;

/// Number of an opened file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct FilePlace(pub u64);

/// Opened files.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles(Mutex<FileTable>);

#[derive(Debug, Default)]
struct FileTable {
    last: u64,
    open: BTreeMap<FilePlace, Arc<FileLocation>>,
}

/// Location of a file.
#[derive(Debug)]
struct FileLocation {
    identity: UserIdentity,
    directory: OwnedFd,
    name: OsString,
}

impl OpenFiles {
    /// Opens the directory of a file and reads the metadata of the file. Blocks.
    pub(crate) fn open(
        &self,
        FileRequest { path, identity }: &FileRequest,
    ) -> Result<Result<OpenedFile, FileFault>, HelperRefusal> {
        if self.table().open.len() >= MAX_FILES {
            return Err(HelperRefusal::TooMany(MAX_FILES));
        }
        let found = match as_user::run(*identity, || find(path, *identity)) {
            Ok(found) => found,
            Err(error) => return Err(refused_switch(*identity, &error)),
        };
        let (location, stat) = match found {
            Ok((location, stat)) => match seen(&stat) {
                Some(stat) => (location, stat),
                None => return Ok(Err(FileFault::Irregular)),
            },
            Err(error) => return Ok(Err(FileFault::of(&error))),
        };
        let mut table = self.table();
        table.last = table.last.wrapping_add(1);
        let place = FilePlace(table.last);
        table.open.insert(place, Arc::new(location));
        Ok(Ok(OpenedFile { place, stat }))
    }

    /// Reads the metadata of a file again; none if it no longer exists or its user may not read it.
    /// Blocks.
    pub(crate) fn read(&self, place: FilePlace) -> Result<Option<FileStat>, HelperRefusal> {
        // The lock is held only for the copy: reading the metadata may block.
        let location = self.table().open.get(&place).cloned();
        let location = location.ok_or(HelperRefusal::NotOpen(place))?;
        let stat = as_user::run(location.identity, || look_at(&location))
            .map_err(|error| refused_switch(location.identity, &error))?;
        Ok(stat.ok().as_ref().and_then(seen))
    }

    /// Closes a file.
    pub(crate) fn close(&self, place: FilePlace) {
        self.table().open.remove(&place);
    }

    fn table(&self) -> MutexGuard<'_, FileTable> {
        // No holder of this lock panics while the table is inconsistent, so a poisoned one is usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the refusal for a user whose rights cannot be taken on.
pub(crate) fn refused_switch(identity: UserIdentity, error: &io::Error) -> HelperRefusal {
    HelperRefusal::Switch {
        uid: identity.uid,
        errno: error
            .raw_os_error()
            .unwrap_or(rustix::io::Errno::PERM.raw_os_error()),
    }
}

fn find(path: &Path, identity: UserIdentity) -> io::Result<(FileLocation, Stat)> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(rustix::io::Errno::INVAL.into());
    };
    // `O_PATH` opens only the location. Neither the directory nor a file in it is opened for
    // reading, so nothing can block or notice the access.
    let directory = open(
        parent,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let location = FileLocation {
        identity,
        directory,
        name: name.to_owned(),
    };
    let stat = look_at(&location)?;
    Ok((location, stat))
}

fn look_at(location: &FileLocation) -> rustix::io::Result<Stat> {
    statat(
        &location.directory,
        &location.name,
        AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT,
    )
}

/// Converts the metadata of a regular file; none for any other file type.
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

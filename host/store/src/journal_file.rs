//! Journal of a trail: two files beside its database. Each piece is added by one write, and all pieces
//! of a file are removed once the database has them. The content is not interpreted here.
use crate::{BUSY, DatabaseDurability, StoreError, path_checks};
use rustix::fs::OFlags;
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// One of the two files of a journal. While the records of one are moved, further ones go into the
/// other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JournalPart {
    /// The file that takes the first records of a run.
    First,
    /// The other one.
    Second,
}

impl JournalPart {
    /// Both files.
    pub const ALL: [JournalPart; 2] = [JournalPart::First, JournalPart::Second];

    fn suffix(self) -> &'static str {
        let [first, second] = path_checks::AUDIT_JOURNAL_SUFFIXES;
        match self {
            JournalPart::First => first,
            JournalPart::Second => second,
        }
    }
}

/// A file of the journal of a trail, for the one process that writes to it.
#[derive(Debug)]
pub struct JournalFile {
    path: PathBuf,
    file: File,
    durability: DatabaseDurability,
    bytes: u64,
}

impl JournalFile {
    /// Returns the path of a file of the journal of a trail.
    pub fn beside(trail: &Path, part: JournalPart) -> PathBuf {
        path_checks::with_end(trail, part.suffix())
    }

    /// Opens a file of the journal of a trail; creates it if it is missing (readable by its owner
    /// only). Waits up to [`BUSY`] for a previous process that is about to end.
    pub fn open(
        trail: &Path,
        part: JournalPart,
        durability: DatabaseDurability,
    ) -> Result<JournalFile, StoreError> {
        let path = JournalFile::beside(trail, part);
        let of = |source| StoreError::Journal {
            path: path.clone(),
            source,
        };
        let file = options()
            // A write goes to the end also after `clear` has cut the file.
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&path)
            .map_err(of)?;
        let found = file.metadata().map_err(of)?;
        path_checks::check_file(trail, &path, &found)?;
        lock(&file, &path)?;
        if durability == DatabaseDurability::Machine {
            // The directory entry has to survive a crash as well.
            let dir = path.parent().unwrap_or(Path::new("."));
            File::open(dir).and_then(|dir| dir.sync_all()).map_err(of)?;
        }
        // Measured under the lock: until then the previous process may have added pieces.
        let bytes = file.metadata().map_err(of)?.len();
        Ok(JournalFile {
            path,
            file,
            durability,
            bytes,
        })
    }

    /// Returns the size of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends a piece with the durability of a write to the trail. After an error nothing of it is
    /// there.
    pub fn add(&mut self, piece: &[u8]) -> Result<(), StoreError> {
        // One write, not `write_all`: a piece is there as a whole or is taken back. A short write
        // means that the disk is full.
        let added = match self.file.write(piece) {
            Ok(count) if count == piece.len() => match self.durability {
                DatabaseDurability::Process => Ok(()),
                DatabaseDurability::Machine => self.file.sync_data(),
            },
            Ok(_) => Err(io::ErrorKind::StorageFull.into()),
            Err(error) => Err(error),
        };
        match added {
            Ok(()) => {
                self.bytes += piece.len() as u64;
                Ok(())
            }
            Err(source) => {
                // If this fails, the rest is removed by `clear`, before which the caller adds
                // nothing.
                let _ = self.file.set_len(self.bytes);
                Err(StoreError::Journal {
                    path: self.path.clone(),
                    source,
                })
            }
        }
    }

    /// Empties the file, because the trail has all pieces.
    pub fn clear(&mut self) -> Result<(), StoreError> {
        self.file.set_len(0).map_err(|source| StoreError::Journal {
            path: self.path.clone(),
            source,
        })?;
        self.bytes = 0;
        Ok(())
    }

    /// Returns at most `most` bytes of a file of the journal of a trail, which may be in use; empty if
    /// there is none.
    pub fn read(trail: &Path, part: JournalPart, most: u64) -> Result<Vec<u8>, StoreError> {
        let path = JournalFile::beside(trail, part);
        let mut bytes = Vec::new();
        match options()
            .read(true)
            .open(&path)
            .and_then(|file| file.take(most).read_to_end(&mut bytes))
        {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(StoreError::Journal { path, source }),
            Ok(_) => Ok(bytes),
        }
    }
}

/// Returns options that follow no link and do not block on a pipe.
fn options() -> OpenOptions {
    let mut options = File::options();
    options.custom_flags(
        i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default(),
    );
    options
}

/// Locks the journal: pieces of two writers would be mixed.
fn lock(file: &File, path: &Path) -> Result<(), StoreError> {
    let start = Instant::now();
    loop {
        // Tried again and again, because a lock that blocks has no timeout.
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if start.elapsed() < BUSY => {
                thread::sleep(Duration::from_millis(5))
            }
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Busy {
                    path: path.to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => {
                return Err(StoreError::Journal {
                    path: path.to_owned(),
                    source,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn pieces_are_there_in_their_order_until_they_are_cleared() {
        for durability in [DatabaseDurability::Process, DatabaseDurability::Machine] {
            let dir = tempfile::tempdir().unwrap();
            let trail = dir.path().join("audit.db");
            assert_eq!(
                JournalFile::read(&trail, JournalPart::First, 100).unwrap(),
                b""
            );
            let mut journal = JournalFile::open(&trail, JournalPart::First, durability).unwrap();
            journal.add(b"one").unwrap();
            journal.add(b"two").unwrap();
            assert_eq!(
                (
                    JournalFile::read(&trail, JournalPart::First, 100).unwrap(),
                    journal.bytes()
                ),
                (b"onetwo".to_vec(), 6)
            );
            assert_eq!(
                JournalFile::read(&trail, JournalPart::First, 4).unwrap(),
                b"onet",
                "no more than is asked for"
            );
            drop(journal);
            let mut journal = JournalFile::open(&trail, JournalPart::First, durability).unwrap();
            assert_eq!(journal.bytes(), 6);
            journal.clear().unwrap();
            journal.add(b"three").unwrap();
            assert_eq!(
                JournalFile::read(&trail, JournalPart::First, 100).unwrap(),
                b"three"
            );
            assert_eq!(
                JournalFile::beside(&trail, JournalPart::First)
                    .metadata()
                    .unwrap()
                    .permissions()
                    .mode()
                    & 0o7777,
                0o600
            );
        }
    }

    #[test]
    fn links_and_files_writable_by_others_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let trail = dir.path().join("audit.db");
        let journal = dir.path().join("audit.db-tail");
        symlink(dir.path().join("other"), &journal).unwrap();
        assert!(matches!(
            JournalFile::open(&trail, JournalPart::First, DatabaseDurability::Process),
            Err(StoreError::Journal { .. })
        ));
        assert!(matches!(
            JournalFile::read(&trail, JournalPart::First, 1),
            Err(StoreError::Journal { .. })
        ));
        std::fs::remove_file(&journal).unwrap();
        std::fs::write(&journal, "").unwrap();
        std::fs::set_permissions(&journal, std::fs::Permissions::from_mode(0o666)).unwrap();
        let error = JournalFile::open(&trail, JournalPart::First, DatabaseDurability::Process)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("audit.db-tail\" belongs to user") && error.contains("mode 666"),
            "{error}"
        );
    }

    #[test]
    fn only_one_process_adds() {
        let dir = tempfile::tempdir().unwrap();
        let trail = dir.path().join("audit.db");
        let first =
            JournalFile::open(&trail, JournalPart::First, DatabaseDurability::Process).unwrap();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                JournalFile::open(&trail, JournalPart::First, DatabaseDurability::Process)
            });
            // `open` waits for a process that is about to end.
            drop(first);
            second.join().unwrap().unwrap();
        });
    }
}

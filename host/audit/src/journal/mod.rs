//! The journal: files beside the database (`peal_store::JournalFile`) that hold records until the
//! database has them. Writing there takes one system call and neither a signature nor a transaction,
//! so a requester waits for no more than that, also if records of other users are written first.
//!
//! A record is journalled, and the requester of a decision receives the reply. Within [`GATHER_TIME`]
//! the writer thread moves the journal's records into the database and then empties the journal.
//! Under load some records are always added meanwhile, so that the journal is never empty. When a
//! file is half full, further records go into the other one, and the full one is emptied after the
//! next move. The journal is read only when a trail is opened, for records that a crash left there
//! (`recovery.rs`).
//! When records cannot be moved the journal closes: all entries then go into the database, and fail
//! if it does, until the journal is empty. So the journal never hides a trail that cannot be written.
mod frame;
mod recovery;

pub use frame::FrameError;
pub use recovery::RecoveredRecords;
#[cfg(feature = "fuzz")]
pub(crate) use recovery::count_after;
pub(crate) use recovery::{JournalFault, LastRun, RecoveredJournal, boot, waiting};

use crate::{hash_chain::ChainHead, key::CodeKey, queue::GATHER_TIME};
use peal_store::{
    DatabaseDurability, JournalFile, JournalPart, StoreError, TrailRow, TrailSettings,
};
use std::{mem, path::Path, time::Duration};

/// Maximum size of a file of the journal in bytes: both together are less than what is freed when the
/// database makes room.
const MAX_BYTES: u64 = 1 << 19;
/// Minimum ratio of the database's maximum size to that of a file of the journal.
const OF_ALL: u64 = 32;
/// Maximum number of records in a file.
const MAX_ROWS: usize = 2048;
/// Time until the next attempt to move records.
const RETRY: Duration = Duration::from_secs(1);

/// The journal of the trail that is being written.
pub(crate) struct Journal {
    /// The file that takes records.
    file: JournalFile,
    /// The other one. All of its records are being moved, or are in the database.
    moving: JournalFile,
    key: CodeKey,
    state: JournalState,
    /// Records in the journal that are not being moved yet.
    fresh: Vec<TrailRow>,
    /// Records written since the file was empty.
    rows: usize,
    /// Maximum size of a file in bytes.
    most: u64,
}

/// The files of a journal, locked and not read yet.
pub(crate) struct JournalFiles {
    first: JournalFile,
    second: JournalFile,
}

impl JournalFiles {
    /// Opens and locks the files beside a trail.
    pub(crate) fn open(
        trail: &Path,
        durability: DatabaseDurability,
    ) -> Result<JournalFiles, StoreError> {
        let [first, second] = JournalPart::ALL;
        Ok(JournalFiles {
            first: JournalFile::open(trail, first, durability)?,
            second: JournalFile::open(trail, second, durability)?,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum JournalState {
    /// The journal takes records.
    Open,
    /// The journal takes no records until it is empty.
    Shut,
}

impl Journal {
    /// Creates the journal of a trail with the present content of the files. It takes no records until
    /// the database has those.
    pub(crate) fn new(files: JournalFiles, settings: TrailSettings, key: CodeKey) -> Journal {
        let most = MAX_BYTES.min(settings.max_bytes / OF_ALL);
        Journal {
            file: files.first,
            moving: files.second,
            key,
            // Records of an earlier run may be in the files. The first write to the database clears
            // it and opens the journal.
            state: JournalState::Shut,
            fresh: Vec::new(),
            rows: 0,
            most,
        }
    }

    /// Appends records, or returns them if the journal does not take them.
    pub(crate) fn add(
        &mut self,
        before: ChainHead,
        rows: Vec<TrailRow>,
    ) -> Result<(), Vec<TrailRow>> {
        let room = self.most.saturating_sub(self.file.bytes());
        // A lower bound, known before the frame is built.
        let bodies: u64 = rows.iter().map(|row| row.body.len() as u64).sum();
        if self.state == JournalState::Shut || self.rows + rows.len() > MAX_ROWS || bodies > room {
            return Err(rows);
        }
        let frame = match frame::framed(before, &rows, &self.key) {
            Some(frame) if frame.len() as u64 <= room => frame,
            _ => return Err(rows),
        };
        if let Err(error) = self.file.add(&frame) {
            tracing::warn!(%error, "audit journal not written, decisions go into the audit trail directly");
            self.state = JournalState::Shut;
            return Err(rows);
        }
        self.rows += rows.len();
        self.fresh.extend(rows);
        Ok(())
    }

    /// Takes the records that are to be moved now.
    pub(crate) fn take(&mut self) -> Vec<TrailRow> {
        mem::take(&mut self.fresh)
    }

    /// Takes the records that are to be moved while further ones are added. Those go into the other
    /// file if this one is half full.
    pub(crate) fn begin_move(&mut self) -> Vec<TrailRow> {
        let is_open = self.state == JournalState::Open;
        if is_open && self.is_half_full() && self.moving.bytes() == 0 {
            mem::swap(&mut self.file, &mut self.moving);
            self.rows = 0;
        }
        self.take()
    }

    /// Empties the file whose records were moved, because the database has all records that were
    /// taken; empties both if no records were added since.
    pub(crate) fn end_move(&mut self) {
        if self.is_taken() {
            self.clear();
        } else if let Err(error) = emptied(&mut self.moving) {
            self.report_full(&error);
        }
    }

    /// Returns true if no records were added since the last `take`.
    fn is_taken(&self) -> bool {
        self.fresh.is_empty()
    }

    /// Closes the journal, because the database cannot be written.
    pub(crate) fn shut(&mut self) {
        self.state = JournalState::Shut;
    }

    /// Empties the journal, because the database has all of its records.
    pub(crate) fn clear(&mut self) {
        match emptied(&mut self.file).and_then(|()| emptied(&mut self.moving)) {
            Ok(()) => (self.state, self.rows) = (JournalState::Open, 0),
            Err(error) => self.report_full(&error),
        }
    }

    fn report_full(&mut self, error: &StoreError) {
        self.state = JournalState::Shut;
        tracing::warn!(%error, "audit journal not emptied after its records were moved");
    }

    /// Returns true if the file that takes records should be emptied soon.
    fn is_half_full(&self) -> bool {
        self.file.bytes() > self.most / 2 || self.rows > MAX_ROWS / 2
    }

    /// Returns the time until the journal is to be moved; `None` if it is empty.
    pub(crate) fn next_move_in(&self) -> Option<Duration> {
        let while_it_is = match self.state {
            JournalState::Open if self.is_half_full() => Duration::ZERO,
            JournalState::Open => GATHER_TIME,
            JournalState::Shut => RETRY,
        };
        (self.file.bytes() + self.moving.bytes() > 0).then_some(while_it_is)
    }
}

/// Empties a file. Most are empty already: the system call is saved then.
fn emptied(file: &mut JournalFile) -> Result<(), StoreError> {
    if file.bytes() > 0 {
        file.clear()
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;

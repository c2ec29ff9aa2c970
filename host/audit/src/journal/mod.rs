//! The journal: decisions on their way into the database, in a file beside it (`peal_store::Tail`). To write one there takes one
//! system call and neither a signature nor a transaction, so whoever waits for a decision waits for no more than that.
//!
//! A decision is journalled, its requester is told, and within [`GATHER`] the writing thread moves what is there into the
//! database; when that has it, the journal is emptied. It is read when a trail is opened, and only then, for what a sudden end
//! left there (`left.rs`). What cannot be moved shuts it: then decisions go into the database as everything else does, and fare as
//! that does, until all of it is there. So it hides no trail that cannot be written.
mod frame;
mod recovery;

pub use frame::FrameError;
pub use recovery::RecoveredRecords;
pub(crate) use recovery::{RecoveredJournal, boot, has_restarted, waiting};

use crate::{AuditError, Keys, hash_chain::ChainHead, queue::GATHER};
use peal_store::{JournalFile, TrailRow, TrailSettings};
use std::{path::Path, sync::Arc, time::Duration};

/// How large it may become, in bytes: less than goes when room is made in the database for what is in it.
const MOST_BYTES: u64 = 256 << 10;
/// Into how many parts as large as it the database could be cut, at least.
const OF_ALL: u64 = 8;
/// How many records may be in it.
const MOST_ROWS: usize = 1024;
/// How long it is let alone that cannot be moved.
const RETRY: Duration = Duration::from_secs(1);

/// The journal of the trail that is being written.
pub(crate) struct Journal {
    tail: JournalFile,
    keys: Arc<Keys>,
    state: JournalState,
    /// What is there and nobody has begun to move.
    fresh: Vec<TrailRow>,
    /// How many records were written since it was empty.
    rows: usize,
    /// How large it may become.
    most: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum JournalState {
    /// It takes records.
    Open,
    /// It takes none before it is empty.
    Shut,
}

impl Journal {
    /// That of a trail, with whatever is there. It takes nothing before that is in the database.
    pub(crate) fn open(
        trail: &Path,
        settings: TrailSettings,
        keys: Arc<Keys>,
    ) -> Result<Journal, AuditError> {
        let tail = JournalFile::open(trail, settings.durability)?;
        let most = MOST_BYTES.min(settings.max_bytes / OF_ALL);
        Ok(Journal {
            tail,
            keys,
            state: JournalState::Shut,
            fresh: Vec::new(),
            rows: 0,
            most,
        })
    }

    /// Its file.
    pub(crate) fn path(&self) -> &Path {
        self.tail.path()
    }

    /// Puts records behind what is there, or hands them back.
    pub(crate) fn add(
        &mut self,
        before: ChainHead,
        rows: Vec<TrailRow>,
    ) -> Result<(), Vec<TrailRow>> {
        let room = self.most.saturating_sub(self.tail.bytes());
        let bodies: u64 = rows.iter().map(|row| row.body.len() as u64).sum();
        if self.state == JournalState::Shut || self.rows + rows.len() > MOST_ROWS || bodies > room {
            return Err(rows);
        }
        let frame = match frame::framed(before, &rows, &self.keys) {
            Some(frame) if frame.len() as u64 <= room => frame,
            _ => return Err(rows),
        };
        if let Err(error) = self.tail.add(&frame) {
            tracing::warn!(%error, "decisions are written into the audit trail itself, which takes longer");
            self.state = JournalState::Shut;
            return Err(rows);
        }
        self.rows += rows.len();
        self.fresh.extend(rows);
        Ok(())
    }

    /// What is to be moved now.
    pub(crate) fn take(&mut self) -> Vec<TrailRow> {
        std::mem::take(&mut self.fresh)
    }

    /// Whether nothing came since some was taken.
    pub(crate) fn is_taken(&self) -> bool {
        self.fresh.is_empty()
    }

    /// The database cannot be written.
    pub(crate) fn shut(&mut self) {
        self.state = JournalState::Shut;
    }

    /// The database has all of it.
    pub(crate) fn clear(&mut self) {
        let cleared = if self.tail.bytes() > 0 {
            self.tail.clear()
        } else {
            Ok(())
        };
        match cleared {
            Ok(()) => (self.state, self.rows) = (JournalState::Open, 0),
            Err(error) => {
                self.state = JournalState::Shut;
                tracing::warn!(%error, "what the audit trail has already cannot be taken away from there");
            }
        }
    }

    /// After how long it is to be looked after; not at all where it is empty.
    pub(crate) fn rests(&self) -> Option<Duration> {
        let while_it_is = if self.state == JournalState::Open {
            GATHER
        } else {
            RETRY
        };
        (self.tail.bytes() > 0).then_some(while_it_is)
    }
}

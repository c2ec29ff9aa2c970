//! Recovery of the records that a server left in the journal when it ended abnormally.
use super::{
    MAX_BYTES,
    frame::{self, FrameError, JournalFrame, SealedFrame},
};
use crate::{
    AuditEntry, AuditError, entry::kind, hash_chain::ChainHead, key::CodeKey,
    signer::message::RunId,
};
use peal_store::{Filter, JournalFile, StoreError, Trail, TrailRow};
use std::io::{ErrorKind, Read as _};

/// Records that are in the journal and not in the database yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecoveredRecords {
    /// The number of records.
    pub records: u64,
    /// The size of the journal in bytes.
    pub bytes: u64,
}

/// Returns the records of the journal that follow `last`; `None` for an empty journal. Their codes
/// are not checked, since that takes the secret key.
pub(crate) fn waiting(trail: &Trail, last: u64) -> Result<Option<RecoveredRecords>, StoreError> {
    let bytes = match JournalFile::read(trail.path(), MAX_BYTES) {
        // A reader with access to the database alone can still verify that.
        Err(StoreError::Journal { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {
            return Ok(None);
        }
        read => read?,
    };
    let records = count_after(&bytes, last);
    Ok((!bytes.is_empty()).then_some(RecoveredRecords {
        records,
        bytes: bytes.len() as u64,
    }))
}

/// Counts the records of a journal with a higher number. Codes are not checked.
pub(crate) fn count_after(bytes: &[u8], last: u64) -> u64 {
    let mut rest = bytes;
    let mut records = 0;
    while let Ok(Some(whole)) = frame::first(&mut rest) {
        let rows = whole.frame().map(|frame| frame.rows).unwrap_or_default();
        records += rows.iter().filter(|row| row.seq > last).count() as u64;
    }
    records
}

/// Content of a journal.
pub(crate) struct RecoveredJournal {
    /// The records that the database does not have, in their order.
    pub(crate) rows: Vec<TrailRow>,
    /// The first invalid frame, counted from 1, and its error.
    pub(crate) fault: Option<(u64, FrameError)>,
}

impl RecoveredJournal {
    /// Reads the journal of a trail that ends with `head`.
    pub(crate) fn read(
        trail: &Trail,
        head: ChainHead,
        key: &CodeKey,
    ) -> Result<RecoveredJournal, AuditError> {
        // One byte more than is ever written shows a journal that is too long.
        let bytes = JournalFile::read(trail.path(), MAX_BYTES + 1)?;
        let mut left = RecoveredJournal {
            rows: Vec::new(),
            fault: None,
        };
        let mut rest = bytes.as_slice();
        let mut last = head;
        for number in 1.. {
            let fault = match frame::first(&mut rest) {
                // A frame that is cut off was being written, so its decisions were not reported
                // yet.
                Ok(None) => break,
                Ok(Some(whole)) => match follow(trail, head, last, &whole, key) {
                    Ok(FrameRecords::Known) => None,
                    Ok(FrameRecords::New(frame)) => {
                        last = frame.after();
                        left.rows.extend(frame.rows);
                        None
                    }
                    Err(JournalReadError::Frame(fault)) => Some(fault),
                    Err(JournalReadError::Trail(error)) => return Err(error.into()),
                },
                Err(fault) => Some(fault),
            };
            left.fault = fault.map(|fault| (number, fault));
            if left.fault.is_some() {
                return Ok(left);
            }
        }
        if bytes.len() as u64 > MAX_BYTES {
            left.fault = Some((1, FrameError::Long { most: MAX_BYTES }));
        }
        Ok(left)
    }
}

/// Records of a frame.
enum FrameRecords {
    /// They are in the database.
    Known,
    /// They follow the last one.
    New(JournalFrame),
}

enum JournalReadError {
    Frame(FrameError),
    Trail(StoreError),
}

impl From<FrameError> for JournalReadError {
    fn from(fault: FrameError) -> JournalReadError {
        JournalReadError::Frame(fault)
    }
}

/// Checks the next frame of a journal. The database ends with `head`, and the frames before with
/// `last`.
fn follow(
    trail: &Trail,
    head: ChainHead,
    last: ChainHead,
    whole: &SealedFrame<'_>,
    key: &CodeKey,
) -> Result<FrameRecords, JournalReadError> {
    let after = whole.frame()?.after();
    if after.0 <= head.0 {
        // A server was killed after it had moved the records and before it emptied the journal.
        // If that was not the one that wrote them, the key of the code is not known any more. The
        // database has sealed them.
        let found = row_at(trail, after.0).map_err(JournalReadError::Trail)?;
        match found {
            Some(row) if row.hash == after.1 => return Ok(FrameRecords::Known),
            Some(_) => return Err(FrameError::Other { seq: after.0 }.into()),
            // It was dropped since, so that it cannot be compared.
            None => {}
        }
    }
    let frame = whole.checked(key)?;
    if after.0 <= head.0 {
        return Ok(FrameRecords::Known);
    }
    if frame.before != last {
        let found = frame.before.0;
        return Err(FrameError::Elsewhere {
            last: last.0,
            found,
        }
        .into());
    }
    Ok(FrameRecords::New(frame))
}

fn row_at(trail: &Trail, seq: u64) -> Result<Option<TrailRow>, StoreError> {
    let filter = Filter {
        from: Some(seq),
        to: Some(seq),
        ..Filter::default()
    };
    Ok(trail.last_rows(&filter, 1)?.pop())
}

/// Returns the kernel's boot id, if available.
pub(crate) fn boot() -> Option<String> {
    let mut text = String::new();
    let file = std::fs::File::open("/proc/sys/kernel/random/boot_id").ok()?;
    file.take(64).read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned())
}

/// Facts of the last run recorded in a trail.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct LastRun {
    /// The kernel's boot id in that run.
    pub(crate) boot: Option<String>,
    /// The name of the run, by which the key of its journal is derived.
    pub(crate) id: Option<RunId>,
}

impl LastRun {
    /// Finds the last run.
    pub(crate) fn of(trail: &Trail) -> Result<LastRun, AuditError> {
        let filter = Filter {
            kinds: vec![kind::BEGAN.to_owned()],
            ..Filter::default()
        };
        let Some(row) = trail.last_rows(&filter, 1)?.pop() else {
            return Ok(LastRun::default());
        };
        let AuditEntry::Began { boot, run, .. } = AuditEntry::read(&row.body)? else {
            return Ok(LastRun::default());
        };
        Ok(LastRun {
            boot,
            id: run.and_then(|run| run.parse().ok()),
        })
    }

    /// Returns true if the machine was restarted since that run.
    pub(crate) fn is_of_other_boot(&self, boot: Option<&str>) -> bool {
        self.boot
            .as_deref()
            .is_some_and(|then| boot.is_some_and(|now| now != then))
    }
}

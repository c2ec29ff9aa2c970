//! Recovery of the records that a server left in the journal when it ended abnormally.
use super::{
    MAX_BYTES,
    frame::{self, FrameError, JournalFrame},
};
use crate::{AuditEntry, AuditError, Keys, entry::kind, hash_chain::ChainHead};
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
    let mut rest = bytes.as_slice();
    let mut records = 0;
    while let Ok(Some(whole)) = frame::first(&mut rest) {
        let rows = whole.frame().map(|frame| frame.rows).unwrap_or_default();
        records += rows.iter().filter(|row| row.seq > last).count() as u64;
    }
    Ok((!bytes.is_empty()).then_some(RecoveredRecords {
        records,
        bytes: bytes.len() as u64,
    }))
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
        keys: &Keys,
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
            let next = frame::first(&mut rest)
                .and_then(|whole| whole.map(|whole| whole.checked(keys)).transpose());
            let fault = match next {
                // A frame that is cut off was being written, so its decisions were not reported
                // yet.
                Ok(None) => break,
                // The server was killed after it had moved the records and before it cleared the
                // journal.
                Ok(Some(frame)) if frame.after().0 <= head.0 => known(trail, &frame)?,
                Ok(Some(JournalFrame { before, .. })) if before != last => {
                    Some(FrameError::Elsewhere {
                        last: last.0,
                        found: before.0,
                    })
                }
                Ok(Some(frame)) => {
                    last = frame.after();
                    left.rows.extend(frame.rows);
                    None
                }
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

/// Compares a frame with the records of the same numbers in the database, which has them if the
/// journal was not emptied in time. Records that were dropped since cannot be compared.
fn known(trail: &Trail, frame: &JournalFrame) -> Result<Option<FrameError>, StoreError> {
    let (seq, hash) = frame.after();
    let filter = Filter {
        from: Some(seq),
        to: Some(seq),
        ..Filter::default()
    };
    let found = trail.last_rows(&filter, 1)?.pop();
    Ok(found
        .filter(|row| row.hash != hash)
        .map(|_| FrameError::Other { seq }))
}

/// Returns the kernel's boot id, if available.
pub(crate) fn boot() -> Option<String> {
    let mut text = String::new();
    let file = std::fs::File::open("/proc/sys/kernel/random/boot_id").ok()?;
    file.take(64).read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned())
}

/// Returns true if the machine was restarted since the last run recorded in the trail.
pub(crate) fn has_restarted(trail: &Trail, boot: Option<&str>) -> Result<bool, AuditError> {
    let filter = Filter {
        kinds: vec![kind::BEGAN.to_owned()],
        ..Filter::default()
    };
    let Some(row) = trail.last_rows(&filter, 1)?.pop() else {
        return Ok(false);
    };
    let AuditEntry::Began { boot: then, .. } = AuditEntry::read(&row.body)? else {
        return Ok(false);
    };
    Ok(then.is_some_and(|then| boot.is_some_and(|now| now != then)))
}

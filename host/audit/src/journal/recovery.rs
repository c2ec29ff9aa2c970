//! Recovery of the records that a server left in the journal when it ended abnormally.
use super::{
    MAX_BYTES,
    frame::{self, FrameError, JournalFrame, SealedFrame},
};
use crate::{
    AuditEntry, AuditError, entry::kind, hash_chain::ChainHead, key::CodeKey,
    signer::message::RunId,
};
use peal_store::{Filter, JournalFile, JournalPart, StoreError, Trail, TrailRow};
use std::{
    io::{ErrorKind, Read as _},
    path::{Path, PathBuf},
};

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
    let mut found = RecoveredRecords {
        records: 0,
        bytes: 0,
    };
    for part in JournalPart::ALL {
        let bytes = match JournalFile::read(trail.path(), part, MAX_BYTES) {
            // A reader with access to the database alone can still verify that.
            Err(StoreError::Journal { source, .. })
                if source.kind() == ErrorKind::PermissionDenied =>
            {
                return Ok(None);
            }
            read => read?,
        };
        found.records += count_after(&bytes, last);
        found.bytes += bytes.len() as u64;
    }
    Ok((found.bytes > 0).then_some(found))
}

/// Counts the records of a file of a journal with a higher number. Codes are not checked.
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
    /// The first invalid frame.
    pub(crate) fault: Option<JournalFault>,
}

/// Invalid frame of a journal.
pub(crate) struct JournalFault {
    /// The file.
    pub(crate) path: PathBuf,
    /// Number of the frame in the file, from 1.
    pub(crate) frame: u64,
    /// The error of the frame.
    pub(crate) fault: FrameError,
}

/// A file of a journal.
struct ReadPart {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl ReadPart {
    fn read(trail: &Path, part: JournalPart) -> Result<ReadPart, StoreError> {
        Ok(ReadPart {
            path: JournalFile::beside(trail, part),
            // One byte more than is ever written shows a file that is too long.
            bytes: JournalFile::read(trail, part, MAX_BYTES + 1)?,
        })
    }

    /// Returns the number of the record that the first frame follows; `None` without a readable
    /// frame.
    fn begins_after(&self) -> Option<u64> {
        let first = frame::first(&mut self.bytes.as_slice()).ok()??;
        Some(first.frame().ok()?.before.0)
    }

    fn fault(&self, frame: u64, fault: FrameError) -> JournalFault {
        JournalFault {
            path: self.path.clone(),
            frame,
            fault,
        }
    }
}

impl RecoveredJournal {
    /// Reads the journal of a trail that ends with `head`.
    pub(crate) fn read(
        trail: &Trail,
        head: ChainHead,
        key: &CodeKey,
    ) -> Result<RecoveredJournal, AuditError> {
        let [first, second] = JournalPart::ALL;
        let mut parts = [
            ReadPart::read(trail.path(), first)?,
            ReadPart::read(trail.path(), second)?,
        ];
        // The files take turns, so that the records of either may be older. A file without a readable
        // frame is last: it has no records, or a fault.
        parts.sort_by_key(|part| part.begins_after().unwrap_or(u64::MAX));
        let mut left = RecoveredJournal {
            rows: Vec::new(),
            fault: None,
        };
        let mut last = head;
        for part in &parts {
            left.fault = left.add(part, trail, head, &mut last, key)?;
            if left.fault.is_some() {
                return Ok(left);
            }
        }
        left.fault = parts
            .iter()
            .find(|part| part.bytes.len() as u64 > MAX_BYTES)
            .map(|part| part.fault(1, FrameError::Long { most: MAX_BYTES }));
        Ok(left)
    }

    /// Adds the records of a file that follow the last one. Returns the first invalid frame.
    fn add(
        &mut self,
        part: &ReadPart,
        trail: &Trail,
        head: ChainHead,
        last: &mut ChainHead,
        key: &CodeKey,
    ) -> Result<Option<JournalFault>, AuditError> {
        let mut rest = part.bytes.as_slice();
        for number in 1.. {
            let fault = match frame::first(&mut rest) {
                // A frame that is cut off was being written, so its decisions were not reported
                // yet.
                Ok(None) => break,
                Ok(Some(whole)) => match follow(trail, head, *last, &whole, key) {
                    Ok(FrameRecords::Known) => continue,
                    Ok(FrameRecords::New(frame)) => {
                        *last = frame.after();
                        self.rows.extend(frame.rows);
                        continue;
                    }
                    Err(JournalReadError::Frame(fault)) => fault,
                    Err(JournalReadError::Trail(error)) => return Err(error.into()),
                },
                Err(fault) => fault,
            };
            return Ok(Some(part.fault(number, fault)));
        }
        Ok(None)
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

//! Sources of records: the database of a server, which may be in use, or an exported file.
use crate::{
    AuditEntry, AuditError, CallEntry, ExportError, Exported, ModuleFacts, RecoveredRecords,
    Statement, entry::from_cbor, journal::waiting,
};
use peal_sandbox::Digest;
use peal_store::{DroppedRows, Filter, SealKind, StoreError, Trail, TrailRow};
use std::{io::BufReader, path::Path, time::Duration};

/// Number of rows read in one query.
pub(crate) const PAGE_ROWS: u32 = 200;

/// Source of records.
pub enum TrailSource {
    /// A database.
    Trail(Box<Trail>),
    /// An exported file.
    File(Exported),
}

impl TrailSource {
    /// Opens a database or an exported file.
    pub fn open(path: &Path) -> Result<TrailSource, AuditError> {
        match Trail::open_to_read(path) {
            Ok(trail) => Ok(TrailSource::Trail(Box::new(trail))),
            Err(StoreError::Foreign {
                found: "not a database of SQLite",
                ..
            }) => {
                let io = |source| ExportError::Io {
                    path: path.to_owned(),
                    source,
                };
                let file = std::fs::File::open(path).map_err(io)?;
                Ok(TrailSource::File(Exported::read(
                    BufReader::new(file),
                    path,
                )?))
            }
            // Other errors are about a database, so the file is no export.
            Err(error) => Err(error.into()),
        }
    }

    /// Has every read of a database fail that is not complete after this time from now.
    pub fn limit_time(&self, time: Duration) -> Result<(), AuditError> {
        match self {
            TrailSource::Trail(trail) => Ok(trail.limit_reads(time)?),
            TrailSource::File(_) => Ok(()),
        }
    }

    /// Passes all rows that match the filter to `work`, in order, until it fails.
    pub fn each<E: From<AuditError>>(
        &self,
        filter: &Filter,
        mut work: impl FnMut(TrailRow) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            TrailSource::File(exported) => exported.rows(filter).cloned().try_for_each(work),
            TrailSource::Trail(trail) => {
                let mut filter = filter.clone();
                loop {
                    let page = trail.rows(&filter, PAGE_ROWS).map_err(AuditError::from)?;
                    let Some(last) = page.last().map(|row| row.seq) else {
                        return Ok(());
                    };
                    let is_last = page.len() < PAGE_ROWS as usize;
                    page.into_iter().try_for_each(&mut work)?;
                    if is_last {
                        return Ok(());
                    }
                    // By number, not by offset: SQLite would walk through all rows before an
                    // offset.
                    filter.from = Some(last + 1);
                }
            }
        }
    }

    /// Returns the last rows that match the filter, in order.
    pub fn last(&self, filter: &Filter, most: u32) -> Result<Vec<TrailRow>, AuditError> {
        let mut rows: Vec<TrailRow> = match self {
            TrailSource::Trail(trail) => trail.last_rows(filter, most)?,
            TrailSource::File(exported) => exported
                .rows(filter)
                .rev()
                .take(most as usize)
                .cloned()
                .collect(),
        };
        rows.reverse();
        Ok(rows)
    }

    /// Returns one row.
    pub fn row(&self, seq: u64) -> Result<Option<TrailRow>, AuditError> {
        let filter = Filter {
            from: Some(seq),
            to: Some(seq),
            ..Filter::default()
        };
        Ok(self.last(&filter, 1)?.pop())
    }

    /// Returns the seal of this kind: `Head` seals the last row, `Anchor` the last row dropped at
    /// the beginning.
    pub fn seal(&self, kind: SealKind) -> Result<Option<Statement>, AuditError> {
        match self {
            TrailSource::Trail(trail) => {
                Ok(trail.seal(kind)?.map(|seal| Statement::of(kind, seal)))
            }
            TrailSource::File(exported) => Ok(exported
                .seals
                .iter()
                .rfind(|seal| seal.is_of(kind))
                .cloned()),
        }
    }

    /// Returns the trail checkpoints.
    pub fn checkpoints(&self) -> Result<Vec<Statement>, AuditError> {
        let kind = SealKind::Checkpoint;
        match self {
            TrailSource::Trail(trail) => Ok(trail
                .checkpoints()?
                .into_iter()
                .map(|seal| Statement::of(kind, seal))
                .collect()),
            TrailSource::File(exported) => Ok(exported
                .seals
                .iter()
                .filter(|seal| seal.is_of(kind))
                .cloned()
                .collect()),
        }
    }

    /// Returns the statements about records dropped between records that stay.
    pub(crate) fn dropped(&self) -> Result<Vec<DroppedRows>, AuditError> {
        match self {
            TrailSource::Trail(trail) => Ok(trail.dropped()?),
            TrailSource::File(exported) => Ok(exported.dropped.clone()),
        }
    }

    /// Returns bytes that records refer to.
    pub fn blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>, AuditError> {
        match self {
            TrailSource::Trail(trail) => Ok(trail.blob(&digest.0)?),
            TrailSource::File(exported) => Ok(exported.blobs.get(digest).cloned()),
        }
    }

    /// Returns the records that are in the journal and not in the database, which ends with `last`.
    pub fn waiting(&self, last: u64) -> Result<Option<RecoveredRecords>, AuditError> {
        match self {
            TrailSource::Trail(trail) => Ok(waiting(trail, last)?),
            TrailSource::File(_) => Ok(None),
        }
    }

    /// Returns the facts of the module of a call.
    pub fn facts(&self, call: &CallEntry) -> Result<Option<ModuleFacts>, AuditError> {
        Ok(self
            .blob(&call.facts)?
            .map(|bytes| from_cbor(&bytes))
            .transpose()?)
    }
}

/// Returns the call of a row, if the row is a call.
pub(crate) fn call_of(row: &TrailRow) -> Result<Option<CallEntry>, AuditError> {
    match AuditEntry::read(&row.body)? {
        AuditEntry::Call(call) => Ok(Some(*call)),
        _ => Ok(None),
    }
}

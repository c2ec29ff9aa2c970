//! Where records are read from: the database of a server, which may be writing it, or a file that was exported.
use crate::{
    AuditEntry, AuditError, CallEntry, ExportError, Exported, ModuleFacts, RecoveredRecords,
    Statement, entry::from_cbor, journal::waiting,
};
use peal_sandbox::Digest;
use peal_store::{DroppedRows, Filter, SealKind, StoreError, Trail, TrailRow};
use std::{io::BufReader, path::Path};

/// How many rows are read at once.
const PAGE: u32 = 200;

/// Where records are read from.
pub enum TrailSource {
    /// A database.
    Trail(Box<Trail>),
    /// A file.
    File(Exported),
}

impl TrailSource {
    /// Opens a database, or a file that was exported.
    pub fn open(path: &Path) -> Result<TrailSource, AuditError> {
        match Trail::open_to_read(path) {
            Ok(trail) => Ok(TrailSource::Trail(Box::new(trail))),
            Err(StoreError::Foreign {
                what: "not a database of SQLite",
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
            Err(error) => Err(error.into()),
        }
    }

    /// Hands over all rows that are wanted, in their order, until one is too much.
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
                    let page = trail.rows(&filter, PAGE).map_err(AuditError::from)?;
                    let Some(last) = page.last().map(|row| row.seq) else {
                        return Ok(());
                    };
                    let is_last = page.len() < PAGE as usize;
                    page.into_iter().try_for_each(&mut work)?;
                    if is_last {
                        return Ok(());
                    }
                    filter.from = Some(last + 1);
                }
            }
        }
    }

    /// The last rows that are wanted, in their order.
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

    /// One row.
    pub fn row(&self, seq: u64) -> Result<Option<TrailRow>, AuditError> {
        let filter = Filter {
            from: Some(seq),
            to: Some(seq),
            ..Filter::default()
        };
        Ok(self.last(&filter, 1)?.pop())
    }

    /// The seal of the last row there is, or of the last that was dropped.
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

    /// The seals on the way.
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

    /// The statements of what was dropped between records that stay.
    pub(crate) fn dropped(&self) -> Result<Vec<DroppedRows>, AuditError> {
        match self {
            TrailSource::Trail(trail) => Ok(trail.dropped()?),
            TrailSource::File(exported) => Ok(exported.dropped.clone()),
        }
    }

    /// Bytes that records refer to.
    pub fn blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>, AuditError> {
        match self {
            TrailSource::Trail(trail) => Ok(trail.blob(&digest.0)?),
            TrailSource::File(exported) => Ok(exported.blobs.get(digest).cloned()),
        }
    }

    /// What is in the journal of a database and not yet in the database, which ends with this record.
    pub fn waiting(&self, last: u64) -> Result<Option<RecoveredRecords>, AuditError> {
        match self {
            TrailSource::Trail(trail) => Ok(waiting(trail, last)?),
            TrailSource::File(_) => Ok(None),
        }
    }

    /// What is known of the module of a call.
    pub fn facts(&self, call: &CallEntry) -> Result<Option<ModuleFacts>, AuditError> {
        Ok(self
            .blob(&call.facts)?
            .map(|bytes| from_cbor(&bytes))
            .transpose()?)
    }
}

/// A call that a row records, if it is one.
pub(crate) fn call_of(row: &TrailRow) -> Result<Option<CallEntry>, AuditError> {
    match AuditEntry::read(&row.body)? {
        AuditEntry::Call(call) => Ok(Some(*call)),
        _ => Ok(None),
    }
}

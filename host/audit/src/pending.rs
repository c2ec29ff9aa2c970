//! Entries that are queued for the trail.
use crate::{AuditEntry, EntryError, entry::to_cbor, module_record::ModuleRecord, now};
use std::sync::Arc;

/// Callback that receives the result of a commit.
pub(crate) type Done = Box<dyn FnOnce(CommitResult) + Send>;

/// Permission to carry out a recorded grant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommitResult {
    /// The decision is recorded, or need not be.
    Yes,
    /// The decision is not recorded; the grant must not be carried out.
    No,
}

/// An entry that is to be written.
pub(crate) struct PendingEntry {
    pub(crate) at: u64,
    pub(crate) entry: AuditEntry,
    /// The body without secrets; `None` if the entry has none and was not encoded yet.
    pub(crate) encoded: Option<Result<Vec<u8>, EntryError>>,
    pub(crate) module_record: Option<Arc<ModuleRecord>>,
    pub(crate) done: Option<Done>,
}

impl PendingEntry {
    /// Builds an entry without secrets.
    pub(crate) fn new(entry: AuditEntry) -> PendingEntry {
        PendingEntry {
            at: now(),
            entry,
            encoded: None,
            module_record: None,
            done: None,
        }
    }

    /// Returns true if a caller waits for the commit.
    pub(crate) fn is_awaited(&self) -> bool {
        self.done.is_some()
    }

    pub(crate) fn about(self, module_record: Arc<ModuleRecord>) -> PendingEntry {
        PendingEntry {
            module_record: Some(module_record),
            ..self
        }
    }

    /// Turns a grant into a denial, because the records that led to it could not be written.
    pub(crate) fn withdraw(&mut self) {
        let AuditEntry::Decision(decision) = &mut self.entry else {
            return;
        };
        decision.withdraw();
        if let Some(Ok(body)) = &self.encoded {
            // Secrets are out of this body and may not come back, so it is changed instead of being
            // made anew.
            self.encoded = Some(AuditEntry::read(body).and_then(|mut entry| {
                if let AuditEntry::Decision(decision) = &mut entry {
                    decision.withdraw();
                }
                to_cbor(&entry)
            }));
        }
    }

    /// Encodes the body. Returns its size in bytes.
    pub(crate) fn encode(&mut self) -> u64 {
        let body = self.encoded.get_or_insert_with(|| to_cbor(&self.entry));
        body.as_ref().map_or(0, |body| body.len() as u64)
    }

    /// Returns the body as stored.
    pub(crate) fn body(&self) -> Result<Vec<u8>, EntryError> {
        self.encoded.clone().unwrap_or_else(|| to_cbor(&self.entry))
    }
}

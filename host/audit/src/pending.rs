//! Entries that are queued for the trail.
use crate::{AuditEntry, EntryError, audit::Done, entry::to_cbor, now, recorder::ModuleRecord};
use std::sync::Arc;

/// An entry that is to be written.
pub(crate) struct PendingEntry {
    pub(crate) at: u64,
    pub(crate) entry: AuditEntry,
    /// The body without secrets; `None` if the entry has none.
    pub(crate) scrubbed: Option<Result<Vec<u8>, EntryError>>,
    pub(crate) held: Option<Arc<ModuleRecord>>,
    pub(crate) done: Option<Done>,
}

impl PendingEntry {
    /// Builds an entry without secrets.
    pub(crate) fn new(entry: AuditEntry) -> PendingEntry {
        PendingEntry {
            at: now(),
            entry,
            scrubbed: None,
            held: None,
            done: None,
        }
    }

    /// Returns true if a caller waits for the commit.
    pub(crate) fn is_awaited(&self) -> bool {
        self.done.is_some()
    }

    pub(crate) fn about(self, held: Arc<ModuleRecord>) -> PendingEntry {
        PendingEntry {
            held: Some(held),
            ..self
        }
    }

    /// Turns a grant into a denial, because the records that led to it could not be written.
    pub(crate) fn withdraw(&mut self) {
        let AuditEntry::Decision(decision) = &mut self.entry else {
            return;
        };
        decision.withdraw();
        if let Some(Ok(body)) = &self.scrubbed {
            // Secrets are out of this body and may not come back, so it is changed instead of being
            // made anew.
            self.scrubbed = Some(AuditEntry::read(body).and_then(|mut entry| {
                if let AuditEntry::Decision(decision) = &mut entry {
                    decision.withdraw();
                }
                to_cbor(&entry)
            }));
        }
    }

    /// Returns the body as stored.
    pub(crate) fn body(&self) -> Result<Vec<u8>, EntryError> {
        self.scrubbed
            .clone()
            .unwrap_or_else(|| to_cbor(&self.entry))
    }
}

//! An entry on its way into the trail.
use crate::{AuditEntry, EntryError, audit::Done, entry::to_cbor, now, recorder::ModuleRecord};
use std::sync::Arc;

/// An entry that is to be written.
pub(crate) struct PendingEntry {
    pub(crate) at: u64,
    pub(crate) entry: AuditEntry,
    /// Its body without secrets, where it has some.
    pub(crate) scrubbed: Option<Result<Vec<u8>, EntryError>>,
    pub(crate) held: Option<Arc<ModuleRecord>>,
    pub(crate) done: Option<Done>,
}

impl PendingEntry {
    /// An entry without secrets.
    pub(crate) fn new(entry: AuditEntry) -> PendingEntry {
        PendingEntry {
            at: now(),
            entry,
            scrubbed: None,
            held: None,
            done: None,
        }
    }

    /// True if somebody waits for it.
    pub(crate) fn is_awaited(&self) -> bool {
        self.done.is_some()
    }

    pub(crate) fn about(self, held: Arc<ModuleRecord>) -> PendingEntry {
        PendingEntry {
            held: Some(held),
            ..self
        }
    }

    /// Denies what was granted: what led to it could not be recorded.
    pub(crate) fn withdraw(&mut self) {
        let AuditEntry::Decision(decision) = &mut self.entry else {
            return;
        };
        decision.withdraw();
        if let Some(Ok(body)) = &self.scrubbed {
            self.scrubbed = Some(AuditEntry::read(body).and_then(|mut entry| {
                if let AuditEntry::Decision(decision) = &mut entry {
                    decision.withdraw();
                }
                to_cbor(&entry)
            }));
        }
    }

    /// The body as it is kept.
    pub(crate) fn body(&self) -> Result<Vec<u8>, EntryError> {
        self.scrubbed
            .clone()
            .unwrap_or_else(|| to_cbor(&self.entry))
    }
}

//! An entry on its way into the trail.
use crate::{Entry, EntryError, audit::Done, entry::to_cbor, now, recorder::Held};
use std::sync::Arc;

/// An entry that is to be written.
pub(crate) struct Pending {
    pub(crate) at: u64,
    pub(crate) entry: Entry,
    /// Its body without secrets, where it has some.
    pub(crate) scrubbed: Option<Result<Vec<u8>, EntryError>>,
    pub(crate) held: Option<Arc<Held>>,
    pub(crate) done: Option<Done>,
}

impl Pending {
    /// An entry without secrets.
    pub(crate) fn new(entry: Entry) -> Pending {
        Pending {
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

    pub(crate) fn about(self, held: Arc<Held>) -> Pending {
        Pending {
            held: Some(held),
            ..self
        }
    }

    /// Denies what was granted: what led to it could not be recorded.
    pub(crate) fn withdraw(&mut self) {
        let Entry::Decision(decision) = &mut self.entry else {
            return;
        };
        decision.withdraw();
        if let Some(Ok(body)) = &self.scrubbed {
            self.scrubbed = Some(Entry::read(body).and_then(|mut entry| {
                if let Entry::Decision(decision) = &mut entry {
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

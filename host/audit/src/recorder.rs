//! Takes the calls of one module and hands them to the trail.
use crate::{
    AdmissionDenial, AuditEntry, AuditTrail, CallEntry, EntryError, ModuleFacts, entry::to_cbor,
    handshake,
};
use peal_model::Hook;
use peal_sandbox::{CallRecord, CallSubject, Digest, Recorder};
use std::sync::Arc;

/// The golden ratio as a fraction of 2^64: whatever is multiplied by it spreads evenly.
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The cause of a refusal that is the call of a policy. The decision that follows is counted as well.
const CALL: &str = "call of a policy";

/// What is kept once for all calls of a module.
pub(crate) struct ModuleRecord {
    /// What administrators call it.
    pub(crate) name: String,
    /// The digest of its facts ...
    pub(crate) digest: Digest,
    /// ... and these.
    pub(crate) facts: Vec<u8>,
    /// Its component.
    pub(crate) component: (Digest, Arc<[u8]>),
}

impl ModuleRecord {
    /// What its records refer to.
    pub(crate) fn blobs(&self) -> [([u8; 32], &[u8]); 2] {
        [
            (self.digest.0, &self.facts),
            (self.component.0.0, &self.component.1),
        ]
    }

    fn new(facts: &ModuleFacts, component: Arc<[u8]>) -> Result<ModuleRecord, EntryError> {
        let bytes = to_cbor(facts)?;
        let component = (facts.digest, component);
        Ok(ModuleRecord {
            name: facts.name.clone(),
            digest: Digest::of(&bytes),
            facts: bytes,
            component,
        })
    }
}

struct ModuleRecorder {
    audit: AuditTrail,
    held: Arc<ModuleRecord>,
}

impl AuditTrail {
    /// What takes the calls of a module.
    pub fn recorder(
        &self,
        facts: &ModuleFacts,
        component: Arc<[u8]>,
    ) -> Result<Arc<dyn Recorder>, EntryError> {
        Ok(Arc::new(ModuleRecorder {
            audit: self.clone(),
            held: Arc::new(ModuleRecord::new(facts, component)?),
        }))
    }
}

impl ModuleRecorder {
    /// True if a policy refused a connection in this call as it did just before, so that it is counted.
    fn is_counted(&self, record: &CallRecord) -> bool {
        let (Some(status), CallSubject::Policy(call)) =
            (handshake::refusal(record), &record.subject)
        else {
            return false;
        };
        self.audit.counts(&AdmissionDenial {
            uid: call.request.identity.map(|identity| identity.uid),
            hook: Some(Hook::Connection.name().to_owned()),
            by: Some(self.held.name.clone()),
            status: Some(status),
            cause: Some(CALL.to_owned()),
            ..AdmissionDenial::default()
        })
    }
}

impl Recorder for ModuleRecorder {
    /// One in so many, and none in a pattern that modules could fall into which start instances in turn.
    fn samples(&self, instance: u64) -> bool {
        let scattered = instance.wrapping_mul(SCATTER) >> 32;
        scattered.is_multiple_of(u64::from(self.audit.handlers().get()))
    }

    /// What a policy was asked is never left out: whoever asked waits. Of handlers and channels, what there is no room for is
    /// counted.
    fn record(&self, mut record: CallRecord) {
        if self.is_counted(&record) {
            return;
        }
        let is_policy = matches!(record.subject, CallSubject::Policy(_));
        let handshake = handshake::abridge(&mut record);
        let entry = AuditEntry::Call(Box::new(CallEntry {
            run: self.audit.run(),
            facts: self.held.digest,
            record,
            handshake,
        }));
        let pending = self.audit.pending(entry).about(self.held.clone());
        if is_policy {
            self.audit.record_blocking(pending)
        } else {
            self.audit.offer(pending)
        }
    }
}

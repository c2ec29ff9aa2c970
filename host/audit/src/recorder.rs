//! Recorder of the calls of one module.
use crate::{
    AdmissionDenial, AuditEntry, AuditTrail, CallEntry, EntryError, ModuleFacts,
    entry::POLICY_CALL, handshake, module_record::ModuleRecord, outcome::outcome,
};
use peal_model::Hook;
use peal_sandbox::{CallRecord, CallSubject, Recorder};
use std::sync::Arc;

/// The golden ratio as a fraction of 2^64. Multiples of it are spread evenly.
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;

struct ModuleRecorder {
    audit: AuditTrail,
    module_record: Arc<ModuleRecord>,
}

impl AuditTrail {
    /// Returns a recorder for the calls of a module.
    pub fn recorder(
        &self,
        facts: &ModuleFacts,
        component: Arc<[u8]>,
    ) -> Result<Arc<dyn Recorder>, EntryError> {
        Ok(Arc::new(ModuleRecorder {
            audit: self.clone(),
            module_record: Arc::new(ModuleRecord::new(facts, component)?),
        }))
    }
}

impl ModuleRecorder {
    /// Returns true if this call refused a connection, or failed, like a recent one and was
    /// therefore only counted.
    fn is_counted(&self, record: &CallRecord) -> bool {
        let (Some(status), CallSubject::Policy(call)) =
            (handshake::refusal(record), &record.subject)
        else {
            return false;
        };
        self.audit.count_denial(&AdmissionDenial {
            uid: call.request.identity.map(|identity| identity.uid),
            hook: Some(Hook::Connection.name().to_owned()),
            by: Some(self.module_record.name.clone()),
            status: Some(status),
            reason: outcome(&record.end).into_owned(),
            cause: Some(POLICY_CALL.to_owned()),
            ..AdmissionDenial::default()
        })
    }
}

impl Recorder for ModuleRecorder {
    /// Selects one of n instances. The selection is scattered, so that modules that start their
    /// instances in turn are all sampled.
    fn samples(&self, instance: u64) -> bool {
        let scattered = instance.wrapping_mul(SCATTER) >> 32;
        scattered.is_multiple_of(u64::from(self.audit.handlers().get()))
    }

    /// Records a call. Calls of policies wait for room and are never left out. Calls of handlers
    /// and log channels are left out and counted if the queue is full.
    fn record(&self, mut record: CallRecord) {
        if self.is_counted(&record) {
            return;
        }
        let is_policy = matches!(record.subject, CallSubject::Policy(_));
        let handshake = handshake::abridge(&mut record);
        let entry = AuditEntry::Call(Box::new(CallEntry {
            run: self.audit.run(),
            facts: self.module_record.digest,
            record,
            handshake,
        }));
        let pending = self.audit.pending(entry).about(self.module_record.clone());
        if is_policy {
            self.audit.record_blocking(pending)
        } else {
            self.audit.offer(pending)
        }
    }
}

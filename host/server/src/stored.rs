//! Use of the store by the server: state of modules behind their capability, and metrics of the
//! store and the audit trail.
use crate::metrics::{MetricFamily, MetricKind, Metrics};
use peal_audit::{TrailUse, UserRecords};
use peal_core::{
    owner::Owner,
    quota::{Quota, QuotaReport},
};
use peal_model::{Status, code};
use peal_sandbox::StateStore;
use peal_store::{ModuleStateStore, StateScope, Store, StoreError};
use std::sync::Arc;

/// State of one module for one owner, in the store.
#[derive(Clone, Debug)]
pub struct StoredState(ModuleStateStore);

impl StoredState {
    /// Opens the state that a module keeps for an owner, of at most `quota` bytes.
    pub fn new(store: &Arc<Store>, module: &str, owner: &Owner, quota: u64) -> StoredState {
        StoredState(store.state(module, &scope(owner), quota))
    }

    /// Limits the state of all modules of that owner together to `total` bytes.
    pub fn within(self, total: u64) -> StoredState {
        StoredState(self.0.within(total))
    }

    /// Removes the whole state.
    pub fn clear(&self) {
        // Ignore errors: the store counts and logs them.
        let _ = self.0.clear();
    }
}

/// Returns the scope under which the state of an owner is kept.
fn scope(owner: &Owner) -> StateScope {
    match owner {
        Owner::Site => StateScope::Site,
        Owner::User(uid) => StateScope::User(*uid),
        Owner::Namespace(nspace) => StateScope::Namespace(nspace.clone()),
    }
}

impl StateStore for StoredState {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Status> {
        self.0.get(key).map_err(|error| status(&error))
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<(), Status> {
        self.0.set(key, value).map_err(|error| status(&error))
    }

    fn delete(&self, key: &str) -> Result<(), Status> {
        self.0.delete(key).map_err(|error| status(&error))
    }

    fn keys(&self, prefix: &str) -> Result<Vec<String>, Status> {
        self.0.keys(prefix).map_err(|error| status(&error))
    }
}

/// Returns the status of an error for a module. The store logs errors that concern it as a whole.
fn status(error: &StoreError) -> Status {
    match error {
        StoreError::Quota { .. }
        | StoreError::Total { .. }
        | StoreError::StateFull { .. }
        | StoreError::Full { .. } => code::PMIX_ERR_OUT_OF_RESOURCE,
        StoreError::Busy { .. } => code::PMIX_ERR_RESOURCE_BUSY,
        _ => code::PMIX_ERROR,
    }
}

impl Metrics {
    /// Adds the metrics of an audit trail.
    pub fn show_audit(&self, audit: peal_audit::AuditTrail) {
        let trail = audit.clone();
        self.show_quotas(move |report| show_trail_use(report, trail.used()));
        self.show(move || {
            let health = audit.health();
            let single =
                |name, about, value| MetricFamily::single(name, about, MetricKind::Counter, value);
            vec![
                single(
                    "peal_audit_records",
                    "Records written to the audit trail.",
                    health.written,
                ),
                single(
                    "peal_audit_calls_lost",
                    "Calls of modules that the audit trail lacks.",
                    health.lost,
                ),
                single(
                    "peal_audit_decisions_unrecorded",
                    "Decisions that were not recorded because of an error.",
                    health.undone,
                ),
                MetricFamily::single(
                    "peal_audit_failing",
                    "Whether writing the audit trail currently fails.",
                    MetricKind::Gauge,
                    u64::from(health.is_failing),
                ),
            ]
        });
    }

    /// Adds the metrics of a store.
    pub fn show_store(&self, store: Arc<Store>) {
        self.show(move || {
            let health = store.health();
            let failed = "Failed writes to the store. Their records are missing.";
            let unread = "Failed reads of the store.";
            vec![
                MetricFamily::single(
                    "peal_store_writes",
                    "Successful writes to the store.",
                    MetricKind::Counter,
                    health.written,
                ),
                MetricFamily::single(
                    "peal_store_writes_failed",
                    failed,
                    MetricKind::Counter,
                    health.failed,
                ),
                MetricFamily::single(
                    "peal_store_reads_failed",
                    unread,
                    MetricKind::Counter,
                    health.unread,
                ),
            ]
        });
    }
}

fn show_trail_use(report: &mut QuotaReport, used: &TrailUse) {
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut show = |quota: Quota, records: &UserRecords| {
        report.limit(quota, bytes(records.share()), Some(bytes(used.max_bytes)));
        for (uid, own) in records.by_user() {
            report.hold(quota, [(uid, bytes(own.bytes))]);
            report.count_refusals(uid, quota, own.refused);
        }
    };
    show(Quota::AuditDecisionBytes, &used.decisions);
    show(Quota::AuditCallBytes, &used.calls);
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::Nspace;
    use peal_store::StoreSettings;

    #[test]
    fn module_state_is_kept_within_limits_and_refusals_reported() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(
            Store::open(
                &dir.path().join("peal.db"),
                StoreSettings {
                    max_bytes: 300_000,
                    ..StoreSettings::default()
                },
            )
            .unwrap(),
        );
        let metrics = Metrics::default();
        metrics.show_store(store.clone());
        let job = Owner::Namespace(Nspace::new("job").unwrap());
        let site = StoredState::new(&store, "m", &Owner::Site, 1000);
        let job = StoredState::new(&store, "m", &job, u64::MAX);
        site.set("a", b"1").unwrap();
        assert_eq!(
            (site.get("a"), job.get("a")),
            (Ok(Some(b"1".to_vec())), Ok(None))
        );
        assert_eq!(
            site.set("b", &[0; 1000]),
            Err(code::PMIX_ERR_OUT_OF_RESOURCE)
        );
        assert_eq!(site.keys(""), Ok(vec!["a".to_owned()]));
        site.delete("a").unwrap();
        assert_eq!(site.keys(""), Ok(Vec::new()));
        assert_eq!(
            job.set("large", &vec![0; 400_000]),
            Err(code::PMIX_ERR_OUT_OF_RESOURCE)
        );
        let text = metrics.snapshot().text().unwrap();
        assert!(
            text.contains("\npeal_store_writes_failed_total 1\n"),
            "{text}"
        );
    }
}

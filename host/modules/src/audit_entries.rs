//! Entries for the audit trail: the facts of each loaded module, and every change of the set.
use crate::{deployer::blocking, error::DeployError, load::Loader};
use peal_audit::{AuditEntry, ModuleFacts};
use peal_core::owner::Owner;
use peal_sandbox::{Digest, Grants, ModuleLimits, Services};
use peal_server::admin::Deployed;
use std::sync::Arc;

/// A module that is about to be loaded.
pub(crate) struct Loading<'a> {
    pub(crate) name: &'a str,
    pub(crate) owner: &'a Owner,
    /// The mode: `active`, `shadow` or `job-supplied`.
    pub(crate) mode: &'static str,
    pub(crate) component: (Digest, Arc<[u8]>),
    pub(crate) grants: &'a Grants,
    pub(crate) limits: ModuleLimits,
}

impl Loader {
    /// Adds a recorder for the module's calls, if there is an audit trail.
    pub(crate) fn recorded(
        &self,
        loading: Loading<'_>,
        services: Services,
    ) -> Result<Services, String> {
        let Some(audit) = self.audit() else {
            return Ok(services);
        };
        let Loading {
            name,
            owner,
            mode,
            component: (digest, bytes),
            grants,
            limits,
        } = loading;
        let facts = ModuleFacts {
            name: name.to_owned(),
            owner: owner.to_string(),
            mode: mode.to_owned(),
            digest,
            grants: grants.clone(),
            limits,
            sinks: services.sinks.keys().cloned().collect(),
            directories: services.files.keys().cloned().collect(),
        };
        let recorder = audit
            .recorder(&facts, bytes)
            .map_err(|error| error.to_string())?;
        Ok(Services {
            recorder: Some(recorder),
            ..services
        })
    }

    /// Records an entry that is not a call. May wait for room: not for a thread of the runtime.
    pub(crate) fn note(&self, entry: AuditEntry) {
        if let Some(audit) = self.audit() {
            audit.note(entry);
        }
    }
}

/// Records that a new set was deployed.
pub(crate) async fn deployed(
    loader: &Arc<Loader>,
    cause: &str,
    Deployed { version, changes }: &Deployed,
) {
    let changes = changes.iter().map(ToString::to_string).collect();
    let entry = AuditEntry::Deployed {
        version: *version,
        cause: cause.to_owned(),
        changes,
    };
    let loader = loader.clone();
    blocking(move || loader.note(entry)).await;
}

/// Records that a set was refused. Does not wait for room.
pub(crate) fn refused(loader: &Loader, refused: &DeployError) {
    if let Some(audit) = loader.audit() {
        audit.mention(AuditEntry::Refused {
            reasons: refused.to_string().lines().map(str::to_owned).collect(),
        });
    }
}

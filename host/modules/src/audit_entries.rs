//! Entries for the audit trail: the facts of each loaded module, and every change of the set.
use crate::{
    blocking::blocking,
    error::DeployError,
    load::{Loader, Loading},
};
use peal_audit::{AuditEntry, ModuleFacts};
use peal_sandbox::Services;
use peal_server::admin::Deployed;
use std::sync::Arc;

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
        // Made of the opened services, so that the trail shows what the module reaches.
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

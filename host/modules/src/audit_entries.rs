//! What the audit trail is told: what each module is as it is loaded, and every change among them.
use crate::{deployer::blocking, error::DeployError, load::Loader};
use peal_audit::{AuditEntry, ModuleFacts};
use peal_core::owner::Owner;
use peal_sandbox::{Digest, Grants, ModuleLimits, Services};
use peal_server::admin::Deployed;
use std::sync::Arc;

/// A module as it is about to be loaded.
pub(crate) struct Loading<'a> {
    pub(crate) name: &'a str,
    pub(crate) owner: &'a Owner,
    /// What it takes part in.
    pub(crate) mode: &'static str,
    pub(crate) component: (Digest, Arc<[u8]>),
    pub(crate) grants: &'a Grants,
    pub(crate) limits: ModuleLimits,
}

impl Loader {
    /// Has the calls of a module recorded, where that is wanted.
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

    /// Has something recorded that is no call. May wait for room, so not on a thread of the runtime.
    pub(crate) fn note(&self, entry: AuditEntry) {
        if let Some(audit) = self.audit() {
            audit.note(entry);
        }
    }
}

/// Others run now.
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

/// Others were to run, and cannot. Told at once: nobody waits.
pub(crate) fn refused(loader: &Loader, refused: &DeployError) {
    if let Some(audit) = loader.audit() {
        audit.mention(AuditEntry::Refused {
            reasons: refused.to_string().lines().map(str::to_owned).collect(),
        });
    }
}

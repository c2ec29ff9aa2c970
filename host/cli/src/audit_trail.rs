//! Audit trail of a server, opened by its configuration.
use crate::config;
use anyhow::Result;
use peal_audit::{
    AdmissionDenial, AuditSettings, AuditTrail, CheckpointReceiver, CheckpointSyslog, Destinations,
    Statement, TrailSigner,
};
use peal_config::{Config, Durability, Problems, Resolved};
use peal_helper::RefusedCall;
use peal_nats::{SealQueue, TrailSeal};
use std::path::PathBuf;

/// Opens the audit trail if the configuration has one. Its seals go to the cluster, too, if there is one.
pub fn open(
    resolved: &Resolved,
    signer: Option<TrailSigner>,
    seals: Option<SealQueue>,
) -> Result<Option<AuditTrail>> {
    let audit = &resolved.config.audit;
    let on_failure = config::audit_failure(resolved).map_err(|problem| Problems(vec![problem]))?;
    let (Some(path), Some(on_failure), Some(signer)) = (audit.path.clone(), on_failure, signer)
    else {
        return Ok(None);
    };
    let retention = config::audit_retention(resolved).map_err(|problem| Problems(vec![problem]))?;
    let settings = AuditSettings {
        signer,
        path,
        max_bytes: audit.max_bytes,
        durability: match audit.durability {
            Durability::Process => peal_store::DatabaseDurability::Process,
            Durability::Machine => peal_store::DatabaseDurability::Machine,
        },
        on_failure,
        retention,
        refusal_interval: audit.refusal_interval,
        queue: audit.max_queue_records,
        secrets: audit.secret_keys.iter().cloned().collect(),
        handlers: audit.sample_handlers,
        checkpoint_records: audit.checkpoint_records,
        checkpoint_time: audit.checkpoint_time,
        checkpoints: Destinations {
            file: audit.checkpoint_file.clone(),
            syslog: if audit.checkpoint_syslog == peal_config::CheckpointSyslog::Yes {
                CheckpointSyslog::Yes
            } else {
                CheckpointSyslog::No
            },
            receiver: seals.map(|seals| {
                CheckpointReceiver::new(move |statement| seals.add(stored_seal(statement)))
            }),
        },
        server: format!(
            "{} {} peal {}",
            peal_system::hostname(),
            std::process::id(),
            env!("CARGO_PKG_VERSION")
        ),
    };
    Ok(Some(AuditTrail::open(settings)?))
}

/// Returns the seal for the cluster. Its identity is the sealed record.
fn stored_seal(statement: &Statement) -> TrailSeal {
    let (seq, hash) = statement.row();
    TrailSeal {
        id: format!("{seq}-{}", peal_sandbox::Digest(hash)),
        line: statement.to_string(),
    }
}

/// Decider of what the privileged helper refuses.
const HELPER: &str = "privileged helper";

/// Returns the entry about a call that the privileged helper has refused: a fault of the server, or
/// of somebody who has taken it over.
pub fn refused_call(refused: &RefusedCall) -> AdmissionDenial {
    let RefusedCall { kind, uid, reason } = refused;
    AdmissionDenial {
        uid: *uid,
        reason: format!("{kind}: {reason}"),
        by: Some(HELPER.to_owned()),
        cause: Some((*kind).to_owned()),
        ..AdmissionDenial::default()
    }
}

/// Returns the path of the key of the trail.
pub fn key_path(config: &Config) -> Option<PathBuf> {
    let audit = &config.audit;
    audit.key.clone().or_else(|| {
        audit
            .path
            .as_ref()
            .map(|path| path.with_added_extension("key"))
    })
}

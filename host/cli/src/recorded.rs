//! The audit trail of a server, as its configuration wants it.
use anyhow::{Result, bail};
use peal_audit::{Audit, AuditSettings, Destinations, OnFailure, Retention, Syslog};
use peal_config::{AuditFailure, Config, Durability};
use std::{path::PathBuf, time::Duration};

/// Opens the trail, if there is to be one.
pub fn open(config: &Config) -> Result<Option<Audit>> {
    let audit = &config.audit;
    let Some(path) = audit.path.clone() else { return Ok(None) };
    let on_failure = match audit.on_failure {
        Some(AuditFailure::Deny) => OnFailure::Deny,
        Some(AuditFailure::Continue) => OnFailure::Continue,
        None => bail!(
            "audit.on_failure has to be said where there is an audit trail: \"deny\" denies what policies grant while that \
             cannot be recorded, \"continue\" goes on without a record"
        ),
    };
    let keep = audit.keep_days.map(|days| Duration::from_secs(u64::from(days) * 86_400));
    let settings = AuditSettings {
        key: key_path(config).unwrap_or_default(),
        path,
        max_bytes: audit.max_bytes,
        durability: match audit.durability {
            Durability::Process => peal_store::Durability::Process,
            Durability::Machine => peal_store::Durability::Machine,
        },
        on_failure,
        retention: Retention { keep },
        queue: audit.queue,
        secrets: audit.secrets.iter().cloned().collect(),
        handlers: audit.sample_handlers,
        checkpoint_records: audit.checkpoint_records,
        checkpoint_time: audit.checkpoint_time,
        checkpoints: Destinations {
            file: audit.checkpoint_file.clone(),
            syslog: if audit.checkpoint_syslog == peal_config::Syslog::Yes { Syslog::Yes } else { Syslog::No },
        },
        server: format!("{} {} peal {}", peal_server::hostname(), std::process::id(), env!("CARGO_PKG_VERSION")),
    };
    Ok(Some(Audit::open(settings)?))
}

/// Where the key of the trail is.
pub fn key_path(config: &Config) -> Option<PathBuf> {
    let audit = &config.audit;
    audit.key.clone().or_else(|| audit.path.as_ref().map(|path| path.with_added_extension("key")))
}

//! Settings and state of a trail.
use crate::{Secrets, TrailRetention, TrailSigner, checkpoint::Destinations};
use peal_core::choice::RecordFailurePolicy;
use peal_store::DatabaseDurability;
use std::{fmt, num::NonZeroU32, path::PathBuf, time::Duration};

/// Describes the consequence while the trail cannot be written.
pub(crate) fn consequence(on_failure: RecordFailurePolicy) -> &'static str {
    match on_failure {
        RecordFailurePolicy::Deny => {
            "what policies grant is DENIED until it can be recorded (audit.on_failure = \"deny\")"
        }
        RecordFailurePolicy::Continue => {
            "decisions are made WITHOUT A RECORD (audit.on_failure = \"continue\")"
        }
    }
}

/// The settings of a trail.
#[derive(Clone, Debug)]
pub struct AuditSettings {
    /// Path of the database.
    pub path: PathBuf,
    /// Signer of seals.
    pub signer: TrailSigner,
    /// Maximum size of the database in bytes.
    pub max_bytes: u64,
    /// Durability of written records.
    pub durability: DatabaseDurability,
    /// Policy for decisions that cannot be recorded.
    pub on_failure: RecordFailurePolicy,
    /// Rules for keeping records.
    pub retention: TrailRetention,
    /// Interval in which denials of one user for one cause are counted before they are recorded as
    /// a group.
    pub refusal_interval: Duration,
    /// Maximum number of queued entries.
    pub queue: usize,
    /// The keys of infos with secret values.
    pub secrets: Secrets,
    /// One of this many instances of a handler is recorded.
    pub handlers: NonZeroU32,
    /// Number of records after which a trail checkpoint is made.
    pub checkpoint_records: u64,
    /// Time after which a trail checkpoint is made if there are new records.
    pub checkpoint_time: Duration,
    /// Destinations of trail checkpoints.
    pub checkpoints: Destinations,
    /// Description of the writing server: host, process and release.
    pub server: String,
}

/// State of the recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AuditHealth {
    /// The number of written records.
    pub written: u64,
    /// The number of missing calls, for lack of room or because a write failed.
    pub lost: u64,
    /// The number of decisions that could not be recorded.
    pub undone: u64,
    /// True if the last write failed.
    pub is_failing: bool,
}

/// Error of a trail that cannot be written, and its consequence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WriteFailure {
    /// The error of the last write.
    pub error: String,
    /// The treatment of decisions meanwhile.
    pub on_failure: RecordFailurePolicy,
}

impl fmt::Display for WriteFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WriteFailure { error, on_failure } = self;
        write!(f, "{error}; {}", consequence(*on_failure))
    }
}

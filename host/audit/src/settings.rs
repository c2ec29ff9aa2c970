//! How a trail is to be kept, and how that goes.
use crate::{Secrets, TrailRetention, checkpoint::Destinations};
use peal_store::DatabaseDurability;
use std::{fmt, num::NonZeroU32, path::PathBuf, time::Duration};

/// What to do where a decision cannot be recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RecordFailurePolicy {
    /// What was granted is denied.
    #[default]
    Deny,
    /// What was granted stays granted.
    Continue,
}

impl RecordFailurePolicy {
    /// What follows while the trail cannot be written.
    pub(crate) fn consequence(self) -> &'static str {
        match self {
            RecordFailurePolicy::Deny => {
                "what policies grant is DENIED until it can be recorded (audit.on_failure = \"deny\")"
            }
            RecordFailurePolicy::Continue => {
                "decisions are made WITHOUT A RECORD (audit.on_failure = \"continue\")"
            }
        }
    }
}

/// The settings of a trail.
#[derive(Clone, Debug)]
pub struct AuditSettings {
    /// Its database.
    pub path: PathBuf,
    /// The key that it is sealed with; made where there is none.
    pub key: PathBuf,
    /// How large the database may become, in bytes.
    pub max_bytes: u64,
    /// What a record survives once it is written.
    pub durability: DatabaseDurability,
    /// What to do where a decision cannot be recorded.
    pub on_failure: RecordFailurePolicy,
    /// How long records are kept.
    pub retention: TrailRetention,
    /// The time for which refusals of one user for one cause are counted before they are recorded as a group.
    pub refusal_interval: Duration,
    /// How many entries may wait.
    pub queue: usize,
    /// The keys of infos whose values are not kept.
    pub secrets: Secrets,
    /// Of how many instances of a handler one is recorded.
    pub handlers: NonZeroU32,
    /// After how many records the trail is sealed on the way, and this is sent elsewhere.
    pub checkpoint_records: u64,
    /// After how long it is, if there are any.
    pub checkpoint_time: Duration,
    /// Where that is sent.
    pub checkpoints: Destinations,
    /// Who writes: host, process and release, in words.
    pub server: String,
}

/// How recording goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AuditHealth {
    /// Records that were written.
    pub written: u64,
    /// Calls that are missing, because there was no room or they could not be written.
    pub lost: u64,
    /// Decisions that could not be recorded.
    pub undone: u64,
    /// Whether the last write failed.
    pub is_failing: bool,
}

/// Why a trail cannot be written, and what follows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WriteFailure {
    /// What went wrong with the last write.
    pub error: String,
    /// What happens to decisions meanwhile.
    pub on_failure: RecordFailurePolicy,
}

impl fmt::Display for WriteFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WriteFailure { error, on_failure } = self;
        write!(f, "{error}; {}", on_failure.consequence())
    }
}

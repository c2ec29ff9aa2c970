//! The audit trail: every call of every module with all that went in and came out, every decision and every change among the
//! modules; how it is kept so that nobody changes it unseen, and how what was recorded is done again.
//!
//! ```text
//! Audit      takes entries (queue.rs), writes them in groups (writer.rs), says when they are safe
//!   Recorder   takes the calls of one module (peal-sandbox records them)
//!   journal    where decisions are until the database has them (ledger.rs), so that nobody waits for that
//!   entry      what there is to record, in CBOR
//!   handshake  what is kept of those who were not let in; refusals  how often that was
//!   gist       the same for people, in a few words
//!   chain      each row's hash follows from it and all before; seals are signed with a key (key.rs)
//! retention  what goes where there is no room; dropped  how that is told apart from what somebody removed
//! verify     names the first row that was altered, removed, reordered or inserted
//! export     the same as lines of JSON, and read from there
//! report     what one wants to see of it at a glance, and as a page
//! replay     has components do again what was recorded, and says what differs
//! ```
//!
//! The rows themselves are kept by `peal-store`, where their meaning is not known.

mod audit;
mod checkpoint;
mod decision_room;
mod drop_summary;
mod dropped;
mod entry;
mod error;
mod export;
mod gist;
mod handshake;
mod hash_chain;
mod journal;
mod key;
mod outcome;
mod pending;
mod queue;
mod readable;
mod recorder;
mod refusals;
mod replay;
mod report;
mod retention;
mod secret;
mod settings;
mod source;
mod trail_database;
mod verify;
mod writer;
mod writer_thread;

pub use audit::{AuditTrail, CommitResult};
pub use checkpoint::{CheckpointSyslog, Destinations};
pub use drop_summary::DropSummary;
pub use entry::{
    AdmissionDenial, AuditEntry, CallEntry, DecisionEntry, DecisionKind, EntryError, GapReason,
    ModuleFacts, kind,
};
pub use error::AuditError;
pub use export::{ExportError, Exported, export};
pub use gist::{Gist, reasons};
pub use handshake::{HandshakeFacts, InfoFacts};
pub use hash_chain::{Statement, hash_of};
pub use journal::{FrameError, RecoveredRecords};
pub use key::{Keys, SealKeyError, SealPublicKey};
pub use outcome::OUTCOMES;
pub use queue::CommitThread;
pub use readable::{readable, shown_time};
pub use refusals::RefusalGroup;
pub use replay::{ReplayDifference, ReplayError, ReplayResult, Replayed, Replayer};
pub use report::{Counts, ModuleSummary, Timeline, TrailReport, page};
pub use retention::TrailRetention;
pub use secret::Secrets;
pub use settings::{AuditHealth, AuditSettings, RecordFailurePolicy, WriteFailure};
pub use source::TrailSource;
pub use verify::{DroppedRecords, Finding, Verified, verify};

/// Milliseconds since the epoch.
pub fn now() -> u64 {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

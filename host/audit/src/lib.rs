//! The audit trail: every call of every module with all its input and output, every decision, and
//! every change of the module set. The trail is protected against unnoticed changes, and recorded
//! calls can be repeated.
//!
//! ```text
//! audit      AuditTrail: queues entries (queue.rs), writes them in groups (writer.rs), reports commits
//!   recorder   records the calls of one module (peal-sandbox collects them)
//!   journal    holds decisions until the database (trail_database.rs) has them, for fast commits
//!   entry      the kinds of entries, in CBOR
//!   handshake  the kept part of refused handshakes; refusals  counts of repeated refusals
//!   gist       the entries in a few words, for people
//!   hash_chain each row's hash covers it and all rows before it; seals are signed with a key (key.rs)
//!   signer     signs what extends the trail, in `peal serve` as a process of its own
//! retention  the records to drop when the trail is full; dropped  signed statements about them
//! verify     finds the first row that was altered, removed, reordered or inserted
//!   stored_seals  compares a trail with seals that are stored elsewhere
//! export     the trail as lines of JSON; exported reads them
//! report     a summary of the trail, also as an HTML page
//! replay     repeats recorded calls with components and reports differences
//! ```
//!
//! `peal-store` keeps the rows and does not interpret them.

mod audit;
mod checkpoint;
mod drop_summary;
mod dropped;
mod entry;
mod error;
mod export;
mod exported;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod gist;
mod handshake;
mod hash_chain;
mod journal;
mod key;
mod module_record;
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
mod shared_trail;
pub mod signer;
mod source;
mod stored_seals;
mod trail_budget;
mod trail_database;
mod verify;
mod writer;
mod writer_thread;

pub use audit::AuditTrail;
pub use checkpoint::{CheckpointReceiver, CheckpointSyslog, Destinations};
pub use drop_summary::DropSummary;
pub use entry::{
    AdmissionDenial, AuditEntry, CallEntry, DecisionEntry, DecisionKind, EntryError, GapReason,
    ModuleFacts, RefusalGroup, kind,
};
pub use error::AuditError;
pub use export::export;
pub use exported::{ExportError, Exported};
pub use gist::{Gist, reasons};
pub use handshake::{HandshakeFacts, InfoFacts};
pub use hash_chain::{ChainLink, Statement, hash_of};
pub use journal::{FrameError, RecoveredRecords};
pub use key::{Keys, SealKeyError, SealPublicKey};
pub use outcome::OUTCOMES;
pub use pending::CommitResult;
pub use queue::CommitThread;
pub use readable::{readable, shown_time};
pub use replay::{ReplayDifference, ReplayError, ReplayResult, Replayed, Replayer};
pub use report::{Counts, ModuleSummary, Timeline, TrailReport, page};
pub use retention::TrailRetention;
pub use secret::Secrets;
pub use settings::{AuditHealth, AuditSettings, WriteFailure};
pub use signer::{SignerError, SignerMemory, SignerRules, SignerState, TrailSigner, serve_signer};
pub use source::TrailSource;
pub use stored_seals::{OtherKeys, SealedTrail, verify_sealed};
pub use trail_budget::{TrailUse, UserRecordUse, UserRecords};
pub use verify::{DroppedRecords, Finding, Verified, verify};

/// Returns the time in milliseconds since the epoch.
pub fn now() -> u64 {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

//! What there is to record, and how: in CBOR (RFC 8949), beside the columns that one looks for.
use crate::{
    DropSummary, HandshakeFacts, RefusalGroup,
    gist::{reasons, shortened},
    handshake,
    outcome::outcome,
};
use peal_core::policy::{DecidedBy, Verdict};
use peal_model::{Info, PolicyRequest, PolicySubject, Proc, Status};
use peal_sandbox::{CallFailure, CallRecord, CallSubject, Digest, Grants, ModuleLimits};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{num::NonZeroU32, sync::Arc};
use thiserror::Error;

/// How deep what is read may be nested: what a guest may push has 16 levels of three each.
const MAX_DEPTH: usize = 128;

/// What there is to record.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum AuditEntry {
    /// A server began.
    Began {
        /// Its host, process and release.
        server: String,
        /// The key that it signs with.
        key: String,
        /// Of how many instances of a handler one is recorded.
        #[serde(default = "every_one")]
        handlers: NonZeroU32,
        /// What the kernel called the time since the machine was started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        boot: Option<String>,
    },
    /// It ended in good order.
    Ended,
    /// A module was called.
    Call(Box<CallEntry>),
    /// A request was decided about.
    Decision(DecisionEntry),
    /// A request was denied, or a connection refused, without a decision that is on record.
    Denied(AdmissionDenial),
    /// Requests of one user were denied, or its connections refused, often for the same cause.
    Refusals(RefusalGroup),
    /// Records were dropped.
    Dropped(DropSummary),
    /// Other modules have taken the place of those that ran.
    Deployed {
        /// The number of their version.
        version: u64,
        /// What led to it.
        cause: String,
        /// What differs from the one before.
        changes: Vec<String>,
    },
    /// Others were to, and could not.
    Refused {
        /// Why.
        reasons: Vec<String>,
    },
    /// A module failed too often.
    Quarantined {
        /// Which.
        module: String,
        /// Its component.
        digest: Digest,
        /// How often.
        failures: usize,
        /// How at last.
        last: CallFailure,
    },
    /// Something is missing here.
    Gap {
        /// How many calls; none where nobody knows.
        calls: Option<u64>,
        /// Why.
        reason: GapReason,
    },
}

/// Records of older releases do not say so.
fn every_one() -> NonZeroU32 {
    NonZeroU32::MIN
}

/// A call of a module.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CallEntry {
    /// The record at which its server began. An instance is known by that and its number.
    pub run: u64,
    /// What is known of the module: the digest of its [`ModuleFacts`].
    pub facts: Digest,
    /// What was called, and what came of it.
    pub record: CallRecord,
    /// The facts of the handshake that it was about. The words of the handshake, and the module's results, are not in the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake: Option<HandshakeFacts>,
}

/// What is known of a module as it was loaded. Kept once, whatever it is called for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ModuleFacts {
    /// What administrators call it.
    pub name: String,
    /// Whose it is.
    pub owner: String,
    /// Its component.
    pub digest: Digest,
    /// What it takes part in: `active`, `shadow`, or `brought` by a job.
    pub mode: String,
    /// What it may reach.
    pub grants: Grants,
    /// Its limits.
    pub limits: ModuleLimits,
    /// The sinks that were opened for it.
    pub sinks: Vec<String>,
    /// The directories.
    pub directories: Vec<String>,
}

/// A verdict on a request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DecisionEntry {
    /// The number of the request in its server.
    pub request: u64,
    /// Which kind it is of.
    pub hook: String,
    /// What was asked.
    pub asked: Arc<PolicyRequest>,
    /// What was said.
    pub ruling: DecisionKind,
    /// By whom, in words.
    pub by: String,
    /// By which policy, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Why not, if it was denied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Info>,
    /// The facts of the handshake that it was about. Its words are not in the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake: Option<HandshakeFacts>,
}

/// What was said of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DecisionKind {
    /// Yes.
    Granted,
    /// No, with this status.
    Denied(Status),
}

/// A request that was denied, or a connection that was refused, without a decision that is on record.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AdmissionDenial {
    /// Who asked, by the kernel's word.
    pub uid: Option<u32>,
    /// The job that it said it is of.
    pub job: Option<String>,
    /// Why, in words.
    pub reason: String,
    /// Which kind of request it was; none in records of older releases, whose reason says all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<String>,
    /// Who denied it, in words; none where the server refused a connection itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What the requester was told; none where that was nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Procs that it is about, the first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Proc>,
    /// The address that a connection came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Why, in a few words that are the same for all who are refused for the same cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// Why something is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum GapReason {
    /// More was to be recorded than could be.
    Overload,
    /// What was to be recorded could not be written.
    NotWritten,
    /// The server before did not end in good order: its last moments may be missing.
    Crash,
}

/// What is read makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EntryError {
    /// It cannot be read.
    #[error("a record cannot be read: {0}")]
    Unreadable(String),
    /// It cannot be written.
    #[error("a record cannot be written: {0}")]
    Unwritable(String),
}

/// Anything in CBOR.
pub(crate) fn to_cbor<T: Serialize>(value: &T) -> Result<Vec<u8>, EntryError> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes)
        .map_err(|error| EntryError::Unwritable(error.to_string()))?;
    Ok(bytes)
}

/// Anything from CBOR, nested no deeper than it may be.
pub(crate) fn from_cbor<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, EntryError> {
    let read = ciborium::de::from_reader_with_recursion_limit(bytes, MAX_DEPTH);
    read.map_err(|error| EntryError::Unreadable(error.to_string()))
}

/// The words by which kinds of entries are known.
pub mod kind {
    /// [`super::AuditEntry::Call`].
    pub const CALL: &str = "call";
    /// [`super::AuditEntry::Decision`].
    pub const DECISION: &str = "decision";
    /// [`super::AuditEntry::Began`].
    pub const BEGAN: &str = "began";
    /// [`super::AuditEntry::Ended`].
    pub const ENDED: &str = "ended";
    /// [`super::AuditEntry::Dropped`].
    pub const DROPPED: &str = "dropped";
    /// [`super::AuditEntry::Deployed`].
    pub const DEPLOYED: &str = "deployed";
    /// All of them.
    pub const ALL: [&str; 11] = [
        CALL,
        DECISION,
        "denied",
        "refusals",
        DEPLOYED,
        "refused",
        "quarantined",
        "gap",
        DROPPED,
        BEGAN,
        ENDED,
    ];
    /// Those that stay where there is no room for others. Nobody but administrators makes many of them, decisions excepted.
    pub(crate) const LASTING: [&str; 5] = [DECISION, BEGAN, ENDED, DEPLOYED, DROPPED];
}

/// The columns that one looks for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Columns {
    pub(crate) module: Option<String>,
    pub(crate) job: Option<String>,
    pub(crate) uid: Option<u32>,
    pub(crate) outcome: Option<String>,
}

impl AuditEntry {
    /// Its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            AuditEntry::Began { .. } => kind::BEGAN,
            AuditEntry::Ended => kind::ENDED,
            AuditEntry::Call(_) => kind::CALL,
            AuditEntry::Decision(_) => kind::DECISION,
            AuditEntry::Denied(_) => "denied",
            AuditEntry::Refusals(_) => "refusals",
            AuditEntry::Dropped(_) => kind::DROPPED,
            AuditEntry::Deployed { .. } => kind::DEPLOYED,
            AuditEntry::Refused { .. } => "refused",
            AuditEntry::Quarantined { .. } => "quarantined",
            AuditEntry::Gap { .. } => "gap",
        }
    }

    /// From what was kept.
    pub fn read(body: &[u8]) -> Result<AuditEntry, EntryError> {
        from_cbor(body)
    }

    /// What one looks for. The name of a called module is with its facts.
    pub(crate) fn columns(&self, module: Option<&str>) -> Columns {
        let none = Columns::default();
        match self {
            AuditEntry::Call(call) => {
                let record = &call.record;
                let (source, identity) = caused_by(&record.subject);
                Columns {
                    module: module.map(str::to_owned),
                    job: source,
                    uid: identity,
                    outcome: Some(outcome(&record.end).into_owned()),
                }
            }
            AuditEntry::Decision(DecisionEntry {
                asked,
                ruling,
                policy,
                ..
            }) => Columns {
                module: policy.clone(),
                job: asked
                    .requester
                    .as_ref()
                    .map(|proc| proc.nspace.as_str().to_owned()),
                uid: asked.identity.map(|identity| identity.uid),
                outcome: Some(match ruling {
                    DecisionKind::Granted => "granted".to_owned(),
                    DecisionKind::Denied(status) => format!("denied:{status}"),
                }),
            },
            AuditEntry::Denied(AdmissionDenial {
                uid, job, status, ..
            }) => {
                let outcome =
                    status.map_or("denied".to_owned(), |status| format!("denied:{status}"));
                Columns {
                    job: job.clone(),
                    uid: *uid,
                    outcome: Some(outcome),
                    ..none
                }
            }
            AuditEntry::Refusals(RefusalGroup { uid, example, .. }) => Columns {
                uid: *uid,
                ..AuditEntry::Denied(example.clone()).columns(module)
            },
            AuditEntry::Quarantined { module, .. } => Columns {
                module: Some(module.clone()),
                ..none
            },
            AuditEntry::Began { .. }
            | AuditEntry::Ended
            | AuditEntry::Dropped(_)
            | AuditEntry::Deployed { .. }
            | AuditEntry::Refused { .. }
            | AuditEntry::Gap { .. } => none,
        }
    }
}

impl DecisionEntry {
    /// About this request.
    pub fn new(request: u64, asked: Arc<PolicyRequest>, verdict: &Verdict) -> DecisionEntry {
        let hook = match asked.matter {
            PolicySubject::Registration => "registration",
            matter => matter.hook().name(),
        };
        let (ruling, by, reasons) = match verdict {
            Verdict::Granted { by, .. } => (DecisionKind::Granted, by, Vec::new()),
            Verdict::Denied {
                by,
                status,
                reasons,
            } => (DecisionKind::Denied(*status), by, reasons.clone()),
        };
        let handshake = HandshakeFacts::of(&asked);
        let (asked, reasons) = match handshake {
            Some(_) => (
                handshake::kept_request(&asked),
                handshake::kept_reasons(&reasons),
            ),
            None => (asked, reasons),
        };
        let policy = if let DecidedBy::Policy(name) = by {
            Some(name.clone())
        } else {
            None
        };
        DecisionEntry {
            request,
            hook: hook.to_owned(),
            asked,
            ruling,
            by: by.to_string(),
            policy,
            reasons,
            handshake,
        }
    }

    /// The denial, if a connection was refused.
    pub(crate) fn refused_connection(&self) -> Option<AdmissionDenial> {
        let (true, DecisionKind::Denied(status)) = (self.handshake.is_some(), self.ruling) else {
            return None;
        };
        let reason = reasons(&self.reasons);
        Some(AdmissionDenial {
            status: Some(status),
            by: Some(self.by.clone()),
            reason,
            ..self.as_denial()
        })
    }

    /// A denial of what was asked.
    pub(crate) fn as_denial(&self) -> AdmissionDenial {
        AdmissionDenial {
            uid: self.asked.identity.map(|identity| identity.uid),
            job: self
                .asked
                .requester
                .as_ref()
                .map(|proc| proc.nspace.as_str().to_owned()),
            hook: Some(self.hook.clone()),
            ..AdmissionDenial::default()
        }
    }

    /// What was granted is denied: what led to it could not be recorded.
    pub(crate) fn withdraw(&mut self) {
        if self.ruling == DecisionKind::Granted {
            let Verdict::Denied {
                by,
                status,
                reasons,
            } = Verdict::unrecorded()
            else {
                return;
            };
            (self.ruling, self.by, self.policy) =
                (DecisionKind::Denied(status), by.to_string(), None);
            self.reasons = reasons;
        }
    }
}

impl AdmissionDenial {
    /// This entry with bounded texts.
    pub(crate) fn bounded(mut self) -> AdmissionDenial {
        self.reason = shortened(&self.reason);
        for text in [
            &mut self.job,
            &mut self.hook,
            &mut self.by,
            &mut self.from,
            &mut self.cause,
        ]
        .into_iter()
        .flatten()
        {
            *text = shortened(text);
        }
        self
    }
}

/// The job and the user that have caused a call.
fn caused_by(subject: &CallSubject) -> (Option<String>, Option<u32>) {
    let (source, identity) = match subject {
        CallSubject::Event(call) => (call.event.source.as_ref(), call.identity),
        CallSubject::Policy(call) => (call.request.requester.as_ref(), call.request.identity),
        CallSubject::Log(call) => (call.request.source.as_ref(), call.request.identity),
        CallSubject::None | CallSubject::Settings(_) => (None, None),
    };
    (
        source.map(|proc| proc.nspace.as_str().to_owned()),
        identity.map(|identity| identity.uid),
    )
}

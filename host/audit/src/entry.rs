//! Entries of the trail, serialized in CBOR (RFC 8949), and the columns for searches.
use crate::{
    DropSummary, HandshakeFacts,
    gist::{reasons, shortened},
    handshake,
    outcome::outcome,
};
use peal_core::policy::{DecidedBy, DeniedVerdict, Verdict};
use peal_model::{Info, PolicyRequest, PolicySubject, Proc, Status};
use peal_sandbox::{CallFailure, CallRecord, CallSubject, Digest, Grants, ModuleLimits};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{num::NonZeroU32, sync::Arc};
use thiserror::Error;

/// Maximum nesting when reading: values that a guest may push have 16 levels of three each.
const MAX_DEPTH: usize = 128;

/// An entry of the trail.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum AuditEntry {
    /// A server began.
    Began {
        /// The host, process and release of the server.
        server: String,
        /// The key that signs the seals.
        key: String,
        /// One of this many instances of a handler is recorded.
        #[serde(default = "every_one")]
        handlers: NonZeroU32,
        /// The kernel's boot id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        boot: Option<String>,
        /// The name of the run, by which the key of its journal is derived.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<String>,
    },
    /// The server ended in good order.
    Ended,
    /// A module was called.
    Call(Box<CallEntry>),
    /// A policy decision about a request.
    Decision(DecisionEntry),
    /// A denied request or refused connection without a recorded decision.
    Denied(AdmissionDenial),
    /// Repeated denials of one user's requests or connections, mostly for the same cause.
    Refusals(RefusalGroup),
    /// Records were dropped.
    Dropped(DropSummary),
    /// A new module set was deployed.
    Deployed {
        /// The version of the set.
        version: u64,
        /// The cause of the change.
        cause: String,
        /// The differences from the previous set.
        changes: Vec<String>,
    },
    /// A module set was rejected.
    Refused {
        /// The errors.
        reasons: Vec<String>,
    },
    /// A module failed too often.
    Quarantined {
        /// The name of the module.
        module: String,
        /// The digest of its component.
        digest: Digest,
        /// The number of failures.
        failures: usize,
        /// The last failure.
        last: CallFailure,
    },
    /// Entries are missing here.
    Gap {
        /// The number of missing calls; `None` if unknown.
        calls: Option<u64>,
        /// The cause.
        reason: GapReason,
    },
}

/// Returns the default for records of older releases, which lack the field.
fn every_one() -> NonZeroU32 {
    NonZeroU32::MIN
}

/// A call of a module.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CallEntry {
    /// The record at which the server's run began. Run and instance number identify an instance.
    pub run: u64,
    /// The digest of the module's [`ModuleFacts`].
    pub facts: Digest,
    /// The subject and the result of the call.
    pub record: CallRecord,
    /// The facts of the handshake that the call was about. The content of the handshake and the
    /// module's results are not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake: Option<HandshakeFacts>,
}

/// Facts about a module as loaded. Stored once per module, not per call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ModuleFacts {
    /// The name of the module.
    pub name: String,
    /// The owner of the module.
    pub owner: String,
    /// The digest of its component.
    pub digest: Digest,
    /// The mode: `active`, `shadow` or `job-supplied`.
    pub mode: String,
    /// The granted capabilities.
    pub grants: Grants,
    /// Its limits.
    pub limits: ModuleLimits,
    /// The sinks that are open to the module.
    pub sinks: Vec<String>,
    /// The directories that are open to the module.
    pub directories: Vec<String>,
}

/// A verdict on a request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DecisionEntry {
    /// The number of the request in its server.
    pub request_number: u64,
    /// The hook.
    pub hook: String,
    /// The request.
    pub request: Arc<PolicyRequest>,
    /// The decision.
    pub verdict: DecisionKind,
    /// The decider, as text.
    pub by: String,
    /// The policy that decided; `None` if a built-in rule did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The reasons of a denial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Info>,
    /// The facts of the handshake that the request was about. The content of the handshake is not
    /// recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake: Option<HandshakeFacts>,
}

/// Kind of a decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DecisionKind {
    /// The request was granted.
    Granted,
    /// The request was denied with this status.
    Denied(Status),
}

/// A denied request or refused connection without a recorded decision.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AdmissionDenial {
    /// The requester's uid as given by the kernel.
    pub uid: Option<u32>,
    /// The job that the requester claimed.
    pub job: Option<String>,
    /// The reason as text.
    pub reason: String,
    /// The hook; `None` in records of older releases, whose reason includes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<String>,
    /// The decider, as text; `None` if the server refused a connection itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The status that the requester received; `None` if there was no reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The first target procs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Proc>,
    /// The address of a refused connection's peer, or the sender of a refused message of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The cause in a few words, equal for all denials with that cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// The cause in the example of a [`RefusalGroup`] that counts calls of a connection policy. Their
/// decisions are counted in another group.
pub(crate) const POLICY_CALL: &str = "call of a policy";

/// Denials of one user for one cause, or calls of a connection policy that refused or failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RefusalGroup {
    /// The uid as given by the kernel; `None` if unknown or if there were too many users.
    pub uid: Option<u32>,
    /// The number of denials.
    pub count: u64,
    /// The time of the first denial, in milliseconds since the epoch.
    pub first: u64,
    /// The time of the last denial, in milliseconds since the epoch.
    pub last: u64,
    /// The first denial.
    pub example: AdmissionDenial,
}

impl RefusalGroup {
    /// Returns true if the group counts calls of a policy. These denied nothing by themselves:
    /// after a failed call the connection may have been accepted.
    pub(crate) fn counts_calls(&self) -> bool {
        self.example.cause.as_deref() == Some(POLICY_CALL)
    }
}

/// Cause of a gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum GapReason {
    /// More entries arrived than could be recorded.
    Overload,
    /// The entries could not be written.
    NotWritten,
    /// The previous server did not end in good order: its last entries may be missing.
    Crash,
}

/// Error of a conversion between an entry and its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EntryError {
    /// The bytes could not be read.
    #[error("a record cannot be read: {0}")]
    Unreadable(String),
    /// The entry could not be serialized.
    #[error("a record cannot be written: {0}")]
    Unwritable(String),
}

/// Serializes a value in CBOR.
pub(crate) fn to_cbor<T: Serialize>(value: &T) -> Result<Vec<u8>, EntryError> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes)
        .map_err(|error| EntryError::Unwritable(error.to_string()))?;
    Ok(bytes)
}

/// Reads a value from CBOR with at most `MAX_DEPTH` levels.
pub(crate) fn from_cbor<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, EntryError> {
    let read = ciborium::de::from_reader_with_recursion_limit(bytes, MAX_DEPTH);
    read.map_err(|error| EntryError::Unreadable(error.to_string()))
}

/// Names of the kinds of entries.
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
    /// All kinds.
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
    /// Kinds that stay when others are dropped. Except for decisions, only an admin causes many of
    /// them.
    pub(crate) const LASTING: [&str; 5] = [DECISION, BEGAN, ENDED, DEPLOYED, DROPPED];

    /// Returns the class of a kind.
    pub(crate) fn class(kind: &str) -> peal_store::RowClass {
        if LASTING.contains(&kind) {
            peal_store::RowClass::Lasting
        } else {
            peal_store::RowClass::Passing
        }
    }
}

/// Columns for searches.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Columns {
    pub(crate) module: Option<String>,
    pub(crate) job: Option<String>,
    pub(crate) uid: Option<u32>,
    pub(crate) outcome: Option<String>,
}

impl AuditEntry {
    /// Returns the kind.
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

    /// Reads an entry from its bytes.
    pub fn read(body: &[u8]) -> Result<AuditEntry, EntryError> {
        from_cbor(body)
    }

    /// Returns the columns. `module` is the name of a called module, which is stored with its
    /// facts.
    pub(crate) fn columns(&self, module: Option<&str>) -> Columns {
        let none = Columns::default();
        match self {
            AuditEntry::Call(call) => {
                let record = &call.record;
                let (job, uid) = caused_by(&record.subject);
                Columns {
                    module: module.map(str::to_owned),
                    job,
                    uid,
                    outcome: Some(outcome(&record.end).into_owned()),
                }
            }
            AuditEntry::Decision(DecisionEntry {
                request,
                verdict: ruling,
                policy,
                ..
            }) => Columns {
                module: policy.clone(),
                job: request
                    .requester
                    .as_ref()
                    .map(|proc| proc.nspace.as_str().to_owned()),
                uid: request.identity.map(|identity| identity.uid),
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
            AuditEntry::Refusals(group) if group.counts_calls() => Columns {
                module: group.example.by.clone(),
                uid: group.uid,
                outcome: Some(group.example.reason.clone()),
                ..none
            },
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
    /// Builds the entry of a verdict on this request.
    pub fn new(
        request_number: u64,
        request: Arc<PolicyRequest>,
        verdict: &Verdict,
    ) -> DecisionEntry {
        // Registrations share the hook of events. The trail tells them apart.
        let hook = match &request.subject {
            PolicySubject::Registration(_) => "registration",
            subject => subject.hook().name(),
        };
        let (verdict, by, reasons) = match verdict {
            Verdict::Granted { by, .. } => (DecisionKind::Granted, by, Vec::new()),
            Verdict::Denied(DeniedVerdict {
                by,
                status,
                reasons,
            }) => (DecisionKind::Denied(*status), by, reasons.clone()),
        };
        // The client of a handshake is not admitted yet, so the trail keeps no content of its
        // choice.
        let handshake = HandshakeFacts::of(&request);
        let (request, reasons) = match handshake {
            Some(_) => (
                handshake::kept_request(&request),
                handshake::kept_reasons(&reasons),
            ),
            None => (request, reasons),
        };
        let policy = if let DecidedBy::Policy(name) = by {
            Some(name.clone())
        } else {
            None
        };
        DecisionEntry {
            request_number,
            hook: hook.to_owned(),
            request,
            verdict,
            by: by.to_string(),
            policy,
            reasons,
            handshake,
        }
    }

    /// Builds the entry of a request that another server has permitted. `server` names it.
    pub fn of_server(
        request_number: u64,
        request: Arc<PolicyRequest>,
        server: String,
    ) -> DecisionEntry {
        DecisionEntry {
            request_number,
            hook: request.subject.hook().name().to_owned(),
            request,
            verdict: DecisionKind::Granted,
            by: server,
            policy: None,
            reasons: Vec::new(),
            handshake: None,
        }
    }

    /// Returns the denial if a connection was refused.
    pub(crate) fn refused_connection(&self) -> Option<AdmissionDenial> {
        let (true, DecisionKind::Denied(status)) = (self.handshake.is_some(), self.verdict) else {
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

    /// Returns a denial of the request, without reasons.
    pub(crate) fn as_denial(&self) -> AdmissionDenial {
        AdmissionDenial {
            uid: self.request.identity.map(|identity| identity.uid),
            job: self
                .request
                .requester
                .as_ref()
                .map(|proc| proc.nspace.as_str().to_owned()),
            hook: Some(self.hook.clone()),
            ..AdmissionDenial::default()
        }
    }

    /// Turns a grant into a denial, because its record could not be written.
    pub(crate) fn withdraw(&mut self) {
        // A denial needs no record to take effect.
        if self.verdict == DecisionKind::Granted {
            let DeniedVerdict {
                by,
                status,
                reasons,
            } = DeniedVerdict::unrecorded();
            (self.verdict, self.by, self.policy) =
                (DecisionKind::Denied(status), by.to_string(), None);
            self.reasons = reasons;
        }
    }
}

impl AdmissionDenial {
    /// Returns the denial with shortened texts.
    pub(crate) fn bounded(mut self) -> AdmissionDenial {
        // A client or a module may have chosen these texts and their lengths.
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

/// Returns the job of a call's subject, and the user that caused the call.
pub(crate) fn caused_by(subject: &CallSubject) -> (Option<String>, Option<u32>) {
    let (proc, identity) = match subject {
        CallSubject::Event(call) => {
            // The server's own event, such as the end of a proc, has no source, and names the proc.
            let affected = || call.event.affected().into_iter().next();
            (call.event.source.clone().or_else(affected), call.identity)
        }
        CallSubject::Policy(call) => (call.request.requester.clone(), call.request.identity),
        CallSubject::Log(call) => (call.request.source.clone(), call.request.identity),
        CallSubject::None | CallSubject::Settings(_) => (None, None),
    };
    (
        proc.map(|proc| proc.nspace.as_str().to_owned()),
        identity.map(|identity| identity.uid),
    )
}

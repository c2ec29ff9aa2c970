//! The part of a handshake that is kept: no values, only the keys and sizes of its infos. The
//! client of such a handshake has not been admitted yet.
use crate::gist::shortened;
use peal_model::{ChainResult, Info, PolicyRequest, PolicySubject, Size, Status, Value};
use peal_sandbox::{CallEnd, CallOutput, CallRecord, CallSubject};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Maximum number of infos for which the key is kept.
const INFOS: usize = 16;
/// Maximum number of characters of a key and of the client's release.
const CHARACTERS: usize = 64;
/// Maximum number of infos in the reasons of a refusal, and the maximum size in bytes of one that
/// is not text.
const REASONS: usize = 8;
const REASON_BYTES: usize = 512;

/// The keys and sizes of the infos of a handshake.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HandshakeFacts {
    /// The first infos.
    pub infos: Vec<InfoFacts>,
    /// The number of further infos.
    pub others: u64,
}

/// The key and the size of an info.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InfoFacts {
    /// The key, shortened if it is long.
    pub key: String,
    /// The approximate size of the info in bytes.
    pub bytes: u64,
}

impl HandshakeFacts {
    /// Returns the facts of a request about a connection; `None` for other requests.
    pub(crate) fn of(request: &PolicyRequest) -> Option<HandshakeFacts> {
        let PolicySubject::Connection(subject) = &request.subject else {
            return None;
        };
        let facts = |info: &Info| InfoFacts {
            key: info.key.as_str().chars().take(CHARACTERS).collect(),
            bytes: Size::of_info(info).bytes as u64,
        };
        let infos = &subject.infos;
        let others = infos.len().saturating_sub(INFOS) as u64;
        Some(HandshakeFacts {
            infos: infos.iter().take(INFOS).map(facts).collect(),
            others,
        })
    }

    /// Returns true if the handshake had no infos, so that nothing is left out.
    pub(crate) fn is_whole(&self) -> bool {
        self.infos.is_empty()
    }
}

/// Returns a request as kept in the trail: one about a connection without its infos.
pub(crate) fn kept_request(request: &PolicyRequest) -> Arc<PolicyRequest> {
    let mut kept = request.clone();
    if let PolicySubject::Connection(subject) = &mut kept.subject {
        let release = &mut subject.peer.release;
        *release = release.chars().take(CHARACTERS).collect();
        subject.infos.clear();
    }
    Arc::new(kept)
}

/// Returns the reasons of a policy as kept in the trail. They are bounded because a policy may
/// repeat the content of a handshake.
pub(crate) fn kept_reasons(reasons: &[Info]) -> Vec<Info> {
    let kept = |info: &Info| match info.value.as_str() {
        Some(text) => Some(Info {
            value: Value::string(&shortened(text)),
            ..info.clone()
        }),
        // A value that is no text cannot be shortened, so a large one is left out.
        None => (Size::of_info(info).bytes <= REASON_BYTES).then(|| info.clone()),
    };
    reasons.iter().take(REASONS).filter_map(kept).collect()
}

/// Removes the content of a handshake from the record of a call, with everything that the guest
/// derived from it. Returns the facts that are kept instead.
pub(crate) fn abridge(record: &mut CallRecord) -> Option<HandshakeFacts> {
    let CallSubject::Policy(call) = &mut record.subject else {
        return None;
    };
    let facts = HandshakeFacts::of(&call.request)?;
    call.request = kept_request(&call.request);
    // Nothing was left out of the request, so nothing of it can be in the results.
    if facts.is_whole() {
        return Some(facts);
    }
    let step = |step: &ChainResult| ChainResult {
        infos: Vec::new(),
        ..step.clone()
    };
    // What the guest returned or requested may repeat the handshake.
    call.steps = Arc::new(call.steps.iter().map(step).collect());
    record.host_calls.clear();
    match &mut record.end {
        CallEnd::Returned { output, .. } => *output = CallOutput::default(),
        CallEnd::Failed(failure) => failure.reason = shortened(&failure.reason),
    }
    Some(facts)
}

/// Returns the status with which a policy refused a connection in this call, or with which the call
/// failed; `None` for other calls. What a failure means for the connection is decided elsewhere.
pub(crate) fn refusal(record: &CallRecord) -> Option<Status> {
    let CallSubject::Policy(call) = &record.subject else {
        return None;
    };
    let PolicySubject::Connection(_) = call.request.subject else {
        return None;
    };
    match &record.end {
        CallEnd::Returned {
            answer: peal_sandbox::Returned::Outcome(outcome),
            ..
        } => match outcome {
            peal_model::PolicyOutcome::Deny(status) => Some(*status),
            peal_model::PolicyOutcome::Pass | peal_model::PolicyOutcome::Grant => None,
        },
        CallEnd::Returned { .. } => None,
        CallEnd::Failed(failure) => Some(failure.kind.status()),
    }
}

//! The part of a handshake that is kept: nothing that it says, only the keys and sizes of its infos. At the time when a policy is asked about a
//! connection nobody has been let in.
use crate::gist::shortened;
use peal_model::{ChainResult, Info, PeerInfo, PolicyRequest, PolicySubject, Size, Status, Value};
use peal_sandbox::{CallEnd, CallOutput, CallRecord, CallSubject};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The most infos whose keys are kept.
const INFOS: usize = 16;
/// The most characters of a key, and of the release that a client tells.
const CHARACTERS: usize = 64;
/// The most infos in which a policy may say why it refused a connection, and in bytes how large one may be that is no text.
const REASONS: usize = 8;
const REASON_BYTES: usize = 512;

/// The keys and sizes of the infos of a handshake.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HandshakeFacts {
    /// The first infos.
    pub infos: Vec<InfoFacts>,
    /// The number of all others.
    pub others: u64,
}

/// The key and the size of an info.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InfoFacts {
    /// The key; of a long one its beginning.
    pub key: String,
    /// The bytes that the info takes, nearly.
    pub bytes: u64,
}

impl HandshakeFacts {
    /// Those of a request, if it is about a connection.
    pub(crate) fn of(request: &PolicyRequest) -> Option<HandshakeFacts> {
        let PolicySubject::Connection(_) = request.matter else {
            return None;
        };
        let facts = |info: &Info| InfoFacts {
            key: info.key.as_str().chars().take(CHARACTERS).collect(),
            bytes: Size::of_info(info).bytes as u64,
        };
        let infos = request.infos.iter().chain(&request.directives);
        let others = infos.clone().count().saturating_sub(INFOS) as u64;
        Some(HandshakeFacts {
            infos: infos.take(INFOS).map(facts).collect(),
            others,
        })
    }

    /// True if the handshake had no infos, so that all of it is kept.
    pub(crate) fn is_whole(&self) -> bool {
        self.infos.is_empty()
    }
}

/// A request about a connection as it is kept.
pub(crate) fn kept_request(request: &PolicyRequest) -> Arc<PolicyRequest> {
    let PolicyRequest {
        matter,
        server,
        identity,
        ..
    } = *request;
    let peer = |peer: &PeerInfo| PeerInfo {
        pid: peer.pid,
        release: peer.release.chars().take(CHARACTERS).collect(),
    };
    Arc::new(PolicyRequest {
        matter,
        requester: request.requester.clone(),
        identity,
        groups: request.groups.clone(),
        server,
        peer: request.peer.as_ref().map(peer),
        targets: request.targets.clone(),
        codes: Vec::new(),
        provision: None,
        group_name: None,
        applications: Vec::new(),
        infos: Vec::new(),
        directives: Vec::new(),
    })
}

/// The reasons of a policy as they are kept: it may repeat what a handshake said.
pub(crate) fn kept_reasons(reasons: &[Info]) -> Vec<Info> {
    let kept = |info: &Info| match info.value.as_str() {
        Some(text) => Some(Info {
            value: Value::string(&shortened(text)),
            ..info.clone()
        }),
        None => (Size::of_info(info).bytes <= REASON_BYTES).then(|| info.clone()),
    };
    reasons.iter().take(REASONS).filter_map(kept).collect()
}

/// Takes from the record of a call what a handshake said, also what the guest made of it; tells what is kept instead.
pub(crate) fn abridge(record: &mut CallRecord) -> Option<HandshakeFacts> {
    let CallSubject::Policy(call) = &mut record.subject else {
        return None;
    };
    let facts = HandshakeFacts::of(&call.request)?;
    call.request = kept_request(&call.request);
    if facts.is_whole() {
        return Some(facts);
    }
    let step = |step: &ChainResult| ChainResult {
        infos: Vec::new(),
        ..step.clone()
    };
    call.steps = Arc::new(call.steps.iter().map(step).collect());
    record.host_calls.clear();
    match &mut record.end {
        CallEnd::Returned { output, .. } => *output = CallOutput::default(),
        CallEnd::Failed(failure) => failure.reason = shortened(&failure.reason),
    }
    Some(facts)
}

/// The status with which a policy refused a connection in this call; none where it did not.
pub(crate) fn refusal(record: &CallRecord) -> Option<Status> {
    let CallSubject::Policy(call) = &record.subject else {
        return None;
    };
    let PolicySubject::Connection(_) = call.request.matter else {
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

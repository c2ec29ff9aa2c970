//! Times and outcomes of module calls, for listeners that export traces. They are measured for sampled
//! events and decisions only.
use peal_core::{
    owner::Owner,
    policy::{DecidedBy, DeniedVerdict, Verdict},
};
use peal_model::{ChainResult, PolicyOutcome, PolicyRequest, Size, Status};
use peal_sandbox::{CallFailure, CallUsage, Digest, LimitKind};
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

/// Measurement of an event that has passed the chains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeasuredEvent {
    /// Number of the event, as in the audit trail.
    pub number: u64,
    /// User of the source, if it is known.
    pub uid: Option<u32>,
    /// Time at which the event was submitted to the chains.
    pub submitted: SystemTime,
    /// Time at which it had passed the last chain.
    pub passed: SystemTime,
}

/// Call of a module.
#[derive(Clone, PartialEq, Debug)]
pub struct MeasuredCall {
    /// Name of the handler or policy.
    pub name: Arc<str>,
    /// Owner of the module.
    pub owner: Owner,
    /// Digest of the component.
    pub digest: Digest,
    /// Time at which the call started.
    pub started: SystemTime,
    /// Elapsed time.
    pub time: Duration,
    /// Fuel that the call used, where it is counted.
    pub fuel: Option<u64>,
    /// Outcome of the call.
    pub outcome: MeasuredOutcome,
}

/// Outcome of a call.
#[derive(Clone, PartialEq, Debug)]
pub enum MeasuredOutcome {
    /// The handler returned this status.
    Handler(Status),
    /// The policy returned this outcome.
    Policy(PolicyOutcome),
    /// The call failed.
    Failed(MeasuredFailure),
}

/// Failure of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeasuredFailure {
    /// Status that takes the place of the one that the module did not return.
    pub status: Status,
    /// Limit that the call exceeded, if any.
    pub limit: Option<LimitKind>,
    /// Reason in plain text. It may quote what the module said.
    pub reason: String,
}

impl From<&CallFailure> for MeasuredFailure {
    fn from(failure: &CallFailure) -> MeasuredFailure {
        MeasuredFailure {
            status: failure.kind.status(),
            limit: failure.limit,
            reason: failure.reason.clone(),
        }
    }
}

/// Decision about a request.
#[derive(Clone, PartialEq, Debug)]
pub struct MeasuredDecision {
    /// Number of the decision, as in the audit trail.
    pub number: u64,
    /// Request, as the first policy saw it.
    pub request: Arc<PolicyRequest>,
    /// Conclusion of the policies.
    pub conclusion: DecisionConclusion,
    /// Infos that policies added for the policies after them.
    pub steps: Vec<ChainResult>,
    /// Calls of the policies.
    pub calls: Vec<MeasuredCall>,
    /// Time at which the request began to wait for the policies.
    pub requested: SystemTime,
    /// Time of the conclusion.
    pub decided: SystemTime,
}

impl MeasuredDecision {
    /// Estimates the memory of the decision, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let steps = self.steps.iter().flat_map(|step| &step.infos);
        let reasons = match &self.conclusion {
            DecisionConclusion::Granted(_) => &[],
            DecisionConclusion::Denied(denied) => denied.reasons.as_slice(),
        };
        let fixed = size_of::<MeasuredDecision>() + self.calls.len() * size_of::<MeasuredCall>();
        let fixed = fixed.saturating_add(self.request.subject.bytes());
        steps.chain(reasons).fold(fixed, |sum, info| {
            sum.saturating_add(Size::of_info(info).bytes)
        })
    }
}

/// Conclusion of a policy chain, without the amended request.
#[derive(Clone, PartialEq, Debug)]
pub enum DecisionConclusion {
    /// The request is granted.
    Granted(DecidedBy),
    /// The request is denied.
    Denied(DeniedVerdict),
}

impl From<&Verdict> for DecisionConclusion {
    fn from(verdict: &Verdict) -> DecisionConclusion {
        match verdict {
            Verdict::Granted { by, .. } => DecisionConclusion::Granted(by.clone()),
            Verdict::Denied(denied) => DecisionConclusion::Denied(denied.clone()),
        }
    }
}

/// Recorder of the calls of one chain, which follow each other.
#[derive(Debug)]
pub(crate) struct CallRecorder {
    owner: Owner,
    next: SystemTime,
    calls: Vec<MeasuredCall>,
}

impl CallRecorder {
    /// Creates a recorder of calls of which the first starts now.
    pub(crate) fn new(owner: Owner) -> CallRecorder {
        CallRecorder {
            owner,
            next: SystemTime::now(),
            calls: Vec::new(),
        }
    }

    /// Records the next call.
    pub(crate) fn record(
        &mut self,
        name: &str,
        digest: Digest,
        time: Duration,
        usage: &CallUsage,
        outcome: MeasuredOutcome,
    ) {
        let started = self.next;
        self.next = started.checked_add(time).unwrap_or(started);
        self.calls.push(MeasuredCall {
            name: name.into(),
            owner: self.owner.clone(),
            digest,
            started,
            time,
            fuel: usage.fuel,
            outcome,
        });
    }

    /// Returns the calls, oldest first.
    pub(crate) fn into_calls(self) -> Vec<MeasuredCall> {
        self.calls
    }
}

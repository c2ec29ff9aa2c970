//! Times and outcomes of module calls, for listeners that export traces and for watchers of the activity.
//! Decisions are measured if they are sampled, events also if their passage is recorded.
use peal_core::policy::{DecidedBy, DeniedVerdict, Verdict};
use peal_model::{ChainResult, PolicyOutcome, PolicyRequest, Size, Status, TargetProc};
use peal_sandbox::{CallFailure, CallUsage, Digest, LimitKind, checked_plain};
use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

/// Maximum length of a kept reason, in bytes; the rest is cut.
const MAX_REASON: usize = 200;

/// Measurement of an event on its way through the chains.
#[derive(Debug)]
pub(crate) struct EventMeasurement {
    submitted: SystemTime,
    began: Instant,
    /// True if listeners get the measurement.
    pub(crate) is_traced: bool,
    /// True if watchers of the activity get it.
    pub(crate) is_recorded: bool,
}

impl EventMeasurement {
    /// Begins the measurement of an event, if it has a use.
    pub(crate) fn begin(is_traced: bool, is_recorded: bool) -> Option<Arc<EventMeasurement>> {
        (is_traced || is_recorded).then(|| {
            Arc::new(EventMeasurement {
                // First, so that the end is not before that of the last call.
                began: Instant::now(),
                submitted: SystemTime::now(),
                is_traced,
                is_recorded,
            })
        })
    }

    /// Returns the measurement of the event, which has passed the chains.
    pub(crate) fn end(&self, number: u64, uid: Option<u32>) -> MeasuredEvent {
        MeasuredEvent {
            number,
            uid,
            submitted: self.submitted,
            time: self.began.elapsed(),
        }
    }
}

/// Measurement of an event that has passed the chains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeasuredEvent {
    /// Number of the event, as in the audit trail.
    pub number: u64,
    /// User of the source, if it is known.
    pub uid: Option<u32>,
    /// Time at which the event was submitted to the chains.
    pub submitted: SystemTime,
    /// Time from then until it had passed the last chain.
    pub time: Duration,
}

/// Call of a module.
#[derive(Clone, PartialEq, Debug)]
pub struct MeasuredCall {
    /// Name of the handler or policy.
    pub name: Arc<str>,
    /// Name of the module.
    pub module: Arc<str>,
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
    /// Reason in plain text, which may be cut. It may quote what the module said.
    pub reason: String,
}

impl From<&CallFailure> for MeasuredFailure {
    fn from(failure: &CallFailure) -> MeasuredFailure {
        MeasuredFailure {
            status: failure.kind.status(),
            limit: failure.limit,
            reason: checked_plain(&failure.reason, MAX_REASON),
        }
    }
}

impl MeasuredCall {
    /// Estimates the memory of the call, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let reason = self.failure().map(|failure| failure.reason.len());
        size_of::<MeasuredCall>() + self.module.len() + reason.unwrap_or_default()
    }

    /// Returns the failure of the call, if it failed.
    pub(crate) fn failure(&self) -> Option<&MeasuredFailure> {
        match &self.outcome {
            MeasuredOutcome::Failed(failure) => Some(failure),
            MeasuredOutcome::Handler(_) | MeasuredOutcome::Policy(_) => None,
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
        let calls: usize = self.calls.iter().map(MeasuredCall::bytes).sum();
        let fixed = size_of::<MeasuredDecision>() + calls;
        // The decision is no longer charged for the request when the notice waits.
        let targets = self.request.targets.len() * size_of::<TargetProc>();
        let fixed = fixed
            .saturating_add(self.request.subject.bytes())
            .saturating_add(targets);
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

/// Module that is called.
#[derive(Debug)]
pub(crate) struct CalledModule<'a> {
    /// Name of the handler or policy.
    pub(crate) name: &'a Arc<str>,
    /// Name of the module.
    pub(crate) module: &'a str,
    /// Digest of the component.
    pub(crate) digest: Digest,
}

/// Recorder of the calls of one chain, which follow each other.
#[derive(Debug)]
pub(crate) struct CallRecorder {
    next: SystemTime,
    calls: Vec<MeasuredCall>,
}

impl CallRecorder {
    /// Creates a recorder of calls of which the first starts now.
    pub(crate) fn new() -> CallRecorder {
        CallRecorder {
            next: SystemTime::now(),
            calls: Vec::new(),
        }
    }

    /// Records the next call.
    pub(crate) fn record(
        &mut self,
        called: CalledModule<'_>,
        time: Duration,
        usage: &CallUsage,
        outcome: MeasuredOutcome,
    ) {
        let started = self.next;
        self.next = started.checked_add(time).unwrap_or(started);
        self.calls.push(MeasuredCall {
            name: called.name.clone(),
            module: called.module.into(),
            digest: called.digest,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_of_a_guest_is_escaped_cut_and_counted() {
        let said = format!("bad\u{1b}[31m{}", "x".repeat(5000));
        let mut recorder = CallRecorder::new();
        recorder.record(
            CalledModule {
                name: &"handler".into(),
                module: "module",
                digest: Digest::of(b"module"),
            },
            Duration::from_millis(3),
            &CallUsage::default(),
            MeasuredOutcome::Failed((&CallFailure::unavailable(said)).into()),
        );
        let calls = recorder.into_calls();
        let reason = &calls[0].failure().unwrap().reason;
        assert!(reason.starts_with("bad\\u{1b}[31mxx"), "{reason}");
        assert!(reason.len() < 210 && calls[0].bytes() > reason.len());
    }

    #[test]
    fn event_is_measured_only_for_a_trace_or_a_watcher() {
        assert!(EventMeasurement::begin(false, false).is_none());
        let begun = EventMeasurement::begin(false, true).unwrap();
        assert!(begun.is_recorded && !begun.is_traced);
        let measured = begun.end(3, Some(7));
        assert_eq!((measured.number, measured.uid), (3, Some(7)));
    }
}

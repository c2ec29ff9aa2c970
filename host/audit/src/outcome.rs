//! Names of outcomes: a word, for some of them followed by a colon and a detail.
use peal_sandbox::{CallEnd, Returned};
use std::borrow::Cow;

/// The first word of the outcome of a failed call.
pub(crate) const FAILED: &str = "failed";

/// The first words of all outcomes: of decisions and denials, of policies, of other calls.
pub const OUTCOMES: [&str; 9] = [
    "granted", "denied", "pass", "grant", "deny", "status", "done", "init", FAILED,
];

/// Returns the outcome of a call.
pub(crate) fn outcome(end: &CallEnd) -> Cow<'static, str> {
    match end {
        CallEnd::Returned { answer, .. } => match answer {
            Returned::Nothing => "done".into(),
            Returned::Init(Ok(_)) => "init".into(),
            Returned::Init(Err(_)) => "init:refused".into(),
            Returned::Status(status) => format!("status:{status}").into(),
            Returned::Outcome(outcome) => match outcome {
                peal_model::PolicyOutcome::Pass => "pass".into(),
                peal_model::PolicyOutcome::Grant => "grant".into(),
                peal_model::PolicyOutcome::Deny(status) => format!("deny:{status}").into(),
            },
        },
        CallEnd::Failed(failure) => match failure.limit {
            Some(limit) => format!("{FAILED}:{}", limit.name()).into(),
            None => format!("{FAILED}:{}", failure.kind.status()).into(),
        },
    }
}

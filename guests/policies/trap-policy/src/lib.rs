//! Panics on every request, which is a trap: for tests of policies that fail.
use peal_sdk::{PolicyOutcome, Request, connection_policy, event_policy, job_control_policy};

#[expect(clippy::panic, reason = "it is what this module is for")]
fn decide(request: &Request) -> PolicyOutcome {
    panic!("asked to fail on {:?}", request.subject());
}

connection_policy!(decide);
event_policy!(decide);
job_control_policy!(decide);

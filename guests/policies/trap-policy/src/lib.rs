//! Panics whatever it is asked, which is a trap. Shows what a policy that fails counts as.
use peal_sdk::{PolicyOutcome, Request, connection_policy, event_policy, job_control_policy};

#[expect(clippy::panic, reason = "it is what this module is for")]
fn decide(request: &Request) -> PolicyOutcome {
    panic!("asked to fail on {:?}", request.matter());
}

connection_policy!(decide);
event_policy!(decide);
job_control_policy!(decide);

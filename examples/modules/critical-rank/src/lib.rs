//! Ends a job when rank 0 has ended abnormally, and lets it continue when another rank has.
use peal_sdk::{Event, Outcome, Value, handler, key, status};

fn decide(event: &Event) -> Outcome {
    let is_abnormal_end = matches!(
        event.code(),
        status::PMIX_ERR_PROC_ABORTED_BY_SIG
            | status::PMIX_ERR_EXIT_NONZERO_TERM
            | status::PMIX_ERR_PROC_TERM_WO_SYNC
    );
    match event.get(key::PMIX_EVENT_AFFECTED_PROC) {
        Some(Value::Proc(dead)) if is_abnormal_end => {
            let wanted = if dead.rank == 0 {
                key::PMIX_EVENT_WANT_TERMINATION
            } else {
                key::PMIX_EVENT_NO_TERMINATION
            };
            Outcome::partial().with(wanted, true)
        }
        _ => Outcome::no_action(),
    }
}

handler!(decide);

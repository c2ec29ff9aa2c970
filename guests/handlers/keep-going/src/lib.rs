//! Lets a job go on after the abnormal end of a proc, whatever `run.on_abort` says.
use peal_sdk::{Event, Outcome, handler, key, status};

fn keep_going(event: &Event) -> Outcome {
    match event.code() {
        status::PMIX_ERR_PROC_ABORTED_BY_SIG
        | status::PMIX_ERR_EXIT_NONZERO_TERM
        | status::PMIX_ERR_PROC_TERM_WO_SYNC => {
            Outcome::partial().with(key::PMIX_EVENT_NO_TERMINATION, true)
        }
        _ => Outcome::no_action(),
    }
}

handler!(keep_going);

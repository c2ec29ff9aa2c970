//! Lets a job continue after the abnormal end of a proc, whatever `run.on_abort` is.
use peal_sdk::{Event, Outcome, handler, key, status};

fn continue_on_abort(event: &Event) -> Outcome {
    match event.code() {
        status::PMIX_ERR_PROC_ABORTED_BY_SIG
        | status::PMIX_ERR_EXIT_NONZERO_TERM
        | status::PMIX_ERR_PROC_TERM_WO_SYNC => {
            Outcome::partial().with(key::PMIX_EVENT_NO_TERMINATION, true)
        }
        _ => Outcome::no_action(),
    }
}

handler!(continue_on_abort);

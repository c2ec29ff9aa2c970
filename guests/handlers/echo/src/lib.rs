//! Returns every info of the event, pushes the names of earlier handlers, and counts its calls.
//! Versions in C, Python and JavaScript are in `guests/c`, `guests/python` and `guests/js`.
use peal_sdk::{Event, Outcome, handler};
use std::sync::atomic::{AtomicU32, Ordering};

static CALLS: AtomicU32 = AtomicU32::new(0);

fn echo(event: &Event) -> Outcome {
    let before: Vec<String> = event
        .previous_results()
        .into_iter()
        .map(|step| step.name)
        .collect();
    let outcome = event
        .infos()
        .into_iter()
        .fold(Outcome::no_action(), Outcome::with_info);
    outcome
        .with("echo.before", before.join(" "))
        .with("echo.calls", CALLS.fetch_add(1, Ordering::Relaxed) + 1)
}

handler!(echo);

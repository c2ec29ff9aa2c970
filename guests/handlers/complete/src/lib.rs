//! Ends the chain, and pushes the number of earlier handlers and the result of the last of them.
use peal_sdk::{Event, Outcome, Value, handler};

fn complete(event: &Event) -> Outcome {
    let steps = event.previous_results();
    let outcome = Outcome::complete().with("peal.complete.seen", event.previous_count());
    match steps.last() {
        Some(last) => outcome
            .with("peal.complete.after", last.name.as_str())
            .with("peal.complete.after.status", Value::Status(last.status)),
        None => outcome,
    }
}

handler!(complete);

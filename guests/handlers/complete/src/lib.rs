//! Ends the chain, saying how many handlers ran before it and what the last of them returned.
use peal_sdk::{Event, Outcome, Value, handler};

fn complete(event: &Event) -> Outcome {
    let steps = event.steps();
    let outcome = Outcome::complete().with("peal.complete.seen", event.step_count());
    match steps.last() {
        Some(last) => outcome
            .with("peal.complete.after", last.name.as_str())
            .with("peal.complete.after.status", Value::Status(last.status)),
        None => outcome,
    }
}

handler!(complete);

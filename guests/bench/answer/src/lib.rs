//! Reads one info and pushes one result: what a usual call costs.
use peal_sdk::{Event, Outcome, Value, handler};

fn answer(event: &Event) -> Outcome {
    match event.get("bench.number") {
        Some(Value::Uint64(number)) => {
            Outcome::partial().with("bench.next", number.wrapping_add(1))
        }
        _ => Outcome::no_action(),
    }
}

handler!(answer);

//! Reads one info and pushes one result: the cost of a typical call.
use peal_sdk::{Event, Outcome, Value, handler};

fn read_push(event: &Event) -> Outcome {
    match event.get("bench.number") {
        Some(Value::Uint64(number)) => {
            Outcome::partial().with("bench.next", number.wrapping_add(1))
        }
        _ => Outcome::no_action(),
    }
}

handler!(read_push);

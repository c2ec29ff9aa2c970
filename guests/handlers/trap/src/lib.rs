//! Panics, which is a trap: the host drops the instance and the chain continues.
use peal_sdk::{Event, Outcome, handler};

#[expect(clippy::panic, reason = "it is what this module is for")]
fn trap(event: &Event) -> Outcome {
    panic!("asked to fail on event {}", event.code());
}

handler!(trap);

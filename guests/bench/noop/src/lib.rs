//! Does nothing: the cost of the call itself.
use peal_sdk::{Event, Outcome, handler};

fn noop(_: &Event) -> Outcome {
    Outcome::no_action()
}

handler!(noop);

//! Answers an event with another one that carries the same number: who raised the first hears when a chain has come to this.
use peal_sdk::{Event, Outcome, Range, handler, notify};

/// What peers of the bench take for an answer.
const ANSWER: i32 = -3102;

fn reply(event: &Event) -> Outcome {
    match notify(ANSWER, Range::Local, event.infos()) {
        Ok(_) => Outcome::partial(),
        Err(_) => Outcome::no_action(),
    }
}

handler!(reply);

//! Raises an event with the same infos as the handled one: the bench measures the time until its
//! peers receive that event.
use peal_sdk::{Event, Outcome, Range, handler, notify};

/// Code of the raised event, which the bench's peers expect.
const ANSWER: i32 = -3102;

fn event_echo(event: &Event) -> Outcome {
    match notify(ANSWER, Range::Local, event.infos()) {
        Ok(_) => Outcome::partial(),
        Err(_) => Outcome::no_action(),
    }
}

handler!(event_echo);

//! Handles a sequence of events: each call removes its registration and registers for the next
//! lower code. The tag counts the calls.
use peal_sdk::{Config, Event, Outcome, Registration, handler, lifecycle, registration};

/// First code, unless the setting `from` names another.
const FROM: i32 = -3001;

fn init(config: &Config) -> Result<Vec<Registration>, String> {
    let from = match config.get("from") {
        None => FROM,
        Some(value) => value
            .as_i64()
            .and_then(|code| i32::try_from(code).ok())
            .ok_or("the setting \"from\" must be the number of a code")?,
    };
    Ok(vec![Registration::new().name("reregister").code(from)])
}

fn stop() {}

fn reregister(event: &Event) -> Outcome {
    let next = Registration::new()
        .name("reregister")
        .tag(event.tag() + 1)
        .code(event.code() - 1);
    match registration::deregister(event.registration()).and_then(|()| registration::register(next))
    {
        Ok(()) => Outcome::partial().with("peal.follow.step", event.tag()),
        Err(status) => Outcome::status(status),
    }
}

handler!(reregister);
lifecycle!(init, stop);

//! Follows a row of events: each time it is called it ends the registration that was called and registers for the next code
//! down. Its tag counts how far it has come.
use peal_sdk::{Config, Event, Outcome, Registration, handler, lifecycle, registration};

/// The code that it begins with, unless the setting `from` says otherwise.
const FROM: i32 = -3001;

fn init(config: &Config) -> Result<Vec<Registration>, String> {
    let from = match config.get("from") {
        None => FROM,
        Some(value) => value
            .as_i64()
            .and_then(|code| i32::try_from(code).ok())
            .ok_or("the setting \"from\" must be the number of a code")?,
    };
    Ok(vec![Registration::new().name("follow").code(from)])
}

fn stop() {}

fn follow(event: &Event) -> Outcome {
    let next = Registration::new()
        .name("follow")
        .tag(event.tag() + 1)
        .code(event.code() - 1);
    match registration::deregister(event.registration()).and_then(|()| registration::register(next))
    {
        Ok(()) => Outcome::partial().with("peal.follow.step", event.tag()),
        Err(status) => Outcome::status(status),
    }
}

handler!(follow);
lifecycle!(init, stop);

//! The log channel `pmix.log.email`: what is logged becomes a mail, which goes to a sink in its parts, so that nothing in a part
//! can be taken for another.
//!
//! The array of `PMIX_LOG_EMAIL` has the mail's attributes (`PMIX_LOG_EMAIL_ADDR`, `_SENDER_ADDR`, `_SUBJECT`, `_MSG`, `_SERVER`,
//! `_SRVR_PORT`); they may stand beside it or among the directives as well. The array counts more than what is beside it, and
//! that more than directives. Whether a sender, recipient or server may be chosen is up to the sink.
//!
//! ```toml
//! [[module]]
//! name = "email"
//! path = "email.wasm"
//! channels = ["email"]
//! sinks = ["mail"]
//! grants = ["sink", "clock"]
//! [module.config]                              # all of this has defaults
//! sink = "mail"
//! recipients = "ops@site.example"              # with commas, for requests that name nobody; else those are refused
//! subject = "Message from a job"               # for requests without one
//! footer = true                                # who logged it and when, as the last lines
//! ```
mod letter;
mod parts;
mod settings;

use letter::letter;
use peal_sdk::{Config, LogRequest, Registration, channel, clock, key, lifecycle, sink, status};
use settings::Settings;
use std::sync::OnceLock;

static SETTINGS: OnceLock<Settings> = OnceLock::new();

fn init(config: &Config) -> Result<Vec<Registration>, String> {
    // An instance is told its settings once.
    let _ = SETTINGS.set(Settings::read(config, &sink::names())?);
    Ok(Vec::new())
}

fn stop() {}

fn log(request: &LogRequest) -> Result<(), i32> {
    if request.channel() != key::PMIX_LOG_EMAIL {
        return Err(status::PMIX_ERR_NOT_SUPPORTED);
    }
    let settings = SETTINGS.get().ok_or(status::PMIX_ERR_INIT)?;
    sink::submit(
        &settings.sink,
        letter(request, settings, || clock::now().as_secs())?,
    )
}

channel!(log);
lifecycle!(init, stop);

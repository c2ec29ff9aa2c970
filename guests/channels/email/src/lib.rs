//! Log channel `pmix.log.email`: sends the data of a request as a mail. The mail goes to a sink in
//! separate parts, so that the content of one part cannot appear in another.
//!
//! The array of `PMIX_LOG_EMAIL` has the attributes of the mail (`PMIX_LOG_EMAIL_ADDR`,
//! `_SENDER_ADDR`, `_SUBJECT`, `_MSG`, `_SERVER`, `_SRVR_PORT`). They may also be among the data or
//! directives. The array takes precedence over the data, and the data over directives. The sink
//! decides whether the requester may choose a sender, recipient or server.
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
//! recipients = "ops@site.example"              # comma-separated, for requests without a recipient; default: refused
//! subject = "Message from a job"               # for requests without one
//! footer = true                                # append a line with requester and time
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
    // An instance receives its settings only once.
    let _ = SETTINGS.set(Settings::read(config, &sink::names())?);
    Ok(Vec::new())
}

fn stop() {}

fn log(request: &LogRequest) -> Result<(), i32> {
    if request.channel() != key::PMIX_LOG_EMAIL {
        return Err(status::PMIX_ERR_NOT_SUPPORTED);
    }
    let settings = SETTINGS.get().ok_or(status::PMIX_ERR_INIT)?;
    sink::send_mail(
        &settings.sink,
        letter(request, settings, || clock::now().as_secs())?,
    )
}

channel!(log);
lifecycle!(init, stop);

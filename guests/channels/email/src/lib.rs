//! Log channel that sends mails. `peal-module.toml` says how, and declares the settings.
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

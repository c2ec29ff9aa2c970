//! Log channels that send syslog messages. `peal-module.toml` says how, and declares the settings.
mod facility;
mod header;
mod message;
mod priority;
mod settings;

use message::messages;
use peal_sdk::{Config, LogRequest, Registration, channel, clock, lifecycle, sink, status};
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
    let settings = SETTINGS.get().ok_or(status::PMIX_ERR_INIT)?;
    let target = settings.target(request.channel())?;
    let messages = messages(request, settings, target, || clock::now().as_secs())?;
    messages
        .iter()
        .try_for_each(|message| sink::write(&target.sink, message))
}

channel!(log);
lifecycle!(init, stop);

//! Log channels `pmix.log.lsys`, `pmix.log.gsys` and `pmix.log.syslog`: send each line of the data
//! as one syslog message. No data can imitate a header, a field or a second message. The last
//! channel is the global syslog if the admin opened one, else the local one.
//!
//! ```toml
//! [[module]]
//! name = "syslog"
//! path = "syslog.wasm"
//! channels = ["local_syslog", "global_syslog", "syslog"]
//! sinks = ["local-syslog", "global-syslog"]   # either may be missing
//! grants = ["sink", "clock"]
//! [module.config]                  # all of this has defaults
//! local = "local-syslog"           # the sinks' names
//! global = "global-syslog"
//! format = "rfc5424"               # or "rfc3164"
//! local_format = "rfc3164"         # for the local one, if it is not the same: what C libraries say to /dev/log
//! facility = "user"                # by name, as in syslog.conf; for those who name none
//! facilities = "user, local0"      # those that a requester may name; user and local0 to local7 unless it says otherwise
//! hostname = "-"                   # as the messages say; "-" leaves it to the receiver
//! max_bytes = 2048                 # of a message with its header; what is longer is cut, and ends in "…"
//! ```
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

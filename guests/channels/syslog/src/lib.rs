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
//! [module.config]                  # all keys have defaults
//! local = "local-syslog"           # the sinks' names
//! global = "global-syslog"
//! format = "rfc5424"               # or "rfc3164"
//! local_format = "rfc3164"         # of the local sink, if different: that of C libraries on /dev/log
//! facility = "user"                # name as in syslog.conf, for requests without one
//! facilities = "user, local0"      # those that a requester may name; default: user, local0 to local7
//! hostname = "-"                   # in the messages; "-" leaves it to the receiver
//! max_bytes = 2048                 # of a message with its header; longer ones are cut and end in "…"
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

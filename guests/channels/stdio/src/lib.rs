//! The log channels `pmix.log.stdout` and `pmix.log.stderr`: writes what is logged to the sinks "stdout" and "stderr", line by
//! line, so that nothing in it can forge a line's tag or control a terminal.
//!
//! What is under the channel's own key is the text. What is under no channel's key is written as well, behind its key; the host
//! hands over nothing else, but attributes that say how to write.
mod line;

use line::{Dress, render};
use peal_sdk::{Info, LogRequest, Value, channel, key, sink, status};

/// Keys that begin with this are channels, or say how to write.
const RESERVED: &str = "pmix.log.";

fn log(request: &LogRequest) -> Result<(), i32> {
    let sink = match request.channel() {
        key::PMIX_LOG_STDOUT => "stdout",
        key::PMIX_LOG_STDERR => "stderr",
        _ => return Err(status::PMIX_ERR_NOT_SUPPORTED),
    };
    let is_asked = |key| request.get(key).and_then(|value| value.as_bool()).unwrap_or(false);
    if is_asked(key::PMIX_LOG_XML_OUTPUT) {
        return Err(status::PMIX_ERR_NOT_SUPPORTED);
    }
    let dress = Dress {
        tag: is_asked(key::PMIX_LOG_TAG_OUTPUT).then_some(sink),
        timestamp: request.timestamp().filter(|_| is_asked(key::PMIX_LOG_TIMESTAMP_OUTPUT)),
    };
    let mut lines = String::new();
    for info in request.data() {
        if let Some(text) = text(info, request.channel())? {
            render(&text, &dress, &mut lines);
        }
    }
    if lines.is_empty() { Err(status::PMIX_ERR_BAD_PARAM) } else { sink::write(sink, lines) }
}

/// The text of an info, if it is for this channel. Nothing is written where one cannot be read.
fn text(info: Info, channel: &str) -> Result<Option<String>, i32> {
    if info.key.starts_with(RESERVED) && info.key != channel {
        return Ok(None);
    }
    match info.value {
        Value::Text(text) if info.key == channel => Ok(Some(text)),
        Value::Text(text) => Ok(Some(format!("{}: {text}", info.key))),
        _ => Err(status::PMIX_ERR_BAD_PARAM),
    }
}

channel!(log);

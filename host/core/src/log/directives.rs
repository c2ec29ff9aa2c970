//! What a log request asks of the host, and not of any channel.
use super::Malformed;
use peal_model::{Info, Key, LogRequest, Text, Value, key};

/// How long each half of a [`Pair`] may be, in bytes: it is remembered.
pub const MAX_PAIR_TEXT: usize = 511;

/// What the host minds before a channel is called. Such an info may stand in data as well, where it counts more; what comes later
/// counts more than what came before.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Directives {
    /// Whether one channel is enough (`PMIX_LOG_ONCE`), if the request says so or otherwise.
    pub once: Option<bool>,
    /// Whether the time is to be written (`PMIX_LOG_GENERATE_TIMESTAMP`, `PMIX_LOG_TIMESTAMP_OUTPUT`).
    pub dated: bool,
    /// The requester's own time (`PMIX_LOG_TIMESTAMP`), in seconds since the epoch.
    pub timestamp: Option<u64>,
    /// By what it is told whether it was logged already.
    pub pair: Option<Pair>,
}

/// `PMIX_LOG_KEY` and `PMIX_LOG_VAL`: requests that have the same are duplicates of each other, whatever else they say.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pair {
    /// What it is about, such as a file of messages.
    pub key: Text,
    /// Which of these it is.
    pub value: Text,
}

impl Directives {
    /// Those of a request, or why it makes no sense.
    ///
    /// Whoever gives a pair wants no duplicates, unless `PMIX_LOG_AGG` is false: so it is in the C library. Without a pair there
    /// is nothing to tell them by.
    pub fn read(request: &LogRequest) -> Result<Directives, Malformed> {
        let mut read = Directives::default();
        let (mut generate, mut output, mut aggregate) = (false, false, true);
        let (mut name, mut value) = (None, None);
        for info in request.directives.iter().chain(&request.data) {
            let is = |key| info.key == key;
            if is(key::PMIX_LOG_ONCE) {
                read.once = Some(flag(info)?);
            } else if is(key::PMIX_LOG_GENERATE_TIMESTAMP) {
                generate = flag(info)?;
            } else if is(key::PMIX_LOG_TIMESTAMP_OUTPUT) {
                output = flag(info)?;
            } else if is(key::PMIX_LOG_TIMESTAMP) {
                read.timestamp = Some(info.value.as_u64().ok_or_else(|| wrong(info))?);
            } else if is(key::PMIX_LOG_AGG) {
                aggregate = flag(info)?;
            } else if is(key::PMIX_LOG_KEY) {
                name = Some(text(info)?);
            } else if is(key::PMIX_LOG_VAL) {
                value = Some(text(info)?);
            }
        }
        read.dated = generate || output;
        read.pair = name
            .zip(value)
            .filter(|_| aggregate)
            .map(|(key, value)| Pair { key, value });
        Ok(read)
    }
}

/// A truth value. An info without a value is true, as the Standard's macros read it.
fn flag(info: &Info) -> Result<bool, Malformed> {
    info.value.as_bool().ok_or_else(|| wrong(info))
}

fn text(info: &Info) -> Result<Text, Malformed> {
    match &info.value {
        Value::String(Some(text)) if text.as_bytes().len() > MAX_PAIR_TEXT => {
            Err(Malformed::Long(info.key.clone()))
        }
        Value::String(Some(text)) => Ok(text.clone()),
        _ => Err(wrong(info)),
    }
}

fn wrong(info: &Info) -> Malformed {
    Malformed::Type(Key::clone(&info.key))
}

//! Directives of log requests that the server handles itself, not a channel.
use super::Malformed;
use peal_model::{Info, Key, LogRequest, Text, Value, key};

/// Maximum length of each half of a [`Pair`], in bytes, because pairs are remembered.
pub const MAX_PAIR_TEXT: usize = 511;

/// The directives that apply before a channel is called. They may also be among the data, which
/// take precedence; later infos take precedence over earlier ones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Directives {
    /// True if one channel is enough, false if not (`PMIX_LOG_ONCE`); none if the request does not
    /// mention it.
    pub once: Option<bool>,
    /// True if the time is to be written (`PMIX_LOG_GENERATE_TIMESTAMP`,
    /// `PMIX_LOG_TIMESTAMP_OUTPUT`).
    pub dated: bool,
    /// The requester's own time (`PMIX_LOG_TIMESTAMP`), in seconds since the epoch.
    pub timestamp: Option<u64>,
    /// The pair by which duplicates are recognized.
    pub pair: Option<Pair>,
}

/// `PMIX_LOG_KEY` and `PMIX_LOG_VAL`. Requests with equal pairs are duplicates, whatever else they
/// contain.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pair {
    /// The subject, such as a file of messages.
    pub key: Text,
    /// The item of the subject.
    pub value: Text,
}

impl Directives {
    /// Parses the directives of a request.
    ///
    /// A pair requests duplicate suppression unless `PMIX_LOG_AGG` is false, as in OpenPMIx.
    /// Without a pair, duplicates cannot be recognized.
    ///
    /// # Errors
    ///
    /// Fails if a value has the wrong type or is too long.
    pub fn read(request: &LogRequest) -> Result<Directives, Malformed> {
        let mut read = Directives::default();
        let mut generate = false;
        let mut output = false;
        let mut aggregate = true;
        let mut name = None;
        let mut value = None;
        // The data come last, so that they take precedence.
        for info in request.directives.iter().chain(&request.data) {
            let is = |key| info.key == key;
            if is(key::PMIX_LOG_ONCE) {
                read.once = Some(flag(info)?);
            } else if is(key::PMIX_LOG_GENERATE_TIMESTAMP) {
                generate = flag(info)?;
            } else if is(key::PMIX_LOG_TIMESTAMP_OUTPUT) {
                output = flag(info)?;
            } else if is(key::PMIX_LOG_TIMESTAMP) {
                read.timestamp = Some(info.value.as_u64().ok_or_else(|| malformed(info))?);
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

/// Parses a boolean. An info without a value is true, as the Standard's macros read it.
fn flag(info: &Info) -> Result<bool, Malformed> {
    info.value.as_bool().ok_or_else(|| malformed(info))
}

fn text(info: &Info) -> Result<Text, Malformed> {
    match &info.value {
        Value::String(Some(text)) if text.as_bytes().len() > MAX_PAIR_TEXT => {
            Err(Malformed::Long(info.key.clone()))
        }
        Value::String(Some(text)) => Ok(text.clone()),
        _ => Err(malformed(info)),
    }
}

fn malformed(info: &Info) -> Malformed {
    Malformed::Type(Key::clone(&info.key))
}

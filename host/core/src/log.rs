//! Where a log request goes: which channels, in which order, and what the requester is told in the end.
//!
//! A request names channels by the keys of its data, or none and means all there are; the site has an order of its own for
//! those who name none. Whatever does not name a channel is payload, for every channel that is tried; what is for one channel
//! no other sees.
use peal_model::{IdentError, Info, InfoFlags, Infos, Key, KeyName, LogRequest, Status, Step, Value, code, key};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};
use thiserror::Error;

/// Whether a request fails if a channel does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// It does not.
    Optional,
    /// It does; so the channel is tried whatever became of others.
    Required,
}

/// The site's wishes for log requests.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogSettings {
    /// The channels that come first where a request names none, and which of all must not fail (`log.order`,
    /// `plog_base_order`).
    pub order: Vec<(Key, Need)>,
    /// Whether one channel is enough, unless the request says otherwise (`log.once`, `plog_base_log_once`).
    pub once: bool,
}

/// The Standard's channels, by the names that orders have for them, and what a request may give them.
pub const CHANNELS: [(&str, KeyName, &[Takes]); 8] = [
    ("stdout", key::PMIX_LOG_STDOUT, &[Takes::Text]),
    ("stderr", key::PMIX_LOG_STDERR, &[Takes::Text]),
    ("syslog", key::PMIX_LOG_SYSLOG, &[Takes::Text]),
    ("local_syslog", key::PMIX_LOG_LOCAL_SYSLOG, &[Takes::Text]),
    ("global_syslog", key::PMIX_LOG_GLOBAL_SYSLOG, &[Takes::Text]),
    ("email", key::PMIX_LOG_EMAIL, &[Takes::Array]),
    // Headers and text of the Standard differ on these.
    ("job_record", key::PMIX_LOG_JOB_RECORD, &[Takes::Text, Takes::Flag]),
    ("global_datastore", key::PMIX_LOG_GLOBAL_DATASTORE, &[Takes::Text, Takes::Flag]),
];

/// What a request may give to a channel of the Standard's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Takes {
    /// A text.
    Text,
    /// An array of infos.
    Array,
    /// Whether it is meant at all.
    Flag,
}

/// What begins like the key of a channel and is about how to write.
const ATTRIBUTES: [KeyName; 17] = [
    key::PMIX_LOG_AGG,
    key::PMIX_LOG_EMAIL_ADDR,
    key::PMIX_LOG_EMAIL_MSG,
    key::PMIX_LOG_EMAIL_SENDER_ADDR,
    key::PMIX_LOG_EMAIL_SERVER,
    key::PMIX_LOG_EMAIL_SRVR_PORT,
    key::PMIX_LOG_EMAIL_SUBJECT,
    key::PMIX_LOG_GENERATE_TIMESTAMP,
    key::PMIX_LOG_KEY,
    key::PMIX_LOG_MSG,
    key::PMIX_LOG_ONCE,
    key::PMIX_LOG_SYSLOG_PRI,
    key::PMIX_LOG_TAG_OUTPUT,
    key::PMIX_LOG_TIMESTAMP,
    key::PMIX_LOG_TIMESTAMP_OUTPUT,
    key::PMIX_LOG_VAL,
    key::PMIX_LOG_XML_OUTPUT,
];

const PREFIX: &str = "pmix.log.";

/// How many channels one request may name: each is tried by itself, which takes time that other requests wait for.
pub const MAX_CHANNELS: usize = 64;

/// The key of a channel by the name that a site's order has for it: that of the Standard without `PMIX_LOG_`, the key
/// itself, or what follows `pmix.log.` in the key of a channel that only the host environment knows.
pub fn channel(name: &str) -> Result<Key, IdentError> {
    let name = name.trim().to_lowercase();
    match CHANNELS.iter().find(|(known, ..)| *known == name) {
        Some((_, key, _)) => Ok(Key::from(*key)),
        None if name.contains('.') => Key::new(&name),
        None => Key::new(&format!("{PREFIX}{name}")),
    }
}

/// A request that makes no sense: nothing of it is logged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Malformed {
    /// There is nothing to log.
    #[error("there is nothing to log")]
    Empty,
    /// A value of the wrong type.
    #[error("{0} takes another type of value")]
    Type(Key),
    /// It names too many channels.
    #[error("it names more than {MAX_CHANNELS} channels")]
    TooMany,
}

impl Malformed {
    /// The status that tells the requester of it.
    pub fn status(&self) -> Status {
        code::PMIX_ERR_BAD_PARAM
    }
}

/// Who writes to a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writer {
    /// A module of the site.
    Module,
    /// The host environment, which may know what is not known here.
    Host,
}

#[derive(Clone, Debug)]
struct Planned {
    channel: Key,
    need: Need,
    writer: Writer,
}

/// A request on its way, between two channels.
#[derive(Clone, Debug)]
pub struct LogRun {
    request: Arc<LogRequest>,
    /// The channels that modules serve.
    offered: Arc<[Key]>,
    waiting: VecDeque<Planned>,
    once: bool,
    tried: Vec<(Need, Status)>,
    steps: Arc<Vec<Step>>,
}

/// What comes next.
#[derive(Clone, Debug)]
pub enum NextChannel {
    /// This channel is to be tried.
    Try(PendingChannel),
    /// All that had to be tried was tried.
    Done(Logged),
}

/// A channel that is to be tried, or is being tried.
#[derive(Clone, Debug)]
pub struct PendingChannel {
    run: LogRun,
    channel: Key,
    need: Need,
    writer: Writer,
}

/// The end of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Logged {
    /// What the requester is told.
    pub status: Status,
    /// One entry for every channel that was tried, by its key.
    pub steps: Vec<Step>,
}

/// Finds the way of a request. `offered` are the channels that modules serve, in their order.
pub fn route(request: Arc<LogRequest>, offered: &Arc<[Key]>, settings: &LogSettings) -> Result<LogRun, Malformed> {
    if request.data.is_empty() {
        return Err(Malformed::Empty);
    }
    let mut chosen = named(&request.data, offered)?;
    if chosen.is_empty() {
        let order = settings.order.iter().map(|(channel, _)| channel);
        let rest = offered.iter().filter(|channel| settings.order.iter().all(|(known, _)| known != *channel));
        chosen = order.chain(rest).map(|channel| (channel.clone(), Need::Optional)).collect();
    }
    let plan = |(channel, need): (Key, Need)| Planned {
        need: if settings.order.contains(&(channel.clone(), Need::Required)) { Need::Required } else { need },
        writer: if offered.contains(&channel) { Writer::Module } else { Writer::Host },
        channel,
    };
    let once = match request.directives.value_of(key::PMIX_LOG_ONCE) {
        Some(Value::Bool(once)) => *once,
        _ => settings.once,
    };
    let waiting = chosen.into_iter().map(plan).collect();
    Ok(LogRun { request, offered: offered.clone(), waiting, once, tried: Vec::new(), steps: Arc::default() })
}

/// The channels that data name, each once, in their order. One is required if any of its infos is flagged so.
fn named(data: &[Info], offered: &[Key]) -> Result<Vec<(Key, Need)>, Malformed> {
    let mut named: Vec<(Key, Need)> = Vec::new();
    let mut places: BTreeMap<&Key, usize> = BTreeMap::new();
    for info in data.iter().filter(|info| is_channel(&info.key, offered)) {
        if let Some((_, _, takes)) = CHANNELS.iter().find(|(_, key, _)| info.key == *key) {
            let fits = match &info.value {
                Value::String(Some(_)) => takes.contains(&Takes::Text),
                Value::DataArray(_) => takes.contains(&Takes::Array),
                Value::Bool(_) => takes.contains(&Takes::Flag),
                _ => false,
            };
            if !fits {
                return Err(Malformed::Type(info.key.clone()));
            }
            if info.value.as_bool() == Some(false) {
                continue;
            }
        }
        let need = if info.flags.contains(InfoFlags::REQUIRED) { Need::Required } else { Need::Optional };
        match places.get(&info.key).and_then(|place| named.get_mut(*place)) {
            Some((_, Need::Required)) => {}
            Some((_, known)) => *known = need,
            None if places.len() == MAX_CHANNELS => return Err(Malformed::TooMany),
            None => {
                places.insert(&info.key, named.len());
                named.push((info.key.clone(), need));
            }
        }
    }
    Ok(named)
}

/// Whether a key of data names a channel: one that is known, or one that only the host can know.
fn is_channel(key: &Key, offered: &[Key]) -> bool {
    offered.contains(key) || (key.as_str().starts_with(PREFIX) && !ATTRIBUTES.iter().any(|known| key == known))
}

impl LogRun {
    /// Goes on to the next channel, or to the end.
    pub fn advance(mut self) -> NextChannel {
        while let Some(Planned { channel, need, writer }) = self.waiting.pop_front() {
            let enough = self.once && self.tried.iter().any(|(_, status)| status.is_success());
            if need == Need::Required || !enough {
                return NextChannel::Try(PendingChannel { run: self, channel, need, writer });
            }
        }
        let status = self.status();
        NextChannel::Done(Logged { status, steps: Arc::unwrap_or_clone(self.steps) })
    }

    fn record(&mut self, channel: Key, need: Need, status: Status, infos: Vec<Info>) {
        self.tried.push((need, status));
        Arc::make_mut(&mut self.steps).push(Step { name: channel.as_str().into(), status, infos });
    }

    fn status(&self) -> Status {
        let good = self.tried.iter().filter(|(_, status)| status.is_success()).count();
        let missing = |status: Status| matches!(status, code::PMIX_ERR_NOT_AVAILABLE | code::PMIX_ERR_NOT_SUPPORTED);
        if self.tried.iter().all(|(_, status)| missing(*status)) {
            code::PMIX_ERR_NOT_AVAILABLE
        } else if self.tried.iter().any(|(need, status)| *need == Need::Required && !status.is_success()) || good == 0 {
            code::PMIX_ERROR
        } else if self.once || good == self.tried.len() {
            code::PMIX_SUCCESS
        } else {
            code::PMIX_ERR_PARTIAL_SUCCESS
        }
    }
}

impl PendingChannel {
    /// Which channel.
    pub fn channel(&self) -> &Key {
        &self.channel
    }

    /// Who writes to it.
    pub fn writer(&self) -> Writer {
        self.writer
    }

    /// The request as this channel sees it: its data without what is for other channels, which others write.
    pub fn request(&self) -> Arc<LogRequest> {
        let LogRun { request, offered, .. } = &self.run;
        let is_for_it = |info: &&Info| info.key == self.channel || !is_channel(&info.key, offered);
        let data: Vec<Info> = request.data.iter().filter(is_for_it).cloned().collect();
        if data.len() == request.data.len() {
            return request.clone();
        }
        let LogRequest { source, identity, timestamp, directives, .. } = &**request;
        let (source, identity, timestamp) = (source.clone(), *identity, *timestamp);
        Arc::new(LogRequest { source, identity, timestamp, data, directives: directives.clone() })
    }

    /// What became of the channels tried before.
    pub fn steps(&self) -> &Arc<Vec<Step>> {
        &self.run.steps
    }

    /// Records what became of it.
    pub fn finish(self, status: Status, infos: Vec<Info>) -> LogRun {
        let PendingChannel { mut run, channel, need, .. } = self;
        run.record(channel, need, status, infos);
        run
    }
}

//! Routing of log requests: the channels, their order, and the status of the reply.
//!
//! A request names channels by the keys of its data, or none and means all; for the latter the site
//! has an order. Infos that name no channel are payload for every channel that is tried. The infos
//! of one channel are not visible to others. [`directives`] holds the directives for the server
//! itself, [`duplicates`] the suppression of duplicates, and `routing` the destinations of channels
//! that no module serves.
pub mod directives;
pub mod duplicates;
pub mod queue;
mod routing;

pub use routing::{AvailableChannels, GatewayAvailability, LogArrival, LogDestination, LogOrigin};

use directives::{Directives, MAX_PAIR_TEXT, Pair};
use duplicates::{Aggregation, DuplicateKey};
use peal_model::{
    ChainResult, IdentError, Info, InfoFlags, Key, KeyName, LogRequest, Status, Value, code, key,
};
use routing::Attempt;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};
use thiserror::Error;

/// The requirement on a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChannelRequirement {
    /// The request may succeed although the channel fails.
    Optional,
    /// The request fails if the channel fails. So the channel is tried whatever the result of
    /// others.
    Required,
}

/// The site's settings for log requests.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogSettings {
    /// The channels that come first where a request names none, and the required ones (`log.order`,
    /// `plog_base_order`).
    pub order: Vec<(Key, ChannelRequirement)>,
    /// True if one channel is enough, unless the request says otherwise (`log.once`,
    /// `plog_base_log_once`).
    pub once: bool,
    /// Settings of duplicate suppression.
    pub aggregation: Aggregation,
}

/// The Standard's channels: the name in orders, the key, and the accepted values.
pub const CHANNELS: [(&str, KeyName, &[Takes]); 8] = [
    ("stdout", key::PMIX_LOG_STDOUT, &[Takes::Text]),
    ("stderr", key::PMIX_LOG_STDERR, &[Takes::Text]),
    ("syslog", key::PMIX_LOG_SYSLOG, &[Takes::Text]),
    ("local_syslog", key::PMIX_LOG_LOCAL_SYSLOG, &[Takes::Text]),
    ("global_syslog", key::PMIX_LOG_GLOBAL_SYSLOG, &[Takes::Text]),
    ("email", key::PMIX_LOG_EMAIL, &[Takes::Array]),
    // The Standard's headers and its text differ on these.
    (
        "job_record",
        key::PMIX_LOG_JOB_RECORD,
        &[Takes::Text, Takes::Flag],
    ),
    (
        "global_datastore",
        key::PMIX_LOG_GLOBAL_DATASTORE,
        &[Takes::Text, Takes::Flag],
    ),
];

/// A kind of value that a channel of the Standard accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Takes {
    /// A text.
    Text,
    /// An array of infos.
    Array,
    /// A boolean that selects the channel.
    Flag,
}

/// Keys with the prefix of channels that are attributes of the output.
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

/// Maximum number of channels in one request. Each is tried by itself, and other requests wait
/// meanwhile.
pub const MAX_CHANNELS: usize = 64;

/// Returns the key of a channel by its name in a site's order: the Standard's name without
/// `PMIX_LOG_`, the key itself, or the part after `pmix.log.` of a channel that only the host
/// environment knows.
pub fn channel(name: &str) -> Result<Key, IdentError> {
    // RFC "Logging extension": an order is read without regard to case.
    let name = name.trim().to_lowercase();
    match CHANNELS.iter().find(|(known, ..)| *known == name) {
        Some((_, key, _)) => Ok(Key::from(*key)),
        None if name.contains('.') => Key::new(&name),
        None => Key::new(&format!("{PREFIX}{name}")),
    }
}

/// An invalid request, of which nothing is logged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The request has no data.
    #[error("there is nothing to log")]
    Empty,
    /// A value has the wrong type.
    #[error("{0} takes another type of value")]
    Type(Key),
    /// A text that must be remembered is too long.
    #[error("{0} is longer than {MAX_PAIR_TEXT} bytes")]
    Long(Key),
    /// The request names too many channels.
    #[error("the request names more than {MAX_CHANNELS} channels")]
    TooMany,
}

impl Malformed {
    /// Returns the status for the requester.
    pub fn status(&self) -> Status {
        code::PMIX_ERR_BAD_PARAM
    }
}

#[derive(Clone, Debug)]
struct Planned {
    channel: Key,
    need: ChannelRequirement,
    attempts: VecDeque<Attempt>,
}

/// A log request in progress, between two channels.
#[derive(Clone, Debug)]
pub struct LogRun {
    request: Arc<LogRequest>,
    /// The channels that modules serve.
    of_modules: Arc<[Key]>,
    data: DataSelection,
    waiting: VecDeque<Planned>,
    once: bool,
    pair: Option<Pair>,
    origin: LogOrigin,
    tried: Vec<(ChannelRequirement, ChannelStatus)>,
    steps: Arc<Vec<ChainResult>>,
}

/// The data that a channel sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DataSelection {
    /// The channel's own data, and payload.
    OfChannel,
    /// All data, because another server has selected them.
    All,
}

/// The result of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ChannelStatus {
    Written,
    Failed,
    /// No destination knows the channel.
    Missing,
}

impl ChannelStatus {
    fn of(writer: LogDestination, status: Status) -> ChannelStatus {
        match status {
            status if status.is_success() => ChannelStatus::Written,
            code::PMIX_ERR_NOT_AVAILABLE => ChannelStatus::Missing,
            // A module that does not support the request still serves the channel.
            code::PMIX_ERR_NOT_SUPPORTED if writer != LogDestination::Module => {
                ChannelStatus::Missing
            }
            _ => ChannelStatus::Failed,
        }
    }
}

/// The next step of a run.
#[derive(Clone, Debug)]
pub enum NextChannel {
    /// Tries this channel.
    Try(PendingChannel),
    /// Ends the run.
    Done(Logged),
}

/// A channel that is to be tried, or is being tried.
#[derive(Clone, Debug)]
pub struct PendingChannel {
    run: LogRun,
    channel: Key,
    need: ChannelRequirement,
    attempt: Attempt,
    /// The attempts that remain if this destination does not know the channel.
    then: VecDeque<Attempt>,
}

/// The end of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Logged {
    /// The status of the reply.
    pub status: Status,
    /// One entry for every channel that was tried, under its key.
    pub steps: Vec<ChainResult>,
}

/// Plans the channels of a request. A request that names no channel goes to all that are available:
/// those of the site's order first.
///
/// # Errors
///
/// Fails if the request is invalid.
pub fn route(
    mut request: Arc<LogRequest>,
    available: &AvailableChannels,
    settings: &LogSettings,
    arrival: &LogArrival,
) -> Result<LogRun, Malformed> {
    if request.data.is_empty() {
        return Err(Malformed::Empty);
    }
    let Directives {
        once,
        dated,
        timestamp,
        pair,
    } = Directives::read(&request)?;
    let timestamp = request
        .timestamp
        .or(timestamp)
        .or(dated.then_some(arrival.at));
    if timestamp != request.timestamp {
        Arc::make_mut(&mut request).timestamp = timestamp;
    }
    let of_modules = available.of_modules.clone();
    let plan = |(channel, need): (Key, ChannelRequirement)| {
        let attempts = arrival.attempts(&channel, &of_modules);
        Planned {
            channel,
            need,
            attempts,
        }
    };
    let (data, waiting) =
        match &arrival.chosen {
            // The requesting server knows which channels its site requires.
            Some(channel) => (
                DataSelection::All,
                [plan((channel.clone(), ChannelRequirement::Optional))].into(),
            ),
            None => {
                let mut chosen = required_channels(&request.data, &of_modules)?;
                if chosen.is_empty() {
                    let order = settings.order.iter().map(|(channel, _)| channel);
                    let is_ordered =
                        |channel: &Key| settings.order.iter().any(|(known, _)| known == channel);
                    // Channels of the host environment are text streams. Binary data, such as help
                    // messages of Open MPI, go to modules only.
                    let is_readable = request.data.iter().any(|info| {
                        !matches!(
                            info.value,
                            Value::ByteObject(_) | Value::CompressedByteObject(_)
                        )
                    });
                    let takes = |channel: &&Key| is_readable || of_modules.contains(channel);
                    let rest = arrival
                        .all(available)
                        .filter(|channel| !is_ordered(channel))
                        .filter(takes);
                    chosen = order
                        .chain(rest)
                        .map(|channel| (channel.clone(), ChannelRequirement::Optional))
                        .collect();
                }
                // The site's mark also holds where the request names the channel as optional.
                for (channel, need) in &mut chosen {
                    if settings.order.iter().any(|(known, mark)| {
                        known == channel && *mark == ChannelRequirement::Required
                    }) {
                        *need = ChannelRequirement::Required;
                    }
                }
                (
                    DataSelection::OfChannel,
                    chosen.into_iter().map(plan).collect(),
                )
            }
        };
    let once = once.unwrap_or(settings.once);
    let origin = arrival.origin;
    Ok(LogRun {
        request,
        of_modules,
        data,
        waiting,
        once,
        pair,
        origin,
        tried: Vec::new(),
        steps: Arc::default(),
    })
}

/// Returns the channels that data name, each once, in order. A channel is required if any of its
/// infos is flagged so.
fn required_channels(
    data: &[Info],
    of_modules: &[Key],
) -> Result<Vec<(Key, ChannelRequirement)>, Malformed> {
    let mut named: Vec<(Key, ChannelRequirement)> = Vec::new();
    // Positions in `named`. A request may have very many infos, and a search for each would take
    // quadratic time.
    let mut places: BTreeMap<&Key, usize> = BTreeMap::new();
    for info in data.iter().filter(|info| is_channel(&info.key, of_modules)) {
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
            if info.value == Value::Bool(false) {
                continue;
            }
        }
        let need = if info.flags.contains(InfoFlags::REQUIRED) {
            ChannelRequirement::Required
        } else {
            ChannelRequirement::Optional
        };
        match places
            .get(&info.key)
            .and_then(|place| named.get_mut(*place))
        {
            Some((_, ChannelRequirement::Required)) => {}
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

/// Returns true if a key names a channel: a known one, or one that only the host environment may
/// know.
fn is_channel(key: &Key, of_modules: &[Key]) -> bool {
    of_modules.contains(key)
        || (key.as_str().starts_with(PREFIX) && !ATTRIBUTES.iter().any(|known| key == known))
}

impl LogRun {
    /// Returns the key for duplicate suppression, before any channel is tried.
    pub fn likeness(&self) -> Option<DuplicateKey> {
        let pair = self.pair.clone()?;
        let LogRequest {
            source, identity, ..
        } = &*self.request;
        let job = source.as_ref().map(|source| source.nspace.clone());
        let channels = self
            .waiting
            .iter()
            .map(|planned| planned.channel.clone())
            .collect();
        // The same text for other channels, or from another job or user, is no duplicate.
        Some(DuplicateKey {
            job,
            identity: *identity,
            pair,
            channels,
            origin: self.origin,
        })
    }

    /// Returns the channels that may be tried, under all names that destinations know them by.
    pub fn channels(&self) -> BTreeSet<Key> {
        let names = |planned: &Planned| {
            let attempted = planned
                .attempts
                .iter()
                .map(|attempt| attempt.channel.clone());
            attempted
                .chain([planned.channel.clone()])
                .collect::<Vec<_>>()
        };
        self.waiting.iter().flat_map(names).collect()
    }

    /// Advances to the next channel or to the end.
    pub fn advance(mut self) -> NextChannel {
        while let Some(Planned {
            channel,
            need,
            attempts: mut then,
        }) = self.waiting.pop_front()
        {
            let enough = self.once
                && self
                    .tried
                    .iter()
                    .any(|(_, outcome)| *outcome == ChannelStatus::Written);
            // `PMIX_LOG_ONCE` stops optional channels. A required one is tried whatever others did.
            if need != ChannelRequirement::Required && enough {
                continue;
            }
            match then.pop_front() {
                Some(attempt) => {
                    return NextChannel::Try(PendingChannel {
                        run: self,
                        channel,
                        need,
                        attempt,
                        then,
                    });
                }
                // No destination is left for a request of this origin.
                None => self.record(
                    channel,
                    (need, ChannelStatus::Missing),
                    code::PMIX_ERR_NOT_AVAILABLE,
                    Vec::new(),
                ),
            }
        }
        let status = self.status();
        NextChannel::Done(Logged {
            status,
            steps: Arc::unwrap_or_clone(self.steps),
        })
    }

    fn record(
        &mut self,
        channel: Key,
        tried: (ChannelRequirement, ChannelStatus),
        status: Status,
        infos: Vec<Info>,
    ) {
        self.tried.push(tried);
        Arc::make_mut(&mut self.steps).push(ChainResult {
            name: channel.as_str().into(),
            status,
            infos,
        });
    }

    fn status(&self) -> Status {
        let good = self
            .tried
            .iter()
            .filter(|(_, outcome)| *outcome == ChannelStatus::Written)
            .count();
        let is_short = |(need, outcome): &(ChannelRequirement, ChannelStatus)| {
            *need == ChannelRequirement::Required && *outcome != ChannelStatus::Written
        };
        // RFC "Logging extension": failure on a required channel is failure of the request.
        if self.tried.iter().any(is_short) {
            code::PMIX_ERR_OPERATION_FAILED
        } else if self
            .tried
            .iter()
            // Holds without any attempt, too: then no channel was available.
            .all(|(_, outcome)| *outcome == ChannelStatus::Missing)
        {
            code::PMIX_ERR_NOT_AVAILABLE
        } else if good == 0 {
            code::PMIX_ERR_OPERATION_FAILED
        // With `PMIX_LOG_ONCE`, channels that failed before the one that succeeded do not count.
        } else if self.once || good == self.tried.len() {
            code::PMIX_SUCCESS
        } else {
            code::PMIX_ERR_PARTIAL_SUCCESS
        }
    }
}

impl PendingChannel {
    /// Returns the channel, under the name that its destination knows it by.
    pub fn channel(&self) -> &Key {
        &self.attempt.channel
    }

    /// Returns the destination.
    pub fn writer(&self) -> LogDestination {
        self.attempt.writer
    }

    /// Returns the request as this channel sees it: without the data of other channels.
    pub fn request(&self) -> Arc<LogRequest> {
        let LogRun {
            request,
            of_modules,
            data,
            ..
        } = &self.run;
        let is_for_it = |info: &&Info| {
            *data == DataSelection::All
                || info.key == self.channel
                || !is_channel(&info.key, of_modules)
        };
        // In the usual case the request is shared and not copied.
        if self.attempt.channel == self.channel && request.data.iter().all(|info| is_for_it(&info))
        {
            return request.clone();
        }
        // The destination knows the channel by the name in the attempt.
        let seen = |info: &Info| {
            let key = if info.key == self.channel {
                &self.attempt.channel
            } else {
                &info.key
            };
            Info {
                key: key.clone(),
                ..info.clone()
            }
        };
        let data: Vec<Info> = request.data.iter().filter(is_for_it).map(seen).collect();
        let LogRequest {
            source,
            identity,
            timestamp,
            directives,
            ..
        } = &**request;
        let source = source.clone();
        let identity = *identity;
        let timestamp = *timestamp;
        Arc::new(LogRequest {
            source,
            identity,
            timestamp,
            data,
            directives: directives.clone(),
        })
    }

    /// Returns the origin of the request.
    pub fn origin(&self) -> LogOrigin {
        self.run.origin
    }

    /// Returns the results of earlier channels.
    pub fn steps(&self) -> &Arc<Vec<ChainResult>> {
        &self.run.steps
    }

    /// Records the result, unless another destination may know the channel.
    pub fn finish(self, status: Status, infos: Vec<Info>) -> LogRun {
        let PendingChannel {
            mut run,
            channel,
            need,
            attempt,
            then,
        } = self;
        let outcome = ChannelStatus::of(attempt.writer, status);
        if outcome == ChannelStatus::Missing && !then.is_empty() {
            // The next destination of this channel is tried before the next channel, so that the
            // order of channels holds.
            run.waiting.push_front(Planned {
                channel,
                need,
                attempts: then,
            });
        } else {
            run.record(channel, (need, outcome), status, infos);
        }
        run
    }
}

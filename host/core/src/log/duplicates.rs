//! Suppression of duplicate log requests (`PMIX_LOG_AGG`): requests like a recently logged one are
//! only counted.
//!
//! Two requests are duplicates if they are of the same job, have the same [`Pair`] and are for the
//! same channels. So a job cannot suppress requests of another one, and no requested channel is
//! left out.
use super::{CHANNELS, LogOrigin, Takes, directives::Pair};
use crate::MonotonicTime;
use peal_model::{
    Info, Infos, Key, KeyName, LogRequest, Nspace, Proc, Status, UserIdentity, Value, code, key,
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

/// Settings of duplicate suppression (`log.aggregate_...`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aggregation {
    /// Time in which duplicates of a logged request are only counted. At its end their number is
    /// logged, if there were any, and the next window begins. Zero logs all requests.
    pub window: Duration,
    /// Number of different requests that are remembered. A further one replaces the one whose
    /// window ends first.
    pub entries: usize,
}

impl Default for Aggregation {
    fn default() -> Self {
        Aggregation {
            window: Duration::from_secs(5),
            entries: 1024,
        }
    }
}

/// The key by which duplicates are recognized.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DuplicateKey {
    pub(super) job: Option<Nspace>,
    pub(super) identity: Option<UserIdentity>,
    pub(super) pair: Pair,
    pub(super) channels: Vec<Key>,
    /// A summary must not go where its requests could not.
    pub(super) origin: LogOrigin,
}

/// A log request with the number of duplicates of a request.
#[derive(Clone, PartialEq, Debug)]
pub struct DuplicateSummary {
    /// The request.
    pub request: LogRequest,
    /// The origin of the duplicates.
    pub origin: LogOrigin,
}

/// A logged request, and the number of its duplicates.
#[derive(Debug)]
struct LoggedRequest {
    source: Option<Proc>,
    /// Directives about the form of the output.
    prefix: Vec<Info>,
    /// The status of the reply.
    status: Status,
    /// The number of duplicates that were not logged.
    duplicates: u64,
}

/// Recently logged requests.
#[derive(Debug)]
pub struct DuplicateFilter {
    settings: Aggregation,
    entries: BTreeMap<Arc<DuplicateKey>, LoggedRequest>,
    /// The ends of their windows, in order, because all windows have the same length.
    closing: VecDeque<(MonotonicTime, Arc<DuplicateKey>)>,
}

/// Directives that apply to the summary, too. All of their values are small.
const DRESS: [KeyName; 5] = [
    key::PMIX_LOG_TAG_OUTPUT,
    key::PMIX_LOG_XML_OUTPUT,
    key::PMIX_LOG_GENERATE_TIMESTAMP,
    key::PMIX_LOG_TIMESTAMP_OUTPUT,
    key::PMIX_LOG_SYSLOG_PRI,
];

impl DuplicateFilter {
    /// Creates an empty filter.
    pub fn new(settings: Aggregation) -> DuplicateFilter {
        DuplicateFilter {
            settings,
            entries: BTreeMap::new(),
            closing: VecDeque::new(),
        }
    }

    /// Counts a request that duplicates a logged one. Returns the status of that one.
    pub fn repeats(&mut self, likeness: &DuplicateKey) -> Option<Status> {
        let entry = self.entries.get_mut(likeness)?;
        entry.duplicates = entry.duplicates.saturating_add(1);
        Some(entry.status)
    }

    /// Remembers a logged request, and returns the summary of one that is forgotten instead. A
    /// request that no channel wrote is not remembered, so that the next one like it is tried.
    pub fn logged(
        &mut self,
        likeness: DuplicateKey,
        request: &LogRequest,
        status: Status,
        now: MonotonicTime,
    ) -> Option<DuplicateSummary> {
        let Aggregation { window, entries } = self.settings;
        let written = matches!(status, code::PMIX_SUCCESS | code::PMIX_ERR_PARTIAL_SUCCESS);
        if !written || window.is_zero() || entries == 0 || self.entries.contains_key(&likeness) {
            return None;
        }
        let reported = if self.entries.len() >= entries {
            self.forget_first()
        } else {
            None
        };
        let prefix = DRESS.into_iter().filter_map(|key| {
            let value = request
                .data
                .value_of(key)
                .or_else(|| request.directives.value_of(key))?;
            // The value is kept until the end of the window, so a large one is left out.
            let is_small =
                matches!(value, Value::Undef | Value::Bool(_)) || value.as_u64().is_some();
            is_small.then(|| Info::new(key, value.clone()))
        });
        let entry = LoggedRequest {
            source: request.source.clone(),
            prefix: prefix.collect(),
            status,
            duplicates: 0,
        };
        let likeness = Arc::new(likeness);
        self.closing.push_back((now + window, likeness.clone()));
        self.entries.insert(likeness, entry);
        reported
    }

    /// Returns the time at which [`DuplicateFilter::close`] has something to do next.
    pub fn deadline(&self) -> Option<MonotonicTime> {
        self.closing.front().map(|(at, _)| *at)
    }

    /// Returns the next summary of a request whose window has ended.
    pub fn close(&mut self, now: MonotonicTime) -> Option<DuplicateSummary> {
        while let Some((_, likeness)) = self.closing.pop_front_if(|(at, _)| *at <= now) {
            match self.entries.get_mut(&likeness) {
                Some(entry) if entry.duplicates > 0 => {
                    let reported = entry.take_summary(&likeness);
                    self.closing
                        .push_back((now + self.settings.window, likeness));
                    // There is no summary if the request was for mail only.
                    if reported.is_some() {
                        return reported;
                    }
                }
                _ => drop(self.entries.remove(&likeness)),
            }
        }
        None
    }

    /// Ends all windows and returns their summaries.
    pub fn close_all(&mut self) -> Vec<DuplicateSummary> {
        std::iter::from_fn(|| (!self.closing.is_empty()).then(|| self.forget_first()))
            .flatten()
            .collect()
    }

    /// Forgets the request whose window ends first.
    fn forget_first(&mut self) -> Option<DuplicateSummary> {
        let (_, likeness) = self.closing.pop_front()?;
        self.entries.remove(&likeness)?.take_summary(&likeness)
    }
}

impl LoggedRequest {
    /// Returns the summary for the channels that take a text. Mail is left out.
    fn take_summary(&mut self, likeness: &DuplicateKey) -> Option<DuplicateSummary> {
        // The next summary counts from here on.
        let more = std::mem::take(&mut self.duplicates);
        let DuplicateKey {
            identity,
            pair,
            channels,
            origin,
            ..
        } = likeness;
        let words = Value::string(&format!(
            "{more} more of the same: {} / {}",
            pair.key, pair.value
        ));
        // Channels that are unknown here are expected to take text.
        let takes_text = |channel: &&Key| {
            !CHANNELS
                .iter()
                .any(|(_, key, takes)| *channel == key && !takes.contains(&Takes::Text))
        };
        let data: Vec<Info> = channels
            .iter()
            .filter(takes_text)
            .map(|channel| Info::new(channel.clone(), words.clone()))
            .collect();
        let source = self.source.clone();
        let directives = self.prefix.clone();
        let is_reported = more > 0 && !data.is_empty();
        let request = LogRequest {
            source,
            identity: *identity,
            timestamp: None,
            data,
            directives,
        };
        is_reported.then_some(DuplicateSummary {
            request,
            origin: *origin,
        })
    }
}

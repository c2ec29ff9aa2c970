//! The book of what was logged lately: requests that are like one in it are counted in its place.
//!
//! A request is like another if both are of the same job, have the same [`Pair`] and are for the same channels, so that nobody
//! keeps another job's requests from being logged, and no channel is left out that was asked for.
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

/// How duplicates are told from others, and how many (`log.aggregate_...`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aggregation {
    /// For how long requests like one that was logged are only counted. Then their number is logged, if there were any, and they
    /// are counted for as long again. Without time all are logged.
    pub window: Duration,
    /// How many different requests are remembered. One more, and the one that would be over first is over.
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

/// What requests are alike by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DuplicateKey {
    pub(super) job: Option<Nspace>,
    pub(super) identity: Option<UserIdentity>,
    pub(super) pair: Pair,
    pub(super) channels: Vec<Key>,
    /// What is logged of them must not go where they could not.
    pub(super) origin: LogOrigin,
}

/// How many requests there were like one that was logged, to be logged as well.
#[derive(Clone, PartialEq, Debug)]
pub struct DuplicateSummary {
    /// As a request.
    pub request: LogRequest,
    /// Where those came from.
    pub origin: LogOrigin,
}

/// A request that was logged, and those like it.
#[derive(Debug)]
struct LoggedRequest {
    source: Option<Proc>,
    /// How it was to be written.
    dress: Vec<Info>,
    /// What its requester was told.
    status: Status,
    /// How many like it were not logged.
    more: u64,
}

/// What was logged lately.
#[derive(Debug)]
pub struct DuplicateFilter {
    settings: Aggregation,
    entries: BTreeMap<Arc<DuplicateKey>, LoggedRequest>,
    /// When each of them is over, the next one first: all have the same time.
    closing: VecDeque<(MonotonicTime, Arc<DuplicateKey>)>,
}

/// The directives that hold for the number of duplicates, too. None of them is large.
const DRESS: [KeyName; 5] = [
    key::PMIX_LOG_TAG_OUTPUT,
    key::PMIX_LOG_XML_OUTPUT,
    key::PMIX_LOG_GENERATE_TIMESTAMP,
    key::PMIX_LOG_TIMESTAMP_OUTPUT,
    key::PMIX_LOG_SYSLOG_PRI,
];

impl DuplicateFilter {
    /// An empty book.
    pub fn new(settings: Aggregation) -> DuplicateFilter {
        DuplicateFilter {
            settings,
            entries: BTreeMap::new(),
            closing: VecDeque::new(),
        }
    }

    /// Whether a request is like one that was logged lately: then it is counted, and its requester is told what that one was.
    pub fn repeats(&mut self, likeness: &DuplicateKey) -> Option<Status> {
        let entry = self.entries.get_mut(likeness)?;
        entry.more = entry.more.saturating_add(1);
        Some(entry.status)
    }

    /// Remembers a request that was logged, and returns what is to be logged of one that is forgotten for that. One of which
    /// nothing was written is not remembered: the next one like it is tried again.
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
        let told = if self.entries.len() >= entries {
            self.forget_first()
        } else {
            None
        };
        let dress = DRESS.into_iter().filter_map(|key| {
            let value = request
                .data
                .value_of(key)
                .or_else(|| request.directives.value_of(key))?;
            let is_small =
                matches!(value, Value::Undef | Value::Bool(_)) || value.as_u64().is_some();
            is_small.then(|| Info::new(key, value.clone()))
        });
        let entry = LoggedRequest {
            source: request.source.clone(),
            dress: dress.collect(),
            status,
            more: 0,
        };
        let likeness = Arc::new(likeness);
        self.closing.push_back((now + window, likeness.clone()));
        self.entries.insert(likeness, entry);
        told
    }

    /// When [`DuplicateFilter::close`] has something to do next.
    pub fn deadline(&self) -> Option<MonotonicTime> {
        self.closing.front().map(|(at, _)| *at)
    }

    /// What is to be logged next of those whose time is over: how many there were like one of them.
    pub fn close(&mut self, now: MonotonicTime) -> Option<DuplicateSummary> {
        while let Some((_, likeness)) = self.closing.pop_front_if(|(at, _)| *at <= now) {
            match self.entries.get_mut(&likeness) {
                Some(entry) if entry.more > 0 => {
                    let told = entry.tell(&likeness);
                    self.closing
                        .push_back((now + self.settings.window, likeness));
                    if told.is_some() {
                        return told;
                    }
                }
                _ => drop(self.entries.remove(&likeness)),
            }
        }
        None
    }

    /// The same for all of them, whose time is over now.
    pub fn close_all(&mut self) -> Vec<DuplicateSummary> {
        std::iter::from_fn(|| (!self.closing.is_empty()).then(|| self.forget_first()))
            .flatten()
            .collect()
    }

    /// Forgets the one whose time is over first.
    fn forget_first(&mut self) -> Option<DuplicateSummary> {
        let (_, likeness) = self.closing.pop_front()?;
        self.entries.remove(&likeness)?.tell(&likeness)
    }
}

impl LoggedRequest {
    /// What is to be logged of those that were not, on the channels that take a text: nobody wants a mail about mails.
    fn tell(&mut self, likeness: &DuplicateKey) -> Option<DuplicateSummary> {
        let more = std::mem::take(&mut self.more);
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
        let (source, directives) = (self.source.clone(), self.dress.clone());
        let is_told = more > 0 && !data.is_empty();
        let request = LogRequest {
            source,
            identity: *identity,
            timestamp: None,
            data,
            directives,
        };
        is_told.then_some(DuplicateSummary {
            request,
            origin: *origin,
        })
    }
}

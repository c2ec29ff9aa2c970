//! Activity of a server as the reports tell it: sections, latest denials and passages, and rates from two
//! reports. It does no I/O.
use super::{
    activity::{
        ActivityCodeCount, ActivityCounts, ActivityDenial, ActivityFurther, ActivityJobs,
        ActivityMissed, ActivityModule, ActivityModules, ActivityReport, ActivityServer,
        ActivitySink, EventPassage,
    },
    chain::{Chain, ChainOwner},
    quotas::UserQuotas,
};
use std::{
    collections::{BTreeMap, VecDeque},
    mem,
};

/// Maximum number of denials, and of passages, that are kept.
const MAX_ENTRIES: usize = 1000;
/// Maximum number of rates in a trend.
const MAX_TREND: usize = 120;

/// Id in place of one that the source does not tell. No user or group has it.
pub const UNKNOWN_ID: u32 = u32::MAX;

/// Function that returns the name of a user.
pub type UserNaming = fn(u32) -> String;

/// Latest rates of one counter, the newest last.
#[derive(Clone, Debug, Default)]
pub struct RateTrend(VecDeque<f64>);

impl RateTrend {
    fn add(&mut self, rate: f64) {
        self.0.push_back(rate);
        if self.0.len() > MAX_TREND {
            self.0.pop_front();
        }
    }

    /// Returns the latest rate; none before the second report.
    pub fn latest(&self) -> Option<f64> {
        self.0.back().copied()
    }

    /// Returns this number of the latest rates at most, the newest last.
    pub fn last(&self, count: usize) -> impl Iterator<Item = f64> {
        let skipped = self.0.len().saturating_sub(count);
        self.0.iter().skip(skipped).copied()
    }
}

/// Rates of a module.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ModuleRate {
    /// Calls in a second.
    pub calls: f64,
    /// Failed calls in a second.
    pub failures: f64,
    /// Mean time of a call, in microseconds; none without calls.
    pub mean_us: Option<f64>,
}

/// Owner, name and role of a module.
type ModuleKey = (ChainOwner, String, String);

/// Denial or passage with a number of its own.
#[derive(Clone, Debug)]
pub struct NumberedEntry<T> {
    /// Number, unique among the entries of its kind.
    pub number: u64,
    /// Entry.
    pub entry: T,
}

/// Entries of one kind, the newest first.
#[derive(Clone, Debug)]
pub struct LatestEntries<T> {
    entries: VecDeque<NumberedEntry<T>>,
    next: u64,
}

impl<T> Default for LatestEntries<T> {
    fn default() -> Self {
        LatestEntries {
            entries: VecDeque::new(),
            next: 0,
        }
    }
}

impl<T> LatestEntries<T> {
    fn add(&mut self, entry: T) {
        let number = self.next;
        self.next += 1;
        self.entries.push_front(NumberedEntry { number, entry });
        self.entries.truncate(MAX_ENTRIES);
    }

    /// Returns the entries, the newest first.
    pub fn iter(&self) -> impl Iterator<Item = &NumberedEntry<T>> {
        self.entries.iter()
    }

    /// Returns an entry.
    pub fn get(&self, number: u64) -> Option<&T> {
        let found = self.entries.iter().find(|entry| entry.number == number);
        found.map(|found| &found.entry)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true without entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Activity of a server.
#[derive(Clone, Debug)]
pub struct LiveData {
    naming: UserNaming,
    /// Name of a server without an admin socket, which tells of jobs and events alone.
    pub tool_server: Option<String>,
    /// Number of reports so far.
    reports: u64,
    /// Identity and state of the server; none before the first report.
    pub server: Option<ActivityServer>,
    /// User whose activity is shown; none for an administrator.
    pub only_user: Option<u32>,
    /// Time since the start of the server, in milliseconds.
    pub uptime_ms: u64,
    /// Jobs and procs.
    pub jobs: ActivityJobs,
    /// Hosted chains.
    pub chains: Vec<Chain>,
    /// Modules in their roles.
    pub modules: ActivityModules,
    /// Sinks.
    pub sinks: Vec<ActivitySink>,
    /// Users.
    pub users: UserQuotas,
    /// Numbers of what the sections have no room for.
    pub further: ActivityFurther,
    /// Numbers of events and denials.
    pub counts: ActivityCounts,
    /// Denials.
    pub denials: LatestEntries<ActivityDenial>,
    /// Passages of events.
    pub passages: LatestEntries<EventPassage>,
    /// Numbers of what was missed.
    pub missed: ActivityMissed,
    /// Rates of all events.
    pub events: RateTrend,
    /// Rates of denials.
    pub denial_rate: RateTrend,
    codes: BTreeMap<i32, RateTrend>,
    module_rates: BTreeMap<ModuleKey, ModuleRate>,
    sink_rates: BTreeMap<String, f64>,
}

impl LiveData {
    /// Creates the data before the first report. A server without an admin socket is named.
    pub fn new(naming: UserNaming, tool_server: Option<String>) -> LiveData {
        LiveData {
            naming,
            tool_server,
            reports: 0,
            server: None,
            only_user: None,
            uptime_ms: 0,
            jobs: ActivityJobs::default(),
            chains: Vec::new(),
            modules: ActivityModules::default(),
            sinks: Vec::new(),
            users: UserQuotas::default(),
            further: ActivityFurther::default(),
            counts: ActivityCounts::default(),
            denials: LatestEntries::default(),
            passages: LatestEntries::default(),
            missed: ActivityMissed::default(),
            events: RateTrend::default(),
            denial_rate: RateTrend::default(),
            codes: BTreeMap::new(),
            module_rates: BTreeMap::new(),
            sink_rates: BTreeMap::new(),
        }
    }

    /// Returns the name of a user.
    pub fn user(&self, uid: u32) -> String {
        match uid {
            UNKNOWN_ID => "-".to_owned(),
            uid => (self.naming)(uid),
        }
    }

    /// Returns the name of an owner.
    pub fn owner(&self, owner: &ChainOwner) -> String {
        match owner {
            ChainOwner::Site => "site".to_owned(),
            ChainOwner::User(uid) => format!("user {}", self.user(*uid)),
            ChainOwner::Namespace(nspace) => format!("job {nspace}"),
        }
    }

    /// Takes a report over.
    pub fn apply(&mut self, report: ActivityReport) {
        let is_first = self.reports == 0;
        let seconds = (!is_first)
            .then(|| report.uptime_ms.saturating_sub(self.uptime_ms) as f64 / 1000.0)
            .filter(|seconds| *seconds > 0.0);
        self.reports = self.reports.saturating_add(1);
        self.uptime_ms = report.uptime_ms;
        self.only_user = report.only_user;
        self.server = report.server.or(self.server.take());
        if let Some(counts) = report.counts {
            self.apply_counts(counts, is_first);
        }
        if let Some(modules) = report.modules {
            self.apply_modules(modules, seconds);
        } else if seconds.is_some() {
            self.module_rates.clear();
        }
        if let Some(sinks) = report.sinks {
            self.apply_sinks(sinks, seconds);
        } else if seconds.is_some() {
            self.sink_rates.clear();
        }
        replace(&mut self.jobs, report.jobs);
        replace(&mut self.chains, report.chains);
        replace(&mut self.users, report.users);
        replace(&mut self.further, report.further);
        report
            .denials
            .into_iter()
            .for_each(|denial| self.denials.add(denial));
        report
            .passages
            .into_iter()
            .for_each(|passage| self.passages.add(passage));
        self.missed.denials += report.missed.denials;
        self.missed.passages += report.missed.passages;
    }

    fn apply_counts(&mut self, counts: ActivityCounts, is_first: bool) {
        let time = counts.at_ms.saturating_sub(self.counts.at_ms);
        if is_first {
            self.counts = counts;
        } else if time > 0 {
            let before = mem::replace(&mut self.counts, counts);
            self.add_rates(&before, time as f64 / 1000.0);
        }
        // Otherwise rates are the difference between these counts and later ones.
    }

    fn add_rates(&mut self, before: &ActivityCounts, seconds: f64) {
        let total = |counts: &ActivityCounts| {
            let codes = counts.events.iter().map(|of| of.count);
            codes.sum::<u64>().saturating_add(counts.further_events)
        };
        self.events
            .add(rate(total(&self.counts), total(before), seconds));
        self.denial_rate
            .add(rate(self.counts.denials, before.denials, seconds));
        let old: BTreeMap<i32, u64> = before.events.iter().map(number_and_count).collect();
        for (code, count) in self.counts.events.iter().map(number_and_count) {
            let before = old.get(&code).copied().unwrap_or_default();
            let trend = self.codes.entry(code).or_default();
            trend.add(rate(count, before, seconds));
        }
    }

    fn apply_modules(&mut self, modules: ActivityModules, seconds: Option<f64>) {
        if let Some(seconds) = seconds {
            let old: BTreeMap<ModuleKey, &ActivityModule> = self
                .modules
                .modules
                .iter()
                .map(|module| (module_key(module), module))
                .collect();
            let of = |module: &ActivityModule| {
                let key = module_key(module);
                let before = old.get(&key);
                let calls = before.map_or(0, |before| before.calls);
                let failures = before.map_or(0, |before| before.failures);
                let time = before.map_or(0, |before| before.time_us);
                let new_calls = module.calls.saturating_sub(calls);
                let rate = ModuleRate {
                    calls: rate(module.calls, calls, seconds),
                    failures: rate(module.failures, failures, seconds),
                    mean_us: (new_calls > 0)
                        .then(|| module.time_us.saturating_sub(time) as f64 / new_calls as f64),
                };
                (key, rate)
            };
            self.module_rates = modules.modules.iter().map(of).collect();
        }
        self.modules = modules;
    }

    fn apply_sinks(&mut self, sinks: Vec<ActivitySink>, seconds: Option<f64>) {
        if let Some(seconds) = seconds {
            let before = |name: &str| {
                let found = self.sinks.iter().find(|sink| sink.name == name);
                found.map_or(0, |sink| sink.delivered)
            };
            let of = |sink: &ActivitySink| {
                let delivered = rate(sink.delivered, before(&sink.name), seconds);
                (sink.name.clone(), delivered)
            };
            self.sink_rates = sinks.iter().map(of).collect();
        }
        self.sinks = sinks;
    }

    /// Returns the rates of a code.
    pub fn code(&self, code: i32) -> RateTrend {
        self.codes.get(&code).cloned().unwrap_or_default()
    }

    /// Returns the rates of a module. Without calls since the previous report, the mean time is that of
    /// all calls.
    pub fn module_rate(&self, module: &ActivityModule) -> ModuleRate {
        let rate = self.module_rates.get(&module_key(module));
        let rate = rate.copied().unwrap_or_default();
        let mean = || (module.calls > 0).then(|| module.time_us as f64 / module.calls as f64);
        ModuleRate {
            mean_us: rate.mean_us.or_else(mean),
            ..rate
        }
    }

    /// Returns the messages that a sink delivers in a second.
    pub fn sink_rate(&self, sink: &str) -> f64 {
        self.sink_rates.get(sink).copied().unwrap_or_default()
    }

    /// Returns the number of procs of all jobs.
    pub fn proc_count(&self) -> u64 {
        self.jobs
            .jobs
            .iter()
            .map(|job| u64::from(job.status.size))
            .sum()
    }
}

fn module_key(module: &ActivityModule) -> ModuleKey {
    let owner = module.owner.clone();
    (owner, module.name.clone(), module.role.clone())
}

fn number_and_count(of: &ActivityCodeCount) -> (i32, u64) {
    (of.code.number, of.count)
}

fn replace<T>(section: &mut T, new: Option<T>) {
    if let Some(new) = new {
        *section = new;
    }
}

fn rate(now: u64, before: u64, seconds: f64) -> f64 {
    now.saturating_sub(before) as f64 / seconds
}

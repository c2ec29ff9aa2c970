//! Registry of all metrics: for `peal stats`, and for Prometheus if that is configured.

mod counters;
mod endpoint;
mod module;
mod quotas;
mod snapshot;

pub use counters::{Counter, Counters, Gauge};
pub use endpoint::{EndpointError, MetricsEndpoint};
pub(crate) use module::{RoleMeters, Stopwatch};
pub use snapshot::{Amount, Labels, MetricFamily, MetricKind, MetricSample, Snapshot, Unit};

pub(crate) use module::ModuleTotals;

use crate::{activity::ActivityRecorder, admin::ActivitySink};
use module::ModuleMeters;
use peal_core::{
    owner::Owner,
    quota::{Quota, QuotaRefusals, QuotaReport},
    server::ServerCounts,
};
use std::{
    fmt, fs,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Source of metrics that another component keeps.
type MetricSource = Box<dyn Fn() -> Vec<MetricFamily> + Send + Sync>;

/// Source of what users hold.
type QuotaSource = Box<dyn Fn(&mut QuotaReport) + Send + Sync>;

/// Source of the states of sinks.
type SinkSource = Box<dyn Fn() -> Vec<ActivitySink> + Send + Sync>;

/// Metrics of one server.
pub struct Metrics {
    counters: Counters,
    modules: ModuleMeters,
    sources: Mutex<Vec<MetricSource>>,
    quotas: Mutex<Vec<QuotaSource>>,
    refusals: Mutex<QuotaRefusals>,
    sinks: Mutex<Vec<SinkSource>>,
    activity: Arc<ActivityRecorder>,
    started: SystemTime,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            counters: Counters::default(),
            modules: ModuleMeters::default(),
            sources: Mutex::default(),
            quotas: Mutex::default(),
            refusals: Mutex::default(),
            sinks: Mutex::default(),
            activity: Arc::default(),
            started: SystemTime::now(),
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics")
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl Metrics {
    /// Returns the counters and gauges.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the meters of an owner's modules in a role. Repeated calls return the same meters.
    pub(crate) fn modules<'a>(
        &self,
        owner: &Owner,
        role: &'static str,
        names: impl Iterator<Item = &'a str>,
    ) -> Arc<RoleMeters> {
        self.modules.of(owner, role, names)
    }

    /// Returns the totals of all modules in their roles.
    pub(crate) fn module_totals(&self) -> Vec<ModuleTotals> {
        self.modules.totals()
    }

    /// Returns the recorder of what watchers see.
    pub(crate) fn activity(&self) -> &Arc<ActivityRecorder> {
        &self.activity
    }

    /// Adds a source of the states of sinks.
    pub fn show_sinks(&self, source: impl Fn() -> Vec<ActivitySink> + Send + Sync + 'static) {
        self.sinks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(source));
    }

    /// Returns the states of all sinks.
    pub(crate) fn sinks(&self) -> Vec<ActivitySink> {
        let sources = self.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        sources.iter().flat_map(|source| source()).collect()
    }

    /// Adds a source of metrics that another component keeps.
    pub fn show(&self, source: impl Fn() -> Vec<MetricFamily> + Send + Sync + 'static) {
        self.sources
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(source));
    }

    /// Adds a source of what users hold.
    pub fn show_quotas(&self, source: impl Fn(&mut QuotaReport) + Send + Sync + 'static) {
        self.quotas
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(source));
    }

    /// Counts a refusal because of a limit for a user.
    pub(crate) fn refuse(&self, uid: u32, quota: Quota) {
        self.refusals().count(uid, quota);
    }

    /// Returns what each user holds, and how often each was refused.
    pub fn quotas(&self) -> QuotaReport {
        let mut report = QuotaReport::default();
        let sources = self.quotas.lock().unwrap_or_else(PoisonError::into_inner);
        sources.iter().for_each(|source| source(&mut report));
        report.refuse(&self.refusals());
        report
    }

    fn refusals(&self) -> MutexGuard<'_, QuotaRefusals> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time since the start of the server.
    pub fn uptime(&self) -> Duration {
        // The system clock may have been set back since the start.
        self.started.elapsed().unwrap_or_default()
    }

    /// Returns all metrics with their current values.
    pub fn snapshot(&self) -> Snapshot {
        let mut families = vec![version(), self.start_time()];
        families.extend(memory());
        families.extend(self.counters.families());
        families.extend(self.modules.families());
        families.extend(quotas::families(&self.quotas()));
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        families.extend(sources.iter().flat_map(|source| source()));
        Snapshot { families }
    }

    /// Takes over the counts of the state machine.
    pub(crate) fn follow(&self, counts: ServerCounts) {
        let ServerCounts {
            peers,
            jobs,
            events_ejected,
            events_kept,
            events_spilled,
            events_lost,
            events_owed_bytes,
            decisions_awaited,
            monitors,
            tools,
            put_bytes,
        } = counts;
        self.counters.connections_open.set(peers);
        self.counters.jobs.set(jobs);
        self.counters.events_ejected.follow(events_ejected);
        self.counters.events_retained.set(events_kept);
        self.counters.events_spilled.set(events_spilled);
        self.counters.events_lost.follow(events_lost);
        self.counters.events_index_bytes.set(events_owed_bytes);
        self.counters.decisions_pending.set(decisions_awaited);
        self.counters.monitors.set(monitors);
        self.counters.tools.set(tools);
        self.counters.put_bytes.set(put_bytes);
    }

    fn start_time(&self) -> MetricFamily {
        let seconds = self
            .started
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        let help = "Start time of the server since the epoch, in seconds.";
        MetricFamily::single(
            "process_start_time_seconds",
            help,
            MetricKind::Gauge,
            seconds,
        )
        .in_unit(Unit::Seconds)
    }
}

fn version() -> MetricFamily {
    let labels = Labels::from([("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]);
    let samples = vec![MetricSample {
        labels,
        value: Amount::Number(1),
    }];
    MetricFamily {
        name: "peal".to_owned(),
        help: "Version of Peal.".to_owned(),
        kind: MetricKind::Info,
        unit: None,
        samples,
    }
}

/// Returns the resident memory of the process; none if the kernel does not report it.
fn memory() -> Option<MetricFamily> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    // The kernel reports this in units of 1024 bytes, which it calls kB.
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let bytes = line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024;
    let help = "Resident memory of the process, in bytes.";
    Some(
        MetricFamily::single(
            "process_resident_memory_bytes",
            help,
            MetricKind::Gauge,
            bytes,
        )
        .in_unit(Unit::Bytes),
    )
}

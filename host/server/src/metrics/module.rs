//! Meters of modules: number of calls, failures and limit hits, time and fuel.
use super::snapshot::{Amount, Labels, MetricFamily, MetricKind, MetricSample, Unit};
use peal_core::owner::Owner;
use peal_sandbox::{CallFailure, CallUsage, LimitKind};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Meter of one module in one role.
#[derive(Debug, Default)]
struct ModuleMeter {
    calls: AtomicU64,
    failures: AtomicU64,
    nanoseconds: AtomicU64,
    fuel: AtomicU64,
    /// Calls that hit a limit, by its position in [`LimitKind::ALL`].
    hits: [AtomicU64; LimitKind::ALL.len()],
}

/// Labels of a meter: owner, module and role.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct MeterLabels {
    owner: Owner,
    module: String,
    role: &'static str,
}

/// Totals of one module in one role.
#[derive(Clone, Debug)]
pub(crate) struct ModuleTotals {
    /// Owner of the module.
    pub(crate) owner: Owner,
    /// Name of the module.
    pub(crate) module: String,
    /// Role of the module.
    pub(crate) role: &'static str,
    /// Number of calls.
    pub(crate) calls: u64,
    /// Number of failed calls.
    pub(crate) failures: u64,
    /// Time of all calls.
    pub(crate) time: Duration,
}

/// Meters of all modules.
#[derive(Debug, Default)]
pub(super) struct ModuleMeters(Mutex<BTreeMap<MeterLabels, Arc<ModuleMeter>>>);

/// Meters of one owner's modules in one role, by name.
#[derive(Debug)]
pub(crate) struct RoleMeters(BTreeMap<String, Arc<ModuleMeter>>);

impl RoleMeters {
    /// Records the end of a call.
    pub(crate) fn called(
        &self,
        module: &str,
        took: Duration,
        usage: &CallUsage,
        failure: Option<&CallFailure>,
    ) {
        let Some(meter) = self.0.get(module) else {
            return;
        };
        meter.calls.fetch_add(1, Ordering::Relaxed);
        meter.nanoseconds.fetch_add(
            u64::try_from(took.as_nanos()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
        if failure.is_some() {
            meter.failures.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(fuel) = usage.fuel {
            meter.fuel.fetch_add(fuel, Ordering::Relaxed);
        }
        if !usage.hits.is_empty() {
            let hits = meter
                .hits
                .iter()
                .zip(LimitKind::ALL)
                .filter(|(_, limit)| usage.hits.contains(*limit));
            for (count, _) in hits {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Timer of consecutive calls. It reads the clock once for each call.
#[derive(Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// Returns the time since the last lap, or since the start.
    pub(crate) fn lap(&mut self) -> Duration {
        let last = std::mem::replace(&mut self.0, Instant::now());
        self.0.saturating_duration_since(last)
    }
}

impl ModuleMeters {
    /// Returns the meters of modules in a role. Repeated calls return the same meters.
    pub(super) fn of<'a>(
        &self,
        owner: &Owner,
        role: &'static str,
        modules: impl Iterator<Item = &'a str>,
    ) -> Arc<RoleMeters> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        let mut meters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Meters of tenants are removed with their last `RoleMeters`, so that the number of metrics
        // stays bounded. The site's meters stay.
        meters.retain(|labels, meter| labels.owner == Owner::Site || Arc::strong_count(meter) > 1);
        let meter = |module: &str| {
            let labels = MeterLabels {
                owner: owner.clone(),
                module: module.to_owned(),
                role,
            };
            (module.to_owned(), meters.entry(labels).or_default().clone())
        };
        Arc::new(RoleMeters(modules.map(meter).collect()))
    }

    /// Returns the totals of all modules, in the order of their owners, names and roles.
    pub(super) fn totals(&self) -> Vec<ModuleTotals> {
        let meters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let totals = |(labels, meter): (&MeterLabels, &Arc<ModuleMeter>)| ModuleTotals {
            owner: labels.owner.clone(),
            module: labels.module.clone(),
            role: labels.role,
            calls: meter.calls.load(Ordering::Relaxed),
            failures: meter.failures.load(Ordering::Relaxed),
            time: Duration::from_nanos(meter.nanoseconds.load(Ordering::Relaxed)),
        };
        meters.iter().map(totals).collect()
    }

    pub(super) fn families(&self) -> Vec<MetricFamily> {
        let meters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let family = |name: &str, help: &str, value: &dyn Fn(&ModuleMeter) -> Amount| {
            let sample = |(labels, meter): (&MeterLabels, &Arc<ModuleMeter>)| MetricSample {
                labels: labels.to_metric(),
                value: value(meter),
            };
            let samples = meters.iter().map(sample).collect();
            MetricFamily {
                name: name.into(),
                help: help.into(),
                kind: MetricKind::Counter,
                unit: None,
                samples,
            }
        };
        let number = |number: &AtomicU64| Amount::Number(number.load(Ordering::Relaxed));
        let seconds = |meter: &ModuleMeter| {
            Duration::from_nanos(meter.nanoseconds.load(Ordering::Relaxed)).as_secs_f64()
        };
        let cut_off = "Failed calls of a module: trap, time limit or another limit.";
        let time = "Time of the calls of a module, in seconds.";
        let fuel = "Fuel used by the calls of a module, where it is counted.";
        let mut families = vec![
            family("peal_module_calls", "Calls of a module.", &|meter| {
                number(&meter.calls)
            }),
            family("peal_module_failures", cut_off, &|meter| {
                number(&meter.failures)
            }),
            family("peal_module_fuel", fuel, &|meter| number(&meter.fuel)),
            family("peal_module_call_seconds", time, &|meter| {
                Amount::Real(seconds(meter))
            })
            .in_unit(Unit::Seconds),
        ];
        families.push(hits(&meters));
        families
    }
}

/// Returns the metric of limit hits, with a sample for each limit that was hit.
fn hits(meters: &BTreeMap<MeterLabels, Arc<ModuleMeter>>) -> MetricFamily {
    let of = |(labels, meter): (&MeterLabels, &Arc<ModuleMeter>)| {
        let counts = meter
            .hits
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .zip(LimitKind::ALL);
        let sample = |(count, limit): (u64, LimitKind)| {
            let mut labels = labels.to_metric();
            labels.insert("limit".to_owned(), limit.name().to_owned());
            MetricSample {
                labels,
                value: Amount::Number(count),
            }
        };
        counts
            .filter(|(count, _)| *count > 0)
            .map(sample)
            .collect::<Vec<_>>()
    };
    let help = "Calls of a module that hit a limit, whether they failed or continued.";
    let samples: Vec<MetricSample> = meters.iter().flat_map(of).collect();
    MetricFamily {
        name: "peal_module_limit_hits".to_owned(),
        help: help.to_owned(),
        kind: MetricKind::Counter,
        unit: None,
        samples,
    }
}

impl MeterLabels {
    fn to_metric(&self) -> Labels {
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        Labels::from([
            label("module", &self.module),
            label("owner", &self.owner.to_string()),
            label("role", self.role),
        ])
    }
}

//! What is measured of each module: how often it is called, how often that fails, and how long it takes.
use super::snapshot::{Amount, Family, Kind, Labels, Sample, Unit};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Measures one module in one role.
#[derive(Debug, Default)]
pub struct ModuleMeter {
    calls: AtomicU64,
    failures: AtomicU64,
    nanoseconds: AtomicU64,
}

/// How a call of a module went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Went {
    /// It returned, whatever it said.
    Well,
    /// It trapped, ran too long, or was cut off otherwise.
    Wrong,
}

impl ModuleMeter {
    /// A call has ended.
    pub fn called(&self, took: Duration, went: Went) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        if went == Went::Wrong {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Which module, for whom, and as what.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Who {
    owner: String,
    module: String,
    role: &'static str,
}

/// The meters of all modules.
#[derive(Debug, Default)]
pub(crate) struct ModuleMeters(Mutex<BTreeMap<Who, Arc<ModuleMeter>>>);

impl ModuleMeters {
    /// The meter of a module in a role; the same one each time.
    pub(crate) fn of(&self, owner: String, module: String, role: &'static str) -> Arc<ModuleMeter> {
        let mut meters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        meters.entry(Who { owner, module, role }).or_default().clone()
    }

    /// Forgets what was measured for an owner that is no more.
    pub(crate) fn forget(&self, owner: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|who, _| who.owner != owner);
    }

    pub(crate) fn families(&self) -> Vec<Family> {
        let meters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let family = |name: &str, help: &str, value: &dyn Fn(&ModuleMeter) -> Amount| {
            let sample = |(who, meter): (&Who, &Arc<ModuleMeter>)| Sample { labels: who.labels(), value: value(meter) };
            let samples = meters.iter().map(sample).collect();
            Family { name: name.into(), help: help.into(), kind: Kind::Counter, unit: None, samples }
        };
        let number = |number: &AtomicU64| Amount::Number(number.load(Ordering::Relaxed));
        let seconds = |meter: &ModuleMeter| Duration::from_nanos(meter.nanoseconds.load(Ordering::Relaxed));
        let cut_off = "Calls of a module that trapped, ran too long, or were cut off otherwise.";
        vec![
            family("peal_module_calls", "Calls of a module.", &|meter| number(&meter.calls)),
            family("peal_module_failures", cut_off, &|meter| number(&meter.failures)),
            family("peal_module_seconds", "Time that the calls of a module took.", &|meter| {
                Amount::Real(seconds(meter).as_secs_f64())
            })
            .in_unit(Unit::Seconds),
        ]
    }
}

impl Who {
    fn labels(&self) -> Labels {
        let role = self.role.to_owned();
        Labels::from([
            ("module".to_owned(), self.module.clone()),
            ("owner".to_owned(), self.owner.clone()),
            ("role".to_owned(), role),
        ])
    }
}

//! Reports about shadow modules: calls, outcomes, and differences from what happened.
use crate::admin::{ShadowDifference, ShadowReport};
use peal_core::owner::Owner;
use peal_sandbox::Digest;
use peal_tenant::LoadedModule;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

/// Upper bound of the differences that are kept for a shadow module, the latest.
const DIFFERENCES: usize = 64;
/// Upper bound of the distinct outcomes that are counted; further ones are counted as one.
const ANSWERS: usize = 64;
/// Name under which further outcomes are counted.
const OTHERS: &str = "others";

/// Result of one call of a shadow module.
#[derive(Debug)]
pub(super) struct ShadowCall {
    /// Description of the request or event.
    pub(super) about: String,
    /// Outcome of the call.
    pub(super) answer: String,
    /// Actual result, and the result if the module had been active; none if they are equal.
    pub(super) difference: Option<(String, String)>,
    /// Reason of a failure.
    pub(super) failure: Option<String>,
}

#[derive(Debug)]
struct ShadowStats {
    digest: Digest,
    since: u64,
    calls: u64,
    failed: u64,
    missed: u64,
    differed: u64,
    answers: BTreeMap<String, u64>,
    differences: VecDeque<ShadowDifference>,
}

impl ShadowStats {
    fn new(digest: Digest) -> ShadowStats {
        let since = now();
        let answers = BTreeMap::new();
        let differences = VecDeque::new();
        ShadowStats {
            digest,
            since,
            calls: 0,
            failed: 0,
            missed: 0,
            differed: 0,
            answers,
            differences,
        }
    }

    fn note(&mut self, seen: ShadowCall) {
        self.calls += 1;
        let ShadowCall {
            about,
            answer,
            difference,
            failure,
        } = seen;
        // The module chooses its statuses, so the number of distinct outcomes must be bounded.
        let known = self.answers.len() < ANSWERS || self.answers.contains_key(&answer);
        *self
            .answers
            .entry(if known { answer } else { OTHERS.to_owned() })
            .or_default() += 1;
        self.failed += u64::from(failure.is_some());
        let Some((actual, would)) = difference else {
            return;
        };
        self.differed += 1;
        if self.differences.len() == DIFFERENCES {
            self.differences.pop_front();
        }
        self.differences.push_back(ShadowDifference {
            at: now(),
            about,
            actual,
            would,
        });
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

/// Reports, one for each shadow module and owner.
#[derive(Debug, Default)]
pub(super) struct ShadowReports(Mutex<BTreeMap<(Owner, String), ShadowStats>>);

impl ShadowReports {
    pub(super) fn note(&self, owner: &Owner, module: &LoadedModule, seen: ShadowCall) {
        self.update(owner, module, |stats| stats.note(seen));
    }

    /// Counts a call that was skipped because too many were waiting.
    pub(super) fn missed(&self, owner: &Owner, module: &LoadedModule) {
        self.update(owner, module, |stats| stats.missed += 1);
    }

    /// Returns the reports about the shadow modules of this name.
    pub(super) fn reports(&self, name: &str) -> Vec<ShadowReport> {
        let report = |((owner, _), stats): (&(Owner, String), &ShadowStats)| ShadowReport {
            owner: owner.into(),
            sha256: stats.digest.to_string(),
            since: stats.since,
            calls: stats.calls,
            failed: stats.failed,
            missed: stats.missed,
            differed: stats.differed,
            answers: stats.answers.clone(),
            differences: stats.differences.iter().cloned().collect(),
        };
        self.stats_by_module()
            .iter()
            .filter(|((_, module), _)| module == name)
            .map(report)
            .collect()
    }

    /// Removes the reports of modules that are no longer shadow modules.
    pub(super) fn keep(&self, stays: impl Fn(&Owner, &str) -> bool) {
        self.stats_by_module()
            .retain(|(owner, module), _| stays(owner, module));
    }

    /// Updates the report about a module. Another component of the same name starts a new report.
    fn update(&self, owner: &Owner, module: &LoadedModule, work: impl FnOnce(&mut ShadowStats)) {
        let mut stats_by_module = self.stats_by_module();
        let key = (owner.clone(), module.name().to_owned());
        let stats = stats_by_module
            .entry(key)
            .or_insert_with(|| ShadowStats::new(module.digest()));
        if stats.digest != module.digest() {
            *stats = ShadowStats::new(module.digest());
        }
        work(stats);
    }

    fn stats_by_module(&self) -> MutexGuard<'_, BTreeMap<(Owner, String), ShadowStats>> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

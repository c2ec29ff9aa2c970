//! What was seen of each shadow: how often it was called, what it would have said, and where that differs from what happened.
use crate::admin::{ShadowDifference, ShadowReport};
use peal_core::owner::Owner;
use peal_sandbox::{Digest, Module};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

/// How many differences are kept of a shadow: the latest.
const DIFFERENCES: usize = 64;
/// How many answers are told apart; others count as one.
const ANSWERS: usize = 64;
/// Under which name these are counted.
const OTHERS: &str = "others";

/// What became of one call of a shadow.
#[derive(Debug)]
pub(super) struct ShadowCall {
    /// What it was about.
    pub(super) about: String,
    /// What it would have said.
    pub(super) answer: String,
    /// What happened instead, and what would have; none where that is the same.
    pub(super) difference: Option<(String, String)>,
    /// Whether it failed.
    pub(super) failure: Option<String>,
}

#[derive(Debug)]
struct Page {
    digest: Digest,
    since: u64,
    calls: u64,
    failed: u64,
    missed: u64,
    differed: u64,
    answers: BTreeMap<String, u64>,
    differences: VecDeque<ShadowDifference>,
}

impl Page {
    fn new(digest: Digest) -> Page {
        let since = now();
        let (answers, differences) = (BTreeMap::new(), VecDeque::new());
        Page {
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

/// A page for each shadow.
#[derive(Debug, Default)]
pub(super) struct ShadowReports(Mutex<BTreeMap<(Owner, String), Page>>);

impl ShadowReports {
    pub(super) fn note(&self, owner: &Owner, module: &Module, seen: ShadowCall) {
        self.at(owner, module, |page| page.note(seen));
    }

    /// A call that was not made: too many waited.
    pub(super) fn missed(&self, owner: &Owner, module: &Module) {
        self.at(owner, module, |page| page.missed += 1);
    }

    /// What was seen of the shadows of this name.
    pub(super) fn reports(&self, name: &str) -> Vec<ShadowReport> {
        let report = |((owner, _), page): (&(Owner, String), &Page)| ShadowReport {
            owner: owner.into(),
            sha256: page.digest.to_string(),
            since: page.since,
            calls: page.calls,
            failed: page.failed,
            missed: page.missed,
            differed: page.differed,
            answers: page.answers.clone(),
            differences: page.differences.iter().cloned().collect(),
        };
        self.pages()
            .iter()
            .filter(|((_, module), _)| module == name)
            .map(report)
            .collect()
    }

    /// Forgets those that are shadows no more.
    pub(super) fn keep(&self, stays: impl Fn(&Owner, &str) -> bool) {
        self.pages()
            .retain(|(owner, module), _| stays(owner, module));
    }

    /// Another component under the same name begins anew.
    fn at(&self, owner: &Owner, module: &Module, work: impl FnOnce(&mut Page)) {
        let mut pages = self.pages();
        let key = (owner.clone(), module.name().to_owned());
        let page = pages
            .entry(key)
            .or_insert_with(|| Page::new(module.digest()));
        if page.digest != module.digest() {
            *page = Page::new(module.digest());
        }
        work(page);
    }

    fn pages(&self) -> MutexGuard<'_, BTreeMap<(Owner, String), Page>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! What there is to see of a trail at a glance: modules and what they reach, decisions over time, denials, failures. It is put together
//! here in one pass and in bounded memory; [`page`] shows it.
mod chart;
mod html;
mod page;
mod timeline;
mod top;

use crate::{AuditError, Call, Decision, Denial, Entry, Facts, GapReason, Ruling, Source, entry::outcome};
use peal_model::{Info, Matter, PolicyRequest};
use peal_sandbox::{Digest, End, Limit};
use peal_store::{Filter, TrailRow};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};
use top::Top;

pub use page::page;
pub use timeline::{Counts, Timeline};

/// Of how many modules is told; the calls of others are counted.
const MODULES: usize = 200;
/// Of how many changes is told, the latest.
const CHANGES: usize = 100;
/// How many lines of one record are told.
const LINES: usize = 20;
/// How many characters of what somebody chose are told.
const LONGEST: usize = 300;
/// How many of those are told that somebody named.
const NAMED: usize = 3;

/// What is reported.
#[derive(Debug, Default)]
pub struct Report {
    /// The first record and the last, each with its time.
    pub range: Option<[(u64, u64); 2]>,
    /// How many records there are of each kind.
    pub kinds: BTreeMap<&'static str, u64>,
    /// How many cannot be read.
    pub unreadable: u64,
    /// What happened when.
    pub timeline: Timeline,
    /// Modules that were called, by the digests of their facts.
    pub modules: BTreeMap<Digest, OfModule>,
    /// Calls of modules for which there was no room.
    pub other_calls: u64,
    /// How often calls hit limits, those that they survived included.
    pub limits: BTreeMap<Limit, u64>,
    /// In which ways calls failed, as in `failed:fuel`.
    pub failures: BTreeMap<String, u64>,
    /// Who was denied what.
    denials: Top<Refusal>,
    /// What changed, and what is missing.
    changes: VecDeque<Change>,
}

/// A module that was called.
#[derive(Debug, Default)]
pub struct OfModule {
    /// What is known of it; none where that is missing.
    pub facts: Option<Facts>,
    /// How often it was called, the starts of its instances included.
    pub calls: u64,
    /// How many of these failed.
    pub failures: u64,
    /// How long they took together ...
    pub time: Duration,
    /// ... and the longest.
    pub longest: Duration,
    /// The limits that it hit.
    pub hits: BTreeSet<Limit>,
}

/// Somebody was denied something.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Refusal {
    user: Option<u32>,
    job: Option<String>,
    what: String,
    by: String,
    why: String,
}

/// Something that is neither a call nor a decision.
#[derive(Debug)]
struct Change {
    seq: u64,
    at: u64,
    kind: &'static str,
    what: Vec<String>,
}

impl Report {
    /// Of the records that are wanted.
    pub fn of(source: &Source, filter: &Filter) -> Result<Report, AuditError> {
        let mut report = Report::default();
        source.each::<AuditError>(filter, |row| {
            let range = report.range.get_or_insert([(row.seq, row.at); 2]);
            range[1] = (row.seq, row.at);
            // One that somebody altered is no reason to show nothing; what is wrong with it says `verify`.
            match Entry::read(&row.body) {
                Ok(entry) => report.add(source, &row, entry),
                Err(_) => report.unreadable += 1,
            }
            Ok(())
        })?;
        Ok(report)
    }

    fn add(&mut self, source: &Source, row: &TrailRow, entry: Entry) {
        *self.kinds.entry(entry.kind()).or_default() += 1;
        let kind = entry.kind();
        match entry {
            Entry::Call(call) => self.call(source, row.at, &call),
            Entry::Decision(decision) => self.decision(row, &decision),
            Entry::Denied(denial) => self.denial(row, denial),
            Entry::Began { server, key, handlers, boot: _ } => {
                let sampled = format!("{server}, recording one in {handlers} instances of handlers, signing as {key}");
                self.change(row, kind, vec![sampled]);
            }
            Entry::Ended => self.change(row, kind, vec!["in good order".to_owned()]),
            Entry::Deployed { version, cause, changes } => {
                self.change(row, kind, [vec![format!("version {version}, {cause}")], changes].concat());
            }
            Entry::Refused { reasons } => self.change(row, kind, reasons),
            Entry::Quarantined { module, failures, last, .. } => {
                self.change(row, kind, vec![format!("{module} after {failures} failures, the last: {}", last.reason)]);
            }
            Entry::Gap { calls, reason } => {
                let missing = calls.map_or("an unknown number of".to_owned(), |calls| calls.to_string());
                let why = match reason {
                    GapReason::Overload => "more was to be recorded than could be",
                    GapReason::NotWritten => "they could not be written",
                    GapReason::Crash => "the server before did not end in good order",
                };
                self.change(row, kind, vec![format!("{missing} records are missing: {why}")]);
            }
        }
    }

    fn call(&mut self, source: &Source, at: u64, call: &Call) {
        let record = &call.record;
        let failed = matches!(record.end, End::Failed(_));
        let counts = self.timeline.at(at);
        counts.calls += 1;
        counts.failures += u64::from(failed);
        record.usage.hits.iter().for_each(|limit| *self.limits.entry(limit).or_default() += 1);
        if failed {
            *self.failures.entry(outcome(&record.end).into_owned()).or_default() += 1;
        }
        if !self.modules.contains_key(&call.facts) && self.modules.len() == MODULES {
            self.other_calls += 1;
            return;
        }
        // Facts that are missing or make no sense are shown as such.
        let facts = || source.facts(call).ok().flatten();
        let module = self.modules.entry(call.facts);
        let module = module.or_insert_with(|| OfModule { facts: facts(), ..OfModule::default() });
        module.calls += 1;
        module.failures += u64::from(failed);
        module.time = module.time.saturating_add(record.time);
        module.longest = module.longest.max(record.time);
        module.hits.extend(record.usage.hits.iter());
    }

    fn decision(&mut self, row: &TrailRow, decision: &Decision) {
        let counts = self.timeline.at(row.at);
        let Ruling::Denied(status) = decision.ruling else {
            counts.granted += 1;
            return;
        };
        counts.denied += 1;
        let why = match reasons(&decision.reasons) {
            reasons if reasons.is_empty() => status.to_string(),
            reasons => reasons,
        };
        let by = shortened(&decision.by);
        let what = shortened(&asked(&decision.hook, &decision.asked));
        let job = row.job.as_deref().map(shortened);
        self.denials.add(Refusal { user: row.uid, job, what, by, why }, row.seq, row.at);
    }

    fn denial(&mut self, row: &TrailRow, denial: Denial) {
        self.timeline.at(row.at).denied += 1;
        let Denial { uid, job, reason } = denial;
        let (what, by) = ("connection".to_owned(), "the server".to_owned());
        let (job, why) = (job.as_deref().map(shortened), shortened(&reason));
        self.denials.add(Refusal { user: uid, job, what, by, why }, row.seq, row.at);
    }

    fn change(&mut self, row: &TrailRow, kind: &'static str, lines: Vec<String>) {
        if self.changes.len() == CHANGES {
            self.changes.pop_front();
        }
        let more = lines.len().saturating_sub(LINES);
        let mut what: Vec<String> = lines.iter().take(LINES).map(|line| shortened(line)).collect();
        if more > 0 {
            what.push(format!("and {more} more"));
        }
        self.changes.push_back(Change { seq: row.seq, at: row.at, kind, what });
    }

    /// How many records there are of a kind.
    pub fn count(&self, kind: &str) -> u64 {
        self.kinds.get(kind).copied().unwrap_or_default()
    }

    /// How many there are in all.
    pub fn records(&self) -> u64 {
        self.kinds.values().sum::<u64>() + self.unreadable
    }
}

/// What was asked, and about whom.
fn asked(hook: &str, request: &PolicyRequest) -> String {
    let named = |names: Vec<String>, all: usize| match all.saturating_sub(names.len()) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    };
    let mut what = hook.to_owned();
    if let Matter::Event { code, .. } = request.matter {
        what.push_str(&format!(" {code}"));
    }
    if !request.codes.is_empty() {
        let codes = request.codes.iter().take(NAMED).map(ToString::to_string).collect();
        what.push_str(&format!(" for {}", named(codes, request.codes.len())));
    }
    if !request.targets.is_empty() {
        // Jobs, not procs, so that what is the same stands together.
        let jobs: BTreeSet<&str> = request.targets.iter().map(|target| target.proc.nspace.as_str()).collect();
        let names = jobs.iter().take(NAMED).map(|&job| job.to_owned()).collect();
        what.push_str(&format!(" of {}", named(names, jobs.len())));
    }
    what
}

/// What was said in words; of what is no text the key.
fn reasons(infos: &[Info]) -> String {
    let said = |info: &Info| info.value.as_str().unwrap_or(info.key.as_str()).to_owned();
    shortened(&infos.iter().take(LINES).map(said).collect::<Vec<_>>().join("; "))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

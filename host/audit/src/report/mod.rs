//! Summary of a trail: modules and their grants, decisions over time, denials, failures. It is
//! computed in one pass and in bounded memory; [`page`] renders it.
mod chart;
mod html;
mod page;
mod timeline;
mod top;

use crate::{
    AuditEntry, AuditError, CallEntry, DecisionEntry, DecisionKind, Gist, ModuleFacts,
    RefusalGroup, TrailSource,
    gist::{MAX_LINES, shortened},
    outcome::{FAILED, outcome},
    readable::shown_time,
};
use peal_model::counted;
use peal_sandbox::{CallEnd, Digest, LimitKind};
use peal_store::{Filter, TrailRow};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};
use top::TopItems;

pub use page::page;
pub use timeline::{Counts, Timeline};

/// Maximum number of modules in a report; the calls of further ones are counted.
const MAX_MODULES: usize = 200;
/// Maximum number of changes in a report, the latest.
const MAX_CHANGES: usize = 100;

/// A report about a trail.
#[derive(Debug, Default)]
pub struct TrailReport {
    /// The first and the last record, each with its time.
    pub range: Option<[(u64, u64); 2]>,
    /// The number of records of each kind.
    pub kinds: BTreeMap<&'static str, u64>,
    /// The number of records that cannot be read.
    pub unreadable: u64,
    /// Counts over time.
    pub timeline: Timeline,
    /// The called modules by the digests of their facts.
    pub modules: BTreeMap<Digest, ModuleSummary>,
    /// The number of calls of modules beyond the maximum.
    pub other_calls: u64,
    /// The number of hits of each limit, including hits that a call survived.
    pub limits: BTreeMap<LimitKind, u64>,
    /// The number of failures by outcome, as in `failed:fuel`.
    pub failures: BTreeMap<String, u64>,
    /// The most frequent denials.
    denials: TopItems<DenialSummary>,
    /// Other entries: changes and gaps.
    changes: VecDeque<OtherEntry>,
}

/// Summary of a called module.
#[derive(Debug, Default)]
pub struct ModuleSummary {
    /// The facts of the module; `None` if they are missing.
    pub facts: Option<ModuleFacts>,
    /// The number of calls, including starts of instances.
    pub calls: u64,
    /// The number of failed calls.
    pub failures: u64,
    /// The total duration of the calls.
    pub time: Duration,
    /// The duration of the longest call.
    pub longest: Duration,
    /// The limits that calls hit.
    pub hits: BTreeSet<LimitKind>,
}

/// A kind of denial. The job is not part of it, since each tool has a namespace of its own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct DenialSummary {
    user: Option<u32>,
    subject: String,
    decided_by: String,
    reason: String,
}

/// An entry that is neither a call nor a decision.
#[derive(Debug)]
struct OtherEntry {
    seq: u64,
    at: u64,
    kind: &'static str,
    texts: Vec<String>,
}

impl TrailReport {
    /// Summarizes the records that match `filter`.
    pub fn of(source: &TrailSource, filter: &Filter) -> Result<TrailReport, AuditError> {
        let mut report = TrailReport::default();
        source.each::<AuditError>(filter, |row| {
            let range = report.range.get_or_insert([(row.seq, row.at); 2]);
            range[1] = (row.seq, row.at);
            // An altered record must not stop the report; `verify` reports the error.
            match AuditEntry::read(&row.body) {
                Ok(entry) => report.add(source, &row, entry),
                Err(_) => report.unreadable += 1,
            }
            Ok(())
        })?;
        Ok(report)
    }

    fn add(&mut self, source: &TrailSource, row: &TrailRow, entry: AuditEntry) {
        *self.kinds.entry(entry.kind()).or_default() += 1;
        let kind = entry.kind();
        match entry {
            AuditEntry::Call(call) => self.call(source, row.at, &call),
            AuditEntry::Decision(decision) => self.decision(row, &decision),
            AuditEntry::Denied(denial) => self.denials(row, &denial.gist(), 1),
            AuditEntry::Refusals(group) if group.counts_calls() => {
                self.counted_calls(row.at, &group)
            }
            AuditEntry::Refusals(group) => self.denials(row, &group.example.gist(), group.count),
            AuditEntry::Dropped(dropped) => {
                let since = shown_time(dropped.since);
                let until = shown_time(dropped.until);
                let which = format!(
                    "{} from {} to {}, written from {since} to {until}",
                    counted(dropped.count(), "record"),
                    dropped.from,
                    dropped.to
                );
                self.change(row, kind, vec![which, dropped.of_kinds()]);
            }
            AuditEntry::Began {
                server,
                key,
                handlers,
                boot: _,
                run: _,
            } => {
                let sampled = format!(
                    "{server}, recording one in {handlers} instances of handlers, signing as {key}"
                );
                self.change(row, kind, vec![sampled]);
            }
            AuditEntry::Ended => self.change(row, kind, vec!["in good order".to_owned()]),
            AuditEntry::Deployed {
                version,
                cause,
                changes,
            } => {
                self.change(
                    row,
                    kind,
                    [vec![format!("version {version}, {cause}")], changes].concat(),
                );
            }
            AuditEntry::Refused { reasons } => self.change(row, kind, reasons),
            AuditEntry::Quarantined {
                module,
                failures,
                last,
                ..
            } => {
                self.change(
                    row,
                    kind,
                    vec![format!(
                        "{module} after {failures} failures, the last: {}",
                        last.reason
                    )],
                );
            }
            AuditEntry::Gap { calls, reason } => {
                let missing =
                    calls.map_or("an unknown number of".to_owned(), |calls| calls.to_string());
                self.change(
                    row,
                    kind,
                    vec![format!("{missing} records are missing: {}", reason.words())],
                );
            }
        }
    }

    fn call(&mut self, source: &TrailSource, at: u64, call: &CallEntry) {
        let record = &call.record;
        let failed = matches!(record.end, CallEnd::Failed(_));
        let counts = self.timeline.at(at);
        counts.calls += 1;
        counts.failures += u64::from(failed);
        record
            .usage
            .hits
            .iter()
            .for_each(|limit| *self.limits.entry(limit).or_default() += 1);
        if failed {
            *self
                .failures
                .entry(outcome(&record.end).into_owned())
                .or_default() += 1;
        }
        if !self.modules.contains_key(&call.facts) && self.modules.len() == MAX_MODULES {
            self.other_calls += 1;
            return;
        }
        // Missing or unreadable facts are shown as missing.
        let facts = || source.facts(call).ok().flatten();
        let module = self.modules.entry(call.facts);
        let module = module.or_insert_with(|| ModuleSummary {
            facts: facts(),
            ..ModuleSummary::default()
        });
        module.calls += 1;
        module.failures += u64::from(failed);
        module.time = module.time.saturating_add(record.time);
        module.longest = module.longest.max(record.time);
        module.hits.extend(record.usage.hits.iter());
    }

    /// Adds calls that were only counted. Their durations are not known.
    fn counted_calls(&mut self, at: u64, group: &RefusalGroup) {
        let counts = self.timeline.at(at);
        counts.calls += group.count;
        let outcome = &group.example.reason;
        if outcome.starts_with(FAILED) {
            counts.failures += group.count;
            *self.failures.entry(outcome.clone()).or_default() += group.count;
        }
    }

    fn decision(&mut self, row: &TrailRow, decision: &DecisionEntry) {
        let counts = self.timeline.at(row.at);
        match decision.verdict {
            DecisionKind::Granted => counts.granted += 1,
            DecisionKind::Denied(_) => self.denials(row, &decision.gist(), 1),
        }
    }

    fn denials(&mut self, row: &TrailRow, gist: &Gist, count: u64) {
        self.timeline.at(row.at).denied += count;
        // Denials that differ in the name of the requester only would be counted apart.
        let reason = row
            .job
            .as_deref()
            .map_or_else(|| gist.why.clone(), |job| without_requester(&gist.why, job));
        let subject = gist.about_jobs();
        let decided_by = gist.by.clone();
        let job = row.job.as_deref().map(shortened);
        self.denials.add(
            DenialSummary {
                user: row.uid,
                subject,
                decided_by,
                reason,
            },
            job,
            count,
            (row.seq, row.at),
        );
    }

    fn change(&mut self, row: &TrailRow, kind: &'static str, lines: Vec<String>) {
        // The page shows the latest changes, so the oldest one goes.
        if self.changes.len() == MAX_CHANGES {
            self.changes.pop_front();
        }
        let more = lines.len().saturating_sub(MAX_LINES);
        let mut texts: Vec<String> = lines
            .iter()
            .take(MAX_LINES)
            .map(|line| shortened(line))
            .collect();
        if more > 0 {
            texts.push(format!("and {more} more"));
        }
        self.changes.push_back(OtherEntry {
            seq: row.seq,
            at: row.at,
            kind,
            texts,
        });
    }

    /// Returns the number of records of a kind.
    pub fn count(&self, kind: &str) -> u64 {
        self.kinds.get(kind).copied().unwrap_or_default()
    }

    /// Returns the number of all records.
    pub fn records(&self) -> u64 {
        self.kinds.values().sum::<u64>() + self.unreadable
    }
}

/// Replaces procs of the requester's job by "the requester", so that equal reasons read equal.
fn without_requester(why: &str, job: &str) -> String {
    let mut text = String::new();
    let mut rest = why;
    let name = format!("{job}:");
    while let Some(at) = rest.find(&name) {
        let (before, found) = rest.split_at(at);
        let behind = found.strip_prefix(&name).unwrap_or_default();
        let rank = behind
            .find(|of: char| !of.is_ascii_digit())
            .unwrap_or(behind.len());
        // The name may be the end of a longer name, which is not the requester's.
        let is_inside = before.ends_with(|of: char| of.is_alphanumeric() || "-_.".contains(of));
        text.push_str(before);
        let (end, replacement) = if rank > 0 && !is_inside {
            (name.len() + rank, "the requester")
        } else {
            (name.len(), &*name)
        };
        text.push_str(replacement);
        rest = found.get(end..).unwrap_or_default();
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::without_requester;

    #[test]
    fn requester_is_not_named_in_reasons() {
        let short = |why: &str| without_requester(why, "a");
        assert_eq!(
            short("b:0 belongs to user 0, a:17 to user 1"),
            "b:0 belongs to user 0, the requester to user 1"
        );
        assert_eq!(short("a:0"), "the requester");
        for as_it_is in ["", "aa:0 and ä:", "data:0", "x-a:0", "a: no", "a:"] {
            assert_eq!(short(as_it_is), as_it_is);
        }
    }
}

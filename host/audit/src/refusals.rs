//! Grouping of denials, since any user can cause any number of them. The first denial of a user for
//! a cause is recorded by itself. Later ones are counted and recorded as one group per interval,
//! user and cause.
use crate::{AdmissionDenial, AuditEntry, RefusalGroup};
use peal_model::Status;
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Maximum number of distinct causes per user.
const MAX_CAUSES_PER_USER: usize = 16;
/// Maximum number of distinct users.
const MAX_USERS: usize = 256;
/// Maximum number of denials in an interval that are recorded by themselves. One person may have
/// many users, as those that the kernel gives to containers.
const MAX_ALONE: usize = 64;
/// Maximum length of the interval of denials that do not cease, in intervals. It doubles with each
/// group.
const MAX_INTERVALS: u32 = 64;

/// The cause of a denial. Its parts come from the server and its admins, not from clients.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Cause {
    Known {
        hook: Option<String>,
        by: Option<String>,
        status: Option<Status>,
        cause: Option<String>,
    },
    /// All causes beyond the maximum.
    Others,
}

impl Cause {
    fn of(denial: &AdmissionDenial) -> Cause {
        let AdmissionDenial {
            hook,
            by,
            status,
            cause,
            ..
        } = denial.clone();
        // Without the reason and the job, which a client could vary at will.
        Cause::Known {
            hook,
            by,
            status,
            cause,
        }
    }
}

/// Interval in which the denials of one user for one cause are counted.
#[derive(Debug)]
struct Window {
    until: Instant,
    /// Length in intervals.
    length: u32,
    counted: Option<RefusalGroup>,
}

/// Denials by user and cause.
#[derive(Debug, Default)]
struct Windows {
    users: BTreeMap<Option<u32>, BTreeMap<Cause, Window>>,
    alone: DenialsAlone,
}

/// Denials in the present interval that were recorded by themselves.
#[derive(Debug, Default)]
struct DenialsAlone {
    count: usize,
    until: Option<Instant>,
}

impl DenialsAlone {
    /// Returns true if another one may be recorded by itself.
    fn take(&mut self, now: Instant, interval: Duration) -> bool {
        if self.until.is_none_or(|until| until <= now) {
            (self.count, self.until) = (0, Some(now + interval));
        }
        let may = self.count < MAX_ALONE;
        self.count += usize::from(may);
        may
    }
}

/// Treatment of a denial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DenialTreatment {
    /// The denial is recorded by itself.
    First,
    /// The denial was counted.
    Counted,
}

/// Counts of recent denials.
#[derive(Debug)]
pub(crate) struct GroupedDenials {
    interval: Duration,
    windows: Mutex<Windows>,
}

impl GroupedDenials {
    pub(crate) fn new(interval: Duration) -> GroupedDenials {
        GroupedDenials {
            interval,
            windows: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Windows> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a denial, even if it is the first.
    pub(crate) fn count(&self, denial: &AdmissionDenial, at: u64, now: Instant) {
        if self.note(denial, at, now) == DenialTreatment::First {
            // The first call has only opened the interval.
            self.note(denial, at, now);
        }
    }

    /// Counts a denial if one with the same user and cause was recorded in this interval.
    pub(crate) fn note(&self, denial: &AdmissionDenial, at: u64, now: Instant) -> DenialTreatment {
        let mut all = self.lock();
        let Windows { users, alone } = &mut *all;
        let mut uid = denial.uid;
        if !users.contains_key(&uid) && users.len() >= MAX_USERS {
            // Users beyond the bound share one entry, so that their number does not take memory.
            uid = None;
        }
        let windows = users.entry(uid).or_default();
        let mut cause = Cause::of(denial);
        if !windows.contains_key(&cause) && windows.len() >= MAX_CAUSES_PER_USER {
            // For causes a shared entry bounds the memory, too.
            cause = Cause::Others;
        }
        let group = |count| RefusalGroup {
            uid,
            count,
            first: at,
            last: at,
            example: denial.clone(),
        };
        // The first denial of the interval was recorded by itself, so this one is only counted.
        if let Some(window) = windows.get_mut(&cause) {
            let group = window.counted.get_or_insert_with(|| group(0));
            group.count += 1;
            group.last = at;
            return DenialTreatment::Counted;
        }
        let is_alone = alone.take(now, self.interval);
        windows.insert(
            cause,
            Window {
                until: now + self.interval,
                length: 1,
                counted: (!is_alone).then(|| group(1)),
            },
        );
        if is_alone {
            DenialTreatment::First
        } else {
            DenialTreatment::Counted
        }
    }

    /// Takes the groups whose interval has ended. If an interval had no denials, the next denial is
    /// recorded by itself again.
    pub(crate) fn due(&self, now: Instant) -> Vec<AuditEntry> {
        let mut due = Vec::new();
        let mut all = self.lock();
        all.users.retain(|_, windows| {
            windows.retain(|_, window| {
                if window.until > now {
                    return true;
                }
                let counted = window.counted.take();
                // Denials that do not cease need no record each second.
                window.length = window.length.saturating_mul(2).min(MAX_INTERVALS);
                window.until = now + self.interval * window.length;
                let is_open = counted.is_some();
                due.extend(counted.map(AuditEntry::Refusals));
                is_open
            });
            !windows.is_empty()
        });
        due
    }

    /// Takes all groups.
    pub(crate) fn rest(&self) -> Vec<AuditEntry> {
        let users = std::mem::take(&mut self.lock().users);
        let windows = users.into_values().flat_map(BTreeMap::into_values);
        windows
            .filter_map(|window| window.counted)
            .map(AuditEntry::Refusals)
            .collect()
    }

    /// Returns the time until the next group is due; `None` if nothing is counted.
    pub(crate) fn due_within(&self, now: Instant) -> Option<Duration> {
        let all = self.lock();
        let next = all
            .users
            .values()
            .flat_map(BTreeMap::values)
            .map(|window| window.until)
            .min();
        next.map(|until| until.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn denial(uid: u32, cause: &str) -> AdmissionDenial {
        AdmissionDenial {
            uid: Some(uid),
            cause: Some(cause.to_owned()),
            ..AdmissionDenial::default()
        }
    }

    #[test]
    fn flood_costs_one_record_for_each_user_and_interval() {
        let refusals = GroupedDenials::new(SECOND);
        let start = Instant::now();
        let mut entries = Vec::new();
        let mut alone = 0;
        for tick in 0..60_000_u32 {
            let now = start + SECOND / 12_000 * tick;
            for uid in [1, 2] {
                alone += u32::from(
                    refusals.note(&denial(uid, "malformed"), tick.into(), now)
                        == DenialTreatment::First,
                );
            }
            entries.extend(refusals.due(now));
        }
        entries.extend(refusals.rest());
        assert_eq!(alone, 2);
        // After 1 s, 3 s, and at the end.
        assert_eq!(entries.len(), 6);
        let counted = entries.iter().map(|entry| match entry {
            AuditEntry::Refusals(group) => group.count,
            _ => 0,
        });
        assert_eq!(counted.sum::<u64>() + u64::from(alone), 120_000);
    }

    #[test]
    fn refusal_after_a_quiet_interval_is_recorded_by_itself() {
        let refusals = GroupedDenials::new(SECOND);
        let start = Instant::now();
        assert_eq!(
            refusals.note(&denial(1, "malformed"), 0, start),
            DenialTreatment::First
        );
        assert_eq!(
            refusals.note(&denial(1, "malformed"), 1, start),
            DenialTreatment::Counted
        );
        assert_eq!(
            refusals.note(&denial(1, "slow"), 1, start),
            DenialTreatment::First,
            "for another cause"
        );
        assert_eq!(refusals.due_within(start), Some(SECOND));
        assert_eq!(refusals.due(start + SECOND / 2), []);
        assert_eq!(refusals.due(start + SECOND).len(), 1);
        assert_eq!(
            refusals.note(&denial(1, "slow"), 2, start + SECOND),
            DenialTreatment::First
        );
        assert_eq!(
            refusals.note(&denial(1, "malformed"), 2, start + SECOND),
            DenialTreatment::Counted,
            "just after a group"
        );
        // The next interval is twice as long.
        assert_eq!(refusals.due(start + 2 * SECOND), []);
        assert_eq!(refusals.due(start + 3 * SECOND).len(), 1);
        assert_eq!(refusals.due(start + 7 * SECOND), []);
        assert_eq!(refusals.due_within(start), None, "nothing is remembered");
        assert_eq!(
            refusals.note(&denial(1, "malformed"), 3, start + 7 * SECOND),
            DenialTreatment::First
        );
    }

    #[test]
    fn users_and_causes_are_bounded() {
        let refusals = GroupedDenials::new(SECOND);
        let start = Instant::now();
        for uid in 0..1000 {
            for cause in 0..100 {
                refusals.note(&denial(uid, &cause.to_string()), 0, start);
            }
        }
        let all = refusals.lock();
        let users = &all.users;
        assert!(
            users.len() <= MAX_USERS + 1
                && users
                    .values()
                    .all(|windows| windows.len() <= MAX_CAUSES_PER_USER + 1)
        );
        drop(all);
        assert!(refusals.rest().len() <= (MAX_USERS + 1) * (MAX_CAUSES_PER_USER + 1));
    }

    #[test]
    fn person_with_many_users_has_few_records_alone() {
        let refusals = GroupedDenials::new(SECOND);
        let start = Instant::now();
        let mut alone = 0;
        let mut counted = 0;
        for second in 0..10_u32 {
            let now = start + SECOND * second;
            for uid in 0..5000 {
                // None of them is refused twice within an interval.
                let denial = denial(second * 5000 + uid, "malformed");
                alone += usize::from(refusals.note(&denial, 0, now) == DenialTreatment::First);
            }
            for entry in refusals.due(now) {
                let AuditEntry::Refusals(group) = entry else {
                    panic!("{entry:?}")
                };
                counted += group.count;
            }
        }
        for entry in refusals.rest() {
            let AuditEntry::Refusals(group) = entry else {
                panic!("{entry:?}")
            };
            counted += group.count;
        }
        assert!((1..=10 * MAX_ALONE).contains(&alone), "{alone} alone");
        assert_eq!(counted + alone as u64, 50_000, "none is missing");
    }
}

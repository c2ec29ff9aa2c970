//! Entries of the records of jobs: events, control and log messages in the order of time.
use crate::{
    Store, StoreError,
    jobs::SELECT_LAST_JOB,
    read,
    record_budget::{self, RecordBudget, RecordLimit, RecordedJob, entry_bytes},
    stored,
};
use peal_model::{Nspace, Rank};
use rusqlite::{OptionalExtension, Transaction, params};
use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

/// Subject of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobEntryKind {
    /// An event that affected the job.
    Event,
    /// An action of a user or module on the job.
    Control,
    /// A message logged to the job.
    Log,
    /// Missing entries.
    Gap,
}

impl JobEntryKind {
    const ALL: [JobEntryKind; 4] = [
        JobEntryKind::Event,
        JobEntryKind::Control,
        JobEntryKind::Log,
        JobEntryKind::Gap,
    ];

    /// Returns the name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            JobEntryKind::Event => "event",
            JobEntryKind::Control => "control",
            JobEntryKind::Log => "log",
            JobEntryKind::Gap => "gap",
        }
    }

    /// Returns the kind of this name; that of missing entries for other names.
    pub fn of(name: &str) -> JobEntryKind {
        JobEntryKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .unwrap_or(JobEntryKind::Gap)
    }
}

/// An entry of a job's record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobRecordEntry {
    /// The time in milliseconds since the epoch.
    pub at: u64,
    /// The subject.
    pub kind: JobEntryKind,
    /// The affected or sending proc, if there is one.
    pub rank: Option<Rank>,
    /// The body, an object of JSON. Jobs affected by one event share it.
    pub body: Arc<str>,
}

/// Result of adding entries to a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddedEntries {
    /// The number of written entries.
    pub written: usize,
    /// The entries that were left out, if any.
    pub left_out: Option<LeftOutEntries>,
}

/// Entries left out for lack of space. The record has a count of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeftOutEntries {
    /// The number of entries left out.
    pub count: usize,
    /// The limit that the first of them exceeded.
    pub limit: RecordLimit,
}

impl JobRecordEntry {
    /// Builds an entry with the present time.
    pub fn now(
        kind: JobEntryKind,
        rank: Option<Rank>,
        body: impl Into<Arc<str>>,
    ) -> JobRecordEntry {
        JobRecordEntry {
            at: now(),
            kind,
            rank,
            body: body.into(),
        }
    }
}

fn now() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Store {
    /// Adds entries to the record of the last job with this name. Entries beyond the limits are
    /// counted.
    ///
    /// # Errors
    ///
    /// After an error no entry is written. If the store is full, the entries are counted.
    pub fn add_job_entries(
        &self,
        nspace: &Nspace,
        entries: &[JobRecordEntry],
    ) -> Result<AddedEntries, StoreError> {
        let added = self.write_for_users(|transaction| match recorded(transaction, nspace)? {
            Some(job) => self.add(transaction, job, entries).map(Some),
            None => Ok(None),
        });
        if let Err(StoreError::Full { .. }) = added {
            // An update in place takes no space.
            self.write(|transaction| match recorded(transaction, nspace)? {
                Some(job) => record_budget::leave_out(transaction, job.id, entries.len(), now()),
                None => Ok(()),
            })?;
        }
        added?.ok_or_else(|| self.unknown_job(nspace))
    }

    fn add(
        &self,
        transaction: &Transaction<'_>,
        job: RecordedJob,
        entries: &[JobRecordEntry],
    ) -> rusqlite::Result<AddedEntries> {
        let wanted = entries.iter().map(|entry| entry_bytes(&entry.body)).sum();
        let mut budget = RecordBudget::make(transaction, &self.settings.records, &job, wanted)?;
        let insert =
            "insert into job_entry (job, at, kind, rank, body) values (?1, ?2, ?3, ?4, ?5)";
        let mut insert = transaction.prepare_cached(insert)?;
        let mut bytes = 0;
        let mut added = AddedEntries {
            written: 0,
            left_out: None,
        };
        for JobRecordEntry {
            at,
            kind,
            rank,
            body,
        } in entries
        {
            // A later entry may be smaller and fit.
            if let Err(limit) = budget.take(body) {
                added
                    .left_out
                    .get_or_insert(LeftOutEntries { count: 0, limit })
                    .count += 1;
                continue;
            }
            insert.execute(params![
                job.id,
                stored(*at),
                kind.name(),
                rank.map(|rank| rank.0),
                &**body
            ])?;
            added.written += 1;
            bytes += entry_bytes(body);
        }
        // A trigger on this update keeps the size of all entries of the user.
        let update =
            "update job set entries = entries + ?2, entry_bytes = entry_bytes + ?3 where id = ?1";
        transaction.prepare_cached(update)?.execute(params![
            job.id,
            stored(added.written as u64),
            stored(bytes)
        ])?;
        if let Some(left_out) = added.left_out {
            record_budget::leave_out(transaction, job.id, left_out.count, now())?;
        }
        Ok(added)
    }

    /// Counts lost notices, some of them perhaps about this job.
    pub fn add_missed_notices(&self, nspace: &Nspace, notices: u64) -> Result<(), StoreError> {
        let update = format!(
            // The time of the first loss stays: `gaps` gives the entry this time.
            "update job set missed = missed + ?2, missed_at = coalesce(missed_at, ?3) where id = {SELECT_LAST_JOB}"
        );
        let values = params![nspace.as_str(), stored(notices), stored(now())];
        let written = self.write(|transaction| transaction.execute(&update, values))?;
        if written == 0 {
            Err(self.unknown_job(nspace))
        } else {
            Ok(())
        }
    }

    /// Returns entries for the gaps in a job's record.
    fn gaps(&self, nspace: &Nspace) -> Result<Vec<JobRecordEntry>, StoreError> {
        // Gaps are counts in the row of the job: a full store has no space for further entries.
        let select = format!(
            "select left_out, left_out_at, missed, missed_at from job where id = {SELECT_LAST_JOB}"
        );
        let gap = |at: Option<i64>, what: &str, count: i64| JobRecordEntry {
            at: read(at.unwrap_or_default()),
            kind: JobEntryKind::Gap,
            rank: None,
            body: format!("{{\"{what}\":{count}}}").into(),
        };
        self.read(|connection| {
            let found = connection.query_row(&select, [nspace.as_str()], |row| {
                let (left_out, missed): (i64, i64) = (row.get(0)?, row.get(2)?);
                let left_out = (left_out > 0).then_some(gap(row.get(1)?, "entries", left_out));
                let missed = (missed > 0).then_some(gap(row.get(3)?, "notices", missed));
                Ok(left_out.into_iter().chain(missed).collect())
            });
            found.optional().map(Option::unwrap_or_default)
        })
    }

    /// Returns the entries of the last job with this name, earliest first.
    pub fn job_entries(&self, nspace: &Nspace) -> Result<Vec<JobRecordEntry>, StoreError> {
        let select = format!(
            "select at, kind, rank, body from job_entry where job = {SELECT_LAST_JOB} order by at, id"
        );
        let gaps = self.gaps(nspace)?;
        let mut entries: Vec<JobRecordEntry> = self.read(|connection| {
            let mut select = connection.prepare(&select)?;
            let rows = select.query_map([nspace.as_str()], |row| {
                let (at, kind, rank): (i64, String, Option<u32>) =
                    (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok(JobRecordEntry {
                    at: read(at),
                    kind: JobEntryKind::of(&kind),
                    rank: rank.map(Rank),
                    body: row.get::<_, String>(3)?.into(),
                })
            })?;
            rows.collect()
        })?;
        entries.extend(gaps);
        // A stable sort: entries of the same millisecond stay in the order in which they were
        // added.
        entries.sort_by_key(|entry| entry.at);
        Ok(entries)
    }
}

/// Returns the last job with this name, and the size of its entries.
fn recorded(
    transaction: &Transaction<'_>,
    nspace: &Nspace,
) -> rusqlite::Result<Option<RecordedJob>> {
    let select =
        format!("select id, uid, entries, entry_bytes from job where id = {SELECT_LAST_JOB}");
    let found = transaction
        .prepare_cached(&select)?
        .query_row([nspace.as_str()], |row| {
            Ok(RecordedJob {
                id: row.get(0)?,
                uid: row.get(1)?,
                entries: row.get(2)?,
                bytes: read(row.get(3)?),
            })
        });
    found.optional()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LONGEST_JOB_ENTRY;
    use crate::{JobStart, RecordLimits, StoreSettings};

    fn entry(at: u64, kind: JobEntryKind, body: &str) -> JobRecordEntry {
        JobRecordEntry {
            at,
            kind,
            rank: Some(Rank(3)),
            body: body.into(),
        }
    }

    fn start<'a>(nspace: &'a Nspace, uid: u32, command: &'a str) -> JobStart<'a> {
        JobStart {
            nspace,
            uid,
            size: 1,
            command,
            at: 1,
        }
    }

    /// A store whose records are small: three entries of ten bytes for a job, six for a user, nine
    /// for all.
    fn small(dir: &std::path::Path) -> Store {
        let records = RecordLimits {
            bytes: 9 * 74,
            user_bytes: 6 * 74,
            job_bytes: 3 * 74,
            job_entries: 5,
        };
        Store::open(
            &dir.join("peal.db"),
            StoreSettings {
                records,
                ..StoreSettings::default()
            },
        )
        .unwrap()
    }

    fn ten(number: usize) -> JobRecordEntry {
        entry(number as u64, JobEntryKind::Event, &format!("{number:010}"))
    }

    fn gap(entries: u64) -> Arc<str> {
        format!("{{\"entries\":{entries}}}").into()
    }

    fn bodies(store: &Store, nspace: &Nspace) -> Vec<Arc<str>> {
        store
            .job_entries(nspace)
            .unwrap()
            .into_iter()
            .map(|entry| entry.body)
            .collect()
    }

    #[test]
    fn entries_come_in_time_order_and_belong_to_last_job_of_name() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Store::open(&dir.path().join("peal.db"), StoreSettings::default()).unwrap();
        let store = open();
        let nspace = Nspace::new("job").unwrap();
        let error = store
            .add_job_entries(&nspace, &[entry(1, JobEntryKind::Log, "{}")])
            .unwrap_err();
        assert!(matches!(error, StoreError::UnknownJob { .. }), "{error}");
        store.job_started(start(&nspace, 7, "first")).unwrap();
        store
            .add_job_entries(&nspace, &[entry(1, JobEntryKind::Gap, "old")])
            .unwrap();
        store.job_started(start(&nspace, 7, "second")).unwrap();
        let late = entry(9, JobEntryKind::Event, "late");
        let early = entry(5, JobEntryKind::Control, "early");
        let host = JobRecordEntry {
            rank: None,
            ..entry(9, JobEntryKind::Log, "logged")
        };
        store
            .add_job_entries(&nspace, &[late.clone(), early.clone()])
            .unwrap();
        store
            .add_job_entries(&nspace, std::slice::from_ref(&host))
            .unwrap();
        drop(store);
        assert_eq!(open().job_entries(&nspace).unwrap(), [early, late, host]);
        assert_eq!(
            open().job_entries(&Nspace::new("other").unwrap()).unwrap(),
            []
        );
    }

    #[test]
    fn batch_is_written_as_far_as_it_fits_and_the_rest_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let store = small(dir.path());
        let nspace = Nspace::new("job").unwrap();
        store.job_started(start(&nspace, 7, "./app")).unwrap();
        let batch: Vec<JobRecordEntry> = (0..5).map(ten).collect();
        let added = store.add_job_entries(&nspace, &batch).unwrap();
        let left_out = |count, limit| Some(LeftOutEntries { count, limit });
        assert_eq!(
            added,
            AddedEntries {
                written: 3,
                left_out: left_out(2, RecordLimit::Job)
            }
        );
        assert_eq!(
            store.add_job_entries(&nspace, &batch).unwrap().left_out,
            left_out(5, RecordLimit::Job)
        );
        let expected: Vec<Arc<str>> = (0..3)
            .map(|number| ten(number).body)
            .chain([gap(7)])
            .collect();
        assert_eq!(bodies(&store, &nspace), expected);
        store.add_missed_notices(&nspace, 3).unwrap();
        store.add_missed_notices(&nspace, 4).unwrap();
        assert_eq!(*bodies(&store, &nspace)[4], *"{\"notices\":7}");
    }

    #[test]
    fn record_has_an_end_and_so_has_an_entry() {
        let dir = tempfile::tempdir().unwrap();
        let records = RecordLimits {
            job_entries: 2,
            ..RecordLimits::default()
        };
        let settings = StoreSettings {
            records,
            ..StoreSettings::default()
        };
        let store = Store::open(&dir.path().join("peal.db"), settings).unwrap();
        let nspace = Nspace::new("job").unwrap();
        store.job_started(start(&nspace, 7, "./app")).unwrap();
        let long = entry(1, JobEntryKind::Log, &"x".repeat(LONGEST_JOB_ENTRY + 1));
        let added = store
            .add_job_entries(&nspace, &[long, ten(1), ten(2), ten(3)])
            .unwrap();
        let left_out = LeftOutEntries {
            count: 2,
            limit: RecordLimit::Entry,
        };
        assert_eq!(
            added,
            AddedEntries {
                written: 2,
                left_out: Some(left_out)
            }
        );
        let limit = store
            .add_job_entries(&nspace, &[ten(4)])
            .unwrap()
            .left_out
            .unwrap()
            .limit;
        assert_eq!(limit, RecordLimit::JobEntries);
        assert!(
            limit
                .to_string()
                .contains("store.max_record_entries_per_job")
        );
    }

    #[test]
    fn jobs_of_user_share_room_and_oldest_ended_one_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let store = small(dir.path());
        let jobs = ["one", "two", "three", "other"].map(|name| Nspace::new(name).unwrap());
        let batch: Vec<JobRecordEntry> = (0..3).map(ten).collect();
        let written = |job: &Nspace| store.add_job_entries(job, &batch).unwrap().written;
        let [one, two, three, other] = &jobs;
        for (job, uid) in [(one, 7), (two, 7), (three, 7), (other, 8)] {
            store.job_started(start(job, uid, "./app")).unwrap();
        }
        assert_eq!((written(one), written(two)), (3, 3));
        let added = store.add_job_entries(three, &batch).unwrap();
        assert_eq!(
            added.left_out,
            Some(LeftOutEntries {
                count: 3,
                limit: RecordLimit::User
            })
        );
        assert_eq!(written(other), 3, "another user has room");
        store.job_ended(two, 0, 2).unwrap();
        assert_eq!(written(three), 3);
        assert_eq!(bodies(&store, two), [gap(3)], "what made room is counted");
        assert_eq!(
            bodies(&store, one).len(),
            3,
            "a job that runs keeps what it has"
        );
    }

    #[test]
    fn entries_of_all_jobs_have_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let store = small(dir.path());
        let batch: Vec<JobRecordEntry> = (0..3).map(ten).collect();
        let added = [7, 8, 9, 10].map(|uid| {
            let nspace = Nspace::new(&format!("of-{uid}")).unwrap();
            store.job_started(start(&nspace, uid, "./app")).unwrap();
            store.add_job_entries(&nspace, &batch).unwrap()
        });
        assert!(added[..3].iter().all(|added| added.left_out.is_none()));
        assert_eq!(added[3].left_out.unwrap().limit, RecordLimit::All);
    }

    #[test]
    fn full_store_counts_the_entries_that_it_cannot_write() {
        let dir = tempfile::tempdir().unwrap();
        let settings = StoreSettings {
            max_bytes: 200_000,
            ..StoreSettings::default()
        };
        let store = Store::open(&dir.path().join("peal.db"), settings).unwrap();
        let nspace = Nspace::new("job").unwrap();
        store.job_started(start(&nspace, 7, "./app")).unwrap();
        let large = entry(1, JobEntryKind::Log, &"x".repeat(300_000));
        let error = store
            .add_job_entries(&nspace, &[large.clone(), large])
            .unwrap_err();
        assert!(matches!(error, StoreError::Full { .. }), "{error}");
        assert_eq!(bodies(&store, &nspace), [gap(2)]);
    }
}

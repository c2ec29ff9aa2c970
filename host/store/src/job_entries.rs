//! What happened to a job and what was logged to it, in the order of time.
use crate::{Store, StoreError, jobs::LAST, read, stored};
use peal_model::{Nspace, Rank};
use rusqlite::params;
use std::time::{SystemTime, UNIX_EPOCH};

/// How many entries a job's record can have.
pub const JOB_ENTRIES_KEPT: u32 = 100_000;
/// How long the body of one can be, in bytes.
pub const LONGEST_JOB_ENTRY: usize = 1 << 20;

/// What an entry is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobEntryKind {
    /// An event that affected it.
    Event,
    /// What was done to it by somebody's will.
    Control,
    /// What was logged to it.
    Log,
    /// Something that is missing here.
    Gap,
}

impl JobEntryKind {
    const ALL: [JobEntryKind; 4] = [JobEntryKind::Event, JobEntryKind::Control, JobEntryKind::Log, JobEntryKind::Gap];

    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            JobEntryKind::Event => "event",
            JobEntryKind::Control => "control",
            JobEntryKind::Log => "log",
            JobEntryKind::Gap => "gap",
        }
    }

    fn of(name: &str) -> JobEntryKind {
        JobEntryKind::ALL.into_iter().find(|kind| kind.name() == name).unwrap_or(JobEntryKind::Gap)
    }
}

/// An entry of a job's record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobEntry {
    /// When, in milliseconds since the epoch.
    pub at: u64,
    /// What it is about.
    pub kind: JobEntryKind,
    /// Which proc, if it is about one or came from one.
    pub rank: Option<Rank>,
    /// What there is to say, as an object of JSON.
    pub body: String,
}

impl JobEntry {
    /// An entry about what is just happening.
    pub fn now(kind: JobEntryKind, rank: Option<Rank>, body: String) -> JobEntry {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        JobEntry { at: u64::try_from(since.as_millis()).unwrap_or(u64::MAX), kind, rank, body }
    }
}

impl Store {
    /// Adds entries to the record of a job; of several that had this name, of the last. All of them or none.
    pub fn add_job_entries(&self, nspace: &Nspace, entries: &[JobEntry]) -> Result<(), StoreError> {
        if let Some(long) = entries.iter().find(|entry| entry.body.len() > LONGEST_JOB_ENTRY) {
            let (bytes, nspace) = (long.body.len(), nspace.to_string());
            return Err(StoreError::LongJobEntry { nspace, bytes });
        }
        let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        let update =
            format!("update job set entries = entries + ?2 where id = {LAST} and entries + ?2 <= ?3 returning id");
        let insert = "insert into job_entry (job, at, kind, rank, body) values (?1, ?2, ?3, ?4, ?5)";
        let written = self.write(|transaction| {
            let mut room = transaction.prepare_cached(&update)?;
            let values = params![nspace.as_str(), count, JOB_ENTRIES_KEPT];
            let Some(job) = room.query_map(values, |row| row.get::<_, i64>(0))?.next().transpose()? else {
                return Ok(None);
            };
            drop(room);
            let mut insert = transaction.prepare_cached(insert)?;
            for JobEntry { at, kind, rank, body } in entries {
                insert.execute(params![job, stored(*at), kind.name(), rank.map(|rank| rank.0), body])?;
            }
            Ok(Some(()))
        })?;
        match written {
            Some(()) => Ok(()),
            None if self.job(nspace)?.is_some() => Err(StoreError::JobRecordFull { nspace: nspace.to_string() }),
            None => Err(StoreError::UnknownJob { path: self.0.path().to_owned(), nspace: nspace.to_string() }),
        }
    }

    /// The entries of a job's record, the earliest first; of several jobs that had this name, of the last.
    pub fn job_entries(&self, nspace: &Nspace) -> Result<Vec<JobEntry>, StoreError> {
        let select = format!("select at, kind, rank, body from job_entry where job = {LAST} order by at, id");
        self.read(|connection| {
            let mut select = connection.prepare(&select)?;
            let rows = select.query_map([nspace.as_str()], |row| {
                let (at, kind, rank): (i64, String, Option<u32>) = (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok(JobEntry { at: read(at), kind: JobEntryKind::of(&kind), rank: rank.map(Rank), body: row.get(3)? })
            })?;
            rows.collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreSettings;

    fn entry(at: u64, kind: JobEntryKind, body: &str) -> JobEntry {
        JobEntry { at, kind, rank: Some(Rank(3)), body: body.to_owned() }
    }

    #[test]
    fn entries_come_back_in_the_order_of_time_and_belong_to_the_last_job_of_a_name() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Store::open(&dir.path().join("peal.db"), StoreSettings::default()).unwrap();
        let (store, nspace) = (open(), Nspace::new("job").unwrap());
        let error = store.add_job_entries(&nspace, &[entry(1, JobEntryKind::Log, "{}")]).unwrap_err();
        assert!(matches!(error, StoreError::UnknownJob { .. }), "{error}");
        store.job_started(&nspace, 1, "first", 1).unwrap();
        store.add_job_entries(&nspace, &[entry(1, JobEntryKind::Gap, "old")]).unwrap();
        store.job_started(&nspace, 1, "second", 2).unwrap();
        let (late, early) = (entry(9, JobEntryKind::Event, "late"), entry(5, JobEntryKind::Control, "early"));
        let host = JobEntry { rank: None, ..entry(9, JobEntryKind::Log, "logged") };
        store.add_job_entries(&nspace, &[late.clone(), early.clone()]).unwrap();
        store.add_job_entries(&nspace, std::slice::from_ref(&host)).unwrap();
        drop(store);
        assert_eq!(open().job_entries(&nspace).unwrap(), [early, late, host]);
        assert_eq!(open().job_entries(&Nspace::new("other").unwrap()).unwrap(), []);
    }

    #[test]
    fn a_record_has_an_end_and_so_has_an_entry() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("peal.db"), StoreSettings::default()).unwrap();
        let nspace = Nspace::new("job").unwrap();
        store.job_started(&nspace, 1, "./app", 1).unwrap();
        let most = vec![entry(1, JobEntryKind::Log, "{}"); JOB_ENTRIES_KEPT as usize];
        store.add_job_entries(&nspace, &most).unwrap();
        let error = store.add_job_entries(&nspace, &most[..1]).unwrap_err().to_string();
        assert_eq!(error, "the record of job \"job\" has 100000 entries, which is all that one can have");
        let long = entry(1, JobEntryKind::Log, &"x".repeat(LONGEST_JOB_ENTRY + 1));
        let error = store.add_job_entries(&nspace, &[long]).unwrap_err().to_string();
        assert!(error.contains("1048577 bytes"), "{error}");
        assert_eq!(store.job_entries(&nspace).unwrap().len(), most.len());
    }
}

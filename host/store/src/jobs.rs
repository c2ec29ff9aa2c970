//! The record of each job and how its procs ended.
use crate::{Store, StoreError, read, stored};
use peal_model::{Nspace, Rank};
use rusqlite::{OptionalExtension, params};

/// A job as it was recorded. Times are in seconds since the epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobRecord {
    /// Its name.
    pub nspace: String,
    /// How many procs it had.
    pub size: u32,
    /// Its program and arguments.
    pub command: String,
    /// When it started.
    pub started: u64,
    /// When it ended, and with which exit status; nothing while it runs or if its server was killed.
    pub ended: Option<(u64, i32)>,
    /// How each proc that has ended did, in the order of their ranks.
    pub procs: Vec<(Rank, String)>,
}

/// The job that is meant by a name: the last one that had it.
const LAST: &str = "(select max(id) from job where nspace = ?1)";

impl Store {
    /// Records that a job starts.
    pub fn job_started(&self, nspace: &Nspace, size: u32, command: &str, at: u64) -> Result<(), StoreError> {
        let insert = "insert into job (nspace, size, command, started) values (?1, ?2, ?3, ?4)";
        let values = params![nspace.as_str(), size, command, stored(at)];
        self.write(|transaction| transaction.execute(insert, values)).map(drop)
    }

    /// Records how a proc ended; a later end of the same rank (it was restarted) replaces the earlier one.
    pub fn proc_ended(&self, nspace: &Nspace, rank: Rank, how: &str) -> Result<(), StoreError> {
        let insert =
            format!("insert or replace into proc_end (job, rank, how) select id, ?2, ?3 from job where id = {LAST}");
        let written = self.write(|transaction| transaction.execute(&insert, params![nspace.as_str(), rank.0, how]))?;
        self.known(nspace, written)
    }

    /// Records that a job has ended.
    pub fn job_ended(&self, nspace: &Nspace, exit_status: i32, at: u64) -> Result<(), StoreError> {
        let update = format!("update job set ended = ?2, exit_status = ?3 where id = {LAST}");
        let values = params![nspace.as_str(), stored(at), exit_status];
        let written = self.write(|transaction| transaction.execute(&update, values))?;
        self.known(nspace, written)
    }

    /// What is recorded of a job; of several that had this name, of the last.
    pub fn job(&self, nspace: &Nspace) -> Result<Option<JobRecord>, StoreError> {
        let select = format!("select id, size, command, started, ended, exit_status from job where id = {LAST}");
        self.read(|connection| {
            let found = connection.query_row(&select, [nspace.as_str()], |row| {
                let ended: Option<i64> = row.get(4)?;
                let exit_status: Option<i32> = row.get(5)?;
                let record = JobRecord {
                    nspace: nspace.to_string(),
                    size: row.get(1)?,
                    command: row.get(2)?,
                    started: read(row.get(3)?),
                    ended: ended.map(read).zip(exit_status),
                    procs: Vec::new(),
                };
                Ok((row.get::<_, i64>(0)?, record))
            });
            let Some((id, mut record)) = found.optional()? else { return Ok(None) };
            let mut ends = connection.prepare("select rank, how from proc_end where job = ?1 order by rank")?;
            let rows = ends.query_map([id], |row| Ok((Rank(row.get(0)?), row.get(1)?)))?;
            record.procs = rows.collect::<Result<_, _>>()?;
            Ok(Some(record))
        })
    }

    /// What follows a start that could not be recorded has no place.
    fn known(&self, nspace: &Nspace, written: usize) -> Result<(), StoreError> {
        if written == 0 {
            return Err(StoreError::UnknownJob { path: self.path.clone(), nspace: nspace.to_string() });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreSettings;

    #[test]
    fn a_job_is_recorded_from_start_to_end_and_survives_a_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("peal.db");
        let open = || Store::open(&path, StoreSettings::default()).unwrap();
        let nspace = Nspace::new("job@1").unwrap();
        {
            let store = open();
            store.job_started(&nspace, 2, "./app --fast", 100).unwrap();
            store.proc_ended(&nspace, Rank(1), "exited with status 0").unwrap();
            assert_eq!(store.job(&nspace).unwrap().unwrap().ended, None);
        }
        let store = open();
        store.proc_ended(&nspace, Rank(0), "was ended by signal 9").unwrap();
        store.job_ended(&nspace, 137, 107).unwrap();
        let record = store.job(&nspace).unwrap().unwrap();
        assert_eq!((record.size, record.command.as_str(), record.ended), (2, "./app --fast", Some((107, 137))));
        let ends = [(Rank(0), "was ended by signal 9".into()), (Rank(1), "exited with status 0".into())];
        assert_eq!(record.procs, ends);
        let other = Nspace::new("other").unwrap();
        assert_eq!(store.job(&other).unwrap(), None);
        let error = store.job_ended(&other, 0, 1).unwrap_err().to_string();
        assert!(error.ends_with("has no record of job \"other\""), "{error}");
    }

    #[test]
    fn a_name_that_is_used_again_means_the_last_job_that_had_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("peal.db"), StoreSettings::default()).unwrap();
        let nspace = Nspace::new("again").unwrap();
        store.job_started(&nspace, 1, "first", 100).unwrap();
        store.proc_ended(&nspace, Rank(0), "exited with status 0").unwrap();
        store.job_ended(&nspace, 0, 101).unwrap();
        store.job_started(&nspace, 1, "second", 102).unwrap();
        let record = store.job(&nspace).unwrap().unwrap();
        assert_eq!((record.command.as_str(), record.ended, record.procs), ("second", None, Vec::new()));
        let all: u32 =
            store.read(|connection| connection.query_row("select count(*) from job", [], |row| row.get(0))).unwrap();
        assert_eq!(all, 2);
    }
}

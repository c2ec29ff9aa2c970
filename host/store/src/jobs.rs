//! Records of jobs with the ends of their procs.
use crate::{Store, StoreError, read, stored};
use peal_model::{Nspace, Rank};
use rusqlite::{OptionalExtension, params};

/// A recorded job. Times are in seconds since the epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobRecord {
    /// The namespace of the job.
    pub nspace: String,
    /// The number of procs.
    pub size: u32,
    /// The program and its arguments.
    pub command: String,
    /// The time of the start.
    pub started: u64,
    /// The time of the end and the exit status; `None` while the job runs or if its server was
    /// killed.
    pub ended: Option<(u64, i32)>,
    /// The ends of the procs that have ended, by rank.
    pub procs: Vec<(Rank, String)>,
}

/// Start of a job.
#[derive(Clone, Copy, Debug)]
pub struct JobStart<'a> {
    /// The namespace of the job.
    pub nspace: &'a Nspace,
    /// The uid of the job.
    pub uid: u32,
    /// The number of procs.
    pub size: u32,
    /// The program and its arguments.
    pub command: &'a str,
    /// The time in seconds since the epoch.
    pub at: u64,
}

/// Number of jobs that are kept. Older jobs that have ended are dropped.
pub const JOBS_KEPT: u32 = 10_000;

/// Number of newer jobs after which a job without a recorded end counts as ended: its server was
/// killed.
const FORGOTTEN: u32 = 10 * JOBS_KEPT;

/// Selects the last job with a name.
pub(crate) const SELECT_LAST_JOB: &str = "(select max(id) from job where nspace = ?1)";

impl Store {
    /// Records the start of a job.
    pub fn job_started(&self, job: JobStart<'_>) -> Result<(), StoreError> {
        let JobStart {
            nspace,
            uid,
            size,
            command,
            at,
        } = job;
        let insert =
            "insert into job (nspace, uid, size, command, started) values (?1, ?2, ?3, ?4, ?5)";
        let values = params![nspace.as_str(), uid, size, command, stored(at)];
        let old = "from job where id <= ?1 and (ended is not null or id <= ?2)";
        self.write(|transaction| {
            transaction.execute(insert, values)?;
            let id = transaction.last_insert_rowid();
            let bounds = [id - i64::from(JOBS_KEPT), id - i64::from(FORGOTTEN)];
            // The rows that refer to a job go first, because foreign keys are enforced.
            for of_job in ["proc_end", "job_entry"] {
                transaction.execute(
                    &format!("delete from {of_job} where job in (select id {old})"),
                    bounds,
                )?;
            }
            transaction
                .execute(&format!("delete {old}"), bounds)
                .map(drop)
        })
    }

    /// Records the end of a proc. A later end of the same rank, after a restart, replaces it.
    pub fn proc_ended(&self, nspace: &Nspace, rank: Rank, how: &str) -> Result<(), StoreError> {
        let insert = format!(
            "insert or replace into proc_end (job, rank, how) select id, ?2, ?3 from job where id = {SELECT_LAST_JOB}"
        );
        let written = self.write_for_users(|transaction| {
            transaction.execute(&insert, params![nspace.as_str(), rank.0, how])
        })?;
        self.known(nspace, written)
    }

    /// Records the end of a job.
    pub fn job_ended(&self, nspace: &Nspace, exit_status: i32, at: u64) -> Result<(), StoreError> {
        let update =
            format!("update job set ended = ?2, exit_status = ?3 where id = {SELECT_LAST_JOB}");
        let values = params![nspace.as_str(), stored(at), exit_status];
        let written = self.write(|transaction| transaction.execute(&update, values))?;
        self.known(nspace, written)
    }

    /// Returns the record of the last job with this name.
    pub fn job(&self, nspace: &Nspace) -> Result<Option<JobRecord>, StoreError> {
        let select = format!(
            "select id, size, command, started, ended, exit_status from job where id = {SELECT_LAST_JOB}"
        );
        self.read(|connection| {
            let found = connection.query_row(&select, [nspace.as_str()], |row| {
                let ended: Option<i64> = row.get(4)?;
                let exit_status: Option<i32> = row.get(5)?;
                let record = JobRecord {
                    nspace: nspace.to_string(),
                    size: row.get(1)?,
                    command: row.get(2)?,
                    started: read(row.get(3)?),
                    // `job_ended` sets both in one statement.
                    ended: ended.map(read).zip(exit_status),
                    procs: Vec::new(),
                };
                Ok((row.get::<_, i64>(0)?, record))
            });
            let Some((id, mut record)) = found.optional()? else {
                return Ok(None);
            };
            let mut ends = connection
                .prepare("select rank, how from proc_end where job = ?1 order by rank")?;
            let rows = ends.query_map([id], |row| Ok((Rank(row.get(0)?), row.get(1)?)))?;
            record.procs = rows.collect::<Result<_, _>>()?;
            Ok(Some(record))
        })
    }

    /// Returns an error if the job has no record: its start could not be recorded.
    fn known(&self, nspace: &Nspace, written: usize) -> Result<(), StoreError> {
        if written == 0 {
            return Err(self.unknown_job(nspace));
        }
        Ok(())
    }

    pub(crate) fn unknown_job(&self, nspace: &Nspace) -> StoreError {
        StoreError::UnknownJob {
            path: self.database.path().to_owned(),
            nspace: nspace.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreSettings;

    fn start<'a>(nspace: &'a Nspace, size: u32, command: &'a str, at: u64) -> JobStart<'a> {
        JobStart {
            nspace,
            uid: 7,
            size,
            command,
            at,
        }
    }

    #[test]
    fn a_job_is_recorded_from_start_to_end_and_survives_a_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("peal.db");
        let open = || Store::open(&path, StoreSettings::default()).unwrap();
        let nspace = Nspace::new("job@1").unwrap();
        {
            let store = open();
            store
                .job_started(start(&nspace, 2, "./app --fast", 100))
                .unwrap();
            store
                .proc_ended(&nspace, Rank(1), "exited with status 0")
                .unwrap();
            assert_eq!(store.job(&nspace).unwrap().unwrap().ended, None);
        }
        let store = open();
        store
            .proc_ended(&nspace, Rank(0), "was ended by signal 9")
            .unwrap();
        store.job_ended(&nspace, 137, 107).unwrap();
        let record = store.job(&nspace).unwrap().unwrap();
        assert_eq!(
            (record.size, record.command.as_str(), record.ended),
            (2, "./app --fast", Some((107, 137)))
        );
        let ends = [
            (Rank(0), "was ended by signal 9".into()),
            (Rank(1), "exited with status 0".into()),
        ];
        assert_eq!(record.procs, ends);
        let other = Nspace::new("other").unwrap();
        assert_eq!(store.job(&other).unwrap(), None);
        let error = store.job_ended(&other, 0, 1).unwrap_err().to_string();
        assert!(error.ends_with("has no record of job \"other\""), "{error}");
    }

    #[test]
    fn the_oldest_jobs_that_have_ended_go() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("peal.db"), StoreSettings::default()).unwrap();
        let job = |name: &str| Nspace::new(name).unwrap();
        let known =
            || ["ended", "runs", "newer"].map(|name| store.job(&job(name)).unwrap().is_some());
        let number = |name: &str, id: u32| {
            let update = "update job set id = ?2 where nspace = ?1";
            store
                .write(|transaction| transaction.execute(update, params![name, id]))
                .unwrap();
        };
        for name in ["ended", "runs", "newer"] {
            store
                .job_started(start(&job(name), 1, "./app", 100))
                .unwrap();
        }
        for name in ["ended", "runs"] {
            store
                .proc_ended(&job(name), Rank(0), "exited with status 0")
                .unwrap();
        }
        store.job_ended(&job("ended"), 0, 101).unwrap();
        number("newer", JOBS_KEPT - 1);
        store
            .job_started(start(&job("next"), 1, "./app", 102))
            .unwrap();
        assert_eq!(known(), [true, true, true]);
        store
            .job_started(start(&job("after"), 1, "./app", 103))
            .unwrap();
        assert_eq!(known(), [false, true, true], "one more than are kept");
        let count = "select count(*) from proc_end";
        let procs = || {
            store
                .read(|connection| connection.query_row(count, [], |row| row.get::<_, u32>(0)))
                .unwrap()
        };
        assert_eq!(procs(), 1);
        number("after", FORGOTTEN + 1);
        store
            .job_started(start(&job("last"), 1, "./app", 104))
            .unwrap();
        assert_eq!(
            (known(), procs()),
            ([false, false, true], 0),
            "it will not end any more"
        );
    }

    #[test]
    fn a_name_that_is_used_again_means_the_last_job_that_had_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("peal.db"), StoreSettings::default()).unwrap();
        let nspace = Nspace::new("again").unwrap();
        store.job_started(start(&nspace, 1, "first", 100)).unwrap();
        store
            .proc_ended(&nspace, Rank(0), "exited with status 0")
            .unwrap();
        store.job_ended(&nspace, 0, 101).unwrap();
        store.job_started(start(&nspace, 1, "second", 102)).unwrap();
        let record = store.job(&nspace).unwrap().unwrap();
        assert_eq!(
            (record.command.as_str(), record.ended, record.procs),
            ("second", None, Vec::new())
        );
        let all: u32 = store
            .read(|connection| {
                connection.query_row("select count(*) from job", [], |row| row.get(0))
            })
            .unwrap();
        assert_eq!(all, 2);
    }
}

//! What must outlive the process, in SQLite: for now the record of each job and how its procs ended.
//!
//! Everything here blocks; callers on tokio use a blocking thread.
use peal_model::{Nspace, Rank};
use rusqlite::{Connection, OptionalExtension, params};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use thiserror::Error;

/// The layout of the database; a file of a later one is refused rather than misread.
const LAYOUT: i64 = 1;

/// How long another process may hold the database before a write fails.
const BUSY: Duration = Duration::from_secs(5);

/// Why the store cannot do what it should.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The database cannot be opened.
    #[error("cannot open the store {path:?}: {source}")]
    Open {
        /// Its file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// The database was written by a later Peal.
    #[error("the store {path:?} has layout {found}, this Peal knows {LAYOUT} and earlier")]
    TooNew {
        /// Its file.
        path: PathBuf,
        /// Its layout.
        found: i64,
    },
    /// A statement failed.
    #[error("the store failed: {0}")]
    Sql(#[from] rusqlite::Error),
}

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

/// The store.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
}

impl Store {
    /// Opens a store, making its file if there is none.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        let opened = |source| StoreError::Open { path: path.to_owned(), source };
        let connection = Connection::open(path).map_err(opened)?;
        connection.busy_timeout(BUSY).map_err(opened)?;
        connection.pragma_update(None, "journal_mode", "wal").map_err(opened)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(opened)?;
        let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(opened)?;
        if found > LAYOUT {
            return Err(StoreError::TooNew { path: path.to_owned(), found });
        }
        if found == 0 {
            connection.execute_batch(&format!(
                "begin immediate;
                 create table if not exists job (
                     nspace text primary key, size integer not null, command text not null,
                     started integer not null, ended integer, exit_status integer) strict;
                 create table if not exists proc_end (
                     nspace text not null references job, rank integer not null, how text not null,
                     primary key (nspace, rank)) strict;
                 pragma user_version = {LAYOUT};
                 commit;"
            ))?;
        }
        Ok(Store { connection })
    }

    /// Records that a job starts.
    pub fn job_started(&self, nspace: &Nspace, size: u32, command: &str, at: u64) -> Result<(), StoreError> {
        let insert = "insert into job (nspace, size, command, started) values (?1, ?2, ?3, ?4)";
        self.connection.execute(insert, params![nspace.as_str(), size, command, stored(at)])?;
        Ok(())
    }

    /// Records how a proc ended; a later end of the same rank (it was restarted) replaces the earlier one.
    pub fn proc_ended(&self, nspace: &Nspace, rank: Rank, how: &str) -> Result<(), StoreError> {
        let insert = "insert or replace into proc_end (nspace, rank, how) values (?1, ?2, ?3)";
        self.connection.execute(insert, params![nspace.as_str(), rank.0, how])?;
        Ok(())
    }

    /// Records that a job has ended.
    pub fn job_ended(&self, nspace: &Nspace, exit_status: i32, at: u64) -> Result<(), StoreError> {
        let update = "update job set ended = ?2, exit_status = ?3 where nspace = ?1";
        self.connection.execute(update, params![nspace.as_str(), stored(at), exit_status])?;
        Ok(())
    }

    /// What is recorded of a job.
    pub fn job(&self, nspace: &Nspace) -> Result<Option<JobRecord>, StoreError> {
        let select = "select size, command, started, ended, exit_status from job where nspace = ?1";
        let found = self.connection.query_row(select, [nspace.as_str()], |row| {
            let ended: Option<i64> = row.get(3)?;
            let exit_status: Option<i32> = row.get(4)?;
            Ok(JobRecord {
                nspace: nspace.to_string(),
                size: row.get(0)?,
                command: row.get(1)?,
                started: read(row.get(2)?),
                ended: ended.map(read).zip(exit_status),
                procs: Vec::new(),
            })
        });
        let Some(mut record) = found.optional()? else { return Ok(None) };
        let mut ends = self.connection.prepare("select rank, how from proc_end where nspace = ?1 order by rank")?;
        let rows = ends.query_map([nspace.as_str()], |row| Ok((Rank(row.get(0)?), row.get(1)?)))?;
        record.procs = rows.collect::<Result<_, _>>()?;
        Ok(Some(record))
    }
}

/// SQLite's integers are signed; times stay far below the difference.
fn stored(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

fn read(time: i64) -> u64 {
    u64::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_recorded_from_start_to_end_and_survives_a_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("peal.db");
        let nspace = Nspace::new("job@1").unwrap();
        {
            let store = Store::open(&path).unwrap();
            store.job_started(&nspace, 2, "./app --fast", 100).unwrap();
            store.proc_ended(&nspace, Rank(1), "exited with status 0").unwrap();
            assert_eq!(store.job(&nspace).unwrap().unwrap().ended, None);
            assert!(store.job_started(&nspace, 2, "again", 101).is_err(), "a name is used once");
        }
        let store = Store::open(&path).unwrap();
        store.proc_ended(&nspace, Rank(0), "was ended by signal 9").unwrap();
        store.job_ended(&nspace, 137, 107).unwrap();
        let record = store.job(&nspace).unwrap().unwrap();
        assert_eq!((record.size, record.command.as_str(), record.ended), (2, "./app --fast", Some((107, 137))));
        let ends = [(Rank(0), "was ended by signal 9".into()), (Rank(1), "exited with status 0".into())];
        assert_eq!(record.procs, ends);
        assert_eq!(store.job(&Nspace::new("other").unwrap()).unwrap(), None);
    }

    #[test]
    fn a_store_of_a_later_layout_or_no_store_at_all_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("later.db");
        Connection::open(&path).unwrap().pragma_update(None, "user_version", LAYOUT + 1).unwrap();
        let error = Store::open(&path).unwrap_err().to_string();
        assert!(error.ends_with("has layout 2, this Peal knows 1 and earlier"), "{error}");
        let text = dir.path().join("text.db");
        std::fs::write(&text, "this is not a database, although it is long enough to be looked at as one").unwrap();
        assert!(matches!(Store::open(&text), Err(StoreError::Open { .. })));
    }
}

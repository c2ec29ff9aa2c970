//! Limits for the entries of records: for a job, for the jobs of a user, and for all jobs.
use crate::{Store, StoreError, read, stored};
use rusqlite::{OptionalExtension, Transaction, params};
use thiserror::Error;

/// Maximum length of an entry's body in bytes.
pub const LONGEST_JOB_ENTRY: usize = 1 << 20;

/// Approximate size in bytes of an entry without its body. Layout 9 uses the same number.
const ENTRY_COST: u64 = 64;

/// Limits of the records of jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordLimits {
    /// Bytes of all entries.
    pub bytes: u64,
    /// Bytes of the entries of one user's jobs.
    pub user_bytes: u64,
    /// Bytes of the entries of one job.
    pub job_bytes: u64,
    /// Number of entries of one job.
    pub job_entries: u32,
}

impl Default for RecordLimits {
    fn default() -> Self {
        RecordLimits {
            bytes: 512 << 20,
            user_bytes: 256 << 20,
            job_bytes: 64 << 20,
            job_entries: 100_000,
        }
    }
}

/// Limit that an entry exceeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum RecordLimit {
    /// The length of one entry.
    #[error("an entry has more than {LONGEST_JOB_ENTRY} bytes (a fixed limit)")]
    Entry,
    /// [`RecordLimits::job_entries`].
    #[error("the job has the maximum number of entries (store.max_record_entries_per_job)")]
    JobEntries,
    /// [`RecordLimits::job_bytes`].
    #[error("the entries of the job have their maximum size (store.max_record_bytes_per_job)")]
    Job,
    /// [`RecordLimits::user_bytes`].
    #[error(
        "the entries of the user's jobs have their maximum size (store.max_record_bytes_per_user)"
    )]
    User,
    /// [`RecordLimits::bytes`].
    #[error("the entries of all jobs have their maximum size (store.max_record_bytes)")]
    All,
}

/// Limits of the records of jobs, and what users hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordUsage {
    /// The limits.
    pub limits: RecordLimits,
    /// Each user with the bytes of the entries of its jobs.
    pub users: Vec<(u32, u64)>,
}

impl Store {
    /// Returns the bytes that the records of each user's jobs take.
    pub fn record_usage(&self) -> Result<RecordUsage, StoreError> {
        let select = "select uid, bytes from record_size where bytes > 0 and uid >= 0";
        let users = self.read(|connection| {
            let mut statement = connection.prepare_cached(select)?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, read(row.get(1)?))))?;
            rows.collect()
        })?;
        Ok(RecordUsage {
            limits: self.settings.records,
            users,
        })
    }
}

/// Space for entries of one job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordBudget {
    entries: u32,
    job: u64,
    user: u64,
    all: u64,
}

/// A job to which entries are added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedJob {
    pub(crate) id: i64,
    pub(crate) uid: i64,
    pub(crate) entries: u32,
    pub(crate) bytes: u64,
}

/// Returns the approximate size of an entry in bytes.
pub(crate) fn entry_bytes(body: &str) -> u64 {
    body.len() as u64 + ENTRY_COST
}

impl RecordBudget {
    /// Determines the space for entries of a job with `requested` bytes in total. If there is less,
    /// drops the entries of the user's ended jobs, oldest first.
    pub(crate) fn make(
        transaction: &Transaction<'_>,
        limits: &RecordLimits,
        job: &RecordedJob,
        requested: u64,
    ) -> rusqlite::Result<RecordBudget> {
        let own = limits.job_bytes.saturating_sub(job.bytes);
        // Dropping records of other jobs makes no room in this job's own share.
        let requested = requested.min(own);
        loop {
            let of_user = "select bytes from record_size where uid = ?1";
            let of_user: Option<i64> = transaction
                .prepare_cached(of_user)?
                .query_row([job.uid], |row| row.get(0))
                .optional()?;
            let of_all = "select coalesce(sum(bytes), 0) from record_size";
            let of_all: i64 = transaction
                .prepare_cached(of_all)?
                .query_row([], |row| row.get(0))?;
            let budget = RecordBudget {
                entries: limits.job_entries.saturating_sub(job.entries),
                job: own,
                user: limits
                    .user_bytes
                    .saturating_sub(read(of_user.unwrap_or_default())),
                all: limits.bytes.saturating_sub(read(of_all)),
            };
            if requested <= budget.user.min(budget.all) || !drop_oldest(transaction, job)? {
                return Ok(budget);
            }
        }
    }

    /// Takes the space for an entry.
    pub(crate) fn take(&mut self, body: &str) -> Result<(), RecordLimit> {
        // From the narrowest limit to the widest: the error names the first one that is exceeded.
        let bytes = entry_bytes(body);
        let limit = match () {
            () if body.len() > LONGEST_JOB_ENTRY => Some(RecordLimit::Entry),
            () if self.entries == 0 => Some(RecordLimit::JobEntries),
            () if bytes > self.job => Some(RecordLimit::Job),
            () if bytes > self.user => Some(RecordLimit::User),
            () if bytes > self.all => Some(RecordLimit::All),
            () => None,
        };
        if let Some(limit) = limit {
            return Err(limit);
        }
        self.entries -= 1;
        self.job -= bytes;
        self.user -= bytes;
        self.all -= bytes;
        Ok(())
    }
}

/// Drops the entries of the same user's oldest job that has ended. Returns false if there is none.
fn drop_oldest(transaction: &Transaction<'_>, job: &RecordedJob) -> rusqlite::Result<bool> {
    let oldest =
        "select id from job where uid = ?1 and ended is not null and entry_bytes > 0 and id <> ?2
         order by id limit 1";
    let oldest: Option<i64> = transaction
        .prepare_cached(oldest)?
        .query_row([job.uid, job.id], |row| row.get(0))
        .optional()?;
    // Only jobs of the same user are looked for: otherwise one user's entries would drop those of
    // others.
    let Some(oldest) = oldest else {
        return Ok(false);
    };
    // The row of the job stays and counts the entries that go.
    transaction
        .prepare_cached("delete from job_entry where job = ?1")?
        .execute([oldest])?;
    let emptied = "update job set left_out = left_out + entries, left_out_at = coalesce(left_out_at, 1000 * started),
         entries = 0, entry_bytes = 0 where id = ?1";
    transaction.prepare_cached(emptied)?.execute([oldest])?;
    Ok(true)
}

/// Counts entries left out of the record of a job; `at` is a time in milliseconds.
pub(crate) fn leave_out(
    transaction: &Transaction<'_>,
    job: i64,
    entries: usize,
    at: u64,
) -> rusqlite::Result<()> {
    let update = "update job set left_out = left_out + ?2, left_out_at = coalesce(left_out_at, ?3) where id = ?1";
    transaction
        .prepare_cached(update)?
        .execute(params![job, stored(entries as u64), stored(at)])
        .map(drop)
}

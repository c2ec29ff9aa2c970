//! Database of the audit trail. Rows are only added, each with a hash that follows from all before
//! it. Rows are dropped from the oldest on: all of them, or those that do not stay (`trail_use`).
//! Rows and hashes are not interpreted here.
use crate::{
    DatabaseDurability, StoreError, StoreHealth,
    database::Database,
    layout, read, stored,
    trail_use::{RowSelection, add_use, row_bytes},
};
use rusqlite::{
    Connection, OptionalExtension, Row, Transaction, params, params_from_iter, types::Value,
};
use std::{collections::BTreeMap, path::Path, time::Duration};

/// Settings of a trail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrailSettings {
    /// Maximum size of the database in bytes. The write-ahead log beside it takes a few MB more.
    pub max_bytes: u64,
    /// Durability of writes.
    pub durability: DatabaseDurability,
    /// Kinds of rows that stay when others are dropped.
    pub lasting: &'static [&'static str],
}

/// The database of a trail.
#[derive(Debug)]
pub struct Trail {
    pub(crate) database: Database,
    /// Kinds of rows that stay when others are dropped.
    pub(crate) lasting: &'static [&'static str],
}

/// A row of a trail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrailRow {
    /// The number of the row, from 1. Numbers are consecutive.
    pub seq: u64,
    /// The time in milliseconds since the epoch.
    pub at: u64,
    /// The kind of the row.
    pub kind: String,
    /// The module that the row is about.
    pub module: Option<String>,
    /// The job that the row is about.
    pub job: Option<String>,
    /// The user that the row is about.
    pub uid: Option<u32>,
    /// The outcome.
    pub outcome: Option<String>,
    /// The serialized entry.
    pub body: Vec<u8>,
    /// The hash over this row and all before it.
    pub hash: [u8; 32],
}

/// Bytes that rows refer to, by their SHA-256.
#[derive(Clone, Copy, Debug)]
pub struct Blob<'a> {
    /// The SHA-256 of the bytes.
    pub digest: [u8; 32],
    /// The bytes; `None` if they are known to be stored.
    pub bytes: Option<&'a [u8]>,
    /// The last row for which the bytes are kept. A later update extends the period.
    pub until: u64,
}

/// Kind of a seal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SealKind {
    /// Seal of the last row.
    Head,
    /// Seal of the last row that was dropped.
    Anchor,
    /// Seal of a row in between, a trail checkpoint.
    Checkpoint,
}

/// A signed statement of the hash of a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seal {
    /// The number of the row.
    pub seq: u64,
    /// The time of the seal in milliseconds since the epoch.
    pub at: u64,
    /// The hash of the row.
    pub hash: [u8; 32],
    /// The signature.
    pub signature: Vec<u8>,
}

/// Filter for rows. Unset fields match all rows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// First number.
    pub from: Option<u64>,
    /// Last number.
    pub to: Option<u64>,
    /// Earliest time in milliseconds since the epoch.
    pub since: Option<u64>,
    /// Latest time in milliseconds since the epoch.
    pub until: Option<u64>,
    /// Kinds of rows; empty for all kinds.
    pub kinds: Vec<String>,
    /// Module.
    pub module: Option<String>,
    /// Job.
    pub job: Option<String>,
    /// User.
    pub uid: Option<u32>,
    /// Outcome, or the part of it before a colon.
    pub outcome: Option<String>,
}

impl Filter {
    /// Returns true if the row matches.
    pub fn matches(&self, row: &TrailRow) -> bool {
        // Has to select the same rows as `rows` does in SQL: exported trails are filtered here.
        let is =
            |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        let outcome = self.outcome.as_ref().is_none_or(|wanted| {
            let found = row.outcome.as_deref().unwrap_or_default();
            found == wanted
                || found
                    .strip_prefix(wanted.as_str())
                    .is_some_and(|rest| rest.starts_with(':'))
        });
        self.from.is_none_or(|from| row.seq >= from)
            && self.to.is_none_or(|to| row.seq <= to)
            && self.since.is_none_or(|since| row.at >= since)
            && self.until.is_none_or(|until| row.at <= until)
            && (self.kinds.is_empty() || self.kinds.contains(&row.kind))
            && is(&self.module, &row.module)
            && is(&self.job, &row.job)
            && (self.uid.is_none() || self.uid == row.uid)
            && outcome
    }
}

/// Size and maximum size of a trail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrailSize {
    /// Used bytes.
    pub used: u64,
    /// Maximum size in bytes.
    pub max: u64,
}

impl SealKind {
    fn word(self) -> &'static str {
        match self {
            SealKind::Head => "head",
            SealKind::Anchor => "anchor",
            SealKind::Checkpoint => "checkpoint",
        }
    }
}

impl Trail {
    /// Opens a trail; creates its file if it is missing (readable by its owner only).
    pub fn open(path: &Path, settings: TrailSettings) -> Result<Trail, StoreError> {
        let database = Database::open(
            path,
            settings.max_bytes,
            &layout::TRAIL,
            settings.durability,
        )?;
        let trail = Trail {
            database,
            lasting: settings.lasting,
        };
        trail.count_use()?;
        Ok(trail)
    }

    /// Opens an existing trail for reading.
    pub fn open_to_read(path: &Path) -> Result<Trail, StoreError> {
        let database = Database::open_to_read(path, &layout::TRAIL)?;
        Ok(Trail {
            database,
            lasting: &[],
        })
    }

    /// Has every read fail that is not complete after this time from now.
    pub fn limit_reads(&self, time: Duration) -> Result<(), StoreError> {
        self.database.limit_reads(time)
    }

    /// Returns the path of the trail.
    pub fn path(&self) -> &Path {
        self.database.path()
    }

    /// Returns counts of writes and reads.
    pub fn health(&self) -> StoreHealth {
        self.database.health()
    }

    /// Adds rows and their blobs and replaces the head seal, in one transaction.
    pub fn append<'a>(
        &self,
        rows: impl IntoIterator<Item = &'a TrailRow>,
        blobs: &[Blob<'_>],
        head: &Seal,
        checkpoint: Option<&Seal>,
    ) -> Result<(), StoreError> {
        self.database.write(|transaction| {
            for blob in blobs {
                keep(transaction, blob)?;
            }
            let mut insert = transaction.prepare_cached(
                "insert into record (seq, at, kind, module, job, uid, outcome, body, hash)
                 values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?;
            let mut used = BTreeMap::new();
            for row in rows {
                let TrailRow {
                    seq,
                    at,
                    kind,
                    module,
                    job,
                    uid,
                    outcome,
                    body,
                    hash,
                } = row;
                insert.execute(params![
                    stored(*seq),
                    stored(*at),
                    kind,
                    module,
                    job,
                    uid,
                    outcome,
                    body,
                    hash
                ])?;
                *used.entry((self.stays(kind), *uid)).or_default() += row_bytes(body.len() as u64);
            }
            add_use(transaction, &used)?;
            seal(transaction, SealKind::Head, head)?;
            checkpoint.map_or(Ok(()), |checkpoint| {
                seal(transaction, SealKind::Checkpoint, checkpoint)
            })
        })
    }

    /// Drops the oldest rows up to that of the seal, with blobs that only they refer to.
    pub fn drop_to(&self, anchor: &Seal) -> Result<(), StoreError> {
        self.database.write(|transaction| {
            let last = stored(anchor.seq);
            self.forget_use(transaction, 0, last, RowSelection::All)?;
            transaction.execute("delete from record where seq <= ?1", [last])?;
            transaction.execute("delete from dropped where last <= ?1", [last])?;
            transaction.execute(
                "delete from seal where kind = 'checkpoint' and seq <= ?1",
                [last],
            )?;
            transaction.execute("delete from blob where last <= ?1", [last])?;
            seal(transaction, SealKind::Anchor, anchor)
        })
    }

    /// Returns the latest seal of this kind; `None` in a trail that was never written.
    pub fn seal(&self, kind: SealKind) -> Result<Option<Seal>, StoreError> {
        let select =
            "select seq, at, hash, signature from seal where kind = ?1 order by seq desc limit 1";
        self.database.read(|connection| {
            connection
                .query_row(select, [kind.word()], read_seal)
                .optional()
        })
    }

    /// Returns all trail checkpoints in order.
    pub fn checkpoints(&self) -> Result<Vec<Seal>, StoreError> {
        let select =
            "select seq, at, hash, signature from seal where kind = 'checkpoint' order by seq";
        self.database.read(|connection| {
            connection
                .prepare(select)?
                .query_map([], read_seal)?
                .collect()
        })
    }

    /// Returns the rows that match, oldest first, at most `most`.
    pub fn rows(&self, filter: &Filter, most: u32) -> Result<Vec<TrailRow>, StoreError> {
        self.database
            .read(|connection| rows(connection, filter, Order::OldestFirst, most))
    }

    /// Returns the rows that match, latest first, at most `most`.
    pub fn last_rows(&self, filter: &Filter, most: u32) -> Result<Vec<TrailRow>, StoreError> {
        self.database
            .read(|connection| rows(connection, filter, Order::LatestFirst, most))
    }

    /// Returns bytes that rows refer to, if they are stored.
    pub fn blob(&self, digest: &[u8; 32]) -> Result<Option<Vec<u8>>, StoreError> {
        let select = "select bytes from blob where digest = ?1";
        self.database.read(|connection| {
            connection
                .query_row(select, params![digest], |row| row.get(0))
                .optional()
        })
    }

    /// Returns the size and the maximum size.
    pub fn size(&self) -> Result<TrailSize, StoreError> {
        self.database.read(|connection| {
            let number = |name| {
                connection
                    .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
                    .map(read)
            };
            let page = number("page_size")?;
            let pages = number("page_count")?;
            let free = number("freelist_count")?;
            let most = number("max_page_count")?;
            Ok(TrailSize {
                // SQLite uses free pages again before the file grows.
                used: pages.saturating_sub(free).saturating_mul(page),
                max: most.saturating_mul(page),
            })
        })
    }
}

fn keep(transaction: &Transaction<'_>, blob: &Blob<'_>) -> rusqlite::Result<()> {
    let Blob {
        digest,
        bytes,
        until,
    } = blob;
    let mut update = transaction.prepare_cached("update blob set last = ?2 where digest = ?1")?;
    // Most blobs are stored already, and their bytes are large.
    if update.execute(params![digest, stored(*until)])? == 0
        && let Some(bytes) = bytes
    {
        let insert = "insert into blob (digest, bytes, last) values (?1, ?2, ?3)";
        transaction
            .prepare_cached(insert)?
            .execute(params![digest, bytes, stored(*until)])?;
    }
    Ok(())
}

fn seal(transaction: &Transaction<'_>, kind: SealKind, seal: &Seal) -> rusqlite::Result<()> {
    // There is one head and one anchor. Checkpoints accumulate.
    if kind != SealKind::Checkpoint {
        transaction
            .prepare_cached("delete from seal where kind = ?1")?
            .execute([kind.word()])?;
    }
    let insert =
        "insert or replace into seal (kind, seq, at, hash, signature) values (?1, ?2, ?3, ?4, ?5)";
    let Seal {
        seq,
        at,
        hash,
        signature,
    } = seal;
    let values = params![kind.word(), stored(*seq), stored(*at), hash, signature];
    transaction
        .prepare_cached(insert)?
        .execute(values)
        .map(drop)
}

fn read_seal(row: &Row<'_>) -> rusqlite::Result<Seal> {
    Ok(Seal {
        seq: read(row.get(0)?),
        at: read(row.get(1)?),
        hash: row.get(2)?,
        signature: row.get(3)?,
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    OldestFirst,
    LatestFirst,
}

fn rows(
    connection: &Connection,
    filter: &Filter,
    order: Order,
    most: u32,
) -> rusqlite::Result<Vec<TrailRow>> {
    // `true` makes a valid clause also of a filter without conditions.
    let mut wanted = vec!["true".to_owned()];
    let mut values = Vec::new();
    // Values are parameters, because names of jobs and modules may contain quotes.
    let mut only = |condition: &str, value: Value| {
        wanted.push(condition.to_owned());
        values.push(value);
    };
    let number = |number: u64| Value::Integer(stored(number));
    filter
        .from
        .into_iter()
        .for_each(|from| only("seq >= ?", number(from)));
    filter
        .to
        .into_iter()
        .for_each(|to| only("seq <= ?", number(to)));
    filter
        .since
        .into_iter()
        .for_each(|since| only("at >= ?", number(since)));
    filter
        .until
        .into_iter()
        .for_each(|until| only("at <= ?", number(until)));
    filter
        .module
        .iter()
        .for_each(|module| only("module = ?", Value::Text(module.clone())));
    filter
        .job
        .iter()
        .for_each(|job| only("job = ?", Value::Text(job.clone())));
    filter
        .uid
        .into_iter()
        .for_each(|uid| only("uid = ?", number(uid.into())));
    if let Some(outcome) = &filter.outcome {
        // Not by `like`, which ignores case and knows wildcards.
        only(
            "(outcome = ? or substr(outcome, 1, length(?)) = ?)",
            Value::Text(outcome.clone()),
        );
        let beginning = Value::Text(format!("{outcome}:"));
        values.extend([beginning.clone(), beginning]);
    }
    if !filter.kinds.is_empty() {
        wanted.push(format!(
            "kind in ({})",
            vec!["?"; filter.kinds.len()].join(", ")
        ));
        values.extend(filter.kinds.iter().cloned().map(Value::Text));
    }
    values.push(number(most.into()));
    let order = if order == Order::OldestFirst {
        "asc"
    } else {
        "desc"
    };
    let select = format!(
        "select seq, at, kind, module, job, uid, outcome, body, hash from record where {} order by seq {order} limit ?",
        wanted.join(" and ")
    );
    let mut select = connection.prepare_cached(&select)?;
    let rows = select.query_map(params_from_iter(values), |row| {
        Ok(TrailRow {
            seq: read(row.get(0)?),
            at: read(row.get(1)?),
            kind: row.get(2)?,
            module: row.get(3)?,
            job: row.get(4)?,
            uid: row.get(5)?,
            outcome: row.get(6)?,
            body: row.get(7)?,
            hash: row.get(8)?,
        })
    })?;
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn settings() -> TrailSettings {
        TrailSettings {
            max_bytes: 1 << 24,
            durability: DatabaseDurability::Process,
            lasting: &[],
        }
    }

    #[test]
    fn trail_below_linked_directory_opens_to_read() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real");
        std::fs::create_dir(&real).unwrap();
        let link = dir.path().join("link");
        symlink(&real, &link).unwrap();
        let path = link.join("audit.db");
        drop(Trail::open(&path, settings()).unwrap());
        let trail = Trail::open_to_read(&path).unwrap();
        assert_eq!(trail.path(), real.canonicalize().unwrap().join("audit.db"));
        // As in a server, the file itself may not be a link.
        let linked = dir.path().join("linked.db");
        symlink(real.join("audit.db"), &linked).unwrap();
        Trail::open_to_read(&linked).unwrap_err();
    }

    #[test]
    fn read_beyond_its_time_is_ended() {
        /// Query without an end.
        const ENDLESS: &str = "with recursive number(n) as (select 1 union all select n + 1 from number) \
            select count(*) from number";
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.db");
        drop(Trail::open(&path, settings()).unwrap());
        let trail = Trail::open_to_read(&path).unwrap();
        trail.limit_reads(Duration::ZERO).unwrap();
        let count =
            |connection: &Connection| connection.query_row(ENDLESS, [], |row| row.get::<_, i64>(0));
        let error = trail.database.read(count).unwrap_err();
        assert!(matches!(error, StoreError::TooLong { .. }), "{error}");
    }

    #[test]
    fn rows_by_outcome_equal_those_that_the_filter_matches() {
        let dir = tempfile::tempdir().unwrap();
        let trail = Trail::open(&dir.path().join("audit.db"), settings()).unwrap();
        let row = |(seq, outcome): (u64, &str)| TrailRow {
            seq,
            at: 0,
            kind: "call".to_owned(),
            module: None,
            job: None,
            uid: None,
            outcome: Some(outcome.to_owned()),
            body: Vec::new(),
            hash: [0; 32],
        };
        let outcomes = [
            "deny", "deny:x", "Deny:x", "de_y:x", "d%", "d%:x", "denied", "\u{fc}:x",
        ];
        let rows: Vec<TrailRow> = (1..).zip(outcomes).map(row).collect();
        let head = Seal {
            seq: 8,
            at: 0,
            hash: [0; 32],
            signature: Vec::new(),
        };
        trail.append(&rows, &[], &head, None).unwrap();
        for outcome in ["deny", "Deny", "DENY", "de_y", "d%", "%", "\u{fc}"] {
            let filter = Filter {
                outcome: Some(outcome.to_owned()),
                ..Filter::default()
            };
            let matching: Vec<TrailRow> = rows
                .iter()
                .filter(|row| filter.matches(row))
                .cloned()
                .collect();
            assert_eq!(trail.rows(&filter, 10).unwrap(), matching, "{outcome}");
        }
    }
}

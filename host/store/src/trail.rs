//! The audit trail: rows that are only added, each with a hash that follows from all before it, and dropped from the oldest on: all of
//! them, or those that do not stay (`trail_use`).
//! What rows and hashes mean is not known here.
use crate::{
    DatabaseDurability, StoreError, StoreHealth,
    database::Database,
    layout, read, stored,
    trail_use::{Which, add_use, row_bytes},
};
use rusqlite::{
    Connection, OptionalExtension, Row, Transaction, params, params_from_iter, types::Value,
};
use std::{collections::BTreeMap, path::Path};

/// The settings of a trail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrailSettings {
    /// How large the database may become, in bytes. Its log of writes, beside it, takes a few million more.
    pub max_bytes: u64,
    /// What a write survives.
    pub durability: DatabaseDurability,
    /// The kinds of rows that stay where others are dropped.
    pub lasting: &'static [&'static str],
}

/// A trail.
#[derive(Debug)]
pub struct Trail {
    pub(crate) database: Database,
    /// The kinds of rows that stay where others are dropped.
    pub(crate) lasting: &'static [&'static str],
}

/// A row of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrailRow {
    /// Its number, from 1. Each row has the number after that of the one before.
    pub seq: u64,
    /// When it was written, in milliseconds since the epoch.
    pub at: u64,
    /// Of what kind it is.
    pub kind: String,
    /// The module that it is about, if it is about one.
    pub module: Option<String>,
    /// The job.
    pub job: Option<String>,
    /// The user.
    pub uid: Option<u32>,
    /// What came of it.
    pub outcome: Option<String>,
    /// What else is known.
    pub body: Vec<u8>,
    /// What follows from it and all before.
    pub hash: [u8; 32],
}

/// Bytes that rows refer to, by their SHA-256.
#[derive(Clone, Copy, Debug)]
pub struct Blob<'a> {
    /// It.
    pub digest: [u8; 32],
    /// The bytes, if they may not be there yet.
    pub bytes: Option<&'a [u8]>,
    /// The last row that it is kept for; longer if it is added anew.
    pub until: u64,
}

/// What a seal is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SealKind {
    /// The last row that there is.
    Head,
    /// The last row that was dropped.
    Anchor,
    /// Some row on the way.
    Checkpoint,
}

/// A signed statement of which hash a row has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seal {
    /// Which row.
    pub seq: u64,
    /// When it was made, in milliseconds since the epoch.
    pub at: u64,
    /// Its hash.
    pub hash: [u8; 32],
    /// Who says so.
    pub signature: Vec<u8>,
}

/// Which rows are wanted. What is not said is not looked at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// From this number on.
    pub from: Option<u64>,
    /// To this one.
    pub to: Option<u64>,
    /// From this time on, in milliseconds since the epoch.
    pub since: Option<u64>,
    /// To this one.
    pub until: Option<u64>,
    /// Of one of these kinds; none means all.
    pub kinds: Vec<String>,
    /// About this module.
    pub module: Option<String>,
    /// About this job.
    pub job: Option<String>,
    /// About this user.
    pub uid: Option<u32>,
    /// With this outcome, or one that begins so and goes on with a colon.
    pub outcome: Option<String>,
}

impl Filter {
    /// Whether a row is wanted.
    pub fn wants(&self, row: &TrailRow) -> bool {
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

/// How much room there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Bytes that are used.
    pub used: u64,
    /// Bytes that there may be.
    pub most: u64,
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
    /// Opens a trail, making its file if there is none (readable by its owner only).
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

    /// Opens one that is there, to be read alone.
    pub fn open_to_read(path: &Path) -> Result<Trail, StoreError> {
        let database = Database::open_to_read(path, &layout::TRAIL)?;
        Ok(Trail {
            database,
            lasting: &[],
        })
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        self.database.path()
    }

    /// How writing and reading go.
    pub fn health(&self) -> StoreHealth {
        self.database.health()
    }

    /// Adds rows and what they refer to, and says anew what the last row is: all of it or nothing.
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

    /// Drops the oldest rows, up to that of the seal, with what only they refer to.
    pub fn drop_to(&self, anchor: &Seal) -> Result<(), StoreError> {
        self.database.write(|transaction| {
            let last = stored(anchor.seq);
            self.forget_use(transaction, 0, last, Which::All)?;
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

    /// The last row that there is, or was dropped, as it was sealed; none in a trail that was never written.
    pub fn seal(&self, kind: SealKind) -> Result<Option<Seal>, StoreError> {
        let select =
            "select seq, at, hash, signature from seal where kind = ?1 order by seq desc limit 1";
        self.database.read(|connection| {
            connection
                .query_row(select, [kind.word()], read_seal)
                .optional()
        })
    }

    /// All seals on the way, in their order.
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

    /// The rows that are wanted, the oldest first, at most so many.
    pub fn rows(&self, filter: &Filter, most: u32) -> Result<Vec<TrailRow>, StoreError> {
        self.database
            .read(|connection| rows(connection, filter, Order::OldestFirst, most))
    }

    /// The same, the latest first.
    pub fn last_rows(&self, filter: &Filter, most: u32) -> Result<Vec<TrailRow>, StoreError> {
        self.database
            .read(|connection| rows(connection, filter, Order::LatestFirst, most))
    }

    /// Bytes that rows refer to, if they are there.
    pub fn blob(&self, digest: &[u8; 32]) -> Result<Option<Vec<u8>>, StoreError> {
        let select = "select bytes from blob where digest = ?1";
        self.database.read(|connection| {
            connection
                .query_row(select, params![digest], |row| row.get(0))
                .optional()
        })
    }

    /// How much room there is.
    pub fn room(&self) -> Result<Room, StoreError> {
        self.database.read(|connection| {
            let number = |name| {
                connection
                    .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
                    .map(read)
            };
            let (page, pages, free) = (
                number("page_size")?,
                number("page_count")?,
                number("freelist_count")?,
            );
            let most = number("max_page_count")?;
            Ok(Room {
                used: pages.saturating_sub(free).saturating_mul(page),
                most: most.saturating_mul(page),
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
    let (mut wanted, mut values) = (vec!["true".to_owned()], Vec::new());
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
        only(
            "(outcome = ? or outcome like ?)",
            Value::Text(outcome.clone()),
        );
        values.push(Value::Text(format!("{outcome}:%")));
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

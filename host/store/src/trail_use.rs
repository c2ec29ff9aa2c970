//! Size of the rows of a trail by class and user, and rows dropped between others that stay.
use crate::{StoreError, Trail, read, stored};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use std::collections::BTreeMap;

/// Approximate size in bytes of a row without its body.
const ROW_OVERHEAD_BYTES: u64 = 160;
/// The uid in the database of rows that are about no user.
const NO_USER: i64 = -1;

/// Class of rows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RowClass {
    /// Rows that stay when others are dropped.
    Lasting,
    /// All other rows.
    Passing,
}

/// Size of the rows of one class about one user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsedBytes {
    /// The class.
    pub class: RowClass,
    /// The user; `None` for rows about no user.
    pub uid: Option<u32>,
    /// The size in bytes.
    pub bytes: u64,
}

/// A row without its body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowSummary {
    /// The number of the row.
    pub seq: u64,
    /// The time in milliseconds since the epoch.
    pub at: u64,
    /// The kind.
    pub kind: String,
    /// The class of the kind.
    pub class: RowClass,
    /// The size in bytes.
    pub bytes: u64,
    /// The hash.
    pub hash: [u8; 32],
}

/// A signed statement about rows dropped between others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DroppedRows {
    /// The last row that the statement covers.
    pub last: u64,
    /// The statement, which is not interpreted here.
    pub body: Vec<u8>,
    /// The signature of the server.
    pub signature: Vec<u8>,
}

/// Selection of rows in a range.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowSelection {
    All,
    Passing,
}

/// Increase in bytes by class and user.
pub(crate) type UseByUser = BTreeMap<(RowClass, Option<u32>), u64>;

/// Returns the size of a row with a body of `body` bytes.
pub(crate) fn row_bytes(body: u64) -> u64 {
    body.saturating_add(ROW_OVERHEAD_BYTES)
}

impl RowClass {
    fn number(self) -> i64 {
        i64::from(self == RowClass::Lasting)
    }

    fn of(number: i64) -> RowClass {
        if number == RowClass::Lasting.number() {
            RowClass::Lasting
        } else {
            RowClass::Passing
        }
    }
}

impl Trail {
    /// Returns the class of a kind of rows.
    pub(crate) fn stays(&self, kind: &str) -> RowClass {
        if self.lasting.contains(&kind) {
            RowClass::Lasting
        } else {
            RowClass::Passing
        }
    }

    /// Returns an SQL expression that is 1 for rows that stay. The kinds are constants of the
    /// program.
    fn stays_in_sql(&self) -> String {
        let words: Vec<String> = self
            .lasting
            .iter()
            .map(|kind| format!("'{}'", kind.replace('\'', "''")))
            .collect();
        format!("(kind in ({}))", words.join(", "))
    }

    /// Counts the bytes of all rows of a trail from an earlier release.
    pub(crate) fn count_use(&self) -> Result<(), StoreError> {
        let is_counted = |connection: &Connection| {
            let select = "select exists (select 1 from used) or not exists (select 1 from record)";
            connection.query_row(select, [], |row| row.get::<_, bool>(0))
        };
        if self.database.read(is_counted)? {
            return Ok(());
        }
        self.database.write(|transaction| {
            // In one transaction with its result: rows that are added in between would be missing.
            let used = self.use_of(transaction, 0, i64::MAX, RowSelection::All)?;
            add_use(transaction, &used)
        })
    }

    fn use_of(
        &self,
        transaction: &Transaction<'_>,
        from: i64,
        to: i64,
        which: RowSelection,
    ) -> rusqlite::Result<UseByUser> {
        let stays = self.stays_in_sql();
        let only = if which == RowSelection::Passing {
            format!(" and not {stays}")
        } else {
            String::new()
        };
        let select = format!(
            "select {stays}, uid, sum(length(body)), count(*) from record where seq between ?1 and ?2{only} group by 1, 2"
        );
        let mut select = transaction.prepare_cached(&select)?;
        let rows = select.query_map(params![from, to], |row| {
            let bytes = read(row.get(2)?);
            let count = read(row.get(3)?);
            Ok((
                (RowClass::of(row.get(0)?), row.get(1)?),
                bytes.saturating_add(ROW_OVERHEAD_BYTES.saturating_mul(count)),
            ))
        })?;
        rows.collect()
    }

    /// Subtracts the rows of a range, which the caller deletes.
    pub(crate) fn forget_use(
        &self,
        transaction: &Transaction<'_>,
        from: i64,
        to: i64,
        which: RowSelection,
    ) -> rusqlite::Result<()> {
        let mut update = transaction
            .prepare_cached("update used set bytes = bytes - ?3 where stays = ?1 and uid = ?2")?;
        for ((class, uid), bytes) in self.use_of(transaction, from, to, which)? {
            update.execute(params![
                class.number(),
                uid.map_or(NO_USER, i64::from),
                stored(bytes)
            ])?;
        }
        transaction
            .execute("delete from used where bytes <= 0", [])
            .map(drop)
    }

    /// Returns the size of the rows by class and user.
    pub fn used(&self) -> Result<Vec<UsedBytes>, StoreError> {
        self.database.read(|connection| {
            let mut select = connection.prepare_cached("select stays, uid, bytes from used")?;
            let rows = select.query_map([], |row| {
                let uid: i64 = row.get(1)?;
                Ok(UsedBytes {
                    class: RowClass::of(row.get(0)?),
                    uid: u32::try_from(uid).ok(),
                    bytes: read(row.get(2)?),
                })
            })?;
            rows.collect()
        })
    }

    /// Returns the time of the oldest row of a class.
    pub fn oldest(&self, class: RowClass) -> Result<Option<u64>, StoreError> {
        let stays = self.stays_in_sql();
        let wanted = class.number();
        let select = format!("select at from record where {stays} = {wanted} order by seq limit 1");
        self.database.read(|connection| {
            connection
                .query_row(&select, [], |row| row.get(0).map(read))
                .optional()
        })
    }

    /// Returns the oldest rows after `after`, at most `most`, without their bodies.
    pub fn outlines(&self, after: u64, most: u32) -> Result<Vec<RowSummary>, StoreError> {
        self.database.read(|connection| {
            // SQLite knows the length without reading the body.
            let select = "select seq, at, kind, length(body), hash from record where seq > ?1 order by seq limit ?2";
            let mut select = connection.prepare_cached(select)?;
            let rows = select.query_map(params![stored(after), most], |row| {
                let kind: String = row.get(2)?;
                Ok(RowSummary {
                    seq: read(row.get(0)?),
                    at: read(row.get(1)?),
                    class: self.stays(&kind),
                    kind,
                    bytes: row_bytes(read(row.get(3)?)),
                    hash: row.get(4)?,
                })
            })?;
            rows.collect()
        })
    }

    /// Drops rows from `from` to the last row that the statement covers, except for rows that stay,
    /// with blobs that only they refer to. The statement that this one replaces is dropped as well.
    pub fn thin(
        &self,
        from: u64,
        dropped: &DroppedRows,
        replaced: Option<u64>,
    ) -> Result<(), StoreError> {
        let DroppedRows {
            last,
            body,
            signature,
        } = dropped;
        let from = stored(from);
        let last = stored(*last);
        let stays = self.stays_in_sql();
        self.database.write(|transaction| {
            // Before the rows go: their sizes are summed up from them.
            self.forget_use(transaction, from, last, RowSelection::Passing)?;
            let delete = format!("delete from record where seq between ?1 and ?2 and not {stays}");
            transaction.execute(&delete, [from, last])?;
            // A trail checkpoint cannot be checked without its row.
            transaction.execute(
                "delete from seal where kind = 'checkpoint' and seq between ?1 and ?2
                 and not exists (select 1 from record where record.seq = seal.seq)",
                [from, last],
            )?;
            transaction.execute("delete from blob where last <= ?1", [last])?;
            if let Some(replaced) = replaced {
                transaction.execute("delete from dropped where last = ?1", [stored(replaced)])?;
            }
            let insert = "insert into dropped (last, body, signature) values (?1, ?2, ?3)";
            transaction
                .execute(insert, params![last, body, signature])
                .map(drop)
        })
    }

    /// Returns all statements about rows dropped between others, in order.
    pub fn dropped(&self) -> Result<Vec<DroppedRows>, StoreError> {
        self.database.read(|connection| {
            // A trail of an earlier release that is opened for reading lacks the table.
            let is_there = "select exists (select 1 from sqlite_schema where name = 'dropped')";
            if !connection.query_row(is_there, [], |row| row.get::<_, bool>(0))? {
                return Ok(Vec::new());
            }
            let select = "select last, body, signature from dropped order by last";
            connection
                .prepare(select)?
                .query_map([], read_dropped)?
                .collect()
        })
    }

    /// Returns the last of these statements.
    pub fn last_dropped(&self) -> Result<Option<DroppedRows>, StoreError> {
        let select = "select last, body, signature from dropped order by last desc limit 1";
        self.database
            .read(|connection| connection.query_row(select, [], read_dropped).optional())
    }
}

fn read_dropped(row: &Row<'_>) -> rusqlite::Result<DroppedRows> {
    Ok(DroppedRows {
        last: read(row.get(0)?),
        body: row.get(1)?,
        signature: row.get(2)?,
    })
}

/// Adds the bytes of rows to the counts.
pub(crate) fn add_use(transaction: &Transaction<'_>, used: &UseByUser) -> rusqlite::Result<()> {
    let mut add = transaction.prepare_cached(
        "insert into used (stays, uid, bytes) values (?1, ?2, ?3)
         on conflict (stays, uid) do update set bytes = bytes + excluded.bytes",
    )?;
    for ((class, uid), bytes) in used {
        add.execute(params![
            class.number(),
            uid.map_or(NO_USER, i64::from),
            stored(*bytes)
        ])?;
    }
    Ok(())
}

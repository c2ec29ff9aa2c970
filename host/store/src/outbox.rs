//! Persistent queues of sinks: accepted messages, kept until they are delivered. Their content is
//! not interpreted here.
//!
//! Several processes may use one store; each delivers the messages that it accepted. Messages of a
//! process that has ended are claimed by another one. Each message has a *holder*, and each holder
//! has a file beside the store that it keeps locked while it runs. The kernel releases the lock
//! when the process ends.
use crate::{Store, StoreError, read, stored};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use rustix::rand::{GetRandomFlags, getrandom};
use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    sync::Arc,
};

/// Approximate size in bytes of a message without its head and body.
const MESSAGE_COST: u64 = 160;

/// Limits of one sink's queue, for all holders together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutboxBounds {
    /// Maximum number of messages.
    pub messages: u64,
    /// Maximum size of all messages in bytes.
    pub bytes: u64,
}

/// A stored message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutboxMessage {
    /// The id in the store.
    pub id: i64,
    /// The time of acceptance in seconds since the epoch.
    pub accepted: u64,
    /// The user that is charged for it, if there is one.
    pub uid: Option<u32>,
    /// Data for the delivery, which may change.
    pub head: String,
    /// The message.
    pub body: Vec<u8>,
}

/// The queues of all sinks, as used by one process.
#[derive(Debug)]
pub struct SinkQueues {
    store: Arc<Store>,
    holder: Holder,
}

/// The queue of one sink.
#[derive(Clone, Debug)]
pub struct SinkQueue {
    all: Arc<SinkQueues>,
    sink: String,
    bounds: OutboxBounds,
}

/// The identity and lock file of this process.
#[derive(Debug)]
struct Holder {
    name: String,
    path: PathBuf,
    /// Locked until it is closed.
    _file: File,
}

impl Drop for Holder {
    fn drop(&mut self) {
        // If the file stays, it is unlocked: the messages can be claimed all the same.
        let _ = fs::remove_file(&self.path);
    }
}

impl Store {
    /// Opens the queues of all sinks. This value delivers the messages added through it until it is
    /// dropped.
    pub fn outboxes(self: &Arc<Store>) -> Result<Arc<SinkQueues>, StoreError> {
        let mut random = [0; 16];
        let hold = |path: PathBuf| move |source: io::Error| StoreError::Hold { path, source };
        getrandom(&mut random, GetRandomFlags::empty())
            .map_err(|error| hold(self.database.path().into())(error.into()))?;
        let name = format!("{:032x}", u128::from_ne_bytes(random));
        let path = holder_path(self, &name);
        // Other processes look for a holder only while it has messages, so the file may be unlocked
        // for a moment.
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        let file = file.map_err(hold(path.clone()))?;
        file.try_lock()
            .map_err(|error| hold(path.clone())(error.into()))?;
        Ok(Arc::new(SinkQueues {
            store: self.clone(),
            holder: Holder {
                name,
                path,
                _file: file,
            },
        }))
    }
}

fn holder_path(store: &Store, holder: &str) -> PathBuf {
    let mut name = store.database.path().as_os_str().to_owned();
    name.push("-outbox-");
    name.push(holder);
    PathBuf::from(name)
}

impl SinkQueues {
    /// Returns the queue of one sink.
    pub fn of(self: &Arc<SinkQueues>, sink: &str, bounds: OutboxBounds) -> SinkQueue {
        SinkQueue {
            all: self.clone(),
            sink: sink.to_owned(),
            bounds,
        }
    }

    /// Returns the number of stored messages of each sink.
    pub fn messages_by_sink(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        self.store.read(|connection| {
            let mut statement =
                connection.prepare("select sink, count(*) from outbox group by sink")?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, read(row.get(1)?))))?;
            rows.collect()
        })
    }

    /// Returns true if the holder still runs.
    fn is_running(&self, holder: &str) -> Result<bool, StoreError> {
        let path = holder_path(&self.store, holder);
        let no_follow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default();
        let file = match OpenOptions::new()
            .write(true)
            .custom_flags(no_follow)
            .open(&path)
        {
            Ok(file) => file,
            // A holder removes its file when it ends. One that was killed leaves the file unlocked.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(source) => return Err(StoreError::Hold { path, source }),
        };
        match file.try_lock() {
            // The lock goes with `file`. A process that tries at this moment takes the holder for a
            // running one, and leaves its messages to this process.
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(source)) => Err(StoreError::Hold { path, source }),
        }
    }
}

impl SinkQueue {
    /// Stores a message for which this user is charged.
    ///
    /// # Errors
    ///
    /// If the queue is full, nothing changes.
    pub fn add(
        &self,
        accepted: u64,
        uid: Option<u32>,
        head: &str,
        body: &[u8],
    ) -> Result<i64, StoreError> {
        let room = "select count(*), coalesce(sum(bytes), 0) from outbox where sink = ?1";
        let insert = "insert into outbox (sink, holder, accepted, bytes, head, body, uid) values (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let bytes = (head.len() as u64).saturating_add(body.len() as u64);
        self.all.store.write_for_users(|transaction| {
            let (count, sum) = transaction.query_row(room, [&self.sink], |row| {
                Ok((read(row.get(0)?), read(row.get(1)?)))
            })?;
            if count >= self.bounds.messages || sum.saturating_add(bytes) > self.bounds.bytes {
                // Not an error of the transaction: a full queue does not make the store unhealthy.
                return Ok(Err(self.full()));
            }
            let all = "select count(*), coalesce(sum(bytes), 0) from outbox";
            let all =
                transaction.query_row(all, [], |row| {
                    Ok(read(row.get(1)?)
                        .saturating_add(MESSAGE_COST.saturating_mul(read(row.get(0)?))))
                })?;
            let most = self.all.store.settings.mail_bytes;
            if all.saturating_add(bytes).saturating_add(MESSAGE_COST) > most {
                return Ok(Err(StoreError::MailFull { bytes: most }));
            }
            let holder = &self.all.holder.name;
            transaction.execute(
                insert,
                params![
                    self.sink,
                    holder,
                    stored(accepted),
                    stored(bytes),
                    head,
                    body,
                    uid
                ],
            )?;
            Ok(Ok(transaction.last_insert_rowid()))
        })?
    }

    fn full(&self) -> StoreError {
        let OutboxBounds { messages, bytes } = self.bounds;
        StoreError::OutboxFull {
            sink: self.sink.clone(),
            messages,
            bytes,
        }
    }

    /// Changes the data for the delivery of a message, if it is still stored.
    pub fn rewrite(&self, id: i64, head: &str) -> Result<(), StoreError> {
        let update = "update outbox set head = ?2 where id = ?1";
        self.all
            .store
            .write(|transaction| transaction.execute(update, params![id, head]).map(drop))
    }

    /// Removes a message that was delivered or given up.
    pub fn remove(&self, id: i64) -> Result<(), StoreError> {
        self.all.store.write(|transaction| {
            transaction
                .execute("delete from outbox where id = ?1", [id])
                .map(drop)
        })
    }

    /// Claims the messages of holders that have ended, oldest first.
    pub fn claim(&self) -> Result<Vec<OutboxMessage>, StoreError> {
        let mut ended_holders = Vec::new();
        for holder in self
            .all
            .store
            .read(|connection| self.other_holders(connection))?
        {
            if !self.all.is_running(&holder)? {
                ended_holders.push(holder);
            }
        }
        if ended_holders.is_empty() {
            return Ok(Vec::new());
        }
        // Another process may have claimed some since the look at the holders. The transaction
        // takes only messages that still belong to an ended holder.
        let claimed = self
            .all
            .store
            .write(|transaction| self.take(transaction, &ended_holders))?;
        for holder in ended_holders {
            // The file stays while messages of other sinks refer to the holder.
            if self
                .all
                .store
                .read(|connection| holds(connection, &holder))?
                .is_none()
            {
                // A file that stays does no harm: no message names its holder any more.
                let _ = fs::remove_file(holder_path(&self.all.store, &holder));
            }
        }
        Ok(claimed)
    }

    fn other_holders(&self, connection: &Connection) -> rusqlite::Result<Vec<String>> {
        let select = "select distinct holder from outbox where sink = ?1 and holder <> ?2";
        let mut statement = connection.prepare(select)?;
        let rows = statement.query_map([&self.sink, &self.all.holder.name], |row| row.get(0))?;
        rows.collect()
    }

    /// Takes messages over in one transaction, so that no other process claims them too.
    fn take(
        &self,
        transaction: &Transaction<'_>,
        ended_holders: &[String],
    ) -> rusqlite::Result<Vec<OutboxMessage>> {
        let select = "select id, accepted, head, body, uid from outbox where sink = ?1 and holder = ?2 order by id";
        let update = "update outbox set holder = ?3 where sink = ?1 and holder = ?2";
        let mut messages = Vec::new();
        for holder in ended_holders {
            let mut statement = transaction.prepare_cached(select)?;
            let rows = statement.query_map([&self.sink, holder], |row| {
                let id = row.get(0)?;
                let accepted = read(row.get(1)?);
                let head = row.get(2)?;
                let body = row.get(3)?;
                let uid = row.get(4)?;
                Ok(OutboxMessage {
                    id,
                    accepted,
                    uid,
                    head,
                    body,
                })
            })?;
            for message in rows {
                messages.push(message?);
            }
            transaction.execute(update, [&self.sink, holder, &self.all.holder.name])?;
        }
        // Read holder by holder; the ids are in the order of acceptance.
        messages.sort_by_key(|message| message.id);
        Ok(messages)
    }
}

fn holds(connection: &Connection, holder: &str) -> rusqlite::Result<Option<i64>> {
    connection
        .query_row(
            "select id from outbox where holder = ?1 limit 1",
            [holder],
            |row| row.get(0),
        )
        .optional()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreSettings;

    const ROOM: OutboxBounds = OutboxBounds {
        messages: 3,
        bytes: 100,
    };

    fn store(dir: &tempfile::TempDir) -> Arc<Store> {
        Arc::new(Store::open(&dir.path().join("peal.db"), StoreSettings::default()).unwrap())
    }

    fn heads(messages: Vec<OutboxMessage>) -> Vec<String> {
        messages.into_iter().map(|message| message.head).collect()
    }

    fn lock_files(dir: &tempfile::TempDir) -> usize {
        let names = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        names
            .filter(|name| name.to_string_lossy().contains("-outbox-"))
            .count()
    }

    #[test]
    fn left_messages_are_claimed_once_and_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let first = store(&dir).outboxes().unwrap().of("mail", ROOM);
        let ids: Vec<i64> = ["a", "b", "c"]
            .iter()
            .map(|head| first.add(7, Some(5), head, b"body").unwrap())
            .collect();
        first.remove(ids[1]).unwrap();
        first.rewrite(ids[2], "c, changed").unwrap();
        let second = store(&dir).outboxes().unwrap().of("mail", ROOM);
        let other = store(&dir).outboxes().unwrap().of("syslog", ROOM);
        assert_eq!(second.claim().unwrap(), [], "they belong to one who lives");
        drop(first);
        let message = |id, head: &str| OutboxMessage {
            id,
            accepted: 7,
            uid: Some(5),
            head: head.into(),
            body: b"body".into(),
        };
        assert_eq!(other.claim().unwrap(), []);
        assert_eq!(
            second.claim().unwrap(),
            [message(ids[0], "a"), message(ids[2], "c, changed")]
        );
        let third = store(&dir).outboxes().unwrap().of("mail", ROOM);
        assert_eq!(
            (third.claim().unwrap(), second.claim().unwrap()),
            (vec![], vec![])
        );
        drop((second, third, other));
        assert_eq!(lock_files(&dir), 0);
        assert_eq!(
            store(&dir).outboxes().unwrap().messages_by_sink().unwrap(),
            [("mail".to_owned(), 2)].into()
        );
    }

    #[test]
    fn concurrent_claimers_get_each_message_once() {
        let dir = tempfile::tempdir().unwrap();
        let room = OutboxBounds {
            messages: 100,
            bytes: 10_000,
        };
        let left = store(&dir).outboxes().unwrap().of("mail", room);
        let mut wanted: Vec<String> = (0..50).map(|number| format!("{number:02}")).collect();
        for head in &wanted {
            left.add(1, None, head, b"").unwrap();
        }
        drop(left);
        let boxes: Vec<SinkQueue> = (0..4)
            .map(|_| store(&dir).outboxes().unwrap().of("mail", room))
            .collect();
        let mut got: Vec<String> = std::thread::scope(|scope| {
            let claims: Vec<_> = boxes
                .iter()
                .map(|outbox| scope.spawn(|| heads(outbox.claim().unwrap())))
                .collect();
            claims
                .into_iter()
                .flat_map(|claim| claim.join().unwrap())
                .collect()
        });
        got.sort();
        wanted.sort();
        assert_eq!(got, wanted);
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let dir = tempfile::tempdir().unwrap();
        let outbox = store(&dir).outboxes().unwrap().of("mail", ROOM);
        assert!(matches!(
            outbox.add(1, None, "", &[0; 101]),
            Err(StoreError::OutboxFull { .. })
        ));
        let first = outbox.add(1, None, "ab", &[0; 98]).unwrap();
        assert!(outbox.add(1, None, "", b"x").is_err());
        outbox.remove(first).unwrap();
        for _ in 0..3 {
            outbox.add(1, None, "", b"").unwrap();
        }
        let error = outbox.add(1, None, "", b"").unwrap_err().to_string();
        assert_eq!(
            error,
            "the queue of sink \"mail\" is full; its limits are 3 messages and 100 bytes"
        );
        outbox.all.of("other", ROOM).add(1, None, "", b"").unwrap();
        assert_eq!(
            outbox.all.store.health().failed,
            0,
            "that there is no more room is no trouble of the store's"
        );
    }
}

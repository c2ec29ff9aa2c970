//! Calls of admins to a running server, with their results.
use crate::{Store, StoreError, read, stored};
use rusqlite::params;

/// Maximum number of calls that are kept.
pub const ADMIN_CALLS_KEPT: u32 = 100_000;

/// Maximum length of a recorded verb, and of an outcome, in bytes. The trace has all of it.
const LONGEST_TEXT: usize = 480;

/// Maximum size of a recorded call in bytes.
const CALL_BYTES: u64 = 1024;

/// A call of an admin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdminCall {
    /// The caller's uid as given by the kernel.
    pub uid: u32,
    /// The caller's pid, if the kernel gave it.
    pub pid: Option<i32>,
    /// The requested action.
    pub verb: String,
    /// The result.
    pub outcome: String,
}

/// A recorded call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdminRecord {
    /// The time in seconds since the epoch.
    pub at: u64,
    /// The call.
    pub call: AdminCall,
}

impl Store {
    /// Records a call.
    pub fn admin_called(&self, call: &AdminCall, at: u64) -> Result<(), StoreError> {
        let insert =
            "insert into admin_call (at, uid, pid, verb, outcome) values (?1, ?2, ?3, ?4, ?5)";
        let (verb, outcome) = (cut(&call.verb), cut(&call.outcome));
        let values = params![stored(at), call.uid, call.pid, verb, outcome];
        let kept = (self.settings.admin_bytes / CALL_BYTES).min(u64::from(ADMIN_CALLS_KEPT));
        self.write(|transaction| {
            transaction.execute(insert, values)?;
            // Only the oldest rows are deleted, so the ids are consecutive and bound the number of
            // rows.
            let oldest = transaction.last_insert_rowid() - stored(kept.max(1));
            transaction
                .execute("delete from admin_call where id <= ?1", [oldest])
                .map(drop)
        })
    }

    /// Returns the last calls, at most `most`, latest first.
    pub fn admin_calls(&self, most: u32) -> Result<Vec<AdminRecord>, StoreError> {
        let select = "select at, uid, pid, verb, outcome from admin_call order by id desc limit ?1";
        self.read(|connection| {
            let mut statement = connection.prepare(select)?;
            let rows = statement.query_map([most], |row| {
                let call = AdminCall {
                    uid: row.get(1)?,
                    pid: row.get(2)?,
                    verb: row.get(3)?,
                    outcome: row.get(4)?,
                };
                Ok(AdminRecord {
                    at: read(row.get(0)?),
                    call,
                })
            })?;
            rows.collect()
        })
    }
}

/// Cuts a text at a character, within [`LONGEST_TEXT`] bytes.
fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LONGEST_TEXT))
        .unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreSettings;

    #[test]
    fn calls_are_recorded_in_their_order_and_the_oldest_go() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("peal.db"), StoreSettings::default()).unwrap();
        let call = |verb: &str| AdminCall {
            uid: 1000,
            pid: Some(7),
            verb: verb.into(),
            outcome: "done".into(),
        };
        store.admin_called(&call("stats"), 1).unwrap();
        store
            .admin_called(
                &AdminCall {
                    pid: None,
                    ..call("stop")
                },
                2,
            )
            .unwrap();
        let found = store.admin_calls(10).unwrap();
        let wanted = [
            AdminRecord {
                at: 2,
                call: AdminCall {
                    pid: None,
                    ..call("stop")
                },
            },
            AdminRecord {
                at: 1,
                call: call("stats"),
            },
        ];
        assert_eq!(found, wanted);
        let far = i64::from(ADMIN_CALLS_KEPT);
        store
            .write(|transaction| {
                transaction.execute("update admin_call set id = ?1 where id = 2", [far])
            })
            .unwrap();
        store.admin_called(&call("jobs"), 3).unwrap();
        let verbs: Vec<String> = store
            .admin_calls(10)
            .unwrap()
            .into_iter()
            .map(|record| record.call.verb)
            .collect();
        assert_eq!(verbs, ["jobs", "stop"]);
        assert_eq!(store.admin_calls(1).unwrap().len(), 1);
    }
}

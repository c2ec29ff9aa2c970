//! Persistent state of modules: a small store of keys and values per module and scope, within a
//! quota.
use crate::{Store, StoreError, read, stored};
use peal_model::Nspace;
use rusqlite::{OptionalExtension, Transaction, params};
use std::{fmt, sync::Arc};

/// Size in bytes that each entry counts beyond its key and value.
pub const ENTRY_BYTES: u64 = 64;

/// Scope of a module's state. State of one tenant is invisible to others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StateScope {
    /// The site.
    Site,
    /// A user.
    User(u32),
    /// A job.
    Namespace(Nspace),
}

impl fmt::Display for StateScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateScope::Site => f.write_str("site"),
            StateScope::User(uid) => write!(f, "user {uid}"),
            StateScope::Namespace(nspace) => write!(f, "namespace {nspace}"),
        }
    }
}

/// The state of one module for one scope.
#[derive(Clone, Debug)]
pub struct ModuleStateStore {
    store: Arc<Store>,
    module: String,
    scope: String,
    quota: u64,
    /// Limit of the state of all modules for the scope, in bytes.
    total: u64,
}

/// Divisor that gives the part of the state of all modules that is reserved for those of the site.
const RESERVED_PART: u64 = 8;

impl Store {
    /// Returns the size of the state of all modules in bytes.
    fn state_bytes(&self, transaction: &Transaction<'_>) -> rusqlite::Result<u64> {
        let select = "select coalesce(sum(bytes), 0) from state_size";
        transaction
            .query_row(select, [], |row| row.get(0))
            .map(read)
    }

    /// Returns the state of a module for a scope. Its keys and values, with [`ENTRY_BYTES`] for
    /// each, may take `quota` bytes.
    pub fn state(
        self: &Arc<Store>,
        module: &str,
        scope: &StateScope,
        quota: u64,
    ) -> ModuleStateStore {
        ModuleStateStore {
            store: self.clone(),
            module: module.to_owned(),
            scope: scope.to_string(),
            quota,
            total: u64::MAX,
        }
    }
}

impl ModuleStateStore {
    /// Limits the state of all modules for the scope to `total` bytes.
    pub fn within(self, total: u64) -> ModuleStateStore {
        ModuleStateStore { total, ..self }
    }

    /// Returns the value of a key, if there is one.
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let select = "select value from state where module = ?1 and scope = ?2 and key = ?3";
        self.store.read(|connection| {
            connection
                .query_row(select, params![self.module, self.scope, key], |row| {
                    row.get(0)
                })
                .optional()
        })
    }

    /// Sets a key. The caller bounds the length of keys.
    ///
    /// # Errors
    ///
    /// If the state would exceed a limit, nothing changes.
    pub fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        let new = entry(key.len() as u64, value.len() as u64);
        let upsert = "insert into state (module, scope, key, value) values (?1, ?2, ?3, ?4)
                      on conflict do update set value = excluded.value";
        self.store.write_for_users(|transaction| {
            let used = self.used(transaction)?;
            let old = self.entry_size(transaction, key)?;
            let requested = used.saturating_sub(old).saturating_add(new);
            // After a quota was lowered, a module may still replace a value by a smaller one.
            if requested > self.quota && new > old {
                // Not an error of the transaction: a module at its quota does not make the store
                // unhealthy.
                return Ok(Err(StoreError::Quota {
                    module: self.module.clone(),
                    requested,
                    quota: self.quota,
                }));
            }
            let all = self
                .used_by_all(transaction)?
                .saturating_sub(old)
                .saturating_add(new);
            // A module that gives back space may do so although others fill the scope.
            if all > self.total && new > old {
                return Ok(Err(StoreError::Total {
                    scope: self.scope.clone(),
                    requested: all,
                    total: self.total,
                }));
            }
            let whole = self
                .store
                .state_bytes(transaction)?
                .saturating_sub(old)
                .saturating_add(new);
            let room = self.room();
            if whole > room && new > old {
                return Ok(Err(StoreError::StateFull { bytes: room }));
            }
            transaction.execute(upsert, params![self.module, self.scope, key, value])?;
            self.note(transaction, requested)?;
            Ok(Ok(()))
        })?
    }

    /// Removes a key, if it is there.
    pub fn delete(&self, key: &str) -> Result<(), StoreError> {
        let delete = "delete from state where module = ?1 and scope = ?2 and key = ?3";
        self.store.write(|transaction| {
            let used = self.used(transaction)?;
            let old = self.entry_size(transaction, key)?;
            transaction.execute(delete, params![self.module, self.scope, key])?;
            self.note(transaction, used.saturating_sub(old))
        })
    }

    /// Removes all keys.
    pub fn clear(&self) -> Result<(), StoreError> {
        self.store.write(|transaction| {
            for delete in [
                "delete from state where module = ?1 and scope = ?2",
                "delete from state_size where module = ?1 and scope = ?2",
            ] {
                transaction.execute(delete, params![self.module, self.scope])?;
            }
            Ok(())
        })
    }

    /// Returns all keys with this prefix, in the order of their bytes.
    pub fn keys(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let select =
            "select key from state where module = ?1 and scope = ?2 and key >= ?3 order by key";
        self.store.read(|connection| {
            let mut statement = connection.prepare_cached(select)?;
            let mut rows = statement.query(params![self.module, self.scope, prefix])?;
            let mut keys = Vec::new();
            while let Some(row) = rows.next()? {
                let key: String = row.get(0)?;
                // SQLite compares text by its bytes, so the keys with a prefix follow each other.
                if !key.starts_with(prefix) {
                    break;
                }
                keys.push(key);
            }
            Ok(keys)
        })
    }

    /// Returns the size that the state of all modules may have for this scope to be written.
    fn room(&self) -> u64 {
        let all = self.store.settings.state_bytes;
        if self.scope == StateScope::Site.to_string() {
            all
        } else {
            all - all / RESERVED_PART
        }
    }

    /// Returns the size of all entries in bytes.
    fn used(&self, transaction: &Transaction<'_>) -> rusqlite::Result<u64> {
        let select = "select bytes from state_size where module = ?1 and scope = ?2";
        let bytes = transaction
            .query_row(select, params![self.module, self.scope], |row| row.get(0))
            .optional()?;
        Ok(bytes.map(read).unwrap_or_default())
    }

    /// Returns the size of all modules' entries for the scope in bytes.
    fn used_by_all(&self, transaction: &Transaction<'_>) -> rusqlite::Result<u64> {
        let select = "select coalesce(sum(bytes), 0) from state_size where scope = ?1";
        transaction
            .query_row(select, params![self.scope], |row| row.get(0))
            .map(read)
    }

    /// Returns the size of a key's entry in bytes; 0 if there is none.
    fn entry_size(&self, transaction: &Transaction<'_>, key: &str) -> rusqlite::Result<u64> {
        let select =
            "select length(value) from state where module = ?1 and scope = ?2 and key = ?3";
        let length = transaction
            .query_row(select, params![self.module, self.scope, key], |row| {
                row.get(0)
            })
            .optional()?;
        Ok(length.map_or(0, |length| entry(key.len() as u64, read(length))))
    }

    fn note(&self, transaction: &Transaction<'_>, bytes: u64) -> rusqlite::Result<()> {
        let upsert = "insert into state_size (module, scope, bytes) values (?1, ?2, ?3)
                      on conflict do update set bytes = excluded.bytes";
        transaction
            .execute(upsert, params![self.module, self.scope, stored(bytes)])
            .map(drop)
    }
}

fn entry(key: u64, value: u64) -> u64 {
    key.saturating_add(value).saturating_add(ENTRY_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreSettings;

    fn store() -> (tempfile::TempDir, Arc<Store>) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("peal.db"), StoreSettings::default()).unwrap();
        (dir, Arc::new(store))
    }

    #[test]
    fn modules_and_scopes_do_not_see_each_other_and_state_survives() {
        let (dir, store) = store();
        let job = |name| StateScope::Namespace(Nspace::new(name).unwrap());
        let scopes = [
            StateScope::Site,
            StateScope::User(1000),
            StateScope::User(1001),
            job("a"),
            job("b"),
        ];
        for module in ["one", "two"] {
            for scope in &scopes {
                let value = format!("{module} for {scope}");
                store
                    .state(module, scope, 1000)
                    .set("who", value.as_bytes())
                    .unwrap();
            }
        }
        drop(store);
        let store =
            Arc::new(Store::open(&dir.path().join("peal.db"), StoreSettings::default()).unwrap());
        for module in ["one", "two"] {
            for scope in &scopes {
                let kept = store.state(module, scope, 1000).get("who").unwrap();
                assert_eq!(kept, Some(format!("{module} for {scope}").into_bytes()));
            }
        }
    }

    #[test]
    fn keys_are_sorted_with_any_bytes() {
        let (_dir, store) = store();
        let state = store.state("m", &StateScope::Site, 100_000);
        let mut all = [
            "",
            "a",
            "a.1",
            "a.2",
            "a\0b",
            "a\u{10ffff}",
            "b",
            "%",
            "_",
            "ä",
        ];
        for key in all {
            state.set(key, key.as_bytes()).unwrap();
        }
        all.sort_unstable();
        assert_eq!(state.keys("").unwrap(), all);
        assert_eq!(
            state.keys("a").unwrap(),
            ["a", "a\0b", "a.1", "a.2", "a\u{10ffff}"]
        );
        assert_eq!(state.keys("%").unwrap(), ["%"]);
        assert_eq!(state.keys("zz").unwrap(), Vec::<String>::new());
        assert_eq!(state.get("a\0b").unwrap().unwrap(), b"a\0b");
    }

    #[test]
    fn modules_of_one_scope_share_total_quota() {
        let (_dir, store) = store();
        let state = |module, scope| {
            store
                .state(module, &scope, 1000)
                .within(2 * (ENTRY_BYTES + 1 + 10))
        };
        let one = state("one", StateScope::User(1));
        let two = state("two", StateScope::User(1));
        one.set("a", &[0; 10]).unwrap();
        two.set("a", &[0; 10]).unwrap();
        let error = one.set("b", &[]).unwrap_err().to_string();
        assert_eq!(
            error,
            "the state of all modules of user 1 would take 215 bytes; the limit is 150"
        );
        two.set("a", &[1; 10]).unwrap();
        state("two", StateScope::User(2))
            .set("a", &[0; 10])
            .unwrap();
        two.delete("a").unwrap();
        one.set("b", &[0; 10]).unwrap();
    }

    #[test]
    fn cleared_state_is_gone_and_frees_its_quota() {
        let (_dir, store) = store();
        let quota = ENTRY_BYTES + 1 + 10;
        let one = store.state("m", &StateScope::User(1), quota);
        let two = store.state("m", &StateScope::User(2), quota);
        for state in [&one, &two] {
            state.set("a", &[0; 10]).unwrap();
        }
        one.clear().unwrap();
        assert_eq!(
            (one.keys("").unwrap().len(), two.keys("").unwrap().len()),
            (0, 1)
        );
        one.set("b", &[0; 10]).unwrap();
        assert!(one.set("c", &[]).is_err());
    }

    #[test]
    fn the_quota_is_kept_to_the_byte() {
        let (_dir, store) = store();
        let quota = 2 * (ENTRY_BYTES + 1 + 10);
        let state = store.state("m", &StateScope::Site, quota);
        state.set("a", &[0; 10]).unwrap();
        state.set("b", &[0; 10]).unwrap();
        let error = state.set("b", &[0; 11]).unwrap_err().to_string();
        assert_eq!(
            error,
            "the state of module \"m\" would take 151 bytes; the limit is 150"
        );
        assert!(matches!(state.set("c", &[]), Err(StoreError::Quota { .. })));
        assert_eq!(
            (
                state.get("b").unwrap().unwrap().len(),
                state.get("c").unwrap()
            ),
            (10, None)
        );
        // What is overwritten, dropped, or was never there gives back exactly what it took.
        state.set("a", &[1; 10]).unwrap();
        state.delete("never").unwrap();
        assert!(state.set("b", &[0; 11]).is_err());
        state.set("a", &[]).unwrap();
        state.set("b", &[0; 20]).unwrap();
        assert!(state.set("b", &[0; 21]).is_err());
        state.delete("b").unwrap();
        state.delete("a").unwrap();
        state.set("a", &[0; 85]).unwrap();
        // Another scope has a quota of its own, and a smaller one only forbids to grow.
        store
            .state("m", &StateScope::User(1), quota)
            .set("a", &[0; 85])
            .unwrap();
        let less = store.state("m", &StateScope::Site, 10);
        assert!(less.set("a", &[0; 86]).is_err());
        less.set("a", &[0; 84]).unwrap();
        // That a module may not have more is no trouble of the store's.
        assert_eq!(store.health().failed, 0);
    }
}

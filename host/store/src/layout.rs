//! Layout of the database as numbered steps from an empty file to the latest one. A published step
//! is never changed.
use crate::StoreError;
use rusqlite::{Connection, TransactionBehavior};
use std::path::Path;

/// Layout of a kind of database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// The application id in the header of the file.
    application: i32,
    /// The migrations. Step N, counted from one, leads from layout N - 1 to layout N.
    steps: &'static [&'static str],
    /// The check when the database is opened.
    check: LayoutCheck,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LayoutCheck {
    /// Read all of it: the database is small.
    Whole,
    /// Read nothing: the database may be large. Damage is found by later reads.
    None,
}

/// Layout of the store: "Peal" in ASCII.
pub(crate) const STORE: Layout = Layout {
    application: 0x5065_616c,
    steps: &STEPS,
    check: LayoutCheck::Whole,
};

/// Layout of the audit trail: "PeaA" in ASCII.
pub(crate) const TRAIL: Layout = Layout {
    application: 0x5065_6141,
    steps: &TRAIL_STEPS,
    check: LayoutCheck::None,
};

const TRAIL_STEPS: [&str; 2] = [
    "create table record (
         seq integer primary key, at integer not null, kind text not null, module text, job text, uid integer, outcome text,
         body blob not null, hash blob not null) strict;
     create table seal (
         kind text not null, seq integer not null, at integer not null, hash blob not null, signature blob not null,
         primary key (kind, seq)) strict, without rowid;
     create table blob (digest blob primary key, bytes blob not null, last integer not null) strict;",
    // Bytes of lasting and other rows by user, and signed statements about dropped rows.
    "create table used (
         stays integer not null, uid integer not null, bytes integer not null, primary key (stays, uid)) strict, without rowid;
     create table dropped (last integer primary key, body blob not null, signature blob not null) strict;",
];

/// Migrations of the store. Step N, counted from one, leads from layout N - 1 to layout N.
const STEPS: [&str; 10] = [
    // Records of jobs with unique names.
    "create table job (
         nspace text primary key, size integer not null, command text not null,
         started integer not null, ended integer, exit_status integer) strict;
     create table proc_end (
         nspace text not null references job, rank integer not null, how text not null,
         primary key (nspace, rank)) strict;",
    // Names of jobs can recur on a persistent server, so each job has a number.
    "alter table job rename to named_job;
     alter table proc_end rename to named_end;
     create table job (
         id integer primary key, nspace text not null, size integer not null, command text not null,
         started integer not null, ended integer, exit_status integer) strict;
     create index job_by_nspace on job (nspace);
     create table proc_end (
         job integer not null references job, rank integer not null, how text not null,
         primary key (job, rank)) strict, without rowid;
     insert into job (nspace, size, command, started, ended, exit_status)
         select nspace, size, command, started, ended, exit_status from named_job order by started, nspace;
     insert into proc_end (job, rank, how)
         select job.id, named_end.rank, named_end.how from named_end join job using (nspace);
     drop table named_end;
     drop table named_job;",
    // State of modules and its size.
    "create table state (
         module text not null, scope text not null, key text not null, value blob not null,
         primary key (module, scope, key)) strict, without rowid;
     create table state_size (
         module text not null, scope text not null, bytes integer not null,
         primary key (module, scope)) strict, without rowid;",
    // Calls of admins to a running server.
    "create table admin_call (
         id integer primary key, at integer not null, uid integer not null, pid integer,
         verb text not null, outcome text not null) strict;",
    // Versions of the module set, their components by digest, and overrides by admins.
    "create table component (digest blob primary key, bytes blob not null) strict;
     create table module_version (
         number integer primary key autoincrement, at integer not null, cause text not null, document text not null) strict;
     create table module_part (
         version integer not null references module_version on delete cascade, place integer not null,
         digest blob not null references component, primary key (version, place)) strict, without rowid;
     create table module_override (
         name text not null, kind text not null, digest blob, primary key (name, kind)) strict;",
    // Signatures of modules, so that a version with required signatures can be loaded again.
    "alter table module_part add column signature text;",
    // Messages that sinks accepted and have not delivered yet, with the process that delivers them.
    "create table outbox (
         id integer primary key autoincrement, sink text not null, holder text not null, accepted integer not null,
         bytes integer not null, head text not null, body blob not null) strict;
     create index outbox_by_sink on outbox (sink, holder, bytes);",
    // Entries of the records of jobs.
    "alter table job add column entries integer not null default 0;
     create table job_entry (
         id integer primary key, job integer not null references job, at integer not null, kind text not null, rank integer,
         body text not null) strict;
     create index job_entry_by_job on job_entry (job);",
    // Size of the entries of each job and user, and counts of entries left out. 64 is `ENTRY_COST`.
    "alter table job add column uid integer not null default -1;
     alter table job add column entry_bytes integer not null default 0;
     alter table job add column left_out integer not null default 0;
     alter table job add column left_out_at integer;
     alter table job add column missed integer not null default 0;
     alter table job add column missed_at integer;
     create index job_that_may_make_room on job (uid, id) where ended is not null and entry_bytes > 0;
     create table record_size (uid integer primary key, bytes integer not null) strict;
     create trigger record_changes after update of entry_bytes on job begin
         insert into record_size (uid, bytes) values (new.uid, new.entry_bytes - old.entry_bytes)
             on conflict (uid) do update set bytes = bytes + excluded.bytes;
     end;
     create trigger record_goes after delete on job when old.entry_bytes > 0 begin
         update record_size set bytes = bytes - old.entry_bytes where uid = old.uid;
     end;
     update job set entry_bytes =
         (select coalesce(sum(64 + length(cast(body as blob))), 0) from job_entry where job_entry.job = job.id);",
    // Users that are charged for messages of sinks.
    "alter table outbox add column uid integer;",
];

impl Layout {
    /// Returns the number of the latest layout.
    pub(crate) fn latest(&self) -> u32 {
        u32::try_from(self.steps.len()).unwrap_or(u32::MAX)
    }
}

/// Refuses a file that is damaged, of another program or of a later Peal, before it is written to.
pub(crate) fn check(
    connection: &Connection,
    path: &Path,
    required: &Layout,
) -> Result<(), StoreError> {
    let of = |error| StoreError::at_opening(path, error);
    // Read in one transaction, because another process may be creating the database.
    let _moment = connection.unchecked_transaction().map_err(of)?;
    let found = layout(connection).map_err(of)?;
    let application: i32 = connection
        .pragma_query_value(None, "application_id", |row| row.get(0))
        .map_err(of)?;
    let tables: u32 = connection
        .query_row("select count(*) from sqlite_schema", [], |row| row.get(0))
        .map_err(of)?;
    // Layout 1 did not set the application id.
    let ours = application == required.application
        || (application == 0 && if found == 0 { tables == 0 } else { found == 1 });
    if !ours {
        return Err(StoreError::Foreign {
            path: path.to_owned(),
            found: "a database of another program",
        });
    }
    if found > required.latest() {
        return Err(StoreError::TooNew {
            path: path.to_owned(),
            found,
            latest: required.latest(),
        });
    }
    if required.check == LayoutCheck::None {
        return Ok(());
    }
    let verdict: String = connection
        // `integrity_check` would compare all indexes with their tables as well, at each start.
        .pragma_query_value(None, "quick_check", |row| row.get(0))
        .map_err(of)?;
    if verdict != "ok" {
        let damage = verdict.lines().next().unwrap_or_default().to_owned();
        return Err(StoreError::Damaged {
            path: path.to_owned(),
            damage,
        });
    }
    Ok(())
}

/// Applies missing migrations, each in a transaction.
pub(crate) fn migrate(
    connection: &mut Connection,
    path: &Path,
    required: &Layout,
) -> Result<(), StoreError> {
    let of = |error| StoreError::at_opening(path, error);
    loop {
        // Another process may migrate too; the layout is only stable after the lock was taken.
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(of)?;
        let found = layout(&transaction).map_err(of)?;
        let Some(step) = required.steps.get(found as usize) else {
            return Ok(());
        };
        transaction.execute_batch(step).map_err(of)?;
        transaction
            .pragma_update(None, "application_id", required.application)
            .map_err(of)?;
        transaction
            // In the transaction of the step: a crash leaves both or none.
            .pragma_update(None, "user_version", found + 1)
            .map_err(of)?;
        transaction.commit().map_err(of)?;
        // A new file takes the same steps, and nothing in it was migrated.
        if found > 0 {
            tracing::info!(store = %path.display(), from = found, to = found + 1, "store migrated");
        }
    }
}

fn layout(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Store, StoreSettings};
    use peal_model::{Nspace, Rank};

    fn open(path: &Path) -> Result<Store, StoreError> {
        Store::open(path, StoreSettings::default())
    }

    #[test]
    fn store_without_layout_steps_is_migrated_with_all_data() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("first.db");
        let first = Connection::open(&path).unwrap();
        first.execute_batch(STEPS[0]).unwrap();
        first
            .execute_batch(
                "insert into job values ('later@1', 1, 'b', 200, null, null), ('early@1', 2, 'a', 100, 107, 137);
                 insert into proc_end values ('early@1', 1, 'exited with status 0'), ('early@1', 0, 'was killed');
                 pragma user_version = 1;",
            )
            .unwrap();
        drop(first);
        let store = open(&path).unwrap();
        let early = store
            .job(&Nspace::new("early@1").unwrap())
            .unwrap()
            .unwrap();
        assert_eq!(
            (early.size, early.command.as_str(), early.ended),
            (2, "a", Some((107, 137)))
        );
        assert_eq!(
            early.procs,
            [
                (Rank(0), "was killed".into()),
                (Rank(1), "exited with status 0".into())
            ]
        );
        assert_eq!(
            store
                .job(&Nspace::new("later@1").unwrap())
                .unwrap()
                .unwrap()
                .ended,
            None
        );
        drop(store);
        let again = Connection::open(&path).unwrap();
        assert_eq!(layout(&again).unwrap(), STORE.latest());
        open(&path).unwrap();
    }

    #[test]
    fn stores_of_later_version_and_foreign_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |name: &str, make: &dyn Fn(&Path)| {
            let path = dir.path().join(name);
            make(&path);
            let before = std::fs::read(&path).unwrap();
            let error = open(&path).unwrap_err().to_string();
            assert!(error.contains(path.to_str().unwrap()), "{error}");
            assert_eq!(std::fs::read(&path).unwrap(), before, "{name} was changed");
            error
        };
        let sql = |text: String| {
            move |path: &Path| {
                Connection::open(path)
                    .unwrap()
                    .execute_batch(&text)
                    .unwrap()
            }
        };
        let later = format!(
            "pragma application_id = {}; pragma user_version = {}",
            STORE.application,
            STORE.latest() + 1
        );
        let error = refused("later.db", &sql(later));
        assert!(
            error.ends_with(&format!(
                "has layout {}, this Peal supports {} and earlier",
                STORE.latest() + 1,
                STORE.latest()
            )),
            "{error}"
        );
        let error = refused("other.db", &sql("create table theirs (a)".to_owned()));
        assert!(error.contains("a database of another program"), "{error}");
        let error = refused(
            "numbered.db",
            &sql("create table theirs (a); pragma user_version = 3".to_owned()),
        );
        assert!(error.contains("a database of another program"), "{error}");
        let text = "this is not a database, although it is long enough to be looked at as one";
        let error = refused("text.db", &|path| std::fs::write(path, text).unwrap());
        assert!(error.contains("is not a database of SQLite"), "{error}");
    }

    #[test]
    fn concurrent_openers_of_new_file_find_one_layout() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("shared.db");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| open(&path).unwrap());
            }
        });
        assert_eq!(
            layout(&Connection::open(&path).unwrap()).unwrap(),
            STORE.latest()
        );
    }
}

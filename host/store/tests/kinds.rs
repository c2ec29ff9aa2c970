//! Kinds of data in a store: each has a limit of its own, and a full one refuses no other, whatever
//! the sizes are.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
use peal_model::{Nspace, Rank};
use peal_store::{
    AdminCall, JobEntryKind, JobRecordEntry, JobStart, OutboxBounds, RecordLimit, RecordLimits,
    SinkQueue, StateScope, Store, StoreError, StoreSettings,
};
use std::sync::Arc;

const MIB: u64 = 1 << 20;

/// Limits in the same proportions as the defaults.
const SETTINGS: StoreSettings = StoreSettings {
    max_bytes: 4 * MIB,
    mail_bytes: MIB / 4,
    state_bytes: MIB / 4,
    admin_bytes: MIB / 4,
    records: RecordLimits {
        bytes: MIB,
        user_bytes: MIB,
        job_bytes: MIB,
        job_entries: 1_000_000,
    },
};

struct Kinds {
    store: Arc<Store>,
    mail: SinkQueue,
    job: Nspace,
    written: u32,
    _dir: tempfile::TempDir,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Records,
    State,
    Mail,
}

const KINDS: [Kind; 3] = [Kind::Records, Kind::State, Kind::Mail];

impl Kinds {
    fn new() -> Kinds {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(&dir.path().join("peal.db"), SETTINGS).unwrap());
        let bounds = OutboxBounds {
            messages: u64::MAX,
            bytes: u64::MAX,
        };
        let mail = store.outboxes().unwrap().of("mail", bounds);
        let job = Nspace::new("job").unwrap();
        let kinds = Kinds {
            store,
            mail,
            job,
            written: 0,
            _dir: dir,
        };
        kinds.start_job("job");
        kinds
    }

    fn start_job(&self, name: &str) {
        let nspace = Nspace::new(name).unwrap();
        let start = JobStart {
            nspace: &nspace,
            uid: 1000,
            size: 1,
            command: "app",
            at: 1,
        };
        self.store.job_started(start).unwrap();
    }

    /// Writes something of this size. Returns false if its kind is full.
    #[track_caller]
    fn write(&mut self, kind: Kind, size: usize) -> bool {
        self.written += 1;
        match kind {
            Kind::Records => {
                let body = "x".repeat(size);
                let entry = JobRecordEntry::now(JobEntryKind::Log, Some(Rank(0)), body);
                let added = self.store.add_job_entries(&self.job, &[entry]).unwrap();
                let limit = added.left_out.map(|left_out| left_out.limit);
                assert!(matches!(limit, None | Some(RecordLimit::Job)), "{limit:?}");
                limit.is_none()
            }
            Kind::State => {
                let state = self
                    .store
                    .state("module", &StateScope::User(1000), u64::MAX);
                // Keys in no order, so that the pages are split in their middle.
                let key = format!("{:08x}", self.written.wrapping_mul(0x9e37_79b1));
                match state.set(&key, &vec![0; size]) {
                    Ok(()) => true,
                    Err(StoreError::StateFull { .. }) => false,
                    Err(error) => panic!("{error}"),
                }
            }
            Kind::Mail => match self.mail.add(1, None, "", &vec![0; size]) {
                Ok(_) => true,
                Err(StoreError::MailFull { .. }) => false,
                Err(error) => panic!("{error}"),
            },
        }
    }

    /// Writes a call of an admin that is as long as one may be, and more.
    fn call(&self) {
        let call = AdminCall {
            uid: 0,
            pid: Some(1),
            verb: "v".repeat(10_000),
            outcome: "o".repeat(10_000),
        };
        self.store.admin_called(&call, 1).unwrap();
    }
}

/// Sizes that leave most of a page unused, by the format of SQLite's files, and others.
const SIZES: [usize; 6] = [40, 300, 980, 1010, 2080, 4200];

#[test]
fn full_kind_of_data_refuses_no_other() {
    for size in SIZES {
        for first in KINDS {
            let mut kinds = Kinds::new();
            // Before the others: calls have their room also when they come last.
            (0..10).for_each(|_| kinds.call());
            let in_turn = [first].into_iter();
            for kind in in_turn.chain(KINDS.into_iter().filter(|kind| *kind != first)) {
                let limit = match kind {
                    Kind::Records => MIB,
                    Kind::State | Kind::Mail => MIB / 4 / 8 * 7,
                };
                let count = (0..).take_while(|_| kinds.write(kind, size)).count();
                let cost = match kind {
                    Kind::Records => 64,
                    Kind::State => 64 + 8,
                    Kind::Mail => 160,
                };
                let bytes = count as u64 * (size as u64 + cost);
                assert!(
                    bytes > limit / 10 * 9,
                    "{kind:?} is full with {count} of {size} bytes, {first:?} came first"
                );
            }
            (0..300).for_each(|_| kinds.call());
            (0..100).for_each(|number| kinds.start_job(&format!("job-{number}")));
            assert_eq!(kinds.store.health().failed, 0);
        }
    }
}

#[test]
fn site_keeps_state_when_users_have_used_up_their_part() {
    let mut kinds = Kinds::new();
    while kinds.write(Kind::State, 1000) {}
    let error = kinds
        .store
        .state("other", &StateScope::User(1001), u64::MAX)
        .set("key", &[0; 1000])
        .unwrap_err();
    assert!(
        error.to_string().ends_with("(store.max_state_bytes)"),
        "{error}"
    );
    let site = kinds.store.state("other", &StateScope::Site, u64::MAX);
    site.set("key", &[0; 1000]).unwrap();
}

#[test]
fn number_of_kept_calls_follows_their_bytes() {
    let kinds = Kinds::new();
    (0..1000).for_each(|_| kinds.call());
    let calls = kinds.store.admin_calls(u32::MAX).unwrap();
    assert_eq!(calls.len() as u64, SETTINGS.admin_bytes / 1024);
    assert!(calls.iter().all(|record| record.call.outcome.len() == 480));
}

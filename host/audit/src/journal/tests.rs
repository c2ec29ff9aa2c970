//! Tests of the journal, with a list of records as a model.
use super::*;
use crate::{Keys, Statement, hash_chain::ChainHead, hash_chain::FIRST};
use peal_store::{SealKind, Trail};
use proptest::{collection, prelude::*};

/// Step of the property test.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Records are added, with bodies of this length.
    Add { records: u64, bytes: usize },
    /// The writer thread begins to move the records.
    BeginMove,
    /// The database has the records that were taken.
    EndMove,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..4_u64, 0..300_usize).prop_map(|(records, bytes)| Step::Add { records, bytes }),
        1 => Just(Step::BeginMove),
        1 => Just(Step::EndMove),
    ]
}

/// Trail with a journal, and the numbers of all records in their order.
struct JournalledTrail {
    trail: Trail,
    journal: Journal,
    keys: Keys,
    head: ChainHead,
    /// Last record of the database.
    in_database: ChainHead,
    /// Records that are being moved.
    owed: Vec<TrailRow>,
    /// Numbers of the records that are not in the database.
    missing: Vec<u64>,
}

fn key() -> CodeKey {
    CodeKey::new(&[8; 32])
}

impl JournalledTrail {
    fn new(path: &Path) -> JournalledTrail {
        let settings = TrailSettings {
            max_bytes: 1 << 30,
            durability: DatabaseDurability::Process,
            lasting: &[],
        };
        let trail = Trail::open(path, settings).unwrap();
        let files = JournalFiles::open(path, settings.durability).unwrap();
        let mut journal = Journal::new(files, settings, key());
        journal.clear();
        journal.most = 2048;
        JournalledTrail {
            trail,
            journal,
            keys: Keys::of(&[7; 32]),
            head: (0, FIRST),
            in_database: (0, FIRST),
            owed: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// Returns records that follow the last one.
    fn records(&mut self, count: u64, bytes: usize) -> Vec<TrailRow> {
        let mut rows = Vec::new();
        for _ in 0..count {
            let (seq, hash) = self.head;
            let row = TrailRow {
                seq: seq + 1,
                at: 0,
                kind: "test".to_owned(),
                module: None,
                job: None,
                uid: None,
                outcome: None,
                body: vec![0; bytes],
                hash,
            };
            let hash = crate::hash_chain::hash_of(&hash, &row);
            self.head = (row.seq, hash);
            rows.push(TrailRow { hash, ..row });
        }
        rows
    }

    /// Writes records to the database.
    fn write(&mut self, rows: &[TrailRow]) {
        let head = rows
            .last()
            .map_or(self.in_database, |row| (row.seq, row.hash));
        let seal = Statement::sealed(SealKind::Head, head, 0, &self.keys);
        self.trail.append(rows, &[], &seal, None).unwrap();
        self.in_database = head;
        self.missing.retain(|seq| *seq > head.0);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Add { records, bytes } => {
                let before = self.head;
                let rows = self.records(records, bytes);
                self.missing.extend(rows.iter().map(|row| row.seq));
                // The journal has no room: they go into the database, after those before them.
                if let Err(rows) = self.journal.add(before, rows) {
                    let mut all = mem::take(&mut self.owed);
                    all.extend(self.journal.take());
                    all.extend(rows);
                    self.write(&all);
                    self.journal.clear();
                }
            }
            Step::BeginMove => self.owed.extend(self.journal.begin_move()),
            Step::EndMove => {
                let owed = mem::take(&mut self.owed);
                self.write(&owed);
                self.journal.end_move();
            }
        }
    }

    /// Returns the records that a server finds in the journal if this one is killed now.
    fn recovered(&self) -> Vec<u64> {
        let found = RecoveredJournal::read(&self.trail, self.in_database, &key()).unwrap();
        assert!(found.fault.is_none());
        found.rows.iter().map(|row| row.seq).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn journal_has_what_the_database_lacks_at_any_time(steps in collection::vec(step(), 1..60)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.db");
        let mut trail = JournalledTrail::new(&path);
        for step in steps {
            trail.step(step);
            prop_assert_eq!(trail.recovered(), trail.missing.clone());
            let Journal { file, moving, most, .. } = &trail.journal;
            prop_assert!(file.bytes().max(moving.bytes()) <= *most);
        }
    }
}

#[test]
fn full_file_is_moved_while_the_other_takes_records() {
    let dir = tempfile::tempdir().unwrap();
    let mut trail = JournalledTrail::new(&dir.path().join("audit.db"));
    let add = Step::Add {
        records: 3,
        bytes: 300,
    };
    trail.step(add);
    trail.step(Step::BeginMove);
    for _ in 0..3 {
        trail.step(add);
        assert!(trail.journal.moving.bytes() > 0, "it is being moved");
        assert_eq!(trail.recovered(), trail.missing);
        trail.step(Step::EndMove);
        assert_eq!(trail.journal.moving.bytes(), 0);
        assert_eq!(trail.missing.len(), 3);
        trail.step(Step::BeginMove);
    }
}

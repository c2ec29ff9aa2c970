//! Tests of the journal: answered decisions are in the trail after any end of the server, and
//! changes of the journal are found.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
mod support;
use peal_audit::{
    AuditEntry, AuditError, AuditSettings, AuditTrail, CommitResult, CommitThread, DecisionEntry,
    FrameError, GapReason, TrailRetention, TrailSource, verify,
};
use peal_model::{Info, Key, Value};
use peal_store::{DatabaseDurability, Filter};
use rusqlite::Connection;
use std::{
    collections::BTreeSet,
    fs,
    sync::{Mutex, mpsc},
    thread,
    time::Duration,
};
use support::{Place, granted, job_control};

/// As much as it may hold, and what a frame has beside the records.
const MOST: u64 = 1 << 19;
const AROUND: usize = 40;
/// Number of concurrent decisions.
const MANY: u64 = 2000;

/// Never sealed on the way, which would be written at once.
fn settings(place: &Place) -> AuditSettings {
    AuditSettings {
        checkpoint_records: 1_000_000,
        ..place.settings()
    }
}

fn open(place: &Place) -> Result<AuditTrail, AuditError> {
    AuditTrail::open(settings(place))
}

fn tail(place: &Place) -> Vec<u8> {
    fs::read(place.path("audit.db-tail")).unwrap()
}

/// Keeps the database from being written for as long as it is held.
fn held(place: &Place) -> Connection {
    let connection = Connection::open(place.path("audit.db")).unwrap();
    connection.busy_timeout(Duration::from_secs(60)).unwrap();
    connection.execute_batch("begin immediate").unwrap();
    connection
}

fn decide(audit: &AuditTrail, number: u64, bytes: usize) -> CommitResult {
    let infos = vec![Info::new(
        Key::new("test.bytes").unwrap(),
        Value::ByteObject(vec![7; bytes].into()),
    )];
    let (tell, told) = mpsc::channel();
    let decision = DecisionEntry::new(number, job_control(infos), &granted());
    audit.decide(decision, CommitThread::Caller, move |safe| {
        tell.send(safe).unwrap()
    });
    told.recv_timeout(Duration::from_secs(60)).unwrap()
}

/// A server that was killed while its decisions up to this number were in the journal alone.
fn killed(place: &Place, decisions: u64) -> Place {
    let audit = open(place).unwrap();
    let connection = held(place);
    for number in 1..=decisions {
        assert_eq!(decide(&audit, number, 100), CommitResult::Yes);
    }
    let copy = place.as_if_killed();
    drop(connection);
    copy
}

fn entries(place: &Place) -> Vec<AuditEntry> {
    let rows = TrailSource::open(&place.path("audit.db"))
        .unwrap()
        .last(&Filter::default(), u32::MAX)
        .unwrap();
    rows.iter()
        .map(|row| AuditEntry::read(&row.body).unwrap())
        .collect()
}

fn decided(entries: &[AuditEntry]) -> Vec<u64> {
    let number = |entry: &AuditEntry| {
        if let AuditEntry::Decision(decision) = entry {
            Some(decision.request_number)
        } else {
            None
        }
    };
    entries.iter().filter_map(number).collect()
}

fn verified(place: &Place) -> peal_audit::Verified {
    let key = fs::read_to_string(place.path("audit.key.pub"))
        .unwrap()
        .parse()
        .unwrap();
    verify(
        &TrailSource::open(&place.path("audit.db")).unwrap(),
        &key,
        &[],
    )
    .unwrap()
}

/// Checks the trail after the next start: the decisions, a gap after them, and no findings.
#[track_caller]
fn is_taken_over(place: &Place, decisions: impl IntoIterator<Item = u64>) {
    drop(open(place).unwrap());
    let found = entries(place);
    assert_eq!(decided(&found), decisions.into_iter().collect::<Vec<_>>());
    let end = &found[found.len() - 3..];
    assert!(
        matches!(
            end[0],
            AuditEntry::Gap {
                calls: None,
                reason: GapReason::Crash
            }
        ),
        "{found:?}"
    );
    assert!(
        matches!(
            (&end[1], &end[2]),
            (AuditEntry::Began { .. }, AuditEntry::Ended)
        ),
        "{found:?}"
    );
    let verified = verified(place);
    assert_eq!((verified.findings, verified.waiting), (Vec::new(), None));
    assert_eq!(tail(place), b"");
}

#[track_caller]
fn is_refused(place: &Place, bytes: &[u8], frame: u64) -> FrameError {
    fs::write(place.path("audit.db-tail"), bytes).unwrap();
    let before = entries(place).len();
    let error = open(place).err().unwrap();
    assert!(
        error
            .to_string()
            .contains("audit.db-tail\" was changed outside of the server"),
        "{error}"
    );
    let AuditError::Journal {
        frame: found,
        fault,
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(
        (found, tail(place).as_slice(), entries(place).len()),
        (frame, bytes, before),
        "nothing is changed"
    );
    fault
}

fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some(length) = bytes.first_chunk() {
        let (frame, rest) = bytes.split_at(u32::from_le_bytes(*length) as usize + AROUND);
        frames.push(frame.to_vec());
        bytes = rest;
    }
    frames
}

#[test]
fn decisions_wait_for_database_only_when_journal_is_full() {
    // One file has room for the first ones, and both together have none for all.
    const AT_ONCE: u64 = 25;
    const ALL: u64 = 60;
    const BYTES: usize = 20_000;
    let place = Place::new();
    let audit = open(&place).unwrap();
    let connection = held(&place);
    for number in 1..=AT_ONCE {
        assert_eq!(decide(&audit, number, BYTES), CommitResult::Yes);
    }
    assert!(decided(&entries(&place)).is_empty());
    thread::scope(|scope| {
        let rest = scope.spawn(|| {
            for number in AT_ONCE + 1..=ALL {
                assert_eq!(decide(&audit, number, BYTES), CommitResult::Yes);
            }
        });
        connection.execute_batch("rollback").unwrap();
        rest.join().unwrap();
    });
    drop(audit);
    assert_eq!(decided(&entries(&place)), (1..=ALL).collect::<Vec<_>>());
    assert_eq!(
        (tail(&place), verified(&place).findings),
        (Vec::new(), Vec::new())
    );
}

#[test]
fn journalled_records_not_moved_are_taken_over_at_start() {
    for durability in [DatabaseDurability::Process, DatabaseDurability::Machine] {
        let place = Place::new();
        let copy = killed(&place, 5);
        assert!(decided(&entries(&copy)).is_empty());
        let waiting = verified(&copy).waiting.unwrap();
        assert_eq!(
            (waiting.records, waiting.bytes),
            (5, tail(&copy).len() as u64)
        );
        drop(
            AuditTrail::open(AuditSettings {
                durability,
                ..settings(&copy)
            })
            .unwrap(),
        );
        assert_eq!(decided(&entries(&copy)), [1, 2, 3, 4, 5]);
        assert_eq!(
            decided(&entries(&place)),
            [1, 2, 3, 4, 5],
            "the one that was not killed"
        );
    }
    is_taken_over(&killed(&Place::new(), 5), 1..=5);
}

#[test]
fn records_moved_before_journal_was_emptied_appear_once() {
    let place = Place::new();
    let audit = open(&place).unwrap();
    let connection = held(&place);
    (1..=5).for_each(|number| assert_eq!(decide(&audit, number, 100), CommitResult::Yes));
    let early = place.as_if_killed();
    let journalled = tail(&place);
    connection.execute_batch("rollback").unwrap();
    while decided(&entries(&place)).len() < 5 {
        thread::yield_now();
    }
    let copy = place.as_if_killed();
    fs::write(copy.path("audit.db-tail"), &journalled).unwrap();
    assert_eq!(verified(&copy).waiting.unwrap().records, 0);
    is_taken_over(&copy, 1..=5);
    // Where another server went on from the first two, the others come too late.
    fs::write(
        early.path("audit.db-tail"),
        frames(&journalled)[..2].concat(),
    )
    .unwrap();
    is_taken_over(&early, 1..=2);
    assert_eq!(
        is_refused(&early, &journalled, 3),
        FrameError::Other { seq: 4 }
    );
    drop(audit);
}

#[test]
fn journal_not_emptied_by_next_server_is_known_to_the_one_after() {
    let place = killed(&Place::new(), 3);
    let journalled = tail(&place);
    let audit = open(&place).unwrap();
    // Killed before it had emptied the journal of the one before.
    let copy = place.as_if_killed();
    fs::write(copy.path("audit.db-tail"), &journalled).unwrap();
    drop(audit);
    is_taken_over(&copy, 1..=3);
}

#[test]
fn incomplete_frame_was_reported_to_no_requester() {
    let place = Place::new();
    let whole = killed(&place, 3);
    let bytes = tail(&whole);
    let last = frames(&bytes)[2].len();
    let end = bytes.len();
    for cut in [1, AROUND - 1, AROUND, last / 2, last - 8, last - 1, last] {
        let copy = whole.as_if_killed();
        fs::write(copy.path("audit.db-tail"), &bytes[..end - cut]).unwrap();
        is_taken_over(&copy, 1..=2);
    }
}

#[test]
fn changed_journal_is_detected() {
    let place = Place::new();
    let copy = killed(&place, 4);
    let bytes = tail(&copy);
    let pieces = frames(&bytes);
    let second = pieces[0].len();
    for at in [
        second,
        second + 4,
        second + 8,
        second + 100,
        second + pieces[1].len() - 1,
    ] {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        let fault = is_refused(&copy, &changed, 2);
        let is_told = match at - second {
            0 | 4 => matches!(fault, FrameError::Length { .. }),
            _ => matches!(fault, FrameError::Code | FrameError::Unreadable),
        };
        assert!(is_told, "{at}: {fault}");
    }
    let order = |order: &[usize]| {
        order
            .iter()
            .flat_map(|at| pieces[*at].clone())
            .collect::<Vec<u8>>()
    };
    let elsewhere = |last, found| FrameError::Elsewhere { last, found };
    assert_eq!(
        is_refused(&copy, &order(&[1, 2, 3]), 1),
        elsewhere(1, 2),
        "without the first"
    );
    assert_eq!(
        is_refused(&copy, &order(&[0, 2, 3]), 2),
        elsewhere(2, 3),
        "without the second"
    );
    assert_eq!(
        is_refused(&copy, &order(&[0, 2, 1, 3]), 2),
        elsewhere(2, 3),
        "exchanged"
    );
    assert_eq!(
        is_refused(&copy, &order(&[0, 1, 1, 2]), 3),
        elsewhere(3, 2),
        "twice"
    );
    assert_eq!(
        is_refused(&copy, &[0; 600], 1),
        FrameError::Length {
            length: 0,
            second_length: u32::MAX
        }
    );
    let long = [bytes.as_slice(), &vec![0; MOST as usize]].concat();
    assert!(
        matches!(is_refused(&copy, &long, 5), FrameError::Length { .. }),
        "what is there makes no sense first"
    );
    // That of another trail, and of this one with another key.
    let other = killed(&Place::new(), 4);
    assert_eq!(is_refused(&copy, &tail(&other), 1), FrameError::Code);
    is_refused(&other, &bytes, 1);
    fs::write(copy.path("audit.db-tail"), &bytes).unwrap();
    is_taken_over(&copy, 1..=4);
}

#[test]
fn the_journal_hides_no_trail_that_cannot_be_written() {
    let place = Place::new();
    let audit = open(&place).unwrap();
    let other = Connection::open(place.path("audit.db")).unwrap();
    other.busy_timeout(Duration::from_secs(60)).unwrap();
    other
        .execute_batch("alter table record rename to elsewhere")
        .unwrap();
    assert_eq!(
        decide(&audit, 1, 100),
        CommitResult::Yes,
        "nobody can know yet"
    );
    while !audit.health().is_failing {
        thread::yield_now();
    }
    assert_eq!(decide(&audit, 2, 100), CommitResult::No);
    // Killed now, the next one has what was told.
    let copy = place.as_if_killed();
    other
        .execute_batch("alter table elsewhere rename to record")
        .unwrap();
    assert_eq!(decide(&audit, 3, 100), CommitResult::Yes);
    assert!(!audit.health().is_failing, "{:?}", audit.health());
    // Also where it is found out by what nobody waits for.
    other
        .execute_batch("alter table record rename to elsewhere")
        .unwrap();
    audit.note(AuditEntry::Refused {
        reasons: Vec::new(),
    });
    while !audit.health().is_failing {
        thread::yield_now();
    }
    assert_eq!(decide(&audit, 4, 100), CommitResult::No);
    other
        .execute_batch("alter table elsewhere rename to record")
        .unwrap();
    drop(audit);
    assert_eq!(
        (decided(&entries(&place)), tail(&place)),
        (vec![1, 3], Vec::new())
    );
    assert_eq!(verified(&place).findings, []);
    Connection::open(copy.path("audit.db"))
        .unwrap()
        .execute_batch("alter table elsewhere rename to record")
        .unwrap();
    is_taken_over(&copy, [1]);
}

#[test]
fn oldest_records_go_when_journalled_records_need_room() {
    let place = Place::new();
    // Decisions may go as soon as there is no room.
    let retention = TrailRetention {
        decision_age: Duration::ZERO,
        call_age: Duration::ZERO,
        ..TrailRetention::default()
    };
    let audit = AuditTrail::open(AuditSettings {
        max_bytes: 1 << 18,
        retention,
        ..settings(&place)
    })
    .unwrap();
    for number in 1..=400 {
        assert_eq!(decide(&audit, number, 2000), CommitResult::Yes, "{number}");
    }
    assert_eq!((audit.health().lost, audit.health().undone), (0, 0));
    drop(audit);
    let found = decided(&entries(&place));
    assert!(
        found.first().unwrap() > &1 && found.last() == Some(&400),
        "{found:?}"
    );
    assert_eq!(verified(&place).findings, []);
}

#[test]
fn concurrent_decisions_are_recorded_at_any_end() {
    let place = Place::new();
    let audit = open(&place).unwrap();
    let told = Mutex::new(BTreeSet::new());
    let mut copies = Vec::new();
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let audit = &audit;
            let told = &told;
            scope.spawn(move || {
                for number in (thread..MANY).step_by(4) {
                    assert_eq!(decide(audit, number, 100), CommitResult::Yes);
                    told.lock().unwrap().insert(number);
                }
            });
        }
        for at in (100..MANY).step_by(100) {
            while told.lock().unwrap().len() < usize::try_from(at).unwrap() {
                thread::yield_now();
            }
            // No checkpoint of SQLite's while its files are copied.
            let reader = Connection::open(place.path("audit.db")).unwrap();
            reader
                .execute_batch("begin; select count(*) from seal")
                .unwrap();
            let so_far = told.lock().unwrap().clone();
            copies.push((so_far, place.as_if_killed()));
        }
    });
    drop(audit);
    assert_eq!(
        decided(&entries(&place))
            .into_iter()
            .collect::<BTreeSet<_>>(),
        (0..MANY).collect()
    );
    for (told, copy) in copies {
        drop(open(&copy).unwrap());
        let found: BTreeSet<u64> = decided(&entries(&copy)).into_iter().collect();
        assert!(told.is_subset(&found), "{:?}", told.difference(&found));
        assert_eq!(verified(&copy).findings, []);
    }
}

#[test]
fn server_that_begins_has_the_last_records_of_the_one_before() {
    let place = Place::new();
    let before = open(&place).unwrap();
    assert_eq!(decide(&before, 1, 10), CommitResult::Yes);
    let (begin, begun) = mpsc::channel();
    let after = thread::scope(|scope| {
        let next = scope.spawn(|| {
            begin.send(()).unwrap();
            open(&place)
        });
        begun.recv().unwrap();
        // The next one waits for the lock meanwhile, whatever it has read before.
        for number in 2..500 {
            assert_eq!(decide(&before, number, 10), CommitResult::Yes);
        }
        drop(before);
        next.join().unwrap()
    });
    let after = after.unwrap();
    assert_eq!(decide(&after, 500, 10), CommitResult::Yes);
    drop(after);
    verified(&place);
    let decided: Vec<u64> = decided(&entries(&place));
    assert_eq!(decided, (1..=500).collect::<Vec<u64>>());
}

//! The table of monitors and its timers, compared with models without timers, which look at all
//! that has happened in the end.
use super::*;
use crate::{
    MonotonicTime,
    server::{PeerId, RequestId},
};
use peal_model::{Nspace, Range, Rank};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const LIMITS: MonitorLimits = MonitorLimits {
    per_proc: 8,
    total: 100_000,
    files: 100,
};
const UID: u32 = 1000;
const TO: RequestId = RequestId {
    peer: PeerId(1),
    tag: 1,
};

fn proc(rank: u32) -> Proc {
    Proc::new(Nspace::new("job").unwrap(), Rank(rank))
}

fn event() -> Arc<Event> {
    Arc::new(Event {
        code: code::PMIX_MONITOR_HEARTBEAT_ALERT,
        source: None,
        range: Range::Namespace,
        infos: Vec::new(),
    })
}

fn beating(id: Option<&str>, seconds: u64, drops: u32) -> NewMonitor {
    let signs = LivenessSource::Heartbeats {
        time: Duration::from_secs(seconds),
        drops,
    };
    NewMonitor::Watch(
        MonitorSpec {
            id: id.map(str::to_owned),
            signs,
            alert: event(),
        },
        TO,
    )
}

fn filing(check: u64, drops: u32, traces: FileChanges) -> NewMonitor {
    let signs = LivenessSource::File {
        path: "/file".into(),
        traces,
        check: Duration::from_secs(check),
        drops,
    };
    NewMonitor::Watch(
        MonitorSpec {
            id: None,
            signs,
            alert: event(),
        },
        TO,
    )
}

/// The last heartbeats of procs that the table has not received yet.
type Noted = BTreeMap<Proc, MonotonicTime>;

/// Returns the procs that count as silent and the times, from one time to another, without late
/// checks. Recorded heartbeats are reported as late as allowed.
fn run(
    book: &mut MonitorTable,
    noted: &mut Noted,
    start: MonotonicTime,
    end: MonotonicTime,
    told: &mut Vec<(Proc, MonotonicTime)>,
) {
    while let Some(at) = book.deadline().filter(|at| *at <= end) {
        let at = at.max(start);
        let due: Vec<Proc> = book.beats_due(at).cloned().collect();
        due.iter().for_each(|proc| {
            noted
                .remove(proc)
                .into_iter()
                .for_each(|beat| book.beat(proc, beat))
        });
        for due in book.tick(at) {
            if let MonitorAction::Alert { requester, .. } = due {
                told.push((requester, at));
            }
        }
    }
}

/// A random number generator with a fixed seed.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

#[test]
fn day_of_ten_thousand_procs_reports_each_silence_once_in_time() {
    const PROCS: u32 = 10_000;
    const DAY: u64 = 86_400_000;
    let mut dice = Dice(8);
    let mut book = MonitorTable::new(LIMITS);
    let mut beats: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    let mut expected = Vec::new();
    let procs: Vec<Proc> = (0..PROCS).map(proc).collect();
    for rank in 0..PROCS {
        let time = 300 * (1 + dice.throw(10));
        let drops = u32::try_from(dice.throw(3)).unwrap();
        book.begin(&procs[rank as usize], UID, beating(None, time, drops))
            .unwrap();
        let mut last = 0;
        // Each beats in time, and every now and then not at all for a while.
        while last < DAY {
            let pause = if dice.throw(50) == 0 {
                dice.throw(10 * time) * 1000
            } else {
                900 * time + dice.throw(200 * time)
            };
            let at = last + pause;
            let silent = last + time * 500 * (2 * u64::from(drops) + 3);
            if silent < at && silent < DAY {
                expected.push((silent, rank));
            }
            last = at;
            beats.entry(at).or_default().push(rank);
        }
    }
    let mut told = Vec::new();
    let mut noted = Noted::new();
    assert_eq!(book.tick(MonotonicTime(0)), []);
    for (at, ranks) in beats.range(..DAY) {
        run(
            &mut book,
            &mut noted,
            MonotonicTime(0),
            MonotonicTime(at - 1),
            &mut told,
        );
        ranks
            .iter()
            .for_each(|rank| book.beat(&procs[*rank as usize], MonotonicTime(*at)));
    }
    run(
        &mut book,
        &mut noted,
        MonotonicTime(0),
        MonotonicTime(DAY - 1),
        &mut told,
    );
    let mut told: Vec<(u64, u32)> = told
        .into_iter()
        .map(|(proc, at)| (at.0, proc.rank.0))
        .collect();
    told.sort_unstable();
    expected.sort_unstable();
    assert!(expected.len() > 10_000, "{}", expected.len());
    assert_eq!(told, expected);
}

#[derive(Clone, Debug)]
enum Step {
    Begin {
        rank: u32,
        id: Option<u8>,
        seconds: u64,
        drops: u32,
    },
    Beat {
        rank: u32,
        noted: bool,
    },
    Cancel {
        rank: u32,
        id: Option<u8>,
    },
    End(u32),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let rank = 0..3u32;
    prop_oneof![
        2 => (rank.clone(), proptest::option::of(0..3u8), 1..4u64, 0..3u32)
            .prop_map(|(rank, id, seconds, drops)| Step::Begin { rank, id, seconds, drops }),
        4 => (rank.clone(), any::<bool>()).prop_map(|(rank, noted)| Step::Beat { rank, noted }),
        1 => (rank.clone(), proptest::option::of(0..3u8)).prop_map(|(rank, id)| Step::Cancel { rank, id }),
        1 => rank.prop_map(Step::End),
        6 => (1..4000u64).prop_map(Step::Wait),
    ]
}

/// A monitor of the model: its begin and end, and how long its proc may be silent.
#[derive(Debug)]
struct Life {
    rank: u32,
    id: Option<u8>,
    from: u64,
    to: Option<u64>,
    silence: u64,
}

proptest! {
    /// Any sequence of heartbeats, noted at once or late: each silence is reported once, at its time, unless the monitor has ended.
    #[test]
    fn each_silence_is_reported_once(steps in proptest::collection::vec(step(), 1..80)) {
        let mut book = MonitorTable::new(LIMITS);
        let mut now = 0;
        let mut told = Vec::new();
        let mut noted = Noted::new();
        let (mut lives, mut beats): (Vec<Life>, Vec<(u32, u64)>) = (Vec::new(), Vec::new());
        for step in steps {
            let end = |lives: &mut Vec<Life>, rank, id: Option<Option<u8>>| {
                let theirs = |life: &&mut Life| life.rank == rank && life.to.is_none() && id.is_none_or(|id| life.id == id);
                lives.iter_mut().filter(theirs).map(|life| life.to = Some(now)).count()
            };
            match step {
                Step::Begin { rank, id, seconds, drops } => {
                    let own: Vec<&Life> = lives.iter().filter(|life| life.rank == rank && life.to.is_none()).collect();
                    let fits = own.len() < LIMITS.per_proc && (id.is_none() || own.iter().all(|life| life.id != id));
                    let name = id.map(|id| id.to_string());
                    let begun = book.begin(&proc(rank), UID, beating(name.as_deref(), seconds, drops));
                    prop_assert_eq!(begun.is_ok(), fits);
                    if fits {
                        let silence = seconds * 500 * (2 * u64::from(drops) + 3);
                        lives.push(Life { rank, id, from: now, to: None, silence });
                    }
                    run(&mut book, &mut noted, MonotonicTime(now), MonotonicTime(now), &mut told);
                }
                Step::Beat { rank, noted: late } => {
                    beats.push((rank, now));
                    // A clone may tell at once what comes after one that was noted.
                    if late && !book.is_silent(&proc(rank)) {
                        noted.insert(proc(rank), MonotonicTime(now));
                    } else {
                        book.beat(&proc(rank), MonotonicTime(now));
                    }
                }
                Step::Cancel { rank, id } => {
                    let which = id.map_or(MonitorSelector::All, |id| MonitorSelector::One(id.to_string()));
                    let ended = end(&mut lives, rank, id.map(Some));
                    prop_assert_eq!(book.cancel(&proc(rank), &which).is_ok(), id.is_none() || ended > 0);
                }
                Step::End(rank) => {
                    end(&mut lives, rank, None);
                    book.end_proc(&proc(rank));
                }
                Step::Wait(time) => {
                    run(&mut book, &mut noted, MonotonicTime(now), MonotonicTime(now + time), &mut told);
                    now += time;
                }
            }
        }
        let mut expected = Vec::new();
        for life in &lives {
            let end = life.to.unwrap_or(now);
            let theirs = beats.iter().filter(|(rank, at)| *rank == life.rank && (life.from..=end).contains(at));
            let signs: BTreeSet<u64> = theirs.map(|(_, at)| *at).chain([life.from]).collect();
            for (sign, next) in signs.iter().zip(signs.iter().skip(1).map(Some).chain([None])) {
                let at = sign + life.silence;
                // At the very moment the book has told before anything else happens.
                if next.is_none_or(|next| at <= *next) && at <= end {
                    expected.push((proc(life.rank), MonotonicTime(at)));
                }
            }
        }
        told.sort();
        expected.sort();
        prop_assert_eq!(told, expected);
        prop_assert_eq!(book.len(), lives.iter().filter(|life| life.to.is_none()).count());
    }

    /// Files: reports follow from the number of checks in a row without a change.
    #[test]
    fn unchanged_file_is_reported_once_until_it_changes(news in proptest::collection::vec(any::<bool>(), 1..40), drops in 0..4u32) {
        let mut book = MonitorTable::new(LIMITS);
        let traces = FileChanges { modify: true, ..FileChanges::default() };
        let watch = book.begin(&proc(0), UID, filing(3, drops, traces)).unwrap();
        let mut last_stat = FileStat { size: 1, accessed: 1, modified: 1 };
        prop_assert_eq!(book.opened(watch, Some(last_stat)), Some(TO));
        prop_assert_eq!(book.tick(MonotonicTime(0)), []);
        let mut told = Vec::new();
        let mut at = 0;
        for (look, lives) in news.iter().enumerate() {
            at += 3000;
            prop_assert_eq!(book.deadline(), Some(MonotonicTime(at)), "no drift");
            prop_assert_eq!(book.tick(MonotonicTime(at)), [MonitorAction::Look(watch)]);
            last_stat.modified += i128::from(*lives);
            // What was not asked for makes no difference.
            (last_stat.size, last_stat.accessed) = (last_stat.size + 1, last_stat.accessed + 1);
            told.extend(book.record_stat(watch, Some(last_stat)).map(|_| look));
        }
        let dead_for = |look: usize| news[..=look].iter().rev().take_while(|lives| !**lives).count();
        let expected: Vec<usize> = (0..news.len()).filter(|look| dead_for(*look) == drops as usize + 1).collect();
        prop_assert_eq!(told, expected);
    }
}

#[test]
fn resumed_server_reports_silence_only_after_listening() {
    let mut book = MonitorTable::new(LIMITS);
    book.begin(&proc(0), UID, beating(None, 10, 0)).unwrap();
    assert_eq!(book.tick(MonotonicTime(0)), []);
    assert_eq!(book.deadline(), Some(MonotonicTime(15_000)));
    // What was sent in the meantime has not been read yet.
    assert_eq!(book.tick(MonotonicTime(60_000)), []);
    assert_eq!(book.deadline(), Some(MonotonicTime(65_000)));
    let alert = MonitorAction::Alert {
        requester: proc(0),
        alert: event(),
    };
    assert_eq!(book.tick(MonotonicTime(65_100)), [alert]);
    assert_eq!(book.deadline(), None);
}

#[test]
fn unanswered_file_check_shows_no_life_and_file_may_change() {
    let traces = FileChanges {
        size: true,
        ..FileChanges::default()
    };
    let size = |size| {
        Some(FileStat {
            size,
            accessed: 0,
            modified: 0,
        })
    };
    let mut book = MonitorTable::new(LIMITS);
    let watch = book.begin(&proc(0), UID, filing(1, 1, traces)).unwrap();
    book.opened(watch, size(5)).unwrap();
    book.tick(MonotonicTime(0));
    let looks = |book: &mut MonitorTable, at| book.tick(MonotonicTime(at)).len();
    assert_eq!(looks(&mut book, 1000), 1, "somebody goes");
    assert_eq!(
        book.tick(MonotonicTime(2000)),
        [],
        "and is waited for: one miss"
    );
    assert_eq!(
        book.tick(MonotonicTime(3000)),
        [MonitorAction::Alert {
            requester: proc(0),
            alert: event()
        }]
    );
    assert_eq!(book.tick(MonotonicTime(4000)), [], "once");
    assert!(book.record_stat(watch, size(5)).is_none());
    for (at, last_stat, told) in [
        (5000, size(6), false),
        (6000, size(2), false),
        (7000, None, true),
        (8000, size(2), false),
        (9000, size(3), false),
        (10_000, None, false),
        (11_000, None, true),
    ] {
        assert_eq!(looks(&mut book, at), 1, "{at}");
        assert_eq!(book.record_stat(watch, last_stat).is_some(), told, "{at}");
    }
    // Whoever comes late goes on in step.
    assert_eq!(looks(&mut book, 14_300), 1);
    assert_eq!(book.deadline(), Some(MonotonicTime(15_000)));
}

#[test]
fn there_are_bounds_for_each_proc_each_user_and_all() {
    let mut book = MonitorTable::new(MonitorLimits {
        per_proc: 2,
        total: 6,
        files: 2,
    });
    let begin = |book: &mut MonitorTable, rank, uid, beginning| {
        book.begin(&proc(rank), uid, beginning)
            .map_err(|e| e.to_string())
    };
    let bare = || beating(None, 1, 0);
    let file = || {
        filing(
            1,
            0,
            FileChanges {
                size: true,
                ..FileChanges::default()
            },
        )
    };
    begin(&mut book, 0, 1, file()).unwrap();
    assert_eq!(
        begin(&mut book, 0, 1, file()).unwrap_err(),
        "user 1, with files, has 1 monitors; the limit is 1"
    );
    begin(&mut book, 0, 1, bare()).unwrap();
    assert_eq!(
        begin(&mut book, 0, 1, bare()).unwrap_err(),
        "job:0 has 2 monitors; the limit is 2"
    );
    begin(&mut book, 1, 1, bare()).unwrap();
    assert_eq!(
        begin(&mut book, 1, 1, bare()).unwrap_err(),
        "user 1 has 3 monitors; the limit is 3"
    );
    for rank in [2, 2, 3] {
        begin(&mut book, rank, 2, bare()).unwrap();
    }
    assert_eq!(
        begin(&mut book, 4, 3, bare()).unwrap_err(),
        "the server has 6 monitors; the limit is 6"
    );
    // What has ended counts no more, and what was waited for is given up.
    book.end_job(&Nspace::new("job").unwrap());
    let ended = book.take_ended();
    assert_eq!(
        ended
            .iter()
            .filter(|ended| ended.of_file && ended.waiting == Some(TO))
            .count(),
        1
    );
    assert_eq!(
        (ended.len(), book.len(), book.tick(MonotonicTime(5000))),
        (6, 0, Vec::new())
    );
    begin(&mut book, 0, 1, file()).unwrap();
}

#[test]
fn samples_come_at_their_rate_and_never_two_at_once() {
    let usage = Arc::new(UsageRequest {
        of: UsageOf::Node,
        fields: BTreeSet::new(),
        nodes: BTreeSet::new(),
    });
    let sampling = |rate: Option<u64>| {
        let rate = rate.map(Duration::from_secs);
        NewMonitor::Usage(
            Sampling {
                id: None,
                usage: usage.clone(),
                elsewhere: Vec::new(),
                rate,
                update: event(),
            },
            TO,
        )
    };
    let mut book = MonitorTable::new(LIMITS);
    let once = book.begin(&proc(0), UID, sampling(None)).unwrap();
    assert!(matches!(
        book.measured(once, Ok(())),
        Some(SampleUse::Answer(TO))
    ));
    let failed = book.begin(&proc(0), UID, sampling(Some(2))).unwrap();
    assert!(matches!(
        book.measured(failed, Err(())),
        Some(SampleUse::Answer(TO))
    ));
    assert_eq!((book.len(), book.deadline()), (0, None));
    let watch = book.begin(&proc(0), UID, sampling(Some(2))).unwrap();
    assert!(matches!(
        book.measured(watch, Ok(())),
        Some(SampleUse::Answer(TO))
    ));
    assert_eq!(book.tick(MonotonicTime(1000)), []);
    let due = || {
        [MonitorAction::Measure {
            watch,
            usage: usage.clone(),
            requester: proc(0),
        }]
    };
    assert_eq!(book.tick(MonotonicTime(3000)), due());
    assert_eq!(
        book.tick(MonotonicTime(5000)),
        [],
        "the one before is not there yet"
    );
    assert!(matches!(
        book.measured(watch, Err(())),
        Some(SampleUse::Update { .. })
    ));
    assert_eq!(book.tick(MonotonicTime(7000)), due());
}

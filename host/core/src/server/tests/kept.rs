//! Retained events: for late registrations, for returning and lagging peers, and the bounds.
use super::*;
use crate::{quota::Quota, retained::RetentionLimits};
use peal_model::Infos;
use std::sync::Arc;

const NEWS: i32 = -3001;

/// A server with a job of two procs; the second one connects when it likes.
struct Late {
    stage: Stage,
}

/// The deliveries to one connection, by numbers.
#[derive(Debug, Default, PartialEq)]
struct Heard {
    numbers: Vec<u32>,
    missed: Vec<u64>,
    pauses: usize,
}

impl Late {
    fn with(settings: StateSettings) -> Late {
        let mut server = ServerState::new(settings);
        server.add_job(JobSpec::new(nspace(), 2, "node", WHO));
        let peers = vec![server.admit(&proc(0), WHO).unwrap().0];
        Late {
            stage: Stage {
                server,
                peers,
                tag: 100,
                now: MonotonicTime(0),
                then: |_| {},
            },
        }
    }

    fn connect(&mut self) {
        let peer = self.stage.server.admit(&proc(1), WHO).unwrap().0;
        self.stage.peers.truncate(1);
        self.stage.peers.push(peer);
    }

    fn raise(&mut self, range: Range, number: u32, more: &[KeyName]) -> Vec<Action> {
        let mut infos = vec![Info::new(key::PMIX_EVENT_TIMESTAMP, Value::Uint32(number))];
        infos.extend(more.iter().map(|key| Info::new(*key, Value::Bool(true))));
        let actions = self.stage.notify(0, NEWS, range, infos);
        assert_eq!(status(&actions), code::PMIX_SUCCESS);
        actions
    }

    fn job_events(&mut self, numbers: std::ops::Range<u32>) -> Vec<Action> {
        numbers
            .flat_map(|number| self.raise(Range::Namespace, number, &[]))
            .collect()
    }

    /// Returns the deliveries of these actions to the second proc, and of what follows when it
    /// reads all of them.
    fn heard(&mut self, mut actions: Vec<Action>) -> Heard {
        let peer = self.stage.peers[1];
        let mut heard = Heard::default();
        loop {
            let mut paused = false;
            for action in &actions {
                match action {
                    Action::Deliver { peer: to, event } if *to == peer => {
                        let number = event
                            .infos
                            .value_of(key::PMIX_EVENT_TIMESTAMP)
                            .and_then(Value::as_u64)
                            .unwrap();
                        heard.numbers.push(u32::try_from(number).unwrap());
                        heard
                            .missed
                            .extend(event.infos.value_of(EVENTS_MISSED).and_then(Value::as_u64));
                    }
                    Action::Pause { peer: of } if *of == peer => paused = true,
                    _ => {}
                }
            }
            if !paused {
                return heard;
            }
            heard.pauses += 1;
            actions = self.stage.server.resume(peer);
        }
    }

    fn counts(&self) -> ServerCounts {
        self.stage.server.counts()
    }
}

fn late() -> Late {
    Late::with(StateSettings::default())
}

#[test]
fn two_thousand_job_events_wait_for_a_late_registration() {
    let mut late = late();
    late.job_events(0..1000);
    late.connect();
    late.job_events(1000..2000);
    assert_eq!(
        (late.counts().events_kept, late.counts().events_ejected),
        (2000, 0)
    );
    let registered = late.stage.register(1, &[NEWS]);
    assert!(
        matches!(registered.first(), Some(Action::Reply { .. })),
        "the acknowledgement comes first"
    );
    let heard = late.heard(registered);
    assert_eq!(
        heard,
        Heard {
            numbers: (0..2000).collect(),
            missed: vec![],
            pauses: 7
        }
    );
    assert_eq!(
        (late.counts().events_kept, late.counts().events_owed_bytes),
        (0, 0)
    );
    let direct = late.job_events(2000..2001);
    assert_eq!(hearers(&late.stage, &direct), [1]);
    assert_eq!(late.counts().events_kept, 0);
}

#[test]
fn newest_environment_events_come_with_number_missed() {
    let mut late = late();
    for number in 0..2000 {
        late.raise(Range::Local, number, &[]);
    }
    assert_eq!(
        (late.counts().events_kept, late.counts().events_ejected),
        (0, 1488)
    );
    late.connect();
    let registered = late.stage.register(1, &[NEWS - 1]);
    assert_eq!(
        late.heard(registered),
        Heard::default(),
        "nothing was missed of another code"
    );
    let registered = late.stage.register(1, &[NEWS]);
    let newest = (1488..2000).collect();
    assert_eq!(
        late.heard(registered),
        Heard {
            numbers: newest,
            missed: vec![1488],
            pauses: 1
        }
    );
    late.raise(Range::Local, 2000, &[]);
    let again = late.stage.register(1, &[]);
    assert_eq!(
        late.heard(again),
        Heard::default(),
        "who was told missed nothing"
    );
}

#[test]
fn slow_reader_gets_everything_in_order() {
    let mut late = Late::with(StateSettings {
        retention: RetentionLimits {
            ring: 3,
            ..RetentionLimits::default()
        },
        event_batch: 4,
        ..StateSettings::default()
    });
    late.connect();
    late.stage.register(1, &[]);
    let peer = late.stage.peers[1];
    assert_eq!(
        late.stage.server.mark_lagging(peer),
        [Action::Pause { peer }]
    );
    assert_eq!(
        late.stage.server.mark_lagging(peer),
        [],
        "one pause at a time"
    );
    for number in 0..12 {
        let range = if number % 2 == 0 {
            Range::Local
        } else {
            Range::Namespace
        };
        let more: &[_] = if number % 3 == 0 {
            &[key::PMIX_EVENT_DO_NOT_CACHE]
        } else {
            &[]
        };
        let actions = late.raise(range, number, more);
        assert!(hearers(&late.stage, &actions).is_empty());
    }
    let mut actions = late.stage.server.resume(peer);
    assert!(matches!(actions.last(), Some(Action::Pause { .. })));
    actions.extend(late.raise(Range::Local, 12, &[]));
    let heard = late.heard(actions);
    assert_eq!(
        heard,
        Heard {
            numbers: (0..13).collect(),
            missed: vec![],
            pauses: 3
        }
    );
    assert_eq!(late.counts().events_kept, 0);
    assert_eq!(
        late.stage.server.resume(peer),
        [],
        "it hears everything at once again"
    );
    let actions = late.raise(Range::Local, 13, &[]);
    assert_eq!(hearers(&late.stage, &actions), [1]);
    late.stage.server.events.retained().check();
}

#[test]
fn source_gets_no_own_event_and_unowed_event_is_not_kept() {
    let mut late = late();
    late.connect();
    late.stage.register(1, &[NEWS]);
    late.job_events(0..10);
    assert_eq!(late.counts().events_kept, 0);
    let registered = late.stage.register(0, &[NEWS]);
    assert!(hearers(&late.stage, &registered).is_empty());
}

#[test]
fn uncached_events_reach_earlier_registrations_only() {
    let mut late = late();
    late.connect();
    for range in [Range::Local, Range::Namespace] {
        late.raise(range, 1, &[key::PMIX_EVENT_DO_NOT_CACHE]);
    }
    let registered = late.stage.register(1, &[NEWS]);
    assert_eq!(late.heard(registered), Heard::default());
    let direct = late.raise(Range::Namespace, 2, &[key::PMIX_EVENT_DO_NOT_CACHE]);
    assert_eq!(hearers(&late.stage, &direct), [1]);
    assert_eq!(
        (late.counts().events_kept, late.counts().events_owed_bytes),
        (0, 0)
    );
}

#[test]
fn finalized_proc_is_owed_nothing_and_returning_one_new_events() {
    let mut late = late();
    late.connect();
    late.job_events(0..5);
    late.stage.ask(1, Request::Finalize);
    assert_eq!(late.counts().events_kept, 0);
    late.job_events(5..10);
    assert_eq!(late.counts().events_kept, 0);
    late.connect();
    late.job_events(10..15);
    let registered = late.stage.register(1, &[NEWS]);
    assert_eq!(late.heard(registered).numbers, [10, 11, 12, 13, 14]);
}

#[test]
fn end_of_proc_or_job_frees_events_only_they_needed() {
    let ends: [fn(&mut ServerState) -> Vec<Action>; 3] = [
        |server| server.proc_ended(&proc(1), None, MonotonicTime(0)),
        |server| server.remove_job(&nspace()),
        |server| {
            let spec = JobSpec::new(nspace(), 2, "node", WHO);
            server.add_job(spec)
        },
    ];
    for end in ends {
        let mut late = Late::with(StateSettings {
            retention: RetentionLimits {
                memory: 5000,
                ..RetentionLimits::default()
            },
            ..StateSettings::default()
        });
        late.job_events(0..100);
        let ServerCounts {
            events_kept,
            events_spilled,
            ..
        } = late.counts();
        assert!(
            events_kept == 100 && events_spilled > 50,
            "{events_kept} {events_spilled}"
        );
        let forgotten: Vec<(u64, u64)> = end(&mut late.stage.server)
            .into_iter()
            .filter_map(|action| match action {
                Action::Forget { first, last } => Some((first.0, last.0)),
                _ => None,
            })
            .collect();
        assert_eq!(
            forgotten,
            [(100 - events_spilled as u64, 99)],
            "one order for a row of them"
        );
        late.stage.server.events.retained().check_empty();
    }
}

#[test]
fn spilled_events_are_recalled_and_lost_ones_counted() {
    let mut late = Late::with(StateSettings {
        retention: RetentionLimits {
            memory: 0,
            ..RetentionLimits::default()
        },
        event_batch: 4,
        ..StateSettings::default()
    });
    let spilled: BTreeMap<Seq, Arc<Event>> = late
        .job_events(0..6)
        .into_iter()
        .filter_map(|action| {
            if let Action::Spill { at, event, .. } = action {
                Some((at, event))
            } else {
                None
            }
        })
        .collect();
    assert_eq!((spilled.len(), late.counts().events_spilled), (6, 6));
    late.connect();
    let peer = late.stage.peers[1];
    let recall = |actions: &[Action]| match actions.last() {
        Some(Action::Recall { events, .. }) => events.clone(),
        _ => panic!("{actions:?}"),
    };
    let asked = recall(&late.stage.register(1, &[NEWS]));
    assert_eq!(asked.len(), 4);
    assert_eq!(
        late.stage.server.resume(peer),
        [],
        "it waits for something else"
    );
    let content = |at: &Seq| (*at, spilled.get(at).map(|event| (**event).clone()));
    // One is gone, and one is not even spoken of.
    let contents = vec![content(&asked[0]), (asked[1], None), content(&asked[3])];
    let actions = late.stage.server.recalled(peer, contents);
    assert_eq!(late.counts().events_lost, 2);
    let asked = recall(&late.stage.server.resume(peer));
    assert_eq!(asked.len(), 2);
    let last = late
        .stage
        .server
        .recalled(peer, asked.iter().map(content).collect());
    assert_eq!(
        late.stage.server.recalled(peer, Vec::new()),
        [],
        "that was not asked for"
    );
    let numbers = late.heard(last).numbers;
    let before = hearers(&late.stage, &actions).len();
    assert_eq!((before, numbers), (2, vec![4, 5]));
    late.stage.server.events.retained().check_empty();
}

#[test]
fn spilled_events_of_one_user_have_a_share() {
    let mut late = Late::with(StateSettings {
        retention: RetentionLimits {
            memory: 0,
            user_spill: 4000,
            ..RetentionLimits::default()
        },
        ..StateSettings::default()
    });
    let spilled: BTreeMap<Seq, Arc<Event>> = late
        .job_events(0..100)
        .into_iter()
        .filter_map(|action| match action {
            Action::Spill { at, event, .. } => Some((at, event)),
            _ => None,
        })
        .collect();
    assert!((5..50).contains(&spilled.len()), "{}", spilled.len());
    late.stage.server.events.retained().check();
    late.connect();
    let actions = late.stage.register(1, &[NEWS]);
    let peer = late.stage.peers[1];
    let Some(Action::Recall { events, .. }) = actions.last() else {
        panic!("{actions:?}")
    };
    assert_eq!(events.len(), 100);
    let contents = events
        .iter()
        .map(|at| (*at, spilled.get(at).map(|event| (**event).clone())))
        .collect();
    let actions = late.stage.server.recalled(peer, contents);
    assert_eq!(late.heard(actions).numbers.len(), spilled.len());
    assert_eq!(late.counts().events_lost, 100 - spilled.len() as u64);
    late.stage.server.events.retained().check_empty();
}

#[test]
fn spilled_events_are_charged_to_source_and_site_keeps_room() {
    let mut late = Late::with(StateSettings {
        retention: RetentionLimits {
            memory: 0,
            spill: 8000,
            user_spill: 4000,
            ..RetentionLimits::default()
        },
        ..StateSettings::default()
    });
    let server = &mut late.stage.server;
    server.guard(UserIdentity { uid: 500, gid: 500 }, []);
    let user = |uid: u32| UserIdentity { uid, gid: 1 };
    let job = |uid: u32| Nspace::new(&format!("job-{uid}")).unwrap();
    for uid in [0, 500, 1001, 1002, 1003, 1004] {
        server.add_job(JobSpec::new(job(uid), 1, "node", user(uid)));
    }
    // Events that each user, and at last the resource manager, raises for the job of user 1004.
    let mut spilled = |source: Option<u32>| {
        let event = || Event {
            code: Status(NEWS),
            source: source.map(|uid| Proc::new(job(uid), Rank(0))),
            range: Range::Custom,
            infos: vec![Info::new(
                key::PMIX_EVENT_CUSTOM_RANGE,
                Value::procs([Proc::all(job(1004))]),
            )],
        };
        let mut spill = || {
            let server = &mut late.stage.server;
            let event = Arc::new(event());
            let allowance = EventBudget::new(0);
            server.distributed(event, UserScope::Everybody, allowance, MonotonicTime(0))
        };
        (0..100)
            .flat_map(|_| spill())
            .filter(|action| matches!(action, Action::Spill { .. }))
            .count()
    };
    let counts = [Some(1001), Some(1002), Some(1003), Some(0), Some(500), None].map(&mut spilled);
    let [first, second, third, root, own, manager] = counts;
    assert!(first > 4 && root > 0, "{counts:?}");
    assert!(
        second < first && second > first / 2,
        "the users' part ends: {counts:?}"
    );
    assert_eq!([third, own, manager], [0; 3], "{counts:?}");
    let mut report = QuotaReport::default();
    late.stage.server.report_quotas(&mut report);
    let used = |uid: u32| report.users[&uid][&Quota::SpilledBytes];
    assert!(used(1001).held <= 4000 && used(1001).held + used(1002).held <= 7000);
    assert_eq!(used(1003).refused, 100);
    assert!(used(0).held > 0, "root takes what is reserved: {report:?}");
    late.stage.server.events.retained().check();
}

#[test]
fn closed_connection_frees_its_retained_events() {
    let mut late = Late::with(StateSettings {
        retention: RetentionLimits {
            memory: 0,
            ring: 1,
            ..RetentionLimits::default()
        },
        ..StateSettings::default()
    });
    let tool = Proc::new(Nspace::new("tool").unwrap(), Rank(0));
    let peer = late.stage.server.admit_tool(&tool, WHO).unwrap();
    late.stage.peers.push(peer);
    late.stage.register(1, &[NEWS]);
    late.stage.server.mark_lagging(peer);
    for number in 0..5 {
        late.raise(Range::Local, number, &[]);
    }
    // What is in the ring is held for it, too, but is in no need of room elsewhere.
    assert_eq!(
        (late.counts().events_kept, late.counts().events_spilled),
        (4, 4)
    );
    assert!(matches!(
        late.stage.server.resume(peer)[..],
        [Action::Recall { .. }]
    ));
    let gone = late.stage.server.disconnected(peer, MonotonicTime(0));
    let [
        Action::Upcall(Upcall::DeregisterEvents(_)),
        Action::Upcall(Upcall::ToolLeft(_)),
        Action::Forget { .. },
    ] = gone[..]
    else {
        panic!("{gone:?}")
    };
    assert_eq!(late.stage.server.recalled(peer, Vec::new()), []);
    late.stage.server.events.retained().check_empty();
}

#[test]
fn events_outside_a_registration_cost_no_turns_of_others() {
    let mut late = late();
    late.job_events(0..10_000);
    late.connect();
    let registered = late.stage.register(1, &[NEWS - 1]);
    assert_eq!(
        late.heard(registered),
        Heard {
            numbers: vec![],
            missed: vec![],
            pauses: 2
        }
    );
    assert_eq!(late.counts().events_kept, 10_000);
}

#[test]
fn owed_events_are_found_cheaply_and_bounded() {
    let mut late = Late::with(StateSettings {
        retention: RetentionLimits {
            memory: 0,
            index: 2 << 20,
            user_index: 1 << 20,
            ..RetentionLimits::default()
        },
        ..StateSettings::default()
    });
    late.job_events(0..10_000);
    let bytes = late.counts().events_owed_bytes;
    assert!(bytes > 10_000 && bytes < 10_000 * 80, "{bytes}");
    assert_eq!(late.counts().events_lost, 0);
    late.job_events(10_000..30_000);
    let ServerCounts {
        events_kept,
        events_lost,
        events_owed_bytes,
        ..
    } = late.counts();
    assert_eq!(events_kept + usize::try_from(events_lost).unwrap(), 30_000);
    assert!(events_owed_bytes < (2 << 20) + 1000);
    late.connect();
    late.stage.register(1, &[]);
    assert_eq!(late.counts().events_lost, events_lost);
}

#[test]
fn lost_job_events_are_counted_in_the_next_one() {
    let mut late = Late::with(StateSettings {
        retention: RetentionLimits {
            index: 20_000,
            user_index: 10_000,
            ..RetentionLimits::default()
        },
        ..StateSettings::default()
    });
    late.job_events(0..1000);
    let lost = late.counts().events_lost;
    assert!(lost > 0);
    late.connect();
    late.stage.register(1, &[NEWS - 1]);
    let other_code = late.stage.notify(0, NEWS - 1, Range::Namespace, Vec::new());
    let told = |action: &Action| matches!(action, Action::Deliver { event, .. } if event.infos.value_of(EVENTS_MISSED).is_some());
    assert!(
        hearers(&late.stage, &other_code) == [1] && !other_code.iter().any(told),
        "none of that code was lost"
    );
    let registered = late.stage.register(1, &[NEWS]);
    let heard = late.heard(registered);
    assert_eq!(
        (heard.numbers.len() as u64 + lost, &heard.missed[..]),
        (1000, &[lost][..])
    );
    late.raise(Range::Namespace, 1000, &[]);
    late.stage.server.events.retained().check();
}

#[test]
fn job_events_lost_to_a_slow_reader_are_reported_to_it() {
    let mut late = Late::with(StateSettings {
        retention: RetentionLimits {
            index: 20_000,
            user_index: 10_000,
            ..RetentionLimits::default()
        },
        event_batch: 4,
        ..StateSettings::default()
    });
    late.connect();
    late.stage.register(1, &[NEWS]);
    let peer = late.stage.peers[1];
    late.stage.server.mark_lagging(peer);
    late.job_events(0..1000);
    let lost = late.counts().events_lost;
    let resumed = late.stage.server.resume(peer);
    let heard = late.heard(resumed);
    assert!(lost > 0 && heard.missed == [lost], "{:?}", heard.missed);
    assert_eq!(heard.numbers.len() as u64 + lost, 1000);
    late.stage.server.mark_lagging(peer);
    late.job_events(0..1000);
    late.stage.ask(1, Request::Finalize);
    assert!(
        !late.stage.server.events.retained().has_lost(),
        "a proc that has left need not be told"
    );
}

#[test]
fn live_event_counts_job_events_lost_before() {
    let mut late = Late::with(StateSettings {
        retention: RetentionLimits {
            memory: 0,
            ..RetentionLimits::default()
        },
        ..StateSettings::default()
    });
    late.connect();
    late.stage.register(1, &[NEWS]);
    let peer = late.stage.peers[1];
    late.stage.server.mark_lagging(peer);
    late.job_events(0..2);
    let Some(Action::Recall { events, .. }) = late.stage.server.resume(peer).pop() else {
        panic!("nothing is recalled")
    };
    let nothing = late
        .stage
        .server
        .recalled(peer, events.into_iter().map(|at| (at, None)).collect());
    assert!(hearers(&late.stage, &nothing).is_empty());
    let live = late.raise(Range::Namespace, 2, &[]);
    assert_eq!(
        late.heard(live),
        Heard {
            numbers: vec![2],
            missed: vec![2],
            pauses: 0
        }
    );
    let next = late.raise(Range::Namespace, 3, &[]);
    assert_eq!(late.heard(next).missed, [], "it is told once");
}

#[test]
fn unread_events_of_one_user_take_no_room_from_others() {
    let index = 100_000;
    let mut late = Late::with(StateSettings {
        retention: RetentionLimits {
            memory: 0,
            index,
            user_index: index / 2,
            ..RetentionLimits::default()
        },
        ..StateSettings::default()
    });
    late.job_events(0..5000);
    let mine = late.counts().events_kept;
    let lost = late.counts().events_lost;
    assert!(lost > 0 && late.counts().events_owed_bytes < index / 2 + 1000);
    let other = Nspace::new("other").unwrap();
    let uid = WHO.uid + 1;
    let gid = WHO.gid;
    late.stage.server.add_job(JobSpec::new(
        other.clone(),
        2,
        "node",
        UserIdentity { uid, gid },
    ));
    // An event for both: those of one user have no room for it.
    let everybody = Value::procs([nspace(), other.clone()].map(Proc::all));
    let infos = vec![Info::new(key::PMIX_EVENT_CUSTOM_RANGE, everybody)];
    let event = Event {
        code: Status(NEWS),
        source: None,
        range: Range::Custom,
        infos,
    };
    late.stage.server.notify(event).unwrap();
    assert_eq!(
        (late.counts().events_kept, late.counts().events_lost),
        (mine + 1, lost + 1)
    );
    late.stage.server.events.retained().check();
    late.stage.server.remove_job(&other);
    assert_eq!(late.counts().events_kept, mine);
}

#[test]
fn registration_receives_only_its_classes() {
    let infos = |key| vec![Info::new(key, Value::Bool(true))];
    for (infos, wanted) in [
        (infos(key::PMIX_EVENT_ENVIRO_LEVEL), vec![1, 3]),
        (infos(key::PMIX_EVENT_JOB_LEVEL), vec![0, 2]),
        (Vec::new(), vec![0, 1, 2, 3]),
    ] {
        let mut late = late();
        late.raise(Range::Namespace, 0, &[]);
        late.raise(Range::Global, 1, &[]);
        late.connect();
        let mut actions = late
            .stage
            .ask(
                1,
                Request::RegisterEvents {
                    codes: vec![Status(NEWS)],
                    infos,
                },
            )
            .1;
        actions.extend(late.raise(Range::Namespace, 2, &[]));
        actions.extend(late.raise(Range::Global, 3, &[]));
        assert_eq!(late.heard(actions).numbers, wanted);
    }
}

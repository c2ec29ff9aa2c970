//! Monitored procs: recipients of alerts, and cleanup when procs end.
use super::*;
use crate::monitor::{FileStat, MonitorId};
use peal_model::{Infos, Reply};

const ALERT: i32 = -109;

impl Stage {
    fn monitor(
        &mut self,
        rank: u32,
        monitor: (KeyName, Value),
        directives: &[(KeyName, Value)],
    ) -> Vec<Action> {
        let infos = directives
            .iter()
            .map(|(key, value)| Info::new(*key, value.clone()))
            .collect();
        let monitor = Info::new(monitor.0, monitor.1);
        self.ask(
            rank,
            Request::Monitor {
                monitor,
                error: code::PMIX_SUCCESS,
                directives: infos,
            },
        )
        .1
    }

    fn beats(&mut self, rank: u32, id: &str) -> Vec<Action> {
        let time = (key::PMIX_MONITOR_HEARTBEAT_TIME, Value::Uint32(4));
        self.monitor(
            rank,
            (key::PMIX_MONITOR_HEARTBEAT, Value::Undef),
            &[time, (key::PMIX_MONITOR_ID, Value::string(id))],
        )
    }

    fn file(&mut self, rank: u32) -> Vec<Action> {
        let directives = [
            (key::PMIX_MONITOR_FILE_CHECK_TIME, Value::Uint32(1)),
            (key::PMIX_MONITOR_FILE_SIZE, Value::Bool(true)),
        ];
        self.monitor(
            rank,
            (key::PMIX_MONITOR_FILE, Value::string("/tmp/log")),
            &directives,
        )
    }

    fn cancel(&mut self, rank: u32, id: Value) -> Status {
        status(&self.monitor(rank, (key::PMIX_MONITOR_CANCEL, id), &[]))
    }

    /// Advances the time and returns the actions.
    fn at(&mut self, now: u64) -> Vec<Action> {
        self.now = MonotonicTime(now);
        self.server.tick(self.now)
    }
}

/// Returns the event that runs through the chains.
fn chained(actions: &[Action]) -> Option<&peal_model::Event> {
    let mut events = actions.iter().filter_map(|action| match action {
        Action::Chain { event, .. } => Some(&**event),
        _ => None,
    });
    let event = events.next();
    assert!(events.next().is_none(), "{actions:?}");
    event
}

fn opened(actions: &[Action]) -> MonitorId {
    let [
        Action::CheckFile {
            watch,
            check: FileLook::Open { path, identity },
        },
    ] = actions
    else {
        panic!("{actions:?}")
    };
    assert_eq!((path.to_str(), *identity), (Some("/tmp/log"), WHO));
    *watch
}

const SEEN: FileStat = FileStat {
    size: 1,
    accessed: 0,
    modified: 0,
};

#[test]
fn silence_is_reported_once_to_proc_and_job_and_seen_by_chains() {
    let mut stage = Stage::of(3);
    stage.register(0, &[ALERT]);
    stage.register(2, &[ALERT]);
    assert_eq!(status(&stage.beats(0, "one")), code::PMIX_SUCCESS);
    assert_eq!(
        stage.server.deadline(),
        Some(MonotonicTime(0)),
        "it begins at once"
    );
    assert_eq!(stage.at(1000), []);
    assert_eq!(stage.server.deadline(), Some(MonotonicTime(7000)));
    stage.server.beat(stage.peers[0], MonotonicTime(3000));
    assert_eq!(stage.at(7000), [], "that was put off");
    let actions = stage.at(9000);
    assert_eq!(hearers(&stage, &actions), [0, 2]);
    let chained: Vec<_> = actions
        .iter()
        .filter(|action| matches!(action, Action::Chain { .. }))
        .collect();
    let [Action::Chain { event, reach, .. }] = chained.as_slice() else {
        panic!("{actions:?}")
    };
    assert_eq!(
        (event.code.0, &event.source, event.affected()),
        (ALERT, &Some(proc(0)), vec![proc(0)])
    );
    assert_eq!(
        event.infos.value_of(key::PMIX_MONITOR_ID),
        Some(&Value::string("one"))
    );
    assert_eq!(*reach, crate::user_scope::UserScope::User(WHO.uid));
    assert_eq!(
        (stage.at(100_000), stage.server.deadline()),
        (vec![], None),
        "it is told once"
    );
    stage.server.beat(stage.peers[0], MonotonicTime(100_001));
    let actions = stage.at(106_001);
    assert_eq!(
        hearers(&stage, &actions),
        [0, 2],
        "and again, when it was heard of in between"
    );
}

#[test]
fn silent_proc_that_registers_late_gets_its_alert() {
    let mut stage = Stage::of(1);
    stage.beats(0, "one");
    stage.at(1000);
    let alert = stage.at(7000);
    assert_eq!(
        (hearers(&stage, &alert), chained(&alert).is_some()),
        (vec![], true)
    );
    let told = stage.register(0, &[ALERT]);
    assert_eq!(hearers(&stage, &told), [0], "{told:?}");
}

#[test]
fn host_that_registered_for_the_code_gets_alerts() {
    let host_hears = |codes: Option<&[Status]>, range: Option<Range>| {
        let mut stage = Stage::of(1);
        if let Some(codes) = codes {
            stage.server.host_registers(codes);
        }
        let time = (key::PMIX_MONITOR_HEARTBEAT_TIME, Value::Uint32(4));
        let range = range.map(|range| (key::PMIX_RANGE, Value::Range(range)));
        let directives: Vec<_> = [time].into_iter().chain(range).collect();
        stage.monitor(0, (key::PMIX_MONITOR_HEARTBEAT, Value::Undef), &directives);
        stage.at(1000);
        let alert = stage.at(7000);
        alert
            .iter()
            .filter(|action| matches!(action, Action::Upcall(Upcall::Notify { .. })))
            .count()
    };
    let alert = Status(ALERT);
    assert_eq!(host_hears(Some(&[alert]), None), 1);
    assert_eq!(host_hears(Some(&[alert]), Some(Range::Rm)), 1, "once");
    assert_eq!(host_hears(Some(&[Status(-1)]), None), 0);
    // Whoever wants all that is aimed at it hears this only where it is.
    assert_eq!(
        (
            host_hears(Some(&[]), None),
            host_hears(Some(&[]), Some(Range::Rm))
        ),
        (0, 1)
    );
    assert_eq!(host_hears(None, None), 0);
}

#[test]
fn clients_cannot_mark_events_as_raised_by_server() {
    let mut stage = Stage::of(2);
    stage.register(0, &[-3001]);
    stage.register(1, &[-3001]);
    let infos = vec![Info::new(
        crate::event_targets::BY_SERVER,
        Value::Bool(true),
    )];
    let raised = stage
        .ask(
            0,
            Request::Notify {
                code: Status(-3001),
                range: Range::Namespace,
                infos,
            },
        )
        .1;
    assert_eq!(hearers(&stage, &raised), [1]);
}

#[test]
fn request_to_send_a_heartbeat_is_a_sign_of_life() {
    let mut stage = Stage::of(1);
    stage.beats(0, "one");
    stage.at(1000);
    let beat = stage.monitor(0, (key::PMIX_SEND_HEARTBEAT, Value::Undef), &[]);
    assert_eq!(status(&beat), code::PMIX_SUCCESS);
    // The next tick gives it its time.
    stage.at(6000);
    assert_eq!(
        (chained(&stage.at(7000)), stage.server.deadline()),
        (None, Some(MonotonicTime(12_000)))
    );
}

#[test]
fn heartbeats_may_be_noted_late_but_before_the_check() {
    let mut stage = Stage::of(2);
    let due = |stage: &Stage, now| {
        stage
            .server
            .beats_due(MonotonicTime(now))
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(stage.server.proc_of(stage.peers[1]), Some(&proc(1)));
    stage.beats(0, "one");
    assert_eq!(due(&stage, 1000), [], "it begins");
    stage.at(1000);
    assert_eq!(
        (due(&stage, 6999), due(&stage, 7000)),
        (vec![], vec![proc(0)])
    );
    // What was before it began is no sign after that, and none undoes a later one.
    for at in [900, 4000, 3000] {
        stage.server.beat(stage.peers[0], MonotonicTime(at));
    }
    assert_eq!(
        (stage.at(7000), stage.server.deadline()),
        (vec![], Some(MonotonicTime(10_000)))
    );
    assert!(!stage.server.is_silent(&proc(0)));
    assert!(chained(&stage.at(10_000)).is_some());
    assert!(stage.server.is_silent(&proc(0)) && !stage.server.is_silent(&proc(1)));
    assert_eq!(due(&stage, 100_000), [], "nobody looks at who is silent");
    stage.server.beat(stage.peers[0], MonotonicTime(10_500));
    assert!(!stage.server.is_silent(&proc(0)));
    assert_eq!(stage.server.deadline(), Some(MonotonicTime(16_500)));
    // Files are looked at without anybody beating.
    let watch = opened(&stage.file(1));
    stage.server.file_opened(watch, Ok(SEEN));
    stage.at(11_000);
    assert_eq!(
        (due(&stage, 12_000), stage.server.deadline()),
        (vec![], Some(MonotonicTime(12_000)))
    );
}

#[test]
fn monitors_are_cancelled_singly_or_together_by_requester() {
    let mut stage = Stage::of(2);
    for (rank, id) in [(0, "one"), (0, "two"), (1, "one")] {
        assert_eq!(status(&stage.beats(rank, id)), code::PMIX_SUCCESS);
    }
    let again = stage.beats(0, "one");
    assert_eq!(status(&again), code::PMIX_ERR_EXISTS);
    let [
        Action::Reply {
            reply: Reply::Infos { infos, .. },
            ..
        },
    ] = again.as_slice()
    else {
        panic!("{again:?}")
    };
    assert!(
        format!("{infos:?}").contains("job:0 has a monitor"),
        "{infos:?}"
    );
    assert_eq!(
        stage.cancel(1, Value::string("two")),
        code::PMIX_ERR_NOT_FOUND,
        "that is somebody else's"
    );
    assert_eq!(stage.cancel(0, Value::string("one")), code::PMIX_SUCCESS);
    assert_eq!(stage.server.counts().monitors, 2);
    assert_eq!(stage.cancel(0, Value::Undef), code::PMIX_SUCCESS);
    assert_eq!(stage.server.counts().monitors, 1);
    stage.at(0);
    let alert = stage.server.tick(MonotonicTime(6000));
    assert_eq!(
        chained(&alert).map(|event| event.affected()),
        Some(vec![proc(1)])
    );
}

#[test]
fn monitors_of_one_user_leave_room_for_those_of_others() {
    let settings = StateSettings {
        monitors: crate::monitor::MonitorLimits {
            total: 4,
            ..StateSettings::default().monitors
        },
        ..StateSettings::default()
    };
    let other = UserIdentity {
        uid: WHO.uid + 1,
        gid: 1,
    };
    let mut stage = Stage::with_jobs(settings, &[("job", 3, WHO), ("other", 2, other)]);
    let answers = [0, 1, 2, 3, 4].map(|peer| status(&stage.beats(peer, "id")));
    let (ok, full) = (code::PMIX_SUCCESS, code::PMIX_ERR_OUT_OF_RESOURCE);
    assert_eq!(answers, [ok, ok, full, ok, ok]);
}

#[test]
fn file_is_opened_before_answer_and_closed_at_disconnection() {
    let mut stage = Stage::of(1);
    let watch = opened(&stage.file(0));
    let answered = stage.server.file_opened(watch, Ok(SEEN));
    assert_eq!(status(&answered), code::PMIX_SUCCESS);
    assert_eq!(stage.at(0), []);
    assert_eq!(
        stage.at(1000),
        [Action::CheckFile {
            watch,
            check: FileLook::Again
        }]
    );
    let alert = stage.server.file_looked_at(watch, Some(SEEN));
    assert_eq!(
        chained(&alert).map(|event| event.code),
        Some(code::PMIX_MONITOR_FILE_ALERT)
    );

    let refused = opened(&stage.file(0));
    let why = (code::PMIX_ERR_NO_PERMISSIONS, "it is not yours".to_owned());
    let actions = stage.server.file_opened(refused, Err(why));
    assert_eq!(status(&actions), code::PMIX_ERR_NO_PERMISSIONS);
    assert!(actions.contains(&Action::CheckFile {
        watch: refused,
        check: FileLook::Close
    }));
    assert_eq!(stage.server.counts().monitors, 1);

    let waiting = opened(&stage.file(0));
    let actions = stage.ask(0, Request::Finalize).1;
    let closed: Vec<MonitorId> = actions
        .iter()
        .filter_map(|action| match action {
            Action::CheckFile {
                watch,
                check: FileLook::Close,
            } => Some(*watch),
            _ => None,
        })
        .collect();
    assert_eq!(
        (closed, stage.server.counts().monitors),
        (vec![watch, waiting], 0)
    );
    assert_eq!(
        stage.server.file_opened(waiting, Ok(SEEN)),
        [Action::CheckFile {
            watch: waiting,
            check: FileLook::Close
        }]
    );
}

#[test]
fn nothing_is_left_of_procs_that_go_however_they_do() {
    for end in [
        (|stage: &mut Stage| stage.ask(0, Request::Finalize).1) as fn(&mut Stage) -> Vec<Action>,
        |stage| stage.server.disconnected(stage.peers[0], MonotonicTime(0)),
        |stage| stage.server.proc_ended(&proc(0), None, MonotonicTime(0)),
        |stage| stage.server.remove_job(&nspace()),
    ] {
        let mut stage = Stage::of(1);
        stage.beats(0, "one");
        stage.at(0);
        end(&mut stage);
        assert_eq!(
            (stage.server.counts().monitors, stage.server.deadline()),
            (0, None)
        );
        stage.server.beat(stage.peers[0], MonotonicTime(1));
    }
    // So it is with tools.
    let mut stage = Stage::of(1);
    let tool = Proc::new(Nspace::new("tool").unwrap(), Rank(0));
    let peer = stage.server.admit_tool(&tool, WHO).unwrap();
    stage.peers[0] = peer;
    assert_eq!(status(&stage.beats(0, "one")), code::PMIX_SUCCESS);
    stage.server.disconnected(peer, MonotonicTime(0));
    assert_eq!(stage.server.counts().monitors, 0);
}

#[test]
fn first_sample_is_the_answer_and_later_ones_are_events() {
    let mut stage = Stage::of(2);
    stage.register(0, &[-114]);
    stage.register(1, &[-114]);
    let rate = (key::PMIX_MONITOR_RESOURCE_RATE, Value::Uint32(1));
    let asked = stage.monitor(
        0,
        (key::PMIX_MONITOR_NODE_RESOURCE_USAGE, Value::Undef),
        &[rate],
    );
    let [
        Action::Measure {
            watch,
            identity: WHO,
            ..
        },
    ] = asked.as_slice()
    else {
        panic!("{asked:?}")
    };
    let load = || vec![Info::new(key::PMIX_NODE_RESOURCE_USAGE, Value::Bool(true))];
    let answer = stage.server.measured(*watch, Ok(load()));
    assert!(
        matches!(answer.as_slice(), [Action::Reply { reply: Reply::Infos { infos, .. }, .. }] if *infos == load())
    );
    stage.at(0);
    let due = stage.at(1000);
    assert_eq!(due.len(), 1);
    let update = stage.server.measured(*watch, Ok(load()));
    assert_eq!(hearers(&stage, &update), [0]);
    let Action::Deliver { event, .. } = &update[0] else {
        panic!("{update:?}")
    };
    assert!(event.infos.ends_with(&load()));
}

#[test]
fn host_environment_gets_unserved_monitors() {
    let mut stage = Stage::of(1);
    stage.server.settings.monitoring = Monitoring::Host;
    let asked = stage.beats(0, "one");
    assert!(matches!(
        asked.as_slice(),
        [Action::Upcall(Upcall::Request {
            request: Request::Monitor { .. },
            ..
        })]
    ));
}

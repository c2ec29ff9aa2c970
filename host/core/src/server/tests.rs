//! The server stepped by hand: requests in, actions out.
mod bounds;
mod demand;
mod entrances;
mod finalized;
mod gets;
mod kept;
mod kept_model;
mod losses;
mod monitoring;
mod recipients;
mod restarts;
mod tools;
mod user_shares;

#[path = "../../tests/support/stage.rs"]
mod stage;

use super::*;
use crate::job::JobSpec;
use crate::retained::RetentionLimits;
use peal_model::{Commit, Info, KeyName, Kval, Range, Rank, RankData, Scope, Value, key, rank};
use stage::Stage;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

const A: KeyName = KeyName("test.a");
const B: KeyName = KeyName("test.b");
const WHO: UserIdentity = UserIdentity {
    uid: 1000,
    gid: 100,
};

impl Stage {
    /// A server with a job of that many procs, all connected.
    fn of(size: u32) -> Stage {
        let settings = StateSettings {
            max_put_bytes: 1000,
            retention: RetentionLimits {
                ring: 3,
                ..RetentionLimits::default()
            },
            max_event_bytes: 1000,
            connection_loss_window: Duration::ZERO,
            ..StateSettings::default()
        };
        Stage::with_jobs(settings, &[("job", size, WHO)])
    }

    fn ask(&mut self, rank: u32, request: Request) -> (RequestId, Vec<Action>) {
        let (id, actions) = self.request(self.peers[rank as usize], request);
        (id, self.accept_registrations(actions))
    }

    fn commit(&mut self, rank: u32, scope: Scope, key: KeyName, value: u32) -> Vec<Action> {
        let commit = Commit {
            scope,
            kvals: vec![Kval::new(key, Value::Uint32(value))],
        };
        self.ask(rank, Request::Commit(vec![commit])).1
    }

    fn get(
        &mut self,
        from: u32,
        of: Proc,
        key: KeyName,
        infos: &[(KeyName, Value)],
    ) -> (RequestId, Vec<Action>) {
        let infos = infos
            .iter()
            .map(|(key, value)| Info::new(*key, value.clone()))
            .collect();
        self.ask(
            from,
            Request::Get {
                proc: of,
                infos,
                key: Some(key.0.into()),
            },
        )
    }

    fn fence(&mut self, rank: u32, infos: Vec<Info>) -> (RequestId, Vec<Action>) {
        self.ask(
            rank,
            Request::Fence {
                procs: Vec::new(),
                infos,
            },
        )
    }

    fn register(&mut self, rank: u32, codes: &[i32]) -> Vec<Action> {
        let codes = codes.iter().map(|code| Status(*code)).collect();
        self.ask(
            rank,
            Request::RegisterEvents {
                codes,
                infos: Vec::new(),
            },
        )
        .1
    }

    fn notify(&mut self, rank: u32, code: i32, range: Range, infos: Vec<Info>) -> Vec<Action> {
        self.ask(
            rank,
            Request::Notify {
                code: Status(code),
                range,
                infos,
            },
        )
        .1
    }
}

/// The host environment takes every registration at once.
fn with_willing_host(server: &mut ServerState, actions: Vec<Action>) -> Vec<Action> {
    let answer = |action| match action {
        Action::Upcall(Upcall::RegisterEvents { id, .. }) => server.host_registered(id, Ok(())),
        action => vec![action],
    };
    actions.into_iter().flat_map(answer).collect()
}

fn nspace() -> Nspace {
    Nspace::new("job").unwrap()
}

/// The contribution of other servers to a fence of this one alone.
fn proc(rank: u32) -> Proc {
    Proc::new(nspace(), Rank(rank))
}

fn statuses(actions: &[Action]) -> Vec<(RequestId, Status)> {
    let status = |action: &Action| {
        if let Action::Reply { to, reply } = action {
            Some((*to, reply.status()))
        } else {
            None
        }
    };
    actions.iter().filter_map(status).collect()
}

fn status(actions: &[Action]) -> Status {
    statuses(actions)[0].1
}

fn value(actions: &[Action], key: KeyName) -> Option<Value> {
    let Action::Reply {
        reply: Reply::Data { ranks, .. },
        ..
    } = &actions[0]
    else {
        return None;
    };
    ranks[0]
        .kvals
        .iter()
        .find(|kval| kval.key == key)
        .map(|kval| kval.value.clone())
}

fn hearers(stage: &Stage, actions: &[Action]) -> Vec<usize> {
    let rank = |peer: &PeerId| stage.peers.iter().position(|known| known == peer).unwrap();
    let heard = |action: &Action| {
        if let Action::Deliver { peer, .. } = action {
            Some(rank(peer))
        } else {
            None
        }
    };
    actions.iter().filter_map(heard).collect()
}

#[test]
fn unregistered_proc_is_refused_with_reason() {
    let mut stage = Stage::of(1);
    let other = Proc::new(Nspace::new("other").unwrap(), Rank(0));
    let server = &mut stage.server;
    assert_eq!(
        server.admit(&other, WHO).unwrap_err().to_string(),
        "namespace \"other\" is not registered here"
    );
    assert_eq!(
        server.admit(&proc(1), WHO).unwrap_err().to_string(),
        "job:1 does not exist: ranks go from 0 to 0"
    );
    let found = UserIdentity { uid: 1, gid: 100 };
    assert_eq!(
        server.admit(&proc(0), found).unwrap_err().to_string(),
        "job:0 belongs to user 1000 and group 100, the connection to user 1 and group 100"
    );
}

#[test]
fn first_connection_is_reported_to_host_and_clones_are_counted() {
    let mut server = ServerState::new(StateSettings {
        max_connections_per_proc: 2,
        ..StateSettings::default()
    });
    server.add_job(JobSpec::new(nspace(), 1, "node", WHO));
    let (first, told) = server.admit(&proc(0), WHO).unwrap();
    assert_eq!(told, [Action::Upcall(Upcall::ClientConnected(proc(0)))]);
    let (clone, told) = server.admit(&proc(0), WHO).unwrap();
    assert!(told.is_empty());
    assert!(matches!(
        server.admit(&proc(0), WHO),
        Err(ConnectionRefusal::TooManyClones { max: 2, .. })
    ));
    let finalize = server.request(
        RequestId {
            peer: clone,
            tag: 101,
        },
        Request::Finalize,
        MonotonicTime(0),
    );
    assert_eq!(
        finalize.len(),
        1,
        "a clone that leaves does not end the proc"
    );
    assert!(server.disconnected(clone, MonotonicTime(0)).is_empty());
    assert_eq!(server.life(&proc(0)), Some(ProcPhase::Connected(1)));
    assert!(!server.disconnected(first, MonotonicTime(0)).is_empty());
    assert_eq!(server.life(&proc(0)), Some(ProcPhase::Lost));
    assert!(matches!(
        server.admit(&proc(0), WHO),
        Err(ConnectionRefusal::Ended(_))
    ));
}

#[test]
fn job_data_contain_keys_read_by_programs() {
    let mut stage = Stage::of(2);
    let (_, actions) = stage.ask(1, Request::JobData);
    let Action::Reply {
        reply: Reply::JobData(info),
        ..
    } = &actions[0]
    else {
        panic!("{actions:?}")
    };
    assert_eq!(info.nspace, nspace());
    assert_eq!(
        info.entries
            .iter()
            .filter(|entry| matches!(entry, peal_model::JobEntry::Rank(..)))
            .count(),
        2
    );
    let (_, actions) = stage.get(0, Proc::all(nspace()), key::PMIX_JOB_SIZE, &[]);
    assert_eq!(value(&actions, key::PMIX_JOB_SIZE), Some(Value::Uint32(2)));
    let (_, actions) = stage.get(0, proc(1), key::PMIX_LOCAL_RANK, &[]);
    assert_eq!(
        value(&actions, key::PMIX_LOCAL_RANK),
        Some(Value::Uint16(1))
    );
}

#[test]
fn a_get_waits_for_its_key_and_no_longer_than_its_time() {
    let mut stage = Stage::of(2);
    let (waiting, actions) = stage.get(0, proc(1), A, &[]);
    assert!(actions.is_empty());
    assert!(
        stage
            .get(0, proc(1), B, &[(key::PMIX_TIMEOUT, Value::Int(5))])
            .1
            .is_empty()
    );
    let actions = stage.commit(1, Scope::Local, A, 7);
    assert_eq!(status(&actions), code::PMIX_SUCCESS);
    assert_eq!(statuses(&actions)[1].0, waiting);
    assert_eq!(value(&actions[1..], A), Some(Value::Uint32(7)));
    assert_eq!(stage.server.deadline(), Some(MonotonicTime(5000)));
    assert!(stage.server.tick(MonotonicTime(4999)).is_empty());
    assert_eq!(
        status(&stage.server.tick(MonotonicTime(5000))),
        code::PMIX_ERR_TIMEOUT
    );
    assert_eq!(stage.server.deadline(), None);
}

#[test]
fn immediate_optional_and_ended_procs_are_answered_at_once() {
    let mut stage = Stage::of(2);
    for directive in [key::PMIX_IMMEDIATE, key::PMIX_OPTIONAL] {
        let (_, actions) = stage.get(0, proc(1), A, &[(directive, Value::Bool(true))]);
        assert_eq!(status(&actions), code::PMIX_ERR_NOT_FOUND);
    }
    assert_eq!(
        status(&stage.get(0, proc(9), A, &[]).1),
        code::PMIX_ERR_NOT_FOUND
    );
    assert!(stage.get(0, proc(1), A, &[]).1.is_empty());
    let actions = stage.server.disconnected(stage.peers[1], MonotonicTime(0));
    assert_eq!(
        status(&actions),
        code::PMIX_ERR_NOT_FOUND,
        "the held get is answered when its proc is gone"
    );
    assert_eq!(
        status(&stage.get(0, proc(1), A, &[]).1),
        code::PMIX_ERR_NOT_FOUND
    );
}

#[test]
fn a_remote_value_is_hidden_from_local_procs() {
    let mut stage = Stage::of(2);
    stage.commit(1, Scope::Remote, A, 1);
    stage.commit(1, Scope::Local, B, 2);
    let (_, actions) = stage.get(0, proc(1), B, &[]);
    assert_eq!(
        (value(&actions, A), value(&actions, B)),
        (None, Some(Value::Uint32(2)))
    );
    assert_eq!(
        status(
            &stage
                .get(0, proc(1), A, &[(key::PMIX_IMMEDIATE, Value::Bool(true))])
                .1
        ),
        code::PMIX_ERR_NOT_FOUND
    );
}

#[test]
fn a_later_commit_adds_and_replaces_within_the_limit() {
    let mut stage = Stage::of(1);
    let put = |stage: &mut Stage, key: &'static str, length: usize| {
        let value = Value::string(&"x".repeat(length));
        let commit = Commit {
            scope: Scope::Local,
            kvals: vec![Kval::new(KeyName(key), value)],
        };
        status(&stage.ask(0, Request::Commit(vec![commit])).1)
    };
    assert_eq!(put(&mut stage, "a", 600), code::PMIX_SUCCESS);
    assert_eq!(put(&mut stage, "b", 600), code::PMIX_ERR_OUT_OF_RESOURCE);
    assert_eq!(
        put(&mut stage, "a", 700),
        code::PMIX_SUCCESS,
        "what is replaced makes room"
    );
    assert_eq!(put(&mut stage, "b", 10), code::PMIX_SUCCESS);
}

#[test]
fn fence_ends_with_all_procs_and_last_caller_is_first() {
    let mut stage = Stage::of(2);
    stage.commit(0, Scope::Remote, A, 1);
    let collect = || vec![Info::new(key::PMIX_COLLECT_DATA, Value::Bool(true))];
    let (first, actions) = stage.fence(0, collect());
    assert!(actions.is_empty());
    let (second, actions) = stage.fence(1, collect());
    let freed = [(second, code::PMIX_SUCCESS), (first, code::PMIX_SUCCESS)];
    assert_eq!(statuses(&actions), freed);
    assert_eq!(actions.len(), 2, "no other server is asked: {actions:?}");
}

#[test]
fn fences_match_by_set_and_a_second_call_is_a_second_fence() {
    let mut stage = Stage::of(2);
    let ask = |stage: &mut Stage, rank: u32, order: [u32; 2]| {
        let procs = order.into_iter().map(proc).collect();
        stage.ask(
            rank,
            Request::Fence {
                procs,
                infos: Vec::new(),
            },
        )
    };
    let waiting = [ask(&mut stage, 0, [0, 1]), ask(&mut stage, 0, [1, 0])];
    for (first, actions) in waiting {
        assert!(actions.is_empty());
        let (second, actions) = ask(&mut stage, 1, [1, 0]);
        let freed = [(second, code::PMIX_SUCCESS), (first, code::PMIX_SUCCESS)];
        assert_eq!(statuses(&actions), freed);
    }
}

#[test]
fn fence_continues_without_dead_proc_and_reports_it() {
    let mut stage = Stage::of(3);
    stage.fence(0, Vec::new());
    stage.fence(1, Vec::new());
    let actions = stage.server.disconnected(stage.peers[2], MonotonicTime(0));
    let answers = statuses(&actions);
    assert_eq!(answers.len(), 2);
    let is_partial = |(_, status)| status == code::PMIX_ERR_PARTIAL_SUCCESS;
    assert!(answers.into_iter().all(is_partial));
}

#[test]
fn fence_without_possible_end_is_refused_and_late_one_times_out() {
    let mut stage = Stage::of(2);
    let unknown = Request::Fence {
        procs: vec![Proc::all(Nspace::new("other").unwrap())],
        infos: Vec::new(),
    };
    assert_eq!(
        status(&stage.ask(0, unknown).1),
        code::PMIX_ERR_INVALID_NAMESPACE
    );
    let without_me = Request::Fence {
        procs: vec![proc(1)],
        infos: Vec::new(),
    };
    assert_eq!(
        status(&stage.ask(0, without_me).1),
        code::PMIX_ERR_BAD_PARAM
    );
    stage.fence(0, vec![Info::new(key::PMIX_TIMEOUT, Value::Int(1))]);
    assert_eq!(
        status(&stage.server.tick(MonotonicTime(1000))),
        code::PMIX_ERR_TIMEOUT
    );
}

#[test]
fn ranges_select_recipients() {
    let mut stage = Stage::of(3);
    stage.server.host_registers(&[]);
    for rank in 0..3 {
        stage.register(rank, &[-3001]);
    }
    for (range, heard) in [
        (Range::Local, vec![1, 2]),
        (Range::Namespace, vec![1, 2]),
        (Range::Session, vec![1, 2]),
        (Range::Global, vec![1, 2]),
        (Range::Rm, vec![]),
    ] {
        let actions = stage.notify(0, -3001, range, Vec::new());
        assert_eq!(status(&actions), code::PMIX_SUCCESS);
        assert_eq!(hearers(&stage, &actions), heard, "{range}");
        let hosted = actions
            .iter()
            .any(|action| matches!(action, Action::Chain { .. }));
        assert_eq!(hosted, range != Range::Rm, "{range}: hosted chains");
    }
    let only = Info::new(key::PMIX_EVENT_CUSTOM_RANGE, Value::Proc(proc(2)));
    let actions = stage.notify(0, -3001, Range::Custom, vec![only]);
    assert_eq!(hearers(&stage, &actions), [2]);
}

#[test]
fn events_that_contradict_themselves_are_refused() {
    let mut stage = Stage::of(2);
    let list = || Info::new(key::PMIX_EVENT_CUSTOM_RANGE, Value::procs([proc(1)]));
    let proxy = Info::new(key::PMIX_EVENT_PROXY, Value::Proc(proc(1)));
    assert_eq!(
        status(&stage.notify(0, -3001, Range::Global, vec![list()])),
        code::PMIX_ERR_BAD_PARAM
    );
    assert_eq!(
        status(&stage.notify(0, -3001, Range::Custom, vec![])),
        code::PMIX_ERR_BAD_PARAM
    );
    assert_eq!(
        status(&stage.notify(0, -3001, Range::ProcLocal, vec![])),
        code::PMIX_ERR_BAD_PARAM
    );
    assert_eq!(
        status(&stage.notify(0, -3001, Range::Global, vec![proxy])),
        code::PMIX_ERR_NO_PERMISSIONS
    );
}

#[test]
fn oversized_event_is_refused_and_ring_is_bounded_in_bytes() {
    let mut stage = Stage::of(2);
    let text = |length: usize| {
        vec![Info::new(
            key::PMIX_EVENT_TEXT_MESSAGE,
            Value::string(&"x".repeat(length)),
        )]
    };
    assert_eq!(
        status(&stage.notify(0, -3001, Range::Global, text(2000))),
        code::PMIX_ERR_OUT_OF_RESOURCE
    );
    stage.server = ServerState::new(StateSettings {
        retention: RetentionLimits {
            ring_bytes: 1500,
            ..RetentionLimits::default()
        },
        ..StateSettings::default()
    });
    stage.server.add_job(JobSpec::new(nspace(), 2, "node", WHO));
    stage.peers = (0..2)
        .map(|rank| stage.server.admit(&proc(rank), WHO).unwrap().0)
        .collect();
    for _ in 0..3 {
        assert_eq!(
            status(&stage.notify(0, -3001, Range::Global, text(400))),
            code::PMIX_SUCCESS
        );
    }
    assert_eq!(stage.server.counts().events_ejected, 1);
}

#[test]
fn finalized_proc_can_only_finalize_again() {
    let mut stage = Stage::of(1);
    let first = stage.ask(0, Request::Finalize);
    assert!(
        matches!(&first.1[..], [Action::Upcall(Upcall::ClientFinalized { to, .. })] if *to == first.0),
        "the host environment answers"
    );
    assert_eq!(status(&stage.register(0, &[-3001])), code::PMIX_ERR_INIT);
    assert_eq!(
        status(&stage.ask(0, Request::Finalize).1),
        code::PMIX_SUCCESS
    );
}

#[test]
fn late_registration_is_acknowledged_then_gets_each_event_once() {
    let mut stage = Stage::of(2);
    for code in [-3001, -3002, -3003] {
        stage.notify(0, code, Range::Global, Vec::new());
    }
    let actions = stage.register(1, &[-3002]);
    assert!(
        matches!(&actions[..], [Action::Reply { .. }, Action::Deliver { event, .. }] if event.code == Status(-3002))
    );
    let codes = |actions: &[Action]| -> Vec<i32> {
        let code = |action: &Action| {
            if let Action::Deliver { event, .. } = action {
                Some(event.code.0)
            } else {
                None
            }
        };
        actions.iter().filter_map(code).collect()
    };
    assert_eq!(
        codes(&stage.register(1, &[])),
        [-3001, -3003],
        "the default registration brings the rest, in order"
    );
    assert!(
        codes(&stage.register(0, &[])).is_empty(),
        "the source does not hear its own"
    );
    stage.notify(0, -3004, Range::Global, Vec::new());
    assert_eq!(stage.server.counts().events_ejected, 1);
}

#[test]
fn events_get_server_marks_clients_cannot_forge() {
    let marker = KeyName("pmix.srvr.internal.notify");
    let mut stage = Stage::of(2);
    stage.register(1, &[-3001]);
    let actions = stage.notify(
        0,
        -3001,
        Range::Global,
        vec![Info::new(marker, Value::Bool(true))],
    );
    let marks = |event: &Event| event.infos.iter().filter(|info| info.key == marker).count();
    for action in &actions {
        match action {
            Action::Deliver { event, .. } => assert_eq!(marks(event), 1),
            Action::Chain { event, .. } | Action::Distribute { event, .. } => {
                assert_eq!(marks(event), 0)
            }
            _ => {}
        }
    }
    assert_eq!(hearers(&stage, &actions), [1]);
}

#[test]
fn deregistered_codes_and_finalized_clients_get_no_event() {
    let mut stage = Stage::of(3);
    stage.register(1, &[-3001, -3002]);
    stage.register(2, &[-3001]);
    stage.ask(
        1,
        Request::DeregisterEvents {
            codes: vec![Status(-3001)],
        },
    );
    stage.ask(2, Request::Finalize);
    let actions = stage.notify(0, -3001, Range::Global, Vec::new());
    assert!(hearers(&stage, &actions).is_empty());
    let actions = stage.notify(0, -3002, Range::Global, Vec::new());
    assert_eq!(hearers(&stage, &actions), [1]);
}

#[test]
fn registering_and_deregistering_for_ever_leaves_nothing_behind() {
    let mut server = ServerState::new(StateSettings {
        max_registrations: 8,
        ..StateSettings::default()
    });
    server.add_job(JobSpec::new(nspace(), 1, "node", WHO));
    let peers = vec![server.admit(&proc(0), WHO).unwrap().0];
    let mut stage = Stage {
        server,
        peers,
        tag: 100,
        now: MonotonicTime(0),
        then: |_| {},
    };
    stage.register(0, &[-3001]);
    for _ in 0..100 {
        assert_eq!(
            status(&stage.register(0, &[-3001, -3002])),
            code::PMIX_SUCCESS
        );
        stage.ask(
            0,
            Request::DeregisterEvents {
                codes: vec![Status(-3002)],
            },
        );
    }
    assert_eq!(
        status(&stage.register(0, &[-1, -2, -3, -4, -5, -6, -7])),
        code::PMIX_ERR_OUT_OF_RESOURCE
    );
}

#[test]
fn get_of_undefined_rank_finds_any_proc_with_the_key() {
    let mut stage = Stage::of(3);
    let any_rank = Proc::new(nspace(), rank::PMIX_RANK_UNDEF);
    let (waiting, actions) = stage.get(0, any_rank.clone(), A, &[]);
    assert!(actions.is_empty());
    let actions = stage.commit(2, Scope::Local, A, 5);
    assert_eq!(statuses(&actions)[1].0, waiting);
    assert_eq!(value(&actions[1..], A), Some(Value::Uint32(5)));
    assert_eq!(
        value(&stage.get(1, any_rank.clone(), A, &[]).1, A),
        Some(Value::Uint32(5))
    );
    assert!(stage.get(1, any_rank, B, &[]).1.is_empty());
    assert_eq!(
        status(&stage.server.tick(MonotonicTime(2000))),
        code::PMIX_ERR_TIMEOUT
    );
}

#[test]
fn the_filter_by_affected_procs_needs_an_overlap() {
    let mut stage = Stage::of(2);
    let mine = Info::new(key::PMIX_EVENT_AFFECTED_PROC, Value::Proc(proc(1)));
    stage.ask(
        1,
        Request::RegisterEvents {
            codes: vec![Status(-3001)],
            infos: vec![mine],
        },
    );
    let affecting = |rank: Rank| {
        vec![Info::new(
            key::PMIX_EVENT_AFFECTED_PROCS,
            Value::procs([Proc::new(nspace(), rank)]),
        )]
    };
    let other = stage.notify(0, -3001, Range::Global, affecting(Rank(0)));
    let all = stage.notify(0, -3001, Range::Global, affecting(rank::PMIX_RANK_WILDCARD));
    assert_eq!(
        (hearers(&stage, &other), hearers(&stage, &all)),
        (vec![], vec![1])
    );
}

#[test]
fn dead_proc_becomes_event_and_leaving_one_does_not() {
    let mut stage = Stage::of(3);
    stage.register(0, &[]);
    stage.ask(1, Request::Finalize);
    assert!(
        stage
            .server
            .disconnected(stage.peers[1], MonotonicTime(0))
            .is_empty()
    );
    let actions = stage.server.disconnected(stage.peers[2], MonotonicTime(0));
    assert!(actions.contains(&Action::Upcall(Upcall::ClientLost(proc(2)))));
    assert!(
        actions
            .iter()
            .any(|action| matches!(action, Action::Chain { .. }))
    );
    assert!(
        hearers(&stage, &actions).is_empty(),
        "the procs hear of it from the host"
    );
    let abnormal = Some((code::PMIX_ERR_PROC_ABORTED_BY_SIG, Vec::new()));
    let actions = stage
        .server
        .proc_ended(&proc(2), abnormal, MonotonicTime(0));
    let consulted = |action: &Action| match action {
        Action::Consult { about, event, .. } if *about == proc(2) => Some(event.clone()),
        _ => None,
    };
    let event = actions.iter().find_map(consulted).unwrap();
    assert_eq!(
        (event.source.clone(), event.affected()),
        (None, vec![proc(2)])
    );
    assert_eq!(
        hearers(&stage, &actions),
        [0],
        "an event of the resource manager reaches the namespace of the affected proc"
    );
}

#[test]
fn death_is_reported_once_despite_open_connection() {
    let abnormal = || Some((code::PMIX_ERR_PROC_ABORTED_BY_SIG, Vec::new()));
    let told = |actions: &[Action]| -> Vec<Status> {
        let code = |action: &Action| match action {
            Action::Chain { event, .. } | Action::Consult { event, .. } => Some(event.code),
            _ => None,
        };
        actions.iter().filter_map(code).collect()
    };
    let both = [
        code::PMIX_ERR_LOST_CONNECTION,
        code::PMIX_ERR_PROC_ABORTED_BY_SIG,
    ];
    let mut stage = Stage::of(2);
    stage.fence(0, Vec::new());
    let ended = stage
        .server
        .proc_ended(&proc(1), abnormal(), MonotonicTime(0));
    assert_eq!(told(&ended), both);
    assert!(
        statuses(&ended)
            .iter()
            .any(|(_, status)| *status == code::PMIX_ERR_PARTIAL_SUCCESS),
        "nobody waits for it any more"
    );
    assert!(
        stage
            .server
            .disconnected(stage.peers[1], MonotonicTime(0))
            .is_empty()
    );
    let mut stage = Stage::of(2);
    let mut actions = stage.server.disconnected(stage.peers[1], MonotonicTime(0));
    actions.extend(
        stage
            .server
            .proc_ended(&proc(1), abnormal(), MonotonicTime(0)),
    );
    assert_eq!(told(&actions), both, "the same, whichever comes first");
}

#[test]
fn a_proc_that_ends_without_ever_connecting_is_not_waited_for() {
    let mut server = ServerState::new(StateSettings::default());
    server.add_job(JobSpec::new(nspace(), 2, "node", WHO));
    let (peer, _) = server.admit(&proc(0), WHO).unwrap();
    let request = |tag| RequestId { peer, tag };
    let fence = Request::Fence {
        procs: Vec::new(),
        infos: Vec::new(),
    };
    assert!(
        server
            .request(request(101), fence, MonotonicTime(0))
            .is_empty()
    );
    let get = Request::Get {
        proc: proc(1),
        infos: Vec::new(),
        key: Some(A.0.into()),
    };
    assert!(
        server
            .request(request(102), get, MonotonicTime(0))
            .is_empty()
    );
    let actions = server.proc_ended(&proc(1), None, MonotonicTime(0));
    assert_eq!(
        statuses(&actions),
        [
            (request(102), code::PMIX_ERR_NOT_FOUND),
            (request(101), code::PMIX_ERR_PARTIAL_SUCCESS)
        ]
    );
    assert!(matches!(
        server.admit(&proc(1), WHO),
        Err(ConnectionRefusal::Ended(_))
    ));
}

#[test]
fn host_requests_go_up_and_answers_come_down() {
    let mut stage = Stage::of(1);
    let (to, actions) = stage.ask(0, Request::FabricUpdate { index: 1 });
    assert!(matches!(
        &actions[..],
        [Action::Upcall(Upcall::Request { .. })]
    ));
    let answer = stage
        .server
        .answer(to, Reply::Status(code::PMIX_ERR_NOT_SUPPORTED));
    assert_eq!(statuses(&answer), [(to, code::PMIX_ERR_NOT_SUPPORTED)]);
    stage.server.disconnected(stage.peers[0], MonotonicTime(0));
    assert!(
        stage
            .server
            .answer(to, Reply::Status(code::PMIX_SUCCESS))
            .is_empty()
    );
    assert!(
        stage
            .server
            .request(to, Request::JobData, MonotonicTime(0))
            .is_empty(),
        "nobody is behind that connection"
    );
}

#[test]
fn raised_events_carry_the_budget_of_their_handler() {
    let mut stage = Stage::of(1);
    let event = Event {
        code: Status(-3001),
        source: None,
        range: Range::Local,
        infos: Vec::new(),
    };
    let given = |actions: &[Action]| {
        let [Action::Chain { allowance, .. }] = actions else {
            panic!("{actions:?}")
        };
        *allowance
    };
    assert_eq!(
        given(&stage.server.notify(event.clone()).unwrap()),
        StateSettings::default().allowance
    );
    assert_eq!(
        given(
            &stage
                .server
                .raise(event, RaisingOwner::Site, EventBudget::new(7))
                .unwrap()
        ),
        EventBudget::new(7)
    );
}

/// Returns limits of pending decisions, half of them for one user.
fn decisions(requests: usize) -> DecisionLimits {
    DecisionLimits {
        requests,
        user_requests: requests.div_ceil(2),
        ..DecisionLimits::default()
    }
}

//! The policy gate: requests that name other procs pass it before they have an effect, and events
//! stay with their users.
use crate::support::stage::Stage;
use peal_core::{
    MonotonicTime,
    defaults::{Defaults, HookDefault},
    job_control::{CHECK, ControlResult, JobAction},
    job_registration::LauncherJob,
    policy::{DecidedBy, DeniedVerdict, REASON, Verdict},
    server::{
        Action, AdmissionCheck, DecisionId, DecisionLimit, DecisionLimits, EventBudget, Monitoring,
        PeerId, RaisingOwner, StateSettings, Upcall,
    },
};
use peal_model::{
    ConnectionKind, ControlExtent, DataArray, Event, Hook, Info, Infos, JobControlSubject, Nspace,
    PeerInfo, PolicySubject, Proc, Query, Range, Rank, Reply, Request, Status, UserIdentity, Value,
    code, key,
};
use std::sync::Arc;

const ALICE: UserIdentity = UserIdentity {
    uid: 1000,
    gid: 100,
};
const BOB: UserIdentity = UserIdentity {
    uid: 2000,
    gid: 100,
};
const NEWS: Status = Status(-3001);

/// The procs of Alice's job and that of Bob's, as `Stage::peers` has them.
const ALICE_0: usize = 0;
const ALICE_1: usize = 1;
const BOB_0: usize = 2;

fn proc(job: &str, rank: u32) -> Proc {
    Proc::new(Nspace::new(job).unwrap(), Rank(rank))
}

/// Returns the data of a connecting peer and its infos.
fn peer() -> (PeerInfo, Vec<Info>) {
    (
        PeerInfo {
            pid: Some(7),
            release: "4.2.2".into(),
        },
        Vec::new(),
    )
}

impl Stage {
    /// A server with a job of two procs of Alice's and one of Bob's, all connected.
    fn with(settings: StateSettings, policed: &[Hook]) -> Stage {
        let jobs = [("alice", 2, ALICE), ("bob", 1, BOB)];
        let mut stage = Stage::with_jobs(settings, &jobs);
        stage.then = crate::carried::take_over;
        stage
            .server
            .guard(UserIdentity { uid: 500, gid: 500 }, policed.iter().copied());
        stage
    }

    fn policed(hooks: &[Hook]) -> Stage {
        Stage::with(StateSettings::default(), hooks)
    }

    fn ask_of_peer(&mut self, peer: PeerId, request: Request) -> Vec<Action> {
        let (_, actions) = self.request(peer, request);
        self.accept_registrations(actions)
    }

    /// The policies' answer to a request.
    fn decide(&mut self, asked_in: &[Action], verdict: Verdict) -> Vec<Action> {
        let actions = self.server.decided(asked(asked_in), verdict);
        self.accept_registrations(actions)
    }

    fn control_one(&mut self, target: Proc, key: peal_model::KeyName) -> Vec<Action> {
        let directives = vec![Info::new(key, Value::Bool(true))];
        self.ask_of_peer(
            self.peers[ALICE_0],
            Request::JobControl {
                targets: vec![target],
                directives,
            },
        )
    }

    fn kill(&mut self, target: Proc) -> Vec<Action> {
        self.control_one(target, key::PMIX_JOB_CTRL_KILL)
    }

    /// Registers; policies for events, if there are any, grant it.
    fn register(&mut self, peer: PeerId) -> Vec<Action> {
        let actions = self.ask_to_register(peer, Vec::new());
        match &actions[..] {
            [Action::Decide { .. }] => self.decide(&actions, granted(Vec::new())),
            _ => actions,
        }
    }

    fn ask_to_register(&mut self, peer: PeerId, infos: Vec<Info>) -> Vec<Action> {
        self.ask_of_peer(
            peer,
            Request::RegisterEvents {
                codes: vec![NEWS],
                infos,
            },
        )
    }

    fn notify(&mut self, peer: PeerId, infos: Vec<Info>) -> Vec<Action> {
        self.ask_of_peer(
            peer,
            Request::Notify {
                code: NEWS,
                range: Range::Global,
                infos,
            },
        )
    }
}

fn statuses(actions: &[Action]) -> Vec<Status> {
    let status = |action: &Action| {
        if let Action::Reply { reply, .. } = action {
            Some(reply.status())
        } else {
            None
        }
    };
    actions.iter().filter_map(status).collect()
}

fn hearers(actions: &[Action]) -> Vec<PeerId> {
    let heard = |action: &Action| {
        if let Action::Deliver { peer, .. } = action {
            Some(*peer)
        } else {
            None
        }
    };
    actions.iter().filter_map(heard).collect()
}

fn asked(actions: &[Action]) -> DecisionId {
    let [Action::Decide { id, .. }] = actions else {
        panic!("{actions:?}")
    };
    *id
}

fn granted(infos: Vec<Info>) -> Verdict {
    Verdict::Granted {
        by: DecidedBy::Policy("yes".to_owned()),
        amended: infos,
        range: None,
        data: None,
        answer: Vec::new(),
    }
}

fn denied(status: Status) -> Verdict {
    let reasons = vec![Info::new(REASON, Value::string("not today"))];
    Verdict::Denied(DeniedVerdict {
        by: DecidedBy::Policy("no".to_owned()),
        status,
        reasons,
    })
}

#[test]
fn default_rule_without_policies_decides_at_once_with_reason() {
    let mut stage = Stage::policed(&[]);
    let own = stage.kill(proc("alice", 1));
    let [
        Action::Upcall(Upcall::JobControl {
            control, source, ..
        }),
    ] = &own[..]
    else {
        panic!("{own:?}")
    };
    assert_eq!(
        (&control.action, source.as_ref()),
        (&JobAction::Kill, Some(&proc("alice", 0)))
    );
    assert_eq!(control.targets, [proc("alice", 1)]);
    for (target, status, words) in [
        (
            proc("bob", 0),
            code::PMIX_ERR_NO_PERMISSIONS,
            "bob:0 belongs to user 2000, alice:0 to user 1000",
        ),
        (
            proc("gone", 0),
            code::PMIX_ERR_NOT_FOUND,
            "gone:0 is not known here",
        ),
    ] {
        let actions = stage.kill(target);
        let [
            Action::Denied(denial),
            Action::Reply {
                reply:
                    Reply::Infos {
                        status: told,
                        infos,
                    },
                ..
            },
        ] = &actions[..]
        else {
            panic!("{actions:?}")
        };
        assert_eq!(
            (*told, infos.value_of(REASON).and_then(Value::as_str)),
            (status, Some(words))
        );
        assert_eq!(
            (denial.hook, &denial.by, denial.status),
            (Hook::JobControl, &DecidedBy::Default, status)
        );
        assert_eq!(
            (&denial.requester, denial.identity),
            (&Some(proc("alice", 0)), Some(ALICE))
        );
    }
    // The rank is the job's business, once it may be asked.
    assert_eq!(
        statuses(&stage.kill(proc("alice", 7))),
        [code::PMIX_ERR_NOT_FOUND]
    );
}

/// Adds a job of four procs, two on this node.
fn add_job_over_nodes(stage: &mut Stage, name: &str, owner: UserIdentity) {
    let nspace = Nspace::new(name).unwrap();
    let mut job = LauncherJob::new(nspace, "n0", owner);
    let infos = vec![
        Info::new(key::PMIX_NODE_MAP, Value::string("n0,n1")),
        Info::new(key::PMIX_PROC_MAP, Value::string("0,1;2,3")),
    ];
    job.describe(2, infos);
    job.add_client(Rank(0), owner);
    job.add_client(Rank(1), owner);
    stage.server.add_job(job.spec().unwrap());
}

#[test]
fn procs_of_other_nodes_belong_to_the_owner_of_their_job() {
    let mut stage = Stage::policed(&[]);
    add_job_over_nodes(&mut stage, "near", ALICE);
    add_job_over_nodes(&mut stage, "far", BOB);
    let foreign = proc("far", 3);
    for target in [&foreign, &Proc::all(foreign.nspace.clone())] {
        let refused = statuses(&stage.kill(target.clone()));
        assert_eq!(refused, [code::PMIX_ERR_NO_PERMISSIONS], "{target}");
    }
    let ask =
        |stage: &mut Stage, request| statuses(&stage.ask_of_peer(stage.peers[ALICE_0], request));
    let monitor = Request::Monitor {
        monitor: Info::new(key::PMIX_MONITOR_PROC_RESOURCE_USAGE, Value::Undef),
        error: code::PMIX_SUCCESS,
        directives: vec![Info::new(
            key::PMIX_MONITOR_TARGET_PROCS,
            Value::procs([foreign.clone()]),
        )],
    };
    assert_eq!(ask(&mut stage, monitor), [code::PMIX_ERR_NO_PERMISSIONS]);
    let query = Request::Query {
        queries: vec![Query {
            keys: vec![Some(key::PMIX_QUERY_PROC_RESOURCE_USAGE.0.into())],
            qualifiers: vec![Info::new(key::PMIX_PROCID, Value::Proc(foreign))],
        }],
    };
    assert_eq!(ask(&mut stage, query), [code::PMIX_ERR_NO_PERMISSIONS]);
    let own = proc("near", 3);
    let actions = stage.kill(own.clone());
    let [Action::Upcall(Upcall::ControlOverNodes { id, control, .. })] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(control.targets.elsewhere, [own]);
    let infos = vec![Info::new(REASON, Value::string("of the launcher"))];
    let status = Status(-3917);
    let answer = ControlResult::OfLauncher {
        status,
        infos: infos.clone(),
    };
    let answered = stage
        .server
        .controlled_over_nodes(*id, Ok(answer), MonotonicTime::default());
    let reply = Reply::Infos { status, infos };
    assert!(
        matches!(&answered[..], [Action::JobControlEnded { .. }, Action::Reply { reply: told, .. }] if *told == reply),
        "{answered:?}"
    );
}

#[test]
fn policies_see_foreign_and_unknown_targets_and_decide() {
    let mut stage = Stage::policed(&[Hook::JobControl]);
    for (target, owner) in [
        (proc("alice", 1), Some(ALICE)),
        (proc("bob", 0), Some(BOB)),
        (proc("gone", 0), None),
    ] {
        let actions = stage.kill(target.clone());
        let [Action::Decide { id, request }] = &actions[..] else {
            panic!("{actions:?}")
        };
        assert_eq!(
            (request.subject.hook(), request.identity),
            (Hook::JobControl, Some(ALICE))
        );
        assert_eq!(
            (&request.targets[0].proc, request.targets[0].owner),
            (&target, owner)
        );
        assert!(
            request
                .subject
                .directives()
                .is_true(key::PMIX_JOB_CTRL_KILL)
        );
        let actions = stage.server.decided(*id, denied(Status(-3100)));
        assert_eq!(statuses(&actions), [Status(-3100)]);
        let [
            Action::Denied(_),
            Action::Reply {
                reply: Reply::Infos { infos, .. },
                ..
            },
        ] = &actions[..]
        else {
            panic!("{actions:?}")
        };
        assert_eq!(infos.value_of(REASON), Some(&Value::string("not today")));
    }
    // A policy may grant what the default would not, and change what is done.
    let id = asked(&stage.kill(proc("bob", 0)));
    let gently = vec![Info::new(key::PMIX_JOB_CTRL_TERMINATE, Value::Bool(true))];
    let actions = stage.server.decided(id, granted(gently));
    assert!(
        matches!(&actions[..], [Action::Upcall(Upcall::JobControl { control, .. })] if control.action == JobAction::Terminate)
    );
    assert!(
        stage.server.decided(id, granted(Vec::new())).is_empty(),
        "nothing is decided twice"
    );
    // What a policy makes of a request must make sense like any other, and so must what it grants.
    let id = asked(&stage.kill(proc("bob", 0)));
    assert_eq!(
        statuses(&stage.server.decided(id, granted(Vec::new()))),
        [code::PMIX_ERR_BAD_PARAM]
    );
    let id = asked(&stage.kill(proc("gone", 0)));
    let kill = vec![Info::new(key::PMIX_JOB_CTRL_KILL, Value::Bool(true))];
    assert_eq!(
        statuses(&stage.server.decided(id, granted(kill))),
        [code::PMIX_ERR_NOT_FOUND]
    );
    assert_eq!(stage.server.counts().decisions_awaited, 0);
}

#[test]
fn policies_learn_extent_of_job_control() {
    let mut stage = Stage::policed(&[Hook::JobControl]);
    let kill = Info::new(key::PMIX_JOB_CTRL_KILL, Value::Bool(true));
    let check = Value::DataArray(DataArray::infos([kill.clone()]));
    for (directive, extent) in [
        (kill.clone(), ControlExtent::Full),
        (Info::new(CHECK, check), ControlExtent::Check),
    ] {
        let actions = stage.ask_of_peer(
            stage.peers[ALICE_0],
            Request::JobControl {
                targets: vec![proc("alice", 1)],
                directives: vec![directive],
            },
        );
        let [Action::Decide { request, .. }] = &actions[..] else {
            panic!("{actions:?}")
        };
        let subject = JobControlSubject {
            directives: vec![kill.clone()],
            extent,
        };
        assert_eq!(request.subject, PolicySubject::JobControl(subject));
    }
}

#[test]
fn requests_that_name_others_are_refused_row_by_row() {
    let bobs = || vec![Proc::all(Nspace::new("bob").unwrap())];
    let whole = Info::new(key::PMIX_MONITOR_TARGET_PROCS, Value::procs(bobs()));
    let about = Info::new(key::PMIX_NSPACE, Value::string("bob"));
    let as_bob = Info::new(key::PMIX_USERID, Value::Uint32(BOB.uid));
    let none = Vec::new;
    let adds = Info::new(key::PMIX_GROUP_ADD_MEMBERS, Value::procs(bobs()));
    let none_named = Vec::new;
    let rows: Vec<(Hook, Request)> = vec![
        (
            Hook::JobControl,
            Request::Abort {
                status: Status(1),
                message: None,
                targets: bobs(),
            },
        ),
        (
            Hook::Monitor,
            Request::Monitor {
                monitor: whole.clone(),
                error: Status(-109),
                directives: Vec::new(),
            },
        ),
        (
            Hook::Monitor,
            Request::Monitor {
                monitor: Info::new(key::PMIX_MONITOR_HEARTBEAT, Value::Bool(true)),
                error: Status(-109),
                directives: vec![whole],
            },
        ),
        (
            Hook::Group,
            Request::Connect {
                procs: bobs(),
                infos: none(),
            },
        ),
        (
            Hook::Group,
            Request::Disconnect {
                procs: bobs(),
                infos: none(),
            },
        ),
        (
            Hook::Group,
            Request::GroupConstruct {
                group: Some("g".into()),
                procs: bobs(),
                directives: none(),
            },
        ),
        (
            Hook::Group,
            Request::GroupConstruct {
                group: Some("g".into()),
                procs: none_named(),
                directives: vec![adds],
            },
        ),
        (
            Hook::Group,
            Request::GroupDestruct {
                group: Some("g".into()),
                members: bobs(),
                directives: none(),
            },
        ),
        (
            Hook::Query,
            Request::Query {
                queries: vec![Query {
                    keys: Vec::new(),
                    qualifiers: vec![about],
                }],
            },
        ),
        (
            Hook::Spawn,
            Request::Spawn {
                infos: vec![as_bob.clone()],
                apps: Vec::new(),
            },
        ),
        (
            Hook::Publish,
            Request::Publish {
                uid: BOB.uid,
                infos: none(),
            },
        ),
        (
            Hook::Publish,
            Request::Publish {
                uid: ALICE.uid,
                infos: vec![as_bob],
            },
        ),
        (
            Hook::Publish,
            Request::Unpublish {
                uid: BOB.uid,
                keys: Vec::new(),
                infos: none(),
            },
        ),
        (
            Hook::Lookup,
            Request::Lookup {
                uid: BOB.uid,
                keys: Vec::new(),
                infos: none(),
            },
        ),
    ];
    for (hook, request) in rows {
        let mut stage = Stage::policed(&[]);
        let actions = stage.ask_of_peer(stage.peers[ALICE_0], request.clone());
        match &request {
            // It learns that with whoever adds it.
            Request::GroupConstruct { procs, .. } if procs.is_empty() => {
                assert_eq!(statuses(&actions), [])
            }
            _ => assert_eq!(
                statuses(&actions),
                [code::PMIX_ERR_NO_PERMISSIONS],
                "{request:?}"
            ),
        }
        assert!(
            matches!(&actions[0], Action::Denied(denial) if denial.hook == hook),
            "{request:?}"
        );
        let mut defaults = Defaults::default();
        defaults.set(hook, HookDefault::Grant);
        let mut open = Stage::with(
            StateSettings {
                defaults,
                monitoring: Monitoring::Host,
                ..StateSettings::default()
            },
            &[],
        );
        let actions = open.ask_of_peer(open.peers[ALICE_0], request.clone());
        match request {
            // Groups are the server's own, and the caller is in none of bob's.
            Request::GroupConstruct { procs, .. } if procs.is_empty() => {
                assert!(actions.is_empty(), "it waits for who leads")
            }
            Request::GroupConstruct { .. } => {
                assert_eq!(statuses(&actions), [code::PMIX_ERR_NOT_A_MEMBER])
            }
            Request::GroupDestruct { .. } => {
                assert_eq!(statuses(&actions), [code::PMIX_ERR_NOT_FOUND])
            }
            // Nobody can know of procs of others what those know who are connected.
            Request::Connect { .. } | Request::Disconnect { .. } => {
                assert_eq!(statuses(&actions), [code::PMIX_ERR_INVALID_NAMESPACE]);
            }
            _ => assert!(
                matches!(actions[..], [Action::Upcall(Upcall::Request { .. })]),
                "{actions:?}"
            ),
        }
    }
    // One's own is granted, and so is the end of one's own job.
    let mut stage = Stage::policed(&[Hook::JobControl]);
    for request in [
        Request::Abort {
            status: Status(1),
            message: None,
            targets: Vec::new(),
        },
        Request::Publish {
            uid: ALICE.uid,
            infos: Vec::new(),
        },
        Request::Query {
            queries: Vec::new(),
        },
    ] {
        let actions = stage.ask_of_peer(stage.peers[ALICE_0], request);
        assert!(
            matches!(actions[..], [Action::Upcall(Upcall::Request { .. })]),
            "{actions:?}"
        );
    }
    let procs = vec![proc("alice", 0), proc("alice", 1)];
    let actions = stage.ask_of_peer(
        stage.peers[ALICE_0],
        Request::Connect {
            procs,
            infos: Vec::new(),
        },
    );
    assert!(actions.is_empty(), "it waits for the other: {actions:?}");
}

#[test]
fn an_abort_of_others_is_job_control_to_policies() {
    let mut stage = Stage::policed(&[Hook::JobControl]);
    let abort = Request::Abort {
        status: Status(1),
        message: None,
        targets: vec![proc("bob", 0)],
    };
    let actions = stage.ask_of_peer(stage.peers[ALICE_0], abort);
    let [Action::Decide { id, request }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert!(
        request
            .subject
            .directives()
            .is_true(key::PMIX_JOB_CTRL_TERMINATE)
    );
    let actions = stage.server.decided(*id, denied(Status(-3100)));
    assert!(
        matches!(
            &actions[..],
            [
                Action::Denied(_),
                Action::Reply {
                    reply: Reply::Status(Status(-3100)),
                    ..
                }
            ]
        ),
        "its answer has no room for reasons: {actions:?}"
    );
}

#[test]
fn cross_user_events_need_a_policy_also_for_late_registrations() {
    let everybody = |stage: &Stage| [stage.peers[ALICE_1], stage.peers[BOB_0]];
    let mut stage = Stage::policed(&[]);
    stage.register(stage.peers[ALICE_1]);
    stage.register(stage.peers[BOB_0]);
    let heard = stage.notify(stage.peers[ALICE_0], Vec::new());
    assert_eq!(
        (statuses(&heard), hearers(&heard)),
        (vec![code::PMIX_SUCCESS], vec![stage.peers[ALICE_1]])
    );
    let rm = Event {
        code: NEWS,
        source: None,
        range: Range::Global,
        infos: Vec::new(),
    };
    assert_eq!(
        hearers(&stage.server.notify(rm).unwrap()),
        everybody(&stage),
        "the resource manager's reach all"
    );

    let mut stage = Stage::policed(&[]);
    stage.notify(stage.peers[ALICE_0], Vec::new());
    let late = stage.register(stage.peers[ALICE_1]);
    let bob = stage.register(stage.peers[BOB_0]);
    assert_eq!(
        (hearers(&late).len(), hearers(&bob).len()),
        (1, 0),
        "the cache remembers the reach"
    );

    let mut stage = Stage::policed(&[Hook::Event]);
    stage.register(stage.peers[ALICE_1]);
    let id = asked(&stage.notify(stage.peers[ALICE_0], Vec::new()));
    assert_eq!(
        hearers(&stage.server.decided(id, granted(Vec::new()))),
        [stage.peers[ALICE_1]]
    );
    assert_eq!(
        hearers(&stage.register(stage.peers[BOB_0])),
        [stage.peers[BOB_0]],
        "granted is granted to those who come late too"
    );
    let id = asked(&stage.notify(stage.peers[ALICE_0], Vec::new()));
    let passed = Verdict::Granted {
        by: DecidedBy::Default,
        amended: Vec::new(),
        range: None,
        data: None,
        answer: Vec::new(),
    };
    assert_eq!(
        hearers(&stage.server.decided(id, passed)),
        [stage.peers[ALICE_1]],
        "all policies passed"
    );
    let id = asked(&stage.notify(stage.peers[ALICE_0], Vec::new()));
    let actions = stage.server.decided(id, denied(Status(-3100)));
    assert_eq!(
        (statuses(&actions), hearers(&actions).len()),
        (vec![Status(-3100)], 0)
    );
}

#[test]
fn a_foreign_source_needs_a_grant_and_amended_infos_are_checked() {
    let proxy = || {
        vec![Info::new(
            key::PMIX_EVENT_PROXY,
            Value::Proc(proc("bob", 0)),
        )]
    };
    let mut stage = Stage::policed(&[]);
    assert_eq!(
        statuses(&stage.notify(stage.peers[ALICE_0], proxy())),
        [code::PMIX_ERR_NO_PERMISSIONS]
    );
    let own = vec![Info::new(
        key::PMIX_EVENT_PROXY,
        Value::Proc(proc("alice", 0)),
    )];
    assert_eq!(
        statuses(&stage.notify(stage.peers[ALICE_0], own)),
        [code::PMIX_SUCCESS]
    );
    let mut stage = Stage::policed(&[Hook::Event]);
    let id = asked(&stage.notify(stage.peers[ALICE_0], proxy()));
    assert_eq!(
        statuses(&stage.server.decided(id, granted(proxy()))),
        [code::PMIX_SUCCESS]
    );
    // A custom list beside a range that has none contradicts it.
    let id = asked(&stage.notify(stage.peers[ALICE_0], Vec::new()));
    let list = vec![Info::new(
        key::PMIX_EVENT_CUSTOM_RANGE,
        Value::procs([proc("bob", 0)]),
    )];
    let actions = stage.server.decided(id, granted(list));
    assert_eq!(
        (statuses(&actions), hearers(&actions).len()),
        (vec![code::PMIX_ERR_BAD_PARAM], 0)
    );
}

#[test]
fn event_policies_refuse_or_narrow_registrations_and_ranges() {
    let mut stage = Stage::policed(&[Hook::Event]);
    let registers = stage.ask_to_register(stage.peers[ALICE_1], Vec::new());
    let [Action::Decide { request, .. }] = &registers[..] else {
        panic!("{registers:?}")
    };
    let PolicySubject::Registration(subject) = &request.subject else {
        panic!("{request:?}")
    };
    assert_eq!(subject.codes, [NEWS]);
    assert_eq!(
        (&request.requester, request.identity),
        (&Some(proc("alice", 1)), Some(ALICE))
    );
    let refused = stage.decide(&registers, denied(code::PMIX_ERR_NO_PERMISSIONS));
    assert_eq!(statuses(&refused), [code::PMIX_ERR_NO_PERMISSIONS]);
    let raised = stage.notify(stage.peers[ALICE_0], Vec::new());
    assert!(hearers(&stage.decide(&raised, granted(Vec::new()))).is_empty());

    // The policy lets her hear of jobs only.
    let registers = stage.ask_to_register(stage.peers[ALICE_1], Vec::new());
    let job_only = vec![Info::new(key::PMIX_EVENT_JOB_LEVEL, Value::Bool(true))];
    assert_eq!(
        statuses(&stage.decide(&registers, granted(job_only))),
        [code::PMIX_SUCCESS]
    );
    let raised = stage.notify(stage.peers[ALICE_0], Vec::new());
    assert!(
        hearers(&stage.decide(&raised, granted(Vec::new()))).is_empty(),
        "it is about the environment"
    );

    // The same event, in a range that makes it one about her job.
    let raised = stage.notify(stage.peers[ALICE_0], Vec::new());
    let by = DecidedBy::Policy("narrows".to_owned());
    let narrowed = Verdict::Granted {
        by,
        amended: Vec::new(),
        range: Some(Range::Namespace),
        data: None,
        answer: Vec::new(),
    };
    let spread = stage.decide(&raised, narrowed);
    assert_eq!(hearers(&spread), [stage.peers[ALICE_1]]);
    assert!(spread.iter().any(
        |action| matches!(action, Action::Deliver { event, .. } if event.range == Range::Namespace)
    ));
}

#[test]
fn peer_leaving_before_decision_is_registered_for_nothing() {
    let mut stage = Stage::policed(&[Hook::Event]);
    let leaves = stage.peers[ALICE_1];
    let stays = stage.peers[BOB_0];
    let undecided = stage.ask_to_register(leaves, Vec::new());
    let taken_back = stage.ask_to_register(stays, Vec::new());
    stage.ask_of_peer(leaves, Request::Finalize);
    let told = stage.ask_of_peer(stays, Request::DeregisterEvents { codes: vec![NEWS] });
    assert_eq!(
        statuses(&told),
        [code::PMIX_SUCCESS],
        "there is nothing left to be decided"
    );
    for asked in [undecided, taken_back] {
        assert!(stage.decide(&asked, granted(Vec::new())).is_empty());
    }
    let raised = stage.notify(stage.peers[ALICE_0], Vec::new());
    assert!(hearers(&stage.decide(&raised, granted(Vec::new()))).is_empty());
    assert_eq!(stage.server.counts().decisions_awaited, 0);
}

#[test]
fn events_raised_by_tenants_need_grant_and_by_site_do_not() {
    let event = || Event {
        code: NEWS,
        source: Some(proc("alice", 0)),
        range: Range::Global,
        infos: Vec::new(),
    };
    let reach = |actions: &[Action]| {
        actions.iter().find_map(|action| {
            if let Action::Chain { reach, .. } = action {
                Some(*reach)
            } else {
                None
            }
        })
    };
    let mut stage = Stage::policed(&[Hook::Event]);
    let id = asked(
        &stage
            .server
            .raise(event(), RaisingOwner::Tenant(ALICE), EventBudget::new(3))
            .unwrap(),
    );
    let actions = stage.server.decided(
        id,
        Verdict::Granted {
            by: DecidedBy::Default,
            amended: Vec::new(),
            range: None,
            data: None,
            answer: Vec::new(),
        },
    );
    assert!(actions.iter().any(|action| matches!(
        action,
        Action::Chain { allowance, .. } if *allowance == EventBudget::new(3)
    )));
    assert!(reach(&actions).is_some_and(|reach| !reach.includes(Some(BOB.uid))));
    let id = asked(
        &stage
            .server
            .raise(event(), RaisingOwner::Tenant(ALICE), EventBudget::new(3))
            .unwrap(),
    );
    assert!(
        matches!(
            stage.server.decided(id, denied(Status(-1)))[..],
            [Action::Denied(_)]
        ),
        "nobody awaits an answer"
    );
    let site = stage
        .server
        .raise(
            Event {
                source: None,
                ..event()
            },
            RaisingOwner::Site,
            EventBudget::new(3),
        )
        .unwrap();
    assert!(reach(&site).is_some_and(|reach| reach.includes(Some(BOB.uid))));
}

#[test]
fn pending_decisions_are_bounded_in_number_and_bytes() {
    let mut stage = Stage::with(
        StateSettings {
            decisions: DecisionLimits {
                requests: 4,
                user_requests: 2,
                ..DecisionLimits::default()
            },
            ..StateSettings::default()
        },
        &[Hook::JobControl, Hook::Event],
    );
    let first = asked(&stage.kill(proc("bob", 0)));
    let second = asked(&stage.notify(stage.peers[ALICE_0], Vec::new()));
    for _ in 0..3 {
        let actions = stage.kill(proc("bob", 0));
        assert_eq!(statuses(&actions), [code::PMIX_ERR_OUT_OF_RESOURCE]);
        assert!(
            matches!(&actions[0], Action::Denied(denial) if denial.by == DecidedBy::Overload(DecisionLimit::UserRequests))
        );
    }
    // Who asked is gone meanwhile: what it raised is raised all the same, and nothing is left.
    stage
        .server
        .disconnected(stage.peers[ALICE_0], MonotonicTime(0));
    stage
        .server
        .disconnected(stage.peers[ALICE_1], MonotonicTime(0));
    assert!(!stage.server.decided(second, granted(Vec::new())).is_empty());
    stage.server.decided(first, denied(Status(-1)));
    assert_eq!(stage.server.counts().decisions_awaited, 0);
    let small = StateSettings {
        decisions: DecisionLimits {
            bytes: 1000,
            ..DecisionLimits::default()
        },
        ..StateSettings::default()
    };
    let mut stage = Stage::with(small.clone(), &[Hook::Event]);
    let long = vec![Info::new(
        key::PMIX_EVENT_TEXT_MESSAGE,
        Value::string(&"x".repeat(600)),
    )];
    let held = asked(&stage.notify(stage.peers[ALICE_0], long.clone()));
    assert_eq!(
        statuses(&stage.notify(stage.peers[ALICE_0], long.clone())),
        [code::PMIX_ERR_OUT_OF_RESOURCE]
    );
    stage.server.decided(held, denied(Status(-1)));
    asked(&stage.notify(stage.peers[ALICE_0], long));
    // A held monitor is there twice, for its policies and for the server.
    let mut stage = Stage::with(small, &[Hook::Monitor]);
    let mut monitor = |path: String| {
        let request = Request::Monitor {
            monitor: Info::new(key::PMIX_MONITOR_FILE, Value::string(&path)),
            error: code::PMIX_SUCCESS,
            directives: vec![Info::new(
                key::PMIX_MONITOR_FILE_CHECK_TIME,
                Value::Uint32(1),
            )],
        };
        stage.ask_of_peer(stage.peers[ALICE_0], request)
    };
    let refused = monitor("/x".repeat(300));
    assert_eq!(statuses(&refused), [code::PMIX_ERR_OUT_OF_RESOURCE]);
    asked(&monitor("/x".repeat(100)));
}

#[test]
fn the_events_of_one_source_keep_the_order_of_their_decisions() {
    let mut stage = Stage::policed(&[Hook::Event]);
    stage.register(stage.peers[ALICE_1]);
    let text = |text: &str| vec![Info::new(key::PMIX_EVENT_TEXT_MESSAGE, Value::string(text))];
    let asked: Vec<DecisionId> = ["1", "2", "3"]
        .map(|at| asked(&stage.notify(stage.peers[ALICE_0], text(at))))
        .to_vec();
    let mut heard = Vec::new();
    for (id, at) in asked.into_iter().zip(["1", "2", "3"]) {
        for action in stage.server.decided(id, granted(text(at))) {
            if let Action::Deliver { event, .. } = action {
                heard.push(
                    event
                        .infos
                        .value_of(key::PMIX_EVENT_TEXT_MESSAGE)
                        .cloned()
                        .unwrap(),
                );
            }
        }
    }
    assert_eq!(heard, ["1", "2", "3"].map(Value::string));
}

#[test]
fn policies_of_connections_decide_about_each_connection() {
    let me = proc("alice", 0);
    let enter = |stage: &mut Stage, kind| {
        stage
            .server
            .check_admission(kind, &me, (ALICE, Arc::default()), peer())
    };
    assert_eq!(
        enter(&mut Stage::policed(&[]), ConnectionKind::Client),
        AdmissionCheck::Granted
    );
    let AdmissionCheck::Undecided(_, request) = enter(
        &mut Stage::policed(&[Hook::Connection]),
        ConnectionKind::Client,
    ) else {
        panic!()
    };
    assert_eq!(
        (request.subject.hook(), request.identity),
        (Hook::Connection, Some(ALICE))
    );
    assert_eq!(
        (request.targets[0].owner, request.server.uid),
        (Some(ALICE), 500)
    );
    let PolicySubject::Connection(subject) = &request.subject else {
        panic!("{request:?}")
    };
    assert_eq!(subject.peer, peer().0);
    let mut defaults = Defaults::default();
    defaults.set(Hook::Connection, HookDefault::Deny);
    let mut closed = Stage::with(
        StateSettings {
            defaults,
            ..StateSettings::default()
        },
        &[],
    );
    assert!(matches!(
        enter(&mut closed, ConnectionKind::Client),
        AdmissionCheck::Denied(_)
    ));
}

#[test]
fn tools_of_root_server_user_and_job_users_may_connect() {
    let tool = proc("tool", 0);
    for (uid, welcome) in [
        (0, true),
        (500, true),
        (ALICE.uid, true),
        (BOB.uid, true),
        (3000, false),
    ] {
        let identity = UserIdentity { uid, gid: 1 };
        let entrance = Stage::policed(&[]).server.check_admission(
            ConnectionKind::Tool,
            &tool,
            (identity, Arc::default()),
            peer(),
        );
        match entrance {
            AdmissionCheck::Denied(denial) => {
                assert!(
                    !welcome
                        && denial
                            .to_string()
                            .starts_with("the default denies connection to \"tool:0\" of user")
                );
            }
            entrance => assert!(
                welcome && entrance == AdmissionCheck::Granted,
                "{entrance:?}"
            ),
        }
    }
    let mut stage = Stage::policed(&[Hook::Connection]);
    let asked =
        stage
            .server
            .check_admission(ConnectionKind::Tool, &tool, (BOB, Arc::default()), peer());
    let AdmissionCheck::Undecided(_, request) = asked else {
        panic!("{asked:?}")
    };
    assert_eq!(
        request.targets[0].proc,
        Proc::all(Nspace::new("bob").unwrap())
    );
}

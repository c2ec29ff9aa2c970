//! Groups at the policy gate: requests as policies see them, and recipients of a denial.
use crate::support::stage::Stage;
use peal_core::{
    MonotonicTime,
    job::JobSpec,
    policy::{DecidedBy, DeniedVerdict, Verdict, reason},
    server::{Action, DecisionId, DecisionLimits, RequestId, StateSettings},
};
use peal_model::{
    Event, GroupOperationKind, Hook, Info, Nspace, PolicyRequest, PolicySubject, Proc, Range, Rank,
    Reply, Request, Status, UserIdentity, Value, code, key,
};
use std::sync::Arc;

const ALICE: UserIdentity = UserIdentity {
    uid: 1000,
    gid: 100,
};
const BOB: UserIdentity = UserIdentity {
    uid: 1001,
    gid: 100,
};
const DENIED: Status = Status(-3100);

fn proc(nspace: &str, rank: u32) -> Proc {
    Proc::new(Nspace::new(nspace).unwrap(), Rank(rank))
}

impl Stage {
    /// A server with a connected job of Alice's, whose two procs receive all events about groups, and a job of Bob's.
    fn with_groups(settings: StateSettings, policed: &[Hook]) -> Stage {
        let mut stage = Stage::with_jobs(settings, &[("alice", 2, ALICE)]);
        let bob = Nspace::new("bob").unwrap();
        let server = &mut stage.server;
        server.add_job(JobSpec::new(bob, 2, "node", BOB));
        for &peer in &stage.peers {
            let codes = vec![
                code::PMIX_GROUP_INVITED,
                code::PMIX_GROUP_INVITE_ACCEPTED,
                code::PMIX_GROUP_INVITE_DECLINED,
                code::PMIX_GROUP_CONSTRUCT_COMPLETE,
                code::PMIX_GROUP_CONSTRUCT_ABORT,
            ];
            let infos = vec![Info::new(key::PMIX_EVENT_JOB_LEVEL, Value::Bool(true))];
            let request = Request::RegisterEvents { codes, infos };
            server.request(RequestId { peer, tag: 1 }, request, MonotonicTime(0));
            // It has read what came with that.
            server.resume(peer);
        }
        server.guard(UserIdentity { uid: 500, gid: 500 }, policed.iter().copied());
        stage
    }

    fn policed_groups() -> Stage {
        Stage::with_groups(StateSettings::default(), &[Hook::Group])
    }

    fn construct(&mut self, rank: usize, named: &[Proc], directives: Vec<Info>) -> Vec<Action> {
        self.request_of(
            rank,
            Request::GroupConstruct {
                group: Some("g".into()),
                procs: named.to_vec(),
                directives,
            },
        )
    }

    fn destruct(&mut self, rank: usize) -> Vec<Action> {
        self.request_of(
            rank,
            Request::GroupDestruct {
                group: Some("g".into()),
                members: Vec::new(),
                directives: Vec::new(),
            },
        )
    }

    fn raise(&mut self, rank: usize, code: Status, whom: &[Proc]) -> Vec<Action> {
        let targets = Info::new(
            key::PMIX_EVENT_CUSTOM_RANGE,
            Value::procs(whom.iter().cloned()),
        );
        let infos = vec![targets, Info::new(key::PMIX_GROUP_ID, Value::string("g"))];
        self.request_of(
            rank,
            Request::Notify {
                code,
                range: Range::Custom,
                infos,
            },
        )
    }

    fn grant(&mut self, id: DecisionId, request: &PolicyRequest) -> Vec<Action> {
        let subject = &request.subject;
        let by = DecidedBy::Policy("yes".to_owned());
        let amended = subject.granted().to_vec();
        let range = subject.range();
        self.server.decided(
            id,
            Verdict::Granted {
                by,
                amended,
                range,
                data: None,
                answer: Vec::new(),
            },
        )
    }

    fn deny(&mut self, id: DecisionId) -> Vec<Action> {
        let by = DecidedBy::Policy("no".to_owned());
        self.server.decided(
            id,
            Verdict::Denied(DeniedVerdict {
                by,
                status: DENIED,
                reasons: vec![reason("not today")],
            }),
        )
    }

    /// A group of both of Alice's procs, whatever policies there are.
    fn formed(policed: &[Hook]) -> Stage {
        let mut stage = Stage::with_groups(StateSettings::default(), &[]);
        let both = both();
        stage.construct(0, &both, Vec::new());
        assert_eq!(
            answers(&stage.construct(1, &both, Vec::new())),
            [code::PMIX_SUCCESS; 2]
        );
        stage
            .server
            .guard(UserIdentity { uid: 500, gid: 500 }, policed.iter().copied());
        stage
    }
}

fn both() -> [Proc; 2] {
    [proc("alice", 0), proc("alice", 1)]
}

/// Returns the kind of the operation and the name of the group.
fn group(request: &PolicyRequest) -> (GroupOperationKind, Option<&str>) {
    match &request.subject {
        PolicySubject::Group(subject) => (subject.kind, subject.name.as_deref()),
        other => panic!("{other:?}"),
    }
}

fn asked(actions: &[Action]) -> (DecisionId, Arc<PolicyRequest>) {
    let [Action::Decide { id, request }] = actions else {
        panic!("{actions:?}")
    };
    (*id, request.clone())
}

fn answers(actions: &[Action]) -> Vec<Status> {
    let status = |action: &Action| {
        if let Action::Reply { reply, .. } = action {
            Some(reply.status())
        } else {
            None
        }
    };
    actions.iter().filter_map(status).collect()
}

/// Returns the events that each of Alice's procs receives.
fn heard(stage: &Stage, actions: &[Action]) -> Vec<(usize, Arc<Event>)> {
    let told = |action: &Action| match action {
        Action::Deliver { peer, event } => Some((
            stage.peers.iter().position(|alice| alice == peer).unwrap(),
            event.clone(),
        )),
        _ => None,
    };
    actions.iter().filter_map(told).collect()
}

fn reasons(event: &Event) -> Vec<&Info> {
    event
        .infos
        .iter()
        .filter(|info| info.key == peal_core::policy::REASON)
        .collect()
}

#[test]
fn policies_see_group_request_and_may_amend_it() {
    let mut stage = Stage::policed_groups();
    let added = Info::new(
        key::PMIX_GROUP_ADD_MEMBERS,
        Value::procs([proc("elsewhere", 3)]),
    );
    let (_, request) = asked(&stage.construct(0, &both(), vec![added.clone()]));
    assert_eq!(group(&request), (GroupOperationKind::Construct, Some("g")));
    assert_eq!(
        (&request.requester, request.identity),
        (&Some(proc("alice", 0)), Some(ALICE))
    );
    let targets: Vec<_> = request
        .targets
        .iter()
        .map(|target| (target.proc.clone(), target.owner))
        .collect();
    let [first, second] = both();
    assert_eq!(
        targets,
        [
            (first, Some(ALICE)),
            (second, Some(ALICE)),
            (proc("elsewhere", 3), None)
        ]
    );
    assert_eq!(request.subject.directives(), [added]);

    // Without whoever was added it is there at once.
    let mut stage = Stage::policed_groups();
    for rank in 0..2 {
        let added = Info::new(
            key::PMIX_GROUP_ADD_MEMBERS,
            Value::procs([proc("elsewhere", 3)]),
        );
        let (id, _) = asked(&stage.construct(rank, &both(), vec![added]));
        let by = DecidedBy::Policy("alone".to_owned());
        let amended = Vec::new();
        let verdict = Verdict::Granted {
            by,
            amended,
            range: None,
            data: None,
            answer: Vec::new(),
        };
        let actions = stage.server.decided(id, verdict);
        assert_eq!(answers(&actions), vec![code::PMIX_SUCCESS; rank * 2]);
    }
    let (id, request) = asked(&stage.destruct(0));
    assert_eq!(
        (group(&request).0, request.targets.len()),
        (GroupOperationKind::Destruct, 2),
        "its members"
    );
    assert!(
        stage.grant(id, &request).is_empty(),
        "it waits for the other"
    );
}

#[test]
fn participants_awaiting_denied_one_get_its_status_and_event() {
    let mut stage = Stage::policed_groups();
    let (first, request) = asked(&stage.construct(0, &both(), Vec::new()));
    assert!(
        stage.grant(first, &request).is_empty(),
        "it waits for the other"
    );
    let (second, _) = asked(&stage.construct(1, &both(), Vec::new()));
    let actions = stage.deny(second);
    assert!(
        matches!(&actions[0], Action::Denied(denial) if denial.hook == Hook::Group),
        "it is on record first"
    );
    assert_eq!(answers(&actions), [DENIED; 2]);
    let heard = heard(&stage, &actions);
    assert_eq!(
        heard.iter().map(|(rank, _)| *rank).collect::<Vec<_>>(),
        [0, 1]
    );
    for (_, event) in heard {
        assert_eq!(
            (event.code, reasons(&event)),
            (code::PMIX_GROUP_CONSTRUCT_ABORT, vec![&reason("not today")])
        );
        let named = |name: peal_model::KeyName| {
            event
                .infos
                .iter()
                .find(|info| info.key == name)
                .unwrap()
                .value
                .clone()
        };
        assert_eq!(named(key::PMIX_GROUP_ID), Value::string("g"));
        assert_eq!(
            named(key::PMIX_EVENT_AFFECTED_PROC),
            Value::Proc(proc("alice", 1))
        );
    }
}

#[test]
fn default_denial_reaches_other_participants_of_the_user_only() {
    let mut stage = Stage::with_groups(StateSettings::default(), &[]);
    assert!(stage.construct(0, &both(), Vec::new()).is_empty());
    let with_bob = [both().as_slice(), &[proc("bob", 0)]].concat();
    let actions = stage.construct(1, &with_bob, Vec::new());
    assert_eq!(answers(&actions), [code::PMIX_ERR_NO_PERMISSIONS; 2]);
    assert_eq!(heard(&stage, &actions).len(), 2);
    let (bob, _) = stage.server.admit(&proc("bob", 0), BOB).unwrap();
    let own = Request::GroupConstruct {
        group: Some("g".into()),
        procs: vec![proc("bob", 0)],
        directives: Vec::new(),
    };
    let actions = stage
        .server
        .request(RequestId { peer: bob, tag: 1 }, own, MonotonicTime(0));
    assert_eq!(
        answers(&actions),
        [code::PMIX_SUCCESS],
        "his group of that name is another one"
    );
}

#[test]
fn denied_and_unnamed_participant_ends_no_other_construct() {
    let mut stage = Stage::policed_groups();
    let (id, _) = asked(&stage.construct(1, &[proc("alice", 1)], Vec::new()));
    assert_eq!(answers(&stage.deny(id)), [DENIED]);
    let (id, request) = asked(&stage.construct(0, &[proc("alice", 0)], Vec::new()));
    assert_eq!(answers(&stage.grant(id, &request)), [code::PMIX_SUCCESS]);
    // Nor when the group is there.
    let (id, _) = asked(&stage.construct(1, &both(), Vec::new()));
    assert_eq!(answers(&stage.deny(id)), [DENIED]);
    assert_eq!(stage.server.groups_of_user(ALICE.uid).len(), 1);
}

#[test]
fn a_group_of_which_a_member_may_not_have_the_end_stays_for_all() {
    let mut stage = Stage::formed(&[Hook::Group]);
    let (first, request) = asked(&stage.destruct(0));
    assert!(
        stage.grant(first, &request).is_empty(),
        "it waits for the other"
    );
    let (second, _) = asked(&stage.destruct(1));
    assert_eq!(answers(&stage.deny(second)), [DENIED; 2]);
    assert_eq!(stage.server.groups_of_user(ALICE.uid).len(), 1);
}

#[test]
fn proc_ended_before_decision_is_in_no_group() {
    for is_granted in [true, false] {
        let mut stage = Stage::policed_groups();
        let tolerant = || vec![Info::new(key::PMIX_GROUP_FT_COLLECTIVE, Value::Bool(true))];
        let (first, one) = asked(&stage.construct(0, &both(), tolerant()));
        let (second, other) = asked(&stage.construct(1, &both(), tolerant()));
        stage
            .server
            .proc_ended(&proc("alice", 1), None, MonotonicTime(1));
        // Whatever is decided of who is gone, it is formed without.
        let decided = if is_granted {
            stage.grant(second, &other)
        } else {
            stage.deny(second)
        };
        assert_eq!(heard(&stage, &decided), []);
        assert_eq!(answers(&stage.grant(first, &one)), [code::PMIX_SUCCESS]);
        let groups = stage.server.groups_of_user(ALICE.uid);
        assert_eq!(groups[0].members, [proc("alice", 0)]);
    }
}

#[test]
fn pending_group_decision_without_room_is_refused_to_all() {
    let mut stage = Stage::with_groups(
        StateSettings {
            decisions: DecisionLimits {
                requests: 2,
                user_requests: 1,
                ..DecisionLimits::default()
            },
            ..StateSettings::default()
        },
        &[Hook::Group],
    );
    let (first, request) = asked(&stage.construct(0, &both(), Vec::new()));
    assert!(stage.grant(first, &request).is_empty());
    asked(&stage.raise(0, code::PMIX_GROUP_INVITED, &both()));
    let actions = stage.construct(1, &both(), Vec::new());
    assert_eq!(answers(&actions), [code::PMIX_ERR_OUT_OF_RESOURCE; 2]);
}

#[test]
fn refused_invitation_reaches_no_proc() {
    let mut stage = Stage::policed_groups();
    let (id, request) = asked(&stage.raise(0, code::PMIX_GROUP_INVITED, &both()));
    assert_eq!(
        (group(&request).0, request.targets.len()),
        (GroupOperationKind::Invite, 2)
    );
    assert_eq!(
        (group(&request).1, request.subject.directives().len()),
        (Some("g"), 2)
    );
    let actions = stage.deny(id);
    assert_eq!(
        (answers(&actions), heard(&stage, &actions)),
        (vec![DENIED], Vec::new())
    );
    assert!(
        !actions
            .iter()
            .any(|action| matches!(action, Action::Chain { .. } | Action::Distribute { .. }))
    );

    let (id, request) = asked(&stage.raise(0, code::PMIX_GROUP_INVITED, &both()));
    let actions = stage.grant(id, &request);
    assert_eq!(
        (answers(&actions), heard(&stage, &actions).len()),
        (vec![code::PMIX_SUCCESS], 1)
    );
}

#[test]
fn denied_member_has_declined_for_its_inviters() {
    let mut stage = Stage::policed_groups();
    let (id, request) =
        asked(&stage.raise(1, code::PMIX_GROUP_INVITE_ACCEPTED, &[proc("alice", 0)]));
    assert_eq!(group(&request).0, GroupOperationKind::Join);
    let actions = stage.deny(id);
    assert_eq!(answers(&actions), [DENIED]);
    let [(0, event)] = &heard(&stage, &actions)[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(
        (event.code, &event.source),
        (code::PMIX_GROUP_INVITE_DECLINED, &Some(proc("alice", 1)))
    );
    assert_eq!(reasons(event), [&reason("not today")]);
    // To decline needs nobody's permission.
    let actions = stage.raise(1, code::PMIX_GROUP_INVITE_DECLINED, &[proc("alice", 0)]);
    assert_eq!(answers(&actions), [code::PMIX_SUCCESS]);
}

#[test]
fn forbidden_group_is_not_formed_by_events() {
    let mut stage = Stage::policed_groups();
    let (id, request) = asked(&stage.raise(0, code::PMIX_GROUP_CONSTRUCT_COMPLETE, &both()));
    assert_eq!(
        (group(&request).0, request.targets.len()),
        (GroupOperationKind::Construct, 2)
    );
    let actions = stage.deny(id);
    assert_eq!(answers(&actions), [DENIED]);
    let [(1, event)] = &heard(&stage, &actions)[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(event.code, code::PMIX_GROUP_CONSTRUCT_ABORT);
    assert!(stage.server.groups_of_user(ALICE.uid).is_empty());
}

#[test]
fn an_invitation_is_an_event_first_and_then_about_a_group() {
    let mut stage = Stage::with_groups(StateSettings::default(), &[Hook::Event, Hook::Group]);
    let (id, request) = asked(&stage.raise(0, code::PMIX_GROUP_INVITED, &both()));
    assert!(matches!(request.subject, PolicySubject::Event(_)));
    let (id, request) = asked(&stage.grant(id, &request));
    assert_eq!(group(&request).0, GroupOperationKind::Invite);
    let actions = stage.grant(id, &request);
    assert!(
        matches!(
            &actions[..],
            [
                ..,
                Action::Reply {
                    reply: Reply::Status(code::PMIX_SUCCESS),
                    ..
                }
            ]
        ),
        "{actions:?}"
    );
}

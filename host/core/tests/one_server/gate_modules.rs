//! Requests of hosted modules at the policy gate, the groups that policies see, and policies of
//! monitors and provisioning.
use peal_core::{
    MonotonicTime,
    defaults::HookDefault,
    job::JobSpec,
    job_control::JobAction,
    owner::Owner,
    policy::{
        DecidedBy, DeniedVerdict, NextPolicy, OnFailure, PolicyAnswer, PolicyChain, REASON, Verdict,
    },
    registration::{ChainPlacement, Mode},
    server::{Action, PeerId, RequestId, ServerState, StateSettings, Upcall},
};
use peal_model::{
    Amendment, Hook, Info, KeyName, MonitorSubject, Nspace, PolicyOutcome, PolicyRequest,
    PolicySubject, Proc, ProvisionSubject, Rank, Reply, Request, Status, UnixGroup, UserIdentity,
    Value, code, key, rank,
};
use std::sync::Arc;

const SITE: UserIdentity = UserIdentity { uid: 500, gid: 500 };
const ALICE: UserIdentity = UserIdentity {
    uid: 1000,
    gid: 100,
};
const BOB: UserIdentity = UserIdentity {
    uid: 2000,
    gid: 100,
};

fn nspace(name: &str) -> Nspace {
    Nspace::new(name).unwrap()
}

fn proc(job: &str) -> Proc {
    Proc::new(nspace(job), Rank(0))
}

/// A server with a job of Alice's and one of Bob's.
fn stage(policed: &[Hook]) -> ServerState {
    let mut server = ServerState::new(StateSettings::default());
    server.guard(SITE, policed.iter().copied());
    for (job, identity) in [("alice", ALICE), ("bob", BOB)] {
        let nspace = nspace(job);
        let hostname = "node".to_owned();
        server.add_job(JobSpec::new(nspace, 1, hostname, identity));
    }
    server
}

fn kill() -> Vec<Info> {
    vec![Info::new(key::PMIX_JOB_CTRL_KILL, Value::Bool(true))]
}

/// Returns the source and the targets of the job-control upcall, if there is one.
fn controlled(actions: &[Action]) -> Option<(String, Vec<Proc>)> {
    match actions {
        [
            Action::Upcall(Upcall::JobControl {
                source, control, ..
            }),
        ] => {
            assert_eq!(control.action, JobAction::Kill);
            let name = source
                .as_ref()
                .map_or("nobody", |source| source.nspace.as_str());
            Some((name.to_owned(), control.targets.clone()))
        }
        _ => None,
    }
}

/// Returns the reason of the denial and the status for the module.
fn denied(actions: &[Action]) -> (String, Status) {
    let [Action::Denied(denial), Action::Reply { to, reply }] = actions else {
        panic!("{actions:?}")
    };
    assert_eq!((to.peer, to.tag), (PeerId::MODULES, 7));
    (denial.to_string(), reply.status())
}

#[test]
fn without_policies_the_site_controls_all_and_tenants_their_own() {
    let mut server = stage(&[]);
    let site = Owner::Site;
    let user = Owner::User(ALICE.uid);
    let job = Owner::Namespace(nspace("alice"));
    let mut ask = |owner: &Owner, target: &str| {
        server.control_for(owner, 7, vec![proc(target)], kill(), MonotonicTime(0))
    };
    for (owner, name) in [
        (&site, "nobody"),
        (&user, "user-1000@peal"),
        (&job, "alice"),
    ] {
        assert_eq!(
            controlled(&ask(owner, "alice")),
            Some((name.to_owned(), vec![proc("alice")])),
            "{owner}"
        );
    }
    assert_eq!(controlled(&ask(&site, "bob")).unwrap().1, [proc("bob")]);
    for owner in [&user, &job] {
        let (why, status) = denied(&ask(owner, "bob"));
        assert!(why.contains("bob:0 belongs to user 2000"), "{why}");
        assert_eq!(status, code::PMIX_ERR_NO_PERMISSIONS);
    }
    // Of nobody named means the own job, of which only a job has one.
    let own = server.control_for(&job, 7, Vec::new(), kill(), MonotonicTime(0));
    assert_eq!(controlled(&own).unwrap().1, [proc("alice")]);
    for owner in [&site, &user] {
        let nobody = server.control_for(owner, 7, Vec::new(), kill(), MonotonicTime(0));
        assert!(
            controlled(&nobody).is_none() && !nobody.is_empty(),
            "{nobody:?}"
        );
    }
    // Tenants whose jobs are gone are nobody.
    assert!(
        server
            .control_for(
                &Owner::User(3000),
                7,
                vec![proc("alice")],
                kill(),
                MonotonicTime(0)
            )
            .is_empty()
    );
    assert!(
        server
            .control_for(
                &Owner::Namespace(nspace("gone")),
                7,
                vec![proc("alice")],
                kill(),
                MonotonicTime(0)
            )
            .is_empty()
    );
}

#[test]
fn cleanup_of_a_site_module_is_refused_and_of_a_job_done() {
    let mut server = stage(&[]);
    let mut clean = |owner: &Owner| {
        let files = Info::new(key::PMIX_REGISTER_CLEANUP, Value::string("/tmp/file"));
        server.control_for(owner, 7, vec![proc("alice")], vec![files], MonotonicTime(0))
    };
    let refused = clean(&Owner::Site);
    let [Action::Reply { reply, .. }] = &refused[..] else {
        panic!("{refused:?}")
    };
    assert_eq!(reply.status(), code::PMIX_ERR_NOT_SUPPORTED);
    let done = clean(&Owner::Namespace(nspace("alice")));
    let [
        Action::Upcall(Upcall::Cleanup {
            source, identity, ..
        }),
    ] = &done[..]
    else {
        panic!("{done:?}")
    };
    assert_eq!((source.nspace.as_str(), *identity), ("alice", ALICE));
}

#[test]
fn policies_see_owner_of_module_before_anything_is_done() {
    let mut server = stage(&[Hook::JobControl]);
    let actions = server.control_for(&Owner::Site, 7, vec![proc("bob")], kill(), MonotonicTime(0));
    let [Action::Decide { id, request }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(
        (request.subject.hook(), &request.requester, request.identity),
        (Hook::JobControl, &None, Some(SITE))
    );
    assert_eq!(
        (request.subject.directives(), request.targets[0].owner),
        (&kill()[..], Some(BOB))
    );
    let reasons = vec![Info::new(REASON, Value::string("not today"))];
    let by = DecidedBy::Policy("no".to_owned());
    let verdict = Verdict::Denied(DeniedVerdict {
        by,
        status: Status(-3100),
        reasons,
    });
    let (why, status) = denied(&server.decided(*id, verdict));
    assert!(
        why.contains("not today") && why.contains("site@peal"),
        "{why}"
    );
    assert_eq!(status, Status(-3100));

    let actions = server.control_for(
        &Owner::User(ALICE.uid),
        7,
        vec![proc("bob")],
        kill(),
        MonotonicTime(0),
    );
    let [Action::Decide { id, request }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(
        request.requester,
        Some(Proc::new(nspace("user-1000@peal"), rank::PMIX_RANK_UNDEF))
    );
    let by = DecidedBy::Policy("yes".to_owned());
    let verdict = Verdict::Granted {
        by,
        amended: kill(),
        range: None,
        data: None,
        answer: Vec::new(),
    };
    assert_eq!(
        controlled(&server.decided(*id, verdict)).unwrap().1,
        [proc("bob")]
    );
    // What becomes of it goes where the module's requests are answered.
    let to = RequestId {
        peer: PeerId::MODULES,
        tag: 7,
    };
    let reply = Reply::Status(code::PMIX_SUCCESS);
    assert_eq!(
        server.answer(to, reply.clone()),
        [Action::Reply { to, reply }]
    );
}

#[test]
fn log_of_a_module_names_only_permitted_procs() {
    let mut server = stage(&[]);
    let line = || vec![Info::new(key::PMIX_LOG_JOB_RECORD, Value::string("stuck"))];
    let mut log = |owner: &Owner, about: Option<&str>| {
        let source = |job: &str| Info::new(key::PMIX_LOG_SOURCE, Value::Proc(proc(job)));
        let actions = server.log_for(owner, 7, line(), about.map(source).into_iter().collect());
        let [
            Action::Log {
                to: Some(to),
                request,
            },
        ] = &actions[..]
        else {
            panic!("{actions:?}")
        };
        assert_eq!(
            (to.peer, &request.data, &request.directives),
            (PeerId::MODULES, &line(), &Vec::new())
        );
        (request.source.clone(), request.identity)
    };
    assert_eq!(
        log(&Owner::Site, Some("bob")),
        (Some(proc("bob")), Some(SITE))
    );
    assert_eq!(log(&Owner::Site, None), (None, Some(SITE)));
    let user = Owner::User(ALICE.uid);
    assert_eq!(
        log(&user, Some("alice")),
        (Some(proc("alice")), Some(ALICE))
    );
    assert_eq!(
        log(&user, Some("bob")),
        (user.requester(), Some(ALICE)),
        "not as somebody else's"
    );
    let job = Owner::Namespace(nspace("alice"));
    assert_eq!(log(&job, Some("bob")), (job.requester(), Some(ALICE)));
}

#[test]
fn policies_see_unix_groups_of_requester_and_monitor() {
    let mut server = stage(&[Hook::Monitor, Hook::Log]);
    let (peer, _) = server.admit(&proc("alice"), ALICE).unwrap();
    let groups: Arc<[UnixGroup]> = [
        UnixGroup {
            gid: 100,
            name: None,
        },
        UnixGroup {
            gid: 5001,
            name: Some("ops".to_owned()),
        },
    ]
    .into();
    server.set_unix_groups(peer, groups.clone());
    let monitor = Info::new(key::PMIX_MONITOR_HEARTBEAT, Value::Bool(true));
    let time = |seconds| {
        vec![Info::new(
            key::PMIX_MONITOR_HEARTBEAT_TIME,
            Value::Uint32(seconds),
        )]
    };
    let error = code::PMIX_MONITOR_HEARTBEAT_ALERT;
    let to = RequestId { peer, tag: 9 };
    let asked = Request::Monitor {
        monitor: monitor.clone(),
        error,
        directives: time(5),
    };
    let actions = server.request(to, asked, MonotonicTime(0));
    let [Action::Decide { id, request }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(request.groups, groups);
    assert_eq!(
        request.subject,
        PolicySubject::Monitor(MonitorSubject {
            monitor: monitor.clone(),
            directives: time(5),
        })
    );
    let by = DecidedBy::Policy("yes".to_owned());
    let verdict = Verdict::Granted {
        by,
        amended: time(60),
        range: None,
        data: None,
        answer: Vec::new(),
    };
    let actions = server.decided(*id, verdict);
    assert!(
        matches!(&actions[..], [Action::Reply { .. }]),
        "the server watches by itself: {actions:?}"
    );

    let log = Request::Log {
        timestamp: 0,
        data: Vec::new(),
        directives: Vec::new(),
    };
    let actions = server.request(to, log, MonotonicTime(0));
    let [Action::Decide { request, .. }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(request.groups, groups);
}

/// Returns the verdict on a request for nodes after policies with these answers.
fn provision(said: &[(PolicyOutcome, &str)], default: HookDefault) -> Verdict {
    let mut chain = PolicyChain::default();
    for (at, (outcome, text)) in said.iter().enumerate() {
        let infos = vec![Info::new(KeyName("test.said"), Value::string(text))];
        let said = PolicyAnswer {
            outcome: Ok(*outcome),
            infos,
            amendment: Amendment::default(),
        };
        chain
            .register(
                &at.to_string(),
                (ChainPlacement::Append, Mode::Active),
                OnFailure::Deny,
                said,
            )
            .unwrap();
    }
    let subject = PolicySubject::Provision(ProvisionSubject {
        nodes: vec!["node1".to_owned()],
        image: None,
        directives: kill(),
    });
    let request = Arc::new(PolicyRequest {
        subject,
        requester: Some(proc("alice")),
        identity: Some(ALICE),
        groups: Arc::default(),
        server: SITE,
        targets: Vec::new(),
    });
    let mut run = chain.run(request, default);
    loop {
        match run.advance() {
            NextPolicy::Call(pending) => {
                let said = pending.policy().clone();
                run = pending.finish(said);
            }
            NextPolicy::Done(decided) => return decided.verdict,
        }
    }
}

#[test]
fn nodes_come_only_from_granting_module_and_its_infos_answer() {
    let says = |verdict: Verdict| match verdict {
        Verdict::Granted {
            answer, amended, ..
        } => {
            assert_eq!(amended, kill());
            Ok(answer
                .iter()
                .filter_map(|info| info.value.as_str().map(str::to_owned))
                .collect::<Vec<_>>())
        }
        Verdict::Denied(DeniedVerdict {
            status, reasons, ..
        }) => Err((status, reasons)),
    };
    let granted = provision(
        &[(PolicyOutcome::Pass, "no"), (PolicyOutcome::Grant, "here")],
        HookDefault::BuiltIn,
    );
    assert_eq!(
        says(granted),
        Ok(vec!["here".to_owned()]),
        "the words of those before are steps"
    );
    for passed in [&[][..], &[(PolicyOutcome::Pass, "no")]] {
        let (status, reasons) = says(provision(passed, HookDefault::BuiltIn)).unwrap_err();
        assert_eq!(status, code::PMIX_ERR_NOT_SUPPORTED);
        assert!(
            reasons[0]
                .value
                .as_str()
                .unwrap()
                .contains("no provisioner"),
            "{reasons:?}"
        );
    }
    assert_eq!(says(provision(&[], HookDefault::Grant)), Ok(Vec::new()));
}

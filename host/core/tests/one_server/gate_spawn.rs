//! Spawn requests at the policy gate: the policies' view of them. Nothing reaches the host
//! environment before the verdict.
use peal_core::{
    MonotonicTime,
    job::JobSpec,
    policy::{DecidedBy, DeniedVerdict, Verdict, reason},
    server::{
        Action, DecisionLimit, DecisionLimits, PeerId, RequestId, ServerState, StateSettings,
        Upcall,
    },
};
use peal_model::{
    App, Application, Hook, Info, Nspace, PolicySubject, Proc, Rank, Reply, Request, Status, Text,
    UserIdentity, Value, code, key,
};

const ALICE: UserIdentity = UserIdentity {
    uid: 1000,
    gid: 100,
};
const BOB: UserIdentity = UserIdentity {
    uid: 2000,
    gid: 100,
};

fn proc(nspace: &str) -> Proc {
    Proc::new(Nspace::new(nspace).unwrap(), Rank(0))
}

/// A server with a job of Alice's and one of Bob's.
fn server(settings: StateSettings, policed: &[Hook]) -> (ServerState, PeerId) {
    let mut server = ServerState::new(settings);
    server.guard(UserIdentity { uid: 500, gid: 500 }, policed.iter().copied());
    for (job, identity) in [("alice", ALICE), ("bob", BOB)] {
        server.add_job(JobSpec::new(
            Nspace::new(job).unwrap(),
            1,
            "node".to_owned(),
            identity,
        ));
    }
    let alice = server.admit(&proc("alice"), ALICE).unwrap().0;
    (server, alice)
}

fn app(command: Option<&str>, args: &[&str], infos: Vec<Info>) -> App {
    App {
        command: command.map(Text::from),
        args: args.iter().map(|arg| Some((*arg).into())).collect(),
        env: vec![Some("A=1".into()), None, Some(Text::from_bytes(b"B=\xff"))],
        cwd: Some("/tmp".into()),
        max_procs: 2,
        infos,
    }
}

fn wdir(at: &str) -> Info {
    Info::new(key::PMIX_WDIR, Value::string(at))
}

fn ask(server: &mut ServerState, peer: PeerId, infos: Vec<Info>, apps: Vec<App>) -> Vec<Action> {
    server.request(
        RequestId { peer, tag: 7 },
        Request::Spawn { infos, apps },
        MonotonicTime(0),
    )
}

fn granted(amended: Vec<Info>) -> Verdict {
    let by = DecidedBy::Policy("yes".to_owned());
    Verdict::Granted {
        by,
        amended,
        range: None,
        data: None,
        answer: Vec::new(),
    }
}

#[test]
fn policy_sees_each_application_with_its_directives() {
    let (mut server, alice) = server(StateSettings::default(), &[Hook::Spawn]);
    let parent = Info::new(key::PMIX_PARENT_ID, Value::Proc(proc("bob")));
    let first = app(
        Some("solver"),
        &["solver", "-v"],
        vec![wdir("/a"), wdir("/b")],
    );
    let unnamed = App {
        max_procs: -1,
        ..app(None, &["viz"], vec![wdir("/c")])
    };
    let apps = vec![first, unnamed];
    let actions = ask(&mut server, alice, vec![parent.clone()], apps.clone());
    let [Action::Decide { id, request }] = &actions[..] else {
        panic!("the host hears nothing of it: {actions:?}")
    };
    assert_eq!(request.identity, Some(ALICE));
    assert_eq!(
        (&request.targets[0].proc, request.targets[0].owner),
        (&proc("bob"), Some(BOB))
    );
    let application = |command: &str, arguments: &[&str], procs, directives| Application {
        command: command.to_owned(),
        arguments: arguments
            .iter()
            .map(|argument| (*argument).to_owned())
            .collect(),
        environment: vec!["A=1".to_owned(), "B=\u{fffd}".to_owned()],
        directory: Some("/tmp".to_owned()),
        procs,
        directives,
    };
    let PolicySubject::Spawn(subject) = &request.subject else {
        panic!("{request:?}")
    };
    assert_eq!(
        subject.applications,
        [
            application("solver", &["-v"], 2, 2),
            application("viz", &[], 0, 1)
        ]
    );
    assert_eq!(subject.infos, ["/a", "/b", "/c"].map(wdir));
    assert_eq!(subject.directives, [parent]);
    // What is granted is what came, with the job's directives as they were amended.
    let actions = server.decided(*id, granted(vec![wdir("/scratch")]));
    let [
        Action::Upcall(Upcall::Request {
            source, request, ..
        }),
    ] = &actions[..]
    else {
        panic!("{actions:?}")
    };
    assert_eq!(*source, proc("alice"));
    assert_eq!(
        *request,
        Request::Spawn {
            infos: vec![wdir("/scratch")],
            apps
        }
    );
}

#[test]
fn denied_spawn_is_answered_without_job_after_its_record() {
    let (mut server, alice) = server(StateSettings::default(), &[Hook::Spawn]);
    let actions = ask(
        &mut server,
        alice,
        Vec::new(),
        vec![app(Some("solver"), &[], Vec::new())],
    );
    let [Action::Decide { id, .. }] = &actions[..] else {
        panic!("{actions:?}")
    };
    let by = DecidedBy::Policy("no".to_owned());
    let denied = Verdict::Denied(DeniedVerdict {
        by,
        status: Status(-3100),
        reasons: vec![reason("not today")],
    });
    let actions = server.decided(*id, denied);
    let [Action::Denied(denial), Action::Reply { reply, .. }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!((denial.hook, denial.reasons.len()), (Hook::Spawn, 1));
    assert_eq!(
        *reply,
        Reply::Spawned {
            status: Status(-3100),
            nspace: None,
            kvals: Vec::new()
        }
    );
    assert_eq!(server.counts().decisions_awaited, 0);
}

#[test]
fn by_default_a_job_is_spawned_as_its_requester_and_for_its_own() {
    let user = |number: u64| Info::new(key::PMIX_USERID, Value::Uint64(number));
    let parent = |job: &str| Info::new(key::PMIX_PARENT_ID, Value::Proc(proc(job)));
    let own = app(Some("solver"), &[], Vec::new());
    let as_bob = app(Some("solver"), &[], vec![user(2000)]);
    for (infos, app, refused) in [
        (vec![user(1000), parent("alice")], &own, None),
        (vec![user(2000)], &own, Some(code::PMIX_ERR_NO_PERMISSIONS)),
        (
            vec![user((1 << 32) + 1000)],
            &own,
            Some(code::PMIX_ERR_NO_PERMISSIONS),
        ),
        (Vec::new(), &as_bob, Some(code::PMIX_ERR_NO_PERMISSIONS)),
        (
            vec![parent("bob")],
            &own,
            Some(code::PMIX_ERR_NO_PERMISSIONS),
        ),
        (vec![parent("gone")], &own, Some(code::PMIX_ERR_NOT_FOUND)),
    ] {
        let (mut server, alice) = server(StateSettings::default(), &[]);
        let actions = ask(&mut server, alice, infos.clone(), vec![app.clone()]);
        match (&actions[..], refused) {
            ([Action::Upcall(Upcall::Request { .. })], None) => {}
            ([Action::Denied(_), Action::Reply { reply, .. }], Some(status)) => {
                assert_eq!(reply.status(), status)
            }
            other => panic!("{infos:?}: {other:?}"),
        }
    }
}

#[test]
fn pending_spawn_requests_are_bounded_by_their_whole_size() {
    let settings = || StateSettings {
        decisions: DecisionLimits {
            bytes: 10_000,
            ..DecisionLimits::default()
        },
        ..StateSettings::default()
    };
    for large in [
        App {
            args: vec![Some("x".into()); 2000],
            ..app(Some("a"), &[], Vec::new())
        },
        App {
            env: vec![Some("x".repeat(10_000).as_str().into())],
            ..app(Some("a"), &[], Vec::new())
        },
        app(Some("a"), &[], vec![wdir(&"x".repeat(10_000))]),
        app(Some("x".repeat(10_000).as_str()), &[], Vec::new()),
    ] {
        let (mut server, alice) = server(settings(), &[Hook::Spawn]);
        let actions = ask(&mut server, alice, Vec::new(), vec![large]);
        let [Action::Denied(denial), Action::Reply { .. }] = &actions[..] else {
            panic!("{actions:?}")
        };
        assert_eq!(denial.by, DecidedBy::Overload(DecisionLimit::Bytes));
    }
}

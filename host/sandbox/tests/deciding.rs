//! Policies: their view of a request, their outcomes, and failures.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
mod support;
use peal_model::{
    Amendment, Application, ConnectionKind, ConnectionSubject, DataArray, EventSubject,
    GroupOperationKind, GroupSubject, Hook, Info, JobControlSubject, LogSubject, MonitorSubject,
    PeerInfo, PolicyOutcome, PolicyRequest, PolicySubject, ProvisionSubject, Range,
    RegistrationSubject, Scope, SpawnSubject, Status, TargetProc, Text, UserIdentity, Value, code,
};
use peal_sandbox::{
    FailureKind, Grants, Module, ModuleLimits, PolicyCall, PolicyResult, Role, Services,
};
use std::sync::Arc;
use std::time::Duration;
use support::{call, component, engine, event, info, load, patient, proc, step, traced};

const SERVER: UserIdentity = UserIdentity { uid: 990, gid: 991 };

/// Subjects of all hooks, with these infos as the directives or, where there are none, as the
/// infos.
fn subjects(carried: &[Info]) -> Vec<PolicySubject> {
    let mut subjects = vec![
        connection(ConnectionKind::Tool, carried),
        event_subject(carried),
        PolicySubject::Registration(RegistrationSubject {
            codes: vec![Status(-1), Status(-2), Status(-3)],
            directives: carried.to_vec(),
        }),
        job_control(carried),
        PolicySubject::Monitor(MonitorSubject {
            monitor: info("test.monitor", Value::Bool(true)),
            directives: carried.to_vec(),
        }),
        PolicySubject::Provision(ProvisionSubject {
            nodes: vec!["node1".to_owned(), "n2".to_owned()],
            image: Some("img".to_owned()),
            directives: carried.to_vec(),
        }),
        log(carried),
        group(GroupOperationKind::Construct, carried),
    ];
    subjects.push(PolicySubject::Spawn(SpawnSubject {
        applications: vec![Application {
            command: "solver".to_owned(),
            arguments: vec!["-x".to_owned()],
            environment: vec!["A=1".to_owned(), "B=2".to_owned()],
            directory: Some("/tmp".to_owned()),
            procs: 3,
            directives: 4,
        }],
        infos: Vec::new(),
        directives: carried.to_vec(),
    }));
    subjects
}

fn connection(kind: ConnectionKind, infos: &[Info]) -> PolicySubject {
    PolicySubject::Connection(ConnectionSubject {
        kind,
        peer: PeerInfo {
            pid: Some(4711),
            release: "4.2.2rc2".to_owned(),
        },
        infos: infos.to_vec(),
    })
}

fn event_subject(infos: &[Info]) -> PolicySubject {
    PolicySubject::Event(EventSubject {
        code: Status(-3),
        range: Range::Session,
        infos: infos.to_vec(),
    })
}

fn job_control(directives: &[Info]) -> PolicySubject {
    PolicySubject::JobControl(JobControlSubject {
        directives: directives.to_vec(),
        ..JobControlSubject::default()
    })
}

fn log(directives: &[Info]) -> PolicySubject {
    PolicySubject::Log(LogSubject {
        data: Vec::new(),
        directives: directives.to_vec(),
    })
}

fn group(kind: GroupOperationKind, directives: &[Info]) -> PolicySubject {
    PolicySubject::Group(GroupSubject {
        kind,
        name: Some("team".to_owned()),
        directives: directives.to_vec(),
    })
}

/// Action of `judge.wat`, by the list at its head.
fn ask(what: i32) -> Info {
    info("test.ask", Value::Int(what))
}

/// A request without targets.
fn request(subject: PolicySubject) -> PolicyCall {
    let request = PolicyRequest {
        subject,
        requester: None,
        identity: None,
        groups: Arc::default(),
        server: SERVER,
        targets: Vec::new(),
    };
    PolicyCall {
        number: 0,
        request: Arc::new(request),
        steps: Arc::new(Vec::new()),
    }
}

fn decide(module: &Module, subject: PolicySubject) -> PolicyResult {
    module.decide(request(subject))
}

#[test]
fn a_policy_passes_grants_or_denies_at_each_hook() {
    let module = load("judge", patient());
    let outcomes = |what| {
        subjects(&[ask(what)]).into_iter().map(|subject| {
            assert!(module.has_role(Role::policy(subject.hook()).unwrap()));
            decide(&module, subject).outcome.unwrap()
        })
    };
    assert!(outcomes(0).all(|outcome| outcome == PolicyOutcome::Pass));
    assert!(outcomes(1).all(|outcome| outcome == PolicyOutcome::Grant));
    for _ in 0..2 {
        assert!(outcomes(2).all(|outcome| matches!(outcome, PolicyOutcome::Deny(_))));
    }
}

#[test]
fn policy_sees_peer_of_connections_only() {
    let module = load("doorkeeper", patient());
    let ask = |pid| {
        let subject = ConnectionSubject {
            kind: ConnectionKind::Tool,
            peer: PeerInfo {
                pid,
                release: "4.2.2rc2".to_owned(),
            },
            infos: Vec::new(),
        };
        decide(&module, PolicySubject::Connection(subject))
            .outcome
            .unwrap()
    };
    assert_eq!(ask(Some(4711)), PolicyOutcome::Deny(Status(-4711)));
    assert_eq!(ask(None), PolicyOutcome::Deny(Status(-1)));
    assert_eq!(
        ask(Some(4)),
        PolicyOutcome::Deny(Status(-8)),
        "the length of its release"
    );
    let outcome = decide(&module, event_subject(&[])).outcome;
    assert_eq!(outcome, Ok(PolicyOutcome::Pass));
}

#[test]
fn policy_gets_the_numbers_of_its_request() {
    let module = load("judge", patient());
    let target = || TargetProc {
        proc: proc("job", 1),
        owner: None,
    };
    let carried = [ask(2)];
    let client = connection(ConnectionKind::Client, &carried);
    let join = group(GroupOperationKind::Join, &carried);
    let digits = [
        // kind, targets, infos, steps
        -1212,   // code, range, targets, infos, steps
        -34_212, // codes, directives, steps
        -312,    // targets, directives, steps
        -212,    // targets, infos, directives, steps
        -2112,   // nodes, length of the first, length of the image, directives, steps
        -25_312, // infos, directives, steps
        -12,     // kind, length of the name, targets, directives, steps
        -4212,
        // procs and directives of the first application, targets, directives, steps
        -34_212,
    ];
    for (subject, digits) in subjects(&carried)
        .into_iter()
        .zip(digits)
        .chain([(client, -212), (join, -34_212)])
    {
        let mut call = request(subject);
        Arc::make_mut(&mut call.request).targets = vec![target(), target()];
        Arc::make_mut(&mut call.steps).extend([step("a", 0, Vec::new()), step("b", 0, Vec::new())]);
        assert_eq!(
            module.decide(call.clone()).outcome,
            Ok(PolicyOutcome::Deny(Status(digits))),
            "{call:?}"
        );
    }
}

#[test]
fn denied_request_never_returns_success() {
    let module = load("judge", patient());
    for subject in subjects(&[ask(3)]) {
        let denied = PolicyOutcome::Deny(code::PMIX_ERR_NO_PERMISSIONS);
        assert_eq!(decide(&module, subject).outcome, Ok(denied));
    }
}

/// Values with a shape of their own and without, also nested.
fn mixed() -> Vec<Info> {
    let latin1 = Value::String(Some(Text::from_bytes(b"gr\xfc\xdfe")));
    let inner = DataArray::infos([
        info("test.deep", Value::Scope(Scope::Local)),
        info("test.latin1", latin1),
    ]);
    vec![
        info("test.number", Value::Uint64(1 << 40)),
        info("test.array", Value::DataArray(inner)),
    ]
}

#[test]
fn policy_sees_requester_server_targets_infos_and_steps() {
    let module = load("judge", patient());
    let owner = Some(UserIdentity { uid: 0, gid: 5 });
    let infos = mixed();
    let directives = [vec![ask(7)], mixed()].concat();
    let whole = PolicyRequest {
        subject: PolicySubject::Log(LogSubject {
            data: infos.clone(),
            directives: directives.clone(),
        }),
        requester: Some(proc("tool", 0)),
        identity: Some(UserIdentity {
            uid: 1000,
            gid: 100,
        }),
        server: SERVER,
        groups: Arc::default(),
        targets: vec![
            TargetProc {
                proc: proc("job", 1),
                owner,
            },
            TargetProc {
                proc: proc("elsewhere", 2),
                owner: None,
            },
        ],
    };
    let pushed = info("test.pushed", Value::Scope(Scope::Global));
    let call = PolicyCall {
        number: 0,
        request: Arc::new(whole),
        steps: Arc::new(vec![step("first", 0, vec![pushed.clone()])]),
    };
    let result = module.decide(call.clone());
    assert_eq!(result.outcome, Ok(PolicyOutcome::Pass));

    let uid = |n| Value::Uint32(n);
    let head = [
        vec![
            Value::Proc(proc("tool", 0)),
            uid(1000),
            uid(100),
            uid(SERVER.uid),
            uid(SERVER.gid),
        ],
        vec![
            Value::Proc(proc("job", 1)),
            Value::Proc(proc("elsewhere", 2)),
        ],
        vec![uid(0), uid(5), Value::Undef],
    ]
    .concat()
    .into_iter()
    .map(|value| info("test.echo", value));
    let tail = [
        info("test.echo", Value::string("first")),
        info("test.echo", Value::Status(Status(0))),
        pushed,
    ];
    let expected: Vec<Info> = head.chain(infos).chain(directives).chain(tail).collect();
    assert_eq!(result.infos, expected);
    assert_eq!(
        Arc::strong_count(&call.request),
        1,
        "the sandbox keeps nothing of the request"
    );
}

#[test]
fn unknown_facts_of_requester_are_absent() {
    let result = decide(&load("judge", patient()), job_control(&[ask(7)]));
    let values: Vec<Value> = result.infos.into_iter().map(|info| info.value).collect();
    assert_eq!(
        values,
        [
            Value::Uint32(SERVER.uid),
            Value::Uint32(SERVER.gid),
            Value::Int(7)
        ]
    );
}

#[test]
fn amended_directives_come_back_as_they_were_read() {
    let module = load("judge", patient());
    for (what, outcome) in [(8, PolicyOutcome::Grant), (11, PolicyOutcome::Pass)] {
        let directives = [vec![ask(what)], mixed()].concat();
        let result = decide(&module, job_control(&directives));
        assert_eq!(result.outcome, Ok(outcome));
        assert_eq!(
            result.amendment.infos,
            Some(directives),
            "the last amendment counts"
        );
    }
    let infos = [vec![ask(9)], mixed()].concat();
    for subject in [
        connection(ConnectionKind::Tool, &infos),
        event_subject(&infos),
        PolicySubject::Log(LogSubject {
            data: infos.clone(),
            directives: Vec::new(),
        }),
    ] {
        assert_eq!(
            decide(&module, subject).amendment.infos,
            Some(infos.clone()),
            "infos where it is about an event or a connection"
        );
    }
    assert_eq!(
        decide(&module, event_subject(&[ask(1)])).amendment,
        Amendment::default(),
        "nothing is left from the call before"
    );
}

#[test]
fn the_range_of_an_event_is_narrowed_and_of_nothing_else() {
    let module = load("judge", patient());
    let narrowed = |range| {
        let subject = EventSubject {
            code: Status(-3),
            range,
            infos: vec![ask(15)],
        };
        decide(&module, PolicySubject::Event(subject))
    };
    for range in [Range::Global, Range::Session, Range::Local] {
        let result = narrowed(range);
        assert_eq!(
            (result.outcome, result.amendment.range),
            (Ok(PolicyOutcome::Pass), Some(Range::Local))
        );
    }
    let result = narrowed(Range::Namespace);
    assert_eq!(
        result.outcome,
        Ok(PolicyOutcome::Deny(code::PMIX_ERR_BAD_PARAM)),
        "LOCAL is not within NAMESPACE"
    );
    assert_eq!(result.amendment, Amendment::default());
    let others = subjects(&[ask(15)]).into_iter();
    for subject in others.filter(|subject| subject.range().is_none()) {
        let refused = PolicyOutcome::Deny(code::PMIX_ERR_NOT_AVAILABLE);
        assert_eq!(decide(&module, subject).outcome, Ok(refused));
    }
}

#[test]
fn log_data_is_rewritten_and_nothing_else() {
    let module = load("judge", patient());
    let data = [vec![ask(16)], mixed()].concat();
    let result = decide(&module, log(&data));
    assert_eq!(result.outcome, Ok(PolicyOutcome::Pass));
    assert_eq!(
        result.amendment,
        Amendment {
            data: Some(data),
            ..Amendment::default()
        }
    );
    let others = subjects(&[ask(16)]).into_iter();
    for subject in others.filter(|subject| subject.log_data().is_none()) {
        let hook = subject.hook();
        let result = decide(&module, subject);
        assert_eq!(
            result.outcome,
            Ok(PolicyOutcome::Deny(code::PMIX_ERR_NOT_AVAILABLE)),
            "{hook}"
        );
    }
}

#[test]
fn denial_amends_nothing_and_gives_its_reasons() {
    let result = decide(&load("judge", patient()), job_control(&[ask(10)]));
    assert_eq!(
        result.outcome,
        Ok(PolicyOutcome::Deny(code::PMIX_ERR_NO_PERMISSIONS))
    );
    assert_eq!(result.infos, [info("test.echo", Value::string("test.ask"))]);
    assert_eq!(result.amendment, Amendment::default());
}

#[test]
fn failed_policy_has_no_outcome_but_a_reason() {
    let limits = ModuleLimits {
        output_bytes: 100_000,
        ..patient()
    };
    let patient = load("judge", limits);
    let hasty = load(
        "judge",
        ModuleLimits {
            call_time: Duration::from_millis(300),
            ..limits
        },
    );
    for (what, kind) in [
        (4, FailureKind::Trapped),
        (5, FailureKind::Timeout),
        (6, FailureKind::Output),
        (12, FailureKind::Output),
    ] {
        let carried = [ask(what), info("test.more", Value::Bool(true))];
        for (subject, grantable) in subjects(&carried).into_iter().zip(subjects(&[ask(1)])) {
            let hook = subject.hook();
            let module = if kind == FailureKind::Timeout {
                &hasty
            } else {
                &patient
            };
            let (result, trace) = traced(|| decide(module, subject));
            let failure = result.outcome.unwrap_err();
            assert_eq!(failure.kind, kind, "{failure}");
            assert!(
                failure.backtrace.iter().any(|function| function == "judge"),
                "{failure}"
            );
            assert!(result.infos.is_empty() && result.amendment == Amendment::default());
            assert!(
                trace.contains("module=\"judge\"") && trace.contains(hook.name()),
                "{trace}"
            );
            assert_eq!(
                decide(module, grantable).outcome,
                Ok(PolicyOutcome::Grant),
                "the next has a fresh instance"
            );
        }
    }
}

#[test]
fn module_is_called_only_in_its_roles() {
    let handler = load("noop", patient());
    let judge = load("judge", patient());
    for subject in subjects(&[ask(1)]) {
        let hook = subject.hook();
        let failure = decide(&handler, subject).outcome.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Unavailable);
        assert_eq!(failure.reason, format!("module has no role {hook}-policy"));
    }
    let result = judge.handle(call(event(-1, Vec::new())));
    assert_eq!(result.status, Status::PEAL_ERR_MODULE_UNAVAILABLE);
    assert_eq!(
        result.failure.unwrap().reason,
        "module has no role event-handler"
    );
    for hook in Hook::ALL {
        let role = Role::policy(hook);
        assert!(
            role.is_none_or(|role| role.name() == format!("{hook}-policy")),
            "{role:?}"
        );
    }
}

#[test]
fn a_policy_raises_no_events_and_writes_to_no_sink() {
    let module = load("judge", patient());
    for subject in [13, 14].into_iter().flat_map(|what| subjects(&[ask(what)])) {
        let refused = PolicyOutcome::Deny(code::PMIX_ERR_NOT_AVAILABLE);
        assert_eq!(decide(&module, subject).outcome, Ok(refused));
    }
}

#[test]
fn amendment_needs_no_grant_and_has_no_effect_outside_policies() {
    let module = Module::load(
        engine(),
        "amender",
        &component("amender"),
        &Grants::none(),
        patient(),
        Services::default(),
    )
    .unwrap();
    let result = module.handle(call(event(-1, mixed())));
    assert_eq!((result.status, result.failure), (Status(7), None));
    assert!(result.infos.is_empty());
}

//! Policies: what one sees of a request, what it can say of it, and what becomes of one that fails.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
mod support;
use peal_model::{
    Amendment, Application, ConnectionKind, DataArray, GroupOperationKind, Hook, Info, PeerInfo,
    PolicyOutcome, PolicyRequest, PolicySubject, Provision, Range, Scope, Status, TargetProc, Text,
    UserIdentity, Value, code,
};
use peal_sandbox::{
    FailureKind, Grants, Module, ModuleLimits, PolicyCall, PolicyResult, Role, Services,
};
use std::sync::Arc;
use std::time::Duration;
use support::{call, component, engine, event, info, load, patient, proc, step, traced};

const SERVER: UserIdentity = UserIdentity { uid: 990, gid: 991 };
const EVENT: PolicySubject = PolicySubject::Event {
    code: Status(-3),
    range: Range::Session,
};
const MATTERS: [PolicySubject; 9] = [
    PolicySubject::Connection(ConnectionKind::Tool),
    EVENT,
    PolicySubject::Registration,
    PolicySubject::JobControl,
    PolicySubject::Monitor,
    PolicySubject::Provision,
    PolicySubject::Log,
    PolicySubject::Group(GroupOperationKind::Construct),
    PolicySubject::Spawn,
];

/// Action of `judge.wat`, by the list at its head.
fn ask(what: i32) -> Info {
    info("test.ask", Value::Int(what))
}

/// A request without targets, with these infos in the list of its subject.
fn request(matter: PolicySubject, carried: Vec<Info>) -> PolicyCall {
    let (infos, directives) = match matter {
        PolicySubject::JobControl
        | PolicySubject::Monitor
        | PolicySubject::Provision
        | PolicySubject::Registration
        | PolicySubject::Log
        | PolicySubject::Spawn
        | PolicySubject::Group(_) => (Vec::new(), carried),
        PolicySubject::Connection(_) | PolicySubject::Event { .. } => (carried, Vec::new()),
    };
    let application = Application {
        command: "solver".to_owned(),
        arguments: vec!["-x".to_owned()],
        environment: vec!["A=1".to_owned(), "B=2".to_owned()],
        directory: Some("/tmp".to_owned()),
        procs: 3,
        directives: 4,
    };
    let request = PolicyRequest {
        matter,
        requester: None,
        identity: None,
        server: SERVER,
        groups: Arc::default(),
        provision: Some(Provision {
            nodes: vec!["node1".to_owned(), "n2".to_owned()],
            image: Some("img".to_owned()),
        }),
        peer: None,
        targets: Vec::new(),
        group_name: Some("team".to_owned()),
        applications: vec![application],
        codes: Vec::new(),
        infos,
        directives,
    };
    PolicyCall {
        number: 0,
        request: Arc::new(request),
        steps: Arc::new(Vec::new()),
    }
}

fn decide(module: &Module, matter: PolicySubject, what: i32) -> PolicyResult {
    module.decide(&request(matter, vec![ask(what)]))
}

#[test]
fn a_policy_passes_grants_or_denies_at_each_hook() {
    let module = load("judge", patient());
    for matter in MATTERS {
        assert!(module.has_role(Role::policy(matter.hook()).unwrap()));
        let said = |what| decide(&module, matter, what).outcome.unwrap();
        assert_eq!(said(0), PolicyOutcome::Pass);
        assert_eq!(said(1), PolicyOutcome::Grant);
        assert!(matches!(said(2), PolicyOutcome::Deny(_)));
    }
}

#[test]
fn policy_knows_peer_of_connections_only() {
    let module = load("doorkeeper", patient());
    let ask = |matter, pid| {
        let PolicyCall {
            request: nobody,
            steps,
            ..
        } = request(matter, Vec::new());
        let peer = Some(PeerInfo {
            pid,
            release: "4.2.2rc2".into(),
        })
        .filter(|_| matter != EVENT);
        let request = Arc::new(PolicyRequest {
            peer,
            ..(*nobody).clone()
        });
        module
            .decide(&PolicyCall {
                number: 0,
                request,
                steps,
            })
            .outcome
            .unwrap()
    };
    let tool = PolicySubject::Connection(ConnectionKind::Tool);
    assert_eq!(ask(tool, Some(4711)), PolicyOutcome::Deny(Status(-4711)));
    assert_eq!(ask(tool, None), PolicyOutcome::Deny(Status(-1)));
    assert_eq!(
        ask(tool, Some(4)),
        PolicyOutcome::Deny(Status(-8)),
        "the length of its release"
    );
    assert_eq!(ask(EVENT, Some(4711)), PolicyOutcome::Pass);
}

#[test]
fn a_policy_is_told_the_numbers_of_its_request() {
    let module = load("judge", patient());
    let target = || TargetProc {
        proc: proc("job", 1),
        owner: None,
    };
    for (matter, digits) in [
        // kind, targets, infos, steps
        (PolicySubject::Connection(ConnectionKind::Client), -212),
        (PolicySubject::Connection(ConnectionKind::Tool), -1212),
        // code, range, targets, infos, steps
        (EVENT, -34_212),
        // codes, directives, steps
        (PolicySubject::Registration, -312),
        // targets, directives, steps
        (PolicySubject::JobControl, -212),
        // targets, infos, directives, steps
        (PolicySubject::Monitor, -2012),
        // nodes, length of the first, length of the image, directives, steps
        (PolicySubject::Provision, -25_312),
        // infos, directives, steps
        (PolicySubject::Log, -12),
        // kind, length of the name, targets, directives, steps
        (PolicySubject::Group(GroupOperationKind::Construct), -4212),
        (PolicySubject::Group(GroupOperationKind::Join), -34_212),
        // procs and directives of the first application, targets, directives, steps
        (PolicySubject::Spawn, -34_212),
    ] {
        let mut call = request(matter, vec![ask(2)]);
        Arc::make_mut(&mut call.request).targets = vec![target(), target()];
        Arc::make_mut(&mut call.request).codes = vec![Status(-1), Status(-2), Status(-3)];
        Arc::make_mut(&mut call.steps).extend([step("a", 0, Vec::new()), step("b", 0, Vec::new())]);
        assert_eq!(
            module.decide(&call).outcome,
            Ok(PolicyOutcome::Deny(Status(digits))),
            "{matter:?}"
        );
    }
}

#[test]
fn denied_request_never_returns_success() {
    let module = load("judge", patient());
    for matter in MATTERS {
        let denied = PolicyOutcome::Deny(code::PMIX_ERR_NO_PERMISSIONS);
        assert_eq!(decide(&module, matter, 3).outcome, Ok(denied));
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
    let (infos, directives) = (mixed(), [vec![ask(7)], mixed()].concat());
    let whole = PolicyRequest {
        matter: PolicySubject::JobControl,
        requester: Some(proc("tool", 0)),
        identity: Some(UserIdentity {
            uid: 1000,
            gid: 100,
        }),
        server: SERVER,
        groups: Arc::default(),
        provision: None,
        peer: None,
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
        group_name: None,
        applications: Vec::new(),
        codes: Vec::new(),
        infos: infos.clone(),
        directives: directives.clone(),
    };
    let pushed = info("test.pushed", Value::Scope(Scope::Global));
    let call = PolicyCall {
        number: 0,
        request: Arc::new(whole),
        steps: Arc::new(vec![step("first", 0, vec![pushed.clone()])]),
    };
    let result = module.decide(&call);
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
    let result = decide(&load("judge", patient()), PolicySubject::JobControl, 7);
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
        let result = module.decide(&request(PolicySubject::JobControl, directives.clone()));
        assert_eq!(result.outcome, Ok(outcome));
        assert_eq!(
            result.amendment.infos,
            Some(directives),
            "the last amendment counts"
        );
    }
    for matter in MATTERS {
        let infos = [vec![ask(9)], mixed()].concat();
        let mut call = request(matter, Vec::new());
        Arc::make_mut(&mut call.request).infos = infos.clone();
        assert_eq!(
            module.decide(&call).amendment.infos,
            Some(infos),
            "infos where it is about an event or a connection"
        );
    }
    assert_eq!(
        decide(&module, EVENT, 1).amendment,
        Amendment::default(),
        "nothing is left from the call before"
    );
}

#[test]
fn the_range_of_an_event_is_narrowed_and_of_nothing_else() {
    let module = load("judge", patient());
    let narrowed = |range| {
        decide(
            &module,
            PolicySubject::Event {
                code: Status(-3),
                range,
            },
            15,
        )
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
    for matter in [
        PolicySubject::Registration,
        PolicySubject::JobControl,
        PolicySubject::Log,
    ] {
        let refused = PolicyOutcome::Deny(code::PMIX_ERR_NOT_AVAILABLE);
        assert_eq!(decide(&module, matter, 15).outcome, Ok(refused));
    }
}

#[test]
fn log_data_is_rewritten_and_nothing_else() {
    let module = load("judge", patient());
    let data = [vec![ask(16)], mixed()].concat();
    let result = module.decide(&request(PolicySubject::Log, data.clone()));
    assert_eq!(result.outcome, Ok(PolicyOutcome::Pass));
    assert_eq!(
        result.amendment,
        Amendment {
            data: Some(data),
            ..Amendment::default()
        }
    );
    for matter in MATTERS
        .into_iter()
        .filter(|matter| *matter != PolicySubject::Log)
    {
        let result = decide(&module, matter, 16);
        assert_eq!(
            result.outcome,
            Ok(PolicyOutcome::Deny(code::PMIX_ERR_NOT_AVAILABLE)),
            "{matter:?}"
        );
    }
}

#[test]
fn denial_amends_nothing_and_gives_its_reasons() {
    let result = decide(&load("judge", patient()), PolicySubject::JobControl, 10);
    assert_eq!(
        result.outcome,
        Ok(PolicyOutcome::Deny(code::PMIX_ERR_NO_PERMISSIONS))
    );
    assert_eq!(result.infos, [info("test.echo", Value::string("test.ask"))]);
    assert_eq!(result.amendment, Amendment::default());
}

#[test]
fn a_policy_that_fails_says_nothing_and_how_it_failed() {
    let limits = ModuleLimits {
        output_bytes: 100_000,
        ..patient()
    };
    let (patient, hasty) = (
        load("judge", limits),
        load(
            "judge",
            ModuleLimits {
                call_time: Duration::from_millis(300),
                ..limits
            },
        ),
    );
    for matter in MATTERS {
        for (what, kind) in [
            (4, FailureKind::Trapped),
            (5, FailureKind::Timeout),
            (6, FailureKind::Output),
            (12, FailureKind::Output),
        ] {
            let module = if kind == FailureKind::Timeout {
                &hasty
            } else {
                &patient
            };
            let mut call = request(matter, vec![ask(what)]);
            // what is amended without end is more than nothing
            Arc::make_mut(&mut call.request)
                .directives
                .push(info("test.more", Value::Bool(true)));
            let (result, trace) = traced(|| module.decide(&call));
            let failure = result.outcome.unwrap_err();
            assert_eq!(failure.kind, kind, "{failure}");
            assert!(
                failure.backtrace.iter().any(|function| function == "judge"),
                "{failure}"
            );
            assert!(result.infos.is_empty() && result.amendment == Amendment::default());
            assert!(
                trace.contains("module=\"judge\"") && trace.contains(matter.hook().name()),
                "{trace}"
            );
            assert_eq!(
                decide(module, matter, 1).outcome,
                Ok(PolicyOutcome::Grant),
                "the next has a fresh instance"
            );
        }
    }
}

#[test]
fn a_module_is_asked_only_in_the_roles_that_it_fills() {
    let (handler, judge) = (load("noop", patient()), load("judge", patient()));
    for matter in MATTERS {
        let failure = decide(&handler, matter, 1).outcome.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Unavailable);
        assert_eq!(
            failure.reason,
            format!("module has no role {}-policy", matter.hook())
        );
    }
    let result = judge.handle(&call(event(-1, Vec::new())));
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
    for matter in MATTERS {
        for what in [13, 14] {
            let refused = PolicyOutcome::Deny(code::PMIX_ERR_NOT_AVAILABLE);
            assert_eq!(decide(&module, matter, what).outcome, Ok(refused));
        }
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
    let result = module.handle(&call(event(-1, mixed())));
    assert_eq!((result.status, result.failure), (Status(7), None));
    assert!(result.infos.is_empty());
}

//! Steps through a policy chain: order, amendments, the deciding policy, and failures.
use peal_core::{
    defaults::HookDefault,
    policy::{
        ConcludedRun, DecidedBy, DeniedVerdict, NextPolicy, OnFailure, PolicyAnswer, PolicyChain,
        PolicyFailure, REASON, Verdict,
    },
    registration::{ChainPlacement, Mode, RegistrationError},
};
use peal_model::{
    Amendment, EventSubject, GroupOperationKind, GroupSubject, Info, Infos, JobControlSubject,
    KeyName, LogSubject, MonitorSubject, Nspace, PolicyOutcome, PolicyRequest, PolicySubject, Proc,
    Range, Rank, RegistrationSubject, SpawnSubject, Status, TargetProc, UserIdentity, Value, code,
};
use proptest::prelude::*;
use std::sync::Arc;

const NOTE: KeyName = KeyName("test.note");
const ME: UserIdentity = UserIdentity {
    uid: 1000,
    gid: 100,
};

fn note(text: &str) -> Info {
    Info::new(NOTE, Value::string(text))
}

/// Returns a job-control request about a proc of this user.
fn job_control(owner: u32) -> Arc<PolicyRequest> {
    let directives = vec![note("directives as asked")];
    request(
        PolicySubject::JobControl(JobControlSubject {
            directives,
            ..JobControlSubject::default()
        }),
        owner,
    )
}

fn request(subject: PolicySubject, owner: u32) -> Arc<PolicyRequest> {
    let proc = Proc::new(Nspace::new("job").unwrap(), Rank(0));
    Arc::new(PolicyRequest {
        subject,
        requester: Some(proc.clone()),
        identity: Some(ME),
        server: UserIdentity { uid: 0, gid: 0 },
        groups: Arc::default(),
        targets: vec![TargetProc {
            proc,
            owner: Some(UserIdentity {
                uid: owner,
                gid: 100,
            }),
        }],
    })
}

fn said(outcome: PolicyOutcome) -> PolicyAnswer {
    PolicyAnswer {
        outcome: Ok(outcome),
        infos: Vec::new(),
        amendment: Amendment::default(),
    }
}

fn failed() -> PolicyAnswer {
    let failure = PolicyFailure {
        status: Status::PEAL_ERR_MODULE_TRAPPED,
        reason: "unreachable".to_owned(),
    };
    PolicyAnswer {
        outcome: Err(failure),
        infos: Vec::new(),
        amendment: Amendment::default(),
    }
}

/// Policies that say this, in this order.
fn chain(policies: &[(&str, OnFailure, PolicyAnswer)]) -> PolicyChain<PolicyAnswer> {
    let mut chain = PolicyChain::default();
    for (name, on_failure, said) in policies {
        chain
            .register(
                name,
                (ChainPlacement::Append, Mode::Active),
                *on_failure,
                said.clone(),
            )
            .unwrap();
    }
    chain
}

fn run(chain: &PolicyChain<PolicyAnswer>, request: &Arc<PolicyRequest>) -> ConcludedRun {
    let mut run = chain.run(request.clone(), HookDefault::BuiltIn);
    loop {
        match run.advance() {
            NextPolicy::Call(pending) => {
                let said = pending.policy().clone();
                run = pending.finish(said);
            }
            NextPolicy::Done(decided) => return decided,
        }
    }
}

fn ran(decided: &ConcludedRun) -> Vec<&str> {
    decided.steps.iter().map(|step| &*step.name).collect()
}

fn by(verdict: &Verdict) -> (&DecidedBy, bool) {
    match verdict {
        Verdict::Granted { by, .. } => (by, true),
        Verdict::Denied(DeniedVerdict { by, .. }) => (by, false),
    }
}

#[test]
fn first_grant_or_deny_ends_the_chain() {
    let pass = || said(PolicyOutcome::Pass);
    let deny = PolicyAnswer {
        infos: vec![note("not today")],
        ..said(PolicyOutcome::Deny(Status(-3001)))
    };
    let own = job_control(ME.uid);
    let denied = run(
        &chain(&[
            ("a", OnFailure::Deny, pass()),
            ("b", OnFailure::Deny, deny),
            ("c", OnFailure::Deny, pass()),
        ]),
        &own,
    );
    assert_eq!(ran(&denied), ["a", "b"]);
    let reasons = vec![note("not today")];
    let by = DecidedBy::Policy("b".to_owned());
    assert_eq!(
        denied.verdict,
        Verdict::Denied(DeniedVerdict {
            by,
            status: Status(-3001),
            reasons
        })
    );
    let foreign = job_control(2000);
    let granted = run(
        &chain(&[
            ("yes", OnFailure::Deny, said(PolicyOutcome::Grant)),
            ("no", OnFailure::Deny, failed()),
        ]),
        &foreign,
    );
    assert_eq!(ran(&granted), ["yes"]);
    let amended = vec![note("directives as asked")];
    assert_eq!(
        granted.verdict,
        Verdict::Granted {
            by: DecidedBy::Policy("yes".to_owned()),
            amended,
            range: None,
            data: None,
            answer: Vec::new()
        }
    );
}

#[test]
fn where_all_pass_or_none_is_there_the_default_decides() {
    for chain in [
        chain(&[]),
        chain(&[("a", OnFailure::Deny, said(PolicyOutcome::Pass))]),
    ] {
        assert_eq!(
            by(&run(&chain, &job_control(ME.uid)).verdict),
            (&DecidedBy::Default, true)
        );
        let Verdict::Denied(DeniedVerdict {
            by,
            status,
            reasons,
        }) = run(&chain, &job_control(2000)).verdict
        else {
            panic!("the job belongs to another user")
        };
        assert_eq!(
            (by, status),
            (DecidedBy::Default, code::PMIX_ERR_NO_PERMISSIONS)
        );
        let why = reasons.value_of(REASON).and_then(Value::as_str).unwrap();
        assert_eq!(why, "job:0 belongs to user 2000, job:0 to user 1000");
    }
}

#[test]
fn a_policy_that_fails_counts_as_its_on_failure() {
    let own = job_control(ME.uid);
    let ConcludedRun { verdict, steps } =
        run(&chain(&[("broken", OnFailure::Deny, failed())]), &own);
    let Verdict::Denied(DeniedVerdict {
        by: who,
        status,
        reasons,
    }) = verdict
    else {
        panic!("deny is safe")
    };
    assert_eq!(
        (who, status),
        (
            DecidedBy::Policy("broken".to_owned()),
            Status::PEAL_ERR_MODULE_TRAPPED
        )
    );
    let why = reasons.value_of(REASON).and_then(Value::as_str).unwrap();
    assert_eq!(why, "policy \"broken\" failed: unreachable");
    assert_eq!(steps[0].status, Status::PEAL_ERR_MODULE_TRAPPED);
    let passed = run(
        &chain(&[
            ("broken", OnFailure::Pass, failed()),
            ("yes", OnFailure::Deny, said(PolicyOutcome::Grant)),
        ]),
        &own,
    );
    assert_eq!(
        (ran(&passed), by(&passed.verdict)),
        (
            vec!["broken", "yes"],
            (&DecidedBy::Policy("yes".into()), true)
        )
    );
}

fn amendment(text: &str) -> Amendment {
    Amendment {
        infos: Some(vec![note(text)]),
        ..Amendment::default()
    }
}

#[test]
fn the_range_of_an_event_can_be_narrowed_and_not_widened() {
    use Range::{Custom, Global, Local, Namespace, ProcLocal, Rm, Session, Undef};
    for (asked, amended, becomes) in [
        (Global, Session, Session),
        (Global, Namespace, Namespace),
        (Global, Local, Local),
        (Global, Custom, Custom),
        (Session, Namespace, Namespace),
        (Session, Rm, Session),
        (Session, Session, Session),
        (Session, Global, Session),
        (Namespace, Local, Namespace),
        (Local, Namespace, Local),
        (Namespace, Session, Namespace),
        (Custom, Global, Custom),
        (Global, ProcLocal, Global),
        (Global, Undef, Global),
    ] {
        let amendment = Amendment {
            range: Some(amended),
            ..Amendment::default()
        };
        let chain = chain(&[(
            "narrows",
            OnFailure::Deny,
            PolicyAnswer {
                amendment,
                ..said(PolicyOutcome::Pass)
            },
        )]);
        let request = request(
            PolicySubject::Event(EventSubject {
                code: Status(-3001),
                range: asked,
                infos: vec![note("infos as asked")],
            }),
            ME.uid,
        );
        let Verdict::Granted {
            range,
            amended: infos,
            ..
        } = run(&chain, &request).verdict
        else {
            panic!()
        };
        assert_eq!(range, Some(becomes), "{asked} amended to {amended}");
        assert_eq!(infos, request.subject.infos());
    }
}

#[test]
fn amendments_are_seen_by_those_after_and_by_the_host() {
    let amends = |text: &str| PolicyAnswer {
        amendment: amendment(text),
        ..said(PolicyOutcome::Pass)
    };
    let chain = chain(&[
        ("one", OnFailure::Deny, amends("by one")),
        ("two", OnFailure::Deny, amends("by two")),
    ]);
    let infos = || vec![note("infos as asked")];
    let directives = || vec![note("directives as asked")];
    let group = |kind| {
        PolicySubject::Group(GroupSubject {
            kind,
            name: None,
            directives: directives(),
        })
    };
    for subject in [
        PolicySubject::JobControl(JobControlSubject {
            directives: directives(),
            ..JobControlSubject::default()
        }),
        PolicySubject::Registration(RegistrationSubject {
            codes: Vec::new(),
            directives: directives(),
        }),
        PolicySubject::Monitor(MonitorSubject {
            monitor: note("infos as asked"),
            directives: directives(),
        }),
        PolicySubject::Log(LogSubject {
            data: infos(),
            directives: directives(),
        }),
        group(GroupOperationKind::Construct),
        group(GroupOperationKind::Destruct),
        PolicySubject::Spawn(SpawnSubject {
            applications: Vec::new(),
            infos: infos(),
            directives: directives(),
        }),
        PolicySubject::Event(EventSubject {
            code: Status(-3001),
            range: Range::Global,
            infos: infos(),
        }),
    ] {
        let amends_infos = matches!(subject, PolicySubject::Event(_));
        let asked = request(subject, ME.uid);
        let NextPolicy::Call(first) = chain.run(asked.clone(), HookDefault::BuiltIn).advance()
        else {
            panic!()
        };
        let one = first.policy().clone();
        let NextPolicy::Call(second) = first.finish(one).advance() else {
            panic!()
        };
        let subject = &second.request().subject;
        let (amended, other) = if amends_infos {
            (subject.infos(), subject.directives())
        } else {
            (subject.directives(), subject.infos())
        };
        assert_eq!(amended, [note("by one")], "{subject:?}");
        assert_ne!(other, [note("by one")], "{subject:?}");
        assert_eq!((&**second.name(), second.steps().len()), ("two", 1));
        let Verdict::Granted { amended, .. } = run(&chain, &asked).verdict else {
            panic!()
        };
        assert_eq!(amended, [note("by two")]);
    }
}

#[test]
fn log_data_is_rewritten_for_later_policies_and_nothing_else() {
    let rewrites = |text: &str| {
        let amendment = Amendment {
            data: Some(vec![note(text)]),
            ..Amendment::default()
        };
        PolicyAnswer {
            amendment,
            ..said(PolicyOutcome::Pass)
        }
    };
    let chain = chain(&[
        ("one", OnFailure::Deny, rewrites("by one")),
        ("two", OnFailure::Deny, rewrites("by two")),
    ]);
    let directives = vec![note("directives as asked")];
    let log = PolicySubject::Log(LogSubject {
        data: vec![note("data as asked")],
        directives: directives.clone(),
    });
    let asked = request(log, ME.uid);
    let NextPolicy::Call(first) = chain.run(asked.clone(), HookDefault::BuiltIn).advance() else {
        panic!()
    };
    let one = first.policy().clone();
    let NextPolicy::Call(second) = first.finish(one).advance() else {
        panic!()
    };
    assert_eq!(second.request().subject.infos(), [note("by one")]);
    let Verdict::Granted { amended, data, .. } = run(&chain, &asked).verdict else {
        panic!()
    };
    assert_eq!(
        (amended, data),
        (directives.clone(), Some(vec![note("by two")]))
    );
    let job_control = job_control(ME.uid);
    let Verdict::Granted { amended, data, .. } = run(&chain, &job_control).verdict else {
        panic!()
    };
    assert_eq!((amended, data), (directives, None));
}

#[test]
fn a_denial_never_looks_like_a_success() {
    let denied = run(
        &chain(&[(
            "sly",
            OnFailure::Deny,
            said(PolicyOutcome::Deny(code::PMIX_SUCCESS)),
        )]),
        &job_control(ME.uid),
    );
    assert!(matches!(
        denied.verdict,
        Verdict::Denied(DeniedVerdict {
            status: code::PMIX_ERR_NO_PERMISSIONS,
            ..
        })
    ));
}

#[test]
fn placement_words_hold_over_one_category() {
    let mut chain = PolicyChain::default();
    let mut add = |name, place| {
        chain.register(
            name,
            (place, Mode::Active),
            OnFailure::Deny,
            said(PolicyOutcome::Pass),
        )
    };
    add("middle", ChainPlacement::Append).unwrap();
    add("last", ChainPlacement::Last).unwrap();
    add("before", ChainPlacement::Before("middle".to_owned())).unwrap();
    add("first", ChainPlacement::First).unwrap();
    assert!(
        matches!(add("second", ChainPlacement::First), Err(RegistrationError::Taken { holder, .. }) if holder == "first")
    );
    let decided = run(&chain, &job_control(ME.uid));
    assert_eq!(ran(&decided), ["first", "before", "middle", "last"]);
}

fn any_said() -> impl Strategy<Value = PolicyAnswer> {
    prop_oneof![
        3 => Just(said(PolicyOutcome::Pass)),
        1 => Just(said(PolicyOutcome::Grant)),
        1 => Just(said(PolicyOutcome::Deny(Status(-3001)))),
        1 => Just(failed()),
    ]
}

proptest! {
    /// The model folds from the end: a later policy decides only if no earlier one did.
    #[test]
    fn verdict_is_that_of_first_deciding_policy(
        policies in prop::collection::vec((any::<bool>(), any_said()), 0..6),
        own in any::<bool>(),
    ) {
        let on_failure = |deny: bool| if deny { OnFailure::Deny } else { OnFailure::Pass };
        let names: Vec<String> = (0..policies.len()).map(|at| at.to_string()).collect();
        let list: Vec<_> = policies.iter().zip(&names)
            .map(|((deny, said), name)| (name.as_str(), on_failure(*deny), said.clone())).collect();
        let decided = run(&chain(&list), &job_control(if own { ME.uid } else { 2000 }));
        let mut granted = own;
        let mut asked = 0;
        for (deny, said) in policies.iter().rev() {
            match said.outcome {
                Ok(PolicyOutcome::Pass) => asked += 1,
                Ok(PolicyOutcome::Grant) => (granted, asked) = (true, 1),
                Ok(PolicyOutcome::Deny(_)) => (granted, asked) = (false, 1),
                Err(_) if *deny => (granted, asked) = (false, 1),
                Err(_) => asked += 1,
            }
        }
        prop_assert_eq!(by(&decided.verdict).1, granted);
        prop_assert_eq!(decided.steps.len(), asked);
    }
}

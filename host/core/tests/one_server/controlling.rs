//! Job-control requests: the ledger, checkpoints, preemption, cancelling.
use crate::support::stage::Stage;
use peal_core::{
    MonotonicTime,
    job::JobSpec,
    job_control::{
        CHECK, ControlUpcallId, GRACE, JobAction, NotDone, OUTCOME, PREEMPT, REQUEST, STATUS,
    },
    policy::{DecidedBy, DeniedVerdict, REASON, Verdict},
    server::{Action, StateSettings, Upcall},
};
use peal_model::{
    DataArray, Event, Hook, Info, Infos, KeyName, Nspace, PolicySubject, Proc, Query, Range, Rank,
    Reply, Request, Status, UserIdentity, Value, code, key,
};
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

const OWNER: UserIdentity = UserIdentity {
    uid: 1000,
    gid: 100,
};
const OTHER: UserIdentity = UserIdentity {
    uid: 2000,
    gid: 100,
};
const SIZE: u32 = 4;

fn proc(rank: u32) -> Proc {
    Proc::new(Nspace::new("job").unwrap(), Rank(rank))
}

fn text(key: KeyName, text: &str) -> Info {
    Info::new(key, Value::string(text))
}

fn yes(key: KeyName) -> Info {
    Info::new(key, Value::Bool(true))
}

fn named(name: &str) -> Info {
    text(key::PMIX_JOB_CTRL_ID, name)
}

/// Declares how one is checkpointed, by all methods in this order.
fn methods(of: &[Info]) -> Info {
    Info::new(
        key::PMIX_JOB_CTRL_CHECKPOINT_METHOD,
        Value::DataArray(DataArray::infos(of.iter().cloned())),
    )
}

fn by_signal(number: i32) -> Info {
    Info::new(key::PMIX_JOB_CTRL_CHECKPOINT_SIGNAL, Value::Int(number))
}

fn by_event(code: i32) -> Info {
    Info::new(
        key::PMIX_JOB_CTRL_CHECKPOINT_EVENT,
        Value::Status(Status(code)),
    )
}

impl Stage {
    /// A server with one job, all of whose procs are connected.
    fn with_job(settings: StateSettings) -> Stage {
        Stage::with_jobs(settings, &[("job", SIZE, OWNER)])
    }

    fn control(&mut self, rank: usize, targets: &[Proc], directives: &[Info]) -> Vec<Action> {
        self.request_of(
            rank,
            Request::JobControl {
                targets: targets.to_vec(),
                directives: directives.to_vec(),
            },
        )
    }

    fn complete(&mut self, rank: usize, infos: Vec<Info>) -> Vec<Action> {
        let code = code::PMIX_JCTRL_CHECKPOINT_COMPLETE;
        let range = Range::Rm;
        self.request_of(rank, Request::Notify { code, range, infos })
    }

    fn wait(&mut self, time: Duration) -> Vec<Action> {
        self.now = self.now + time;
        self.server.tick(self.now)
    }

    /// Returns the names and states of all requests that a user may see.
    fn states(&self, identity: UserIdentity) -> Vec<(String, String)> {
        let query = Query {
            keys: vec![Some(key::PMIX_JOB_CTRL_ID.0.into())],
            qualifiers: Vec::new(),
        };
        let Some(Info {
            value: Value::DataArray(requests),
            ..
        }) = self.server.query_controls(identity, &[query])
        else {
            panic!("it is known")
        };
        let request = |info: &Info| {
            let Value::DataArray(infos) = &info.value else {
                panic!("{info:?}")
            };
            let infos: Vec<Info> = infos.as_infos().unwrap().into_iter().cloned().collect();
            let word = |key| {
                infos
                    .value_of(key)
                    .and_then(Value::as_str)
                    .unwrap()
                    .to_owned()
            };
            (
                word(key::PMIX_JOB_CTRL_ID),
                word(KeyName("peal.jctrl.state")),
            )
        };
        requests
            .as_infos()
            .unwrap()
            .into_iter()
            .map(request)
            .collect()
    }

    fn state(&self, name: &str) -> String {
        self.states(OWNER)
            .into_iter()
            .rev()
            .find(|(known, _)| known == name)
            .unwrap()
            .1
    }
}

/// Returns the status and the reason of a reply.
fn answer(actions: &[Action]) -> (Status, String) {
    let mut replies = actions.iter().filter_map(|action| match action {
        Action::Reply {
            reply: Reply::Infos { status, infos },
            ..
        } => Some((*status, infos)),
        _ => None,
    });
    let (status, infos) = replies.next().unwrap_or_else(|| panic!("{actions:?}"));
    (
        status,
        infos
            .value_of(REASON)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
    )
}

/// Returns the actions that the host environment is to carry out.
fn asked_of_host(actions: &[Action]) -> Vec<(ControlUpcallId, JobAction, Vec<Proc>)> {
    let upcall = |action: &Action| match action {
        Action::Upcall(Upcall::JobControl { id, control, .. }) => {
            Some((*id, control.action.clone(), control.targets.clone()))
        }
        _ => None,
    };
    actions.iter().filter_map(upcall).collect()
}

/// Returns the codes and targets of the raised events.
fn raised(actions: &[Action]) -> Vec<(Status, Vec<Proc>)> {
    let chain = |action: &Action| match action {
        Action::Chain { event, .. } => {
            Some((event.code, event.custom_targets().unwrap_or_default()))
        }
        _ => None,
    };
    actions.iter().filter_map(chain).collect()
}

fn ended<'a>(actions: &'a [Action]) -> Vec<&'a Event> {
    let event = |action: &'a Action| match action {
        Action::Chain { event, .. } if event.code == Status::PEAL_JOB_CONTROL_ENDED => {
            Some(&**event)
        }
        _ => None,
    };
    actions.iter().filter_map(event).collect()
}

#[test]
fn control_is_answered_when_done_with_procs_left_out() {
    let mut stage = Stage::with_job(StateSettings::default());
    let begun = stage.control(
        0,
        &[proc(1), proc(2)],
        &[yes(key::PMIX_JOB_CTRL_PAUSE), named("p")],
    );
    let [(id, JobAction::Pause, targets)] = &asked_of_host(&begun)[..] else {
        panic!("{begun:?}")
    };
    assert_eq!(
        (begun.len(), stage.state("p").as_str()),
        (1, "running"),
        "nobody is answered yet"
    );
    let not_done = NotDone {
        proc: proc(2),
        status: code::PMIX_ERR_NOT_FOUND,
        reason: "it has ended".to_owned(),
    };
    let done = stage.server.controlled(*id, targets, Ok(vec![not_done]));
    assert_eq!(answer(&done).0, code::PMIX_ERR_PARTIAL_SUCCESS);
    let Action::Reply {
        reply: Reply::Infos { infos, .. },
        ..
    } = &done[1]
    else {
        panic!("{done:?}")
    };
    assert!(infos.value_of(OUTCOME).is_some());
    assert!(
        matches!(
            &done[0],
            Action::JobControlEnded {
                status: code::PMIX_ERR_PARTIAL_SUCCESS,
                ..
            }
        ),
        "it is on record"
    );
    assert_eq!(stage.state("p"), "failed");
    assert!(
        stage
            .server
            .controlled(*id, targets, Ok(Vec::new()))
            .is_empty(),
        "it ends once"
    );
}

#[test]
fn restart_is_answered_at_acceptance_and_reported_at_its_end() {
    let mut stage = Stage::with_job(StateSettings::default());
    let begun = stage.control(
        0,
        &[proc(3)],
        &[text(key::PMIX_JOB_CTRL_RESTART, "ck"), named("again")],
    );
    assert_eq!(answer(&begun).0, code::PMIX_SUCCESS);
    let [
        (
            id,
            JobAction::Restart {
                checkpoint: Some(checkpoint),
            },
            targets,
        ),
    ] = &asked_of_host(&begun)[..]
    else {
        panic!("{begun:?}")
    };
    assert_eq!(checkpoint, "ck");
    let over = stage
        .server
        .controlled(*id, targets, Err(code::PMIX_ERR_NOT_SUPPORTED));
    let [event] = ended(&over)[..] else {
        panic!("{over:?}")
    };
    assert_eq!(
        event.custom_targets(),
        Some(vec![proc(0)]),
        "it is for the requester"
    );
    assert_eq!(
        event.infos.value_of(STATUS),
        Some(&Value::Status(code::PMIX_ERR_NOT_SUPPORTED))
    );
    assert_eq!(
        event.infos.value_of(key::PMIX_JOB_CTRL_ID),
        Some(&Value::string("again"))
    );
}

#[test]
fn checkpoint_uses_first_possible_declared_method() {
    let mut stage = Stage::with_job(StateSettings::default());
    let ckpt = || [text(key::PMIX_JOB_CTRL_CHECKPOINT, "ck"), named("c")];
    let nobody = answer(&stage.control(0, &[], &ckpt()));
    assert_eq!(nobody.0, code::PMIX_ERR_NOT_SUPPORTED);
    assert!(
        nobody
            .1
            .contains("job:0 has not declared how it is checkpointed"),
        "{}",
        nobody.1
    );
    // Rank 1 speaks for all, but for rank 2, which has a way of its own.
    stage.control(1, &[], &[methods(&[by_signal(12), by_event(-3500)])]);
    stage.control(2, &[], &[methods(&[by_event(-106)])]);
    let begun = stage.control(0, &[], &ckpt());
    assert_eq!(answer(&begun).0, code::PMIX_SUCCESS);
    assert_eq!(
        raised(&begun),
        [(code::PMIX_JCTRL_CHECKPOINT, vec![proc(2)])]
    );
    let [(id, JobAction::Signal(12), signalled)] = &asked_of_host(&begun)[..] else {
        panic!("{begun:?}")
    };
    assert_eq!(*signalled, [proc(0), proc(1), proc(3)]);
    // The host cannot signal rank 3, which is told by its next method.
    let not_done = NotDone {
        proc: proc(3),
        status: code::PMIX_ERR_NOT_FOUND,
        reason: "no process".to_owned(),
    };
    let next = stage.server.controlled(*id, signalled, Ok(vec![not_done]));
    assert_eq!(raised(&next), [(Status(-3500), vec![proc(3)])]);
    for rank in [0, 1, 3] {
        assert!(ended(&stage.complete(rank, vec![])).is_empty());
    }
    assert!(
        ended(&stage.complete(2, vec![text(key::PMIX_JOB_CTRL_CHECKPOINT, "other")])).is_empty(),
        "another one"
    );
    let over = stage.complete(2, vec![text(key::PMIX_JOB_CTRL_CHECKPOINT, "ck")]);
    let [event] = ended(&over)[..] else {
        panic!("{over:?}")
    };
    assert_eq!(
        event.infos.value_of(STATUS),
        Some(&Value::Status(code::PMIX_SUCCESS))
    );
    let recorded = |action: &Action| matches!(action, Action::JobControlEnded { operation, .. } if operation.to_string() == "checkpoint \"ck\"");
    assert!(over.iter().any(recorded), "{over:?}");
    assert_eq!(stage.state("c"), "done");
}

#[test]
fn bare_signal_number_is_sent_despite_declarations() {
    for (declares, number, signal, late) in [
        (false, 12, Some(12), 300),
        (true, 12, Some(12), 300),
        (true, 65, None, 65),
    ] {
        let mut stage = Stage::with_job(StateSettings::default());
        if declares {
            stage.control(0, &[], &[methods(&[by_event(-3500)])]);
        }
        let begun = stage.control(
            0,
            &[],
            &[
                text(key::PMIX_JOB_CTRL_CHECKPOINT, "ck"),
                by_signal(number),
                named("c"),
            ],
        );
        let signals: Vec<JobAction> = asked_of_host(&begun)
            .into_iter()
            .map(|(_, action, _)| action)
            .collect();
        assert_eq!(
            signals,
            signal
                .map(JobAction::Signal)
                .into_iter()
                .collect::<Vec<_>>()
        );
        assert!(stage.wait(Duration::from_secs(late - 1)).is_empty());
        assert_eq!(
            ended(&stage.wait(Duration::from_secs(1))).len(),
            1,
            "after {late} s"
        );
        assert_eq!(stage.state("c"), "failed");
    }
}

/// Returns the directives of a preemption `p` that terminates procs after 10 seconds.
fn preempt() -> [Info; 3] {
    [
        text(PREEMPT, "terminate"),
        Info::new(GRACE, Value::Uint32(10)),
        named("p"),
    ]
}

#[test]
fn preempted_procs_are_alerted_then_checkpoint_within_grace() {
    let mut stage = Stage::with_job(StateSettings::default());
    let (status, why) = answer(&stage.control(0, &[proc(1)], &preempt()));
    assert_eq!(status, code::PMIX_ERR_NO_PERMISSIONS);
    assert!(
        why.contains("job:1 has not declared that it can be preempted"),
        "{why}"
    );
    stage.control(
        1,
        &[],
        &[
            yes(key::PMIX_JOB_CTRL_PREEMPTIBLE),
            methods(&[by_event(-3500)]),
        ],
    );
    let begun = stage.control(0, &[proc(1)], &preempt());
    assert_eq!(
        raised(&begun),
        [
            (code::PMIX_JCTRL_PREEMPT_ALERT, vec![proc(1)]),
            (Status(-3500), vec![proc(1)])
        ]
    );
    assert!(asked_of_host(&begun).is_empty());
    // It is ready before its time.
    let done = stage.complete(1, vec![]);
    assert!(
        matches!(&asked_of_host(&done)[..], [(_, JobAction::Terminate, targets)] if *targets == [proc(1)])
    );

    // Who can make no checkpoint has all of its time.
    let mut stage = Stage::with_job(StateSettings::default());
    stage.control(1, &[], &[yes(key::PMIX_JOB_CTRL_PREEMPTIBLE)]);
    let begun = stage.control(0, &[proc(1)], &preempt());
    assert_eq!(raised(&begun).len(), 1);
    assert!(asked_of_host(&stage.wait(Duration::from_millis(9_999))).is_empty());
    let over = stage.wait(Duration::from_millis(1));
    let [(id, JobAction::Terminate, targets)] = &asked_of_host(&over)[..] else {
        panic!("{over:?}")
    };
    assert_eq!(
        ended(&stage.server.controlled(*id, targets, Ok(Vec::new()))).len(),
        1
    );
    assert_eq!(stage.state("p"), "done");
}

#[test]
fn late_answer_to_checkpoint_signal_is_not_that_of_preemption() {
    let mut stage = Stage::with_job(StateSettings::default());
    stage.control(
        1,
        &[],
        &[
            yes(key::PMIX_JOB_CTRL_PREEMPTIBLE),
            methods(&[by_signal(12)]),
        ],
    );
    let begun = stage.control(0, &[proc(1)], &preempt());
    let [(signal, JobAction::Signal(12), signalled)] = &asked_of_host(&begun)[..] else {
        panic!("{begun:?}")
    };
    let over = stage.wait(Duration::from_secs(10));
    let [(action, JobAction::Terminate, targets)] = &asked_of_host(&over)[..] else {
        panic!("{over:?}")
    };
    let not_done = Err(code::PMIX_ERR_NOT_FOUND);
    let late = stage.server.controlled(*signal, signalled, not_done);
    assert!(late.is_empty(), "{late:?}");
    assert_eq!(stage.state("p"), "running");
    stage.server.controlled(*action, targets, Ok(Vec::new()));
    assert_eq!(stage.state("p"), "done");
}

#[test]
fn preemptions_of_one_moment_have_checkpoints_of_their_own() {
    let mut stage = Stage::with_job(StateSettings::default());
    let mut names = BTreeSet::new();
    for rank in 1..=2 {
        let methods = methods(&[by_event(-3500)]);
        stage.control(rank, &[], &[yes(key::PMIX_JOB_CTRL_PREEMPTIBLE), methods]);
        let targets = [proc(u32::try_from(rank).unwrap())];
        let begun = stage.control(0, &targets, &[text(PREEMPT, "terminate")]);
        let name = |action: &Action| match action {
            Action::Chain { event, .. } => event
                .infos
                .value_of(key::PMIX_JOB_CTRL_CHECKPOINT)
                .and_then(Value::as_str)
                .map(str::to_owned),
            _ => None,
        };
        names.extend(begun.iter().find_map(name));
    }
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn chosen_name_of_generated_form_refuses_no_later_request() {
    let mut stage = Stage::with_job(StateSettings::default());
    // The second request would be named so.
    stage.control(0, &[], &[yes(key::PMIX_JOB_CTRL_PAUSE), named("peal-2")]);
    for _ in 0..2 {
        let begun = stage.control(0, &[], &[yes(key::PMIX_JOB_CTRL_PAUSE)]);
        assert_eq!(asked_of_host(&begun).len(), 1, "{begun:?}");
    }
    let mut names: Vec<String> = stage
        .states(OWNER)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    names.sort();
    assert_eq!(names, ["peal-2", "peal-3", "peal-4"]);
}

#[test]
fn own_requests_can_be_cancelled_before_they_go_too_far() {
    let mut stage = Stage::with_job(StateSettings::default());
    stage.control(0, &[], &[methods(&[by_event(-3500)])]);
    let ckpt = |name: &str| [text(key::PMIX_JOB_CTRL_CHECKPOINT, name), named(name)];
    let cancel = |name: &str| [text(key::PMIX_JOB_CTRL_CANCEL, name)];
    for name in ["a", "b", "c"] {
        stage.control(0, &[], &ckpt(name));
    }
    assert_eq!(
        answer(&stage.control(0, &[], &ckpt("a"))).0,
        code::PMIX_ERR_EXISTS
    );
    assert_eq!(
        answer(&stage.control(1, &[], &cancel("a"))).0,
        code::PMIX_ERR_NOT_FOUND,
        "it is rank 0's"
    );
    let cancelled = stage.control(0, &[], &cancel("a"));
    assert_eq!(
        (answer(&cancelled).0, ended(&cancelled).len()),
        (code::PMIX_SUCCESS, 1)
    );
    let (status, why) = answer(&stage.control(0, &[], &cancel("a")));
    assert_eq!(
        (status, why.as_str()),
        (
            code::PMIX_ERR_INVALID_OPERATION,
            "\"a\" cannot be cancelled: it is cancelled"
        )
    );
    stage.control(0, &[], &[yes(key::PMIX_JOB_CTRL_PAUSE), named("pause")]);
    let (status, why) = answer(&stage.control(0, &[], &cancel("pause")));
    assert_eq!(status, code::PMIX_ERR_INVALID_OPERATION);
    assert_eq!(
        why,
        "\"pause\" cannot be cancelled: the request to pause was already sent to procs"
    );
    let cancel_all = || [Info::new(key::PMIX_JOB_CTRL_CANCEL, Value::String(None))];
    let all = stage.control(0, &[], &cancel_all());
    assert_eq!(
        (answer(&all).0, ended(&all).len()),
        (code::PMIX_ERR_PARTIAL_SUCCESS, 2)
    );
    assert_eq!(
        not_cancelled(&all),
        ["pause: the request to pause was already sent to procs"]
    );
    assert_eq!(
        stage.state("pause"),
        "running",
        "what cannot be cancelled is left alone"
    );
    // Where none of them can be cancelled, nothing has succeeded.
    let none = stage.control(0, &[], &cancel_all());
    assert_eq!(
        (answer(&none).0, not_cancelled(&none).len()),
        (code::PMIX_ERR_INVALID_OPERATION, 1)
    );
    // Another proc has none, and what has ended is not in the way.
    assert_eq!(
        answer(&stage.control(1, &[], &cancel_all())).0,
        code::PMIX_SUCCESS
    );
}

/// The names of the requests that a checked request would reach.
fn reached(actions: &[Action]) -> Vec<String> {
    let infos = actions.iter().find_map(|action| match action {
        Action::Reply {
            reply: Reply::Infos { infos, .. },
            ..
        } => infos.value_of(CHECK),
        _ => None,
    });
    let Some(Value::DataArray(names)) = infos else {
        panic!("{actions:?}")
    };
    let names = names.items().iter().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

#[test]
fn checked_request_is_refused_like_the_request() {
    let mut stage = Stage::with_job(StateSettings {
        max_controls: 6,
        ..StateSettings::default()
    });
    let check = |of: &[Info]| {
        let directives = DataArray::infos(of.to_vec());
        [Info::new(CHECK, Value::DataArray(directives))]
    };
    stage.control(0, &[], &[methods(&[by_event(-3500)])]);
    let ckpt = |name: &str| [text(key::PMIX_JOB_CTRL_CHECKPOINT, name), named(name)];
    stage.control(0, &[], &ckpt("a"));
    stage.control(0, &[], &[yes(key::PMIX_JOB_CTRL_PAUSE), named("pause")]);
    let before = stage.states(OWNER);
    let taken = stage.control(0, &[], &check(&ckpt("a")));
    assert_eq!(answer(&taken).0, code::PMIX_ERR_EXISTS);
    assert_eq!(
        answer(&stage.control(0, &[], &check(&ckpt("b")))).0,
        code::PMIX_SUCCESS
    );
    let cancel = [Info::new(key::PMIX_JOB_CTRL_CANCEL, Value::String(None))];
    let all = stage.control(0, &[], &check(&cancel));
    assert_eq!(answer(&all).0, code::PMIX_ERR_PARTIAL_SUCCESS);
    assert_eq!(reached(&all), ["a"]);
    assert_eq!(
        not_cancelled(&all),
        ["pause: the request to pause was already sent to procs"]
    );
    let nodes = [text(key::PMIX_JOB_CTRL_PROVISION, "n[1-2]")];
    let nobody = answer(&stage.control(0, &[], &nodes));
    assert_ne!(nobody.0, code::PMIX_SUCCESS);
    assert_eq!(answer(&stage.control(0, &[], &check(&nodes))), nobody);
    assert_eq!(stage.states(OWNER), before);
    stage.control(0, &[], &ckpt("b"));
    assert_eq!(
        answer(&stage.control(0, &[], &check(&ckpt("c")))).0,
        code::PMIX_ERR_OUT_OF_RESOURCE,
        "half of them are a user's"
    );
}

/// The requests that an answer says are not cancelled, each with the reason.
fn not_cancelled(actions: &[Action]) -> Vec<String> {
    let infos = actions.iter().find_map(|action| match action {
        Action::Reply {
            reply: Reply::Infos { infos, .. },
            ..
        } => Some(infos),
        _ => None,
    });
    let requests = infos.unwrap().iter().filter(|info| info.key == REQUEST);
    requests
        .map(|request| {
            let Value::DataArray(array) = &request.value else {
                panic!("{request:?}")
            };
            let told: Vec<Info> = array.as_infos().unwrap().into_iter().cloned().collect();
            assert_eq!(
                told.value_of(STATUS),
                Some(&Value::Status(code::PMIX_ERR_INVALID_OPERATION))
            );
            let word = |key| told.value_of(key).and_then(Value::as_str).unwrap();
            format!("{}: {}", word(key::PMIX_JOB_CTRL_ID), word(REASON))
        })
        .collect()
}

#[test]
fn kept_requests_are_bounded_and_hidden_from_other_users() {
    let mut stage = Stage::with_job(StateSettings {
        max_controls: 4,
        ..StateSettings::default()
    });
    let pause = || [yes(key::PMIX_JOB_CTRL_PAUSE)];
    let first = asked_of_host(&stage.control(0, &[], &pause()));
    stage.control(0, &[], &pause());
    assert_eq!(
        answer(&stage.control(0, &[], &pause())).0,
        code::PMIX_ERR_OUT_OF_RESOURCE,
        "half of them are a user's"
    );
    for _ in 0..10 {
        let (id, _, targets) = &first[0];
        stage.server.controlled(*id, targets, Ok(Vec::new()));
        let next = asked_of_host(&stage.control(0, &[], &pause()));
        for (id, _, targets) in next {
            stage.server.controlled(id, &targets, Ok(Vec::new()));
        }
    }
    let states = stage.states(OWNER);
    assert_eq!(
        states
            .iter()
            .filter(|(_, state)| state == "running")
            .count(),
        1
    );
    assert_eq!(states.len(), 5, "{states:?}");
    assert!(stage.states(OTHER).is_empty());
    assert_eq!(stage.states(UserIdentity { uid: 0, gid: 0 }).len(), 5);
}

#[test]
fn denied_requests_are_on_record() {
    let mut stage = Stage::with_job(StateSettings::default());
    let nspace = Nspace::new("theirs").unwrap();
    let hostname = "node".to_owned();
    stage
        .server
        .add_job(JobSpec::new(nspace, 1, hostname, OTHER));
    let theirs = Proc::new(Nspace::new("theirs").unwrap(), Rank(0));
    stage.control(0, &[theirs], &[yes(key::PMIX_JOB_CTRL_KILL), named("k")]);
    let states = stage.states(OWNER);
    assert_eq!(
        states
            .iter()
            .map(|(_, state)| state.as_str())
            .collect::<Vec<_>>(),
        ["denied"],
        "{states:?}"
    );
}

/// The log requests that are to be written, each as subject, addresses and text of its mail.
fn mails(actions: &[Action]) -> Vec<[String; 3]> {
    let mail = |action: &Action| {
        let Action::Log { to: None, request } = action else {
            return None;
        };
        let Some(Value::DataArray(parts)) = request.data.value_of(key::PMIX_LOG_EMAIL) else {
            panic!("{request:?}")
        };
        let parts: Vec<Info> = parts.as_infos().unwrap().into_iter().cloned().collect();
        let word = |key| {
            parts
                .value_of(key)
                .and_then(Value::as_str)
                .unwrap()
                .to_owned()
        };
        Some(
            [
                key::PMIX_LOG_EMAIL_SUBJECT,
                key::PMIX_LOG_EMAIL_ADDR,
                key::PMIX_LOG_EMAIL_MSG,
            ]
            .map(word),
        )
    };
    actions.iter().filter_map(mail).collect()
}

#[test]
fn mail_is_sent_for_request_and_its_end() {
    let mut stage = Stage::with_job(StateSettings::default());
    let mail = |more: &[Info]| {
        let parts = [&[text(key::PMIX_LOG_EMAIL_ADDR, "ops@example.org")], more].concat();
        Info::new(
            key::PMIX_LOG_EMAIL,
            Value::DataArray(DataArray::infos(parts)),
        )
    };
    let begun = stage.control(
        0,
        &[proc(1)],
        &[yes(key::PMIX_JOB_CTRL_PAUSE), named("p"), mail(&[])],
    );
    let head = "Request \"p\", pause of 1 procs (job:1)";
    let told = |state: &str| {
        [
            format!("pause: {state}"),
            "ops@example.org".to_owned(),
            format!("{head}: {state}."),
        ]
    };
    assert_eq!(mails(&begun), [told("running")]);
    let [(id, _, targets)] = &asked_of_host(&begun)[..] else {
        panic!("{begun:?}")
    };
    assert_eq!(
        mails(&stage.server.controlled(*id, targets, Ok(Vec::new()))),
        [told("done")]
    );
    // The requester's own words come first.
    let own = mail(&[
        text(key::PMIX_LOG_EMAIL_SUBJECT, "look"),
        text(key::PMIX_LOG_EMAIL_MSG, "hello"),
    ]);
    let begun = stage.control(
        0,
        &[proc(1)],
        &[yes(key::PMIX_JOB_CTRL_RESUME), named("r"), own],
    );
    let [[subject, _, text]] = &mails(&begun)[..] else {
        panic!("{begun:?}")
    };
    assert!(
        subject == "look" && text.starts_with("hello\n\nRequest \"r\", resume"),
        "{subject}: {text}"
    );
}

#[test]
fn nodes_come_from_granting_module_and_request_end_answers() {
    let ask = |stage: &mut Stage| {
        let nodes = text(key::PMIX_JOB_CTRL_PROVISION, "node[01-03],login1");
        stage.control(
            0,
            &[],
            &[
                nodes,
                text(key::PMIX_JOB_CTRL_PROVISION_IMAGE, "c7"),
                named("n"),
            ],
        )
    };
    let mut stage = Stage::with_job(StateSettings::default());
    let refused = ask(&mut stage);
    let [Action::Denied(denial), Action::Reply { .. }] = &refused[..] else {
        panic!("{refused:?}")
    };
    let requester = denial.requester.clone().unwrap();
    assert_eq!((denial.hook, requester), (Hook::Provision, proc(0)));
    let (status, why) = answer(&refused);
    assert_eq!(status, code::PMIX_ERR_NOT_SUPPORTED);
    assert!(why.contains("no provisioner"), "{why}");
    let said = || vec![text(KeyName("site.ticket"), "4711")];
    let granted = Verdict::Granted {
        by: DecidedBy::Policy("p".into()),
        amended: vec![],
        range: None,
        data: None,
        answer: said(),
    };
    let by = DecidedBy::Policy("p".into());
    let status = code::PMIX_ERR_OUT_OF_RESOURCE;
    let denied = Verdict::Denied(DeniedVerdict {
        by,
        status,
        reasons: vec![text(REASON, "all are taken")],
    });
    for (verdict, state, status, word) in [
        (
            granted,
            "done",
            code::PMIX_SUCCESS,
            (KeyName("site.ticket"), "4711"),
        ),
        (
            denied,
            "denied",
            code::PMIX_ERR_OUT_OF_RESOURCE,
            (REASON, "all are taken"),
        ),
    ] {
        stage
            .server
            .guard(UserIdentity { uid: 500, gid: 500 }, [Hook::Provision]);
        let begun = ask(&mut stage);
        assert_eq!(
            (answer(&begun).0, stage.state("n").as_str()),
            (code::PMIX_SUCCESS, "accepted")
        );
        let Some(Action::Decide { id, request }) = begun.last() else {
            panic!("{begun:?}")
        };
        let PolicySubject::Provision(provision) = &request.subject else {
            panic!("{request:?}")
        };
        assert_eq!(provision.nodes, ["node01", "node02", "node03", "login1"]);
        assert_eq!(provision.image.as_deref(), Some("c7"));
        let over = stage.server.decided(*id, verdict);
        let [event] = ended(&over)[..] else {
            panic!("{over:?}")
        };
        assert_eq!(event.infos.value_of(STATUS), Some(&Value::Status(status)));
        assert_eq!(
            event.infos.value_of(word.0).and_then(Value::as_str),
            Some(word.1)
        );
        assert_eq!(stage.state("n"), state);
    }
    let (status, why) =
        answer(&stage.control(0, &[], &[text(key::PMIX_JOB_CTRL_PROVISION, "node[3-1]")]));
    assert_eq!(status, code::PMIX_ERR_BAD_PARAM);
    assert!(
        why.contains("pmix.jctrl.pvn") && why.contains("no range"),
        "{why}"
    );
}

/// A step while checkpoints are made.
#[derive(Clone, Debug)]
enum Step {
    /// A checkpoint of these ranks, which may take so many seconds.
    Begin(BTreeSet<u32>, u64),
    /// A rank says of one checkpoint, or of all that there are, that it has made it or not.
    Tell(u32, Option<usize>, bool),
    /// A rank is gone.
    Leave(u32),
    /// One is taken back.
    Cancel(usize),
    /// So many seconds pass.
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (prop::collection::btree_set(0..SIZE, 1..=SIZE as usize), 1u64..60).prop_map(|(r, t)| Step::Begin(r, t)),
        6 => (0..SIZE, prop::option::of(0usize..6), any::<bool>()).prop_map(|(r, c, ok)| Step::Tell(r, c, ok)),
        1 => (1..SIZE).prop_map(Step::Leave),
        1 => (0usize..6).prop_map(Step::Cancel),
        2 => (0u64..40).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..40)
}

/// A model of one checkpoint without a ledger: the awaited procs, the failed ones, and the end.
#[derive(Debug)]
struct Known {
    waits_for: BTreeSet<u32>,
    failed: bool,
    until: u64,
    state: &'static str,
}

impl Known {
    fn settle(&mut self) {
        if self.state == "running" && self.waits_for.is_empty() {
            self.state = if self.failed { "failed" } else { "done" };
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(2000), ..ProptestConfig::default() })]

    #[test]
    fn checkpoint_ends_with_statuses_of_its_procs(steps in steps()) {
        let mut stage = Stage::with_job(StateSettings { connection_loss_window: Duration::ZERO, ..StateSettings::default() });
        stage.control(0, &[], &[methods(&[by_event(-3500)])]);
        let mut known: BTreeMap<usize, Known> = BTreeMap::new();
        let (mut gone, mut now): (BTreeSet<u32>, u64) = (BTreeSet::new(), 0);
        for step in steps {
            match step {
                Step::Begin(ranks, seconds) => {
                    let name = format!("ck{}", known.len());
                    let targets: Vec<Proc> = ranks.iter().map(|rank| proc(*rank)).collect();
                    let time = Info::new(key::PMIX_TIMEOUT, Value::Int(i32::try_from(seconds).unwrap()));
                    stage.control(0, &targets, &[text(key::PMIX_JOB_CTRL_CHECKPOINT, &name), named(&name), time]);
                    let failed = ranks.intersection(&gone).next().is_some();
                    let waits_for = ranks.difference(&gone).copied().collect();
                    let until = now + seconds;
                    let mut checkpoint = Known { waits_for, failed, until, state: "running" };
                    checkpoint.settle();
                    known.insert(known.len(), checkpoint);
                }
                Step::Tell(rank, which, made) => {
                    if gone.contains(&rank) {
                        continue;
                    }
                    let status = if made { code::PMIX_SUCCESS } else { code::PMIX_ERROR };
                    let mut infos = vec![Info::new(STATUS, Value::Status(status))];
                    infos.extend(which.map(|which| text(key::PMIX_JOB_CTRL_CHECKPOINT, &format!("ck{which}"))));
                    stage.complete(rank as usize, infos);
                    for (number, checkpoint) in &mut known {
                        let is_meant = which.is_none_or(|which| which == *number) && checkpoint.state == "running";
                        if is_meant && checkpoint.waits_for.remove(&rank) {
                            checkpoint.failed |= !made;
                            checkpoint.settle();
                        }
                    }
                }
                Step::Leave(rank) => {
                    stage.server.disconnected(stage.peers[rank as usize], stage.now);
                    gone.insert(rank);
                    for checkpoint in known.values_mut().filter(|checkpoint| checkpoint.state == "running") {
                        checkpoint.failed |= checkpoint.waits_for.remove(&rank);
                        checkpoint.settle();
                    }
                }
                Step::Cancel(number) => {
                    stage.control(0, &[], &[text(key::PMIX_JOB_CTRL_CANCEL, &format!("ck{number}"))]);
                    if let Some(checkpoint) = known.get_mut(&number).filter(|checkpoint| checkpoint.state == "running") {
                        checkpoint.state = "cancelled";
                    }
                }
                Step::Wait(seconds) => {
                    now += seconds;
                    stage.wait(Duration::from_secs(seconds));
                    for checkpoint in known.values_mut() {
                        if checkpoint.state == "running" && checkpoint.until <= now {
                            checkpoint.state = "failed";
                        }
                    }
                }
            }
            for (number, checkpoint) in &known {
                prop_assert_eq!(stage.state(&format!("ck{number}")), checkpoint.state, "{}", number);
            }
        }
        let next = known.values().filter(|checkpoint| checkpoint.state == "running").map(|checkpoint| checkpoint.until).min();
        prop_assert_eq!(stage.server.deadline(), next.map(|seconds| MonotonicTime(seconds * 1000)));
    }
}

//! Checkpoints and preemptions of procs of several servers.
use super::{
    cluster::{Cluster, USER, status},
    requests::{ask, outcomes, over_three_servers_with},
    trust::{nspace, proc, refused},
};
use peal_core::{
    group::ServerId,
    job_control::{
        CheckpointMethod, Declaration, GRACE, PREEMPT, ProcsOfMethods, STATUS, ServerCheckpoint,
    },
    policy::REASON,
    server::{
        MessageRefusal, ProcDeclaration, ServerAnswer, ServerRequest, ServerRequestId,
        ServerRequestMessage, ServerState, StateSettings,
    },
};
use peal_model::{
    DataArray, Event, Info, Infos, KeyName, PolicySubject, Proc, Query, Range, Reply, Request,
    Status, UserIdentity, Value, code, key,
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// The event by which procs are asked for a checkpoint.
const ASKED: Status = Status(-700);

pub fn checkpoint(targets: Vec<Proc>) -> Request {
    control(
        targets,
        vec![Info::new(
            key::PMIX_JOB_CTRL_CHECKPOINT,
            Value::string("ck"),
        )],
    )
}

/// Pauses procs after a grace period of five seconds.
pub fn preempt(targets: Vec<Proc>) -> Request {
    control(
        targets,
        vec![
            Info::new(PREEMPT, Value::string("pause")),
            Info::new(GRACE, Value::Uint32(5)),
        ],
    )
}

fn control(targets: Vec<Proc>, directives: Vec<Info>) -> Request {
    Request::JobControl {
        targets,
        directives,
    }
}

/// The report of a proc about its checkpoint.
pub fn report(status: Status) -> Request {
    Request::Notify {
        code: code::PMIX_JCTRL_CHECKPOINT_COMPLETE,
        range: Range::Rm,
        infos: vec![Info::new(STATUS, Value::Status(status))],
    }
}

pub fn by_signal() -> Info {
    Info::new(key::PMIX_JOB_CTRL_CHECKPOINT_SIGNAL, Value::Int(10))
}

fn by_event() -> Info {
    Info::new(key::PMIX_JOB_CTRL_CHECKPOINT_EVENT, Value::Status(ASKED))
}

/// Lets a proc declare that it may be preempted, and its checkpoint method.
pub fn declare(cluster: &mut Cluster, rank: u32, method: Info) {
    let methods = Info::new(
        key::PMIX_JOB_CTRL_CHECKPOINT_METHOD,
        Value::DataArray(DataArray::infos([method])),
    );
    let preemptible = Info::new(key::PMIX_JOB_CTRL_PREEMPTIBLE, Value::Bool(true));
    let request = control(Vec::new(), vec![methods, preemptible]);
    let call = cluster.request(&proc("job", rank), request);
    assert_eq!(cluster.calls[call].status(), Some(code::PMIX_SUCCESS));
}

/// Returns the names of the requests of a server that have not ended, each with its state.
pub fn open_requests(server: &ServerState) -> Vec<String> {
    let query = Query {
        keys: vec![Some(key::PMIX_JOB_CTRL_ID.0.into())],
        qualifiers: Vec::new(),
    };
    let root = UserIdentity { uid: 0, gid: 0 };
    let Some(Value::DataArray(all)) = server
        .query_controls(root, &[query])
        .map(|requests| requests.value)
    else {
        panic!("not answered")
    };
    let states = all.as_infos().unwrap().into_iter().map(|request| {
        let Value::DataArray(infos) = &request.value else {
            panic!("{request:?}")
        };
        let infos: Vec<Info> = infos.as_infos().unwrap().into_iter().cloned().collect();
        let text = |key| infos.value_of(key).and_then(Value::as_str).unwrap_or("");
        let state = text(KeyName("peal.jctrl.state"));
        format!("{} {state}", text(key::PMIX_JOB_CTRL_ID))
    });
    let is_open = |state: &String| state.ends_with("running") || state.ends_with("accepted");
    states.filter(is_open).collect()
}

/// A job over three servers whose procs hear all events of checkpoints.
fn listening() -> Cluster {
    listening_with(&StateSettings::default())
}

fn listening_with(settings: &StateSettings) -> Cluster {
    let mut cluster = over_three_servers_with(1, settings);
    for rank in 0..5 {
        let request = Request::RegisterEvents {
            codes: vec![
                ASKED,
                code::PMIX_JCTRL_PREEMPT_ALERT,
                Status::PEAL_JOB_CONTROL_ENDED,
            ],
            infos: Vec::new(),
        };
        let call = cluster.request(&proc("job", rank), request);
        assert_eq!(status(&cluster.calls[call].answers[0]), code::PMIX_SUCCESS);
    }
    cluster
}

fn all() -> Vec<Proc> {
    vec![Proc::all(nspace("job"))]
}

/// Returns the procs that have heard an event of this code.
fn heard(cluster: &Cluster, code: Status) -> BTreeSet<u32> {
    let heard = cluster.heard.iter();
    let heard = heard.filter(|(_, event)| event.code == code);
    heard.map(|(proc, _)| proc.rank.0).collect()
}

/// Returns the infos of the only event about the end of a request, which its requester hears.
fn ended(cluster: &Cluster) -> Vec<Info> {
    let heard = cluster.heard.iter();
    let ends: Vec<_> = heard
        .filter(|(_, event)| event.code == Status::PEAL_JOB_CONTROL_ENDED)
        .collect();
    let [(requester, event)] = &ends[..] else {
        panic!("{ends:?}")
    };
    assert_eq!(*requester, proc("job", 0));
    event.infos.clone()
}

fn end_status(infos: &[Info]) -> Status {
    let status = infos.value_of(STATUS);
    status.and_then(Value::as_status).unwrap()
}

#[test]
fn checkpoint_is_made_on_all_nodes_by_what_procs_declared() {
    let mut cluster = listening();
    cluster.latency = 50;
    // One proc of another node for itself, and another one for the whole job.
    declare(&mut cluster, 2, by_event());
    declare(&mut cluster, 4, by_signal());
    let Request::JobControl {
        targets,
        mut directives,
    } = checkpoint(all())
    else {
        unreachable!()
    };
    directives.push(Info::new(key::PMIX_JOB_CTRL_ID, Value::string("night")));
    let call = cluster.request(&proc("job", 0), control(targets, directives));
    assert!(cluster.calls[call].answers.is_empty(), "before the others");
    cluster.pass(1_000);
    assert_eq!(cluster.calls[call].status(), Some(code::PMIX_SUCCESS));
    assert_eq!(heard(&cluster, ASKED), [0, 1, 2, 3].into());
    assert_eq!(cluster.controlled, [proc("job", 4)]);
    // All procs are told the name of the one request.
    let name = Value::string("night");
    let asked = cluster
        .heard
        .iter()
        .filter(|(_, event)| event.code == ASKED);
    for (_, event) in asked {
        assert_eq!(event.infos.value_of(key::PMIX_JOB_CTRL_ID), Some(&name));
    }
    // What is recorded where it was done.
    let named = Info::new(key::PMIX_JOB_CTRL_CHECKPOINT, Value::string("ck"));
    let mut recorded: Vec<(Vec<Info>, Vec<Proc>)> = cluster
        .orders
        .iter()
        .map(|order| {
            let PolicySubject::JobControl(subject) = &order.request.subject else {
                panic!("{order:?}")
            };
            assert_eq!(order.from, ServerId(2));
            assert_eq!(order.request.requester, Some(proc("job", 0)));
            assert_eq!(order.request.identity, Some(USER));
            let targets = order.request.targets.iter();
            let targets = targets.map(|target| target.proc.clone()).collect();
            (subject.directives.clone(), targets)
        })
        .collect();
    recorded.sort_by_key(|(_, targets)| targets.clone());
    let expected = [
        (
            vec![named.clone(), by_event()],
            vec![proc("job", 2), proc("job", 3)],
        ),
        (vec![named, by_signal()], vec![proc("job", 4)]),
    ];
    assert_eq!(recorded, expected);
    for rank in 0..5 {
        assert_eq!(heard(&cluster, Status::PEAL_JOB_CONTROL_ENDED), [].into());
        let status = if rank == 3 {
            code::PMIX_ERR_FILE_WRITE_FAILURE
        } else {
            code::PMIX_SUCCESS
        };
        cluster.request(&proc("job", rank), report(status));
        cluster.pass(1_000);
    }
    let infos = ended(&cluster);
    assert_eq!(end_status(&infos), code::PMIX_ERR_PARTIAL_SUCCESS);
    let failed = (proc("job", 3), code::PMIX_ERR_FILE_WRITE_FAILURE);
    assert_eq!(outcomes(&infos), [failed].into());
    for server in cluster.servers.values() {
        assert_eq!(open_requests(server), Vec::<String>::new());
    }
}

#[test]
fn named_method_needs_no_declaration() {
    let mut cluster = listening();
    let directives = vec![
        Info::new(key::PMIX_JOB_CTRL_CHECKPOINT, Value::string("ck")),
        by_event(),
    ];
    let request = control(vec![proc("job", 1), proc("job", 3)], directives);
    let call = cluster.request(&proc("job", 0), request);
    cluster.pass(1_000);
    assert_eq!(cluster.calls[call].status(), Some(code::PMIX_SUCCESS));
    assert_eq!(heard(&cluster, ASKED), [1, 3].into());
}

#[test]
fn nothing_begins_if_one_proc_cannot_take_part() {
    let no_declaration = code::PMIX_ERR_NOT_SUPPORTED;
    for (request, status) in [
        (checkpoint(all()), no_declaration),
        (preempt(all()), code::PMIX_ERR_NO_PERMISSIONS),
    ] {
        let mut cluster = listening();
        let call = cluster.request(&proc("job", 0), request);
        cluster.pass(1_000);
        let [
            Reply::Infos {
                status: told,
                infos,
            },
        ] = &cluster.calls[call].answers[..]
        else {
            panic!("{:?}", cluster.calls[call])
        };
        assert_eq!(*told, status);
        assert!(infos.value_of(REASON).is_some(), "{infos:?}");
        cluster.pass(600_000);
        assert_eq!(cluster.heard, []);
        assert_eq!(cluster.controlled, []);
    }
}

#[test]
fn procs_of_all_nodes_are_preempted_when_all_are_prepared() {
    for prepares in [true, false] {
        let mut cluster = listening();
        cluster.latency = 50;
        declare(&mut cluster, 3, by_event());
        let call = cluster.request(&proc("job", 0), preempt(all()));
        cluster.pass(1_000);
        assert_eq!(cluster.calls[call].status(), Some(code::PMIX_SUCCESS));
        let everyone: BTreeSet<u32> = (0..5).collect();
        assert_eq!(heard(&cluster, code::PMIX_JCTRL_PREEMPT_ALERT), everyone);
        assert_eq!(heard(&cluster, ASKED), everyone);
        assert_eq!(cluster.controlled, []);
        for rank in 0..5 {
            if prepares || rank != 4 {
                cluster.request(&proc("job", rank), report(code::PMIX_SUCCESS));
            }
        }
        cluster.pass(1_000);
        assert_eq!(cluster.controlled.is_empty(), !prepares);
        cluster.pass(5_000);
        cluster.controlled.sort();
        assert_eq!(
            cluster.controlled,
            (0..5).map(|rank| proc("job", rank)).collect::<Vec<_>>()
        );
        let infos = ended(&cluster);
        assert_eq!(end_status(&infos), code::PMIX_SUCCESS);
        let late = (proc("job", 4), code::PMIX_ERR_TIMEOUT);
        let expected = if prepares { vec![] } else { vec![late] };
        assert_eq!(outcomes(&infos), expected.into_iter().collect());
    }
}

#[test]
fn alert_for_many_procs_is_told_in_parts() {
    let settings = StateSettings {
        max_event_bytes: 550,
        ..StateSettings::default()
    };
    let mut cluster = listening_with(&settings);
    declare(&mut cluster, 3, by_event());
    cluster.request(&proc("job", 0), preempt(all()));
    cluster.pass(1_000);
    let alerts = |(_, event): &&(Proc, Arc<Event>)| event.code == code::PMIX_JCTRL_PREEMPT_ALERT;
    let alerts: Vec<_> = cluster.heard.iter().filter(alerts).collect();
    let mut alerted: Vec<u32> = alerts.iter().map(|(proc, _)| proc.rank.0).collect();
    alerted.sort_unstable();
    assert_eq!(alerted, [0, 1, 2, 3, 4], "each proc hears one alert");
    let largest = alerts
        .iter()
        .map(|(_, event)| event.custom_targets().unwrap().len());
    assert_eq!(largest.max(), Some(3));
}

#[test]
fn declaration_of_another_node_holds_for_the_whole_job() {
    let mut cluster = listening();
    declare(&mut cluster, 4, by_event());
    // Only the server of the last proc knows the method, and has no target.
    for target in [1, 3] {
        let request = checkpoint(vec![proc("job", target)]);
        let call = cluster.request(&proc("job", 0), request);
        cluster.pass(1_000);
        assert_eq!(cluster.calls[call].status(), Some(code::PMIX_SUCCESS));
    }
    assert_eq!(heard(&cluster, ASKED), [1, 3].into());
}

#[test]
fn nothing_begins_without_servers_of_all_procs() {
    for (request, dies_before) in [
        (checkpoint(all()), true),
        (checkpoint(all()), false),
        (preempt(all()), true),
        (preempt(all()), false),
    ] {
        let mut cluster = listening();
        declare(&mut cluster, 0, by_event());
        if dies_before {
            cluster.server_dies(ServerId(3));
            cluster.pass(1_000);
        }
        let call = cluster.request(&proc("job", 0), request);
        cluster.server_dies(ServerId(3));
        cluster.pass(600_000);
        let [Reply::Infos { status, infos }] = &cluster.calls[call].answers[..] else {
            panic!("{:?}", cluster.calls[call])
        };
        let reason = if dies_before {
            code::PMIX_ERR_NOT_SUPPORTED
        } else {
            code::PMIX_ERR_UNREACH
        };
        assert_eq!(*status, reason);
        let named: BTreeSet<Status> = outcomes(infos).into_iter().map(|(_, why)| why).collect();
        assert_eq!(named, [reason].into());
        assert_eq!(cluster.controlled, []);
        assert_eq!(heard(&cluster, ASKED), [].into());
        assert_eq!(heard(&cluster, code::PMIX_JCTRL_PREEMPT_ALERT), [].into());
    }
}

#[test]
fn silent_server_is_waited_for_and_reported() {
    let mut cluster = listening();
    declare(&mut cluster, 0, by_event());
    // Its trail never takes the record.
    cluster.stuck.insert(ServerId(4));
    let call = cluster.request(&proc("job", 0), checkpoint(all()));
    cluster.pass(1_000);
    assert_eq!(cluster.calls[call].status(), Some(code::PMIX_SUCCESS));
    assert_eq!(heard(&cluster, ASKED), [0, 1, 2, 3].into());
    for rank in 0..4 {
        cluster.request(&proc("job", rank), report(code::PMIX_SUCCESS));
    }
    cluster.pass(600_000);
    let infos = ended(&cluster);
    assert_eq!(end_status(&infos), code::PMIX_ERR_PARTIAL_SUCCESS);
    let late = (proc("job", 4), code::PMIX_ERR_TIMEOUT);
    assert_eq!(outcomes(&infos), [late].into());
}

#[test]
fn operation_without_record_is_not_begun() {
    let mut cluster = listening();
    declare(&mut cluster, 0, by_signal());
    cluster.recorded = Err(code::PMIX_ERR_NOT_AVAILABLE);
    let kill = control(
        vec![proc("job", 4)],
        vec![Info::new(key::PMIX_JOB_CTRL_KILL, Value::Bool(true))],
    );
    let killed = cluster.request(&proc("job", 0), kill);
    cluster.request(&proc("job", 0), checkpoint(vec![proc("job", 3)]));
    cluster.pass(1_000);
    assert_eq!(
        cluster.calls[killed].status(),
        Some(code::PMIX_ERR_NOT_AVAILABLE)
    );
    assert_eq!(end_status(&ended(&cluster)), code::PMIX_ERR_NOT_AVAILABLE);
    assert_eq!(cluster.controlled, []);
    assert_eq!(cluster.orders.len(), 2);
}

#[test]
fn cancelled_checkpoint_is_over_for_its_requester() {
    let mut cluster = listening();
    declare(&mut cluster, 0, by_event());
    let call = cluster.request(&proc("job", 0), checkpoint(all()));
    cluster.pass(1_000);
    assert_eq!(cluster.calls[call].status(), Some(code::PMIX_SUCCESS));
    let cancel = Info::new(key::PMIX_JOB_CTRL_CANCEL, Value::String(None));
    let before: usize = cluster
        .servers
        .values()
        .map(|of| open_requests(of).len())
        .sum();
    assert_eq!(
        before, 3,
        "at the server of the requester and at the others"
    );
    // A tool of the same user at another server cannot.
    let call = cluster.request(&proc("job", 4), control(Vec::new(), vec![cancel.clone()]));
    assert_eq!(cluster.calls[call].status(), Some(code::PMIX_SUCCESS));
    cluster.pass(1_000);
    assert_eq!(open_requests(&cluster.servers[&ServerId(4)]).len(), 1);
    let call = cluster.request(&proc("job", 0), control(Vec::new(), vec![cancel]));
    assert_eq!(cluster.calls[call].status(), Some(code::PMIX_SUCCESS));
    cluster.pass(1_000);
    assert_eq!(end_status(&ended(&cluster)), code::PMIX_ERR_JOB_CANCELED);
    for server in cluster.servers.values() {
        assert_eq!(open_requests(server), Vec::<String>::new());
    }
}

#[test]
fn checkpoint_is_over_when_the_server_that_ordered_it_has_left() {
    let mut cluster = listening();
    declare(&mut cluster, 0, by_event());
    cluster.request(&proc("job", 0), checkpoint(all()));
    cluster.pass(1_000);
    cluster.server_dies(ServerId(2));
    cluster.pass(1_000);
    for server in cluster.servers.values() {
        assert_eq!(open_requests(server), Vec::<String>::new());
    }
}

fn answer(answer: ServerAnswer) -> ServerRequestMessage {
    ServerRequestMessage::Answer {
        id: ServerRequestId(0),
        answer,
    }
}

#[test]
fn servers_tell_declarations_of_their_own_procs_alone() {
    let mut cluster = super::trust::cluster();
    let right = ask(ServerRequest::Declarations([nspace("right")].into()));
    assert_eq!(
        refused(&mut cluster, 2, 3, right.clone()),
        Some(MessageRefusal::NoPart(nspace("right")))
    );
    assert_eq!(refused(&mut cluster, 4, 3, right), None);
    let declared = ProcDeclaration {
        proc: proc("left", 0),
        declaration: Declaration::default(),
    };
    assert_eq!(
        refused(
            &mut cluster,
            3,
            2,
            answer(ServerAnswer::Declared(vec![declared]))
        ),
        Some(MessageRefusal::ForeignProc(proc("left", 0)))
    );
}

#[test]
fn ordered_checkpoint_is_checked_as_an_action_is() {
    let order_of = |name: &str, target: Proc, methods: Vec<CheckpointMethod>| {
        ask(ServerRequest::Checkpoint {
            requester: None,
            checkpoint: ServerCheckpoint {
                request: "peal-1".to_owned(),
                name: name.to_owned(),
                timeout: Duration::from_secs(1),
                procs: vec![ProcsOfMethods {
                    methods,
                    procs: vec![target],
                }],
            },
        })
    };
    let order = |target, methods| order_of("ck", target, methods);
    let mut cluster = super::trust::cluster();
    let signal = vec![CheckpointMethod::Signal(10)];
    for name in ["", "two\nlines", &"x".repeat(257)] {
        let order = order_of(name, proc("left", 1), signal.clone());
        assert_eq!(refused(&mut cluster, 2, 3, order), None);
    }
    assert_eq!(
        refused(&mut cluster, 2, 3, order(proc("right", 0), signal.clone())),
        Some(MessageRefusal::NoPart(nspace("right")))
    );
    for wrong in [
        vec![],
        vec![CheckpointMethod::Signal(0)],
        vec![CheckpointMethod::Signal(65)],
        vec![CheckpointMethod::Event(Status(0))],
        vec![CheckpointMethod::Signal(10); 17],
    ] {
        let order = order(proc("left", 1), wrong);
        assert_eq!(refused(&mut cluster, 2, 3, order), None);
    }
    assert_eq!(cluster.orders, []);
    let right = order(proc("left", 1), signal);
    assert_eq!(refused(&mut cluster, 2, 3, right), None);
    assert_eq!(cluster.controlled, [proc("left", 1)]);
}

//! Control of procs of other servers, and queries about them.
use super::{
    checkpoints,
    cluster::{Call, Cluster, FoundByServers, USER, seeds},
    trust::{cluster, nspace, proc, refused},
};
use peal_core::{
    group::ServerId,
    job_control::{self, JobAction, JobControlOperation, NotDone, OUTCOME, RequestedAction},
    server::{
        MessageRefusal, ServerAnswer, ServerQueryId, ServerRequest, ServerRequestId,
        ServerRequestMessage, StateSettings,
    },
    targets::JobRanks,
};
use peal_model::{
    Info, Infos, JobControlSubject, Nspace, PolicyRequest, PolicySubject, Proc, Query, Rank, Reply,
    Request, Status, TargetProc, Value, code, key, rank,
};
use std::collections::BTreeSet;

fn kill(targets: Vec<Proc>) -> Request {
    Request::JobControl {
        targets,
        directives: vec![Info::new(key::PMIX_JOB_CTRL_KILL, Value::Bool(true))],
    }
}

/// A job of five procs on three of four servers.
fn over_three_servers(seed: u64) -> Cluster {
    over_three_servers_with(seed, &StateSettings::default())
}

pub fn over_three_servers_with(seed: u64, settings: &StateSettings) -> Cluster {
    let mut cluster = Cluster::new(4, seed, settings);
    cluster.add_job("job", &[(2, &[0, 1]), (3, &[2, 3]), (4, &[4])]);
    cluster.deliver_all();
    cluster
}

/// Returns the procs that an answer reports, each with its status.
fn not_done(call: &Call) -> BTreeSet<(Proc, Status)> {
    let [Reply::Infos { infos, .. }] = &call.answers[..] else {
        panic!("{call:?}")
    };
    outcomes(infos)
}

/// Returns the procs that infos report, each with its status.
pub fn outcomes(infos: &[Info]) -> BTreeSet<(Proc, Status)> {
    let outcomes = infos.iter().filter(|info| info.key == OUTCOME);
    let outcome = |info: &Info| {
        let Value::DataArray(array) = &info.value else {
            panic!("{info:?}")
        };
        let infos: Vec<Info> = array.as_infos().unwrap().into_iter().cloned().collect();
        let Some(Value::Proc(proc)) = infos.value_of(key::PMIX_PROCID) else {
            panic!("{infos:?}")
        };
        let status = infos.iter().find_map(|info| match &info.value {
            Value::Status(status) => Some(*status),
            _ => None,
        });
        (proc.clone(), status.unwrap())
    };
    outcomes.map(outcome).collect()
}

#[test]
fn all_procs_of_a_job_are_controlled_wherever_they_are() {
    let all = Proc::new(nspace("job"), rank::PMIX_RANK_WILDCARD);
    let singly: Vec<Proc> = (0..5).map(|rank| proc("job", rank)).collect();
    for (seed, targets) in [vec![all.clone()], singly.clone(), vec![all, proc("job", 4)]]
        .into_iter()
        .enumerate()
    {
        let mut cluster = over_three_servers(seed as u64);
        cluster.latency = 50;
        let call = cluster.request(&proc("job", 0), kill(targets));
        assert!(cluster.calls[call].answers.is_empty(), "before the others");
        cluster.pass(1_000);
        assert_eq!(cluster.calls[call].status(), Some(code::PMIX_SUCCESS));
        cluster.controlled.sort();
        assert_eq!(cluster.controlled, singly);
    }
    // One proc of another server alone.
    let mut cluster = over_three_servers(9);
    let call = cluster.request(&proc("job", 0), kill(vec![proc("job", 3)]));
    cluster.pass(1_000);
    assert_eq!(cluster.calls[call].status(), Some(code::PMIX_SUCCESS));
    assert_eq!(cluster.controlled, [proc("job", 3)]);
    // What is recorded where it was done.
    let [order] = &cluster.orders[..] else {
        panic!("{:?}", cluster.orders)
    };
    let killed = TargetProc {
        proc: proc("job", 3),
        owner: Some(USER),
    };
    let subject = JobControlSubject {
        directives: vec![Info::new(key::PMIX_JOB_CTRL_KILL, Value::Bool(true))],
        ..JobControlSubject::default()
    };
    let PolicyRequest {
        requester,
        identity,
        targets,
        ..
    } = &*order.request;
    assert_eq!(order.from, ServerId(2));
    assert_eq!(order.request.subject, PolicySubject::JobControl(subject));
    assert_eq!(*requester, Some(proc("job", 0)));
    assert_eq!((*identity, &targets[..]), (Some(USER), &[killed][..]));
}

#[test]
fn directive_of_an_action_requests_that_action() {
    let actions = [
        JobAction::Terminate,
        JobAction::Kill,
        JobAction::Signal(10),
        JobAction::Pause,
        JobAction::Resume,
        JobAction::Restart { checkpoint: None },
        JobAction::Restart {
            checkpoint: Some("first".to_owned()),
        },
    ];
    for action in actions {
        let target = proc("job", 0);
        let all_of_two = |_: &Nspace| {
            let local = (0..2).map(Rank).collect();
            Some(JobRanks { local, size: None })
        };
        let directives = vec![action.directive()];
        let targets = vec![target.clone()];
        let parsed = job_control::read(None, &targets, directives, all_of_two).unwrap();
        let RequestedAction::Operate {
            operation,
            targets: resolved,
        } = parsed.action
        else {
            panic!("{parsed:?}")
        };
        assert_eq!(operation, JobControlOperation::Act(action));
        assert_eq!(resolved.local, targets);
    }
}

#[test]
fn missing_servers_are_reported_and_waited_for_no_longer() {
    let all = vec![Proc::new(nspace("job"), rank::PMIX_RANK_WILDCARD)];
    let mut cluster = over_three_servers(1);
    cluster.stuck.insert(ServerId(3));
    let call = cluster.request(&proc("job", 0), kill(all.clone()));
    cluster.pass(29_000);
    assert!(cluster.calls[call].answers.is_empty());
    cluster.pass(2_000);
    let partial = Some(code::PMIX_ERR_PARTIAL_SUCCESS);
    assert_eq!(cluster.calls[call].status(), partial);
    let late = |rank| (proc("job", rank), code::PMIX_ERR_TIMEOUT);
    assert_eq!(
        not_done(&cluster.calls[call]),
        [late(2), late(3)].into_iter().collect()
    );

    let mut cluster = over_three_servers(1);
    cluster.stuck.insert(ServerId(3));
    let call = cluster.request(&proc("job", 0), kill(all));
    cluster.server_dies(ServerId(3));
    cluster.pass(1_000);
    assert_eq!(cluster.calls[call].status(), partial);
    let left = |rank| (proc("job", rank), code::PMIX_ERR_UNREACH);
    assert_eq!(
        not_done(&cluster.calls[call]),
        [left(2), left(3)].into_iter().collect()
    );
}

#[test]
fn each_request_is_answered_once_whatever_dies() {
    for seed in seeds(300) {
        let mut cluster = over_three_servers(seed);
        cluster.latency = 200;
        let declarer = u32::try_from(cluster.random.below(5)).unwrap();
        checkpoints::declare(&mut cluster, declarer, checkpoints::by_signal());
        let all = Proc::new(nspace("job"), rank::PMIX_RANK_WILDCARD);
        for step in 0..20 {
            match cluster.random.below(10) {
                0 => {
                    let died = cluster.random.below(3);
                    cluster.server_dies(ServerId(u32::try_from(died).unwrap() + 3));
                }
                1 => {
                    let stuck = cluster.random.below(3);
                    cluster
                        .stuck
                        .insert(ServerId(u32::try_from(stuck).unwrap() + 3));
                }
                2 => {
                    let (died, server) = cluster.some_proc().unwrap();
                    if server != ServerId(2) {
                        cluster.die(&died);
                    }
                }
                3 => {
                    let (speaker, _) = cluster.some_proc().unwrap();
                    cluster.request(&speaker, checkpoints::report(code::PMIX_SUCCESS));
                }
                other => {
                    let rank = u32::try_from(cluster.random.below(6)).unwrap();
                    let target = if rank == 5 {
                        all.clone()
                    } else {
                        proc("job", rank)
                    };
                    let asker = proc("job", step % 2);
                    let request = match other {
                        4 => checkpoints::checkpoint(vec![target]),
                        5 => checkpoints::preempt(vec![target]),
                        _ => kill(vec![target]),
                    };
                    cluster.request(&asker, request);
                }
            }
            cluster.deliver_some(6);
            let wait = cluster.random.below(300);
            cluster.pass(wait as u64);
        }
        cluster.pass(600_000);
        for call in &cluster.calls {
            assert!(call.status().is_some(), "seed {seed}: {call:?}");
        }
        // The servers whose host environment does not answer wait for it.
        for (id, server) in &cluster.servers {
            if !cluster.stuck.contains(id) {
                let open = checkpoints::open_requests(server);
                assert_eq!(open, Vec::<String>::new(), "seed {seed}: {id:?}");
            }
        }
        assert_eq!(cluster.refused, [], "seed {seed}");
    }
}

pub fn ask(request: ServerRequest) -> ServerRequestMessage {
    ServerRequestMessage::Ask {
        id: ServerRequestId(0),
        request,
    }
}

#[test]
fn server_controls_only_procs_of_jobs_that_it_has_a_part_of() {
    let kill = |requester: Option<Proc>, target: Proc| {
        ask(ServerRequest::Control {
            requester,
            action: JobAction::Kill,
            targets: vec![target],
        })
    };
    let mut cluster = cluster();
    // The second server has no part of the right job, and speaks for its own procs alone.
    for (requester, target, refusal) in [
        (
            None,
            proc("right", 1),
            MessageRefusal::NoPart(nspace("right")),
        ),
        (
            Some(proc("left", 1)),
            proc("left", 1),
            MessageRefusal::ForeignProc(proc("left", 1)),
        ),
        (
            Some(proc("right", 1)),
            proc("left", 1),
            MessageRefusal::ForeignProc(proc("right", 1)),
        ),
    ] {
        let to = if target.nspace == nspace("left") {
            3
        } else {
            4
        };
        let told = refused(&mut cluster, 2, to, kill(requester, target));
        assert_eq!(told, Some(refusal));
    }
    assert_eq!(cluster.controlled, []);
    let right = kill(Some(proc("left", 0)), proc("left", 1));
    assert_eq!(refused(&mut cluster, 2, 3, right), None);
    assert_eq!(cluster.controlled, [proc("left", 1)]);
    // An answer to nothing, and one about procs that were not meant.
    let answer = |not_done| ServerRequestMessage::Answer {
        id: ServerRequestId(0),
        answer: ServerAnswer::Controlled(not_done),
    };
    assert_eq!(refused(&mut cluster, 3, 2, answer(Vec::new())), None);
    cluster.deliver_all();
    cluster.stuck.insert(ServerId(3));
    let call = cluster.request(
        &proc("left", 0),
        super::requests::kill(vec![proc("left", 1)]),
    );
    cluster.deliver_all();
    let lie = |of: Proc| NotDone {
        proc: of,
        status: code::PMIX_ERROR,
        reason: "a lie".to_owned(),
    };
    let lies = answer(vec![lie(proc("left", 0)), lie(proc("left", 1))]);
    // The first request of the second server has the number 0.
    assert_eq!(refused(&mut cluster, 4, 2, lies.clone()), None);
    assert!(cluster.calls[call].answers.is_empty(), "not asked");
    assert_eq!(refused(&mut cluster, 3, 2, lies), None);
    let told = [(proc("left", 1), code::PMIX_ERROR)].into_iter().collect();
    assert_eq!(not_done(&cluster.calls[call]), told);
}

fn query(job: &[&str]) -> Query {
    let named = job
        .iter()
        .map(|job| Info::new(key::PMIX_NSPACE, Value::string(job)));
    Query {
        keys: vec![Some(key::PMIX_QUERY_LOCAL_PROC_TABLE.0.into())],
        qualifiers: named.collect(),
    }
}

#[test]
fn servers_answer_queries_about_jobs_that_the_asking_one_has() {
    let mut cluster = over_three_servers(3);
    let job = nspace("job");
    cluster.step(ServerId(2), |server, now| {
        server.query_servers(ServerQueryId(7), &job, &[query(&["job"])], now)
    });
    cluster.deliver_all();
    let of = |server: u32| Ok(vec![Info::new(key::PMIX_NODEID, Value::Uint32(server))]);
    let [FoundByServers { answers, .. }] = &mut cluster.found[..] else {
        panic!("{:?}", cluster.found)
    };
    answers.sort_by_key(|answer| format!("{answer:?}"));
    assert_eq!(answers[..], [of(3), of(4)]);
    assert!(cluster.queried.iter().all(|(_, user, _)| *user == USER));
    // A job that is at no other server is answered at once.
    cluster.add_job("alone", &[(2, &[0])]);
    let alone = nspace("alone");
    cluster.step(ServerId(2), |server, now| {
        server.query_servers(ServerQueryId(8), &alone, &[query(&["alone"])], now)
    });
    let none = FoundByServers {
        id: ServerQueryId(8),
        answers: Vec::new(),
    };
    assert_eq!(cluster.found.pop(), Some(none));
}

#[test]
fn queries_about_jobs_of_others_are_refused() {
    let mut cluster = cluster();
    let about = |job: &str, queries: Vec<Query>| {
        ask(ServerRequest::Query {
            job: nspace(job),
            queries,
        })
    };
    let no_part = Some(MessageRefusal::NoPart(nspace("right")));
    for message in [
        about("right", vec![query(&["right"])]),
        about("left", vec![query(&["left"]), query(&["right"])]),
        about("left", vec![query(&["left", "right"])]),
        about(
            "left",
            vec![Query {
                qualifiers: vec![
                    Info::new(key::PMIX_NSPACE, Value::string("left")),
                    Info::new(key::PMIX_PROCID, Value::Proc(proc("right", 0))),
                ],
                ..query(&[])
            }],
        ),
    ] {
        assert_eq!(refused(&mut cluster, 2, 3, message), no_part);
    }
    // Without a name it would be about all jobs of the user.
    assert_eq!(
        refused(&mut cluster, 2, 3, about("left", vec![query(&[])])),
        None
    );
    assert_eq!(cluster.queried, []);
    assert_eq!(
        refused(&mut cluster, 2, 3, about("left", vec![query(&["left"])])),
        None
    );
    assert_eq!(cluster.queried.len(), 1);
}

#[test]
fn one_server_holds_a_limited_number_of_queries_here() {
    let mut cluster = cluster();
    cluster.stuck.insert(ServerId(3));
    let message = ask(ServerRequest::Query {
        job: nspace("left"),
        queries: vec![query(&["left"])],
    });
    let before = cluster.sent;
    for _ in 0..300 {
        assert_eq!(refused(&mut cluster, 2, 3, message.clone()), None);
    }
    // Those beyond the limit are answered with an error at once.
    assert_eq!(cluster.sent - before, 300 - 256);
}

//! Messages that a server may not send: each is refused with its reason, and changes nothing.
use super::cluster::{Cluster, USER, status};
use peal_core::{
    group::{
        AnnouncedGroup, Contribution, CoordinatorRequest, DecisionSeq, FailureResponse,
        GroupDecision, GroupFailure, GroupKey, GroupMessage, GroupName, GroupOperation,
        GroupTransition, JobSummary, Participation, ServerId,
    },
    job::NodeRoute,
    rank_ranges::RankRanges,
    server::{
        EventBudget, FenceContribution, InterServerMessage, MessageRefusal, ModexMessage,
        PutSnapshot, ServerRequestMessage, StateSettings,
    },
    server_fences::{FenceMessage, FenceRound},
    user_scope::UserScope,
};
use peal_model::{
    Event, Info, KeyName, Kval, NamedProcs, Nspace, Proc, Range, Rank, RankData, Request, Status,
    Text, UserIdentity, Value, code, key,
};
use std::{sync::Arc, time::Duration};

pub fn nspace(name: &str) -> Nspace {
    Nspace::new(name).unwrap()
}

pub fn proc(job: &str, rank: u32) -> Proc {
    Proc::new(nspace(job), Rank(rank))
}

/// Four servers: a job on the second and third, and another one on the third and fourth. The first
/// coordinates.
pub fn cluster() -> Cluster {
    let mut cluster = Cluster::new(4, 1, &StateSettings::default());
    cluster.add_job("left", &[(2, &[0]), (3, &[1])]);
    cluster.add_job("right", &[(3, &[0]), (4, &[1])]);
    cluster.deliver_all();
    cluster
}

/// Lets a server send a message, and returns why it is refused.
pub fn refused(
    cluster: &mut Cluster,
    from: u32,
    to: u32,
    message: impl Into<Forged>,
) -> Option<MessageRefusal> {
    let message = message.into().0;
    cluster.step(ServerId(to), |server, now| {
        server.server_message(ServerId(from), message, now)
    });
    assert!(cluster.refused.len() < 2, "{:?}", cluster.refused);
    cluster.refused.pop()
}

pub struct Forged(InterServerMessage);

impl From<GroupMessage> for Forged {
    fn from(message: GroupMessage) -> Forged {
        Forged(InterServerMessage::Group(message))
    }
}

impl From<FenceMessage> for Forged {
    fn from(message: FenceMessage) -> Forged {
        Forged(InterServerMessage::Fence(message))
    }
}

impl From<ServerRequestMessage> for Forged {
    fn from(message: ServerRequestMessage) -> Forged {
        Forged(InterServerMessage::Request(message))
    }
}

impl From<ModexMessage> for Forged {
    fn from(message: ModexMessage) -> Forged {
        Forged(InterServerMessage::Modex(message))
    }
}

fn group_key() -> GroupKey {
    GroupKey {
        uid: USER.uid,
        name: GroupName::Called(Text::from("group")),
    }
}

#[test]
fn decisions_about_groups_come_from_the_coordinator_alone() {
    let decisions = || {
        let failure = GroupFailure {
            status: code::PMIX_ERR_TIMEOUT,
            reason: String::new(),
            refusal: None,
        };
        [
            GroupMessage::Down(GroupDecision {
                key: group_key(),
                instance: DecisionSeq::default(),
                transition: GroupTransition::Dissolved,
            }),
            GroupMessage::Refuse {
                key: group_key(),
                operation: GroupOperation::Construct,
                calls: Vec::new(),
                failure,
            },
            GroupMessage::Notify {
                procs: vec![proc("left", 1)],
                code: code::PMIX_GROUP_LEFT,
                infos: Vec::new(),
            },
        ]
    };
    let mut cluster = cluster();
    for message in decisions() {
        let refusal = refused(&mut cluster, 2, 3, message);
        assert_eq!(refusal, Some(MessageRefusal::NotCoordinator));
    }
    for message in decisions() {
        assert_eq!(refused(&mut cluster, 1, 3, message), None);
    }
}

#[test]
fn server_speaks_for_its_own_procs_alone() {
    let requests = |proc: &Proc| {
        let part = Participation {
            proc: proc.clone(),
            after: DecisionSeq::default(),
            construct: None,
            refusal: None,
        };
        let contribution = Contribution {
            key: group_key(),
            parts: vec![part],
            deadline: None,
            left: None,
        };
        let announced = AnnouncedGroup {
            members: vec![proc.clone()],
            context_id: None,
        };
        [
            CoordinatorRequest::Ended(proc.clone()),
            CoordinatorRequest::Back(proc.clone()),
            CoordinatorRequest::Brings(contribution),
            CoordinatorRequest::Leave {
                key: group_key(),
                proc: proc.clone(),
                notified: NamedProcs::default(),
            },
            CoordinatorRequest::Announce {
                key: group_key(),
                by: proc.clone(),
                announced,
            },
            CoordinatorRequest::Respond {
                key: group_key(),
                by: proc.clone(),
                saying: FailureResponse::Abort,
            },
        ]
    };
    let mut cluster = cluster();
    let foreign = proc("right", 1);
    for request in requests(&foreign) {
        let refusal = refused(&mut cluster, 3, 1, GroupMessage::Upward(request));
        assert_eq!(refusal, Some(MessageRefusal::ForeignProc(foreign.clone())));
    }
    let lost = refused(&mut cluster, 3, 2, GroupMessage::Lost(foreign.clone()));
    assert_eq!(lost, Some(MessageRefusal::ForeignProc(foreign)));
    for request in requests(&proc("right", 0)) {
        assert_eq!(
            refused(&mut cluster, 3, 1, GroupMessage::Upward(request)),
            None
        );
    }
}

#[test]
fn procs_and_jobs_of_others_are_not_announced() {
    let mut cluster = cluster();
    let announce = |size, ranks: &[u32]| GroupMessage::Job {
        nspace: nspace("right"),
        facts: JobSummary { size, owner: USER },
        ranks: ranks.iter().copied().map(Rank).collect::<RankRanges>(),
    };
    let taken = MessageRefusal::TakenProc(proc("right", 1));
    let other = MessageRefusal::OtherJob(nspace("right"));
    let beyond = MessageRefusal::NoProc(proc("right", 2));
    for (message, refusal) in [
        (announce(2, &[1]), taken),
        (announce(3, &[]), other),
        (announce(2, &[2]), beyond),
    ] {
        assert_eq!(refused(&mut cluster, 2, 1, message), Some(refusal));
    }
    // The removal of a job is about the sender's procs.
    let gone = GroupMessage::JobGone(nspace("right"));
    assert_eq!(refused(&mut cluster, 2, 1, gone), None);
    let lost = refused(&mut cluster, 4, 1, GroupMessage::Lost(proc("right", 1)));
    assert_eq!(lost, None, "the procs are known as before");
}

#[test]
fn fences_and_values_are_those_of_servers_with_part_in_the_job() {
    let mut cluster = cluster();
    let round = FenceRound {
        procs: vec![Proc::all(nspace("right"))].into(),
        generation: 1,
    };
    let contribute = |generation| FenceMessage::Contribute {
        round: FenceRound {
            generation,
            ..round.clone()
        },
        root: ServerId(3),
        number: 1,
        covered: [ServerId(4)].into(),
        completed: 0,
        contribution: FenceContribution::default(),
    };
    let result = FenceMessage::Result {
        round: round.clone(),
        root: ServerId(3),
        settled: 0,
        outcome: Err(code::PMIX_ERR_TIMEOUT),
    };
    let no_participant = Some(MessageRefusal::NoParticipant);
    assert_eq!(refused(&mut cluster, 2, 3, contribute(1)), no_participant);
    let refusal = refused(&mut cluster, 4, 3, contribute(1_000));
    let is_ahead = matches!(refusal, Some(MessageRefusal::Generation { .. }));
    assert!(is_ahead, "{refusal:?}");
    let not_above = Some(MessageRefusal::NotAbove);
    assert_eq!(refused(&mut cluster, 4, 3, result.clone()), not_above);
    assert_eq!(
        refused(&mut cluster, 4, 3, FenceMessage::Await(round.clone())),
        not_above
    );
    assert_eq!(refused(&mut cluster, 3, 4, result), None);

    let request = ModexMessage::Request {
        proc: proc("right", 0),
        sought: None,
        left: Duration::from_secs(1),
    };
    let refusal = Some(MessageRefusal::NoPart(nspace("right")));
    assert_eq!(refused(&mut cluster, 2, 3, request.clone()), refusal);
    assert_eq!(refused(&mut cluster, 4, 3, request), None);
    let values = |of: Proc| ModexMessage::Values {
        proc: proc("right", 1),
        sought: None,
        values: Ok(PutSnapshot::from(RankData {
            proc: of,
            kvals: vec![Kval::new(KeyName("test.a"), Value::Uint32(1))],
        })),
    };
    let foreign = Some(MessageRefusal::ForeignProc(proc("right", 1)));
    let forged = values(proc("right", 1));
    assert_eq!(refused(&mut cluster, 2, 3, forged.clone()), foreign);
    let of_other = values(proc("right", 0));
    assert_eq!(refused(&mut cluster, 4, 3, of_other), foreign);
    assert_eq!(refused(&mut cluster, 4, 3, forged), None);
}

#[test]
fn events_come_from_the_server_of_their_source_or_job() {
    let mut cluster = cluster();
    let mut raise = |from: u32, source: Option<Proc>, affected: Option<Proc>, uid: u32| {
        let infos =
            affected.map(|proc| Info::new(key::PMIX_EVENT_AFFECTED_PROC, Value::Proc(proc)));
        let event = Event {
            code: Status(-3001),
            source,
            range: Range::Global,
            infos: infos.into_iter().collect(),
        };
        let message = InterServerMessage::Event(Arc::new(event), UserScope::User(uid));
        refused(&mut cluster, from, 3, Forged(message))
    };
    let uid = USER.uid;
    let of = |rank| Some(proc("right", rank));
    assert_eq!(raise(4, of(1), None, uid), None);
    let foreign = |proc: Option<Proc>| proc.map(MessageRefusal::ForeignProc);
    assert_eq!(raise(2, of(1), None, uid), foreign(of(1)));
    // Not even for a proc of the receiver.
    assert_eq!(raise(4, of(0), None, uid), foreign(of(0)));
    let other_user = of(1).map(MessageRefusal::ForeignUser);
    assert_eq!(raise(4, of(1), None, uid + 1), other_user);
    // Of a host environment.
    assert_eq!(raise(4, None, of(1), uid), None);
    let no_part = Some(MessageRefusal::NoPart(nspace("right")));
    assert_eq!(raise(2, None, of(1), uid), no_part);
    assert_eq!(raise(2, None, None, uid), None, "it is about no job");
}

#[test]
fn unknown_jobs_are_not_visible_beside_other_servers() {
    let get = |job: &str| Request::Get {
        proc: proc(job, 0),
        key: Some("test.a".into()),
        infos: vec![Info::new(key::PMIX_IMMEDIATE, Value::Bool(true))],
    };
    let answer = |cluster: &mut Cluster, job: &str| {
        let call = cluster.request(&proc("left", 0), get(job));
        status(&cluster.calls[call].answers[0])
    };
    let mut alone = Cluster::new(1, 1, &StateSettings::default());
    alone.add_job("left", &[(1, &[0])]);
    assert_eq!(answer(&mut alone, "unknown"), code::PMIX_ERR_NOT_FOUND);
    let mut cluster = cluster();
    let denied = code::PMIX_ERR_NO_PERMISSIONS;
    assert_eq!(answer(&mut cluster, "unknown"), denied);
    // Its servers say whose a job is.
    assert_eq!(answer(&mut cluster, "right"), code::PMIX_ERR_NOT_FOUND);
    let other = GroupMessage::Job {
        nspace: nspace("theirs"),
        facts: JobSummary {
            size: 1,
            owner: UserIdentity {
                uid: USER.uid + 1,
                gid: 1,
            },
        },
        ranks: RankRanges::below(1),
    };
    assert_eq!(refused(&mut cluster, 4, 2, other), None);
    assert_eq!(answer(&mut cluster, "theirs"), denied);
}

/// A launcher reports the end of a proc on all nodes. The server that has the proc reports it, too.
#[test]
fn end_of_a_proc_of_another_server_is_reported_by_that_one() {
    let mut cluster = Cluster::new(3, 1, &StateSettings::default());
    let placement: &[(u32, &[u32])] = &[(2, &[0]), (3, &[1])];
    cluster.add_routed_job("job", placement, NodeRoute::HostEnvironment);
    cluster.deliver_all();
    let affected = Value::Proc(proc("job", 1));
    let aborted = Arc::new(Event {
        code: code::PMIX_ERR_PROC_ABORTED,
        source: None,
        range: Range::Namespace,
        infos: vec![Info::new(key::PMIX_EVENT_AFFECTED_PROC, affected)],
    });
    let allowance = EventBudget::new(0);
    cluster.step(ServerId(2), |server, now| {
        server.distributed(aborted, UserScope::User(USER.uid), allowance, now)
    });
    cluster.deliver_all();
    assert_eq!(cluster.refused, []);
    cluster.die(&proc("job", 1));
    cluster.deliver_all();
    assert_eq!(cluster.refused, []);
}

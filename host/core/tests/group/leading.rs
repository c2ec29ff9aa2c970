//! Missing participants: leaders (`PMIX_GROUP_LEADER`), optional and fault-tolerant constructs, and
//! groups of one node.
use super::sim::{Heard, Order, Sim, nspace, proc};
use peal_core::group::{
    ConstructDirectives, ConstructRequest, ConstructRole, FailureResponse, GroupCallResult,
};
use peal_model::{Proc, Status, code};

fn named(procs: &[Proc], wishes: ConstructDirectives) -> ConstructRequest {
    ConstructRequest {
        directives: wishes,
        ..ConstructRequest::of(ConstructRole::Leader(procs.iter().cloned().collect()))
    }
}

/// Four procs, all at one server or each at its own.
fn four(servers: u32) -> (Sim, Vec<Proc>) {
    let procs = (0..4)
        .map(|n| {
            if servers == 1 {
                proc(1, n)
            } else {
                proc(n + 1, 0)
            }
        })
        .collect();
    (
        Sim::new(servers, if servers == 1 { 4 } else { 1 }, 1, Order::First),
        procs,
    )
}

/// All but the last call; the one at this place leads.
fn call_but_last(sim: &mut Sim, procs: &[Proc], leader: usize) {
    for (at, proc) in procs[..3].iter().enumerate() {
        let wishes = ConstructDirectives {
            leads: at == leader,
            ..ConstructDirectives::default()
        };
        sim.construct(proc, "g", named(procs, wishes), None);
        sim.deliver_all();
    }
}

fn heard(sim: &Sim) -> Vec<(&Proc, Status, &Proc)> {
    sim.heard
        .iter()
        .map(
            |Heard {
                 proc, code, about, ..
             }| (proc, *code, about),
        )
        .collect()
}

/// The members in every answer, or the status of every failure.
#[track_caller]
fn ended(sim: &mut Sim, calls: std::ops::Range<usize>) -> Result<Vec<Proc>, Status> {
    sim.deliver_all();
    let answers: Vec<_> = sim.made[calls]
        .iter()
        .map(|made| made.answers.clone())
        .collect();
    let [first, others @ ..] = &answers[..] else {
        panic!("nobody called")
    };
    let [answer] = &first[..] else {
        panic!("{first:?}")
    };
    assert!(others.iter().all(|other| other == first), "{answers:?}");
    match answer {
        GroupCallResult::Formed(formed) => Ok(formed.members.iter().cloned().collect()),
        answer => Err(Sim::status(answer)),
    }
}

#[test]
fn leader_decides_about_a_death_and_continues() {
    for servers in [1, 4] {
        let (mut sim, procs) = four(servers);
        // Who leads calls last where all are at one server: who called first must not have decided it.
        let leader = if servers == 1 { 2 } else { 0 };
        call_but_last(&mut sim, &procs, leader);
        sim.die(&procs[3]);
        sim.deliver_all();
        assert_eq!(
            heard(&sim),
            [(&procs[leader], code::PMIX_GROUP_MEMBER_FAILED, &procs[3])]
        );
        assert!(
            sim.made.iter().all(|made| made.answers.is_empty()),
            "nobody has decided"
        );
        let other = usize::from(leader == 0);
        sim.say(&procs[other], "g", FailureResponse::Continue);
        sim.deliver_all();
        assert!(
            sim.made.iter().all(|made| made.answers.is_empty()),
            "the leader has not decided"
        );
        sim.say(&procs[leader], "g", FailureResponse::Continue);
        assert_eq!(ended(&mut sim, 0..3), Ok(procs[..3].to_vec()));
        let told: Vec<_> = heard(&sim)[1..].to_vec();
        let others = procs[..3].iter().filter(|proc| **proc != procs[leader]);
        let expected: Vec<_> = others
            .map(|proc| (proc, code::PMIX_GROUP_MEMBER_FAILED, &procs[3]))
            .collect();
        assert_eq!(told, expected, "each member hears it once");
    }
}

#[test]
fn leader_aborts_or_does_not_decide_in_time() {
    for decides in [true, false] {
        let (mut sim, procs) = four(4);
        call_but_last(&mut sim, &procs, 1);
        sim.die(&procs[3]);
        sim.deliver_all();
        if decides {
            sim.say(&procs[1], "g", FailureResponse::Abort);
        } else {
            sim.pass(4999);
            sim.deliver_all();
            assert!(
                sim.made.iter().all(|made| made.answers.is_empty()),
                "there is time left"
            );
            sim.pass(1);
        }
        assert_eq!(
            ended(&mut sim, 0..3),
            Err(code::PMIX_GROUP_CONSTRUCT_ABORT),
            "decides: {decides}"
        );
    }
}

#[test]
fn first_proc_to_offer_leads_when_the_leader_fails() {
    for servers in [1, 4] {
        let (mut sim, procs) = four(servers);
        call_but_last(&mut sim, &procs, 0);
        sim.die(&procs[0]);
        sim.deliver_all();
        let of_both = |code, about| procs[1..3].iter().map(move |proc| (proc, code, about));
        let failed: Vec<_> = of_both(code::PMIX_GROUP_LEADER_FAILED, &procs[0]).collect();
        assert_eq!(heard(&sim), failed);
        for offers in [1, 2] {
            sim.say(&procs[offers], "g", FailureResponse::Lead);
            sim.deliver_all();
        }
        let selected = of_both(code::PMIX_GROUP_LEADER_SELECTED, &procs[1]);
        assert_eq!(
            heard(&sim),
            failed.into_iter().chain(selected).collect::<Vec<_>>()
        );
        sim.construct(
            &procs[3],
            "g",
            named(&procs, ConstructDirectives::default()),
            None,
        );
        assert_eq!(ended(&mut sim, 1..4), Ok(procs[1..].to_vec()));
        let last = (&procs[3], code::PMIX_GROUP_MEMBER_FAILED, &procs[0]);
        assert_eq!(heard(&sim)[4..], [last], "the others have heard it before");
    }
}

#[test]
fn bootstrap_without_leaders_is_aborted() {
    let (mut sim, procs) = four(4);
    call_but_last(&mut sim, &procs, 0);
    sim.die(&procs[0]);
    sim.deliver_all();
    sim.pass(5000);
    assert_eq!(ended(&mut sim, 1..3), Err(code::PMIX_GROUP_CONSTRUCT_ABORT));
}

#[test]
fn optional_construct_bears_a_death_before_the_call_alone() {
    for has_called in [false, true] {
        for servers in [1, 4] {
            let (mut sim, procs) = four(servers);
            let construct = named(
                &procs,
                ConstructDirectives {
                    optional: true,
                    ..ConstructDirectives::default()
                },
            );
            // Of all at one server the calls wait there for the last one.
            let dead = if has_called { 0 } else { 3 };
            for proc in &procs[..3] {
                sim.construct(proc, "g", construct.clone(), None);
                sim.deliver_all();
            }
            sim.die(&procs[dead]);
            sim.deliver_all();
            if has_called {
                sim.construct(&procs[3], "g", construct, None);
            }
            let left = if has_called { 1..4 } else { 0..3 };
            let borne = !has_called || servers == 1;
            let expected = if borne {
                Ok(procs[left.clone()].to_vec())
            } else {
                Err(code::PMIX_GROUP_CONSTRUCT_ABORT)
            };
            assert_eq!(
                ended(&mut sim, left),
                expected,
                "{servers} servers, has called: {has_called}"
            );
        }
    }
}

#[test]
fn members_receive_deaths_before_the_construct() {
    let (mut sim, procs) = four(4);
    sim.die(&procs[3]);
    sim.deliver_all();
    let construct = named(
        &procs,
        ConstructDirectives {
            fault_tolerant: true,
            ..ConstructDirectives::default()
        },
    );
    procs[..3]
        .iter()
        .for_each(|proc| sim.construct(proc, "g", construct.clone(), None));
    assert_eq!(ended(&mut sim, 0..3), Ok(procs[..3].to_vec()));
    let told: Vec<_> = procs[..3]
        .iter()
        .map(|proc| (proc, code::PMIX_GROUP_MEMBER_FAILED, &procs[3]))
        .collect();
    assert_eq!(heard(&sim), told);
    assert!(sim.heard.iter().all(|heard| heard.members == procs[..3]));
}

#[test]
fn local_construct_names_no_procs_of_other_servers() {
    let mut sim = Sim::new(2, 2, 1, Order::First);
    let wishes = ConstructDirectives {
        local_only: true,
        ..ConstructDirectives::default()
    };
    sim.construct(
        &proc(1, 0),
        "g",
        named(&[proc(1, 0), proc(2, 0)], wishes),
        None,
    );
    let [GroupCallResult::Failed(failure)] = &sim.made[0].answers[..] else {
        panic!("{:?}", sim.made[0])
    };
    assert_eq!(failure.status, code::PMIX_ERR_BAD_PARAM);
    assert!(
        failure.reason.contains("job2:0 is not on this node"),
        "{}",
        failure.reason
    );
    let added = ConstructRequest {
        additions: vec![proc(2, 1)],
        ..named(&[proc(1, 0)], wishes)
    };
    sim.construct(&proc(1, 0), "g", added, None);
    assert_eq!(ended(&mut sim, 1..2), Err(code::PMIX_ERR_BAD_PARAM));

    let all = [Proc::all(nspace(1))];
    for rank in [0, 1] {
        sim.construct(&proc(1, rank), "g", named(&all, wishes), None);
    }
    assert_eq!(ended(&mut sim, 2..4), Ok(vec![proc(1, 0), proc(1, 1)]));
}

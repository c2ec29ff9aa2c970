//! Notifications of members: their order, and the remaining members.
use super::{
    leader,
    sim::{Order, Sim, group_key, nspace, proc},
};
use peal_core::group::{
    ConstructDirectives, ConstructRequest, ConstructRole, GroupCallResult, ServerId,
};
use peal_model::{Proc, Status, code};

/// Constructs a group whose callers request an order of members, and returns each result.
fn construct(
    sim: &mut Sim,
    named: &[Proc],
    orders: &[(Proc, Vec<Proc>)],
) -> Vec<Result<Vec<Proc>, Status>> {
    let before = sim.made.len();
    for (proc, order) in orders {
        sim.construct(
            proc,
            "g",
            ConstructRequest {
                order: Some(order.clone()),
                ..leader(named)
            },
            None,
        );
    }
    sim.come_to_rest().unwrap();
    let answered = sim.made[before..]
        .iter()
        .map(|made| match &made.answers[..] {
            [GroupCallResult::Formed(formed)] => Ok(formed.members.iter().cloned().collect()),
            [answer] => Err(Sim::status(answer)),
            answers => panic!("{answers:?}"),
        });
    answered.collect()
}

#[test]
fn member_order_may_name_whole_jobs_and_must_be_equal_for_all() {
    let both = [Proc::all(nspace(1)), Proc::all(nspace(2))];
    let last = [proc(1, 1), proc(1, 0)];
    let each = [proc(2, 0), proc(2, 1), proc(1, 1), proc(1, 0)];
    let whole = [&both[1..], &last].concat();
    let turned = [&last, &both[1..]].concat();
    let short = both[1..].to_vec();
    let twice = [&both[1..], &both, &last].concat();
    let conflict = Err(code::PMIX_ERR_BAD_PARAM);
    for (wanted, expected) in [
        ([&whole, &each.to_vec()], Ok(each.to_vec())),
        ([&whole, &turned], conflict.clone()),
        ([&short, &short], conflict.clone()),
        ([&twice, &twice], conflict.clone()),
    ] {
        let mut sim = Sim::new(2, 2, 1, Order::First);
        let orders: Vec<_> = each
            .iter()
            .enumerate()
            .map(|(n, proc)| (proc.clone(), wanted[n % 2].clone()))
            .collect();
        assert_eq!(
            construct(&mut sim, &both, &orders),
            vec![expected; 4],
            "{wanted:?}"
        );
    }
}

#[test]
fn an_order_of_members_may_name_a_job_that_is_not_there_yet() {
    let mut sim = Sim::new(2, 1, 1, Order::First);
    let all = [1, 2, 3].map(|job| Proc::all(nspace(job)));
    let order = vec![all[2].clone(), all[0].clone(), all[1].clone()];
    let construct = ConstructRequest {
        order: Some(order),
        ..leader(&all)
    };
    for job in [1, 2] {
        sim.construct(&proc(job, 0), "g", construct.clone(), None);
    }
    sim.deliver_all();
    sim.job_added(2, 3, 2);
    for rank in [0, 1] {
        sim.construct(&proc(3, rank), "g", construct.clone(), None);
    }
    sim.come_to_rest().unwrap();
    for made in &sim.made {
        let [GroupCallResult::Formed(formed)] = &made.answers[..] else {
            panic!("{made:?}")
        };
        assert!(
            formed
                .members
                .iter()
                .eq(&[proc(3, 0), proc(3, 1), proc(1, 0), proc(2, 0)]),
            "{:?}",
            formed.members
        );
    }
}

#[test]
fn remaining_participants_get_failed_and_remaining_procs() {
    let mut sim = Sim::new(3, 1, 1, Order::First);
    let all = [1, 2, 3].map(|server| proc(server, 0));
    let leads = leader(&all);
    let construct = ConstructRequest {
        directives: ConstructDirectives {
            notify: true,
            ..leads.directives
        },
        ..leads
    };
    all.iter()
        .for_each(|proc| sim.construct(proc, "g", construct.clone(), None));
    sim.deliver_all();
    for (dead, left) in [(1, vec![0, 2]), (0, vec![2])] {
        let heard = sim.heard.len();
        sim.die(&all[dead]);
        sim.deliver_all();
        let left: Vec<Proc> = left.into_iter().map(|at: usize| all[at].clone()).collect();
        let told: Vec<_> = sim.heard[heard..]
            .iter()
            .map(|heard| (heard.code, &heard.about, &heard.members))
            .collect();
        assert_eq!(
            told,
            vec![(code::PMIX_GROUP_MEMBER_FAILED, &all[dead], &left); left.len()]
        );
        assert!(sim.heard[heard..].iter().map(|heard| &heard.proc).eq(&left));
    }
}

#[test]
fn proc_waiting_for_dead_leaders_is_added_by_next_construct() {
    let mut sim = Sim::new(3, 2, 1, Order::First);
    sim.construct(
        &proc(1, 0),
        "g",
        ConstructRequest::of(ConstructRole::Member),
        None,
    );
    let leads = leader(&[proc(2, 0), proc(3, 0)]);
    let bears_deaths = ConstructRequest {
        directives: ConstructDirectives {
            fault_tolerant: true,
            ..leads.directives
        },
        ..leads
    };
    sim.construct(&proc(2, 0), "g", bears_deaths, None);
    sim.deliver_all();
    for server in [2, 3] {
        sim.server_dies(ServerId(server));
        sim.deliver_all();
    }
    assert_eq!(sim.made[0].answers, [], "there is no group of nobody");
    let next = ConstructRequest {
        additions: vec![proc(1, 0)],
        ..leader(&[proc(1, 1)])
    };
    sim.construct(&proc(1, 1), "g", next, None);
    let [GroupCallResult::Formed(formed)] = &sim.made[0].answers[..] else {
        panic!("{:?}", sim.made[0])
    };
    assert!(formed.members.iter().eq(&[proc(1, 0), proc(1, 1)]));
}

#[test]
fn members_notified_by_leaver_get_no_second_event() {
    let mut sim = Sim::new(2, 2, 1, Order::First);
    let all = [proc(1, 0), proc(1, 1), proc(2, 0), proc(2, 1)];
    all.iter()
        .for_each(|proc| sim.construct(proc, "g", leader(&all), None));
    sim.deliver_all();
    sim.depart(&all[0], "g", &all[1..3]);
    sim.deliver_all();
    let told: Vec<_> = sim
        .heard
        .iter()
        .map(|heard| (&heard.proc, heard.code))
        .collect();
    assert_eq!(told, [(&all[3], code::PMIX_GROUP_LEFT)]);
    let key = group_key("g");
    assert_eq!(
        sim.servers[&ServerId(2)].members(&key),
        Some(all[1..].to_vec())
    );
    sim.depart(&all[1], "g", &all[2..]);
    sim.deliver_all();
    assert_eq!(sim.heard.len(), 1);
}

#[test]
fn announced_group_of_others_exists_and_is_destructed() {
    let mut sim = Sim::new(2, 2, 1, Order::First);
    let members = [proc(1, 1), proc(2, 0)];
    // Whoever invited them is at the second server, and not in the group.
    sim.announce(2, "g", &members);
    sim.deliver_all();
    members
        .iter()
        .for_each(|proc| sim.destruct(proc, "g", None));
    sim.come_to_rest().unwrap();
    assert!(
        sim.made
            .iter()
            .all(|made| made.answers == [GroupCallResult::Done]),
        "{:?}",
        sim.made
    );
    sim.ends().unwrap();
}

#[test]
fn wildcard_stays_if_named_so_and_all_are_members() {
    let whole = |tolerant: bool, dies: Option<Proc>, named: &[Proc]| {
        let mut sim = Sim::new(2, 2, 1, Order::First);
        dies.iter().for_each(|proc| sim.die(proc));
        let leads = leader(named);
        let wishes = ConstructDirectives {
            fault_tolerant: tolerant,
            ..leads.directives
        };
        for proc in [proc(1, 0), proc(1, 1), proc(2, 0)] {
            sim.construct(
                &proc,
                "g",
                ConstructRequest {
                    directives: wishes,
                    ..leads.clone()
                },
                None,
            );
        }
        sim.come_to_rest().unwrap();
        let [GroupCallResult::Formed(formed)] = &sim.made[0].answers[..] else {
            panic!("{:?}", sim.made[0])
        };
        formed.whole_jobs.iter().cloned().collect::<Vec<_>>()
    };
    let by_wildcard = [Proc::all(nspace(1)), proc(2, 0)];
    assert_eq!(whole(false, None, &by_wildcard), [nspace(1)]);
    assert_eq!(
        whole(false, None, &[proc(1, 0), proc(1, 1), proc(2, 0)]),
        []
    );
    assert_eq!(
        whole(true, Some(proc(1, 1)), &by_wildcard),
        [],
        "one of them is missing"
    );
}

#[test]
fn member_that_has_left_is_none_before_the_coordinator_knows() {
    let mut sim = Sim::new(2, 2, 1, Order::First);
    let members = [proc(1, 0), proc(1, 1), proc(2, 0), proc(2, 1)];
    members
        .iter()
        .for_each(|proc| sim.construct(proc, "g", leader(&members), None));
    sim.deliver_all();
    sim.leave(&members[3], "g");
    // The second server has sent the leave, and the first one decides it.
    sim.destruct(&members[3], "g", None);
    let refused = sim.made.last().unwrap();
    assert!(
        matches!(&refused.answers[..], [GroupCallResult::Failed(failure)] if failure.status == code::PMIX_ERR_NOT_FOUND),
        "{refused:?}"
    );
    // The coordinator is lost before it has decided the leave, which its successor gets.
    sim.server_dies(ServerId(1));
    sim.deliver_all();
    sim.destruct(&members[2], "g", None);
    sim.come_to_rest().unwrap();
    let done = sim.made.last().unwrap();
    assert_eq!(done.answers, [GroupCallResult::Done]);
    sim.ends().unwrap();
}

//! Servers that have formed groups alone and then join others.
use super::{
    leader,
    sim::{Order, Sim, group_key, proc},
};
use peal_core::group::ServerId;
use peal_model::{Proc, Status, code};

/// Number of the server that is alone, and of its job.
const ALONE: u32 = 0;

/// Number of that server after it has joined: greater than those of the others.
const JOINED: u32 = 9;

/// Two servers with a job each, and one alone with two procs.
fn two_and_one_alone() -> Sim {
    let mut sim = Sim::new(2, 1, 1, Order::Reversed);
    sim.server_alone(ALONE, 2);
    sim
}

fn own() -> [Proc; 2] {
    [proc(ALONE, 0), proc(ALONE, 1)]
}

fn construct(sim: &mut Sim, group: &str, members: &[Proc]) {
    members
        .iter()
        .for_each(|member| sim.construct(member, group, leader(members), None));
}

fn destruct(sim: &mut Sim, group: &str, members: &[Proc]) {
    members
        .iter()
        .for_each(|member| sim.destruct(member, group, None));
}

/// Returns the statuses of the last calls.
fn last(sim: &Sim, count: usize) -> Vec<Status> {
    let answer = |made: &super::sim::Made| match &made.answers[..] {
        [answer] => Sim::status(answer),
        answers => panic!("{answers:?}"),
    };
    sim.made[sim.made.len() - count..]
        .iter()
        .map(answer)
        .collect()
}

const DONE: [Status; 2] = [code::PMIX_SUCCESS; 2];

#[test]
fn group_formed_alone_goes_on_among_others() {
    let mut sim = two_and_one_alone();
    // Decisions before the join have higher numbers than the next ones of the coordinator.
    for _ in 0..5 {
        construct(&mut sim, "past", &own());
        destruct(&mut sim, "past", &own());
        sim.come_to_rest().unwrap();
    }
    construct(&mut sim, "g", &own());
    sim.come_to_rest().unwrap();
    sim.join(ALONE, JOINED);
    sim.deliver_all();
    destruct(&mut sim, "g", &own());
    sim.come_to_rest().unwrap();
    assert_eq!(last(&sim, 2), DONE);
    let all = [proc(1, 0), proc(2, 0), proc(ALONE, 0), proc(ALONE, 1)];
    construct(&mut sim, "all", &all);
    sim.come_to_rest().unwrap();
    assert_eq!(last(&sim, 4), [code::PMIX_SUCCESS; 4]);
    destruct(&mut sim, "all", &all);
    sim.come_to_rest().unwrap();
    sim.ends().unwrap();
}

#[test]
fn calls_that_waited_alone_are_answered_among_others() {
    let mut sim = two_and_one_alone();
    let members = [proc(1, 0), proc(ALONE, 0), proc(ALONE, 1)];
    construct(&mut sim, "g", &members[1..]);
    destruct(&mut sim, "g", &members[1..]);
    sim.come_to_rest().unwrap();
    let late = members.iter().skip(1);
    late.for_each(|member| sim.construct(member, "g", leader(&members), None));
    sim.deliver_all();
    sim.join(ALONE, JOINED);
    sim.deliver_all();
    sim.construct(&members[0], "g", leader(&members), None);
    sim.come_to_rest().unwrap();
    assert_eq!(last(&sim, 3), [code::PMIX_SUCCESS; 3]);
}

#[test]
fn of_two_groups_with_one_name_that_of_the_others_stays() {
    let mut sim = two_and_one_alone();
    let others = [proc(1, 0), proc(2, 0)];
    construct(&mut sim, "g", &others);
    construct(&mut sim, "g", &own());
    sim.come_to_rest().unwrap();
    sim.join(ALONE, JOINED);
    sim.deliver_all();
    let heard: Vec<_> = sim
        .heard
        .iter()
        .map(|heard| (heard.proc.clone(), heard.code, heard.members.len()))
        .collect();
    let update = code::PMIX_GROUP_MEMBERSHIP_UPDATE;
    assert_eq!(heard, own().map(|member| (member, update, 0)));
    assert_eq!(
        sim.servers[&ServerId(JOINED)].members(&group_key("g")),
        None
    );
    destruct(&mut sim, "g", &others);
    sim.come_to_rest().unwrap();
    assert_eq!(last(&sim, 2), DONE);
    construct(&mut sim, "g", &own());
    sim.come_to_rest().unwrap();
    assert_eq!(last(&sim, 2), DONE);
}

#[test]
fn procs_that_ended_alone_are_known_to_the_others() {
    let mut sim = two_and_one_alone();
    construct(&mut sim, "g", &own());
    sim.come_to_rest().unwrap();
    sim.die(&proc(ALONE, 1));
    sim.join(ALONE, JOINED);
    sim.deliver_all();
    // The coordinator waits for no dead proc.
    let members = [proc(1, 0), proc(ALONE, 0), proc(ALONE, 1)];
    members[..2]
        .iter()
        .for_each(|member| sim.construct(member, "h", leader(&members), None));
    sim.come_to_rest().unwrap();
    // At once, and not by a time limit.
    assert_eq!(sim.now, 0);
    assert_eq!(last(&sim, 2), [code::PMIX_GROUP_CONSTRUCT_ABORT; 2]);
    sim.destruct(&proc(ALONE, 0), "g", None);
    sim.come_to_rest().unwrap();
    assert_eq!(last(&sim, 1), DONE[..1]);
}

#[test]
fn server_joins_again_under_a_greater_number() {
    let mut sim = two_and_one_alone();
    let everybody = [proc(1, 0), proc(2, 0), proc(ALONE, 0), proc(ALONE, 1)];
    let mut before = ALONE;
    for number in [JOINED, JOINED + 4, JOINED + 8] {
        // Decisions that the server takes alone under its last number, which is greater than the
        // coordinator's.
        for call in [construct, destruct, construct] {
            call(&mut sim, "g", &own());
            sim.come_to_rest().unwrap();
        }
        // A call that waits for a job which nobody knows yet.
        let job = 20 + number;
        let later = [proc(ALONE, 0), proc(ALONE, 1), proc(job, 0)];
        for member in &own() {
            sim.construct(member, "later", leader(&later), None);
        }
        sim.join(before, number);
        sim.deliver_all();
        sim.job_added(1, job, 1);
        sim.construct(&later[2], "later", leader(&later), None);
        sim.come_to_rest().unwrap();
        assert_eq!(last(&sim, 3), [code::PMIX_SUCCESS; 3]);
        destruct(&mut sim, "later", &later);
        construct(&mut sim, "all", &everybody);
        sim.come_to_rest().unwrap();
        assert_eq!(last(&sim, 7), [code::PMIX_SUCCESS; 7]);
        destruct(&mut sim, "all", &everybody);
        sim.come_to_rest().unwrap();
        assert_eq!(last(&sim, 4), [code::PMIX_SUCCESS; 4]);
        destruct(&mut sim, "g", &own());
        sim.come_to_rest().unwrap();
        assert_eq!(last(&sim, 2), DONE);
        sim.part(ServerId(number));
        before = number;
    }
}

/// A node whose server is killed and started again: the new server has never known the lost coordinator.
#[test]
fn takeover_does_not_wait_for_server_that_joins_meanwhile() {
    let mut sim = Sim::new(3, 1, 1, Order::Reversed);
    sim.server_alone(ALONE, 2);
    let members = [proc(1, 0), proc(2, 0), proc(3, 0)];
    let waiting = members.iter().skip(1);
    waiting.for_each(|member| sim.construct(member, "g", leader(&members), None));
    sim.deliver_all();
    sim.server_dies(ServerId(1));
    sim.join(ALONE, JOINED);
    sim.come_to_rest().unwrap();
    for status in last(&sim, 2) {
        assert_ne!(status, code::PMIX_SUCCESS);
    }
    let all = [proc(2, 0), proc(3, 0), proc(ALONE, 0), proc(ALONE, 1)];
    construct(&mut sim, "all", &all);
    sim.come_to_rest().unwrap();
    assert_eq!(last(&sim, 4), [code::PMIX_SUCCESS; 4]);
}

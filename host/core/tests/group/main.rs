//! Simulation of groups on several servers: decisions, numbers of messages, and agreement after any
//! loss.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
#[path = "../carried/mod.rs"]
mod carried;
mod joining;
mod leading;
mod notifications;
mod random;
mod scenario;
mod sim;

use peal_core::{
    group::{ConstructDirectives, ConstructRequest, ConstructRole, GroupCallResult, ServerId},
    quota::Quota,
};
use peal_model::{Proc, code};
use scenario::Weather;
use sim::{Order, Sim, nspace, proc};

/// Returns the number in a variable, or the usual one. `cargo xtask soak` sets greater ones.
fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |number| number.parse().unwrap())
}

/// Returns the seeds of the cases to try.
fn cases(usual: u64) -> std::ops::Range<u64> {
    let first = number("PEAL_GROUP_SEED", 1u64).wrapping_mul(1_000_000_007);
    first..first + number("PEAL_GROUP_CASES", usual)
}

fn try_all(usual: u64, weather: Weather) {
    for seed in cases(usual) {
        for order in [Order::Random, Order::Reversed, Order::First] {
            if let Err(wrong) = scenario::run(seed, order, weather) {
                panic!("seed {seed}, {order:?}, {weather:?}: {wrong}");
            }
        }
    }
}

#[test]
fn participants_without_deaths_end_alike() {
    try_all(250, Weather::Calm);
}

#[test]
fn participants_left_after_deaths_end_alike() {
    try_all(500, Weather::Storm);
}

#[test]
fn unnoticed_death_is_detected() {
    let found = cases(200)
        .filter(|seed| scenario::run(*seed, Order::Random, Weather::Blind).is_err())
        .count();
    assert!(found > 20, "{found} of 200");
}

fn leader(named: &[Proc]) -> ConstructRequest {
    let role = ConstructRole::Leader(named.iter().cloned().collect());
    ConstructRequest {
        directives: ConstructDirectives {
            context_id: true,
            ..ConstructDirectives::default()
        },
        ..ConstructRequest::of(role)
    }
}

#[test]
fn groups_of_one_user_are_bounded() {
    let mut sim = Sim::new(1, 1, 1, Order::First);
    let most = sim::settings().max_per_user;
    for number in 0..=most {
        let name = format!("group-{number}");
        sim.construct(&proc(1, 0), &name, leader(&[Proc::all(nspace(1))]), None);
    }
    sim.deliver_all();
    let is_formed = |answers: &[GroupCallResult]| matches!(answers, [GroupCallResult::Formed(_)]);
    let formed = sim.made.iter().filter(|made| is_formed(&made.answers));
    assert_eq!((formed.count(), sim.made.len()), (most, most + 1));
}

#[test]
fn constructs_that_local_procs_do_not_join_are_charged() {
    let mut sim = Sim::new(1, 2, 1, Order::First);
    let most = sim::settings().max_per_user;
    let both = leader(&[Proc::all(nspace(1))]);
    for number in 0..=most {
        sim.construct(&proc(1, 0), &format!("group-{number}"), both.clone(), None);
    }
    sim.deliver_all();
    let answers = |sim: &Sim| {
        sim.made
            .iter()
            .map(|made| made.answers.len())
            .collect::<Vec<_>>()
    };
    assert_eq!(answers(&sim)[..most], vec![0; most], "they wait");
    let refused = |made: &sim::Made| Sim::status(&made.answers[0]);
    assert_eq!(refused(&sim.made[most]), code::PMIX_ERR_OUT_OF_RESOURCE);
    let report = sim.quotas(1);
    let used = report.users.values().next().unwrap()[&Quota::Groups];
    assert_eq!((used.held, used.refused), (most as u64, 1));
    // The other proc joins a group that is under construction, and no further one.
    sim.construct(&proc(1, 1), "group-0", both.clone(), None);
    sim.construct(&proc(1, 1), "another", both, None);
    sim.deliver_all();
    assert!(matches!(
        sim.made[0].answers[..],
        [GroupCallResult::Formed(_)]
    ));
    assert_eq!(refused(&sim.made[most + 2]), code::PMIX_ERR_OUT_OF_RESOURCE);
}

#[test]
fn messages_equal_servers_and_go_once_each_way() {
    let procs = 64;
    let mut before = 0;
    let most = u32::try_from(number("PEAL_GROUP_SERVERS", 300)).unwrap();
    for servers in [10, 100, most] {
        let mut sim = Sim::new(servers, procs, 1, Order::First);
        let all: Vec<Proc> = (1..=servers)
            .map(|server| Proc::all(nspace(server)))
            .collect();
        let construct = leader(&all);
        for server in 1..=servers {
            for rank in 0..procs {
                sim.construct(&proc(server, rank), "all", construct.clone(), None);
            }
        }
        sim.deliver_all();
        let members = servers as usize * procs as usize;
        assert_eq!(sim.made.len(), members);
        for made in &sim.made {
            let [GroupCallResult::Formed(formed)] = &made.answers[..] else {
                panic!("{made:?}")
            };
            assert_eq!(
                (formed.members.len(), formed.context_id.is_some()),
                (members, true)
            );
        }
        // One from each server but the coordinator, and one back.
        assert_eq!(sim.sent, 2 * (servers as usize - 1));
        assert!(sim.sent > before);
        before = sim.sent;
    }
}

#[test]
fn late_ones_learn_at_once_how_it_ended_and_may_try_again() {
    let mut sim = Sim::new(2, 1, 1, Order::First);
    let both = [proc(1, 0), proc(2, 0)];
    sim.construct(&both[0], "g", leader(&both), Some(1000));
    sim.come_to_rest().unwrap();
    assert_eq!(Sim::status(&sim.made[0].answers[0]), code::PMIX_ERR_TIMEOUT);
    sim.construct(&both[1], "g", leader(&both), Some(1000));
    assert_eq!(
        sim.made[1].answers, sim.made[0].answers,
        "with the same words, and without any message"
    );
    for proc in &both {
        sim.construct(proc, "g", leader(&both), Some(1000));
    }
    sim.deliver_all();
    assert!(matches!(sim.made[2].answers[0], GroupCallResult::Formed(_)));
    assert_eq!(sim.made[2].answers, sim.made[3].answers);
}

#[test]
fn delayed_contribution_is_answered_by_decision_made_meanwhile() {
    let mut sim = Sim::new(2, 1, 1, Order::Reversed);
    let both = [proc(1, 0), proc(2, 0)];
    // They do not agree, which is remembered for a minute ...
    sim.construct(&both[0], "g", leader(&both), None);
    sim.construct(&both[1], "g", leader(&both[1..]), None);
    sim.deliver_all();
    sim.pass(50_000);
    sim.construct(&both[0], "g", leader(&both), Some(1000));
    sim.construct(&both[1], "g", leader(&both), Some(40_000));
    sim.pass(1000);
    // ... and what has come of it since, for longer.
    sim.pass(10_000);
    sim.deliver_all();
    let status = |sim: &Sim, call: usize| {
        sim.made[call]
            .answers
            .iter()
            .map(Sim::status)
            .collect::<Vec<_>>()
    };
    assert_eq!(status(&sim, 3), [code::PMIX_ERR_TIMEOUT]);
    sim.construct(&both[0], "g", leader(&both), Some(1000));
    sim.come_to_rest().unwrap();
    assert_eq!(
        status(&sim, 4),
        [code::PMIX_ERR_TIMEOUT],
        "the other one does not wait any more"
    );
}

#[test]
fn coordinator_keeps_nothing_for_its_successor() {
    let mut sim = Sim::new(2, 1, 1, Order::First);
    let both = [proc(1, 0), proc(2, 0)];
    for _ in 0..100 {
        both.iter()
            .for_each(|proc| sim.construct(proc, "g", leader(&both), None));
        sim.deliver_all();
        both.iter().for_each(|proc| sim.destruct(proc, "g", None));
        sim.deliver_all();
    }
    let left = |server| sim.servers[&ServerId(server)].leftovers();
    assert_eq!(
        [left(1), left(2)].map(Option::unwrap),
        ["coordinator state", "past decisions"]
    );
}

#[test]
fn takeover_repeats_no_context_id() {
    let mut sim = Sim::new(2, 1, 1, Order::First);
    let before = sim.servers.get_mut(&ServerId(2)).unwrap().context_id();
    sim.server_dies(ServerId(1));
    sim.deliver_all();
    let left = proc(2, 0);
    sim.construct(&left, "g", leader(std::slice::from_ref(&left)), None);
    sim.come_to_rest().unwrap();
    let [GroupCallResult::Formed(formed)] = &sim.made[0].answers[..] else {
        panic!("{:?}", sim.made)
    };
    assert_ne!(formed.context_id, Some(before));
}

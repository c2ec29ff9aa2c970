//! Fences whose servers and procs are lost: the procs that are left get the same answer, once.
use super::{
    cluster::{Cluster, seeds},
    fencing::{FAN_OUTS, Fencing, PLACEMENT, PROCS, SERVERS, proc},
    random::Random,
};
use peal_core::{
    group::ServerId,
    server::{FenceContribution, InterServerMessage, StateSettings},
    server_fences::{FenceMessage, FenceRound},
};
use peal_model::{Nspace, Proc, Request, Status, code};
use std::sync::Arc;

#[test]
fn fences_end_once_although_procs_and_servers_die() {
    for seed in seeds(80) {
        let mut fencing = Fencing::new(seed);
        // Nobody could tell the procs of a server that is lost before it has announced them.
        fencing.cluster.deliver_all();
        for round in 0..6 {
            for set in 0..fencing.sets.len() {
                let mut ranks = fencing.sets[set].1.clone();
                fencing.cluster.random.shuffle(&mut ranks);
                for rank in ranks {
                    fencing.call(set, rank, None);
                    fencing.cluster.deliver_some(6);
                    match fencing.cluster.random.below(60) {
                        0 => {
                            let rank = fencing.cluster.random.below(PROCS as usize);
                            fencing.cluster.die(&proc(u32::try_from(rank).unwrap()));
                        }
                        1 => {
                            let number = 1 + fencing.cluster.random.below(SERVERS as usize);
                            let server = ServerId(u32::try_from(number).unwrap());
                            if fencing.cluster.servers.len() > 1 {
                                fencing.cluster.server_dies(server);
                            }
                        }
                        _ => {}
                    }
                }
            }
            fencing.cluster.pass(3_000);
            fencing.check();
            for (number, call) in fencing.cluster.calls.iter().enumerate() {
                let lives = fencing.cluster.peers.contains_key(&call.proc);
                assert!(
                    !lives || call.status().is_some(),
                    "seed {seed}, round {round}: call {number} is not answered: {call:?}"
                );
            }
            fencing.check_alike(seed);
        }
    }
}

/// Procs of a server that is lost in a fence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LostProcs {
    /// They have called the fence.
    Called,
    /// They have not.
    Late,
}

/// Loses servers in a fence of all procs, each after some messages. Returns the number of messages
/// that were delivered before the first loss, and the answer.
fn fence_with_losses(
    fan_out: usize,
    seed: u64,
    losses: &[(u32, LostProcs)],
    after: usize,
) -> (usize, Status) {
    let mut fencing = Fencing::with_fan_out(fan_out, seed);
    fencing.cluster.deliver_all();
    let is_late = |rank: u32| {
        let late = losses.iter().filter(|(_, procs)| *procs == LostProcs::Late);
        let mut late = late.filter_map(|(lost, _)| PLACEMENT.get(*lost as usize - 1));
        late.any(|(_, ranks)| ranks.contains(&rank))
    };
    let mut ranks: Vec<u32> = (0..PROCS).filter(|rank| !is_late(*rank)).collect();
    fencing.cluster.random.shuffle(&mut ranks);
    for rank in ranks {
        fencing.call(0, rank, None);
    }
    let delivered = (0..after).take_while(|_| fencing.cluster.deliver()).count();
    for (lost, _) in losses {
        fencing.cluster.server_dies(ServerId(*lost));
        fencing.cluster.deliver_some(3);
    }
    fencing.cluster.pass(5_000);
    fencing.check();
    fencing.check_alike(seed);
    let living = (0..PROCS).find(|rank| fencing.lives(*rank)).unwrap();
    let status = fencing.status(fencing.calls_of(0, living)[0]);
    let what = format!("fan-out {fan_out}, seed {seed}, {losses:?} after {after}");
    let status = status.unwrap_or_else(|| panic!("{what}: not answered"));
    // The procs that are left are as many at all servers, and meet again.
    for rank in (0..PROCS)
        .filter(|rank| fencing.lives(*rank))
        .collect::<Vec<_>>()
    {
        fencing.call(0, rank, None);
    }
    fencing.cluster.pass(5_000);
    let next = fencing.status(fencing.calls_of(0, living)[1]);
    assert_eq!(next, Some(code::PMIX_ERR_PARTIAL_SUCCESS), "{what}");
    fencing.check_alike(seed);
    (delivered, status)
}

#[test]
fn fence_ends_alike_after_loss_at_each_position_and_time() {
    for fan_out in FAN_OUTS {
        for lost in 1..=SERVERS {
            for after in (0..).step_by(2) {
                let seed = u64::from(lost) * 100 + after as u64;
                let called = [(lost, LostProcs::Called)];
                let (delivered, status) = fence_with_losses(fan_out, seed, &called, after);
                let partial = code::PMIX_ERR_PARTIAL_SUCCESS;
                assert!(
                    [code::PMIX_SUCCESS, partial].contains(&status),
                    "fan-out {fan_out}, {lost} lost after {after}: {status:?}"
                );
                if delivered < after {
                    assert_eq!(status, code::PMIX_SUCCESS, "{lost} lost after the end");
                    break;
                }
                let late = [(lost, LostProcs::Late)];
                let (_, status) = fence_with_losses(fan_out, seed, &late, after);
                assert_eq!(status, partial, "{lost} is late");
            }
        }
    }
}

#[test]
fn fence_ends_alike_after_losses_of_two_servers() {
    for seed in seeds(400) {
        let mut random = Random(seed);
        let fan_out = FAN_OUTS[random.below(FAN_OUTS.len())];
        let servers = random.some(&PLACEMENT, 2);
        let mut procs = || match random.percent(80) {
            true => LostProcs::Called,
            false => LostProcs::Late,
        };
        let losses: Vec<(u32, LostProcs)> = servers
            .iter()
            .map(|(server, _)| (*server, procs()))
            .collect();
        let after = random.below(24);
        fence_with_losses(fan_out, seed, &losses, after);
    }
}

/// Servers of one job with a proc each, and fan-out 2. All procs call a fence, and nothing is delivered.
fn fencing_servers(servers: u32) -> (Cluster, Vec<usize>) {
    let settings = StateSettings {
        fence_fan_out: 2,
        ..StateSettings::default()
    };
    let mut cluster = Cluster::new(servers, 1, &settings);
    let ranks: Vec<[u32; 1]> = (0..servers).map(|rank| [rank]).collect();
    let placement = ranks.iter().map(|ranks| (ranks[0] + 1, &ranks[..]));
    cluster.add_job("job", &placement.collect::<Vec<_>>());
    cluster.deliver_all();
    let call = |rank| {
        let procs = vec![Proc::all(Nspace::new("job").unwrap())];
        let infos = Vec::new();
        cluster.request(&proc(rank), Request::Fence { procs, infos })
    };
    let calls = (0..servers).map(call).collect();
    (cluster, calls)
}

fn first_round() -> FenceRound {
    FenceRound {
        procs: vec![Proc::all(Nspace::new("job").unwrap())].into(),
        generation: 1,
    }
}

/// A contribution for a root, which covers these servers.
fn contribution(root: u32, number: u64, covered: &[u32]) -> FenceMessage {
    FenceMessage::Contribute {
        round: first_round(),
        root: ServerId(root),
        number,
        covered: covered.iter().copied().map(ServerId).collect(),
        completed: 0,
        contribution: FenceContribution::default(),
    }
}

/// A result of a root: all procs have called.
fn full_result(root: u32) -> FenceMessage {
    FenceMessage::Result {
        round: first_round(),
        root: ServerId(root),
        settled: 0,
        outcome: Ok(Arc::new(FenceContribution::default())),
    }
}

fn receive(cluster: &mut Cluster, from: u32, to: u32, message: FenceMessage) {
    let message = InterServerMessage::Fence(message);
    cluster.step(ServerId(to), |server, now| {
        server.server_message(ServerId(from), message, now)
    });
}

fn lose(cluster: &mut Cluster, lost: u32, at: u32) {
    cluster.step(ServerId(at), |server, now| {
        server.server_left(ServerId(lost), now)
    });
}

#[test]
fn contributions_for_lost_root_do_not_count_for_next() {
    // The first server is above the second and third, the second above the fourth.
    let (mut cluster, calls) = fencing_servers(4);
    receive(&mut cluster, 4, 2, contribution(1, 1, &[4]));
    lose(&mut cluster, 1, 2);
    receive(&mut cluster, 3, 2, contribution(2, 2, &[3]));
    // The fourth may have got a result of the first, and does not contribute again then.
    assert_eq!(cluster.calls[calls[1]].status(), None);
    receive(&mut cluster, 4, 2, full_result(1));
    assert_eq!(cluster.calls[calls[1]].status(), Some(code::PMIX_SUCCESS));
}

#[test]
fn contribution_for_next_root_counts_before_loss_is_heard() {
    let (mut cluster, calls) = fencing_servers(4);
    receive(&mut cluster, 3, 2, contribution(2, 2, &[3]));
    receive(&mut cluster, 4, 2, contribution(2, 2, &[4]));
    assert_eq!(cluster.calls[calls[1]].status(), None);
    lose(&mut cluster, 1, 2);
    let partial = Some(code::PMIX_ERR_PARTIAL_SUCCESS);
    assert_eq!(cluster.calls[calls[1]].status(), partial);
}

#[test]
fn result_of_lost_root_is_not_taken_after_contribution_for_next() {
    // The third server is above the sixth, also without the first.
    let (mut cluster, calls) = fencing_servers(7);
    lose(&mut cluster, 1, 6);
    receive(&mut cluster, 3, 6, full_result(1));
    // The next root may decide without a server that has the result, if that one is lost, too.
    assert_eq!(cluster.calls[calls[5]].status(), None);
    receive(&mut cluster, 3, 6, full_result(2));
    assert_eq!(cluster.calls[calls[5]].status(), Some(code::PMIX_SUCCESS));
}

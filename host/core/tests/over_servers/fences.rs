//! Fences over servers, compared with a count of calls: no fence of a set is over before each of its procs has called it as often.
use super::{
    cluster::seeds,
    fencing::{FAN_OUTS, Fencing, PLACEMENT, PROCS, SERVERS, proc},
};
use peal_model::code;

#[test]
fn fences_equal_the_counts_of_their_calls() {
    for seed in seeds(60) {
        let mut fencing = Fencing::new(seed);
        for _ in 0..150 {
            let set = fencing.cluster.random.below(fencing.sets.len());
            let ranks = fencing.sets[set].1.clone();
            let rank = ranks[fencing.cluster.random.below(ranks.len())];
            let pending = fencing.calls_of(set, rank).iter();
            let pending = pending.filter(|call| fencing.status(**call).is_none());
            // A proc may call again before it is answered.
            if pending.count() < 3 {
                fencing.call(set, rank, None);
            }
            fencing.cluster.deliver_some(12);
            fencing.check();
        }
        fencing.cluster.pass(5_000);
        fencing.check();
        for (set, (_, ranks)) in fencing.sets.iter().enumerate() {
            let counts = ranks.iter().map(|rank| fencing.calls_of(set, *rank).len());
            let over = counts.min().unwrap();
            for rank in ranks {
                for (n, call) in fencing.calls_of(set, *rank).iter().enumerate() {
                    let expected = (n < over).then_some(code::PMIX_SUCCESS);
                    assert_eq!(
                        fencing.status(*call),
                        expected,
                        "seed {seed}: fence {n} of set {set}, rank {rank}, of {over}"
                    );
                }
            }
        }
        assert_eq!(fencing.cluster.refused, [], "seed {seed}");
    }
}

#[test]
fn fences_after_timeouts_meet_again_in_step() {
    for seed in seeds(70) {
        let mut fencing = Fencing::new(seed);
        for round in 0..6 {
            // Some do not call in time, or call more than once.
            for _ in 0..10 {
                let set = fencing.cluster.random.below(fencing.sets.len());
                let ranks = fencing.sets[set].1.clone();
                let rank = ranks[fencing.cluster.random.below(ranks.len())];
                fencing.call(set, rank, Some(1 + u32::try_from(set).unwrap()));
                fencing.cluster.deliver_some(8);
            }
            fencing.cluster.pass(10_000);
            let pending = fencing.cluster.calls.iter();
            let pending: Vec<_> = pending.filter(|call| call.status().is_none()).collect();
            assert!(
                pending.is_empty(),
                "seed {seed}, round {round}: {pending:?}"
            );
            // Then all call once, and meet.
            let first = fencing.cluster.calls.len();
            for set in 0..fencing.sets.len() {
                for rank in fencing.sets[set].1.clone() {
                    fencing.call(set, rank, None);
                    fencing.cluster.deliver_some(3);
                }
            }
            fencing.cluster.pass(1_000);
            for call in &fencing.cluster.calls[first..] {
                assert_eq!(
                    call.status(),
                    Some(code::PMIX_SUCCESS),
                    "seed {seed}, round {round}: {call:?}"
                );
            }
        }
    }
}

#[test]
fn fence_costs_two_messages_for_each_other_server() {
    for fan_out in FAN_OUTS {
        let mut fencing = Fencing::with_fan_out(fan_out, 1);
        fencing.cluster.copied = 0;
        fencing.cluster.deliver_all();
        fencing.cluster.sent = 0;
        fencing.cluster.sent_by.clear();
        for rank in 0..PROCS {
            fencing.call(0, rank, None);
        }
        fencing.cluster.deliver_all();
        fencing.check();
        let last = fencing.calls_of(0, PROCS - 1)[0];
        assert_eq!(fencing.status(last), Some(code::PMIX_SUCCESS));
        assert_eq!(fencing.cluster.sent, 2 * (SERVERS as usize - 1));
        let most = fencing.cluster.sent_by.values().max();
        let of_root = fan_out.min(SERVERS as usize - 1);
        assert!(most <= Some(&(of_root + 1)), "fan-out {fan_out}: {most:?}");
    }
}

#[test]
fn contributions_wait_until_all_servers_are_known() {
    for fan_out in FAN_OUTS {
        for seed in 0..20 {
            let mut fencing = Fencing::with_fan_out(fan_out, seed);
            fencing.cluster.copied = 0;
            for rank in 0..PROCS {
                fencing.call(0, rank, None);
                fencing.cluster.deliver_some(10);
            }
            // No time passes in which a server could be asked.
            fencing.cluster.deliver_all();
            for rank in 0..PROCS {
                let status = fencing.status(fencing.calls_of(0, rank)[0]);
                assert_eq!(status, Some(code::PMIX_SUCCESS), "fan-out {fan_out}");
            }
            let others = SERVERS as usize - 1;
            let announcements = SERVERS as usize * others;
            // Each server that joins tells the holder of published data, and the coordinator of groups, that it
            // brings none.
            let joins = 3 * others;
            assert_eq!(fencing.cluster.sent, announcements + joins + 2 * others);
        }
    }
}

/// A fence that a proc gives up while servers are lost fails for all, and the next one succeeds.
#[test]
fn fence_given_up_at_each_position_fails_for_all() {
    for fan_out in FAN_OUTS {
        for late in 0..PROCS {
            let mut fencing = Fencing::with_fan_out(fan_out, u64::from(late));
            fencing.cluster.deliver_all();
            let others: Vec<u32> = (0..PROCS).filter(|rank| *rank != late).collect();
            for rank in &others {
                // One of them waits for a second, the others without end.
                let timeout = (*rank == (late + 5) % PROCS).then_some(1);
                fencing.call(0, *rank, timeout);
            }
            fencing.cluster.pass(2_000);
            for rank in &others {
                let status = fencing.status(fencing.calls_of(0, *rank)[0]);
                assert_eq!(
                    status,
                    Some(code::PMIX_ERR_TIMEOUT),
                    "{rank} without {late}"
                );
            }
            for rank in 0..PROCS {
                fencing.call(0, rank, None);
            }
            fencing.cluster.pass(2_000);
            for rank in 0..PROCS {
                let last = *fencing.calls_of(0, rank).last().unwrap();
                assert_eq!(fencing.status(last), Some(code::PMIX_SUCCESS), "{rank}");
            }
        }
    }
}

/// Procs that have all ended never call: their servers are asked, at each level of the tree.
#[test]
fn servers_without_living_procs_are_asked_and_hold_up_none() {
    for fan_out in FAN_OUTS {
        for (calls, _) in PLACEMENT {
            let mut fencing = Fencing::with_fan_out(fan_out, u64::from(calls));
            fencing.cluster.deliver_all();
            for (server, ranks) in PLACEMENT {
                for rank in ranks.iter().filter(|_| server != calls) {
                    fencing.cluster.die(&proc(*rank));
                }
            }
            fencing.cluster.deliver_all();
            let ranks = PLACEMENT[calls as usize - 1].1;
            for rank in ranks {
                fencing.call(0, *rank, None);
            }
            fencing.cluster.pass(10_000);
            for rank in ranks {
                let status = fencing.status(fencing.calls_of(0, *rank)[0]);
                let partial = Some(code::PMIX_ERR_PARTIAL_SUCCESS);
                assert_eq!(status, partial, "fan-out {fan_out}, server {calls}");
            }
        }
    }
}

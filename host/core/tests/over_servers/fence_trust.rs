//! Messages that servers may send in the tree of a fence: about themselves and those below them, and to those below them.
use super::{
    cluster::Cluster,
    trust::{nspace, proc, refused},
};
use peal_core::{
    group::ServerId,
    server::{FenceContribution, MessageRefusal, PutSnapshot, StateSettings},
    server_fences::{FenceMessage, FenceRound},
};
use peal_model::{Info, KeyName, Kval, Proc, RankData, Request, Value, code, key};
use std::sync::Arc;

/// Seven servers with a proc each, and fan-out 2: the second and third are below the first, the fourth
/// and fifth below the second, the sixth and seventh below the third.
fn tree_of_seven() -> Cluster {
    let settings = StateSettings {
        fence_fan_out: 2,
        ..StateSettings::default()
    };
    let mut cluster = Cluster::new(7, 1, &settings);
    let placement: [(u32, &[u32]); 7] = [
        (1, &[1]),
        (2, &[2]),
        (3, &[3]),
        (4, &[4]),
        (5, &[5]),
        (6, &[6]),
        (7, &[0, 7]),
    ];
    cluster.add_job("wide", &placement);
    cluster.add_job("other", &[(1, &[0])]);
    cluster.deliver_all();
    cluster
}

/// A contribution to the first fence of the wide job, with a value of each of these procs.
fn contribution(number: u64, covered: &[u32], values: &[Proc]) -> FenceMessage {
    let snapshot = |proc: &Proc| {
        PutSnapshot::from(RankData {
            proc: proc.clone(),
            kvals: vec![Kval::new(KeyName("test.a"), Value::Uint32(1))],
        })
    };
    FenceMessage::Contribute {
        round: FenceRound {
            procs: vec![Proc::all(nspace("wide"))].into(),
            generation: 1,
        },
        root: ServerId(1),
        number,
        covered: covered.iter().copied().map(ServerId).collect(),
        completed: 0,
        contribution: FenceContribution {
            data: values.iter().map(snapshot).collect(),
            ..FenceContribution::default()
        },
    }
}

fn fence(cluster: &mut Cluster, rank: u32) -> usize {
    let fence = Request::Fence {
        procs: vec![Proc::all(nspace("wide"))],
        infos: vec![Info::new(key::PMIX_COLLECT_DATA, Value::Bool(true))],
    };
    cluster.request(&proc("wide", rank), fence)
}

#[test]
fn server_in_tree_speaks_for_those_below_it_alone() {
    let mut cluster = tree_of_seven();
    let call = fence(&mut cluster, 1);
    // The second server lies about all; it is believed about itself and two others.
    let values = [3, 4].map(|rank| proc("wide", rank));
    let lie = contribution(1, &[1, 2, 3, 4, 5, 6, 7], &values);
    assert_eq!(refused(&mut cluster, 2, 1, lie), None);
    assert_eq!(cluster.calls[call].status(), None, "the third is missing");
    // So does a server that is below the third.
    let lie = contribution(1, &[3, 6, 7], &[proc("wide", 3)]);
    assert_eq!(refused(&mut cluster, 6, 1, lie), None);
    assert_eq!(cluster.calls[call].status(), None, "the third is missing");
    let honest = contribution(1, &[3, 6, 7], &[]);
    assert_eq!(refused(&mut cluster, 3, 1, honest), None);
    assert_eq!(cluster.calls[call].status(), Some(code::PMIX_SUCCESS));
    let get = |cluster: &mut Cluster, rank: u32| {
        let get = Request::Get {
            proc: proc("wide", rank),
            key: Some("test.a".into()),
            infos: vec![Info::new(key::PMIX_IMMEDIATE, Value::Bool(true))],
        };
        let call = cluster.request(&proc("wide", 1), get);
        cluster.calls[call].status()
    };
    assert_eq!(get(&mut cluster, 4), Some(code::PMIX_SUCCESS));
    let forged = get(&mut cluster, 3);
    assert_eq!(forged, Some(code::PMIX_ERR_NOT_FOUND), "a forged value");
}

#[test]
fn fence_brings_no_values_of_other_jobs() {
    let mut cluster = tree_of_seven();
    fence(&mut cluster, 1);
    let foreign = proc("other", 0);
    let refusal = Some(MessageRefusal::ForeignProc(foreign.clone()));
    let forged = contribution(1, &[2, 4, 5], std::slice::from_ref(&foreign));
    assert_eq!(refused(&mut cluster, 2, 1, forged), refusal);
    let FenceMessage::Contribute {
        round,
        contribution,
        ..
    } = contribution(1, &[], &[foreign])
    else {
        panic!("no contribution");
    };
    let result = FenceMessage::Result {
        round,
        root: ServerId(1),
        settled: 0,
        outcome: Ok(Arc::new(contribution)),
    };
    assert_eq!(refused(&mut cluster, 1, 2, result), refusal);
}

#[test]
fn results_and_questions_come_from_above_alone() {
    let mut cluster = tree_of_seven();
    let FenceMessage::Contribute { round, .. } = contribution(1, &[], &[]) else {
        panic!("no contribution");
    };
    let result = FenceMessage::Result {
        round: round.clone(),
        root: ServerId(1),
        settled: 0,
        outcome: Err(code::PMIX_ERR_TIMEOUT),
    };
    let not_above = Some(MessageRefusal::NotAbove);
    // From below, from beside, and from a server that is above others.
    for (from, to) in [(4, 2), (2, 1), (2, 3), (5, 4), (3, 4), (7, 1)] {
        assert_eq!(refused(&mut cluster, from, to, result.clone()), not_above);
        let question = FenceMessage::Await(round.clone());
        assert_eq!(refused(&mut cluster, from, to, question), not_above);
    }
    for (from, to) in [(2, 4), (1, 5), (1, 3), (3, 7)] {
        let question = FenceMessage::Await(round.clone());
        assert_eq!(refused(&mut cluster, from, to, question), None);
        assert_eq!(refused(&mut cluster, from, to, result.clone()), None);
    }
}

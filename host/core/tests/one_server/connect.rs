//! Connected procs and their notification, compared with a list of assemblages.
use crate::support::stage::Stage;
use peal_core::{
    MonotonicTime,
    server::{Action, StateSettings},
};
use peal_model::{
    Info, Infos, Nspace, Proc, Rank, Reply, Request, Status, UserIdentity, Value, code, key,
};
use proptest::prelude::*;
use std::{collections::BTreeSet, time::Duration};

const WHO: UserIdentity = UserIdentity {
    uid: 1000,
    gid: 100,
};
const JOBS: [&str; 2] = ["one", "two"];

/// Two procs of each job.
fn proc(who: usize) -> Proc {
    Proc::new(
        Nspace::new(JOBS[who / 2]).unwrap(),
        Rank(u32::try_from(who % 2).unwrap()),
    )
}

/// Procs that connect with each other, and the sets of them that are connected.
struct ConnectedProcs {
    stage: Stage,
    there: BTreeSet<usize>,
    assemblages: Vec<BTreeSet<usize>>,
}

impl ConnectedProcs {
    fn new() -> ConnectedProcs {
        let settings = StateSettings {
            connection_loss_window: Duration::ZERO,
            ..StateSettings::default()
        };
        let mut procs = ConnectedProcs {
            stage: Stage::with_jobs(settings, &JOBS.map(|job| (job, 2, WHO))),
            there: (0..4).collect(),
            assemblages: Vec::new(),
        };
        for who in 0..4 {
            let codes = vec![code::PMIX_ERR_PROC_TERM_WO_SYNC];
            procs.ask(
                who,
                Request::RegisterEvents {
                    codes,
                    infos: Vec::new(),
                },
            );
        }
        procs
    }

    fn ask(&mut self, who: usize, request: Request) -> Vec<Action> {
        let (_, actions) = self.stage.request(self.stage.peers[who], request);
        self.stage.accept_registrations(actions)
    }

    /// All present procs of these call; returns their answers.
    fn call(&mut self, whose: &BTreeSet<usize>, call: fn(Vec<Proc>) -> Request) -> Vec<Reply> {
        let callers: Vec<usize> = whose.intersection(&self.there).copied().collect();
        let procs: Vec<Proc> = whose.iter().copied().map(proc).collect();
        let actions: Vec<Action> = callers
            .iter()
            .flat_map(|who| self.ask(*who, call(procs.clone())))
            .collect();
        let replies: Vec<Reply> = actions
            .into_iter()
            .filter_map(|action| {
                if let Action::Reply { reply, .. } = action {
                    Some(reply)
                } else {
                    None
                }
            })
            .collect();
        assert_eq!(replies.len(), callers.len(), "everybody is answered");
        replies
    }

    fn all_are_told(
        &mut self,
        whose: &BTreeSet<usize>,
        call: fn(Vec<Proc>) -> Request,
        expected: Status,
    ) {
        for reply in self.call(whose, call) {
            assert_eq!(reply.status(), expected);
            if let Reply::Connected { jobs, .. } = reply {
                let jobs_named: BTreeSet<usize> = whose.iter().map(|who| who / 2).collect();
                assert_eq!(
                    jobs.len(),
                    jobs_named.len() - 1,
                    "the data of all other jobs"
                );
            }
        }
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Connect(whose) => {
                let possible = whose.is_subset(&self.there);
                let expected = if possible {
                    code::PMIX_SUCCESS
                } else {
                    code::PMIX_ERR_LOST_CONNECTION
                };
                self.all_are_told(
                    &whose,
                    |procs| Request::Connect {
                        procs,
                        infos: Vec::new(),
                    },
                    expected,
                );
                if possible && !self.assemblages.contains(&whose) {
                    self.assemblages.push(whose);
                }
            }
            Op::Disconnect(whose) => {
                self.all_are_told(
                    &whose,
                    |procs| Request::Disconnect {
                        procs,
                        infos: Vec::new(),
                    },
                    code::PMIX_SUCCESS,
                );
                if !whose.is_disjoint(&self.there) {
                    self.assemblages.retain(|assemblage| *assemblage != whose);
                }
            }
            Op::Leave(who) => {
                if self.there.remove(&who) {
                    self.ask(who, Request::Finalize);
                }
            }
            Op::Die(who) => {
                if !self.there.remove(&who) {
                    return;
                }
                let actions = self
                    .stage
                    .server
                    .disconnected(self.stage.peers[who], MonotonicTime(0));
                let told = actions.iter().filter_map(|action| match action {
                    Action::Deliver { peer, event } => {
                        let about = event.infos.value_of(key::PMIX_EVENT_AFFECTED_PROC);
                        assert_eq!(about, Some(&Value::Proc(proc(who))));
                        self.stage.peers.iter().position(|known| known == peer)
                    }
                    _ => None,
                });
                let told: BTreeSet<usize> = told.collect();
                let with = self
                    .assemblages
                    .iter()
                    .filter(|assemblage| assemblage.contains(&who))
                    .flatten();
                let expected = with
                    .copied()
                    .filter(|other| self.there.contains(other) && other / 2 != who / 2);
                assert_eq!(told, expected.collect());
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Connect(BTreeSet<usize>),
    Disconnect(BTreeSet<usize>),
    Leave(usize),
    Die(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let some = || proptest::collection::btree_set(0..4usize, 1..=4);
    prop_oneof![
        8 => some().prop_map(Op::Connect),
        3 => some().prop_map(Op::Disconnect),
        1 => (0..4usize).prop_map(Op::Leave),
        1 => (0..4usize).prop_map(Op::Die),
    ]
}

proptest! {
    #[test]
    fn only_connected_procs_receive_deaths(ops in proptest::collection::vec(op(), 1..40)) {
        let mut procs = ConnectedProcs::new();
        ops.into_iter().for_each(|op| procs.step(op));
    }
}

#[test]
fn a_proc_is_in_no_more_assemblages_than_it_may_wait_in_fences() {
    let mut procs = ConnectedProcs::new();
    let settings = StateSettings {
        max_fences: 1,
        ..StateSettings::default()
    };
    procs.stage = Stage::with_jobs(settings, &[(JOBS[0], 2, WHO)]);
    let nspace = Nspace::new(JOBS[0]).unwrap();
    let connect = |procs: Vec<Proc>| Request::Connect {
        procs,
        infos: Vec::<Info>::new(),
    };
    let replies = procs.call(&[0, 1].into(), connect);
    assert!(
        replies.iter().all(|reply| reply.status().is_success()),
        "{replies:?}"
    );
    let actions = procs.ask(0, connect(vec![Proc::all(nspace)]));
    assert!(
        matches!(&actions[..], [Action::Reply { reply, .. }] if reply.status() == code::PMIX_ERR_OUT_OF_RESOURCE)
    );
}

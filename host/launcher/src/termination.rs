//! The procs of a job that were asked to end: what is done until nothing of them is left, and who waits for that.
use super::{
    control::{OpenControl, RankNotDone},
    process_tree::{self, PendingSignal, ProcessSnapshot, Trees},
    reaper::{self, ChildReaper},
};
use peal_model::{Rank, code};
use rustix::process::Signal;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio::time::Instant;

/// How long what was killed may take to end; a process in the kernel's hands takes its time.
const LAST: Duration = Duration::from_secs(5);

/// Between two looks at what is about to end: at first, and at most.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const SLOWEST_LOOK: Duration = Duration::from_millis(50);

/// A proc that has been asked to end.
#[derive(Debug)]
struct EndOf {
    since: Instant,
    /// When what is left of it is killed.
    kill_at: Instant,
    /// Whether those of its processes have been told that are in other process groups.
    told: SignalState,
    leader: Leader,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SignalState {
    NotYet,
    All,
}

/// The process that was started for a proc.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leader {
    Runs,
    Ended,
}

/// What a look at processes needs.
#[derive(Debug)]
pub(crate) struct ProcessScan {
    trees: Trees,
    due: BTreeMap<Rank, PendingSignal>,
    seen: ProcessSnapshot,
}

/// What it has found: how many processes of each proc there were.
#[derive(Debug)]
pub(crate) struct ScanResult {
    due: BTreeMap<Rank, PendingSignal>,
    seen: ProcessSnapshot,
    left: BTreeMap<Rank, usize>,
}

impl ProcessScan {
    /// Blocks.
    pub(crate) fn take(mut self, family: &ChildReaper) -> ScanResult {
        let left = process_tree::look(&self.trees, &self.due, family, &mut self.seen);
        ScanResult {
            due: self.due,
            seen: self.seen,
            left,
        }
    }
}

/// The procs of a job that were asked to end, and who waits for that.
#[derive(Debug, Default)]
pub(crate) struct Terminations {
    ending: BTreeMap<Rank, EndOf>,
    open: Vec<OpenControl>,
    seen: ProcessSnapshot,
    /// When the last look was taken.
    last: Option<Instant>,
    /// How long after it the next one is.
    wait: Duration,
}

impl Terminations {
    /// Begins to end procs that run, or have run, and returns the request if it is done already.
    pub(crate) fn end(
        &mut self,
        ranks: BTreeSet<Rank>,
        mut open: OpenControl,
        (trees, running): (&Trees, &BTreeMap<Rank, u32>),
        (signal, grace): (Signal, Duration),
    ) -> Option<OpenControl> {
        let now = Instant::now();
        for rank in ranks {
            let Some(tree) = trees.get(&rank) else {
                continue;
            };
            let leader = if running.contains_key(&rank) {
                Leader::Runs
            } else {
                Leader::Ended
            };
            if signal != Signal::KILL && leader == Leader::Runs {
                // What is paused would not hear of it.
                tree.thaw();
                reaper::signal_group(tree.leader, signal);
                reaper::signal_group(tree.leader, Signal::CONT);
            }
            let at = now + grace;
            let end = self.ending.entry(rank).or_insert(EndOf {
                since: now,
                kill_at: at,
                told: SignalState::NotYet,
                leader,
            });
            // Of two times the earlier one holds.
            end.kill_at = end.kill_at.min(at);
            open.waits.insert(rank);
        }
        self.wait = Duration::ZERO;
        if open.waits.is_empty() {
            return Some(open);
        }
        self.open.push(open);
        None
    }

    /// Whether a proc has been asked to end.
    pub(crate) fn has_asked(&self, rank: Rank) -> bool {
        self.ending.contains_key(&rank)
    }

    /// Whether a proc is to be started again.
    pub(crate) fn restarts(&self, rank: Rank) -> bool {
        self.open
            .iter()
            .filter_map(|open| open.restart.as_ref())
            .any(|restart| restart.ranks.contains(&rank))
    }

    /// These are not to be started again after all.
    pub(crate) fn give_up_restarts(
        &mut self,
        of: impl Fn(Rank) -> bool,
        because: &str,
    ) -> Vec<Rank> {
        let mut given_up = Vec::new();
        for open in &mut self.open {
            let Some(restart) = &mut open.restart else {
                continue;
            };
            for rank in restart.ranks.extract_if(.., |rank| of(*rank)) {
                open.not_done
                    .push(RankNotDone::new(rank, code::PMIX_ERR_JOB_CANCELED, because));
                given_up.push(rank);
            }
        }
        given_up
    }

    /// The process of a proc has ended.
    pub(crate) fn ended(&mut self, rank: Rank) {
        if let Some(end) = self.ending.get_mut(&rank) {
            end.leader = Leader::Ended;
            self.wait = Duration::ZERO;
        }
    }

    /// Whether all that run have been asked to end, and none of them is to be started again.
    pub(crate) fn cover(&self, running: &BTreeMap<Rank, u32>) -> bool {
        running
            .keys()
            .all(|rank| self.has_asked(*rank) && !self.restarts(*rank))
    }

    /// Whether something of a proc may be left that was asked to end.
    pub(crate) fn are_busy(&self) -> bool {
        !self.ending.is_empty()
    }

    /// When to look again.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        let of_one = |end: &EndOf| {
            let next = self.last.map_or(end.since, |last| last + self.wait);
            match (end.told, end.leader) {
                (SignalState::NotYet, _) => end.since,
                (SignalState::All, Leader::Ended) => next,
                (SignalState::All, Leader::Runs) => end.kill_at.max(next),
            }
        };
        self.ending.values().map(of_one).min()
    }

    /// What that look needs. Until it has been taken there must be no other.
    pub(crate) fn look(&mut self, trees: &Trees) -> ProcessScan {
        let now = Instant::now();
        let due_of = |end: &EndOf| match end.told {
            _ if end.kill_at <= now => PendingSignal::Kill,
            SignalState::NotYet => PendingSignal::Tell,
            SignalState::All => PendingSignal::Watch,
        };
        let due: BTreeMap<Rank, PendingSignal> = self
            .ending
            .iter()
            .map(|(rank, end)| (*rank, due_of(end)))
            .collect();
        let trees = trees
            .iter()
            .filter(|(rank, _)| due.contains_key(rank))
            .map(|(rank, tree)| (*rank, tree.clone()));
        ProcessScan {
            trees: trees.collect(),
            due,
            seen: std::mem::take(&mut self.seen),
        }
    }

    /// Goes on with what has been seen, and returns the procs of which nothing is left, and the requests that are done.
    pub(crate) fn looked(
        &mut self,
        ScanResult { due, seen, left }: ScanResult,
    ) -> (Vec<Rank>, Vec<OpenControl>) {
        let now = Instant::now();
        self.seen = seen;
        let mut over = Vec::new();
        for (rank, due) in due {
            let Some(end) = self.ending.get_mut(&rank) else {
                continue;
            };
            end.told = SignalState::All;
            let count = left.get(&rank).copied().unwrap_or_default();
            let gone = count == 0 && end.leader == Leader::Ended;
            let outlives = due == PendingSignal::Kill && now >= end.kill_at + LAST;
            if !gone && !outlives {
                continue;
            }
            if outlives && !gone {
                tracing::error!(%rank, count, "processes of a proc do not end, although they were killed");
                let reason =
                    format!("{count} of its processes do not end, although they were killed");
                for open in self
                    .open
                    .iter_mut()
                    .filter(|open| open.waits.contains(&rank))
                {
                    open.not_done.push(RankNotDone {
                        rank,
                        status: code::PMIX_ERR_TIMEOUT,
                        reason: reason.clone(),
                    });
                    if let Some(restart) = &mut open.restart {
                        restart.ranks.remove(&rank);
                    }
                }
            }
            // Who is to start again has not ended for anybody else, and nobody has of whom something runs.
            if gone && !self.restarts(rank) {
                over.push(rank);
            }
            self.ending.remove(&rank);
            self.seen.remove(&rank);
            for open in &mut self.open {
                open.waits.remove(&rank);
            }
        }
        self.last = Some(now);
        self.wait = (self.wait * 2).clamp(FIRST_LOOK, SLOWEST_LOOK);
        (
            over,
            self.open
                .extract_if(.., |open| open.waits.is_empty())
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{control::Restart, process_tree::Tree};
    use proptest::prelude::*;
    use tokio::sync::oneshot::{self, Receiver};

    const RANKS: u32 = 3;
    const GRACE: Duration = Duration::from_secs(1);

    #[derive(Clone, Debug)]
    enum TerminationStep {
        /// Somebody wants some ranks ended, at once or not, and maybe started again.
        End {
            ranks: BTreeSet<u32>,
            signal: Signal,
            again: bool,
        },
        /// The process of a rank ends.
        Ended(u32),
        /// There is a look, and so many processes of each rank are left.
        Look([usize; RANKS as usize]),
        Wait(Duration),
        GiveUp(u32),
    }

    fn step() -> impl Strategy<Value = TerminationStep> {
        let ranks = prop::collection::btree_set(0..RANKS, 1..=RANKS as usize);
        let signal = prop_oneof![Just(Signal::TERM), Just(Signal::KILL)];
        prop_oneof![
            2 => (ranks, signal, any::<bool>()).prop_map(|(ranks, signal, again)| TerminationStep::End { ranks, signal, again }),
            2 => (0..RANKS).prop_map(TerminationStep::Ended),
            4 => prop::array::uniform3(0..2usize).prop_map(TerminationStep::Look),
            1 => (0..4000u64).prop_map(|ms| TerminationStep::Wait(Duration::from_millis(ms))),
            1 => (0..RANKS).prop_map(TerminationStep::GiveUp),
        ]
    }

    /// What a request should have come to, worked out from all that has happened since.
    struct RequestResult {
        ranks: BTreeSet<u32>,
        answer: Receiver<Vec<RankNotDone>>,
        answered: bool,
        /// Of whom nothing was seen in a look since, or more than there was time for.
        over: BTreeSet<u32>,
        again: BTreeSet<u32>,
    }

    /// No process has these numbers.
    fn trees() -> Trees {
        let tree = |rank| Tree {
            leader: 1_000_000_000 + rank,
            mark: String::new(),
            cell: None,
        };
        (0..RANKS).map(|rank| (Rank(rank), tree(rank))).collect()
    }

    async fn play(steps: Vec<TerminationStep>) {
        let (trees, mut endings) = (trees(), Terminations::default());
        let mut running: BTreeMap<Rank, u32> = trees
            .iter()
            .map(|(rank, tree)| (*rank, tree.leader))
            .collect();
        let mut asked: Vec<RequestResult> = Vec::new();
        // When each rank that is about to end is to be killed.
        let mut kill_at: BTreeMap<u32, Instant> = BTreeMap::new();
        for step in steps {
            let mut done = Vec::new();
            match step {
                TerminationStep::End {
                    ranks,
                    signal,
                    again,
                } => {
                    let (tell, answer) = oneshot::channel();
                    let mut open = OpenControl::of(tell);
                    let named: BTreeSet<Rank> = ranks.iter().copied().map(Rank).collect();
                    open.restart = again.then(|| Restart {
                        ranks: named.clone(),
                        checkpoint: None,
                    });
                    let grace = if signal == Signal::KILL {
                        Duration::ZERO
                    } else {
                        GRACE
                    };
                    for rank in &ranks {
                        let at = kill_at.entry(*rank).or_insert(Instant::now() + grace);
                        *at = (*at).min(Instant::now() + grace);
                    }
                    done.extend(endings.end(named, open, (&trees, &running), (signal, grace)));
                    let again = if again {
                        ranks.clone()
                    } else {
                        BTreeSet::new()
                    };
                    asked.push(RequestResult {
                        ranks,
                        answer,
                        answered: false,
                        over: BTreeSet::new(),
                        again,
                    });
                }
                TerminationStep::Ended(rank) => {
                    running.remove(&Rank(rank));
                    endings.ended(Rank(rank));
                }
                TerminationStep::Look(left) => {
                    let look = endings.look(&trees);
                    let now = Instant::now();
                    let late: BTreeSet<Rank> = kill_at
                        .iter()
                        .filter(|(_, at)| **at <= now)
                        .map(|(rank, _)| Rank(*rank))
                        .collect();
                    let killed = look
                        .due
                        .iter()
                        .filter(|(_, due)| **due == PendingSignal::Kill)
                        .map(|(rank, _)| *rank);
                    assert_eq!(killed.collect::<BTreeSet<_>>(), late);
                    let left: BTreeMap<Rank, usize> = (0..RANKS)
                        .map(Rank)
                        .zip(left)
                        .filter(|(_, count)| *count > 0)
                        .collect();
                    let over = |(rank, at): (&u32, &Instant)| {
                        let gone =
                            !left.contains_key(&Rank(*rank)) && !running.contains_key(&Rank(*rank));
                        (gone || now >= *at + LAST).then_some(*rank)
                    };
                    for rank in kill_at.iter().filter_map(over).collect::<Vec<_>>() {
                        kill_at.remove(&rank);
                        for asked in &mut asked {
                            asked.over.insert(rank);
                        }
                    }
                    let looked = ScanResult {
                        due: look.due,
                        seen: look.seen,
                        left,
                    };
                    done = endings.looked(looked).1;
                }
                TerminationStep::Wait(time) => tokio::time::advance(time).await,
                TerminationStep::GiveUp(given_up) => {
                    let told = endings.give_up_restarts(|rank| rank == Rank(given_up), "");
                    let mut counted = 0;
                    for asked in asked
                        .iter_mut()
                        .filter(|asked| !asked.over.is_superset(&asked.ranks))
                    {
                        counted += usize::from(asked.again.remove(&given_up));
                    }
                    // Who does not end is not started again anyway.
                    assert!(told.len() <= counted, "{told:?}");
                }
            }
            done.into_iter().for_each(OpenControl::answer);
            for asked in &mut asked {
                let is_over = asked.over.is_superset(&asked.ranks);
                asked.answered |= asked.answer.try_recv().is_ok();
                assert_eq!(asked.answered, is_over);
            }
            assert_eq!(endings.are_busy(), !kill_at.is_empty());
            assert_eq!(endings.next_look().is_some(), endings.are_busy());
        }
    }

    proptest! {
        #[test]
        fn waiters_for_ends_are_answered_only_after_last_process(
            steps in prop::collection::vec(step(), 0..40),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            runtime.block_on(play(steps));
        }
    }
}

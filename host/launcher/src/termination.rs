//! Termination of procs of a job: the steps until no process of them is left, and the requests that
//! wait for that.
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

/// Time that killed processes have to end. A process in a system call may need it.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// First interval between scans of processes that are about to end. It doubles with each scan.
const FIRST_SCAN_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum interval between scans.
const MAX_SCAN_INTERVAL: Duration = Duration::from_millis(50);

/// Proc whose end was requested.
#[derive(Debug)]
struct PendingTermination {
    since: Instant,
    /// Time at which remaining processes are killed.
    kill_at: Instant,
    /// Delivery of the request to processes in other process groups.
    signals: SignalState,
    leader: Leader,
}

/// Delivery of the request to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SignalState {
    NotYet,
    All,
}

/// State of the process that was started for a proc.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leader {
    Runs,
    Ended,
}

/// Input of one scan of processes.
#[derive(Debug)]
pub(crate) struct ProcessScan {
    trees: Trees,
    due: BTreeMap<Rank, PendingSignal>,
    seen: ProcessSnapshot,
}

/// Result of one scan: the number of processes of each proc.
#[derive(Debug)]
pub(crate) struct ScanResult {
    due: BTreeMap<Rank, PendingSignal>,
    seen: ProcessSnapshot,
    left: BTreeMap<Rank, usize>,
}

impl ProcessScan {
    /// Runs the scan. Blocks.
    pub(crate) fn run(mut self, reaper: &ChildReaper) -> ScanResult {
        let left = process_tree::scan(&self.trees, &self.due, reaper, &mut self.seen);
        ScanResult {
            due: self.due,
            seen: self.seen,
            left,
        }
    }
}

/// Procs of a job whose end was requested, and the requests that wait for it.
#[derive(Debug, Default)]
pub(crate) struct Terminations {
    ending: BTreeMap<Rank, PendingTermination>,
    open: Vec<OpenControl>,
    seen: ProcessSnapshot,
    /// Time of the last scan.
    last: Option<Instant>,
    /// Interval until the next scan.
    wait: Duration,
}

impl Terminations {
    /// Begins to end procs that run, or have run. Returns the request if there is nothing to wait
    /// for.
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
                // A paused process would not receive the signal.
                tree.thaw();
                reaper::signal_group(tree.leader, signal);
                reaper::signal_group(tree.leader, Signal::CONT);
            }
            let at = now + grace;
            let end = self.ending.entry(rank).or_insert(PendingTermination {
                since: now,
                kill_at: at,
                signals: SignalState::NotYet,
                leader,
            });
            // Of two requests, the earlier time applies.
            end.kill_at = end.kill_at.min(at);
            open.waits.insert(rank);
        }
        // The next scan begins at once: these procs may end quickly.
        self.wait = Duration::ZERO;
        if open.waits.is_empty() {
            return Some(open);
        }
        self.open.push(open);
        None
    }

    /// Returns true if the end of a proc was requested and it may have processes.
    pub(crate) fn is_terminating(&self, rank: Rank) -> bool {
        self.ending.contains_key(&rank)
    }

    /// Returns true if a proc is to be started again.
    pub(crate) fn restarts(&self, rank: Rank) -> bool {
        self.open
            .iter()
            .filter_map(|open| open.restart.as_ref())
            .any(|restart| restart.ranks.contains(&rank))
    }

    /// Cancels the restarts of the selected procs. Returns their ranks.
    pub(crate) fn cancel_restarts(
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

    /// Records that the process started for a proc has ended.
    pub(crate) fn ended(&mut self, rank: Rank) {
        if let Some(end) = self.ending.get_mut(&rank) {
            end.leader = Leader::Ended;
            // The rest of the proc ends soon, as a rule: scans begin at the short interval again.
            self.wait = Duration::ZERO;
        }
    }

    /// Returns true if the end of all running procs was requested and none is to be started again.
    pub(crate) fn cover(&self, running: &BTreeMap<Rank, u32>) -> bool {
        running
            .keys()
            .all(|rank| self.is_terminating(*rank) && !self.restarts(*rank))
    }

    /// Returns true if processes of a proc whose end was requested may be left.
    pub(crate) fn are_busy(&self) -> bool {
        !self.ending.is_empty()
    }

    /// Returns the time of the next scan; none if no proc is being ended.
    pub(crate) fn next_scan_time(&self) -> Option<Instant> {
        let of_one = |end: &PendingTermination| {
            let next = self.last.map_or(end.since, |last| last + self.wait);
            match (end.signals, end.leader) {
                (SignalState::NotYet, _) => end.since,
                (SignalState::All, Leader::Ended) => next,
                // While the leader runs, a scan is needed only for the kill: its exit is reported.
                (SignalState::All, Leader::Runs) => end.kill_at.max(next),
            }
        };
        self.ending.values().map(of_one).min()
    }

    /// Returns the input of the next scan. The result has to be passed to
    /// [`apply_scan`](Terminations::apply_scan) before another scan begins.
    pub(crate) fn next_scan(&mut self, trees: &Trees) -> ProcessScan {
        let now = Instant::now();
        let due_of = |end: &PendingTermination| match end.signals {
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

    /// Processes the result of a scan. Returns the procs without processes, and the requests that
    /// are done.
    pub(crate) fn apply_scan(
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
            end.signals = SignalState::All;
            let count = left.get(&rank).copied().unwrap_or_default();
            let gone = count == 0 && end.leader == Leader::Ended;
            let outlives = due == PendingSignal::Kill && now >= end.kill_at + KILL_TIMEOUT;
            if !gone && !outlives {
                continue;
            }
            if outlives && !gone {
                tracing::error!(%rank, count, "killed processes of proc do not end");
                let reason = format!("{count} killed processes do not end");
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
            // The end of a proc that is restarted, or has processes left, is not visible outside of
            // the launcher.
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
        self.wait = (self.wait * 2).clamp(FIRST_SCAN_INTERVAL, MAX_SCAN_INTERVAL);
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
        /// A request to end ranks, at once or with time to end, maybe with a restart.
        End {
            ranks: BTreeSet<u32>,
            signal: Signal,
            again: bool,
        },
        /// The process of a rank ends.
        Ended(u32),
        /// A scan that finds this number of processes of each rank.
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

    /// Expected state of a request, derived from all steps since.
    struct RequestResult {
        ranks: BTreeSet<u32>,
        answer: Receiver<Vec<RankNotDone>>,
        answered: bool,
        /// Ranks without processes in a scan since, or with processes beyond the time limit.
        over: BTreeSet<u32>,
        again: BTreeSet<u32>,
    }

    /// Trees with process ids that no process has.
    fn trees() -> Trees {
        let tree = |rank| Tree {
            leader: 1_000_000_000 + rank,
            mark: String::new(),
            cgroup: None,
        };
        (0..RANKS).map(|rank| (Rank(rank), tree(rank))).collect()
    }

    async fn play(steps: Vec<TerminationStep>) {
        let trees = trees();
        let mut endings = Terminations::default();
        let mut running: BTreeMap<Rank, u32> = trees
            .iter()
            .map(|(rank, tree)| (*rank, tree.leader))
            .collect();
        let mut asked: Vec<RequestResult> = Vec::new();
        // Time of the kill of each rank that is being ended.
        let mut kill_at: BTreeMap<u32, Instant> = BTreeMap::new();
        for step in steps {
            let mut done = Vec::new();
            match step {
                TerminationStep::End {
                    ranks,
                    signal,
                    again,
                } => {
                    let (sender, answer) = oneshot::channel();
                    let mut open = OpenControl::of(sender);
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
                    let look = endings.next_scan(&trees);
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
                        (gone || now >= *at + KILL_TIMEOUT).then_some(*rank)
                    };
                    for rank in kill_at.iter().filter_map(over).collect::<Vec<_>>() {
                        kill_at.remove(&rank);
                        for asked in &mut asked {
                            asked.over.insert(rank);
                        }
                    }
                    let result = ScanResult {
                        due: look.due,
                        seen: look.seen,
                        left,
                    };
                    done = endings.apply_scan(result).1;
                }
                TerminationStep::Wait(time) => tokio::time::advance(time).await,
                TerminationStep::GiveUp(given_up) => {
                    let cancelled = endings.cancel_restarts(|rank| rank == Rank(given_up), "");
                    let mut counted = 0;
                    for asked in asked
                        .iter_mut()
                        .filter(|asked| !asked.over.is_superset(&asked.ranks))
                    {
                        counted += usize::from(asked.again.remove(&given_up));
                    }
                    // The restart of a rank that does not end was cancelled before.
                    assert!(cancelled.len() <= counted, "{cancelled:?}");
                }
            }
            done.into_iter().for_each(OpenControl::answer);
            for asked in &mut asked {
                let is_over = asked.over.is_superset(&asked.ranks);
                asked.answered |= asked.answer.try_recv().is_ok();
                assert_eq!(asked.answered, is_over);
            }
            assert_eq!(endings.are_busy(), !kill_at.is_empty());
            assert_eq!(endings.next_scan_time().is_some(), endings.are_busy());
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

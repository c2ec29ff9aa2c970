//! Processes of a proc: its own and all its descendants, in any process group or session.
//!
//! A process belongs to the nearest proc among its ancestors. Orphans become children of `peal`,
//! which is a subreaper. An orphan belongs to the proc that is found first in this order:
//!
//! 1. the proc of its control group,
//! 2. the proc of the mark in its environment,
//! 3. without a mark, the proc of its session or process group.
use super::reaper::ChildReaper;
use peal_model::{Proc, Rank};
use peal_system::{
    cgroup::ProcCgroup,
    process::{ProcessId, RunningProcess},
};
use rustix::process::Signal;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

/// Environment variable with the marks of a process: one word for each proc among its ancestors,
/// including those of outer jobs. Descendants inherit it.
pub(crate) const MARK: &str = "PEAL_PROC";

/// Time that a process has to stop. A process in a system call may need it.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval between scans of processes that are about to stop.
const SCAN_INTERVAL: Duration = Duration::from_millis(1);

/// Properties by which the processes of a proc are recognized.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// Process id of the process started for the proc. It may have ended.
    pub(crate) leader: u32,
    /// Mark in the environment of its processes.
    pub(crate) mark: String,
    /// Control group of its processes, if there is one.
    pub(crate) cgroup: Option<Arc<ProcCgroup>>,
}

/// Process trees of procs of one job, by rank.
pub(crate) type Trees = BTreeMap<Rank, Tree>;

/// Returns the mark of a proc.
pub(crate) fn mark(proc: &Proc) -> String {
    // Marks are separated by spaces, which a namespace may contain.
    format!("{proc}").replace(char::is_whitespace, "_")
}

impl Tree {
    /// Thaws the control group, so that its processes receive signals.
    pub(crate) fn thaw(&self) {
        if let Some(Err(error)) = self.cgroup.as_ref().map(|cgroup| cgroup.thaw()) {
            tracing::warn!(mark = self.mark, %error, "cannot thaw control group of proc");
        }
    }
}

/// Procs by the properties that assign orphans to them.
struct Owners<'a> {
    by_cgroup: HashMap<String, Rank>,
    by_mark: HashMap<&'a str, Rank>,
    by_leader: HashMap<u32, Rank>,
}

impl<'a> Owners<'a> {
    fn of(trees: &'a Trees) -> Owners<'a> {
        let cgroups = trees
            .iter()
            .filter_map(|(rank, tree)| Some((tree.cgroup.as_ref()?.name(), *rank)));
        Owners {
            by_cgroup: cgroups.collect(),
            by_mark: trees
                .iter()
                .map(|(rank, tree)| (&*tree.mark, *rank))
                .collect(),
            by_leader: trees
                .iter()
                .map(|(rank, tree)| (tree.leader, *rank))
                .collect(),
        }
    }

    /// Returns the proc to which an orphan belongs, in the order of the module documentation.
    fn of_orphan(&self, orphan: &RunningProcess) -> Option<Rank> {
        let group = orphan
            .control_group()
            .filter(|_| !self.by_cgroup.is_empty())
            .unwrap_or_default();
        let above = group
            .rmatch_indices('/')
            .filter_map(|(at, _)| group.get(..at));
        let kept = std::iter::once(&*group)
            .chain(above)
            .find_map(|group| self.by_cgroup.get(group));
        let marked = || match orphan.variable(MARK) {
            Some(marks) => marks
                .split(' ')
                .find_map(|mark| self.by_mark.get(mark).copied()),
            None => [orphan.id.pid, orphan.session, orphan.group]
                .iter()
                .find_map(|leader| self.by_leader.get(leader).copied()),
        };
        kept.copied().or_else(marked)
    }
}

/// Returns all processes of these procs that have not ended.
pub(crate) fn members(trees: &Trees, reaper: &ChildReaper) -> Vec<(Rank, RunningProcess)> {
    let me = std::process::id();
    let all: HashMap<u32, RunningProcess> = RunningProcess::all()
        .into_iter()
        .map(|process| (process.id.pid, process))
        .collect();
    // After the list of processes: a proc that starts in between must not look like an orphan.
    let leaders = reaper.leaders();
    let wanted = Owners::of(trees);
    // Owners found so far. `None` means that the process belongs to none of these procs.
    let mut owners: HashMap<u32, Option<Rank>> = HashMap::new();
    for process in all.values() {
        let mut way = Vec::new();
        let mut at = *process;
        let owner = loop {
            let pid = at.id.pid;
            if let Some(known) = owners.get(&pid) {
                break *known;
            }
            way.push(pid);
            // Procs of other jobs are leaders too: their processes belong to them alone.
            if leaders.contains(&pid) {
                break wanted.by_leader.get(&pid).copied();
            }
            if at.parent == me {
                break if reaper.is_preexisting(pid) {
                    None
                } else {
                    wanted.of_orphan(&at)
                };
            }
            match all.get(&at.parent) {
                // Entries of `/proc` are read one after the other, so the parents may form a cycle.
                Some(parent) if !way.contains(&parent.id.pid) => at = *parent,
                _ => break None,
            }
        };
        owners.extend(way.into_iter().map(|pid| (pid, owner)));
    }
    let living = all.into_values().filter(RunningProcess::lives);
    living
        .filter_map(|process| Some((owners.get(&process.id.pid).copied()??, process)))
        .collect()
}

/// Stops all processes of these procs. Returns the procs with processes that do not stop, with the
/// reason. Blocks.
pub(crate) fn pause(trees: &Trees, reaper: &ChildReaper) -> BTreeMap<Rank, String> {
    let mut refused = BTreeMap::new();
    for (rank, tree) in trees {
        if let Some(Err(error)) = tree.cgroup.as_ref().map(|cgroup| cgroup.freeze()) {
            refused.insert(
                *rank,
                format!("its control group cannot be frozen: {error}"),
            );
        }
    }
    // Repeated, since a process may start another one before it stops.
    let until = Instant::now() + STOP_TIMEOUT;
    loop {
        let mut moving: BTreeMap<Rank, String> = BTreeMap::new();
        for (rank, process) in members(trees, reaper) {
            let cgroup = trees
                .get(&rank)
                .and_then(|tree| tree.cgroup.as_ref())
                .filter(|cgroup| cgroup.holds(&process));
            let (stopped, sent) = match cgroup {
                Some(cgroup) => (cgroup.is_frozen(), Ok(())),
                None if process.is_stopped() => (true, Ok(())),
                None => (false, process.signal(Signal::STOP)),
            };
            if !stopped {
                let why =
                    sent.map_or_else(|error| error.to_string(), |()| "does not stop".to_owned());
                moving.insert(rank, format!("process {}: {why}", process.id.pid));
            }
        }
        if moving.is_empty() || Instant::now() >= until {
            refused.extend(moving);
            return refused;
        }
        std::thread::sleep(SCAN_INTERVAL);
    }
}

/// Resumes all processes of these procs. Returns the procs with processes that cannot be resumed,
/// with the reason. Blocks.
pub(crate) fn resume(trees: &Trees, reaper: &ChildReaper) -> BTreeMap<Rank, String> {
    let mut refused = BTreeMap::new();
    for (rank, tree) in trees {
        if let Some(Err(error)) = tree.cgroup.as_ref().map(|cgroup| cgroup.thaw()) {
            refused.insert(
                *rank,
                format!("its control group cannot be thawed: {error}"),
            );
        }
    }
    for (rank, process) in members(trees, reaper) {
        let kept = trees
            .get(&rank)
            .and_then(|tree| tree.cgroup.as_ref())
            .is_some_and(|cgroup| cgroup.holds(&process));
        // In a thawed group only processes stopped by a signal need `SIGCONT`.
        if (!kept || process.is_stopped())
            && let Err(error) = process.signal(Signal::CONT)
        {
            refused.insert(rank, format!("process {}: {error}", process.id.pid));
        }
    }
    refused
}

/// Action due on a proc whose end was requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PendingSignal {
    /// Send the request to processes outside of its process group. The group has received it.
    Tell,
    /// Count its processes only.
    Watch,
    /// Kill its processes.
    Kill,
}

/// Processes seen in earlier scans, for each proc to be killed.
pub(crate) type ProcessSnapshot = BTreeMap<Rank, HashSet<ProcessId>>;

/// Carries out the due actions for the processes that one scan finds. Returns the number of
/// processes of each proc. Blocks.
///
/// To kill a proc takes several scans. Processes found are stopped first, so that they start no
/// others. When a scan finds no new process, all are killed.
pub(crate) fn scan(
    trees: &Trees,
    due: &BTreeMap<Rank, PendingSignal>,
    reaper: &ChildReaper,
    seen: &mut ProcessSnapshot,
) -> BTreeMap<Rank, usize> {
    let mut found: BTreeMap<Rank, Vec<RunningProcess>> = BTreeMap::new();
    for (rank, process) in members(trees, reaper) {
        found.entry(rank).or_default().push(process);
    }
    for (rank, processes) in &found {
        let Some((tree, due)) = trees.get(rank).zip(due.get(rank)) else {
            continue;
        };
        match due {
            PendingSignal::Tell => {
                let elsewhere: Vec<&RunningProcess> = processes
                    .iter()
                    .filter(|process| process.group != tree.leader)
                    .collect();
                send(&elsewhere, Signal::TERM);
                // A stopped process acts on the request only when it continues.
                send(&elsewhere, Signal::CONT);
            }
            PendingSignal::Watch => {}
            PendingSignal::Kill => end(tree, processes, seen.entry(*rank).or_default()),
        }
    }
    found
        .into_iter()
        .map(|(rank, processes)| (rank, processes.len()))
        .collect()
}

/// Stops or kills the processes of a proc, depending on the earlier scans.
fn end(tree: &Tree, processes: &[RunningProcess], seen: &mut HashSet<ProcessId>) {
    let all: Vec<&RunningProcess> = processes.iter().collect();
    if all.iter().all(|process| seen.contains(&process.id)) {
        send(&all, Signal::KILL);
        // The kernel also kills processes of the group that were started since the scan.
        tree.cgroup.iter().for_each(|cgroup| cgroup.kill());
    } else {
        // A failure to freeze is ignored, since the processes are stopped one by one as well.
        tree.cgroup.iter().for_each(|cgroup| drop(cgroup.freeze()));
        send(&all, Signal::STOP);
    }
    seen.extend(processes.iter().map(|process| process.id));
}

fn send(processes: &[&RunningProcess], signal: Signal) {
    for process in processes {
        if let Err(error) = process.signal(signal) {
            tracing::warn!(pid = process.id.pid, ?signal, %error, "cannot signal process");
        }
    }
}

//! The processes of a proc: its own, and all that descend from it, in whatever process group or session they are by now.
//!
//! A process belongs to the nearest proc that it descends from. Those whose parent has ended are our children, since we adopt
//! orphans: they belong to the proc in whose control group they are, else to the one whose mark their environment has, else to the
//! one whose session or process group they are in.
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

/// The variable in which procs, and all that they start, carry whose they are: a word for each proc that they descend from, of
/// jobs within jobs too.
pub(crate) const MARK: &str = "PEAL_PROC";

/// How long a process may take to stop; one in the kernel's hands takes its time.
const STOPPING: Duration = Duration::from_secs(2);

/// Between two looks at processes that are about to stop.
const LOOK: Duration = Duration::from_millis(1);

/// How the processes of a proc are told from others.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// The process that was started for it, whether or not that still runs.
    pub(crate) leader: u32,
    /// What they have in their environment.
    pub(crate) mark: String,
    /// Where they are kept, if they are.
    pub(crate) cell: Option<Arc<ProcCgroup>>,
}

/// The trees of some procs of a job.
pub(crate) type Trees = BTreeMap<Rank, Tree>;

/// The mark of a proc.
pub(crate) fn mark(proc: &Proc) -> String {
    // Words are parted by spaces, and a namespace may have some.
    format!("{proc}").replace(char::is_whitespace, "_")
}

impl Tree {
    /// Lets what was paused run again, so that it hears what it is told.
    pub(crate) fn thaw(&self) {
        if let Some(Err(error)) = self.cell.as_ref().map(|cell| cell.thaw()) {
            tracing::warn!(mark = self.mark, %error, "a control group cannot be thawed");
        }
    }
}

/// To whom orphans belong.
struct Owners<'a> {
    by_cell: HashMap<&'a str, Rank>,
    by_mark: HashMap<&'a str, Rank>,
    by_leader: HashMap<u32, Rank>,
}

impl<'a> Owners<'a> {
    fn of(trees: &'a Trees) -> Owners<'a> {
        let cells = trees
            .iter()
            .filter_map(|(rank, tree)| Some((tree.cell.as_ref()?.name(), *rank)));
        Owners {
            by_cell: cells.collect(),
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

    fn of_orphan(&self, orphan: &RunningProcess) -> Option<Rank> {
        let group = orphan
            .control_group()
            .filter(|_| !self.by_cell.is_empty())
            .unwrap_or_default();
        let above = group
            .rmatch_indices('/')
            .filter_map(|(at, _)| group.get(..at));
        let kept = std::iter::once(&*group)
            .chain(above)
            .find_map(|group| self.by_cell.get(group));
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

/// All processes of these procs that have not ended.
pub(crate) fn members(trees: &Trees, family: &ChildReaper) -> Vec<(Rank, RunningProcess)> {
    let me = std::process::id();
    let all: HashMap<u32, RunningProcess> = RunningProcess::all()
        .into_iter()
        .map(|process| (process.id.pid, process))
        .collect();
    let leaders = family.leaders();
    let wanted = Owners::of(trees);
    // Whose a process is, once that is known; none of these procs' is known too.
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
            if leaders.contains(&pid) {
                break wanted.by_leader.get(&pid).copied();
            }
            if at.parent == me {
                break if family.is_stranger(pid) {
                    None
                } else {
                    wanted.of_orphan(&at)
                };
            }
            match all.get(&at.parent) {
                // What is read one after the other may make no sense together.
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

/// Stops all processes of these procs, and says which procs have some that do not stop. Blocks.
pub(crate) fn pause(trees: &Trees, family: &ChildReaper) -> BTreeMap<Rank, String> {
    let mut refused = BTreeMap::new();
    for (rank, tree) in trees {
        if let Some(Err(error)) = tree.cell.as_ref().map(|cell| cell.freeze()) {
            refused.insert(
                *rank,
                format!("its control group cannot be frozen: {error}"),
            );
        }
    }
    let until = Instant::now() + STOPPING;
    loop {
        let mut moving: BTreeMap<Rank, String> = BTreeMap::new();
        for (rank, process) in members(trees, family) {
            let cell = trees
                .get(&rank)
                .and_then(|tree| tree.cell.as_ref())
                .filter(|cell| cell.holds(&process));
            let (stopped, sent) = match cell {
                Some(cell) => (cell.is_frozen(), Ok(())),
                None if process.is_stopped() => (true, Ok(())),
                None => (false, process.signal(Signal::STOP)),
            };
            if !stopped {
                let why = sent.map_or_else(
                    |error| error.to_string(),
                    |()| "it does not stop".to_owned(),
                );
                moving.insert(rank, format!("process {}: {why}", process.id.pid));
            }
        }
        if moving.is_empty() || Instant::now() >= until {
            refused.extend(moving);
            return refused;
        }
        std::thread::sleep(LOOK);
    }
}

/// Lets all processes of these procs run again, and says of which procs some could not. Blocks.
pub(crate) fn resume(trees: &Trees, family: &ChildReaper) -> BTreeMap<Rank, String> {
    let mut refused = BTreeMap::new();
    for (rank, tree) in trees {
        if let Some(Err(error)) = tree.cell.as_ref().map(|cell| cell.thaw()) {
            refused.insert(
                *rank,
                format!("its control group cannot be thawed: {error}"),
            );
        }
    }
    for (rank, process) in members(trees, family) {
        let kept = trees
            .get(&rank)
            .and_then(|tree| tree.cell.as_ref())
            .is_some_and(|cell| cell.holds(&process));
        // Whoever was not stopped need not hear of it.
        if (!kept || process.is_stopped())
            && let Err(error) = process.signal(Signal::CONT)
        {
            refused.insert(rank, format!("process {}: {error}", process.id.pid));
        }
    }
    refused
}

/// What is to be done to a proc that has been asked to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PendingSignal {
    /// Tell those of its processes that are in other process groups than it is, which has been told.
    Tell,
    /// Nothing but a look.
    Watch,
    /// End it.
    Kill,
}

/// Which processes have been seen of each proc that is to be ended.
pub(crate) type ProcessSnapshot = BTreeMap<Rank, HashSet<ProcessId>>;

/// Does to these procs what is due, as far as one look reaches, and says of each how many processes there were. To end a proc takes
/// some looks: who is seen is stopped and starts nobody any more; once nobody new is seen, all are killed. Blocks.
pub(crate) fn look(
    trees: &Trees,
    due: &BTreeMap<Rank, PendingSignal>,
    family: &ChildReaper,
    seen: &mut ProcessSnapshot,
) -> BTreeMap<Rank, usize> {
    let mut found: BTreeMap<Rank, Vec<RunningProcess>> = BTreeMap::new();
    for (rank, process) in members(trees, family) {
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

fn end(tree: &Tree, processes: &[RunningProcess], seen: &mut HashSet<ProcessId>) {
    let all: Vec<&RunningProcess> = processes.iter().collect();
    if all.iter().all(|process| seen.contains(&process.id)) {
        send(&all, Signal::KILL);
        tree.cell.iter().for_each(|cell| cell.kill());
    } else {
        // Where it cannot be frozen, those in it are stopped one by one all the same.
        tree.cell.iter().for_each(|cell| drop(cell.freeze()));
        send(&all, Signal::STOP);
    }
    seen.extend(processes.iter().map(|process| process.id));
}

fn send(processes: &[&RunningProcess], signal: Signal) {
    for process in processes {
        if let Err(error) = process.signal(signal) {
            tracing::warn!(pid = process.id.pid, ?signal, %error, "a process cannot be signalled");
        }
    }
}

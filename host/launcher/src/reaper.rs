//! Leaves no process behind: what a proc started, and what of it got away from its process group.
use peal_model::Proc;
use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, kill_process_group, set_child_subreaper, waitpid,
};
use std::{
    collections::{BTreeMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The children of this process: procs, orphans of theirs that it adopted, and strangers.
#[derive(Debug)]
pub(crate) struct ChildReaper {
    /// Children from before the first job (a shell that started one and then became us): not ours to end.
    strangers: HashSet<Pid>,
    /// Procs that run, of all jobs. Others wait for them.
    procs: Mutex<BTreeMap<Proc, Pid>>,
}

impl ChildReaper {
    /// Makes orphans of procs our own children from now on, so that they can be found.
    pub(crate) fn adopting() -> ChildReaper {
        if let Err(error) = set_child_subreaper(Some(rustix::process::getpid())) {
            tracing::warn!(%error, "orphans of procs cannot be adopted: some may outlive their job");
        }
        ChildReaper {
            strangers: children(),
            procs: Mutex::default(),
        }
    }

    /// A proc has ended, and was waited for.
    pub(crate) fn ended(&self, proc: &Proc) {
        self.procs().remove(proc);
    }

    /// The process of a proc that runs.
    pub(crate) fn process_of(&self, proc: &Proc) -> Option<u32> {
        self.procs()
            .get(proc)
            .map(|pid| pid.as_raw_nonzero().get().cast_unsigned())
    }

    /// Reaps orphans that have ended by themselves.
    pub(crate) fn reap_orphans(&self) {
        for orphan in self.orphans() {
            // One that still runs is left alone.
            let _ = waitpid(Some(orphan), WaitOptions::NOHANG);
        }
    }

    /// Kills and reaps orphans until there are none. As long as any job has procs, an orphan may belong to it and is left
    /// alone: the last job to end takes them all. Blocks.
    pub(crate) fn kill_orphans(&self) {
        while self.procs().is_empty() {
            let orphans = self.orphans();
            if orphans.is_empty() {
                return;
            }
            for orphan in orphans {
                // One that has ended by itself is reaped all the same.
                let _ = kill_process(orphan, Signal::KILL);
                let _ = waitpid(Some(orphan), WaitOptions::empty());
            }
        }
    }

    /// The processes of all procs that run.
    pub(crate) fn leaders(&self) -> HashSet<u32> {
        self.procs()
            .values()
            .map(|pid| pid.as_raw_nonzero().get().cast_unsigned())
            .collect()
    }

    /// Whether a child of ours has been there since before the first job.
    pub(crate) fn is_stranger(&self, child: u32) -> bool {
        pid(child).is_some_and(|child| self.strangers.contains(&child))
    }

    fn orphans(&self) -> Vec<Pid> {
        // The lock is held over the look, so that no proc is started between the two.
        let procs = self.procs();
        let ours: HashSet<&Pid> = procs.values().chain(&self.strangers).collect();
        children()
            .into_iter()
            .filter(|child| !ours.contains(child))
            .collect()
    }

    fn procs(&self) -> MutexGuard<'_, BTreeMap<Proc, Pid>> {
        // Nothing in here panics half-way, so what a poisoned lock guards is whole.
        self.procs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a proc while nobody takes its process for an orphan.
    pub(crate) fn start<T, E>(
        &self,
        proc: Proc,
        spawn: impl FnOnce() -> Result<(T, Option<u32>), E>,
    ) -> Result<T, E> {
        let mut procs = self.procs();
        let (child, number) = spawn()?;
        procs.extend(number.and_then(pid).map(|pid| (proc, pid)));
        Ok(child)
    }
}

/// Sends a signal to a proc and all that stayed in its process group.
pub(crate) fn signal_group(leader: u32, signal: Signal) {
    if let Err(error) = try_signal_group(leader, signal) {
        tracing::warn!(leader, ?signal, %error, "cannot signal a process group");
    }
}

/// The same, where it matters whether that was possible.
pub(crate) fn try_signal_group(leader: u32, signal: Signal) -> rustix::io::Result<()> {
    match pid(leader).map(|group| kill_process_group(group, signal)) {
        // A group that has ended needs no signal.
        Some(Ok(()) | Err(rustix::io::Errno::SRCH)) | None => Ok(()),
        Some(error) => error,
    }
}

fn children() -> HashSet<Pid> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return HashSet::new();
    };
    let lists = tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|word| pid(word.parse().ok()?))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

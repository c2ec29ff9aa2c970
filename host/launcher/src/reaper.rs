//! Reaper of child processes: finds and ends orphans of procs, including those that left the
//! process group of their proc.
use peal_model::Proc;
use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, kill_process_group, set_child_subreaper, waitpid,
};
use std::{
    collections::{BTreeMap, HashSet},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

/// Function that is told the process id of each proc when it has started. It must not block.
pub type StartObserver = Box<dyn Fn(u32) + Send + Sync>;

/// Children of this process: procs, adopted orphans of procs, and strangers.
pub(crate) struct ChildReaper {
    /// Children that existed before the first job. A shell may have started them before it executed
    /// `peal`. They are never ended.
    preexisting: HashSet<Pid>,
    /// Running procs of all jobs. Their jobs' tasks wait for them.
    procs: Mutex<BTreeMap<Proc, Pid>>,
    /// Observer of starts, once there is one.
    observer: OnceLock<StartObserver>,
}

impl ChildReaper {
    /// Creates the reaper and makes this process a subreaper: orphans of procs become its children,
    /// so that they can be found.
    pub(crate) fn adopting() -> ChildReaper {
        if let Err(error) = set_child_subreaper(Some(rustix::process::getpid())) {
            tracing::warn!(%error, "cannot adopt orphans of procs; some may outlive their job");
        }
        ChildReaper {
            preexisting: children(),
            procs: Mutex::default(),
            observer: OnceLock::new(),
        }
    }

    /// Sets the observer of starts. Only the first call has an effect.
    pub(crate) fn observe_starts(&self, observer: StartObserver) {
        let _ = self.observer.set(observer);
    }

    /// Removes a proc whose process has ended and was waited for.
    pub(crate) fn ended(&self, proc: &Proc) {
        self.procs().remove(proc);
    }

    /// Returns the process of a running proc.
    pub(crate) fn process_of(&self, proc: &Proc) -> Option<u32> {
        self.procs()
            .get(proc)
            .map(|pid| pid.as_raw_nonzero().get().cast_unsigned())
    }

    /// Reaps orphans that have ended.
    pub(crate) fn reap_orphans(&self) {
        for orphan in self.orphans() {
            // Orphans that still run are not affected.
            let _ = waitpid(Some(orphan), WaitOptions::NOHANG);
        }
    }

    /// Kills and reaps orphans until none is left. While any job has procs, an orphan may belong to
    /// that job and is left alone: the last job to end kills them all. Blocks.
    pub(crate) fn kill_orphans(&self) {
        while self.procs().is_empty() {
            let orphans = self.orphans();
            if orphans.is_empty() {
                return;
            }
            for orphan in orphans {
                // The signal fails if the orphan has ended. It has to be reaped in any case.
                let _ = kill_process(orphan, Signal::KILL);
                let _ = waitpid(Some(orphan), WaitOptions::empty());
            }
        }
    }

    /// Returns the process ids of all running procs.
    pub(crate) fn leaders(&self) -> HashSet<u32> {
        self.procs()
            .values()
            .map(|pid| pid.as_raw_nonzero().get().cast_unsigned())
            .collect()
    }

    /// Returns true if a child of this process existed before the first job.
    pub(crate) fn is_preexisting(&self, child: u32) -> bool {
        pid(child).is_some_and(|child| self.preexisting.contains(&child))
    }

    /// Returns the children that are neither procs nor strangers.
    fn orphans(&self) -> Vec<Pid> {
        // The lock is held while the children are listed. Otherwise a proc started in between would
        // count as an orphan.
        let procs = self.procs();
        let ours: HashSet<&Pid> = procs.values().chain(&self.preexisting).collect();
        children()
            .into_iter()
            .filter(|child| !ours.contains(child))
            .collect()
    }

    fn procs(&self) -> MutexGuard<'_, BTreeMap<Proc, Pid>> {
        // No code panics halfway through a change under this lock, so poisoned data are consistent.
        self.procs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a proc under the lock, so that its process does not count as an orphan before it is
    /// registered.
    pub(crate) fn start<T, E>(
        &self,
        proc: Proc,
        spawn: impl FnOnce() -> Result<(T, Option<u32>), E>,
    ) -> Result<T, E> {
        let mut procs = self.procs();
        let (child, number) = spawn()?;
        if let (Some(observe), Some(number)) = (self.observer.get(), number) {
            observe(number);
        }
        procs.extend(number.and_then(pid).map(|pid| (proc, pid)));
        Ok(child)
    }
}

/// Sends a signal to the process group of a proc. Logs a failure.
pub(crate) fn signal_group(leader: u32, signal: Signal) {
    if let Err(error) = try_signal_group(leader, signal) {
        tracing::warn!(leader, ?signal, %error, "cannot signal process group");
    }
}

/// Sends a signal to the process group of a proc. Returns the error if that fails.
pub(crate) fn try_signal_group(leader: u32, signal: Signal) -> rustix::io::Result<()> {
    match pid(leader).map(|group| kill_process_group(group, signal)) {
        // A group without processes has ended.
        Some(Ok(()) | Err(rustix::io::Errno::SRCH)) | None => Ok(()),
        Some(error) => error,
    }
}

/// Returns the children of all threads of this process.
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

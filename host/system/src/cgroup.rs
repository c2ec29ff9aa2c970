//! Control groups (cgroup v2): one for each proc, inside one for its job, where the system permits
//! their creation. The kernel freezes, thaws and kills a group as a whole. Processes that a proc
//! starts are in its group, too.
use crate::process::{self, RunningProcess};
use peal_model::Rank;
use rustix::fs::{Mode, OFlags};
use std::{
    ffi::OsStr,
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Prefix of the names of jobs' groups. The process id of the server follows, and a number.
const JOB_PREFIX: &str = "peal-";

/// Control group of a job. It contains the groups of the job's procs.
#[derive(Debug)]
pub struct JobCgroup {
    dir: PathBuf,
    /// Name of the group in `/proc/PID/cgroup`.
    name: String,
}

/// Control group of one proc and of all processes that it starts. A job may have thousands of
/// them, so each keeps no path of its own.
#[derive(Debug)]
pub struct ProcCgroup {
    rank: Rank,
    /// Group of the job. It can be removed only after this one.
    job: Arc<JobCgroup>,
}

impl JobCgroup {
    /// Creates a group below the one of this process. Removes groups of killed servers there.
    ///
    /// # Errors
    /// The system has no suitable control groups, or this process may not create one.
    pub fn make() -> io::Result<JobCgroup> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (own, name) = own()?;
        // A killed server could not remove its groups, so the next one does.
        sweep(&own);
        let called = format!("{JOB_PREFIX}{}-{number}", std::process::id());
        let dir = own.join(&called);
        fs::create_dir(&dir)?;
        let job = JobCgroup {
            dir,
            name: format!("{}/{called}", name.trim_end_matches('/')),
        };
        // Fail on older kernels, whose control groups cannot be frozen.
        fs::metadata(job.dir.join("cgroup.freeze"))?;
        Ok(job)
    }

    /// Creates the group of a proc.
    pub fn proc_cgroup(self: &Arc<JobCgroup>, rank: Rank) -> io::Result<ProcCgroup> {
        let dir = self.dir_of(rank);
        match fs::create_dir(&dir) {
            // The proc was started before and may have been frozen then: thaw its group.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::write(dir.join("cgroup.freeze"), "0")?
            }
            made => made?,
        }
        Ok(ProcCgroup {
            rank,
            job: self.clone(),
        })
    }

    /// Returns the directory of the group of a proc.
    fn dir_of(&self, rank: Rank) -> PathBuf {
        self.dir.join(rank.0.to_string())
    }
}

impl ProcCgroup {
    /// Returns the name of the group in `/proc/PID/cgroup`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.job.name, self.rank.0)
    }

    fn dir(&self) -> PathBuf {
        self.job.dir_of(self.rank)
    }

    /// Moves a process into the group, with the processes that it has started already. Blocks until
    /// the kernel has finished, for some milliseconds unless another move was completed right
    /// before.
    pub fn take(&self, pid: u32) -> io::Result<()> {
        take(&self.dir(), pid)
    }

    /// Requests that all processes in the group stop. [`Self::is_frozen`] reports that they have.
    pub fn freeze(&self) -> io::Result<()> {
        fs::write(self.dir().join("cgroup.freeze"), "1")
    }

    /// Lets the processes run again.
    pub fn thaw(&self) -> io::Result<()> {
        fs::write(self.dir().join("cgroup.freeze"), "0")
    }

    /// Returns true if all processes in the group have stopped.
    pub fn is_frozen(&self) -> bool {
        let events = fs::read_to_string(self.dir().join("cgroup.events")).unwrap_or_default();
        events.lines().any(|line| line == "frozen 1")
    }

    /// Kills all processes in the group, frozen or not. Has no effect on kernels before 5.14.
    pub fn kill(&self) {
        // Ignore errors: the caller also kills each process on its own.
        let _ = fs::write(self.dir().join("cgroup.kill"), "1");
    }

    /// Returns true if a process is in the group or in one below it.
    pub fn holds(&self, process: &RunningProcess) -> bool {
        let group = process.control_group();
        group.is_some_and(|group| {
            group
                .strip_prefix(&self.name())
                .is_some_and(|below| below.is_empty() || below.starts_with('/'))
        })
    }
}

/// Opens the directory of the control group of a process. Returns `None` unless the group is that
/// of a proc of Peal, by its name `peal-PID-NUMBER/RANK`.
pub fn of(pid: u32) -> Option<OwnedFd> {
    let name = process::control_group(pid).ok()??;
    // Relative, since `join` with an absolute path would drop the mount point.
    let name = name.strip_prefix('/')?;
    let mut above = name.rsplit('/');
    let is_number = |word: &str| word.parse::<u64>().is_ok();
    let is_cell = is_number(above.next()?) && server_of(above.next()?).is_some();
    let open = |path: PathBuf| {
        rustix::fs::open(
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
    };
    is_cell.then(|| open(mount()?.join(name)).ok()).flatten()
}

/// Returns the process id of the server from the name of a job's group.
fn server_of(name: &str) -> Option<u32> {
    let (server, number) = name.strip_prefix(JOB_PREFIX)?.split_once('-')?;
    number.parse::<u64>().ok().and(server.parse().ok())
}

impl Drop for ProcCgroup {
    fn drop(&mut self) {
        // Ignore the error for a group that is not empty: one of its processes could not be ended,
        // or the proc was started again in it.
        let _ = fs::remove_dir(self.dir());
    }
}

impl Drop for JobCgroup {
    fn drop(&mut self) {
        // Ignore the error for a group that is not empty: a later server removes it.
        let _ = fs::remove_dir(&self.dir);
    }
}

/// Moves a process into a control group. Processes that it starts from then on are in the group,
/// too. Processes that it started before are moved as well.
fn take(dir: &Path, pid: u32) -> io::Result<()> {
    fs::write(dir.join("cgroup.procs"), pid.to_string())?;
    // Read after the move: children that the process starts from now on are in the group already,
    // so none is missed.
    for child in process::children(pid) {
        // Ignore the error for a child that has ended meanwhile.
        let _ = take(dir, child);
    }
    Ok(())
}

/// Returns the directory and the name of the control group of this process.
pub(crate) fn own() -> io::Result<(PathBuf, String)> {
    let missing = || {
        io::Error::new(
            io::ErrorKind::NotFound,
            "no control groups (cgroup v2) are mounted",
        )
    };
    let name = process::control_group("self")?.ok_or_else(missing)?;
    Ok((
        mount()
            .ok_or_else(missing)?
            .join(name.trim_start_matches('/')),
        name,
    ))
}

/// Returns the directory where control groups (cgroup v2) are mounted.
fn mount() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .find_map(|fields| match fields[..] {
            [_, at, "cgroup2", ..] => Some(PathBuf::from(at)),
            _ => None,
        })
}

/// Removes the groups that killed servers have left here, if they are empty.
fn sweep(own: &Path) {
    let left = |name: &str| {
        server_of(name).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
    };
    let below = |dir: &Path| {
        fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect::<Vec<_>>()
    };
    for job in below(own)
        .into_iter()
        .filter(|path| path.file_name().and_then(OsStr::to_str).is_some_and(left))
    {
        // Ignore errors: the kernel refuses to remove files and groups that are not empty.
        below(&job)
            .into_iter()
            .chain([job.clone()])
            .for_each(|dir| drop(fs::remove_dir(dir)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_killed_servers_are_removed_and_others_are_not() {
        let own = tempfile::tempdir().unwrap();
        let ours = format!("{JOB_PREFIX}{}-0", std::process::id());
        // No process has an id as high as the first one.
        let made = [
            "peal-4294967295-0/3",
            &ours,
            "peal-4294967295",
            "peal-x-1",
            "other-4294967295-0",
        ];
        made.iter()
            .for_each(|dir| fs::create_dir_all(own.path().join(dir)).unwrap());
        fs::create_dir_all(own.path().join("peal-4294967295-1")).unwrap();
        fs::write(own.path().join("peal-4294967295-1/busy"), "").unwrap();
        sweep(own.path());
        let left = made.map(|dir| own.path().join(dir).exists());
        assert_eq!(left, [false, true, true, true, true]);
        assert!(
            !own.path().join("peal-4294967295-0").exists()
                && own.path().join("peal-4294967295-1").exists()
        );
    }

    #[test]
    fn group_contains_only_assigned_processes() {
        assert!(of(std::process::id()).is_none());
        assert_eq!(server_of("peal-17-3"), Some(17));
        assert_eq!(
            ["peal-17", "peal--3", "peal-17-", "peal-a-b", "17-3"].map(server_of),
            [None; 5]
        );
    }
}

//! Control groups (cgroup v2): one for each proc, in one for its job, where the system lets us make them. What is in one the kernel
//! freezes, thaws and kills as a whole, and nothing that a proc starts gets out of it.
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

/// How the names of jobs' groups begin; the process of their server follows, and a number.
const JOB: &str = "peal-";

/// Where the procs of a job are kept.
#[derive(Debug)]
pub struct JobCgroup {
    dir: PathBuf,
    /// The same as `/proc/PID/cgroup` calls it.
    name: String,
}

/// Where one proc is kept, with all that it starts.
#[derive(Debug)]
pub struct ProcCgroup {
    dir: PathBuf,
    /// The same as `/proc/PID/cgroup` calls it.
    name: String,
    /// Kept until it is empty itself.
    _job: Arc<JobCgroup>,
}

impl JobCgroup {
    /// Makes one below our own. An error says that there is no such thing here, or that it is not for us.
    pub fn make() -> io::Result<JobCgroup> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (own, name) = own()?;
        sweep(&own);
        let called = format!("{JOB}{}-{number}", std::process::id());
        let dir = own.join(&called);
        fs::create_dir(&dir)?;
        let job = JobCgroup {
            dir,
            name: format!("{}/{called}", name.trim_end_matches('/')),
        };
        // Older kernels have control groups of version 2 that cannot be frozen.
        fs::metadata(job.dir.join("cgroup.freeze"))?;
        Ok(job)
    }

    /// Makes the one of a proc.
    pub fn cell(self: &Arc<JobCgroup>, rank: Rank) -> io::Result<ProcCgroup> {
        let dir = self.dir.join(rank.0.to_string());
        match fs::create_dir(&dir) {
            // Of the process that was this proc before, and may have been paused.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::write(dir.join("cgroup.freeze"), "0")?
            }
            made => made?,
        }
        Ok(ProcCgroup {
            dir,
            name: format!("{}/{rank}", self.name, rank = rank.0),
            _job: self.clone(),
        })
    }
}

impl ProcCgroup {
    /// What `/proc/PID/cgroup` calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Puts a process here, with what it may have started already. Blocks until the kernel has seen to it, for some milliseconds
    /// unless it has done so right before.
    pub fn take(&self, pid: u32) -> io::Result<()> {
        take(&self.dir, pid)
    }

    /// Stops all that is in it, soon.
    pub fn freeze(&self) -> io::Result<()> {
        fs::write(self.dir.join("cgroup.freeze"), "1")
    }

    /// Lets it run again.
    pub fn thaw(&self) -> io::Result<()> {
        fs::write(self.dir.join("cgroup.freeze"), "0")
    }

    /// Whether all that is in it has stopped.
    pub fn is_frozen(&self) -> bool {
        let events = fs::read_to_string(self.dir.join("cgroup.events")).unwrap_or_default();
        events.lines().any(|line| line == "frozen 1")
    }

    /// Kills all that is in it, frozen or not. Kernels before 5.14 do not offer that.
    pub fn kill(&self) {
        // Each process is killed by itself as well.
        let _ = fs::write(self.dir.join("cgroup.kill"), "1");
    }

    /// Whether a process is in it, or in one that was made below.
    pub fn holds(&self, process: &RunningProcess) -> bool {
        let group = process.control_group();
        group.is_some_and(|group| {
            group
                .strip_prefix(&self.name)
                .is_some_and(|below| below.is_empty() || below.starts_with('/'))
        })
    }
}

/// The directory of the cell in which a process is, if that is one of Peal's: `peal-PID-NUMBER/RANK` by its name.
pub fn of(pid: u32) -> Option<OwnedFd> {
    let name = process::control_group(pid).ok()??;
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

/// The process of the server that a job's cell is called after.
fn server_of(name: &str) -> Option<u32> {
    let (server, number) = name.strip_prefix(JOB)?.split_once('-')?;
    number.parse::<u64>().ok().and(server.parse().ok())
}

impl Drop for ProcCgroup {
    fn drop(&mut self) {
        // One that is not empty belongs to a process that nobody could end, or to the proc that was started again in it.
        let _ = fs::remove_dir(&self.dir);
    }
}

impl Drop for JobCgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.dir);
    }
}

/// Puts a process in a control group. Whatever it starts from then on is in it too; what it had started before follows here.
fn take(dir: &Path, pid: u32) -> io::Result<()> {
    fs::write(dir.join("cgroup.procs"), pid.to_string())?;
    let children =
        fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    for child in children
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
    {
        // One that has ended needs no place.
        let _ = take(dir, child);
    }
    Ok(())
}

/// The directory of our own control group, and its name.
fn own() -> io::Result<(PathBuf, String)> {
    let missing = || {
        io::Error::new(
            io::ErrorKind::NotFound,
            "no control groups of version 2 are mounted",
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

/// Where all control groups of version 2 are.
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

/// Removes what servers left here that were killed, as far as nobody is in it.
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
        // The kernel removes no group that is not empty, and no file.
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
        let ours = format!("{JOB}{}-0", std::process::id());
        // No process has a number like the first.
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

//! Control groups (cgroup v2): one for each proc, in one for its job, where the system lets us make them. What is in one the kernel
//! freezes, thaws and kills as a whole, and nothing that a proc starts gets out of it.
use super::process::Process;
use peal_model::Rank;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Where the procs of a job are kept.
#[derive(Debug)]
pub(crate) struct JobCell {
    dir: PathBuf,
}

/// Where one proc is kept, with all that it starts.
#[derive(Debug)]
pub(crate) struct Cell {
    dir: PathBuf,
    /// The same as `/proc/PID/cgroup` calls it.
    name: String,
    /// Kept until it is empty itself.
    _job: Arc<JobCell>,
}

impl JobCell {
    /// Makes one below our own. An error says that there is no such thing here, or that it is not for us.
    pub(crate) fn make() -> io::Result<JobCell> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = own()?.join(format!("peal-{}-{number}", std::process::id()));
        fs::create_dir(&dir)?;
        let job = JobCell { dir };
        // Older kernels have control groups of version 2 that cannot be frozen.
        fs::metadata(job.dir.join("cgroup.freeze"))?;
        Ok(job)
    }

    /// Makes the one of a proc, and puts its process there, with what that may have started already.
    pub(crate) fn keep(self: &Arc<JobCell>, rank: Rank, pid: u32) -> io::Result<Cell> {
        let dir = self.dir.join(rank.0.to_string());
        match fs::create_dir(&dir) {
            // Of the process that was this proc before.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        // It may have been paused.
        fs::write(dir.join("cgroup.freeze"), "0")?;
        take(&dir, pid)?;
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
        let name = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default().to_owned();
        Ok(Cell { dir, name, _job: self.clone() })
    }
}

impl Cell {
    /// What `/proc/PID/cgroup` calls it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Stops all that is in it, soon.
    pub(crate) fn freeze(&self) -> io::Result<()> {
        fs::write(self.dir.join("cgroup.freeze"), "1")
    }

    /// Lets it run again.
    pub(crate) fn thaw(&self) -> io::Result<()> {
        fs::write(self.dir.join("cgroup.freeze"), "0")
    }

    /// Whether all that is in it has stopped.
    pub(crate) fn is_frozen(&self) -> bool {
        let events = fs::read_to_string(self.dir.join("cgroup.events")).unwrap_or_default();
        events.lines().any(|line| line == "frozen 1")
    }

    /// Kills all that is in it, frozen or not. Kernels before 5.14 do not offer that.
    pub(crate) fn kill(&self) {
        // Each process is killed by itself as well.
        let _ = fs::write(self.dir.join("cgroup.kill"), "1");
    }

    /// Whether a process is in it, or in one that was made below.
    pub(crate) fn holds(&self, process: &Process) -> bool {
        let group = process.control_group();
        group.is_some_and(|group| {
            group.strip_prefix(&self.name).is_some_and(|below| below.is_empty() || below.starts_with('/'))
        })
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        // One that is not empty belongs to a process that nobody could end, or to the proc that was started again in it.
        let _ = fs::remove_dir(&self.dir);
    }
}

impl Drop for JobCell {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.dir);
    }
}

/// Puts a process in a control group. Whatever it starts from then on is in it too; what it had started before follows here.
fn take(dir: &Path, pid: u32) -> io::Result<()> {
    fs::write(dir.join("cgroup.procs"), pid.to_string())?;
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    for child in children.split_whitespace().filter_map(|word| word.parse().ok()) {
        // One that has ended needs no place.
        let _ = take(dir, child);
    }
    Ok(())
}

/// The directory of our own control group.
fn own() -> io::Result<PathBuf> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "no control groups of version 2 are mounted");
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mount = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find_map(|fields| match fields[..] {
        [_, at, "cgroup2", ..] => Some(at.to_owned()),
        _ => None,
    });
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    let name = groups.lines().find_map(|line| line.strip_prefix("0::/")).ok_or_else(missing)?;
    Ok(Path::new(&mount.ok_or_else(missing)?).join(name))
}

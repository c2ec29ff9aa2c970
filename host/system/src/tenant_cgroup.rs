//! Control groups (cgroup v2) of the processes that run users' modules: a share of the processor and a
//! limit of memory for each, where the system permits it.
use crate::cgroup::own;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Group below that of the service, which the service's own processes move into: a group with processes
/// cannot share out processor and memory among the groups below it.
const SERVICE: &str = "service";

/// Prefix of the group of a user's process. The user id follows.
const PREFIX: &str = "tenant-";

/// Limits of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TenantShares {
    /// Share of the processor; 100 is that of other groups.
    pub cpu_weight: u64,
    /// Largest memory in bytes.
    pub memory_bytes: u64,
}

/// Groups of users' processes, below the group of the service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TenantCgroups(PathBuf);

impl TenantCgroups {
    /// Prepares the group of this process, which then has no processes itself: this process moves into a
    /// group below. Processes that it starts from now on are in that group.
    ///
    /// # Errors
    ///
    /// Fails if the system has no control groups of version 2, this process may not change its own, or
    /// other processes are in it.
    pub fn prepare() -> io::Result<TenantCgroups> {
        let (own, _) = own()?;
        let pid = std::process::id();
        // A process that goes on with a server was started in the group below.
        let prepared = own.parent().filter(|_| own.ends_with(SERVICE));
        prepared
            .and_then(|group| TenantCgroups::below(group, pid).ok())
            .map_or_else(|| TenantCgroups::below(&own, pid), Ok)
    }

    fn below(own: &Path, pid: u32) -> io::Result<TenantCgroups> {
        // The root of all groups is the system's.
        if fs::metadata(own.join("cgroup.type")).is_err() {
            return Err(io::Error::other(
                "this process is in the group of the whole system; run it as a service with Delegate=yes",
            ));
        }
        let service = own.join(SERVICE);
        create(&service)?;
        fs::write(service.join("cgroup.procs"), pid.to_string())?;
        fs::write(own.join("cgroup.subtree_control"), "+cpu +memory")?;
        Ok(TenantCgroups(own.to_owned()))
    }

    /// Moves the process of a user into a group of its own with these limits.
    ///
    /// # Errors
    ///
    /// Fails if the group cannot be created or changed.
    pub fn place(&self, uid: u32, pid: u32, shares: TenantShares) -> io::Result<()> {
        let group = self.0.join(format!("{PREFIX}{uid}"));
        create(&group)?;
        let TenantShares {
            cpu_weight,
            memory_bytes,
        } = shares;
        fs::write(group.join("cpu.weight"), cpu_weight.to_string())?;
        fs::write(group.join("memory.max"), memory_bytes.to_string())?;
        fs::write(group.join("cgroup.procs"), pid.to_string())
    }
}

fn create(group: &Path) -> io::Result<()> {
    match fs::create_dir(group) {
        // A process of the same user was there before.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_of_a_user_is_in_a_group_with_its_limits() {
        let own = tempfile::tempdir().unwrap();
        let refused = TenantCgroups::below(own.path(), 7).unwrap_err();
        assert!(refused.to_string().contains("Delegate=yes"), "{refused}");
        fs::write(own.path().join("cgroup.type"), "domain").unwrap();
        let groups = TenantCgroups::below(own.path(), 7).unwrap();
        let read = |path: &str| fs::read_to_string(own.path().join(path)).unwrap();
        assert_eq!(read("service/cgroup.procs"), "7");
        assert_eq!(read("cgroup.subtree_control"), "+cpu +memory");
        for (pid, memory_bytes) in [(8, 1000), (9, 2000)] {
            let shares = TenantShares {
                cpu_weight: 20,
                memory_bytes,
            };
            groups.place(1000, pid, shares).unwrap();
            assert_eq!(read("tenant-1000/cpu.weight"), "20");
            assert_eq!(read("tenant-1000/memory.max"), memory_bytes.to_string());
            assert_eq!(read("tenant-1000/cgroup.procs"), pid.to_string());
        }
    }
}

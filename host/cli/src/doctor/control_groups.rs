//! Control groups of version 2, which limit processes of users and jobs.
use super::Finding;
use std::{fs, io, path::Path};

/// Directory at which systems mount the groups.
const MOUNTED: &str = "/sys/fs/cgroup";

/// Controllers that limit processes of users.
const NEEDED: [&str; 2] = ["cpu", "memory"];

/// Directory that is there while systemd manages services.
const SYSTEMD: &str = "/run/systemd/system";

/// Examines the control groups.
pub fn examine() -> Finding {
    let manager = if Path::new(SYSTEMD).exists() {
        ServiceManager::Systemd
    } else {
        ServiceManager::Unknown
    };
    let controllers = fs::read_to_string(Path::new(MOUNTED).join("cgroup.controllers"));
    finding(controllers, manager)
}

/// Program that manages the services of a system.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ServiceManager {
    Systemd,
    Unknown,
}

fn finding(controllers: io::Result<String>, manager: ServiceManager) -> Finding {
    let without = "Without them, processes of users share the limits of the service.";
    let controllers = match controllers {
        Ok(controllers) => controllers,
        Err(error) => {
            return Finding::warning(
                format!("no control groups of version 2 at {MOUNTED}: {error}"),
                format!("{without}\nBoot with systemd.unified_cgroup_hierarchy=1."),
            );
        }
    };
    let has = |needed: &&str| controllers.split_whitespace().any(|name| name == *needed);
    let missing: Vec<&str> = NEEDED.into_iter().filter(|needed| !has(needed)).collect();
    if !missing.is_empty() {
        let missing = missing.join(" and ");
        return Finding::warning(
            format!("the kernel has no control of {missing} at {MOUNTED}"),
            format!(
                "{without}\nBoot without cgroup_disable={}.",
                NEEDED.join(",")
            ),
        );
    }
    if manager == ServiceManager::Systemd {
        Finding::ok("version 2 with cpu and memory; the unit peal.service has Delegate= for them")
    } else {
        Finding::warning(
            "version 2 with cpu and memory, but systemd does not run",
            format!(
                "{without}\nStart `peal serve` in a group of its own, with cpu and memory in the \
                 cgroup.subtree_control of the group above."
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Outcome;

    #[test]
    fn missing_controllers_are_named() {
        let found =
            |controllers: &str| finding(Ok(controllers.to_owned()), ServiceManager::Systemd);
        assert_eq!(found("cpuset cpu io memory pids").outcome, Outcome::Ok);
        let lacking = found("cpuset io pids");
        assert_eq!(lacking.outcome, Outcome::Warning);
        assert!(lacking.found.contains("cpu and memory"), "{lacking:?}");
        assert!(found("cpu").found.contains("no control of memory"));
        let absent = finding(Err(io::ErrorKind::NotFound.into()), ServiceManager::Systemd);
        assert!(absent.found.contains("no control groups"), "{absent:?}");
    }
}

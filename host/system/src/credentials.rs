//! User and group ids of a process, from `/proc`.
use std::fs;

/// Number of user ids and of group ids of a process: real, effective, saved, and for file access.
const KINDS: usize = 4;

/// User and group ids of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessCredentials {
    /// Real, effective and saved user id, and the one for file access.
    uids: Vec<u32>,
    /// Real, effective and saved group id, and the one for file access.
    gids: Vec<u32>,
    /// Supplementary group ids.
    pub supplementary: Vec<u32>,
}

impl ProcessCredentials {
    /// Returns the group id of a process if all its group ids are equal and all its user ids are
    /// `uid`; none otherwise.
    pub fn only_group(&self, uid: u32) -> Option<u32> {
        let gid = self.gids.first().copied()?;
        let is_only = self.uids.iter().all(|other| *other == uid)
            && self.gids.iter().all(|other| *other == gid);
        is_only.then_some(gid)
    }
}

/// Reads the user and group ids of a process, if it exists.
pub fn credentials(pid: u32) -> Option<ProcessCredentials> {
    credentials_in(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

/// Returns the real user id of a process.
pub fn user(pid: u32) -> Option<u32> {
    user_in(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

/// Parses the real user id in `/proc/PID/status`.
fn user_in(status: &str) -> Option<u32> {
    status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

/// Parses the user, group and supplementary group ids in `/proc/PID/status`.
fn credentials_in(status: &str) -> Option<ProcessCredentials> {
    let numbers = |name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace()
            .map(|word| word.parse().ok())
            .collect::<Option<Vec<u32>>>()
    };
    let of_kinds = |name| numbers(name).filter(|found| found.len() == KINDS);
    let supplementary = numbers("Groups:").unwrap_or_default();
    Some(ProcessCredentials {
        uids: of_kinds("Uid:")?,
        gids: of_kinds("Gid:")?,
        supplementary,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_and_mixed_ones_prove_no_group() {
        let status = "Name:\tGid:\t9\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t0\n";
        let read = |uids: &str, gids: &str, groups: &str| {
            credentials_in(&format!(
                "Name:\tsh\nUid:\t{uids}\nGid:\t{gids}\nGroups:\t{groups} \n"
            ))
        };
        let found = credentials_in(status).unwrap();
        assert_eq!(
            (found.uids, found.gids, found.supplementary),
            (vec![1, 2, 3, 4], vec![5, 6, 7, 8], vec![0])
        );
        let plain = read("7\t7\t7\t7", "5\t5\t5\t5", "4 6 100").unwrap();
        assert_eq!((plain.only_group(7), plain.only_group(8)), (Some(5), None));
        assert_eq!(plain.supplementary, [4, 6, 100]);
        assert_eq!(
            read("7\t7\t7\t7", "5\t5\t5\t5", "").unwrap().supplementary,
            Vec::<u32>::new()
        );
        for (uids, gids) in [
            ("7\t8\t7\t7", "5\t5\t5\t5"),
            ("7\t7\t8\t7", "5\t5\t5\t5"),
            ("7\t7\t7\t7", "5\t6\t6\t6"),
            ("7\t7\t7\t7", "5\t5\t6\t5"),
        ] {
            assert_eq!(
                read(uids, gids, "").unwrap().only_group(7),
                None,
                "{uids} {gids}"
            );
        }
        assert_eq!(read("7\t7", "5\t5\t5\t5", ""), None);
        assert_eq!(read("7\t7\t7\tx", "5\t5\t5\t5", ""), None);
        assert_eq!(credentials_in("Name:\tsh\n"), None);
        assert_eq!((user_in(status), user_in("Name:\tsh\n")), (Some(1), None));
        assert_eq!(
            user(std::process::id()),
            Some(rustix::process::getuid().as_raw())
        );
        let own = credentials(std::process::id()).unwrap();
        let uid = rustix::process::geteuid().as_raw();
        assert_eq!(
            own.only_group(uid),
            Some(rustix::process::getegid().as_raw())
        );
        let supplementary: Vec<u32> = rustix::process::getgroups()
            .unwrap()
            .iter()
            .map(|gid| gid.as_raw())
            .collect();
        assert_eq!(own.supplementary, supplementary);
    }
}

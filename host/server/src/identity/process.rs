//! Data of processes from `/proc`: held sockets, descendants and credentials.
use peal_system::process::children;
use serde::{Deserialize, Serialize};
use std::{
    collections::{HashSet, VecDeque},
    fs,
    os::unix::fs::MetadataExt,
    path::PathBuf,
};

/// Upper bound of the processes that are examined for one proc.
const MAX_TREE_PROCESSES: usize = 4096;

/// Upper bound of the open files that are examined in one search. The bound exists because the
/// owner of the files decides how many there are.
const MAX_FILES: usize = 300_000;

/// Number of passes through a tree before the search fails. The kernel's list of children may miss
/// one while another ends.
const PASSES: u32 = 3;

/// Number of user ids and of group ids of a process: real, effective, saved, and for file access.
const KINDS: usize = 4;

/// Process, identified by its id and start time, so that a later process with the same id is not
/// mistaken for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ObservedProcess {
    pub(super) pid: u32,
    /// Start time, in clock ticks since the boot of the system.
    started: u64,
}

impl ObservedProcess {
    /// Returns the process with this id, if there is one.
    pub(crate) fn of(pid: u32) -> Option<ObservedProcess> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(ObservedProcess {
            pid,
            started: started(&stat)?,
        })
    }

    /// Returns true if the process has not ended.
    pub(crate) fn is_there(self) -> bool {
        ObservedProcess::of(self.pid) == Some(self)
    }
}

/// Returns the process that holds a socket, among a process and its descendants.
pub(super) fn holder_below(root: u32, inode: u64) -> Option<u32> {
    let mut search = Search::of(inode);
    (0..PASSES).find_map(|_| tree(root).find(|pid| search.held_by(*pid)))
}

/// Returns the processes of a user that hold a socket, in the order of their start.
pub(super) fn holders(uid: u32, inode: u64) -> Vec<ObservedProcess> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    // Of processes of other users, only the owner is read. This bounds the work that a peer can
    // cause.
    let theirs = entries
        .flatten()
        .filter(|entry| entry.metadata().is_ok_and(|process| process.uid() == uid));
    let pids = theirs.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut search = Search::of(inode);
    let mut found: Vec<ObservedProcess> = pids
        .filter(|pid| search.held_by(*pid))
        .filter_map(ObservedProcess::of)
        .collect();
    found.sort_by_key(|process| (process.started, process.pid));
    found
}

/// Returns the process of a user that holds a socket. Processes with the highest ids are examined
/// first, because a connecting process was most likely started last. If a process and its child
/// both hold the socket, returns the parent.
pub(super) fn latest_holder(uid: u32, inode: u64) -> Option<ObservedProcess> {
    let is_theirs =
        |pid: u32| fs::metadata(format!("/proc/{pid}")).is_ok_and(|process| process.uid() == uid);
    let entries = fs::read_dir("/proc").ok()?;
    let mut pids: Vec<u32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable_by(|one, other| other.cmp(one));
    let mut search = Search::of(inode);
    let mut holder = pids
        .into_iter()
        .find(|pid| is_theirs(*pid) && search.held_by(*pid))?;
    for _ in 0..MAX_TREE_PROCESSES {
        match parent(holder).filter(|parent| is_theirs(*parent) && search.held_by(*parent)) {
            Some(parent) => holder = parent,
            None => break,
        }
    }
    ObservedProcess::of(holder)
}

/// Returns true if a process holds a socket; false if its files may not be read.
pub(super) fn holds(pid: u32, inode: u64) -> bool {
    Search::of(inode).held_by(pid)
}

/// Search for the holder of a socket, with the number of files that it may still examine.
struct Search {
    link: PathBuf,
    files: usize,
}

impl Search {
    fn of(inode: u64) -> Search {
        Search {
            link: format!("socket:[{inode}]").into(),
            files: MAX_FILES,
        }
    }

    fn held_by(&mut self, pid: u32) -> bool {
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            return false;
        };
        for file in files.flatten() {
            if self.files == 0 {
                return false;
            }
            self.files -= 1;
            if fs::read_link(file.path()).is_ok_and(|target| target == self.link) {
                return true;
            }
        }
        false
    }
}

/// User and group ids of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ProcessCredentials {
    /// Real, effective and saved user id, and the one for file access.
    uids: Vec<u32>,
    /// Real, effective and saved group id, and the one for file access.
    gids: Vec<u32>,
    /// Supplementary group ids.
    pub(super) supplementary: Vec<u32>,
}

impl ProcessCredentials {
    /// Returns the group id of a process if all its group ids are equal and all its user ids are
    /// `uid`; none otherwise.
    pub(super) fn only_group(&self, uid: u32) -> Option<u32> {
        let gid = self.gids.first().copied()?;
        let is_only = self.uids.iter().all(|other| *other == uid)
            && self.gids.iter().all(|other| *other == gid);
        is_only.then_some(gid)
    }
}

/// Reads the user and group ids of a process, if it exists.
pub(super) fn credentials(pid: u32) -> Option<ProcessCredentials> {
    credentials_in(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

/// Returns the real user id of a process.
pub(crate) fn user(pid: u32) -> Option<u32> {
    user_in(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

/// Iterates over a process and its descendants, nearest first. Children of a process are read only
/// after the process was returned.
fn tree(root: u32) -> impl Iterator<Item = u32> {
    let mut seen = HashSet::from([root]);
    let mut next = VecDeque::from([root]);
    let mut last = None;
    std::iter::from_fn(move || {
        for child in last.map(children).unwrap_or_default() {
            // The kernel may reuse an id during the iteration, so a visited id is not followed
            // again.
            if seen.len() < MAX_TREE_PROCESSES && seen.insert(child) {
                next.push_back(child);
            }
        }
        last = next.pop_front();
        last
    })
}

/// Parses the start time in `/proc/PID/stat`. The second field is the program's name in
/// parentheses, which may contain spaces and parentheses.
fn started(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

/// Returns the parent of a process.
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
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
    use std::{
        io::{BufRead, BufReader},
        net::{TcpListener, TcpStream},
        os::fd::OwnedFd,
        process::{Command, Stdio},
        time::{Duration, Instant},
    };

    #[test]
    fn program_names_may_contain_any_characters() {
        let stat = "17 (a) 1 (b) S 1 17 17 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 2 3 4\n";
        assert_eq!(started(stat), Some(4711));
        for broken in ["", "17 a S 1", "17 (a) S 1 2 3"] {
            assert_eq!(started(broken), None);
        }
    }

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

    #[test]
    fn socket_is_held_by_its_process_and_inheriting_descendants() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let held = OwnedFd::from(stream);
        let inode = fs::File::from(held.try_clone().unwrap())
            .metadata()
            .unwrap()
            .ino();
        let me = std::process::id();
        assert!(holds(me, inode) && !holds(me, inode + 1_000_000));
        assert_eq!(holder_below(me, inode), Some(me));

        // A grandchild inherits the socket, and all other processes close it.
        let script = "exec 3<&0 0</dev/null; sleep 1000 & echo $!; exec 3<&-; echo closed; wait";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdin(held)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stranger = Command::new("sleep").arg("1000").spawn().unwrap();
        let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
        let sleep: u32 = lines.next().unwrap().unwrap().parse().unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "closed");
        // Another test may be starting a process, which inherits the socket for a moment.
        let start = Instant::now();
        let uid = rustix::process::geteuid().as_raw();
        while holders(uid, inode)
            .iter()
            .map(|process| process.pid)
            .collect::<Vec<_>>()
            != [sleep]
        {
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "{:?}",
                holders(uid, inode)
            );
            std::thread::yield_now();
        }
        for root in [me, shell.id(), sleep] {
            assert_eq!(holder_below(root, inode), Some(sleep));
        }
        assert_eq!(
            latest_holder(uid, inode).map(|process| process.pid),
            Some(sleep)
        );
        assert_eq!(latest_holder(uid + 1, inode), None);
        assert_eq!(parent(sleep), Some(shell.id()));
        assert_eq!(holder_below(stranger.id(), inode), None);
        assert_eq!(holders(uid + 1, inode), []);

        let process = ObservedProcess::of(shell.id()).unwrap();
        assert!(process.is_there());
        assert!(
            !ObservedProcess {
                started: process.started + 1,
                ..process
            }
            .is_there(),
            "another one of the same number"
        );
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(sleep.cast_signed()).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        for child in [&mut shell, &mut stranger] {
            let _ = child.kill();
            child.wait().unwrap();
        }
        assert!(!process.is_there());
    }
}

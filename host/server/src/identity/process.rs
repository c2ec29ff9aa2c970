//! Processes, as `/proc` tells of them: which one holds a socket, what descends from it, as which group it runs.
use serde::{Deserialize, Serialize};
use std::{
    collections::{HashSet, VecDeque},
    fs,
    os::unix::fs::MetadataExt,
    path::PathBuf,
};

/// More processes of one proc are not looked at.
const LARGEST_TREE: usize = 4096;

/// More open files are not looked at for one socket: whose they are decides how many there are.
const MOST_FILES: usize = 300_000;

/// How often a tree is looked through before a socket counts as held by nobody in it: the kernel's list of children may
/// miss one while another ends.
const LOOKS: u32 = 3;

/// The numbers of a process that say which user it is, and those that say which group: real, effective, saved, for files.
const KINDS: usize = 4;

/// A process that no later one of the same number is taken for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ObservedProcess {
    pub(super) pid: u32,
    /// When it was started, in ticks since the system was.
    started: u64,
}

impl ObservedProcess {
    /// The process of that number, if there is one.
    pub(crate) fn of(pid: u32) -> Option<ObservedProcess> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(ObservedProcess {
            pid,
            started: started(&stat)?,
        })
    }

    /// Whether it has not ended.
    pub(crate) fn is_there(self) -> bool {
        ObservedProcess::of(self.pid) == Some(self)
    }
}

/// Which process holds a socket, of this one and its descendants.
pub(super) fn holder_below(root: u32, inode: u64) -> Option<u32> {
    let mut search = Search::of(inode);
    (0..LOOKS).find_map(|_| tree(root).find(|pid| search.held_by(*pid)))
}

/// Which processes of a user hold a socket: those that were started first come first.
pub(super) fn holders(uid: u32, inode: u64) -> Vec<ObservedProcess> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    // Of others' processes no more is looked at than whose they are: anybody can make us look.
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

/// The process of a user that holds a socket. Those with the highest numbers are looked at first, since whoever has just connected
/// was most likely started last; of a process and its child that both hold it, it is the parent.
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
    for _ in 0..LARGEST_TREE {
        match parent(holder).filter(|parent| is_theirs(*parent) && search.held_by(*parent)) {
            Some(parent) => holder = parent,
            None => break,
        }
    }
    ObservedProcess::of(holder)
}

/// Whether a process holds a socket; not, if it may not be looked at.
pub(super) fn holds(pid: u32, inode: u64) -> bool {
    Search::of(inode).held_by(pid)
}

/// A search for the holder of a socket, with what it may still look at.
struct Search {
    link: PathBuf,
    files: usize,
}

impl Search {
    fn of(inode: u64) -> Search {
        Search {
            link: format!("socket:[{inode}]").into(),
            files: MOST_FILES,
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

/// The users and groups of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ProcessCredentials {
    /// The real, the effective, the saved user and that for files.
    uids: Vec<u32>,
    /// The real, the effective, the saved group and that for files.
    gids: Vec<u32>,
    /// The groups beside these.
    pub(super) supplementary: Vec<u32>,
}

impl ProcessCredentials {
    /// The group of a process that runs as one group and as this user alone; none for any other.
    pub(super) fn only_group(&self, uid: u32) -> Option<u32> {
        let gid = self.gids.first().copied()?;
        let is_only = self.uids.iter().all(|other| *other == uid)
            && self.gids.iter().all(|other| *other == gid);
        is_only.then_some(gid)
    }
}

/// The users and groups of a process, if it is there.
pub(super) fn credentials(pid: u32) -> Option<ProcessCredentials> {
    credentials_in(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

/// The user that a process runs as, by its real user id.
pub(crate) fn user(pid: u32) -> Option<u32> {
    user_in(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

/// A process and its descendants, nearest first. Children are only looked for when those before them have been seen.
fn tree(root: u32) -> impl Iterator<Item = u32> {
    let mut seen = HashSet::from([root]);
    let mut next = VecDeque::from([root]);
    let mut last = None;
    std::iter::from_fn(move || {
        for child in last.map(children).unwrap_or_default() {
            // A number may be given anew while we look.
            if seen.len() < LARGEST_TREE && seen.insert(child) {
                next.push_back(child);
            }
        }
        last = next.pop_front();
        last
    })
}

fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let lists = tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Of `/proc/PID/stat`. The second word is the program's name in parentheses, with whatever it holds.
fn started(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

/// The process that a process descends from.
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// Of `/proc/PID/status`: one line has the real, the effective, the saved user and that for files.
fn user_in(status: &str) -> Option<u32> {
    status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

/// Reads `/proc/PID/status`: one line each has the users, the groups and the supplementary groups.
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

        // A grandchild gets it, and nobody else keeps it.
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
        // Another test may be starting a process, which has it for a moment.
        let (start, uid) = (Instant::now(), rustix::process::geteuid().as_raw());
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

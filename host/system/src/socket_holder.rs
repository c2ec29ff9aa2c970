//! Search for the process that holds a socket, by the open files in `/proc`.
use crate::process::{ProcessId, RunningProcess, children};
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

/// Set of processes in which the holder of a socket is searched for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SearchStart {
    /// A process and its descendants.
    Below(u32),
    /// All processes of a user; the first started of those found.
    Of(u32),
    /// All processes of a user, the latest started first. It is faster, but may find another holder
    /// than `Of`.
    Latest(u32),
    /// One process.
    In(u32),
}

/// Search for the process that holds a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HolderSearch {
    /// Processes to look at.
    pub start: SearchStart,
    /// Inode number of the socket.
    pub inode: u64,
}

impl HolderSearch {
    /// Returns the holder; none if it is not found or its files may not be read. Blocks.
    pub fn find(self) -> Option<ProcessId> {
        let HolderSearch { start, inode } = self;
        match start {
            SearchStart::Below(root) => holder_below(root, inode).and_then(id_of),
            SearchStart::Of(uid) => holders(uid, inode).into_iter().next(),
            SearchStart::Latest(uid) => latest_holder(uid, inode),
            SearchStart::In(pid) => holds(pid, inode).then(|| id_of(pid)).flatten(),
        }
    }
}

/// Returns the process that holds a socket, among a process and its descendants.
fn holder_below(root: u32, inode: u64) -> Option<u32> {
    let mut search = Search::of(inode);
    (0..PASSES).find_map(|_| tree(root).find(|pid| search.held_by(*pid)))
}

/// Returns the processes of a user that hold a socket, in the order of their start.
fn holders(uid: u32, inode: u64) -> Vec<ProcessId> {
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
    let mut found: Vec<ProcessId> = pids
        .filter(|pid| search.held_by(*pid))
        .filter_map(id_of)
        .collect();
    found.sort_by_key(|process| (process.began, process.pid));
    found
}

/// Returns the process of a user that holds a socket. Processes with the highest ids are examined
/// first, because a connecting process was most likely started last. If a process and its child
/// both hold the socket, returns the parent.
fn latest_holder(uid: u32, inode: u64) -> Option<ProcessId> {
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
    id_of(holder)
}

/// Returns true if a process holds a socket; false if its files may not be read.
fn holds(pid: u32, inode: u64) -> bool {
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

/// Returns the parent of a process.
fn parent(pid: u32) -> Option<u32> {
    RunningProcess::of(pid).map(|process| process.parent)
}

/// Returns the identity of the process with this id now.
fn id_of(pid: u32) -> Option<ProcessId> {
    RunningProcess::of(pid).map(|process| process.id)
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

        let process = id_of(shell.id()).unwrap();
        assert!(process.is_there());
        assert!(
            !ProcessId {
                began: process.began + 1,
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

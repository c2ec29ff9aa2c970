//! Processes of procs that another launcher starts: no host environment waits for these, so the server itself notices when they end.
use crate::handle::{Internal, ServerHandle};
use peal_model::Proc;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::oneshot,
    time::timeout,
};

/// How long the server may take to read what an ended process has sent, before its end counts all the same: a process that it
/// started may hold the connection.
const LINGER: Duration = Duration::from_secs(1);

/// The processes of a proc.
#[derive(Default)]
struct Processes {
    watched: BTreeSet<u32>,
    /// How many more are connecting.
    connecting: usize,
}

/// Watches the processes of one server's procs.
#[derive(Clone)]
pub(crate) struct ProcessWatch {
    procs: Arc<Mutex<BTreeMap<Proc, Processes>>>,
    handle: ServerHandle,
}

/// A proc that is connecting. Until this is dropped its process counts as alive.
pub(crate) struct ConnectingProc {
    watch: ProcessWatch,
    proc: Proc,
    pid: u32,
}

/// A connection of a watched proc that has not been closed.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    _closed: oneshot::Sender<()>,
}

impl ProcessWatch {
    pub(crate) fn new(handle: ServerHandle) -> ProcessWatch {
        ProcessWatch { procs: Arc::default(), handle }
    }

    /// A proc is connecting by the process of this id.
    pub(crate) fn note_connecting(&self, proc: &Proc, pid: u32) -> ConnectingProc {
        self.procs().entry(proc.clone()).or_default().connecting += 1;
        ConnectingProc { watch: self.clone(), proc: proc.clone(), pid }
    }

    /// Whether a process of this proc runs or is connecting.
    pub(crate) fn is_alive(&self, proc: &Proc) -> bool {
        self.procs().contains_key(proc)
    }

    /// Counts a process in; false if it is watched already.
    fn add(&self, proc: &Proc, pid: u32) -> bool {
        self.procs().entry(proc.clone()).or_default().watched.insert(pid)
    }

    /// Changes the processes of a proc, and forgets the proc when none is left.
    fn update(&self, proc: &Proc, change: impl FnOnce(&mut Processes)) {
        let mut procs = self.procs();
        let Some(processes) = procs.get_mut(proc) else { return };
        change(processes);
        if processes.connecting == 0 && processes.watched.is_empty() {
            procs.remove(proc);
        }
    }

    fn procs(&self) -> MutexGuard<'_, BTreeMap<Proc, Processes>> {
        // Nothing in here panics half-way, so what a poisoned lock guards is whole.
        self.procs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end of a process, and then for that of its connection.
    async fn follow(self, proc: Proc, pid: u32, process: Option<OwnedFd>, closed: oneshot::Receiver<()>) {
        if let Some(process) = process
            && let Err(error) = end_of(process).await
        {
            tracing::warn!(%proc, pid, %error, "process of a registered proc is not watched");
            return self.update(&proc, |processes| {
                processes.watched.remove(&pid);
            });
        }
        // What it said last counts before its end does.
        let _ = timeout(LINGER, closed).await;
        self.update(&proc, |processes| {
            processes.watched.remove(&pid);
        });
        self.handle.say(Internal::ProcessEnded { proc });
    }
}

impl ConnectingProc {
    /// The proc has connected: its process is watched from now on. The connection was held by it a moment ago, so that its number
    /// is not another's.
    pub(crate) fn watch(self) -> OpenConnection {
        let (open, closed) = oneshot::channel();
        let (watch, proc, pid) = (self.watch.clone(), self.proc.clone(), self.pid);
        match open_process(pid) {
            Ok(process) if watch.add(&proc, pid) => drop(tokio::spawn(watch.follow(proc, pid, process, closed))),
            Ok(_) => {}
            Err(error) => tracing::warn!(%proc, pid, %error, "process of a registered proc is not watched"),
        }
        OpenConnection { _closed: open }
    }
}

impl Drop for ConnectingProc {
    fn drop(&mut self) {
        self.watch.update(&self.proc, |processes| processes.connecting = processes.connecting.saturating_sub(1));
    }
}

/// A process; none where it has ended already.
fn open_process(pid: u32) -> io::Result<Option<OwnedFd>> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    match pidfd_open(pid, PidfdFlags::NONBLOCK) {
        Err(rustix::io::Errno::SRCH) => Ok(None),
        opened => Ok(Some(opened?)),
    }
}

/// Waits for the end of a process.
async fn end_of(process: OwnedFd) -> io::Result<()> {
    #[expect(deprecated, reason = "sound for a file that is owned, as here; what replaces it is unsafe for any other")]
    let process = AsyncFd::with_interest(process, Interest::READABLE)?;
    process.readable().await?.retain_ready();
    Ok(())
}

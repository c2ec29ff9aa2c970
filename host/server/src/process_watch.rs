//! Processes of procs that another launcher starts: no host environment waits for these, so the server itself notices when they end.
use crate::handle::{ActorMessage, ServerHandle};
use peal_model::{Nspace, Proc};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::{
    collections::BTreeMap,
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use thiserror::Error;
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::watch,
    time::timeout,
};

/// How long the server may take to read what an ended process has sent, before its end counts all the same: a process that it
/// started may hold the connection.
const LINGER: Duration = Duration::from_secs(1);

/// The most processes of one proc that are watched because its launcher named them.
const MAX_NAMED: usize = 16;

/// The processes of a proc.
#[derive(Default)]
struct Processes {
    /// By process id, with the count of the connections that each has open.
    watched: BTreeMap<u32, watch::Sender<usize>>,
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
pub(crate) struct OpenConnection(watch::Sender<usize>);

impl ProcessWatch {
    pub(crate) fn new(handle: ServerHandle) -> ProcessWatch {
        ProcessWatch {
            procs: Arc::default(),
            handle,
        }
    }

    /// A proc is connecting by the process of this id.
    pub(crate) fn note_connecting(&self, proc: &Proc, pid: u32) -> ConnectingProc {
        self.procs().entry(proc.clone()).or_default().connecting += 1;
        ConnectingProc {
            watch: self.clone(),
            proc: proc.clone(),
            pid,
        }
    }

    /// Whether a process of this proc runs or is connecting.
    pub(crate) fn is_alive(&self, proc: &Proc) -> bool {
        self.procs().contains_key(proc)
    }

    /// The launcher of a proc says which process it is. Refused where the launcher has named too many already.
    pub(crate) fn watch_named(
        &self,
        proc: &Proc,
        pid: u32,
        process: OwnedFd,
    ) -> Result<(), TooManyProcesses> {
        let is_full = self.procs().get(proc).is_some_and(|processes| {
            processes.watched.len() >= MAX_NAMED && !processes.watched.contains_key(&pid)
        });
        if is_full {
            return Err(TooManyProcesses);
        }
        self.open(proc, pid, Some(process));
        Ok(())
    }

    /// Watches the procs of a job no more.
    pub(crate) fn forget_job(&self, nspace: &Nspace) {
        self.procs().retain(|proc, _| proc.nspace != *nspace);
    }

    /// Counts a connection of a process in, and watches the process unless it is watched already.
    fn open(&self, proc: &Proc, pid: u32, process: Option<OwnedFd>) -> OpenConnection {
        let mut procs = self.procs();
        let watched = &mut procs.entry(proc.clone()).or_default().watched;
        if let Some(open) = watched.get(&pid) {
            open.send_modify(|count| *count = count.saturating_add(1));
            return OpenConnection(open.clone());
        }
        let open = watch::Sender::new(1);
        watched.insert(pid, open.clone());
        drop(tokio::spawn(self.clone().follow(
            proc.clone(),
            pid,
            process,
            open.subscribe(),
        )));
        OpenConnection(open)
    }

    /// Takes a process out of those that are watched; false if it is no longer among them.
    fn close(&self, proc: &Proc, pid: u32, connections: &watch::Receiver<usize>) -> bool {
        let is_ours = |open: &watch::Sender<usize>| open.subscribe().same_channel(connections);
        let mut was_watched = false;
        self.update(proc, |processes| {
            was_watched = processes.watched.get(&pid).is_some_and(is_ours);
            if was_watched {
                processes.watched.remove(&pid);
            }
        });
        was_watched
    }

    /// Changes the processes of a proc, and forgets the proc when none is left.
    fn update(&self, proc: &Proc, change: impl FnOnce(&mut Processes)) {
        let mut procs = self.procs();
        let Some(processes) = procs.get_mut(proc) else {
            return;
        };
        change(processes);
        if processes.connecting == 0 && processes.watched.is_empty() {
            procs.remove(proc);
        }
    }

    fn procs(&self) -> MutexGuard<'_, BTreeMap<Proc, Processes>> {
        // Nothing in here panics half-way, so what a poisoned lock guards is whole.
        self.procs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end of a process, and then for that of its connections.
    async fn follow(
        self,
        proc: Proc,
        pid: u32,
        process: Option<OwnedFd>,
        mut connections: watch::Receiver<usize>,
    ) {
        if let Some(process) = process
            && let Err(error) = end_of(process).await
        {
            tracing::warn!(%proc, pid, %error, "process of a registered proc is not watched");
            self.close(&proc, pid, &connections);
            return;
        }
        // What it said last counts before its end does.
        let _ = timeout(LINGER, connections.wait_for(|open| *open == 0)).await;
        if self.close(&proc, pid, &connections) {
            self.handle.send(ActorMessage::ProcessEnded { proc });
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

impl ConnectingProc {
    /// The proc has connected: its process is watched from now on. The connection was held by it a moment ago, so that its number
    /// is not another's.
    pub(crate) fn watch(self) -> OpenConnection {
        match open_process(self.pid) {
            Ok(process) => self.watch.open(&self.proc, self.pid, process),
            Err(error) => {
                tracing::warn!(proc = %self.proc, pid = self.pid, %error, "process of a registered proc is not watched");
                OpenConnection(watch::Sender::new(1))
            }
        }
    }
}

impl Drop for ConnectingProc {
    fn drop(&mut self) {
        self.watch.update(&self.proc, |processes| {
            processes.connecting = processes.connecting.saturating_sub(1)
        });
    }
}

/// A launcher has named more processes of one proc than are watched.
#[derive(Debug, Error)]
#[error("{MAX_NAMED} processes of this proc run already")]
pub(crate) struct TooManyProcesses;

/// A process; none where it has ended already.
pub(crate) fn open_process(pid: u32) -> io::Result<Option<OwnedFd>> {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or(io::ErrorKind::InvalidInput)?;
    match pidfd_open(pid, PidfdFlags::NONBLOCK) {
        Err(rustix::io::Errno::SRCH) => Ok(None),
        opened => Ok(Some(opened?)),
    }
}

/// Waits for the end of a process.
async fn end_of(process: OwnedFd) -> io::Result<()> {
    #[expect(
        deprecated,
        reason = "sound for a file that is owned, as here; what replaces it is unsafe for any other"
    )]
    let process = AsyncFd::with_interest(process, Interest::READABLE)?;
    process.readable().await?.retain_ready();
    Ok(())
}

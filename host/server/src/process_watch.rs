//! Watch on the processes of procs that another launcher starts. The host environment does not wait
//! for these processes, so the server itself detects their ends.
use crate::{
    handle::{ActorMessage, ServerHandle},
    handover::WatchedProcess,
};
use peal_model::{Nspace, Proc};
use peal_system::process::RunningProcess;
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

/// Time to read the last messages of a process that has ended. Then its end is reported even if the
/// connection is open, since a child process may hold it.
pub(crate) const LINGER: Duration = Duration::from_secs(1);

/// Maximum number of processes of one proc that are watched on behalf of its launcher.
const MAX_NAMED: usize = 16;

/// Processes of a proc.
#[derive(Default)]
struct Processes {
    /// Number of open connections of each watched process, by process id.
    watched: BTreeMap<u32, watch::Sender<usize>>,
    /// Number of further processes that are connecting.
    connecting: usize,
}

/// Watch on the processes of one server's procs.
#[derive(Clone)]
pub(crate) struct ProcessWatch {
    procs: Arc<Mutex<BTreeMap<Proc, Processes>>>,
    handle: ServerHandle,
}

/// Process that is connecting. Until this is dropped, its proc counts as alive.
pub(crate) struct ConnectingProc {
    watch: ProcessWatch,
    proc: Proc,
    pid: u32,
}

/// Open connection of a watched process.
#[derive(Debug)]
pub(crate) struct OpenConnection(watch::Sender<usize>);

impl ProcessWatch {
    pub(crate) fn new(handle: ServerHandle) -> ProcessWatch {
        ProcessWatch {
            procs: Arc::default(),
            handle,
        }
    }

    /// Notes that the process of this id is connecting as a proc.
    pub(crate) fn note_connecting(&self, proc: &Proc, pid: u32) -> ConnectingProc {
        self.procs().entry(proc.clone()).or_default().connecting += 1;
        ConnectingProc {
            watch: self.clone(),
            proc: proc.clone(),
            pid,
        }
    }

    /// Returns true if a process of this proc runs or is connecting.
    pub(crate) fn is_alive(&self, proc: &Proc) -> bool {
        self.procs().contains_key(proc)
    }

    /// Watches a process that the launcher of a proc has named. Fails if the launcher has named too
    /// many processes of the proc.
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
        // The result is dropped at once: a named process has no connection yet.
        self.open(proc, pid, Some(process));
        Ok(())
    }

    /// Returns all watched processes.
    pub(crate) fn watched(&self) -> Vec<WatchedProcess> {
        let procs = self.procs();
        let watched = procs.iter().flat_map(|(proc, processes)| {
            let of = |pid: &u32| WatchedProcess {
                proc: proc.clone(),
                pid: *pid,
                id: RunningProcess::of(*pid).map(|process| process.id),
            };
            processes.watched.keys().map(of)
        });
        watched.collect()
    }

    /// Watches a process that another process of this server has watched. The end of one that has ended
    /// meanwhile is reported.
    pub(crate) fn continue_watch(&self, watched: &WatchedProcess) {
        let WatchedProcess { proc, pid, id } = watched;
        let opened = open_process(*pid).inspect_err(
            |error| tracing::warn!(%proc, pid, %error, "process of registered proc not watched"),
        );
        // Compared when it is open: the id is not reused from now on.
        let is_same = id.is_some_and(peal_system::process::ProcessId::is_there);
        self.open(proc, *pid, opened.ok().flatten().filter(|_| is_same));
    }

    /// Stops watching the procs of a job.
    pub(crate) fn forget_job(&self, nspace: &Nspace) {
        self.procs().retain(|proc, _| proc.nspace != *nspace);
    }

    /// Counts a connection of a process, and watches the process unless it is watched already.
    fn open(&self, proc: &Proc, pid: u32, process: Option<OwnedFd>) -> OpenConnection {
        let mut procs = self.procs();
        let watched = &mut procs.entry(proc.clone()).or_default().watched;
        if let Some(open) = watched.get(&pid) {
            open.send_modify(|count| *count = count.saturating_add(1));
            return OpenConnection(open.clone());
        }
        // The count begins with the connection of this call.
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

    /// Removes a process from the watched ones. Returns false if it was removed before.
    fn close(&self, proc: &Proc, pid: u32, connections: &watch::Receiver<usize>) -> bool {
        // The id may be in use again: only the entry of this watch is removed.
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

    /// Changes the processes of a proc, and removes the proc when none is left.
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
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        self.procs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end of a process, then for that of its connections, and reports it.
    async fn follow(
        self,
        proc: Proc,
        pid: u32,
        process: Option<OwnedFd>,
        mut connections: watch::Receiver<usize>,
    ) {
        // Without a descriptor the process had ended before it could be watched.
        if let Some(process) = process
            && let Err(error) = end_of(process).await
        {
            tracing::warn!(%proc, pid, %error, "process of registered proc not watched");
            self.close(&proc, pid, &connections);
            return;
        }
        // The last messages of the process must be read before its end is reported.
        let _ = timeout(LINGER, connections.wait_for(|open| *open == 0)).await;
        // The job may have been removed meanwhile; then nothing is reported.
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
    /// Watches the process after its connection was admitted. The process held the connection a
    /// moment ago, so the id is not that of a later process.
    pub(crate) fn watch(self) -> OpenConnection {
        match open_process(self.pid) {
            // `self` is dropped after this, so the proc counts as alive without a gap.
            Ok(process) => self.watch.open(&self.proc, self.pid, process),
            Err(error) => {
                tracing::warn!(proc = %self.proc, pid = self.pid, %error, "process of registered proc not watched");
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

/// Error for a launcher that names more processes of one proc than the limit.
#[derive(Debug, Error)]
#[error("{MAX_NAMED} processes of this proc run already")]
pub(crate) struct TooManyProcesses;

/// Opens a pidfd of a process. Returns `None` if the process has ended already.
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
pub(crate) async fn end_of(process: OwnedFd) -> io::Result<()> {
    #[expect(
        deprecated,
        reason = "sound for an owned file as here; the replacement is unsafe for other types"
    )]
    let process = AsyncFd::with_interest(process, Interest::READABLE)?;
    process.readable().await?.retain_ready();
    Ok(())
}

//! Suspension of the connections of stubs: no request is begun, and each connection is given back as it is.
use super::{
    handover::{HandedStubs, StubHandover},
    service::{StubConnection, StubService},
};
use crate::handover::{HandoverError, SuspensionError, until};
use std::{
    mem,
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{OwnedRwLockWriteGuard, RwLock, watch},
    time::timeout,
};

/// Phase of the service of stubs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum StubPhase {
    #[default]
    Serving,
    /// Connections are given back.
    Suspended,
    /// Another process goes on with the connections.
    Left,
}

/// Phases of the service, as a task follows them.
pub(super) struct StubPhases(watch::Receiver<StubPhase>);

/// Next phase after a suspension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AfterSuspension {
    Resumed,
    Left,
}

impl StubPhases {
    /// Waits for a suspension.
    pub(super) async fn suspended(&mut self) {
        let suspended = self.0.wait_for(|phase| *phase != StubPhase::Serving);
        if suspended.await.is_err() {
            // The service has ended.
            std::future::pending().await
        }
    }

    /// Waits for the end of a suspension.
    pub(super) async fn after_suspension(&mut self) -> AfterSuspension {
        let after = self.0.wait_for(|phase| *phase != StubPhase::Suspended);
        match after.await.as_deref() {
            Ok(StubPhase::Serving) => AfterSuspension::Resumed,
            _ => AfterSuspension::Left,
        }
    }
}

/// Parts of the service that a suspension needs.
#[derive(Default)]
pub(super) struct StubSuspender {
    phase: watch::Sender<StubPhase>,
    /// Lock that is held for reading while a request is executed.
    turns: Arc<RwLock<()>>,
    /// Number of tasks that have a connection or accept one.
    open: Arc<AtomicUsize>,
    suspended: Arc<Mutex<Vec<StubConnection>>>,
    listening: Mutex<Option<ListeningStubSocket>>,
}

/// Socket on which the service listens.
#[derive(Debug)]
pub(super) struct ListeningStubSocket {
    pub(super) path: PathBuf,
    /// Descriptor of the socket beside that of the listener.
    pub(super) descriptor: OwnedFd,
}

/// Task that has a connection or accepts one, until this is dropped.
pub(super) struct OpenStub {
    open: Arc<AtomicUsize>,
    suspended: Arc<Mutex<Vec<StubConnection>>>,
}

impl OpenStub {
    /// Gives the connection of a suspended server back. Returns it if the suspension has ended meanwhile.
    pub(super) fn suspended(
        &self,
        connection: StubConnection,
        phases: &StubPhases,
    ) -> Option<StubConnection> {
        // A suspension ends under the lock, and takes what is there.
        let mut suspended = locked(&self.suspended);
        if *phases.0.borrow() == StubPhase::Serving {
            return Some(connection);
        }
        suspended.push(connection);
        None
    }
}

impl Drop for OpenStub {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::AcqRel);
    }
}

impl StubSuspender {
    /// Notes a task that has a connection or accepts one.
    pub(super) fn open(&self) -> OpenStub {
        self.open.fetch_add(1, Ordering::AcqRel);
        OpenStub {
            open: self.open.clone(),
            suspended: self.suspended.clone(),
        }
    }

    pub(super) fn phases(&self) -> StubPhases {
        StubPhases(self.phase.subscribe())
    }

    pub(super) fn turns(&self) -> Arc<RwLock<()>> {
        self.turns.clone()
    }

    /// Notes the socket on which the service listens.
    pub(super) fn listens(&self, socket: ListeningStubSocket) {
        *locked(&self.listening) = Some(socket);
    }
}

/// Hold on the requests of stubs: none begins until this is dropped.
pub struct StubHold {
    service: Arc<StubService>,
    turns: OwnedRwLockWriteGuard<()>,
}

/// Connections of stubs that are suspended. They go on when this is dropped.
pub struct SuspendedStubs {
    service: Arc<StubService>,
    connections: Vec<StubConnection>,
    _turns: OwnedRwLockWriteGuard<()>,
}

impl StubService {
    /// Waits until no request of a stub is under way, and keeps further ones back.
    ///
    /// # Errors
    ///
    /// Fails if a request takes longer than `limit`, or the server belongs to one launcher.
    pub async fn hold(self: Arc<Self>, limit: Duration) -> Result<StubHold, SuspensionError> {
        if self.has_owner() {
            let what = "the jobs of the launcher that has started the server";
            return Err(SuspensionError::Kept { what });
        }
        let turns = timeout(limit, self.suspender.turns().write_owned()).await;
        let what = "requests of launchers";
        let turns = turns.map_err(|_| SuspensionError::Busy { what, limit })?;
        Ok(StubHold {
            service: self,
            turns,
        })
    }
}

impl StubHold {
    /// Stops to read from the stubs, and to accept further ones. The server must be suspended, so that nothing is
    /// sent to them any more.
    ///
    /// # Errors
    ///
    /// Fails if a connection does not stop within `limit`.
    pub async fn suspend(self, limit: Duration) -> Result<SuspendedStubs, SuspensionError> {
        let StubHold { service, turns } = self;
        let suspender = &service.suspender;
        suspender.phase.send_replace(StubPhase::Suspended);
        let have_stopped = until(limit, || suspender.open.load(Ordering::Acquire) == 0).await;
        let connections = mem::take(&mut *locked(&suspender.suspended));
        let suspended = SuspendedStubs {
            service,
            connections,
            _turns: turns,
        };
        if have_stopped {
            return Ok(suspended);
        }
        let what = "connections of launchers";
        Err(SuspensionError::Busy { what, limit })
    }
}

impl SuspendedStubs {
    /// Returns the connections in the form in which another process goes on with them. This process still can.
    ///
    /// # Errors
    ///
    /// Fails if a message cannot be encoded, or the system has no further descriptors.
    pub fn handed(&mut self) -> Result<StubHandover, HandoverError> {
        let listening = locked(&self.service.suspender.listening);
        let mut handover = StubHandover {
            stubs: HandedStubs::new(
                self.service.named(),
                listening.as_ref().map(|at| at.path.clone()),
            ),
            descriptors: Vec::new(),
        };
        if let Some(listening) = &*listening {
            handover.descriptors.push(listening.descriptor.try_clone()?);
        }
        for connection in &mut self.connections {
            handover.add(connection)?;
        }
        Ok(handover)
    }

    /// Leaves the connections to another process, which has them.
    pub async fn leave(mut self) {
        for connection in &mut self.connections {
            if let StubConnection::Session(session) = connection {
                session.executor.jobs.leave();
            }
        }
        self.connections.clear();
        let suspender = &self.service.suspender;
        suspender.phase.send_replace(StubPhase::Left);
        // The listener leaves the file of its socket.
        suspender.phase.closed().await;
    }
}

impl Drop for SuspendedStubs {
    fn drop(&mut self) {
        let suspender = &self.service.suspender;
        let resumed = |phase: &mut StubPhase| {
            let is_suspended = *phase == StubPhase::Suspended;
            if is_suspended {
                *phase = StubPhase::Serving;
            }
            is_suspended
        };
        let mut suspended = locked(&suspender.suspended);
        suspender.phase.send_if_modified(resumed);
        self.connections.append(&mut suspended);
        drop(suspended);
        for connection in mem::take(&mut self.connections) {
            self.service.spawn(connection);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds one of the locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

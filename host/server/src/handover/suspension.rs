//! Suspension of a server: it reads no requests and finishes what it has begun. Then it is handed over or
//! goes on.
use super::{FORM, FORM_ALONE, HandedConnection, HandedServer, HandoverError, ServerSnapshot};
use crate::{
    actor::Actor,
    connection::{ServePhase, ServedConnection},
    handle::ActorMessage,
    listening::{self, report},
    server::Server,
    shared_actor::{FrozenActor, Unfinished},
};
use peal_store::SpillParts;
use std::{
    sync::{Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};
use thiserror::Error;
use tokio::{sync::oneshot, time::sleep};

/// Interval at which the end of work is looked for.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// Times of a suspension.
#[derive(Clone, Copy, Debug)]
pub struct SuspensionLimits {
    /// Time that handshakes have to end. Peers that take longer are disconnected.
    pub handshakes: Duration,
    /// Time that begun work has to end. With work that takes longer, the server goes on as before.
    pub work: Duration,
}

/// Reason for which a server was not suspended. It goes on as before.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SuspensionError {
    /// Work takes too long.
    #[error("{what} take longer than {limit:?}")]
    Busy {
        /// Work that has not ended.
        what: &'static str,
        /// Time that it had.
        limit: Duration,
    },
    /// The server has what no other process can go on with.
    #[error("{what} cannot be handed over; wait until there are none, or restart the server")]
    Kept {
        /// Kind of it.
        what: &'static str,
    },
    /// The server stops or is suspended already.
    #[error("the server stops, or another process takes it over already")]
    Stopping,
    /// The server cannot go on either.
    #[error("the server cannot go on: {why}")]
    Lost {
        /// Reason.
        why: String,
    },
}

/// Connections that are suspended, with their messages.
#[derive(Default)]
pub(crate) struct SuspendedConnections(Mutex<Vec<ServedConnection>>);

impl SuspendedConnections {
    pub(crate) fn add(&self, connection: ServedConnection) {
        self.all().push(connection);
    }

    fn take(&self) -> Vec<ServedConnection> {
        std::mem::take(&mut *self.all())
    }

    fn all(&self) -> MutexGuard<'_, Vec<ServedConnection>> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Stops to read, and waits until begun work has ended. The listening socket and all connections stay
    /// open: their peers wait.
    ///
    /// # Errors
    ///
    /// Fails if work takes too long. The server then goes on as before.
    pub async fn suspend(&mut self, limits: SuspensionLimits) -> Result<(), SuspensionError> {
        if *self.stopping.borrow() != ServePhase::Accept {
            return Err(SuspensionError::Stopping);
        }
        self.stopping.send_replace(ServePhase::Suspend);
        let greeted = until(limits.handshakes, || {
            self.context.greeting.load(Ordering::Acquire) == 0
        });
        if !greeted.await {
            tracing::warn!("handshakes not complete in time; their peers are disconnected");
        }
        self.stopping.send_replace(ServePhase::Suspended);
        let suspended = self.shared_actor.with_actor(Actor::suspend);
        suspended.map_err(|_| SuspensionError::Stopping)?;
        if let Some(listener) = self.listener.take() {
            match listener.await {
                Ok(kept) => self.kept_listener = kept,
                Err(error) => report(Err(error)),
            }
        }
        match self.freeze(limits.work).await {
            Ok(frozen) => {
                self.frozen = Some(frozen);
                Ok(())
            }
            Err(error) => {
                self.resume()?;
                Err(error)
            }
        }
    }

    /// Waits until begun work has ended, and stops the actor at that moment.
    async fn freeze(&self, limit: Duration) -> Result<FrozenActor, SuspensionError> {
        let deadline = Instant::now() + limit;
        loop {
            let (reply_to, reply) = oneshot::channel();
            // An answer or a message that came after the look for unfinished work would be lost.
            self.context.host.hold_answers();
            self.transport.hold();
            self.handle().send(ActorMessage::Freeze { reply_to });
            let reply = reply.await;
            if !matches!(reply, Ok(Ok(_))) {
                self.release_others();
            }
            match reply {
                Ok(Ok(frozen)) => return Ok(frozen),
                Ok(Err(Unfinished(what))) if Instant::now() >= deadline => {
                    return Err(SuspensionError::Busy { what, limit });
                }
                Ok(Err(_)) => sleep(LOOK_INTERVAL).await,
                Err(_) => return Err(SuspensionError::Stopping),
            }
        }
    }

    /// Goes on with what other parties have sent meanwhile.
    fn release_others(&self) {
        self.context.host.release_answers();
        self.transport.release();
    }

    /// Goes on after a suspension.
    ///
    /// # Errors
    ///
    /// Fails if the system refuses a descriptor or a thread. The server then accepts nothing and must end.
    pub fn resume(&mut self) -> Result<(), SuspensionError> {
        let listener = self.kept_listener.take().ok_or(SuspensionError::Lost {
            why: "its listening socket is gone".to_owned(),
        })?;
        self.stopping.send_replace(ServePhase::Accept);
        // Before the tasks of the connections, which would end at once.
        let _ = self.shared_actor.with_actor(Actor::resume_all);
        self.frozen = None;
        self.release_others();
        let connections = self.context.suspended.take();
        let stage = self.stopping.subscribe();
        let accepted = listening::accept(listener, self.context.clone(), stage.clone());
        let accepted = accepted.map_err(|error| SuspensionError::Lost {
            why: error.to_string(),
        })?;
        let listening = listening::listen(accepted, connections, self.context.clone(), stage);
        self.listener = Some(tokio::spawn(listening));
        Ok(())
    }

    /// Returns a suspended server in the form in which another process continues it. Until this process ends
    /// it can still go on by [`Server::resume`].
    ///
    /// # Errors
    ///
    /// Fails if a connection cannot be continued, or the system has no further descriptors.
    pub fn handed(&self) -> Result<HandedServer, HandoverError> {
        let listener = self.kept_listener.as_ref().ok_or(HandoverError::Stopped)?;
        let mut connections = Vec::new();
        let mut suspended = self.context.suspended.all();
        suspended.retain(
            |connection| match HandedConnection::of(connection, &self.context) {
                Ok(handed) => {
                    connections.push(handed);
                    true
                }
                Err(error) => {
                    // As if it had ended before.
                    tracing::warn!(%error, "connection closed");
                    let gone = |actor: &mut Actor| actor.gone(connection.peer);
                    let _ = self.shared_actor.with_actor(gone);
                    false
                }
            },
        );
        let mut descriptors = vec![listener.try_clone()?.into()];
        for connection in suspended.iter() {
            let socket = rustix::io::fcntl_dupfd_cloexec(connection.writer.socket(), 0);
            descriptors.push(socket.map_err(std::io::Error::from)?);
        }
        drop(suspended);
        let spill = self
            .shared_actor
            .with_actor(|actor| actor.spiller.parts())
            .map_err(|_| HandoverError::Stopped)??;
        let spill = spill.map(|SpillParts { index, files }| {
            descriptors.extend(files);
            index
        });
        let membership = self.transport.handed()?;
        let me = self.uri.proc.clone();
        let tools_named = self.context.tool_names.given();
        let snapshot = self.shared_actor.with_actor(|actor| {
            actor.heartbeats.pass_on_all(&mut actor.state);
            Ok::<_, HandoverError>(ServerSnapshot {
                form: match membership {
                    Some(_) => FORM,
                    None => FORM_ALONE,
                },
                me,
                clock: actor.now(),
                state: peal_handover::encode_state(&actor.state)?,
                connections,
                spill,
                watched: actor.processes.watched(),
                tools_named,
                events_numbered: actor.chains.numbered(),
                membership,
            })
        });
        let snapshot = snapshot.map_err(|_| HandoverError::Stopped)??;
        let state = rmp_serde::to_vec_named(&snapshot)?;
        Ok(HandedServer { state, descriptors })
    }

    /// Ends a server that another process continues. Its connections stay open.
    pub async fn leave(self) {
        let connections = self.context.suspended.take();
        for connection in &connections {
            // A writer that is dropped ends its connection, also for the other process. This one ends soon,
            // so that what is kept here does not matter.
            std::mem::forget(connection.writer.clone());
        }
        self.shared_actor.abandon();
        self.handle().stop();
        drop(self.frozen);
        drop(connections);
        report(self.actor_task.await);
    }
}

/// Waits until a condition holds, at most this long. Returns true if it does.
pub(crate) async fn until(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        sleep(LOOK_INTERVAL).await;
    }
}

impl Actor {
    /// Suspends all connections, also those of peers that are admitted later.
    fn suspend(&mut self) {
        self.is_suspended = true;
        self.outboxes
            .values()
            .for_each(|outbox| outbox.writer.suspend());
    }

    fn resume_all(&mut self) {
        self.is_suspended = false;
        self.state.excuse_silence(self.now());
        self.outboxes
            .values()
            .for_each(|outbox| outbox.writer.resume());
    }

    /// Returns a kind of work that has begun and not ended, for messages.
    pub(crate) fn unfinished(&self) -> Option<&'static str> {
        let counts = self.state.counts();
        if !self.admissions.is_empty() || counts.decisions_awaited > 0 {
            Some("decisions of policies")
        } else if self.chains.are_busy() {
            Some("events in the chains of handlers")
        } else if self.channels.are_busy() {
            Some("log requests")
        } else if self.spiller.is_busy() {
            Some("events that are written to disk or read from it")
        } else if self.open_answers.load(Ordering::Relaxed) > 0
            // One that has come is on its way to the state.
            || self.open_answers_over_nodes.load(Ordering::Relaxed)
                != self.host.upcalls_over_nodes()
        {
            Some("answers of the host environment")
        } else if self.modex_requests.len() != self.host.values_requested()
            || !self.server_queries.is_empty()
        {
            Some("requests of other nodes")
        } else {
            self.host.unfinished()
        }
    }
}

//! Where the actor is. Who has something to say enters, one at a time, and what that leads to is done before the next enters:
//! a request is carried out by the task that has read it, for to hand it over to another would take longer than all the rest.
use crate::{
    actor::Actor,
    deadline::until,
    handle::{ActorInbox, ActorMessage},
    spill::SpillBacklog,
};
use peal_core::MonotonicTime;
use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Instant,
};
use thiserror::Error;
use tokio::sync::{Notify, watch};

/// The office of one server.
pub(crate) struct SharedActor {
    desk: Mutex<ActorSlot>,
    /// Told when something is to be done sooner than the office's own task believes.
    sooner: Notify,
    backlog: SpillBacklog,
    /// When the actor's clock was started.
    started: Instant,
    /// True if a panic left the actor's state half-way.
    has_failed: watch::Sender<bool>,
}

struct ActorSlot {
    /// None when the server has stopped.
    actor: Option<Actor>,
    /// Until when the office's own task sleeps.
    sleeps: Option<MonotonicTime>,
}

/// Tells of a panic while the actor was at work. It is dropped behind the lock.
struct FailureGuard<'a>(&'a watch::Sender<bool>);

impl Drop for FailureGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.send_replace(true);
        }
    }
}

/// The server has stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the server is stopping")]
pub(crate) struct ActorStopped;

impl SharedActor {
    /// That of this actor.
    pub(crate) fn of(actor: Actor) -> SharedActor {
        let (backlog, started) = (actor.spiller.backlog(), actor.started);
        SharedActor {
            desk: Mutex::new(ActorSlot {
                actor: Some(actor),
                sleeps: None,
            }),
            sooner: Notify::new(),
            backlog,
            started,
            has_failed: watch::Sender::new(false),
        }
    }

    /// Waits for a panic that leaves the actor's state half-way; for ever if there is none.
    pub(crate) fn failure(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut has_failed = self.has_failed.subscribe();
        async move {
            if has_failed.wait_for(|has_failed| *has_failed).await.is_err() {
                std::future::pending().await
            }
        }
    }

    /// Says something to the actor, who is free sooner than anybody could have waited.
    pub(crate) fn with_actor<T>(
        &self,
        say: impl FnOnce(&mut Actor) -> T,
    ) -> Result<T, ActorStopped> {
        let _guard = FailureGuard(&self.has_failed);
        // Whoever panicked in here has left the state half-way: nothing of it is to be trusted.
        let mut desk = self.desk.lock().map_err(|_| ActorStopped)?;
        let ActorSlot { actor, sleeps } = &mut *desk;
        let actor = actor.as_mut().ok_or(ActorStopped)?;
        let said = say(actor);
        actor.metrics.follow(actor.state.counts());
        let due = actor.state.deadline();
        if due.is_some_and(|due| sleeps.is_none_or(|until| due < until)) {
            *sleeps = due;
            self.sooner.notify_one();
        }
        Ok(said)
    }

    /// Whether the disk has not come so far that more may be spilled.
    pub(crate) fn is_behind(&self) -> bool {
        self.backlog.is_long()
    }

    /// Waits until the disk has come so far that more may be spilled: whoever floods waits with it.
    pub(crate) async fn wait_for_spill_capacity(&self) {
        self.backlog.breathe().await;
    }

    /// Brings what the host environment, the fabric and the server's own workers say, and what the time does, until the server is
    /// told to stop; then lets the hosted chains finish what they have.
    pub(crate) async fn run(self: Arc<SharedActor>, mut inbox: ActorInbox) {
        let mut has_failed = self.has_failed.subscribe();
        while let Ok(deadline) = self.deadline() {
            let entered = tokio::select! {
                message = inbox.internal.recv() => match message {
                    Some(ActorMessage::Stop) | None => break,
                    Some(message) => self.with_actor(|actor| actor.handle_message(message)),
                },
                Some(wanted) = inbox.wanted.recv() => self.with_actor(|actor| actor.want(wanted)),
                () = until(self.started, deadline) => self.with_actor(Actor::tick),
                () = self.sooner.notified() => Ok(()),
                _ = has_failed.wait_for(|has_failed| *has_failed) => break,
            };
            if entered.is_err() {
                break;
            }
            self.wait_for_spill_capacity().await;
        }
        let Some(mut actor) = self.close() else {
            return;
        };
        actor.tell_losses();
        // Whoever waits for us to listen must not: the chains that are drained below are among them.
        drop(inbox);
        actor.end().await;
    }

    /// When there is something to do, until when the caller sleeps.
    fn deadline(&self) -> Result<Option<MonotonicTime>, ActorStopped> {
        let mut desk = self.desk.lock().map_err(|_| ActorStopped)?;
        desk.sleeps = desk.actor.as_ref().ok_or(ActorStopped)?.state.deadline();
        Ok(desk.sleeps)
    }

    /// Nobody enters any more. The actor comes back if its state is whole; one that a panic left half-way is dropped, and the
    /// connections that it holds are closed with it.
    fn close(&self) -> Option<Actor> {
        match self.desk.lock() {
            Ok(mut desk) => desk.actor.take(),
            Err(poisoned) => {
                drop(poisoned.into_inner().actor.take());
                None
            }
        }
    }
}

impl fmt::Debug for SharedActor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Office").finish_non_exhaustive()
    }
}

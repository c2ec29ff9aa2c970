//! The actor behind a mutex. One task at a time locks it and executes all actions that result
//! before it unlocks. The task that has read a request executes it, since a handover to another
//! task would take longer than the request.
use crate::{
    actor::Actor,
    deadline::until,
    handle::{ActorInbox, ActorMessage},
    spill::SpillBacklog,
    spinner::Spinner,
};
use peal_core::MonotonicTime;
use std::{
    fmt,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use thiserror::Error;
use tokio::sync::{Notify, oneshot, watch};

/// Time after which a task that executes messages lets other tasks run, although more messages wait:
/// some take longer than others.
pub(crate) const TURN_TIME: Duration = Duration::from_micros(50);

/// Actor of one server, shared by its tasks.
pub(crate) struct SharedActor {
    slot: Mutex<ActorSlot>,
    /// Notified when a deadline is earlier than the one that the actor's own task sleeps for.
    sooner: Notify,
    backlog: SpillBacklog,
    /// Start of the actor's clock.
    started: Instant,
    /// True if a panic left the actor's state inconsistent.
    has_failed: watch::Sender<bool>,
    spinner: Arc<Spinner>,
}

struct ActorSlot {
    /// The actor, `None` when the server has stopped.
    actor: Option<Actor>,
    /// Deadline that the actor's own task sleeps for.
    sleeps: Option<MonotonicTime>,
}

/// Guard that reports a panic of code that has locked the actor. It must be dropped after the lock.
struct FailureGuard<'a>(&'a watch::Sender<bool>);

impl Drop for FailureGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.send_replace(true);
        }
    }
}

/// Hold on an actor that processes no messages and no deadlines, until this is dropped.
#[derive(Debug)]
pub(crate) struct FrozenActor(
    #[expect(dead_code, reason = "its drop tells the actor's task")] oneshot::Sender<()>,
);

/// Kind of work that has begun and not ended, for messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unfinished(pub(crate) &'static str);

/// The server has stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the server is stopping")]
pub(crate) struct ActorStopped;

impl SharedActor {
    /// Shares an actor.
    pub(crate) fn of(actor: Actor, spinner: Arc<Spinner>) -> SharedActor {
        let backlog = actor.spiller.backlog();
        let started = actor.started;
        SharedActor {
            slot: Mutex::new(ActorSlot {
                actor: Some(actor),
                sleeps: None,
            }),
            sooner: Notify::new(),
            backlog,
            started,
            has_failed: watch::Sender::new(false),
            spinner,
        }
    }

    /// Waits for a panic that leaves the actor's state inconsistent, or for ever if there is none.
    pub(crate) fn failure(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut has_failed = self.has_failed.subscribe();
        async move {
            // Without a sender the server has ended without such a panic.
            if has_failed.wait_for(|has_failed| *has_failed).await.is_err() {
                std::future::pending().await
            }
        }
    }

    /// Runs `work` with exclusive access to the actor. Blocks the thread until the lock is free:
    /// code that holds it never waits.
    pub(crate) fn with_actor<T>(
        &self,
        work: impl FnOnce(&mut Actor) -> T,
    ) -> Result<T, ActorStopped> {
        // Declared before the lock, because values are dropped in reverse order.
        let _guard = FailureGuard(&self.has_failed);
        // A poisoned lock means that a panic has interrupted a change of the state: do not use it.
        let mut slot = self.slot.lock().map_err(|_| ActorStopped)?;
        let ActorSlot { actor, sleeps } = &mut *slot;
        let actor = actor.as_mut().ok_or(ActorStopped)?;
        let result = work(actor);
        actor.metrics.follow(actor.state.counts());
        self.spinner.note_work();
        let due = actor.state.deadline();
        if due.is_some_and(|due| sleeps.is_none_or(|until| due < until)) {
            // Stored, so that only an even earlier deadline notifies the task again.
            *sleeps = due;
            self.sooner.notify_one();
        }
        Ok(result)
    }

    /// Returns true if too many events wait to be spilled for requests of this user.
    pub(crate) fn is_behind(&self, uid: u32) -> bool {
        self.backlog.is_long(Some(uid))
    }

    /// Waits until requests of this user may cause further events. Connections of users that cause
    /// too many events wait here.
    pub(crate) async fn wait_for_spill_capacity(&self, uid: u32) {
        self.backlog.wait_for_capacity(Some(uid)).await;
    }

    /// Passes on messages of the host environment, the server transport and the server's own
    /// workers, and deadlines, until the server is stopped. Then lets the hosted modules finish.
    pub(crate) async fn run(self: Arc<SharedActor>, mut inbox: ActorInbox) {
        let mut has_failed = self.has_failed.subscribe();
        let mut turn_began = Instant::now();
        while let Ok(deadline) = self.deadline() {
            let mut freezing = None;
            let passed_on = tokio::select! {
                message = inbox.internal.recv() => match message {
                    Some(ActorMessage::Stop) | None => break,
                    Some(ActorMessage::Freeze { reply_to }) => {
                        freezing = Some(reply_to);
                        Ok(())
                    }
                    Some(message) => self.with_actor(|actor| actor.handle_message(message)),
                },
                Some(request) = inbox.handler_requests.recv() => self.with_actor(|actor| actor.execute_handler_request(request)),
                () = until(self.started, deadline) => self.with_actor(Actor::tick),
                () = self.sooner.notified() => Ok(()),
                _ = has_failed.wait_for(|has_failed| *has_failed) => break,
            };
            let passed_on = match freezing {
                Some(reply_to) => {
                    let has_messages =
                        !inbox.internal.is_empty() || !inbox.handler_requests.is_empty();
                    self.freeze(has_messages, reply_to).await
                }
                None => passed_on,
            };
            if passed_on.is_err() {
                break;
            }
            // The host environment and other servers cause events, too, so this task waits like a
            // connection.
            self.backlog.wait_for_capacity(None).await;
            if inbox.internal.is_empty() {
                turn_began = Instant::now();
            } else if turn_began.elapsed() >= TURN_TIME {
                tokio::task::yield_now().await;
                turn_began = Instant::now();
            }
        }
        let Some(mut actor) = self.close() else {
            return;
        };
        // Before the drain below, so that the chains still receive the events of these losses.
        actor.report_losses();
        let ActorInbox {
            internal,
            handler_requests,
        } = inbox;
        // No message is handled any more. Requests of handlers are taken while the chains finish: a
        // worker that waits for space in their queue would delay the end.
        drop(internal);
        actor.end(handler_requests).await;
    }

    /// Stops until the caller drops the reply, if nothing is under way. The time does not go on either.
    async fn freeze(
        &self,
        has_messages: bool,
        reply_to: oneshot::Sender<Result<FrozenActor, Unfinished>>,
    ) -> Result<(), ActorStopped> {
        let unfinished = self.with_actor(|actor| actor.unfinished())?;
        let unfinished = unfinished.or(has_messages.then_some("messages of parts of the server"));
        if let Some(work) = unfinished {
            // The caller may have stopped waiting.
            let _ = reply_to.send(Err(Unfinished(work)));
            return Ok(());
        }
        let (frozen, thawed) = oneshot::channel();
        if reply_to.send(Ok(FrozenActor(frozen))).is_ok() {
            // An error, since the sender is only dropped.
            let _ = thawed.await;
        }
        Ok(())
    }

    /// Returns the next deadline, and records that the caller sleeps until then.
    fn deadline(&self) -> Result<Option<MonotonicTime>, ActorStopped> {
        let mut slot = self.slot.lock().map_err(|_| ActorStopped)?;
        slot.sleeps = slot.actor.as_ref().ok_or(ActorStopped)?.state.deadline();
        Ok(slot.sleeps)
    }

    /// Drops the actor: another process goes on with its state. Later calls fail.
    pub(crate) fn abandon(&self) {
        drop(self.close());
    }

    /// Takes the actor out, so that later calls fail, and returns it if its state is consistent.
    /// After a panic the actor is dropped, which closes its connections.
    fn close(&self) -> Option<Actor> {
        match self.slot.lock() {
            Ok(mut slot) => slot.actor.take(),
            Err(poisoned) => {
                drop(poisoned.into_inner().actor.take());
                None
            }
        }
    }
}

impl fmt::Debug for SharedActor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedActor").finish_non_exhaustive()
    }
}

//! Handlers of the client: native closures and components in one chain, in the order of RFC 0002.
use crate::{
    ClientError,
    event_registrations::{EventRegistrations, ServerUpdate},
    handler::{ExternalHandler, Handler, HandlerRequests, HandlerReturn, LateOutcome, panicked},
    handler_thread::HandlerThread,
    lock,
    recent::{EventNumber, RecentEvents},
};
use peal_core::{
    chain::{ChainRun, HandlerOutcome, NextHandler, PendingHandler},
    class::ClassFilter,
    order::Registrations,
    registration::{HandlerRegistration, RegistrationId},
};
use peal_model::{Event, Status, code};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::poll_fn,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};
use tokio::{sync::oneshot, time::timeout};

/// Limit of registrations of one external handler, equal to that of a component in a server.
const MAX_REGISTRATIONS: usize = 64;

/// Codes and classes under which a registration is counted.
struct Counted {
    codes: Vec<Status>,
    levels: ClassFilter,
}

/// Retention of an event for handlers that register later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EventRetention {
    /// Kept while there is room.
    ForLater,
    /// Not kept: only present handlers receive it.
    Once,
}

/// Event before its run through the chain.
pub(crate) struct IncomingEvent {
    pub(crate) event: Event,
    pub(crate) retention: EventRetention,
}

/// Registered handler that has yet to receive recent events from before its registration.
struct LateHandler {
    id: RegistrationId,
    /// First event that it has not received yet.
    next: EventNumber,
    /// First event that it receives together with all other handlers.
    end: EventNumber,
}

struct ChainState {
    chain: Registrations<Handler>,
    recent: RecentEvents,
    late: VecDeque<LateHandler>,
    /// Codes and classes under which each registration is counted.
    counted: BTreeMap<RegistrationId, Counted>,
    interests: EventRegistrations,
    /// Codes that the client itself needs, until it finalizes, and that the server has confirmed.
    own: BTreeSet<Status>,
}

impl ChainState {
    fn begin(&mut self, IncomingEvent { event, retention }: IncomingEvent) -> EventRun {
        let event = Arc::new(event);
        let number =
            (retention == EventRetention::ForLater).then(|| self.recent.push(event.clone()));
        EventRun {
            chain: self.chain.run(event),
            number,
            called: CalledHandlers::All,
        }
    }

    fn next_recent(&mut self) -> Option<EventRun> {
        while let Some(handler) = self.late.front_mut() {
            let found = self
                .recent
                .next(handler.next)
                .filter(|(number, _)| *number < handler.end);
            let Some((number, event)) = found else {
                self.late.pop_front();
                continue;
            };
            handler.next = number.after();
            if let Some(chain) = self.chain.run_one(handler.id, event) {
                return Some(EventRun {
                    chain,
                    number: Some(number),
                    called: CalledHandlers::LateHandler,
                });
            }
        }
        None
    }
}

/// Handlers of a client, and the thread for those that may block.
pub(crate) struct ClientHandlers {
    state: Mutex<ChainState>,
    /// Started with the registration of the first handler that may block. One thread serves all, so
    /// that they see the events one after the other.
    thread: Mutex<Option<HandlerThread>>,
    /// Time limit of a deferred handler.
    limit: Option<Duration>,
}

/// Run of an event through the handlers.
pub(crate) struct EventRun {
    chain: ChainRun<Handler>,
    /// Number of the event among the recent events, if it is kept.
    number: Option<EventNumber>,
    pub(crate) called: CalledHandlers,
}

/// Handlers that receive an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CalledHandlers {
    /// All handlers registered for it: the event is new.
    All,
    /// One handler that was registered after the event came.
    LateHandler,
}

impl ClientHandlers {
    pub(crate) fn new(recent: RecentEvents, limit: Option<Duration>) -> ClientHandlers {
        let state = ChainState {
            chain: Registrations::default(),
            recent,
            late: VecDeque::new(),
            counted: BTreeMap::new(),
            interests: EventRegistrations::default(),
            own: BTreeSet::new(),
        };
        ClientHandlers {
            state: Mutex::new(state),
            thread: Mutex::default(),
            limit,
        }
    }

    /// Adds a handler to the chain. [`ClientHandlers::next`] then passes it the recent events
    /// before any new one.
    pub(crate) fn register(
        &self,
        codes: &[Status],
        registration: HandlerRegistration,
        handler: Handler,
    ) -> Result<(RegistrationId, ServerUpdate), ClientError> {
        let levels = registration.levels;
        self.register_counted(codes, registration, handler, levels)
    }

    /// Adds a handler to the chain as [`ClientHandlers::register`] does, and counts it for these
    /// classes: servers are asked for no events of others.
    pub(crate) fn register_counted(
        &self,
        codes: &[Status],
        registration: HandlerRegistration,
        handler: Handler,
        levels: ClassFilter,
    ) -> Result<(RegistrationId, ServerUpdate), ClientError> {
        if handler.may_block() {
            self.start_thread().map_err(ClientError::Thread)?;
        }
        let mut state = lock(&self.state);
        let id = state.chain.register(registration, handler)?;
        let next = state.recent.first();
        let end = state.recent.end();
        state.late.push_back(LateHandler { id, next, end });
        state.counted.insert(
            id,
            Counted {
                codes: codes.to_vec(),
                levels,
            },
        );
        Ok((id, state.interests.add(codes, levels)))
    }

    fn start_thread(&self) -> io::Result<()> {
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            *thread = Some(HandlerThread::start()?);
        }
        Ok(())
    }

    /// Removes a handler from the chain; `None` if there is none of that id.
    pub(crate) fn deregister(&self, id: RegistrationId) -> Option<ServerUpdate> {
        let mut state = lock(&self.state);
        state.chain.deregister(id)?;
        let Counted { codes, levels } = state.counted.remove(&id)?;
        Some(state.interests.remove(&codes, levels))
    }

    /// Counts those of these codes that the server has not confirmed for the client itself, and
    /// returns them. [`ClientHandlers::confirm_own`] or [`ClientHandlers::revoke_own`] must follow.
    pub(crate) fn count_own(&self, codes: &[Status]) -> Vec<Status> {
        let mut state = lock(&self.state);
        let mut new = codes.to_vec();
        new.retain(|code| !state.own.contains(code));
        if !new.is_empty() {
            // The caller sends all of them: what handlers registered need not be confirmed either.
            let _ = state.interests.add(&new, ClassFilter::Both);
        }
        new
    }

    /// Keeps these codes for as long as the client exists. If the client deregistered them, the
    /// server would keep such events for it.
    pub(crate) fn confirm_own(&self, codes: &[Status]) {
        let mut state = lock(&self.state);
        for code in codes {
            // Two calls at once may both have counted the code.
            if !state.own.insert(*code) {
                let _ = state.interests.remove(&[*code], ClassFilter::Both);
            }
        }
    }

    /// Takes back the count of codes whose registration the server has not confirmed. The server is
    /// not told: events that it sends all the same are ignored.
    pub(crate) fn revoke_own(&self, codes: &[Status]) {
        if !codes.is_empty() {
            let _ = lock(&self.state).interests.remove(codes, ClassFilter::Both);
        }
    }

    /// Returns true if a handler is registered for this code explicitly.
    pub(crate) fn has_explicit_handler(&self, code: Status) -> bool {
        lock(&self.state)
            .counted
            .values()
            .any(|counted| counted.codes.contains(&code))
    }

    /// Returns true if a registration belongs to this external handler.
    pub(crate) fn is_of(&self, id: RegistrationId, hosted: &Arc<dyn ExternalHandler>) -> bool {
        lock(&self.state)
            .chain
            .get(id)
            .is_some_and(|member| member.handler.is(hosted))
    }

    /// Returns true if an external handler may have one more registration.
    pub(crate) fn has_room_for(&self, hosted: &Arc<dyn ExternalHandler>) -> bool {
        lock(&self.state)
            .chain
            .iter()
            .filter(|member| member.handler.is(hosted))
            .count()
            < MAX_REGISTRATIONS
    }

    /// Returns the messages that register everything with a new server.
    pub(crate) fn all_updates(&self) -> Vec<ServerUpdate> {
        lock(&self.state).interests.all()
    }

    /// Removes all handlers.
    pub(crate) fn clear(&self) {
        let mut state = lock(&self.state);
        let chain = std::mem::take(&mut state.chain);
        let _ = std::mem::take(&mut state.late);
        (state.counted, state.interests, state.own) = Default::default();
        drop(state);
        // The drop of the last reference to a handler may run code of the application, which must
        // not run under the lock.
        drop(chain);
    }

    /// Returns the next run: a recent event for a handler that has registered since, else this new
    /// event.
    pub(crate) fn next(&self, incoming: &mut Option<IncomingEvent>) -> Option<EventRun> {
        let mut state = lock(&self.state);
        state
            .next_recent()
            .or_else(|| incoming.take().map(|incoming| state.begin(incoming)))
    }

    /// Starts the run of an event through the chain.
    pub(crate) fn begin(&self, incoming: IncomingEvent) -> EventRun {
        lock(&self.state).begin(incoming)
    }

    /// Runs an event through the chain: in this task while handlers cannot block, the rest on the
    /// handlers' thread. An event that a handler has completed is not kept for later handlers. The
    /// requests of the handlers are added to `requests`.
    pub(crate) async fn run(
        &self,
        EventRun { chain, number, .. }: EventRun,
        requests: &mut HandlerRequests,
    ) {
        let mut progress = walk(chain.advance(), requests, Walker::Runtime);
        loop {
            // A box, since most chains end without a wait, and the path of an event is then short.
            progress = match progress {
                ClientChainRun::Done(ChainConclusion::Completed) => {
                    if let Some(number) = number {
                        lock(&self.state).recent.remove(number);
                    }
                    return;
                }
                ClientChainRun::Done(ChainConclusion::Exhausted) => return,
                ClientChainRun::MayBlock(call) => {
                    match Box::pin(self.walk_on_thread(call, requests)).await {
                        Some(progress) => progress,
                        None => return,
                    }
                }
                ClientChainRun::Deferred(call, answer) => {
                    let outcome = Box::pin(self.complete(call.event(), answer)).await;
                    walk(call.finish(outcome).advance(), requests, Walker::Runtime)
                }
            };
        }
    }

    /// Calls the rest of a chain on the handlers' thread; `None` if it cannot.
    async fn walk_on_thread(
        &self,
        call: PendingHandler<Handler>,
        requests: &mut HandlerRequests,
    ) -> Option<ClientChainRun> {
        let (tell, handled) = oneshot::channel();
        let mut moved = std::mem::take(requests);
        let job = move || {
            let progress = walk(NextHandler::Call(call), &mut moved, Walker::Thread);
            // The receiver may be gone with the client.
            let _ = tell.send((progress, moved));
        };
        let is_queued = |thread: &HandlerThread| thread.try_run(job);
        if !lock(&self.thread).as_ref().is_some_and(is_queued) {
            tracing::error!("event not handled: handlers' thread has no room");
            return None;
        }
        let (progress, moved) = handled.await.ok()?;
        *requests = moved;
        Some(progress)
    }

    /// Waits for the outcome of a deferred handler, at most for the limit.
    async fn complete(&self, event: &Event, mut answer: LateOutcome) -> HandlerOutcome {
        // A panic of the handler must not end the event task.
        let outcome = poll_fn(|context| {
            let polled = catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(context)));
            polled.unwrap_or_else(|_| Poll::Ready(panicked(event)))
        });
        let Some(limit) = self.limit else {
            return outcome.await;
        };
        timeout(limit, outcome).await.unwrap_or_else(|_| {
            tracing::error!(code = %event.code, ?limit, "handler did not complete in time");
            HandlerOutcome::status(Status::PEAL_ERR_MODULE_TIMEOUT)
        })
    }
}

/// Place where a chain runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Walker {
    /// Task of the runtime, which must not wait for a handler.
    Runtime,
    /// Thread of the handlers.
    Thread,
}

/// Conclusion of an event's run through a chain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChainConclusion {
    /// A handler has completed the event.
    Completed,
    /// All handlers were called.
    Exhausted,
}

/// Progress of a chain.
enum ClientChainRun {
    Done(ChainConclusion),
    /// The next handler may block, so it must be called on the handlers' thread.
    MayBlock(PendingHandler<Handler>),
    /// A deferred handler was called; its outcome is pending.
    Deferred(PendingHandler<Handler>, LateOutcome),
}

/// Calls handlers until the chain ends, or one of them lets it wait.
fn walk(
    mut next: NextHandler<Handler>,
    requests: &mut HandlerRequests,
    walker: Walker,
) -> ClientChainRun {
    loop {
        match next {
            NextHandler::Call(call) => {
                let handler = &call.member().handler;
                if walker == Walker::Runtime && handler.may_block() {
                    return ClientChainRun::MayBlock(call);
                }
                next = match handler.call(&call, requests) {
                    HandlerReturn::Completed(outcome) => call.finish(outcome).advance(),
                    HandlerReturn::Pending(answer) => {
                        return ClientChainRun::Deferred(call, answer);
                    }
                };
            }
            NextHandler::Done(finished) => {
                // One-shot registrations end here. The servers must hear of it, as of any other
                // end.
                requests.deregistered.extend(finished.spent);
                // A completion ends the chain, so only the last result can be one.
                let last = finished.steps.last().map(|step| step.status);
                let is_completed = last == Some(code::PMIX_EVENT_ACTION_COMPLETE);
                let end = if is_completed {
                    ChainConclusion::Completed
                } else {
                    ChainConclusion::Exhausted
                };
                return ClientChainRun::Done(end);
            }
        }
    }
}

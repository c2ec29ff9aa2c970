//! The client's own handlers: native closures and components in one chain, in the order of RFC 0002.
use crate::{
    event_registrations::{EventRegistrations, ServerUpdate},
    handler::{Handler, HandlerRequests, HandlerReturn, LateOutcome, panicked},
    lock,
    recent::{EventNumber, RecentEvents},
};
use peal_core::{
    chain::{ChainRun, HandlerOutcome, NextHandler, PendingHandler},
    class::ClassFilter,
    order::Registrations,
    registration::{Registration, RegistrationError, RegistrationId},
};
use peal_model::{Event, Status, code};
use peal_sandbox::{GuestPool, Module};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{sync::oneshot, time::timeout};

/// How many registrations one component may have, as hosted ones.
const MAX_REGISTRATIONS: usize = 64;

/// What a registration is counted for.
struct Counted {
    codes: Vec<Status>,
    levels: ClassFilter,
}

/// Whether an event is kept for handlers that register later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EventRetention {
    /// It is, as long as there is room.
    ForLater,
    /// Only handlers that are registered hear it.
    Once,
}

/// An event that is to pass the chain.
pub(crate) struct IncomingEvent {
    pub(crate) event: Event,
    pub(crate) retention: EventRetention,
}

/// A handler that is to hear recent events from before its registration.
struct LateHandler {
    id: RegistrationId,
    /// Earlier events it has heard, or was not for.
    next: EventNumber,
    /// From here on it hears events with all others.
    end: EventNumber,
}

struct ChainState {
    chain: Registrations<Handler>,
    recent: RecentEvents,
    late: VecDeque<LateHandler>,
    /// What each registration is counted for.
    counted: BTreeMap<RegistrationId, Counted>,
    interests: EventRegistrations,
    /// What this client wants for itself, as long as it is there.
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
            hearers: Hearers::All,
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
                    hearers: Hearers::LateHandler,
                });
            }
        }
        None
    }
}

/// The handlers of a client and the thread on which those run that may block.
pub(crate) struct ClientHandlers {
    state: Mutex<ChainState>,
    pool: Arc<GuestPool>,
    /// How long a handler may take to complete whose answer comes later.
    limit: Duration,
}

/// The way of an event through handlers.
pub(crate) struct EventRun {
    chain: ChainRun<Handler>,
    /// Its number among the recent events, if it is one.
    number: Option<EventNumber>,
    pub(crate) hearers: Hearers,
}

/// The handlers that hear an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hearers {
    /// All that are registered for it: the event is new.
    All,
    /// One that was registered after the event came.
    LateHandler,
}

impl ClientHandlers {
    pub(crate) fn new(pool: GuestPool, recent: RecentEvents, limit: Duration) -> ClientHandlers {
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
            pool: Arc::new(pool),
            limit,
        }
    }

    /// Adds a handler to the chain. Recent events then come to it by [`Handlers::next`], before any new one.
    pub(crate) fn register(
        &self,
        codes: &[Status],
        registration: Registration,
        handler: Handler,
    ) -> Result<(RegistrationId, ServerUpdate), RegistrationError> {
        let mut state = lock(&self.state);
        let levels = registration.levels;
        let id = state.chain.register(registration, handler)?;
        let (next, end) = (state.recent.first(), state.recent.end());
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

    /// Takes a handler out of the chain; nothing if there is none of that number.
    pub(crate) fn deregister(&self, id: RegistrationId) -> Option<ServerUpdate> {
        let mut state = lock(&self.state);
        state.chain.deregister(id)?;
        let Counted { codes, levels } = state.counted.remove(&id)?;
        Some(state.interests.remove(&codes, levels))
    }

    /// This client wants events of these codes for itself, from now on: what it once heard of it must not miss, or a server would keep it.
    pub(crate) fn want(&self, codes: &[Status]) -> ServerUpdate {
        let mut state = lock(&self.state);
        let new: Vec<Status> = codes
            .iter()
            .copied()
            .filter(|code| state.own.insert(*code))
            .collect();
        if new.is_empty() {
            ServerUpdate::Nothing
        } else {
            state.interests.add(&new, ClassFilter::Both)
        }
    }

    /// Whether some handler is for this code by name.
    pub(crate) fn listen_to(&self, code: Status) -> bool {
        lock(&self.state)
            .counted
            .values()
            .any(|counted| counted.codes.contains(&code))
    }

    /// Whether a registration is this component's.
    pub(crate) fn is_of(&self, id: RegistrationId, module: &Arc<Module>) -> bool {
        lock(&self.state)
            .chain
            .get(id)
            .is_some_and(|(_, handler)| handler.is(module))
    }

    /// Whether a component may have one more registration.
    pub(crate) fn has_room_for(&self, module: &Arc<Module>) -> bool {
        lock(&self.state)
            .chain
            .iter()
            .filter(|(_, _, handler)| handler.is(module))
            .count()
            < MAX_REGISTRATIONS
    }

    /// What a server must be asked for that knows of nothing.
    pub(crate) fn wanted(&self) -> Vec<ServerUpdate> {
        lock(&self.state).interests.all()
    }

    /// Forgets all handlers.
    pub(crate) fn clear(&self) {
        let mut state = lock(&self.state);
        let (chain, _) = (
            std::mem::take(&mut state.chain),
            std::mem::take(&mut state.late),
        );
        (state.counted, state.interests, state.own) = Default::default();
        drop(state);
        // The last holder of a handler runs code that is not ours: outside of the lock.
        drop(chain);
    }

    /// What is to be run next: a recent event by a handler that has registered since, else this new event.
    pub(crate) fn next(&self, incoming: &mut Option<IncomingEvent>) -> Option<EventRun> {
        let mut state = lock(&self.state);
        state
            .next_recent()
            .or_else(|| incoming.take().map(|incoming| state.begin(incoming)))
    }

    /// The way of an event through the chain.
    pub(crate) fn begin(&self, incoming: IncomingEvent) -> EventRun {
        lock(&self.state).begin(incoming)
    }

    /// Runs an event through the chain: here as far as nobody may block, the rest on the handlers' thread. One that a handler
    /// has completed is for no later handler.
    pub(crate) async fn run(&self, EventRun { chain, number, .. }: EventRun) -> HandlerRequests {
        let mut walked = walk(chain.advance(), HandlerRequests::default(), Walker::Runtime);
        loop {
            walked = match walked {
                ClientChainRun::Done(wishes, end) => {
                    if let (ChainConclusion::Completed, Some(number)) = (end, number) {
                        lock(&self.state).recent.remove(number);
                    }
                    return wishes;
                }
                ClientChainRun::MayBlock(call, wishes) => {
                    match self.walk_on_thread(call, wishes).await {
                        Some(walked) => walked,
                        None => return HandlerRequests::default(),
                    }
                }
                ClientChainRun::Deferred(call, wishes, answer) => {
                    let outcome = self.complete(call.event(), answer).await;
                    walk(call.finish(outcome).advance(), wishes, Walker::Runtime)
                }
            };
        }
    }

    async fn walk_on_thread(
        &self,
        call: Box<PendingHandler<Handler>>,
        wishes: HandlerRequests,
    ) -> Option<ClientChainRun> {
        let (tell, told) = oneshot::channel();
        let walked = self.pool.try_run(move || {
            // Whoever waits may be gone with the client.
            let _ = tell.send(walk(NextHandler::Call(*call), wishes, Walker::Thread));
        });
        match walked {
            Ok(()) => told.await.ok(),
            Err(busy) => {
                tracing::error!(%busy, "an event passes the handlers by");
                None
            }
        }
    }

    /// Waits for the answer of a handler, as long as that may take.
    async fn complete(&self, event: &Event, answer: LateOutcome) -> HandlerOutcome {
        // A task of its own, whose panic is the handler's alone.
        let mut answering = tokio::spawn(answer);
        match timeout(self.limit, &mut answering).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => panicked(event),
            Err(_) => {
                answering.abort();
                tracing::error!(code = %event.code, limit = ?self.limit, "handler did not complete in time");
                HandlerOutcome::status(Status::PEAL_ERR_MODULE_TIMEOUT)
            }
        }
    }
}

impl Drop for ClientHandlers {
    /// A pool waits for its threads, and a handler may wait for whoever drops the client. So the handlers' thread drops the
    /// pool itself, when it has done everything else.
    fn drop(&mut self) {
        let pool = self.pool.clone();
        // At most one chain is before it, so there is room.
        let _ = self.pool.try_run(move || drop(pool));
    }
}

/// Where a chain runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Walker {
    /// On the runtime, which must not wait for a handler.
    Runtime,
    /// On the handlers' thread.
    Thread,
}

/// How the way of an event through a chain ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChainConclusion {
    /// A handler has completed it.
    Completed,
    /// All handlers were called.
    Exhausted,
}

/// How far a chain came.
enum ClientChainRun {
    Done(HandlerRequests, ChainConclusion),
    /// To a handler that must not be called here.
    MayBlock(Box<PendingHandler<Handler>>, HandlerRequests),
    /// To a handler that was called and is at work.
    Deferred(Box<PendingHandler<Handler>>, HandlerRequests, LateOutcome),
}

fn walk(mut next: NextHandler<Handler>, wishes: HandlerRequests, walker: Walker) -> ClientChainRun {
    let wishes = RefCell::new(wishes);
    loop {
        match next {
            NextHandler::Call(call) => {
                let handler = call.member().handler.clone();
                let may_block = matches!(handler, Handler::Native(_) | Handler::Component { .. });
                if walker == Walker::Runtime && may_block {
                    return ClientChainRun::MayBlock(Box::new(call), wishes.into_inner());
                }
                next = match handler.call(&call, &wishes) {
                    HandlerReturn::Answered(outcome) => call.finish(outcome).advance(),
                    HandlerReturn::Deferred(answer) => {
                        return ClientChainRun::Deferred(
                            Box::new(call),
                            wishes.into_inner(),
                            answer,
                        );
                    }
                };
            }
            NextHandler::Done(finished) => {
                let mut wishes = wishes.into_inner();
                wishes.gone.extend(finished.spent);
                let last = finished.steps.last().map(|step| step.status);
                let is_completed = last == Some(code::PMIX_EVENT_ACTION_COMPLETE);
                let end = if is_completed {
                    ChainConclusion::Completed
                } else {
                    ChainConclusion::Exhausted
                };
                return ClientChainRun::Done(wishes, end);
            }
        }
    }
}

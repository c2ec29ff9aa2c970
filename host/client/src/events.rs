//! The client's own handlers: native closures and components in one chain, in the order of RFC 0002.
use crate::{
    Decision, Invited,
    group::Advice,
    interests::{ForServer, Interests},
    lock,
};
use peal_core::{
    chain::{Member, Next, Outcome, PendingCall},
    class::Levels,
    order::Registrations,
    registration::{Registration, RegistrationError, RegistrationId},
};
use peal_model::{Event, Info, Range, Status, Step, Value};
use peal_sandbox::{Change, EventCall, GuestPool, Module};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
};
use tokio::sync::oneshot;

/// What a native handler is called with. What it asks for is done when the event has passed the chain, so that a handler
/// never waits for what waits for it.
pub struct HandlerCall<'a> {
    event: &'a Event,
    steps: &'a [Step],
    id: RegistrationId,
    registration: &'a Registration,
    wishes: &'a RefCell<Wishes>,
}

impl HandlerCall<'_> {
    /// The event.
    pub fn event(&self) -> &Event {
        self.event
    }

    /// The registration that this call is for.
    pub fn registration(&self) -> RegistrationId {
        self.id
    }

    /// Takes a handler out, this one or another; one that is not there any more is passed over.
    pub fn deregister(&self, id: RegistrationId) {
        self.wishes.borrow_mut().gone.push(id);
    }

    /// What those before it returned, oldest first.
    pub fn steps(&self) -> &[Step] {
        self.steps
    }

    /// Raises an event.
    pub fn notify(&self, code: Status, range: Range, infos: Vec<Info>) {
        self.wishes.borrow_mut().raised.push(Raised { code, range, infos });
    }

    /// Declines an invitation to a group.
    pub fn decline(&self, invited: &Invited) {
        let (code, infos) = invited.refusal();
        self.notify(code, Range::Custom, infos);
    }

    /// Decides what becomes of an invitation of ours that somebody does not follow.
    pub fn decide(&self, group: &str, decision: &Decision) {
        let (code, infos) = decision.event(group);
        self.notify(code, Range::ProcLocal, infos);
    }

    /// What the handler is called.
    pub fn name(&self) -> &str {
        &self.registration.name
    }

    /// What it gave at its registration to be given back (`PMIX_EVENT_RETURN_OBJECT`).
    pub fn object(&self) -> Option<&Value> {
        self.registration.object.as_ref()
    }

    /// What those before it returned in the RFC's form: one info for each handler that ran, its key the handler's name, its value an array whose
    /// first element carries the status.
    pub fn results(&self) -> Vec<Info> {
        self.steps.iter().map(Step::as_info).collect()
    }
}

/// An event that a handler raised.
#[derive(Debug)]
pub(crate) struct Raised {
    pub(crate) code: Status,
    pub(crate) range: Range,
    pub(crate) infos: Vec<Info>,
}

/// What the handlers of a chain asked for.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    /// Events to be raised.
    pub(crate) raised: Vec<Raised>,
    /// Registrations that have ended: taken out by a handler, or spent.
    pub(crate) gone: Vec<RegistrationId>,
    /// How components want their own registrations changed.
    pub(crate) changes: Vec<(Arc<Module>, Change)>,
    /// What the first component that says anything to an invitation says.
    pub(crate) advice: Option<Advice>,
}

/// How many registrations one component may have, as hosted ones.
const MAX_REGISTRATIONS: usize = 64;

type Native = dyn Fn(&HandlerCall<'_>) -> Outcome + Send + Sync;

/// What is called for an event.
#[derive(Clone)]
pub enum Handler {
    /// A closure, on the handlers' thread. It may block; other handlers of this client then wait.
    Native(Arc<Native>),
    /// A closure that never blocks. It runs where the event arrives, on the runtime, unless one before it in the chain had
    /// to run on the handlers' thread: the way there takes longer than that of the event from its source.
    Quick(Arc<Native>),
    /// A component, on the handlers' thread.
    Component {
        /// The component.
        module: Arc<Module>,
        /// The tag that it gave the registration; zero where it did not make it.
        tag: u32,
    },
}

impl Handler {
    /// A closure as a handler.
    pub fn native(handler: impl Fn(&HandlerCall<'_>) -> Outcome + Send + Sync + 'static) -> Handler {
        Handler::Native(Arc::new(handler))
    }

    /// A closure that never blocks as a handler. While it runs nothing else of this client does, nor of its runtime's thread.
    pub fn quick(handler: impl Fn(&HandlerCall<'_>) -> Outcome + Send + Sync + 'static) -> Handler {
        Handler::Quick(Arc::new(handler))
    }

    /// A component as a handler.
    pub fn component(module: Arc<Module>) -> Handler {
        Handler::Component { module, tag: 0 }
    }

    fn is(&self, component: &Arc<Module>) -> bool {
        matches!(self, Handler::Component { module, .. } if Arc::ptr_eq(module, component))
    }

    fn call(&self, call: &PendingCall<Handler>, wishes: &RefCell<Wishes>) -> Outcome {
        let Member { id, registration, .. } = call.member();
        let (event, id) = (call.event(), *id);
        match self {
            Handler::Native(native) | Handler::Quick(native) => {
                let call = HandlerCall { event, steps: call.steps(), id, registration, wishes };
                catch_unwind(AssertUnwindSafe(|| native(&call))).unwrap_or_else(|_| {
                    tracing::error!(code = %event.code, "a handler panicked; the chain goes on");
                    Outcome::status(Status::PEAL_ERR_HANDLER_TRAPPED)
                })
            }
            Handler::Component { module, tag } => {
                let steps = call.steps().clone();
                let result = module.handle(&EventCall {
                    number: 0,
                    registration: id.0,
                    tag: *tag,
                    event: event.clone(),
                    identity: None,
                    steps,
                });
                let raised = result.notifications.into_iter();
                let raised = raised.map(|event| Raised { code: event.code, range: event.range, infos: event.infos });
                if !result.controls.is_empty() || !result.reports.is_empty() {
                    tracing::warn!(module = module.name(), "in a client, components neither control procs nor log");
                }
                let mut wishes = wishes.borrow_mut();
                wishes.raised.extend(raised);
                wishes.advice = wishes.advice.take().or_else(|| Advice::of(event, &result.infos));
                wishes.changes.extend(result.changes.into_iter().map(|change| (module.clone(), change)));
                Outcome { status: result.status, infos: result.infos }
            }
        }
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Handler::Native(_) => f.write_str("a native handler"),
            Handler::Quick(_) => f.write_str("a native handler that never blocks"),
            Handler::Component { module, .. } => write!(f, "module {}", module.name()),
        }
    }
}

/// What a registration is counted for.
struct Counted {
    codes: Vec<Status>,
    levels: Levels,
}

#[derive(Default)]
struct State {
    chain: Registrations<Handler>,
    /// What each registration is counted for.
    counted: BTreeMap<RegistrationId, Counted>,
    interests: Interests,
    /// What this client wants for itself, as long as it is there.
    own: BTreeSet<Status>,
}

/// The handlers of a client and the thread on which those run that may block.
pub(crate) struct Handlers {
    state: Mutex<State>,
    pool: Arc<GuestPool>,
}

impl Handlers {
    pub(crate) fn new(pool: GuestPool) -> Handlers {
        Handlers { state: Mutex::default(), pool: Arc::new(pool) }
    }

    /// Adds a handler to the chain.
    pub(crate) fn register(
        &self,
        codes: &[Status],
        registration: Registration,
        handler: Handler,
    ) -> Result<(RegistrationId, ForServer), RegistrationError> {
        let mut state = lock(&self.state);
        let levels = registration.levels;
        let id = state.chain.register(registration, handler)?;
        state.counted.insert(id, Counted { codes: codes.to_vec(), levels });
        Ok((id, state.interests.add(codes, levels)))
    }

    /// Takes a handler out of the chain; nothing if there is none of that number.
    pub(crate) fn deregister(&self, id: RegistrationId) -> Option<ForServer> {
        let mut state = lock(&self.state);
        state.chain.deregister(id)?;
        let Counted { codes, levels } = state.counted.remove(&id)?;
        Some(state.interests.remove(&codes, levels))
    }

    /// This client wants events of these codes for itself, from now on: what it once heard of it must not miss, or a server would keep it.
    pub(crate) fn want(&self, codes: &[Status]) -> ForServer {
        let mut state = lock(&self.state);
        let new: Vec<Status> = codes.iter().copied().filter(|code| state.own.insert(*code)).collect();
        if new.is_empty() { ForServer::Nothing } else { state.interests.add(&new, Levels::Both) }
    }

    /// Whether some handler is for this code by name.
    pub(crate) fn listen_to(&self, code: Status) -> bool {
        lock(&self.state).counted.values().any(|counted| counted.codes.contains(&code))
    }

    /// Whether a registration is this component's.
    pub(crate) fn is_of(&self, id: RegistrationId, module: &Arc<Module>) -> bool {
        lock(&self.state).chain.get(id).is_some_and(|(_, handler)| handler.is(module))
    }

    /// Whether a component may have one more registration.
    pub(crate) fn has_room_for(&self, module: &Arc<Module>) -> bool {
        lock(&self.state).chain.iter().filter(|(_, _, handler)| handler.is(module)).count() < MAX_REGISTRATIONS
    }

    /// What a server must be asked for that knows of nothing.
    pub(crate) fn wanted(&self) -> Vec<ForServer> {
        lock(&self.state).interests.all()
    }

    /// Forgets all handlers.
    pub(crate) fn clear(&self) {
        // The last holder of a handler runs code that is not ours: outside of the lock.
        drop(std::mem::take(&mut *lock(&self.state)));
    }

    /// Runs an event through the chain: here as far as nobody may block, the rest on the handlers' thread.
    pub(crate) async fn run(&self, event: Event) -> Wishes {
        let run = lock(&self.state).chain.run(Arc::new(event));
        match walk(run.advance(), Wishes::default(), Walker::Runtime) {
            Walked::Done(wishes) => wishes,
            Walked::MayBlock(call, wishes) => self.run_on_thread(call, wishes).await,
        }
    }

    async fn run_on_thread(&self, call: Box<PendingCall<Handler>>, wishes: Wishes) -> Wishes {
        let (tell, told) = oneshot::channel();
        let walked = self.pool.try_run(move || {
            if let Walked::Done(wishes) = walk(Next::Call(*call), wishes, Walker::Thread) {
                // Whoever waits may be gone with the client.
                let _ = tell.send(wishes);
            }
        });
        match walked {
            Ok(()) => told.await.unwrap_or_default(),
            Err(busy) => {
                tracing::error!(%busy, "an event passes the handlers by");
                Wishes::default()
            }
        }
    }
}

impl Drop for Handlers {
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

/// How far a chain came.
enum Walked {
    Done(Wishes),
    /// To a handler that must not be called here.
    MayBlock(Box<PendingCall<Handler>>, Wishes),
}

fn walk(mut next: Next<Handler>, wishes: Wishes, walker: Walker) -> Walked {
    let wishes = RefCell::new(wishes);
    loop {
        match next {
            Next::Call(call) => {
                let handler = call.member().handler.clone();
                if walker == Walker::Runtime && !matches!(handler, Handler::Quick(_)) {
                    return Walked::MayBlock(Box::new(call), wishes.into_inner());
                }
                let outcome = handler.call(&call, &wishes);
                next = call.finish(outcome).advance();
            }
            Next::Done(finished) => {
                let mut wishes = wishes.into_inner();
                wishes.gone.extend(finished.spent);
                return Walked::Done(wishes);
            }
        }
    }
}

//! The client's own handlers: native closures and components in one chain, in the order of RFC 0002.
use peal_core::{
    chain::{Next, Outcome, PendingCall},
    order::Registrations,
    registration::{Registration, RegistrationError, RegistrationId},
};
use peal_model::{DataArray, Event, Info, InfoFlags, Key, Status, Step, Value, code};
use peal_sandbox::{EventCall, GuestPool, Module, Notification};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::oneshot;

/// What a native handler is called with.
pub struct HandlerCall<'a> {
    event: &'a Event,
    steps: &'a [Step],
    id: RegistrationId,
}

impl HandlerCall<'_> {
    /// The event.
    pub fn event(&self) -> &Event {
        self.event
    }

    /// The registration that this call is for, so that a handler can deregister itself.
    pub fn registration(&self) -> RegistrationId {
        self.id
    }

    /// What those before it returned, oldest first.
    pub fn steps(&self) -> &[Step] {
        self.steps
    }

    /// The same in the RFC's form: one info for each handler that ran, its key the handler's name, its value an array whose
    /// first element carries the status.
    pub fn results(&self) -> Vec<Info> {
        self.steps.iter().map(result).collect()
    }
}

fn result(step: &Step) -> Info {
    // A name longer than a key may be is not refused at registration; its results go without.
    let key = Key::new(&step.name).or_else(|_| Key::new("")).unwrap_or_else(|_| peal_model::KeyName("").into());
    let status = Info { key: key.clone(), flags: InfoFlags::NONE, value: Value::Status(step.status) };
    let array = DataArray::infos(std::iter::once(status).chain(step.infos.iter().cloned()));
    Info { key, flags: InfoFlags::NONE, value: Value::DataArray(array) }
}

type Native = dyn Fn(&HandlerCall<'_>) -> Outcome + Send + Sync;

/// What is called for an event.
#[derive(Clone)]
pub enum Handler {
    /// A closure. It may block; other handlers of this client then wait.
    Native(Arc<Native>),
    /// A component.
    Component(Arc<Module>),
}

impl Handler {
    /// A closure as a handler.
    pub fn native(handler: impl Fn(&HandlerCall<'_>) -> Outcome + Send + Sync + 'static) -> Handler {
        Handler::Native(Arc::new(handler))
    }

    fn call(&self, call: &PendingCall<Handler>, raised: &mut Vec<Notification>) -> Outcome {
        let (event, id) = (call.event(), call.member().id);
        match self {
            Handler::Native(native) => native(&HandlerCall { event, steps: call.steps(), id }),
            Handler::Component(module) => {
                let steps = call.steps().clone();
                let result = module.handle(&EventCall {
                    registration: id.0,
                    tag: 0,
                    event: event.clone(),
                    identity: None,
                    steps,
                });
                raised.extend(result.notifications);
                Outcome { status: result.status, infos: result.infos }
            }
        }
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Handler::Native(_) => f.write_str("a native handler"),
            Handler::Component(module) => write!(f, "module {}", module.name()),
        }
    }
}

/// What a change of the registrations means for the server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ForServer {
    /// It knows already.
    Nothing,
    /// It is to be asked for these codes, none meaning all.
    Register(Vec<Status>),
    /// Nobody wants these codes any more.
    Deregister(Vec<Status>),
}

#[derive(Default)]
struct State {
    chain: Registrations<Handler>,
    /// The codes of each registration, as told to the server.
    codes: BTreeMap<RegistrationId, Vec<Status>>,
    /// How many registrations want a code.
    wanted: BTreeMap<Status, usize>,
}

/// The handlers of a client and the thread they run on.
pub(crate) struct Handlers {
    state: Mutex<State>,
    pool: GuestPool,
}

impl Handlers {
    pub(crate) fn new(pool: GuestPool) -> Handlers {
        Handlers { state: Mutex::default(), pool }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Handlers run outside of the lock, so nothing in here panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a handler to the chain.
    pub(crate) fn register(
        &self,
        codes: &[Status],
        registration: Registration,
        handler: Handler,
    ) -> Result<(RegistrationId, ForServer), RegistrationError> {
        let mut state = self.state();
        let id = state.chain.register(registration, handler)?;
        let counted = if codes.is_empty() { vec![Status::DEFAULT_HANDLER] } else { codes.to_vec() };
        let mut new = false;
        for code in &counted {
            let wanted = state.wanted.entry(*code).or_default();
            new |= *wanted == 0;
            *wanted += 1;
        }
        state.codes.insert(id, counted);
        Ok((id, if new { ForServer::Register(codes.to_vec()) } else { ForServer::Nothing }))
    }

    /// Takes a handler out of the chain; nothing if there is none of that number.
    pub(crate) fn deregister(&self, id: RegistrationId) -> Option<ForServer> {
        let mut state = self.state();
        state.chain.deregister(id)?;
        let mut unwanted = Vec::new();
        for code in state.codes.remove(&id).unwrap_or_default() {
            let wanted = state.wanted.entry(code).or_default();
            *wanted = wanted.saturating_sub(1);
            if *wanted == 0 {
                state.wanted.remove(&code);
                unwanted.push(code);
            }
        }
        Some(if unwanted.is_empty() { ForServer::Nothing } else { ForServer::Deregister(unwanted) })
    }

    /// Runs an event through the chain, on the handlers' thread. What handlers raised, and which one-shot ones are spent.
    pub(crate) async fn run(&self, event: Event) -> (Vec<Notification>, Vec<RegistrationId>) {
        let mut run = self.state().chain.run(Arc::new(event));
        if run.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let (tell, told) = oneshot::channel();
        let walked = self.pool.try_run(move || {
            let mut raised = Vec::new();
            let spent = loop {
                match run.advance() {
                    Next::Call(call) => {
                        let outcome = call.member().handler.clone().call(&call, &mut raised);
                        run = call.finish(outcome);
                    }
                    Next::Done(finished) => break finished.spent,
                }
            };
            // Whoever waits may be gone with the client.
            let _ = tell.send((raised, spent));
        });
        match walked {
            Ok(()) => told.await.unwrap_or_default(),
            Err(busy) => {
                tracing::error!(%busy, "an event passes the handlers by");
                (Vec::new(), Vec::new())
            }
        }
    }
}

/// Events that the client raises for itself alone.
pub(crate) fn internal(code: Status, me: &peal_model::Proc) -> Event {
    Event { code, source: Some(me.clone()), range: peal_model::Range::ProcLocal, infos: Vec::new() }
}

/// The connection to the server is lost, in the name that the Standard now has for it.
pub(crate) const LOST: Status = code::PMIX_ERR_LOST_CONNECTION_TO_SERVER;

/// A message could not be understood.
pub(crate) const GARBLED: Status = code::PMIX_ERR_COMM_FAILURE;

//! A handler of the client: a native closure or a component, and the call of it.
use crate::{AbsenceDecision, Invited, group::InvitationAnswer};
use peal_core::{
    chain::{ChainMember, HandlerOutcome, PendingHandler},
    registration::{Registration, RegistrationId},
};
use peal_model::{ChainResult, Event, Info, Range, Status, Value};
use peal_sandbox::{EventCall, Module, RegistrationChange};
use std::{
    cell::RefCell,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
};

/// What a native handler is called with. What it asks for is done when the event has passed the chain, so that a handler
/// never waits for what waits for it.
pub struct HandlerCall<'a> {
    event: &'a Event,
    steps: &'a [ChainResult],
    id: RegistrationId,
    registration: &'a Registration,
    wishes: &'a RefCell<HandlerRequests>,
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
    pub fn steps(&self) -> &[ChainResult] {
        self.steps
    }

    /// Raises an event.
    pub fn notify(&self, code: Status, range: Range, infos: Vec<Info>) {
        self.wishes
            .borrow_mut()
            .raised
            .push(RaisedEvent { code, range, infos });
    }

    /// Declines an invitation to a group.
    pub fn decline(&self, invited: &Invited) {
        let (code, infos) = invited.refusal();
        self.notify(code, Range::Custom, infos);
    }

    /// Decides what becomes of an invitation of ours that somebody does not follow.
    pub fn decide(&self, group: &str, decision: &AbsenceDecision) {
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
        self.steps.iter().map(ChainResult::as_info).collect()
    }
}

/// An event that a handler raised.
#[derive(Debug)]
pub(crate) struct RaisedEvent {
    pub(crate) code: Status,
    pub(crate) range: Range,
    pub(crate) infos: Vec<Info>,
}

/// What the handlers of a chain asked for.
#[derive(Debug, Default)]
pub(crate) struct HandlerRequests {
    /// Events to be raised.
    pub(crate) raised: Vec<RaisedEvent>,
    /// Registrations that have ended: taken out by a handler, or spent.
    pub(crate) gone: Vec<RegistrationId>,
    /// How components want their own registrations changed.
    pub(crate) changes: Vec<(Arc<Module>, RegistrationChange)>,
    /// What the first component that says anything to an invitation says.
    pub(crate) advice: Option<InvitationAnswer>,
}

/// The answer of a handler that is still at work.
pub(crate) type LateOutcome = Pin<Box<dyn Future<Output = HandlerOutcome> + Send>>;

type Native = dyn Fn(&HandlerCall<'_>) -> HandlerOutcome + Send + Sync;
type Deferred = dyn Fn(&HandlerCall<'_>) -> LateOutcome + Send + Sync;

/// What a call of a handler led to.
pub(crate) enum HandlerReturn {
    /// Its answer.
    Answered(HandlerOutcome),
    /// Its answer will come.
    Deferred(LateOutcome),
}

/// What is called for an event.
#[derive(Clone)]
pub enum Handler {
    /// A closure, on the handlers' thread. It may block; other handlers of this client then wait.
    Native(Arc<Native>),
    /// A closure that never blocks. It runs where the event arrives, on the runtime, unless one before it in the chain had
    /// to run on the handlers' thread: the way there takes longer than that of the event from its source.
    Quick(Arc<Native>),
    /// A closure that never blocks and whose answer comes later (RFC 0002: the callback function to be executed upon completing
    /// the handler's actions). The chain, and other events, wait for it as long as [`crate::ClientSettings::handler_timeout`] says.
    Deferred(Arc<Deferred>),
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
    pub fn native(
        handler: impl Fn(&HandlerCall<'_>) -> HandlerOutcome + Send + Sync + 'static,
    ) -> Handler {
        Handler::Native(Arc::new(handler))
    }

    /// A closure that never blocks as a handler. While it runs nothing else of this client does, nor of its runtime's thread.
    pub fn non_blocking(
        handler: impl Fn(&HandlerCall<'_>) -> HandlerOutcome + Send + Sync + 'static,
    ) -> Handler {
        Handler::Quick(Arc::new(handler))
    }

    /// A closure that never blocks as a handler. What it returns is awaited on the runtime, and is the handler's answer:
    ///
    /// ```
    /// # use peal_client::{Handler, Outcome};
    /// # use peal_model::code;
    /// # let (requests, _) = std::sync::mpsc::channel();
    /// Handler::deferred(move |call| {
    ///     let (complete, completed) = tokio::sync::oneshot::channel();
    ///     // Whoever does the work says `complete.send(Outcome::status(..))` from any thread.
    ///     let _ = requests.send((call.event().clone(), complete));
    ///     async { completed.await.unwrap_or(Outcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)) }
    /// });
    /// ```
    ///
    /// A handler that is not done in time has the status [`Status::PEAL_ERR_MODULE_TIMEOUT`], and what it returned is dropped.
    pub fn deferred<F>(handler: impl Fn(&HandlerCall<'_>) -> F + Send + Sync + 'static) -> Handler
    where
        F: Future<Output = HandlerOutcome> + Send + 'static,
    {
        Handler::Deferred(Arc::new(move |call| Box::pin(handler(call))))
    }

    /// A component as a handler.
    pub fn component(module: Arc<Module>) -> Handler {
        Handler::Component { module, tag: 0 }
    }

    pub(crate) fn is(&self, component: &Arc<Module>) -> bool {
        matches!(self, Handler::Component { module, .. } if Arc::ptr_eq(module, component))
    }

    pub(crate) fn call(
        &self,
        call: &PendingHandler<Handler>,
        wishes: &RefCell<HandlerRequests>,
    ) -> HandlerReturn {
        let ChainMember {
            id, registration, ..
        } = call.member();
        let (event, id) = (call.event(), *id);
        let native_call = || HandlerCall {
            event,
            steps: call.steps(),
            id,
            registration,
            wishes,
        };
        match self {
            Handler::Native(native) | Handler::Quick(native) => {
                let answer = catch_unwind(AssertUnwindSafe(|| native(&native_call())));
                HandlerReturn::Answered(answer.unwrap_or_else(|_| panicked(event)))
            }
            Handler::Deferred(begin) => {
                match catch_unwind(AssertUnwindSafe(|| begin(&native_call()))) {
                    Ok(answer) => HandlerReturn::Deferred(answer),
                    Err(_) => HandlerReturn::Answered(panicked(event)),
                }
            }
            Handler::Component { module, tag } => {
                let steps = call.steps().clone();
                let result = module.handle(&EventCall {
                    number: 0,
                    registration: id.0,
                    tag: *tag,
                    event: call.event_with_object(),
                    identity: None,
                    steps,
                });
                let raised = result.notifications.into_iter();
                let raised = raised.map(|event| RaisedEvent {
                    code: event.code,
                    range: event.range,
                    infos: event.infos,
                });
                if !result.controls.is_empty() || !result.reports.is_empty() {
                    tracing::warn!(
                        module = module.name(),
                        "in a client, components neither control procs nor log"
                    );
                }
                let mut wishes = wishes.borrow_mut();
                wishes.raised.extend(raised);
                wishes.advice = wishes
                    .advice
                    .take()
                    .or_else(|| InvitationAnswer::of(event, &result.infos));
                wishes.changes.extend(
                    result
                        .changes
                        .into_iter()
                        .map(|change| (module.clone(), change)),
                );
                HandlerReturn::Answered(HandlerOutcome {
                    status: result.status,
                    infos: result.infos,
                })
            }
        }
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Handler::Native(_) => f.write_str("a native handler"),
            Handler::Quick(_) => f.write_str("a native handler that never blocks"),
            Handler::Deferred(_) => f.write_str("a native handler that completes later"),
            Handler::Component { module, .. } => write!(f, "module {}", module.name()),
        }
    }
}

/// The answer of a handler that panicked.
pub(crate) fn panicked(event: &Event) -> HandlerOutcome {
    tracing::error!(code = %event.code, "a handler panicked; the chain goes on");
    HandlerOutcome::status(Status::PEAL_ERR_MODULE_TRAPPED)
}

//! Handlers of the client, native closures or external ones, and calls of them.
use crate::{AbsenceDecision, Invited, group::InvitationAnswer};
use peal_core::{
    chain::{ChainMember, HandlerOutcome, PendingHandler},
    registration::{HandlerRegistration, RegistrationId},
};
use peal_model::{ChainResult, Event, Info, Range, RegistrationChange, Status, Value};
use std::{
    any::Any,
    cell::RefCell,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
};

/// Call of a native handler. Its requests are carried out when the event has passed the chain, so
/// that a handler never waits for a request that waits for the handler.
pub struct HandlerCall<'a> {
    event: &'a Event,
    steps: &'a [ChainResult],
    handlers: usize,
    id: RegistrationId,
    registration: &'a HandlerRegistration,
    requests: RefCell<&'a mut HandlerRequests>,
}

impl<'a> HandlerCall<'a> {
    fn of(call: &'a PendingHandler<Handler>, requests: &'a mut HandlerRequests) -> HandlerCall<'a> {
        let ChainMember {
            id, registration, ..
        } = call.member();
        HandlerCall {
            event: call.event(),
            steps: call.steps(),
            handlers: call.handlers(),
            id: *id,
            registration,
            requests: RefCell::new(requests),
        }
    }

    /// Returns the event.
    pub fn event(&self) -> &Event {
        self.event
    }

    /// Returns the registration that this call is for.
    pub fn registration(&self) -> RegistrationId {
        self.id
    }

    /// Deregisters this handler or another one. A registration that no longer exists is ignored.
    pub fn deregister(&self, id: RegistrationId) {
        self.requests.borrow_mut().deregistered.push(id);
    }

    /// Returns the chain results of the handlers before this one, oldest first.
    pub fn steps(&self) -> &[ChainResult] {
        self.steps
    }

    /// Returns the number of handlers that this event passes, this one included, if none ends the
    /// chain.
    pub fn handlers(&self) -> usize {
        self.handlers
    }

    /// Raises an event.
    pub fn notify(&self, code: Status, range: Range, infos: Vec<Info>) {
        self.requests
            .borrow_mut()
            .raised
            .push(RaisedEvent { code, range, infos });
    }

    /// Declines an invitation to a group.
    pub fn decline(&self, invited: &Invited) {
        let (code, infos) = invited.refusal();
        self.notify(code, Range::Custom, infos);
    }

    /// Decides about an absent proc of this proc's own invitation.
    pub fn decide(&self, group: &str, decision: &AbsenceDecision) {
        let (code, infos) = decision.event(group);
        self.notify(code, Range::ProcLocal, infos);
    }

    /// Returns the name of the handler.
    pub fn name(&self) -> &str {
        &self.registration.name
    }

    /// Returns the object that was passed at the registration (`PMIX_EVENT_RETURN_OBJECT`).
    pub fn object(&self) -> Option<&Value> {
        self.registration.object.as_ref()
    }

    /// Returns a value that the handlers of this event share, one after the other. The first one that
    /// calls this makes it.
    pub fn shared<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut requests = self.requests.borrow_mut();
        let shared = requests.shared.clone().map(Arc::downcast);
        if let Some(Ok(shared)) = shared {
            return shared;
        }
        let made = Arc::new(make());
        requests.shared = Some(made.clone());
        made
    }

    /// Returns the chain results in the form of RFC 0002: one info for each handler that ran. Its
    /// key is the handler's name, its value an array whose first element holds the status.
    pub fn results(&self) -> Vec<Info> {
        self.steps.iter().map(ChainResult::as_info).collect()
    }
}

/// Event that a handler raised.
#[derive(Debug)]
pub struct RaisedEvent {
    /// Code.
    pub code: Status,
    /// Range of recipients.
    pub range: Range,
    /// Infos.
    pub infos: Vec<Info>,
}

/// Requests of the handlers of a chain.
#[derive(Default)]
pub(crate) struct HandlerRequests {
    /// Events to raise.
    pub(crate) raised: Vec<RaisedEvent>,
    /// Registrations that have ended: deregistered by a handler, or used up.
    pub(crate) deregistered: Vec<RegistrationId>,
    /// Changes that external handlers request of their own registrations.
    pub(crate) changes: Vec<(Arc<dyn ExternalHandler>, RegistrationChange)>,
    /// Answer of the first external handler that answers an invitation.
    pub(crate) invitation_answer: Option<InvitationAnswer>,
    /// Value that native handlers share ([`HandlerCall::shared`]).
    shared: Option<Arc<dyn Any + Send + Sync>>,
}

impl HandlerRequests {
    /// Returns true if no handler has requested anything.
    pub(crate) fn are_none(&self) -> bool {
        self.raised.is_empty()
            && self.deregistered.is_empty()
            && self.changes.is_empty()
            && self.invitation_answer.is_none()
    }
}

/// Pending outcome of a deferred handler.
pub type LateOutcome = Pin<Box<dyn Future<Output = HandlerOutcome> + Send>>;

type Native = dyn Fn(&HandlerCall<'_>) -> HandlerOutcome + Send + Sync;
type Deferred = dyn Fn(&HandlerCall<'_>) -> HandlerReturn + Send + Sync;

/// Result of a call of a handler.
pub enum HandlerReturn {
    /// Outcome of a handler that has completed.
    Completed(HandlerOutcome),
    /// Outcome that comes later.
    Pending(LateOutcome),
}

/// Handler that code outside of this crate runs, such as the instance of a component (feature
/// `modules`). It cannot reach the client, so that its requests come with its result.
pub trait ExternalHandler: Send + Sync {
    /// Returns the name for logs and for chain results without a name of their own.
    fn name(&self) -> &str;

    /// Handles an event. It may block. `tag` is that of the registration that is called: the one
    /// that the handler itself gave it, or zero.
    fn handle(&self, call: &PendingHandler<Handler>, tag: u32) -> ExternalResult;
}

/// Result of an external handler.
#[derive(Debug)]
pub struct ExternalResult {
    /// Status and infos for the chain.
    pub outcome: HandlerOutcome,
    /// Events to raise.
    pub raised: Vec<RaisedEvent>,
    /// Changes of the handler's own registrations.
    pub changes: Vec<RegistrationChange>,
}

/// Handler of events.
#[derive(Clone)]
pub enum Handler {
    /// Closure on the handlers' thread. It may block; the other handlers of this client then wait.
    Native(Arc<Native>),
    /// Closure that never blocks. It runs in the event task of the runtime, unless an earlier
    /// handler of the chain had to run on the handlers' thread. That saves the switch of threads,
    /// which takes longer than the delivery of the event.
    Quick(Arc<Native>),
    /// Closure that never blocks and whose outcome comes later (RFC 0002: the callback function to
    /// be executed upon completing the handler's actions). The chain and other events wait for it,
    /// at most for [`crate::ClientSettings::handler_timeout`].
    Deferred(Arc<Deferred>),
    /// External handler on the handlers' thread.
    External {
        /// Handler to call.
        handler: Arc<dyn ExternalHandler>,
        /// Tag that the handler gave the registration; zero if it did not make it.
        tag: u32,
    },
}

impl Handler {
    /// Creates a handler of a closure that may block.
    pub fn native(
        handler: impl Fn(&HandlerCall<'_>) -> HandlerOutcome + Send + Sync + 'static,
    ) -> Handler {
        Handler::Native(Arc::new(handler))
    }

    /// Creates a handler of a closure that never blocks. While it runs, neither this client nor
    /// another task of its runtime's thread makes progress.
    pub fn non_blocking(
        handler: impl Fn(&HandlerCall<'_>) -> HandlerOutcome + Send + Sync + 'static,
    ) -> Handler {
        Handler::Quick(Arc::new(handler))
    }

    /// Creates a handler of a closure that never blocks. The returned future is awaited on the
    /// runtime, and gives the handler's outcome:
    ///
    /// ```
    /// # use peal_client::{Handler, HandlerOutcome};
    /// # use peal_model::code;
    /// # let (requests, _) = std::sync::mpsc::channel();
    /// Handler::deferred(move |call| {
    ///     let (complete, completed) = tokio::sync::oneshot::channel();
    ///     // The work ends with `complete.send(HandlerOutcome::status(..))`, from any thread.
    ///     let _ = requests.send((call.event().clone(), complete));
    ///     async {
    ///         let none = HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN);
    ///         completed.await.unwrap_or(none)
    ///     }
    /// });
    /// ```
    ///
    /// A handler that exceeds its time limit has the status [`Status::PEAL_ERR_MODULE_TIMEOUT`],
    /// and its future is dropped.
    pub fn deferred<F>(handler: impl Fn(&HandlerCall<'_>) -> F + Send + Sync + 'static) -> Handler
    where
        F: Future<Output = HandlerOutcome> + Send + 'static,
    {
        Handler::completing(move |call| HandlerReturn::Pending(Box::pin(handler(call))))
    }

    /// Creates a handler as [`Handler::deferred`] does, of a closure that may also have completed when
    /// it returns.
    pub fn completing(
        handler: impl Fn(&HandlerCall<'_>) -> HandlerReturn + Send + Sync + 'static,
    ) -> Handler {
        Handler::Deferred(Arc::new(handler))
    }

    /// Returns true if the handler runs on the handlers' thread.
    pub(crate) fn may_block(&self) -> bool {
        matches!(self, Handler::Native(_) | Handler::External { .. })
    }

    pub(crate) fn is(&self, hosted: &Arc<dyn ExternalHandler>) -> bool {
        // The same handler may have several vtables, so that only its address is compared.
        matches!(self, Handler::External { handler, .. }
            if std::ptr::addr_eq(Arc::as_ptr(handler), Arc::as_ptr(hosted)))
    }

    pub(crate) fn call(
        &self,
        call: &PendingHandler<Handler>,
        requests: &mut HandlerRequests,
    ) -> HandlerReturn {
        let event = call.event();
        match self {
            Handler::Native(native) | Handler::Quick(native) => {
                // A panic of a handler must not end the task or thread that runs the chain.
                let answer = catch_unwind(AssertUnwindSafe(|| {
                    native(&HandlerCall::of(call, requests))
                }));
                HandlerReturn::Completed(answer.unwrap_or_else(|_| panicked(event)))
            }
            Handler::Deferred(begin) => {
                let begun =
                    catch_unwind(AssertUnwindSafe(|| begin(&HandlerCall::of(call, requests))));
                begun.unwrap_or_else(|_| HandlerReturn::Completed(panicked(event)))
            }
            Handler::External { handler, tag } => {
                let result = catch_unwind(AssertUnwindSafe(|| handler.handle(call, *tag)));
                let Ok(ExternalResult {
                    outcome,
                    raised,
                    changes,
                }) = result
                else {
                    return HandlerReturn::Completed(panicked(event));
                };
                requests.raised.extend(raised);
                requests.invitation_answer = requests
                    .invitation_answer
                    .take()
                    .or_else(|| InvitationAnswer::of(event, &outcome.infos));
                let changes = changes.into_iter();
                requests
                    .changes
                    .extend(changes.map(|change| (handler.clone(), change)));
                HandlerReturn::Completed(outcome)
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
            Handler::External { handler, .. } => write!(f, "module {}", handler.name()),
        }
    }
}

/// Returns the outcome of a handler that panicked.
pub(crate) fn panicked(event: &Event) -> HandlerOutcome {
    tracing::error!(code = %event.code, "handler panicked, chain continues");
    HandlerOutcome::status(Status::PEAL_ERR_MODULE_TRAPPED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_core::{chain::NextHandler, class::ClassFilter, order::Registrations};

    struct PanickingHandler;

    impl ExternalHandler for PanickingHandler {
        fn name(&self) -> &str {
            "panicking"
        }

        fn handle(&self, _: &PendingHandler<Handler>, _: u32) -> ExternalResult {
            panic!("as a test wants")
        }
    }

    #[test]
    fn panicking_external_handler_has_status_of_trap() {
        let codes = [Status(-3301)];
        let mut chain = Registrations::default();
        let both = ClassFilter::Both.directives();
        let registration = HandlerRegistration::from_directives(&codes, &both, None).unwrap();
        let handler = Handler::External {
            handler: Arc::new(PanickingHandler),
            tag: 0,
        };
        chain.register(registration, handler.clone()).unwrap();
        let event = Event {
            code: codes[0],
            source: None,
            range: Range::Session,
            infos: Vec::new(),
        };
        let NextHandler::Call(call) = chain.run(Arc::new(event)).advance() else {
            panic!("the handler is registered")
        };
        let HandlerReturn::Completed(outcome) =
            handler.call(&call, &mut HandlerRequests::default())
        else {
            panic!("it is no deferred handler")
        };
        assert_eq!(outcome.status, Status::PEAL_ERR_MODULE_TRAPPED);
    }
}

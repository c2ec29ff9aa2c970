//! Steps of an event through a chain: one handler after the other. Each sees the results of those
//! before it.
use crate::registration::{HandlerRegistration, Lifetime, RegistrationId};
use peal_model::{ChainResult, Event, Info, Status, code};
use std::{collections::VecDeque, sync::Arc};

/// A registered handler. Runs share it with the table of registrations.
#[derive(Debug)]
pub struct ChainMember<H> {
    /// The identifier of its registration.
    pub id: RegistrationId,
    /// Its registration.
    pub registration: Arc<HandlerRegistration>,
    /// The handler itself.
    pub handler: H,
}

/// The outcome of a handler's call.
#[derive(Clone, PartialEq, Debug)]
pub struct HandlerOutcome {
    /// The status; only `PMIX_EVENT_ACTION_COMPLETE` ends the chain.
    pub status: Status,
    /// Results that later handlers see.
    pub infos: Vec<Info>,
}

impl HandlerOutcome {
    /// Returns an outcome without infos.
    pub fn status(status: Status) -> HandlerOutcome {
        HandlerOutcome {
            status,
            infos: Vec::new(),
        }
    }
}

/// An event in a chain, between two handlers. A box, since a run moves from step to step.
#[derive(Clone, Debug)]
pub struct ChainRun<H>(Box<RunState<H>>);

/// The state of a run.
#[derive(Clone, Debug)]
struct RunState<H> {
    event: Arc<Event>,
    waiting: VecDeque<Arc<ChainMember<H>>>,
    /// Shared, so that a handler's call costs no copy of earlier results.
    steps: Arc<Vec<ChainResult>>,
    spent: Vec<RegistrationId>,
}

/// The next step of a run.
#[derive(Clone, Debug)]
pub enum NextHandler<H> {
    /// Calls this handler.
    Call(PendingHandler<H>),
    /// Ends the run.
    Done(ChainEnd),
}

/// A handler that is to be called, or is being called.
#[derive(Clone, Debug)]
pub struct PendingHandler<H> {
    run: ChainRun<H>,
    member: Arc<ChainMember<H>>,
}

/// The end of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct ChainEnd {
    /// One entry for every handler that ran, oldest first.
    pub steps: Vec<ChainResult>,
    /// One-shot registrations that were called and have ended by that.
    pub spent: Vec<RegistrationId>,
}

impl<H> ChainRun<H> {
    pub(crate) fn new(members: VecDeque<Arc<ChainMember<H>>>, event: Arc<Event>) -> ChainRun<H> {
        let steps = Arc::new(Vec::with_capacity(members.len()));
        ChainRun(Box::new(RunState {
            event,
            waiting: members,
            steps,
            spent: Vec::new(),
        }))
    }

    /// Returns true if no handler is left.
    pub fn is_empty(&self) -> bool {
        self.0.waiting.is_empty()
    }

    /// Returns the handlers that are left, in their order.
    pub fn members(&self) -> impl Iterator<Item = &ChainMember<H>> {
        self.0.waiting.iter().map(|member| &**member)
    }

    /// Advances to the next handler or to the end.
    pub fn advance(mut self) -> NextHandler<H> {
        match self.0.waiting.pop_front() {
            Some(member) => NextHandler::Call(PendingHandler { run: self, member }),
            None => NextHandler::Done(ChainEnd {
                // At the end no call is under way, so the results are mostly moved and not copied.
                steps: Arc::unwrap_or_clone(self.0.steps),
                spent: self.0.spent,
            }),
        }
    }
}

impl<H> PendingHandler<H> {
    /// Returns the event.
    pub fn event(&self) -> &Arc<Event> {
        &self.run.0.event
    }

    /// Returns the event as the handler receives it: with the object of its registration.
    pub fn event_with_object(&self) -> Arc<Event> {
        match &self.member.registration.object {
            Some(object) => Arc::new(self.run.0.event.with_return_object(object)),
            None => self.run.0.event.clone(),
        }
    }

    /// Returns the handler to call.
    pub fn member(&self) -> &ChainMember<H> {
        &self.member
    }

    /// Returns the results of earlier handlers, oldest first.
    pub fn steps(&self) -> &Arc<Vec<ChainResult>> {
        &self.run.0.steps
    }

    /// Returns the number of handlers of the chain: those that have run, this one, and those that wait.
    pub fn handlers(&self) -> usize {
        let RunState { steps, waiting, .. } = &*self.run.0;
        let others = steps.len().saturating_add(waiting.len());
        others.saturating_add(1)
    }

    /// Continues as if the handler did not exist.
    pub fn pass_over(self) -> ChainRun<H> {
        // A one-shot registration is not spent, since its handler was not called.
        self.run
    }

    /// Records the outcome of the handler. Its results appear under its name, whatever the status.
    /// `PMIX_EVENT_ACTION_COMPLETE` ends the chain.
    pub fn finish(self, outcome: HandlerOutcome) -> ChainRun<H> {
        let PendingHandler { run, member } = self;
        let ChainRun(mut run) = run;
        if outcome.status == code::PMIX_EVENT_ACTION_COMPLETE {
            run.waiting.clear();
        }
        if member.registration.lifetime == Lifetime::OneShot {
            run.spent.push(member.id);
        }
        let name = member.registration.name.clone();
        // Copies the results only if an earlier call still holds them.
        Arc::make_mut(&mut run.steps).push(ChainResult {
            name,
            status: outcome.status,
            infos: outcome.infos,
        });
        ChainRun(run)
    }
}

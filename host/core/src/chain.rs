//! Stepping an event through a chain: one handler after the other, each seeing what those before it returned.
use crate::registration::{Lifetime, Registration, RegistrationId};
use peal_model::{ChainResult, Event, Info, Status, code, key};
use std::{collections::VecDeque, sync::Arc};

/// A handler on the way of an event.
#[derive(Clone, Debug)]
pub struct ChainMember<H> {
    /// The number of its registration ...
    pub id: RegistrationId,
    /// ... and what that asks for.
    pub registration: Arc<Registration>,
    /// What is called.
    pub handler: H,
}

/// What a handler answered.
#[derive(Clone, PartialEq, Debug)]
pub struct HandlerOutcome {
    /// Any status; only `PMIX_EVENT_ACTION_COMPLETE` ends the chain.
    pub status: Status,
    /// What those after it shall see.
    pub infos: Vec<Info>,
}

impl HandlerOutcome {
    /// An answer without infos.
    pub fn status(status: Status) -> HandlerOutcome {
        HandlerOutcome {
            status,
            infos: Vec::new(),
        }
    }
}

/// An event on its way through a chain, between two handlers.
#[derive(Clone, Debug)]
pub struct ChainRun<H> {
    event: Arc<Event>,
    waiting: VecDeque<ChainMember<H>>,
    /// Shared, so that a handler's call costs no copy of what came before it.
    steps: Arc<Vec<ChainResult>>,
    spent: Vec<RegistrationId>,
}

/// What comes next.
#[derive(Clone, Debug)]
pub enum NextHandler<H> {
    /// This handler is to be called.
    Call(PendingHandler<H>),
    /// All that had to be called was called.
    Done(ChainEnd),
}

/// A handler that is to be called, or is being called.
#[derive(Clone, Debug)]
pub struct PendingHandler<H> {
    run: ChainRun<H>,
    member: ChainMember<H>,
}

/// The end of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct ChainEnd {
    /// One entry for every handler that ran, oldest first.
    pub steps: Vec<ChainResult>,
    /// One-shot registrations that were called and so have ended.
    pub spent: Vec<RegistrationId>,
}

impl<H> ChainRun<H> {
    pub(crate) fn new(members: VecDeque<ChainMember<H>>, event: Arc<Event>) -> ChainRun<H> {
        let steps = Arc::new(Vec::with_capacity(members.len()));
        ChainRun {
            event,
            waiting: members,
            steps,
            spent: Vec::new(),
        }
    }

    /// Whether nobody is to be called.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Goes on to the next handler, or to the end.
    pub fn advance(mut self) -> NextHandler<H> {
        match self.waiting.pop_front() {
            Some(member) => NextHandler::Call(PendingHandler { run: self, member }),
            None => NextHandler::Done(ChainEnd {
                steps: Arc::unwrap_or_clone(self.steps),
                spent: self.spent,
            }),
        }
    }
}

impl<H> PendingHandler<H> {
    /// The event.
    pub fn event(&self) -> &Arc<Event> {
        &self.run.event
    }

    /// The event as a component is told of it: with the object that its registration wants returned
    /// (`PMIX_EVENT_RETURN_OBJECT`) among the infos, where the C library puts it, too.
    pub fn event_with_object(&self) -> Arc<Event> {
        let Some(object) = &self.member.registration.object else {
            return self.run.event.clone();
        };
        let mut event = (*self.run.event).clone();
        event
            .infos
            .retain(|info| info.key != key::PMIX_EVENT_RETURN_OBJECT);
        event
            .infos
            .push(Info::new(key::PMIX_EVENT_RETURN_OBJECT, object.clone()));
        Arc::new(event)
    }

    /// Whose turn it is.
    pub fn member(&self) -> &ChainMember<H> {
        &self.member
    }

    /// What those before it returned, oldest first.
    pub fn steps(&self) -> &Arc<Vec<ChainResult>> {
        &self.run.steps
    }

    /// Goes on as if it were not there.
    pub fn pass_over(self) -> ChainRun<H> {
        self.run
    }

    /// Records what it answered. Its results appear under its name, whatever the status; completion ends the chain.
    pub fn finish(self, outcome: HandlerOutcome) -> ChainRun<H> {
        let PendingHandler { mut run, member } = self;
        if outcome.status == code::PMIX_EVENT_ACTION_COMPLETE {
            run.waiting.clear();
        }
        if member.registration.lifetime == Lifetime::OneShot {
            run.spent.push(member.id);
        }
        let name = member.registration.name.clone();
        Arc::make_mut(&mut run.steps).push(ChainResult {
            name,
            status: outcome.status,
            infos: outcome.infos,
        });
        run
    }
}

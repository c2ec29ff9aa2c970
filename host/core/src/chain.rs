//! Stepping an event through a chain: one handler after the other, each seeing what those before it returned.
use crate::registration::{Lifetime, Registration, RegistrationId};
use peal_model::{Event, Info, Status, Step, code, key};
use std::{collections::VecDeque, sync::Arc};

/// A handler on the way of an event.
#[derive(Clone, Debug)]
pub struct Member<H> {
    /// The number of its registration ...
    pub id: RegistrationId,
    /// ... and what that asks for.
    pub registration: Arc<Registration>,
    /// What is called.
    pub handler: H,
}

/// What a handler answered.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Any status; only `PMIX_EVENT_ACTION_COMPLETE` ends the chain.
    pub status: Status,
    /// What those after it shall see.
    pub infos: Vec<Info>,
}

impl Outcome {
    /// An answer without infos.
    pub fn status(status: Status) -> Outcome {
        Outcome {
            status,
            infos: Vec::new(),
        }
    }
}

/// An event on its way through a chain, between two handlers.
#[derive(Clone, Debug)]
pub struct ChainRun<H> {
    event: Arc<Event>,
    waiting: VecDeque<Member<H>>,
    /// Shared, so that a handler's call costs no copy of what came before it.
    steps: Arc<Vec<Step>>,
    spent: Vec<RegistrationId>,
}

/// What comes next.
#[derive(Clone, Debug)]
pub enum Next<H> {
    /// This handler is to be called.
    Call(PendingCall<H>),
    /// All that had to be called was called.
    Done(Finished),
}

/// A handler that is to be called, or is being called.
#[derive(Clone, Debug)]
pub struct PendingCall<H> {
    run: ChainRun<H>,
    member: Member<H>,
}

/// The end of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Finished {
    /// One entry for every handler that ran, oldest first.
    pub steps: Vec<Step>,
    /// One-shot registrations that were called and so have ended.
    pub spent: Vec<RegistrationId>,
}

impl<H> ChainRun<H> {
    pub(crate) fn new(members: VecDeque<Member<H>>, event: Arc<Event>) -> ChainRun<H> {
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
    pub fn advance(mut self) -> Next<H> {
        match self.waiting.pop_front() {
            Some(member) => Next::Call(PendingCall { run: self, member }),
            None => Next::Done(Finished {
                steps: Arc::unwrap_or_clone(self.steps),
                spent: self.spent,
            }),
        }
    }
}

impl<H> PendingCall<H> {
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
    pub fn member(&self) -> &Member<H> {
        &self.member
    }

    /// What those before it returned, oldest first.
    pub fn steps(&self) -> &Arc<Vec<Step>> {
        &self.run.steps
    }

    /// Goes on as if it were not there.
    pub fn pass_over(self) -> ChainRun<H> {
        self.run
    }

    /// Records what it answered. Its results appear under its name, whatever the status; completion ends the chain.
    pub fn finish(self, outcome: Outcome) -> ChainRun<H> {
        let PendingCall { mut run, member } = self;
        if outcome.status == code::PMIX_EVENT_ACTION_COMPLETE {
            run.waiting.clear();
        }
        if member.registration.lifetime == Lifetime::OneShot {
            run.spent.push(member.id);
        }
        let name = member.registration.name.clone();
        Arc::make_mut(&mut run.steps).push(Step {
            name,
            status: outcome.status,
            infos: outcome.infos,
        });
        run
    }
}

//! What the server tells whoever watches it: how jobs and procs come and go, and the way of every event.
mod listeners;
mod proc_exit;
mod reached;

pub use listeners::{Listener, ListenerItem, Notices};
pub use proc_exit::ProcExit;
pub use reached::ReachedJobs;

use peal_core::{
    job_control::JobControlOperation,
    owner::Owner,
    termination::{TerminationRequest, last_request},
};
use peal_model::{ChainResult, Event, Nspace, Proc, Size, Status};
use std::sync::Arc;

/// What the handlers of an owner's chain answered to an event.
#[derive(Clone, PartialEq, Debug)]
pub struct ChainResults {
    /// Whose chain.
    pub owner: Owner,
    /// What each handler answered, in their order.
    pub steps: Vec<ChainResult>,
}

impl ChainResults {
    /// The memory that they take, nearly.
    pub(crate) fn bytes(&self) -> usize {
        let infos = self.steps.iter().flat_map(|step| &step.infos);
        let names: usize = self
            .steps
            .iter()
            .map(|step| size_of::<ChainResult>() + step.name.len())
            .sum();
        infos.fold(names, |sum, info| {
            sum.saturating_add(Size::of_info(info).bytes)
        })
    }
}

/// What the handlers of an event wish to become of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wished {
    /// What.
    pub wish: TerminationRequest,
    /// Whose handler said so ...
    pub owner: Owner,
    /// ... and what it is called.
    pub handler: Arc<str>,
}

impl Wished {
    /// What an owner's chain says, if it says anything.
    pub(crate) fn by(chain: &ChainResults) -> Option<Wished> {
        let (step, wish) = last_request(&chain.steps)?;
        Some(Wished {
            wish,
            owner: chain.owner.clone(),
            handler: step.name.clone(),
        })
    }
}

/// Something happened.
#[derive(Clone, PartialEq, Debug)]
pub enum Notice {
    /// A job is about to start.
    JobStarted {
        /// Its name.
        nspace: Nspace,
        /// The user that it runs as.
        uid: u32,
        /// How many procs it has.
        size: u32,
    },
    /// A proc was started.
    ProcStarted {
        /// Which one.
        proc: Proc,
        /// Its process id.
        pid: u32,
    },
    /// A proc has connected.
    ProcConnected(Proc),
    /// A proc has left in order.
    ProcFinalized(Proc),
    /// A proc's process has ended.
    ProcEnded {
        /// Which one.
        proc: Proc,
        /// How.
        end: ProcExit,
    },
    /// An event comes to the hosted chains, before the first handler.
    EventEntered(Arc<Event>),
    /// The last chain is behind an event.
    Passed {
        /// The event.
        event: Arc<Event>,
        /// What each handler answered, chain by chain in the order of the owners; nothing if no handler is registered for it.
        results: Arc<Vec<ChainResults>>,
        /// The jobs that it may reach.
        reached: ReachedJobs,
    },
    /// The handlers have decided what becomes of a job after the abnormal end of a proc.
    Wished {
        /// The job's name.
        nspace: Nspace,
        /// What they want, and which of them.
        wished: Wished,
    },
    /// Somebody has had something done to procs.
    Controlled {
        /// Who; none: a module of the site.
        requester: Option<Proc>,
        /// What.
        operation: JobControlOperation,
        /// To whom.
        targets: Vec<Proc>,
        /// How that went.
        status: Status,
    },
    /// The job is being ended.
    JobEnding {
        /// Its name.
        nspace: Nspace,
        /// Why.
        because: Status,
    },
    /// Nothing of the job is left.
    JobEnded {
        /// Its name.
        nspace: Nspace,
        /// The exit status to pass on.
        exit_status: i32,
    },
}

impl Notice {
    /// Whether it belongs into the record of a job. Of these there are few: one for each proc, and two for the job.
    pub(crate) fn is_for_record(&self) -> bool {
        matches!(
            self,
            Notice::JobStarted { .. } | Notice::ProcEnded { .. } | Notice::JobEnded { .. }
        )
    }

    /// Whether it is about an event that has passed the chains.
    pub fn is_passed(&self) -> bool {
        matches!(self, Notice::Passed { .. })
    }

    /// The memory that it takes while it waits for a listener, nearly.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Notice::EventEntered(event) => Size::of_event(event).bytes,
            Notice::Passed { event, results, .. } => results
                .iter()
                .fold(Size::of_event(event).bytes, |sum, chain| {
                    sum.saturating_add(chain.bytes())
                }),
            _ => size_of::<Notice>(),
        }
    }
}

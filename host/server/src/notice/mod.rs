//! Notices of the server to listeners: about jobs, procs and events.
mod listeners;
mod measured;
mod proc_exit;
mod reached;
mod sampler;

pub(crate) use measured::{CallRecorder, CalledModule, EventMeasurement};

pub use listeners::{Listener, ListenerBounds, ListenerItem, Notices, RecordedNotice};
pub use measured::{
    DecisionConclusion, MeasuredCall, MeasuredDecision, MeasuredEvent, MeasuredFailure,
    MeasuredOutcome,
};
pub use proc_exit::ProcExit;
pub use reached::ReachedJobs;
pub use sampler::TraceSampler;

use peal_core::{
    job_control::JobControlOperation,
    owner::Owner,
    server::EventOrigin,
    termination::{TerminationRequest, last_request},
};
use peal_model::{ChainResult, Event, Nspace, Proc, Size, Status};
use std::sync::Arc;

/// Results of the handlers of an owner's chain for one event.
#[derive(Clone, PartialEq, Debug)]
pub struct ChainResults {
    /// Owner of the chain.
    pub owner: Owner,
    /// Results of the handlers, in the order in which they ran.
    pub steps: Vec<ChainResult>,
    /// Calls of the handlers, one for each result; empty if the event is not measured.
    pub calls: Vec<MeasuredCall>,
}

impl ChainResults {
    /// Estimates the memory of the results, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let infos = self.steps.iter().flat_map(|step| &step.infos);
        let names: usize = self
            .steps
            .iter()
            .map(|step| size_of::<ChainResult>() + step.name.len())
            .sum();
        let calls: usize = self.calls.iter().map(MeasuredCall::bytes).sum();
        infos.fold(names.saturating_add(calls), |sum, info| {
            sum.saturating_add(Size::of_info(info).bytes)
        })
    }
}

/// Termination request that handlers of an event made about a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestedTermination {
    /// Request.
    pub request: TerminationRequest,
    /// Owner of the handler that made it.
    pub owner: Owner,
    /// Name of that handler.
    pub handler: Arc<str>,
}

impl RequestedTermination {
    /// Returns the termination request of an owner's chain, if it made one.
    pub(crate) fn by(chain: &ChainResults) -> Option<RequestedTermination> {
        let (step, request) = last_request(&chain.steps)?;
        Some(RequestedTermination {
            request,
            owner: chain.owner.clone(),
            handler: step.name.clone(),
        })
    }
}

/// Notice about a job, a proc or an event.
#[derive(Clone, PartialEq, Debug)]
pub enum Notice {
    /// A job is about to start.
    JobStarted {
        /// Namespace of the job.
        nspace: Nspace,
        /// User that the job runs as.
        uid: u32,
        /// Number of procs.
        size: u32,
    },
    /// A proc was started.
    ProcStarted {
        /// Proc.
        proc: Proc,
        /// Process id.
        pid: u32,
    },
    /// A proc has connected.
    ProcConnected(Proc),
    /// A proc has finalized.
    ProcFinalized(Proc),
    /// The process of a proc has ended.
    ProcEnded {
        /// Proc.
        proc: Proc,
        /// Exit of the process.
        end: ProcExit,
    },
    /// An event was submitted to the hosted chains. It precedes the first handler.
    EventEntered(Arc<Event>),
    /// An event has passed the last chain.
    Passed {
        /// Event.
        event: Arc<Event>,
        /// Results of each chain, in the order of the owners; empty if no handler is registered for
        /// the event.
        results: Arc<Vec<ChainResults>>,
        /// Jobs that the event may reach.
        reached: ReachedJobs,
        /// Server at which the event was raised.
        origin: EventOrigin,
        /// Measurement, if the event was sampled.
        measured: Option<MeasuredEvent>,
    },
    /// Policies have decided about a request that was sampled.
    Decided(Arc<MeasuredDecision>),
    /// Handlers have decided about a job after the abnormal end of a proc.
    TerminationRequested {
        /// Namespace of the job.
        nspace: Nspace,
        /// Termination request, with its handler.
        termination: RequestedTermination,
    },
    /// Job control was executed on procs.
    Controlled {
        /// Requester; none for a module of the site.
        requester: Option<Proc>,
        /// Operation.
        operation: JobControlOperation,
        /// Target procs.
        targets: Vec<Proc>,
        /// Status of the operation.
        status: Status,
    },
    /// A job is being terminated.
    JobEnding {
        /// Namespace of the job.
        nspace: Nspace,
        /// Reason of the termination.
        because: Status,
    },
    /// A job has ended with all its procs.
    JobEnded {
        /// Namespace of the job.
        nspace: Nspace,
        /// Exit status to pass on.
        exit_status: i32,
    },
}

impl Notice {
    /// Returns true if the notice belongs to the record of a job. Such notices are few: one for
    /// each proc, and two for the job.
    pub(crate) fn is_for_record(&self) -> bool {
        matches!(
            self,
            Notice::JobStarted { .. } | Notice::ProcEnded { .. } | Notice::JobEnded { .. }
        )
    }

    /// Returns true if the notice is about an event that has passed the chains.
    pub fn is_passed(&self) -> bool {
        matches!(self, Notice::Passed { .. })
    }

    /// Returns true if the notice is about a sampled event or decision.
    pub fn is_measured(&self) -> bool {
        matches!(
            self,
            Notice::Decided(_)
                | Notice::Passed {
                    measured: Some(_),
                    ..
                }
        )
    }

    /// Estimates the memory of a notice that waits for a listener, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Notice::Decided(decision) => decision.bytes(),
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

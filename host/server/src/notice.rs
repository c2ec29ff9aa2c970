//! What the server tells whoever watches it: a transcript of a job in terms that a newcomer understands.
use peal_core::owner::Owner;
use peal_model::{Event, Nspace, Proc, Status, Step};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Something happened.
#[derive(Clone, PartialEq, Debug)]
pub enum Notice {
    /// A job is about to start.
    JobStarted {
        /// Its name.
        nspace: Nspace,
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
        end: crate::embedded::ProcEnd,
    },
    /// An owner's hosted chain has handled an event.
    Handled {
        /// Whose chain.
        owner: Owner,
        /// The event.
        event: Arc<Event>,
        /// What each handler answered.
        steps: Vec<Step>,
    },
    /// An event was raised for which no hosted handler is registered.
    NotHandled(Arc<Event>),
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

/// How many notices wait for a listener that does not keep up; what is beyond is lost and traced.
const BACKLOG: usize = 4096;

/// Where notices go. Nobody need listen.
#[derive(Clone, Debug, Default)]
pub struct Notices(Option<mpsc::Sender<Notice>>);

impl Notices {
    /// Notices for a listener.
    pub fn listened() -> (Notices, mpsc::Receiver<Notice>) {
        let (send, receive) = mpsc::channel(BACKLOG);
        (Notices(Some(send)), receive)
    }

    /// Tells, if somebody listens.
    pub fn tell(&self, notice: Notice) {
        let Some(listener) = &self.0 else { return };
        if let Err(mpsc::error::TrySendError::Full(notice)) = listener.try_send(notice) {
            tracing::warn!(?notice, "the listener does not keep up: a notice is lost");
        }
    }
}

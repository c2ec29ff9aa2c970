//! What the server tells whoever watches it: a transcript of a job in terms that a newcomer understands.
use crate::quiet::Quiet;
use peal_core::owner::Owner;
use peal_model::{Event, Nspace, Proc, Status, Step};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
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

impl Notice {
    /// Whether it belongs into the record of a job. Of these there are few: one for each proc, and two for the job.
    fn is_for_record(&self) -> bool {
        matches!(self, Notice::JobStarted { .. } | Notice::ProcEnded { .. } | Notice::JobEnded { .. })
    }
}

/// How many notices wait for a listener that does not keep up; what is beyond is lost and counted.
const BACKLOG: usize = 4096;

/// The least time between two lines on lost notices.
const BETWEEN_LOSSES: Duration = Duration::from_secs(1);

/// Where notices go. Nobody need listen.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    listener: Option<(mpsc::Sender<Notice>, Arc<AtomicU64>)>,
    record: Option<mpsc::UnboundedSender<Notice>>,
}

impl Notices {
    /// Notices for a listener, who may be slow: then he misses some.
    pub fn listened() -> (Notices, Listener) {
        let (send, notices) = mpsc::channel(BACKLOG);
        let lost = Arc::new(AtomicU64::new(0));
        let listener = Listener { notices, lost: lost.clone(), quiet: Quiet::new(BETWEEN_LOSSES) };
        (Notices { listener: Some((send, lost)), record: None }, listener)
    }

    /// The same, and beside it what belongs into the record of a job, of which nothing is lost whatever the listener does.
    pub fn recorded(self) -> (Notices, mpsc::UnboundedReceiver<Notice>) {
        let (send, receive) = mpsc::unbounded_channel();
        (Notices { record: Some(send), ..self }, receive)
    }

    /// Tells, if somebody listens.
    pub fn tell(&self, notice: Notice) {
        if let Some(record) = self.record.as_ref().filter(|_| notice.is_for_record()) {
            // Nobody keeps the record any more.
            let _ = record.send(notice.clone());
        }
        if let Some((listener, lost)) = &self.listener
            && let Err(mpsc::error::TrySendError::Full(_)) = listener.try_send(notice)
        {
            lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The end at which notices arrive. It is the listener who traces how many he has missed: the trace goes where he writes,
/// and whoever tells must not wait for that.
#[derive(Debug)]
pub struct Listener {
    notices: mpsc::Receiver<Notice>,
    lost: Arc<AtomicU64>,
    quiet: Quiet,
}

impl Listener {
    /// Waits for the next notice; nothing when nobody can tell any more.
    pub async fn recv(&mut self) -> Option<Notice> {
        let notice = self.notices.recv().await;
        self.trace_lost(notice.is_none());
        notice
    }

    /// The same on a thread that may wait.
    pub fn blocking_recv(&mut self) -> Option<Notice> {
        let notice = self.notices.blocking_recv();
        self.trace_lost(notice.is_none());
        notice
    }

    fn trace_lost(&self, is_last: bool) {
        if self.lost.load(Ordering::Relaxed) > 0 && (self.quiet.allow(Instant::now()).is_some() || is_last) {
            let lost = self.lost.swap(0, Ordering::Relaxed);
            tracing::warn!(lost, "who listens does not keep up: notices are lost");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{Range, code};

    #[test]
    fn a_listener_that_does_not_keep_up_misses_notices_and_the_record_none() {
        let (notices, mut listener) = Notices::listened();
        let (notices, mut record) = notices.recorded();
        let nspace = Nspace::new("job").unwrap();
        let event = Event { code: code::PMIX_SUCCESS, source: None, range: Range::Global, infos: Vec::new() };
        for _ in 0..BACKLOG + 10 {
            notices.tell(Notice::NotHandled(Arc::new(event.clone())));
        }
        let ended = Notice::JobEnded { nspace, exit_status: 3 };
        notices.tell(ended.clone());
        drop(notices);
        assert_eq!(listener.lost.load(Ordering::Relaxed), 11);
        assert_eq!((record.blocking_recv(), record.blocking_recv()), (Some(ended), None));
        assert_eq!(std::iter::from_fn(|| listener.blocking_recv()).count(), BACKLOG);
        assert_eq!(listener.lost.load(Ordering::Relaxed), 0, "they are traced");
    }
}

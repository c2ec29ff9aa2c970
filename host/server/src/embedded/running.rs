//! What whoever starts a job has of it: word of its end, and signals for it.
use super::{JobCommand, end::JobEnd};
use tokio::{signal::unix, sync::mpsc, task::JoinHandle};

/// A job that has been started.
pub struct RunningJob {
    commands: mpsc::Sender<JobCommand>,
    task: JoinHandle<JobEnd>,
}

impl RunningJob {
    pub(crate) fn new(commands: mpsc::Sender<JobCommand>, task: JoinHandle<JobEnd>) -> RunningJob {
        RunningJob { commands, task }
    }

    /// Ends the job, as the user wishes by a signal of that number. Saying it again kills it at once.
    pub fn interrupt(&self, signal: i32) {
        // A job that has ended already, or is busy ending, needs no more.
        let _ = self.commands.try_send(JobCommand::Interrupt { signal });
    }

    /// Sends a signal of that number on to the procs.
    pub fn forward(&self, signal: i32) {
        let _ = self.commands.try_send(JobCommand::Forward { signal });
    }

    /// Waits for the job's end. May be called again after having been given up.
    pub async fn ended(&mut self) -> JobEnd {
        (&mut self.task).await.unwrap_or_else(|error| {
            tracing::error!(%error, "the task of a job failed");
            JobEnd { exit_status: 1, first_abnormal: None, abort: None }
        })
    }
}

/// Tells when a child may have ended.
pub(super) struct Children(Option<unix::Signal>);

impl Children {
    pub(super) fn watch() -> Children {
        let watch = unix::signal(unix::SignalKind::child());
        Children(watch.inspect_err(|error| tracing::warn!(%error, "orphans are reaped at the job's end only")).ok())
    }

    pub(super) async fn changed(&mut self) {
        match &mut self.0 {
            Some(signals) => drop(signals.recv().await),
            None => std::future::pending().await,
        }
    }
}

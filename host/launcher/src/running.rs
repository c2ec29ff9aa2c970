//! What whoever starts a job has of it: word of its end, and what its procs read.
use super::{exit::JobExit, input::Inputs};
use std::sync::Arc;
use tokio::{signal::unix, task::JoinHandle};

/// A job that has been started.
pub struct RunningJob {
    task: JoinHandle<JobExit>,
    inputs: Arc<Inputs>,
}

impl RunningJob {
    pub(crate) fn new(task: JoinHandle<JobExit>, inputs: Arc<Inputs>) -> RunningJob {
        RunningJob { task, inputs }
    }

    /// What its procs read.
    pub fn inputs(&self) -> Arc<Inputs> {
        self.inputs.clone()
    }

    /// Waits for the job's end. May be called again after having been given up.
    pub async fn ended(&mut self) -> JobExit {
        (&mut self.task).await.unwrap_or_else(|error| {
            tracing::error!(%error, "the task of a job failed");
            JobExit {
                exit_status: 1,
                first_abnormal: None,
                abort: None,
            }
        })
    }
}

/// Tells when a child may have ended.
pub(super) struct Children(Option<unix::Signal>);

impl Children {
    pub(super) fn watch() -> Children {
        let watch = unix::signal(unix::SignalKind::child());
        Children(
            watch
                .inspect_err(
                    |error| tracing::warn!(%error, "orphans are reaped at the job's end only"),
                )
                .ok(),
        )
    }

    pub(super) async fn changed(&mut self) {
        match &mut self.0 {
            Some(signals) => drop(signals.recv().await),
            None => std::future::pending().await,
        }
    }
}

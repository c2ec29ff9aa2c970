//! Handle of a started job: its exit, and the standard inputs of its procs.
use super::{exit::JobExit, input::Inputs};
use std::sync::Arc;
use tokio::{signal::unix, task::JoinHandle};

/// Job that has been started.
pub struct RunningJob {
    task: JoinHandle<JobExit>,
    inputs: Arc<Inputs>,
}

impl RunningJob {
    pub(crate) fn new(task: JoinHandle<JobExit>, inputs: Arc<Inputs>) -> RunningJob {
        RunningJob { task, inputs }
    }

    /// Returns the standard inputs of the procs.
    pub fn inputs(&self) -> Arc<Inputs> {
        self.inputs.clone()
    }

    /// Waits for the end of the job and returns its exit. The future can be dropped and the
    /// function called again.
    pub async fn ended(&mut self) -> JobExit {
        (&mut self.task).await.unwrap_or_else(|error| {
            tracing::error!(%error, "task of job failed");
            JobExit {
                exit_status: 1,
                first_abnormal: None,
                abort: None,
            }
        })
    }
}

/// Watch for `SIGCHLD`, which reports that a child may have ended.
pub(super) struct Children(Option<unix::Signal>);

impl Children {
    pub(super) fn watch() -> Children {
        let watch = unix::signal(unix::SignalKind::child());
        Children(
            watch
                .inspect_err(
                    |error| tracing::warn!(%error, "cannot watch for SIGCHLD; orphans are reaped at the end of the job only"),
                )
                .ok(),
        )
    }

    /// Waits until a child may have ended; for ever if there is no watch.
    pub(super) async fn changed(&mut self) {
        match &mut self.0 {
            Some(signals) => drop(signals.recv().await),
            None => std::future::pending().await,
        }
    }
}

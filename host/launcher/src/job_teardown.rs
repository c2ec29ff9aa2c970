//! What is done when the procs of a job have ended: nothing of it is left behind, and nothing that it wrote is lost.
use super::{JobCommand, job::RunningJobTask, output::Writers};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long what the procs had started may take to end after it was killed; a process in the kernel's hands takes its time.
const LAST_ORPHAN: Duration = Duration::from_secs(5);

/// How long it may take to remove what procs had registered.
const REMOVING: Duration = Duration::from_secs(60);

impl RunningJobTask {
    /// The procs have ended; what they started is orphaned and ours by now, and must end too. What was written is passed on,
    /// however long our own reader takes, unless the user does not want to wait.
    pub(super) async fn clear_up(&mut self, inbox: &mut mpsc::Receiver<JobCommand>) {
        let family = self.family.clone();
        let killing = tokio::task::spawn_blocking(move || family.kill_orphans());
        if tokio::time::timeout(LAST_ORPHAN, killing).await.is_err() {
            tracing::error!("a process that the job started does not end, although it was killed");
        }
        self.clean_up().await;
        self.writers.send_replace(Writers::Gone);
        let mut heard = true;
        loop {
            tokio::select! {
                copied = self.output.join_next() => if copied.is_none() { return },
                command = inbox.recv(), if heard => match command {
                    Some(JobCommand::Interrupt { .. }) => {
                        tracing::warn!("interrupted: the last output of the job is lost");
                        return;
                    }
                    Some(_) => {}
                    None => heard = false,
                },
            }
        }
    }

    /// Removes what was to be removed when the job has ended, or some of its procs.
    async fn clean_up(&mut self) {
        let due = self.cleanups.close(&self.request.nspace);
        if !due.is_empty() {
            let cleanups = self.cleanups.clone();
            self.removals.spawn_blocking(move || cleanups.remove(due));
        }
        let done = async { while self.removals.join_next().await.is_some() {} };
        if tokio::time::timeout(REMOVING, done).await.is_err() {
            tracing::error!("what was to be removed behind the job is not, after {REMOVING:?}");
        }
    }
}

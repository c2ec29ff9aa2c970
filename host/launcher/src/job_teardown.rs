//! Teardown of a job after the end of its procs: kills remaining processes, removes registered
//! files, and passes on the last output.
use super::{JobCommand, job::RunningJobTask};
use std::time::Duration;
use tokio::sync::mpsc;

/// Time that killed orphans of the procs have to end. A process in a system call may need it.
const ORPHAN_TIMEOUT: Duration = Duration::from_secs(5);

/// Time that the removal of registered files may take.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(60);

impl RunningJobTask {
    /// Ends the orphans that the procs left and removes registered files. Then passes on the last
    /// output. A slow reader of `peal`'s output delays it without limit, unless the user interrupts
    /// the job.
    pub(super) async fn clear_up(&mut self, inbox: &mut mpsc::Receiver<JobCommand>) {
        let reaper = self.reaper.clone();
        // First, since a remaining process could write to the files that are removed.
        let killing = tokio::task::spawn_blocking(move || reaper.kill_orphans());
        if tokio::time::timeout(ORPHAN_TIMEOUT, killing).await.is_err() {
            tracing::error!("killed process of the job does not end");
        }
        self.clean_up().await;
        // Only after the orphans: from now on, an open but silent output counts as ended.
        self.writers.end();
        let mut is_open = true;
        loop {
            tokio::select! {
                copied = self.output.join_next() => if copied.is_none() { return },
                command = inbox.recv(), if is_open => match command {
                    Some(JobCommand::Interrupt { .. }) => {
                        tracing::warn!("interrupted: last output of the job lost");
                        return;
                    }
                    Some(_) => {}
                    None => is_open = false,
                },
            }
        }
    }

    /// Removes files registered for the end of the job, and waits for removals in progress.
    async fn clean_up(&mut self) {
        let due = self.cleanups.close(&self.request.nspace);
        self.remove(due);
        let done = async { while self.removals.join_next().await.is_some() {} };
        if tokio::time::timeout(CLEANUP_TIMEOUT, done).await.is_err() {
            tracing::error!(after = ?CLEANUP_TIMEOUT, "cleanup of the job not finished in time");
        }
    }
}

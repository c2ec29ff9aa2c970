//! Starts the procs of a job, and puts them where they are kept.
use super::{
    job::RunningJobTask,
    job_request::{self, JobRequest, LaunchError},
    output::ProcOutputs,
    process_tree::{self, Tree},
    pulls::Pulled,
};
use peal_core::choice::ControlGroups;
use peal_model::Rank;
use peal_server::{Notice, ProcExit};
use peal_system::cgroup::{JobCgroup, ProcCgroup};
use std::sync::Arc;
use tokio::sync::oneshot;

/// A process that was started and is not in its control group yet.
pub(super) struct StartedProcess {
    pid: u32,
    cell: Arc<ProcCgroup>,
    /// Dropped when it is, or cannot be.
    _taken: oneshot::Sender<()>,
}

impl RunningJobTask {
    /// Names the procs of those applications that have a name.
    pub(super) async fn define_process_sets(&self) {
        let mut first = 0;
        for app in &self.request.apps {
            let ranks = first..first + app.procs;
            first += app.procs;
            let Some(name) = &app.process_set else {
                continue;
            };
            let members = ranks.map(|rank| self.proc(Rank(rank))).collect();
            if let Some(Err(error)) = self.server.define_process_set(name.clone(), members).await {
                tracing::warn!(job = %self.request.nspace, %error, "a process set cannot be defined");
            }
        }
    }

    pub(super) fn spawn_all(&mut self) -> Result<(), LaunchError> {
        let size = self.request.size();
        if size == 0 {
            return Err(LaunchError::Size {
                size,
                why: "at least one is needed".to_owned(),
            });
        }
        let spawned = (0..size).try_for_each(|rank| self.spawn(Rank(rank), None));
        // Before any of them is heard: nothing else runs meanwhile.
        self.server
            .procs_started(self.request.nspace.clone(), self.running.clone());
        spawned
    }

    /// Starts one proc, for the first time or again.
    pub(super) fn spawn(
        &mut self,
        rank: Rank,
        checkpoint: Option<&str>,
    ) -> Result<(), LaunchError> {
        let proc = self.proc(rank);
        let mark = process_tree::mark(&proc);
        let outlets = ProcOutputs::open(&self.request.output, &proc, &self.outputs, |channel| {
            Pulled {
                pulls: self.pulls.clone(),
                server: self.server.clone(),
                source: proc.clone(),
                channel,
                kept: self.request.keeping.output_backlog_bytes,
            }
        })?;
        let mut child = self.family.start(proc.clone(), || {
            let child = job_request::spawn(
                (&self.request, &self.spec),
                rank,
                &self.uri,
                (&mark, checkpoint),
            )?;
            let number = child.id();
            Ok::<_, LaunchError>((child, number))
        })?;
        let pid = child.id().unwrap_or_default();
        let cell = self.cell.as_ref().and_then(|job| match job.cell(rank) {
            Ok(cell) => Some(Arc::new(cell)),
            Err(error) => {
                tracing::debug!(%rank, %error, "a proc has no control group of its own");
                None
            }
        });
        let (taken, is_taken) = oneshot::channel();
        self.started.extend(cell.clone().map(|cell| StartedProcess {
            pid,
            cell,
            _taken: taken,
        }));
        self.trees.insert(
            rank,
            Tree {
                leader: pid,
                mark,
                cell,
            },
        );
        self.running.insert(rank, pid);
        self.cleanups.runs(&proc);
        self.notices.tell(Notice::ProcStarted { proc, pid });
        outlets.forward(&mut child, &self.writers.subscribe(), &mut self.output);
        if let Some(stdin) = child.stdin.take() {
            self.inputs.connect(rank, stdin, &mut self.feeding);
        }
        self.waits.spawn(async move {
            // Until somebody waits for it, its number stays its own. That nobody takes it any more is told by an error.
            let _ = is_taken.await;
            match child.wait().await {
                Ok(status) => (rank, ProcExit::from(status)),
                Err(error) => {
                    tracing::error!(%rank, %error, "cannot wait for a proc");
                    (rank, ProcExit::Exited(1))
                }
            }
        });
        Ok(())
    }

    /// Has the procs that were started put into their control groups, one right after the other and beside all else, since the
    /// kernel takes its time. Whoever is not there yet is found by what else is known of it.
    pub(super) fn keep_started(&mut self) {
        let started = std::mem::take(&mut self.started);
        if started.is_empty() {
            return;
        }
        tokio::task::spawn_blocking(move || {
            for StartedProcess { pid, cell, _taken } in started {
                if let Err(error) = cell.take(pid) {
                    // It has ended already, or is not ours to move.
                    tracing::debug!(pid, %error, "a process is not put into its control group");
                }
            }
        });
    }
}

/// Where the procs of a job are kept, if the system lets us.
pub(super) fn kept(request: &JobRequest) -> Option<Arc<JobCgroup>> {
    let made = match request.keeping.control_groups {
        ControlGroups::Try => JobCgroup::make(),
        ControlGroups::Off => return None,
    };
    match made {
        Ok(cell) => {
            tracing::info!(job = %request.nspace, "procs are paused by the freezer of their control groups");
            Some(Arc::new(cell))
        }
        Err(error) => {
            tracing::info!(job = %request.nspace, %error, "there are no control groups for procs: they are paused by signals");
            None
        }
    }
}

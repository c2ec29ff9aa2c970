//! Starts the procs of a job and puts them into their control groups.
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

/// Process that was started and is not in its control group yet.
pub(super) struct StartedProcess {
    pid: u32,
    cgroup: Arc<ProcCgroup>,
    /// Dropped when the process is in its group, or cannot be put there.
    _taken: oneshot::Sender<()>,
}

impl RunningJobTask {
    /// Defines the process sets of applications that name one.
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
                tracing::warn!(job = %self.request.nspace, %error, "cannot define process set");
            }
        }
    }

    /// Starts all procs, up to the first failure.
    pub(super) fn spawn_all(&mut self) -> Result<(), LaunchError> {
        let size = self.request.size();
        if size == 0 {
            return Err(LaunchError::Size {
                size,
                why: "at least one proc is needed".to_owned(),
            });
        }
        let spawned = (0..size).try_for_each(|rank| self.spawn(Rank(rank), None));
        // Reported before the server processes a message of any of them.
        self.server
            .procs_started(self.request.nspace.clone(), self.running.clone());
        spawned
    }

    /// Starts one proc, for the first time or again from a checkpoint.
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
                kept: self.request.options.output_backlog_bytes,
            }
        })?;
        let place = usize::try_from(rank.0).unwrap_or(usize::MAX);
        let binding = self.bindings.as_ref().and_then(|all| all.get(place));
        let mut child = self.reaper.start(proc.clone(), || {
            let child = job_request::spawn(
                (&self.request, &self.spec),
                rank,
                &self.uri,
                (&mark, checkpoint),
                binding,
            )?;
            let number = child.id();
            Ok::<_, LaunchError>((child, number))
        })?;
        let pid = child.id().unwrap_or_default();
        let cgroup = self
            .cgroup
            .as_ref()
            .and_then(|job| match job.proc_cgroup(rank) {
                Ok(cgroup) => Some(Arc::new(cgroup)),
                Err(error) => {
                    tracing::debug!(%rank, %error, "no control group for proc");
                    None
                }
            });
        let (taken, is_taken) = oneshot::channel();
        self.started
            .extend(cgroup.clone().map(|cgroup| StartedProcess {
                pid,
                cgroup,
                _taken: taken,
            }));
        self.trees.insert(
            rank,
            Tree {
                leader: pid,
                mark,
                cgroup,
            },
        );
        self.running.insert(rank, pid);
        self.cleanups.runs(&proc);
        self.notices.notify(Notice::ProcStarted { proc, pid });
        outlets.forward(&mut child, &self.writers, &mut self.output);
        if let Some(stdin) = child.stdin.take() {
            self.inputs.connect(rank, stdin, &mut self.feeding);
        }
        self.waits.spawn(async move {
            // Until the process is waited for, its id cannot be reused. So the wait begins only
            // when it has been put into its control group; the drop of the sender reports that by
            // an error.
            let _ = is_taken.await;
            match child.wait().await {
                Ok(status) => (rank, ProcExit::from(status)),
                Err(error) => {
                    tracing::error!(%rank, %error, "cannot wait for process of proc");
                    (rank, ProcExit::Exited(1))
                }
            }
        });
        Ok(())
    }

    /// Puts started procs into their control groups, on another thread, since the kernel may take
    /// some milliseconds. In immediate succession they take less. Until then, processes are found
    /// by their marks and process groups.
    pub(super) fn move_started_to_cgroups(&mut self) {
        let started = std::mem::take(&mut self.started);
        if started.is_empty() {
            return;
        }
        tokio::task::spawn_blocking(move || {
            for StartedProcess {
                pid,
                cgroup,
                _taken,
            } in started
            {
                if let Err(error) = cgroup.take(pid) {
                    // The process has ended already, or the system does not permit the move.
                    tracing::debug!(pid, %error, "process not put into its control group");
                }
            }
        });
    }
}

/// Creates the control group for the procs of a job, if configured and possible.
pub(super) fn create_job_cgroup(request: &JobRequest) -> Option<Arc<JobCgroup>> {
    let made = match request.options.control_groups {
        ControlGroups::Try => JobCgroup::make(),
        ControlGroups::Off => return None,
    };
    match made {
        Ok(cgroup) => {
            tracing::info!(job = %request.nspace, "control groups available; procs are paused by the freezer");
            Some(Arc::new(cgroup))
        }
        Err(error) => {
            tracing::info!(job = %request.nspace, %error, "no control groups available; procs are paused by signals");
            None
        }
    }
}

//! Admin requests about jobs whose procs another launcher starts.
use super::{
    access::{self, Caller},
    dispatch::{AdminDispatcher, ProcessCommand, STOPPED},
    protocol::{JobRegistration, JobStatus, MAX_JOB_SIZE, NewJob, ServerPhase},
};
use crate::{client_environment, process_watch::open_process};
use peal_core::job::{JobProgress, JobSpec};
use peal_model::{Nspace, Proc, Rank, UserIdentity, counted};
use peal_store::JobStart;
use peal_system::{credentials, process::RunningProcess};
use peal_wire::variable;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, os::fd::OwnedFd};

/// Job that was registered by an admin request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AdminJob {
    /// Number of procs.
    pub(super) size: u32,
    /// User that the procs run as.
    uid: u32,
}

impl AdminDispatcher {
    pub(super) async fn jobs(&self) -> Result<Vec<JobStatus>, String> {
        let jobs = self.parts.handle.jobs().await.ok_or(STOPPED)?;
        let status = |job: JobProgress| JobStatus {
            elapsed: self
                .parts
                .host
                .elapsed(&job.spec.nspace)
                .map(|of| of.as_secs()),
            ..JobStatus::from(job)
        };
        Ok(jobs.into_iter().map(status).collect())
    }

    /// Returns the specification of a job to register, if it is valid.
    pub(super) async fn new_job(&self, caller: Caller, job: &NewJob) -> Result<JobSpec, String> {
        let phase = *self.phase.borrow();
        if phase != ServerPhase::Serving {
            return Err(format!("the server is {phase}: it takes no more jobs"));
        }
        let nspace = Nspace::of_job(&job.nspace).map_err(|error| error.to_string())?;
        if !(1..=MAX_JOB_SIZE).contains(&job.size) {
            return Err(format!(
                "cannot register a job of {}: the size must be 1 to {MAX_JOB_SIZE}",
                counted(job.size, "proc")
            ));
        }
        let (uid, gid) = runs_as(caller, job).await?;
        let hostname = self.parts.hostname.clone();
        Ok(JobSpec::new(
            nspace,
            job.size,
            hostname,
            UserIdentity { uid, gid },
        ))
    }

    /// Refuses a further job beyond the limit.
    pub(super) fn check_job_limit(&self, registered: usize) -> Result<(), String> {
        if registered < self.parts.max_jobs {
            return Ok(());
        }
        Err(format!(
            "{} jobs are registered, which is the limit (admin.max_jobs)",
            self.parts.max_jobs
        ))
    }

    pub(super) async fn register(
        &self,
        caller: Caller,
        job: NewJob,
    ) -> Result<JobRegistration, String> {
        let spec = self.new_job(caller, &job).await?;
        let nspace = spec.nspace.clone();
        let uid = spec.identity.uid;
        let mut registered = self.registered.lock().await;
        self.check_job_limit(registered.len())?;
        self.parts
            .handle
            .add_job(spec.clone())
            .await
            .map_err(|error| error.to_string())?;
        // Only a job that the server has accepted can be removed by an admin request later.
        registered.insert(
            nspace.clone(),
            AdminJob {
                size: job.size,
                uid,
            },
        );
        self.parts.host.adopt(&spec);
        drop(registered);
        // The modules of the job run before the caller gets the reply and starts the procs.
        self.job_started(nspace.clone(), uid, job.size).await;
        Ok(self.registered_as(&nspace, job.size))
    }

    /// Returns the environment by which the procs of a job find the server.
    pub(super) fn registered_as(&self, nspace: &Nspace, size: u32) -> JobRegistration {
        let all = client_environment(
            nspace,
            &self.parts.hostname,
            Rank(0),
            &self.parts.uri.to_string(),
        );
        // The rank differs for each proc, so the external launcher sets it.
        let common = all.into_iter().filter(|(name, _)| *name != variable::RANK);
        JobRegistration {
            nspace: nspace.to_string(),
            size,
            environment: common
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            rank_variable: variable::RANK.to_owned(),
        }
    }

    /// Finds a job that was registered by an admin request.
    pub(super) async fn find(&self, nspace: &str) -> Result<(Nspace, AdminJob), String> {
        find_job(&*self.registered.lock().await, nspace)
    }

    /// Watches a process as one of a proc. It must run as the user of the job: the end of a process
    /// of another user must not count as the end of the proc.
    pub(super) async fn started(&self, nspace: &str, rank: u32, pid: u32) -> Result<(), String> {
        let ReportedProcess { proc, process } = self.started_process(nspace, rank, pid).await?;
        let watched = self
            .parts
            .handle
            .name_process(proc, pid, process)
            .await
            .ok_or(STOPPED)?;
        watched.map_err(|error| error.to_string())
    }

    /// Returns a process that may be one of a proc.
    pub(super) async fn started_process(
        &self,
        nspace: &str,
        rank: u32,
        pid: u32,
    ) -> Result<ReportedProcess, String> {
        let (nspace, job) = self.find(nspace).await?;
        if rank >= job.size {
            let size = counted(job.size, "proc");
            return Err(format!(
                "job {:?} has {size}: there is no rank {rank}",
                nspace.as_str()
            ));
        }
        if pid == std::process::id() {
            return Err(format!("process {pid} is this server"));
        }
        let absent = || format!("there is no process {pid}");
        let found = RunningProcess::of(pid).ok_or_else(absent)?;
        let process = open_process(pid)
            .map_err(|error| format!("process {pid} cannot be watched: {error}"))?;
        let process = process.ok_or_else(absent)?;
        let uid = credentials::user(pid).ok_or_else(absent)?;
        // The process still exists, so its id was not reused, and the checks above were about the
        // same process.
        if !found.is_there() {
            return Err(absent());
        }
        if uid != job.uid {
            return Err(format!(
                "process {pid} runs as user {uid}, job {:?} as user {}",
                nspace.as_str(),
                job.uid
            ));
        }
        let proc = Proc::new(nspace, Rank(rank));
        Ok(ReportedProcess { proc, process })
    }

    pub(super) async fn deregister(&self, nspace: &str) -> Result<(), String> {
        let mut registered = self.registered.lock().await;
        let (nspace, _) = find_job(&registered, nspace)?;
        let job = self
            .parts
            .handle
            .remove_idle_job(nspace.clone())
            .await
            .ok_or(STOPPED)?;
        if let Some(job) = &job {
            require_idle(job)?;
        }
        // The exit status is unknown here. Zero is recorded if all connected procs finalized,
        // otherwise one.
        let exit_status = i32::from(job.is_some_and(|job| job.lost > 0));
        registered.remove(&nspace);
        self.parts.host.release(&nspace);
        drop(registered);
        self.job_ended(nspace, exit_status).await;
        Ok(())
    }

    /// Records the start of a job of another launcher, and starts the modules of its user.
    pub(super) async fn job_started(&self, nspace: Nspace, uid: u32, size: u32) {
        // The command is unknown here: only the launcher knows it.
        let command = format!("(registered for user {uid})");
        self.store(move |store, at| {
            store.job_started(JobStart {
                nspace: &nspace,
                uid,
                size,
                command: &command,
                at,
            })
        })
        .await;
        self.jobs_changed().await;
    }

    /// Records the end of a job of another launcher, and ends the modules of its user.
    pub(super) async fn job_ended(&self, nspace: Nspace, exit_status: i32) {
        self.store(move |store, at| store.job_ended(&nspace, exit_status, at))
            .await;
        self.jobs_changed().await;
    }

    async fn jobs_changed(&self) {
        // Ignore errors: a server that is ending has no modules to wait for.
        let _ = self.request_result(ProcessCommand::Jobs).await;
    }
}

/// Process of a proc of another launcher.
pub(super) struct ReportedProcess {
    proc: Proc,
    process: OwnedFd,
}

/// Refuses a job with connected procs.
pub(super) fn require_idle(job: &JobProgress) -> Result<(), String> {
    if job.connected == 0 {
        return Ok(());
    }
    Err(format!(
        "job {:?} has {} connected",
        job.spec.nspace.as_str(),
        counted(job.connected, "proc")
    ))
}

fn find_job(jobs: &BTreeMap<Nspace, AdminJob>, nspace: &str) -> Result<(Nspace, AdminJob), String> {
    let known = jobs.iter().find(|(known, _)| known.as_str() == nspace);
    let known = known.map(|(nspace, job)| (nspace.clone(), *job));
    known.ok_or_else(|| format!("no job {nspace:?} was registered here"))
}

/// Returns the user and group of the procs of a job. Only root may name ones that are not its own.
async fn runs_as(caller: Caller, job: &NewJob) -> Result<(u32, u32), String> {
    let uid = job.uid.unwrap_or(caller.uid);
    if caller.uid != 0 && (uid != caller.uid || job.gid.is_some_and(|gid| gid != caller.gid)) {
        return Err(format!(
            "user {} may register jobs of their own only",
            caller.uid
        ));
    }
    let gid = match job.gid {
        Some(gid) => Some(gid),
        None if uid == caller.uid => Some(caller.gid),
        // A directory service may respond slowly, so the lookup must not block the async runtime.
        None => tokio::task::spawn_blocking(move || access::primary_group(uid))
            .await
            .ok()
            .flatten(),
    };
    gid.map(|gid| (uid, gid))
        .ok_or_else(|| format!("user {uid} is unknown on this node: name the group as well"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        admin::{
            dispatch::{AdminParts, JobRegistrar},
            watcher_shares::WatcherLimits,
        },
        chains::ChainView,
        handle::{ActorInbox, ActorMessage, Queues, queues},
        notice::Notices,
        request_pacer::RequestPacer,
        server_inbox::InboxLimits,
    };
    use peal_wire::ServerUri;
    use std::{
        collections::BTreeSet,
        pin::{Pin, pin},
        sync::{Arc, Mutex},
        task::{Context, Poll, Waker},
        time::Duration,
    };
    use tokio::sync::mpsc;

    const ME: Caller = Caller {
        uid: 1000,
        gid: 1000,
        pid: None,
    };

    /// Jobs that the host environment has adopted.
    #[derive(Default)]
    struct AdoptedJobs(Mutex<BTreeSet<Nspace>>);

    impl JobRegistrar for AdoptedJobs {
        fn adopt(&self, job: &JobSpec) {
            self.0.lock().unwrap().insert(job.nspace.clone());
        }

        fn release(&self, job: &Nspace) {
            self.0.lock().unwrap().remove(job);
        }

        fn elapsed(&self, _job: &Nspace) -> Option<Duration> {
            None
        }
    }

    /// Server side of the queues of a dispatcher. It replies only when a test says so.
    struct TestServer {
        inbox: ActorInbox,
        commands: mpsc::Receiver<ProcessCommand>,
        jobs: BTreeSet<Nspace>,
    }

    impl TestServer {
        /// Replies to all messages that are queued.
        fn reply(&mut self) {
            while let Ok(message) = self.inbox.internal.try_recv() {
                match message {
                    ActorMessage::AddJob { spec, done } => {
                        assert!(self.jobs.insert(spec.nspace));
                        done.send(Ok(())).unwrap();
                    }
                    ActorMessage::RemoveIdleJob { nspace, done } => {
                        assert!(self.jobs.remove(&nspace));
                        assert!(done.send(None).is_ok());
                    }
                    _ => panic!("the message should be about jobs"),
                }
            }
            while let Ok(command) = self.commands.try_recv() {
                let ProcessCommand::Jobs(done) = command else {
                    panic!("the command should be about jobs")
                };
                done.send(()).unwrap();
            }
        }

        /// Replies until a request has ended, for a bounded number of times.
        fn complete<T>(&mut self, mut request: Pin<&mut impl Future<Output = T>>) -> Option<T> {
            (0..8).find_map(|_| match poll(request.as_mut()) {
                Poll::Ready(result) => Some(result),
                Poll::Pending => {
                    self.reply();
                    None
                }
            })
        }
    }

    fn poll<T>(request: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        request.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn dispatcher(max_jobs: usize) -> (AdminDispatcher, Arc<AdoptedJobs>, TestServer) {
        let (Queues { handle, .. }, inbox) = queues(InboxLimits::default());
        let host = Arc::<AdoptedJobs>::default();
        let (send_command, commands) = mpsc::channel(8);
        let parts = AdminParts {
            group: None,
            max_jobs,
            watchers: WatcherLimits::default(),
            handle,
            host: host.clone(),
            uri: ServerUri {
                proc: Proc::new(Nspace::new("server").unwrap(), Rank(0)),
                addr: ([127, 0, 0, 1], 1).into(),
            },
            hostname: "node".to_owned(),
            metrics: Arc::default(),
            pacer: Arc::new(RequestPacer::new(100, || std::time::Duration::ZERO)),
            chains: ChainView::default(),
            notices: Notices::default(),
            store: None,
            troubles: Box::new(Vec::new),
            continued: None,
            cluster: Box::new(|| None),
        };
        let server = TestServer {
            inbox,
            commands,
            jobs: BTreeSet::new(),
        };
        (AdminDispatcher::new(parts, send_command), host, server)
    }

    fn job(nspace: &str) -> NewJob {
        NewJob {
            nspace: nspace.to_owned(),
            size: 1,
            uid: None,
            gid: None,
        }
    }

    #[test]
    fn job_registered_during_its_removal_stays_adopted() {
        let (dispatcher, host, mut server) = dispatcher(8);
        let first = pin!(dispatcher.register(ME, job("job")));
        server.complete(first).unwrap().unwrap();
        let mut removal = pin!(dispatcher.deregister("job"));
        assert!(poll(removal.as_mut()).is_pending());
        // The job is removed from the server, but the request does not know that yet.
        server.reply();
        let mut second = pin!(dispatcher.register(ME, job("job")));
        let early = server.complete(second.as_mut());
        server.complete(removal).unwrap().unwrap();
        early
            .unwrap_or_else(|| server.complete(second).unwrap())
            .unwrap();
        assert_eq!(*host.0.lock().unwrap(), server.jobs);
        let last = pin!(dispatcher.deregister("job"));
        assert_eq!(server.complete(last).unwrap(), Ok(()));
    }

    #[test]
    fn concurrent_registrations_stay_within_max_jobs() {
        let (dispatcher, _, mut server) = dispatcher(1);
        let mut one = pin!(dispatcher.register(ME, job("one")));
        let mut two = pin!(dispatcher.register(ME, job("two")));
        assert!(poll(one.as_mut()).is_pending() && poll(two.as_mut()).is_pending());
        server.complete(one).unwrap().unwrap();
        let reason = server.complete(two).unwrap().unwrap_err();
        assert!(reason.ends_with("(admin.max_jobs)"), "{reason}");
    }
}

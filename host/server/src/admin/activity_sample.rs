//! Samples of a server's state for watchers of the activity. Watchers share them, so that many cost
//! little more than one.
use super::{
    activity::{
        ActivityJob, ActivityJobs, ActivityModule, ActivityModules, ActivityProc,
        ActivityProcState, ActivityServer, ActivitySink,
    },
    chain::{Chain, ChainOwner},
    dispatch::{AdminDispatcher, ProcessCommand},
    modules::{ModuleCall, ModuleStatus},
    protocol::AdminReply,
    quotas::UserQuotas,
};
use crate::{
    activity::ActivityViewer,
    jobs::{JobProcs, LocalProc},
    metrics::ModuleTotals,
};
use peal_core::job::ProcPhase;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    sync::{Mutex, oneshot},
    time::timeout,
};

/// Minimum time between two samples.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);
/// Time that the first sample waits for the states of the modules, which a deployment may delay.
const STATES_TIMEOUT: Duration = Duration::from_millis(250);
/// Maximum number of procs in a sample, and of those, of jobs and of modules in a report.
const MAX_SAMPLED_PROCS: usize = 16_384;
const MAX_PROCS: usize = 4096;
const MAX_JOBS: usize = 1024;
const MAX_MODULES: usize = 1024;
/// Maximum number of users in a report.
const MAX_USERS: usize = 1024;

/// State of a server at one moment.
#[derive(Debug)]
pub(super) struct ActivitySample {
    taken: Instant,
    uptime: Duration,
    server: ActivityServer,
    jobs: Vec<ActivityJob>,
    chains: Vec<Chain>,
    modules: Vec<ActivityModule>,
    sinks: Vec<ActivitySink>,
    users: UserQuotas,
}

/// Part of a sample that one reader may see.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct ActivitySections {
    pub(super) uptime_ms: u64,
    pub(super) server: ActivityServer,
    pub(super) jobs: ActivityJobs,
    pub(super) chains: Vec<Chain>,
    pub(super) modules: ActivityModules,
    pub(super) sinks: Vec<ActivitySink>,
    pub(super) users: UserQuotas,
}

/// Source of samples.
#[derive(Default)]
pub(super) struct ActivitySampler(Mutex<SamplerState>);

#[derive(Default)]
struct SamplerState {
    latest: Option<Arc<ActivitySample>>,
    /// Request for the states of modules that has no reply yet. There is one at most: a deployment may
    /// take minutes, and requests of administrators wait in the same queue.
    pending: Option<oneshot::Receiver<Result<AdminReply, String>>>,
    states: Option<Vec<ModuleStatus>>,
}

impl ActivitySampler {
    /// Returns a sample of now, or the latest one if that is not older than the minimum time.
    pub(super) async fn sample(&self, dispatcher: &AdminDispatcher) -> Arc<ActivitySample> {
        let mut state = self.0.lock().await;
        if let Some(latest) = &state.latest
            && latest.taken.elapsed() < LEAST_INTERVAL
        {
            return latest.clone();
        }
        state.follow_states(dispatcher).await;
        let states = state.states.as_deref().unwrap_or_default();
        let sample = Arc::new(ActivitySample::take(dispatcher, states).await);
        state.latest = Some(sample.clone());
        sample
    }
}

impl SamplerState {
    /// Takes the reply about the states of modules, if it is there, and asks again.
    async fn follow_states(&mut self, dispatcher: &AdminDispatcher) {
        if self.pending.is_none() {
            let (reply, pending) = oneshot::channel();
            let call = ModuleCall::List;
            self.pending = dispatcher
                .try_command(ProcessCommand::Module { call, reply })
                .then_some(pending);
        }
        let Some(pending) = &mut self.pending else {
            return;
        };
        let reply = if self.states.is_none() {
            match timeout(STATES_TIMEOUT, pending).await {
                Ok(reply) => reply.ok(),
                Err(_) => {
                    // Later samples do not wait.
                    self.states = Some(Vec::new());
                    return;
                }
            }
        } else {
            match pending.try_recv() {
                Ok(reply) => Some(reply),
                Err(oneshot::error::TryRecvError::Empty) => return,
                Err(oneshot::error::TryRecvError::Closed) => None,
            }
        };
        self.pending = None;
        if let Some(Ok(AdminReply::Modules(list))) = reply {
            self.states = Some(list.modules);
        }
    }
}

impl ActivitySample {
    async fn take(dispatcher: &AdminDispatcher, states: &[ModuleStatus]) -> ActivitySample {
        let parts = &dispatcher.parts;
        // A server that has stopped has no jobs.
        let jobs = parts.handle.jobs_with_procs(MAX_SAMPLED_PROCS).await;
        let status = dispatcher.status();
        let totals = parts.metrics.module_totals();
        ActivitySample {
            taken: Instant::now(),
            uptime: parts.metrics.uptime(),
            server: ActivityServer {
                release: status.version,
                node: parts.hostname.clone(),
                pid: status.pid,
                phase: status.phase,
                connections: Some(status.connections),
                troubles: status.troubles,
            },
            jobs: jobs.into_iter().flatten().map(job).collect(),
            chains: dispatcher.chains(),
            modules: totals
                .into_iter()
                .map(|totals| module(totals, states))
                .collect(),
            sinks: parts.metrics.sinks(),
            users: dispatcher.quotas().await,
        }
    }

    /// Returns what a reader may see.
    pub(super) fn visible(&self, viewer: ActivityViewer) -> ActivitySections {
        let mut server = self.server.clone();
        let mut users = self.users.clone();
        let mut sinks = self.sinks.clone();
        match viewer {
            ActivityViewer::Admin => users.users.truncate(MAX_USERS),
            ActivityViewer::User(uid) => {
                server.connections = None;
                server.troubles.clear();
                sinks.clear();
                users = users.of_user(uid);
            }
        }
        let job_users: BTreeMap<&str, u32> = self
            .jobs
            .iter()
            .map(|job| (job.status.nspace.as_str(), job.status.uid))
            .collect();
        let owns = |owner: &ChainOwner| match (viewer, owner) {
            (ActivityViewer::Admin, _) => true,
            (ActivityViewer::User(_), ChainOwner::Site) => false,
            (ActivityViewer::User(uid), ChainOwner::User(owner)) => *owner == uid,
            (ActivityViewer::User(uid), ChainOwner::Namespace(nspace)) => {
                job_users.get(nspace.as_str()) == Some(&uid)
            }
        };
        let is_own = |job: &&ActivityJob| match viewer {
            ActivityViewer::Admin => true,
            ActivityViewer::User(uid) => job.status.uid == uid,
        };
        let (mut jobs, further_jobs) = bounded(self.jobs.iter().filter(is_own), MAX_JOBS);
        let mut room = MAX_PROCS;
        for job in &mut jobs {
            job.procs.truncate(room);
            room = room.saturating_sub(job.procs.len());
        }
        let modules = self.modules.iter().filter(|module| owns(&module.owner));
        let (modules, further_modules) = bounded(modules, MAX_MODULES);
        let chains = self.chains.iter().filter(|chain| owns(&chain.owner));
        let mut handlers = MAX_MODULES;
        let mut chains: Vec<Chain> = chains.take(MAX_MODULES).cloned().collect();
        for chain in &mut chains {
            chain.handlers.truncate(handlers);
            handlers = handlers.saturating_sub(chain.handlers.len());
        }
        ActivitySections {
            uptime_ms: u64::try_from(self.uptime.as_millis()).unwrap_or(u64::MAX),
            server,
            jobs: ActivityJobs {
                jobs,
                further: further_jobs,
            },
            chains,
            modules: ActivityModules {
                modules,
                further: further_modules,
            },
            sinks,
            users,
        }
    }
}

/// Returns the first items, and the number of further ones.
fn bounded<'a, T: Clone + 'a>(
    mut items: impl Iterator<Item = &'a T>,
    most: usize,
) -> (Vec<T>, u64) {
    let first = items.by_ref().take(most).cloned().collect();
    (first, u64::try_from(items.count()).unwrap_or(u64::MAX))
}

fn job(JobProcs { progress, procs }: JobProcs) -> ActivityJob {
    let proc = |LocalProc { rank, phase, pid }: LocalProc| ActivityProc {
        rank: rank.0,
        state: match phase {
            ProcPhase::Expected => ActivityProcState::Expected,
            ProcPhase::Connected(_) => ActivityProcState::Connected,
            ProcPhase::Finalized => ActivityProcState::Finalized,
            ProcPhase::Terminated => ActivityProcState::Ended,
            ProcPhase::Lost => ActivityProcState::Lost,
        },
        pid,
    };
    ActivityJob {
        status: progress.into(),
        procs: procs.into_iter().map(proc).collect(),
    }
}

fn module(totals: ModuleTotals, states: &[ModuleStatus]) -> ActivityModule {
    let ModuleTotals {
        owner,
        module,
        role,
        calls,
        failures,
        time,
    } = totals;
    let owner = ChainOwner::from(&owner);
    let found = states
        .iter()
        .find(|status| status.name == module && status.owner == owner);
    ActivityModule {
        owner,
        name: module,
        role: role.to_owned(),
        calls,
        failures,
        time_us: u64::try_from(time.as_micros()).unwrap_or(u64::MAX),
        state: found.map(|status| status.state.clone()),
        failure: found.and_then(|status| status.failure.clone()),
    }
}

//! Samples of a server's state for watchers of the activity. Watchers share them, so that many cost
//! little more than one.
use super::report::{
    ActivityFurther, ActivityJob, ActivityJobs, ActivityModule, ActivityModules, ActivityProc,
    ActivityProcState, ActivityServer, ActivitySink,
};
use crate::{
    activity::{ActivityViewer, MAX_RING_BYTES},
    admin::{
        chain::{Chain, ChainOwner},
        dispatch::{AdminDispatcher, ProcessCommand},
        modules::{ModuleCall, ModuleStatus},
        protocol::{AdminReply, MAX_REPLY, Trouble},
        quotas::UserQuotas,
    },
    host_environment::{HostEnvironment, ProcessLookup},
    jobs::{JobProcs, LocalJobs},
    metrics::ModuleTotals,
};
use peal_core::job::ProcPhase;
use peal_model::{Proc, Rank};
use peal_sandbox::checked_plain;
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
    iter,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};
use tokio::{
    sync::{Mutex, oneshot},
    time::timeout,
};

/// Time that a sample waits for the states of the modules, which a deployment may delay.
const STATES_TIMEOUT: Duration = Duration::from_millis(250);
/// Maximum age of states of modules.
const MAX_STATES_AGE: Duration = Duration::from_secs(10);
/// Maximum number of procs of one user in a sample.
const MAX_PROCS_OF_USER: usize = 4096;
/// Maximum number of items of one kind in a report, and of their text, in bytes.
const MAX_ITEMS: usize = 4096;
const MAX_ITEM_BYTES: usize = 1 << 20;
// Six kinds of items and two rings are shorter than a reply may be, with a mebibyte for the rest.
const _: () = assert!(7 * MAX_ITEM_BYTES + 2 * MAX_RING_BYTES < MAX_REPLY);
/// Maximum length of a failure of a module or of a line about a problem, in bytes.
const MAX_TEXT: usize = 200;
/// Maximum number of problems, and of lines of one.
const MAX_TROUBLES: usize = 32;
const MAX_TROUBLE_LINES: usize = 8;

/// State of a server at one moment.
#[derive(Debug)]
pub(crate) struct ActivitySample {
    taken: Instant,
    uptime: Duration,
    server: Arc<ActivityServer>,
    jobs: Vec<ActivityJob>,
    chains: Vec<Chain>,
    modules: Vec<ActivityModule>,
    sinks: Vec<ActivitySink>,
    users: UserQuotas,
    /// Sections that all administrators see.
    for_admins: OnceLock<ActivitySections>,
}

/// Part of a sample that one reader may see.
#[derive(Clone, Debug)]
pub(crate) struct ActivitySections {
    pub(crate) server: Arc<ActivityServer>,
    pub(crate) jobs: Arc<ActivityJobs>,
    pub(crate) chains: Arc<Vec<Chain>>,
    pub(crate) modules: Arc<ActivityModules>,
    pub(crate) sinks: Arc<Vec<ActivitySink>>,
    pub(crate) users: Arc<UserQuotas>,
    pub(crate) further: Arc<ActivityFurther>,
}

/// Source of samples.
#[derive(Default)]
pub(crate) struct ActivitySampler(Mutex<SamplerState>);

#[derive(Default)]
struct SamplerState {
    latest: Option<Arc<ActivitySample>>,
    states: ModuleStates,
}

/// States of modules. The process tells them, which may be deploying modules.
#[derive(Default)]
struct ModuleStates {
    /// Request that has no reply yet. There is one at most: a deployment may take minutes, and requests of
    /// administrators wait in the same queue.
    pending: Option<oneshot::Receiver<Result<AdminReply, String>>>,
    latest: Option<(Instant, Arc<Vec<ModuleStatus>>)>,
}

impl ActivitySampler {
    /// Returns a sample of now, or the latest one if that is younger than this. Returns none if the server
    /// ends.
    pub(crate) async fn sample(
        &self,
        dispatcher: &AdminDispatcher,
        max_age: Duration,
    ) -> Option<Arc<ActivitySample>> {
        let mut state = self.0.lock().await;
        if let Some(latest) = &state.latest
            && latest.taken.elapsed() < max_age
        {
            return Some(latest.clone());
        }
        let ask = |reply| {
            let call = ModuleCall::List;
            dispatcher.try_command(ProcessCommand::Module { call, reply })
        };
        let states = state.states.now(ask).await;
        state.latest = ActivitySample::take(dispatcher, states).await.map(Arc::new);
        state.latest.clone()
    }
}

impl ModuleStates {
    /// Returns the states of now. If the process does not reply in time, returns those of its latest reply,
    /// unless they are too old.
    async fn now(
        &mut self,
        ask: impl FnOnce(oneshot::Sender<Result<AdminReply, String>>) -> bool,
    ) -> Arc<Vec<ModuleStatus>> {
        if let Some(late) = &mut self.pending {
            match late.try_recv() {
                // The process is still busy, so there is nothing to wait for.
                Err(oneshot::error::TryRecvError::Empty) => return self.kept(),
                // The reply is of the time of an earlier sample.
                Ok(_) | Err(oneshot::error::TryRecvError::Closed) => self.pending = None,
            }
        }
        let (reply, mut pending) = oneshot::channel();
        if !ask(reply) {
            return self.kept();
        }
        match timeout(STATES_TIMEOUT, &mut pending).await {
            Ok(Ok(Ok(AdminReply::Modules(list)))) => {
                let states = Arc::new(list.modules);
                self.latest = Some((Instant::now(), states.clone()));
                states
            }
            Ok(_) => self.kept(),
            Err(_) => {
                self.pending = Some(pending);
                self.kept()
            }
        }
    }

    fn kept(&self) -> Arc<Vec<ModuleStatus>> {
        let latest = self.latest.as_ref();
        let young = latest.filter(|(at, _)| at.elapsed() < MAX_STATES_AGE);
        young.map(|(_, states)| states.clone()).unwrap_or_default()
    }
}

impl ActivitySample {
    /// Takes a sample. Returns none if the server ends.
    async fn take(
        dispatcher: &AdminDispatcher,
        states: Arc<Vec<ModuleStatus>>,
    ) -> Option<ActivitySample> {
        let parts = &dispatcher.parts;
        // A server that has stopped has no jobs.
        let jobs = parts.handle.jobs_with_procs(MAX_PROCS_OF_USER).await;
        let users = dispatcher.quotas().await;
        let status = dispatcher.status();
        let troubles = status.troubles.iter().take(MAX_TROUBLES).map(trouble);
        let server = Arc::new(ActivityServer {
            release: status.version,
            node: parts.hostname.clone(),
            pid: status.pid,
            phase: status.phase,
            connections: Some(status.connections),
            troubles: troubles.collect(),
        });
        let (metrics, chains) = (parts.metrics.clone(), parts.chains.clone());
        // Many procs and modules take long, and the current thread serves all connections.
        let taken = tokio::task::spawn_blocking(move || {
            let taken = Instant::now();
            let states: BTreeMap<(&ChainOwner, &str), &ModuleStatus> = states
                .iter()
                .map(|status| ((&status.owner, status.name.as_str()), status))
                .collect();
            let modules = metrics.module_totals().into_iter().map(|totals| {
                let owner = ChainOwner::from(&totals.owner);
                let status = states.get(&(&owner, totals.module.as_str())).copied();
                module(totals, owner, status)
            });
            ActivitySample {
                taken,
                uptime: metrics.uptime(),
                server,
                jobs: jobs.into_iter().flat_map(local_jobs).collect(),
                chains: chains.chains().iter().map(Chain::from).collect(),
                modules: modules.collect(),
                sinks: metrics.sinks(),
                users,
                for_admins: OnceLock::new(),
            }
        });
        taken.await.ok()
    }

    /// Returns the time of the sample since the start of the server.
    pub(crate) fn uptime(&self) -> Duration {
        self.uptime
    }

    /// Returns the present time since the start of the server.
    pub(crate) fn uptime_now(&self) -> Duration {
        self.uptime.saturating_add(self.taken.elapsed())
    }

    /// Returns what a reader may see.
    pub(crate) fn visible(&self, viewer: ActivityViewer) -> ActivitySections {
        match viewer {
            ActivityViewer::Admin => self.for_admins.get_or_init(|| self.sections(None)).clone(),
            ActivityViewer::User(uid) => self.sections(Some(uid)),
        }
    }

    /// Returns what concerns a user, or everything, as far as a report has room for it.
    fn sections(&self, only_user: Option<u32>) -> ActivitySections {
        let is_own = |uid: u32| only_user.is_none_or(|only| only == uid);
        let own_jobs = || self.jobs.iter().filter(|job| is_own(job.status.uid));
        let own_names: BTreeSet<&str> = own_jobs().map(|job| job.status.nspace.as_str()).collect();
        let owns = |owner: &ChainOwner| match owner {
            ChainOwner::Site => only_user.is_none(),
            ChainOwner::User(uid) => is_own(*uid),
            ChainOwner::Namespace(nspace) => {
                only_user.is_none() || own_names.contains(nspace.as_str())
            }
        };
        let mut room = SectionRoom::default();
        let mut proc_room = SectionRoom::default();
        let (statuses, further_jobs) = room.take(own_jobs().map(|job| &job.status));
        let with_procs = own_jobs().zip(statuses).map(|(job, status)| {
            let (procs, further) = proc_room.take(job.procs.iter());
            ActivityJob {
                status,
                procs,
                further_procs: further.saturating_add(job.further_procs),
            }
        });
        let jobs = ActivityJobs {
            jobs: with_procs.collect(),
            further: further_jobs,
        };
        let modules = self.modules.iter().filter(|module| owns(&module.owner));
        let (modules, further) = SectionRoom::default().take(modules);
        let mut handlers = SectionRoom::default();
        let mut further_handlers = 0_u64;
        let own_chains = self.chains.iter().filter(|chain| owns(&chain.owner));
        let chains = own_chains.filter_map(|chain| {
            let (mut owner, _) = handlers.take(iter::once(&chain.owner));
            let (taken, further) = handlers.take(chain.handlers.iter());
            further_handlers = further_handlers.saturating_add(further);
            Some(Chain {
                owner: owner.pop()?,
                handlers: taken,
            })
        });
        let chains: Vec<Chain> = chains.collect();
        let sinks = self.sinks.iter().filter(|_| only_user.is_none());
        let (sinks, further_sinks) = SectionRoom::default().take(sinks);
        let users = self.users.users.iter().filter(|user| is_own(user.uid));
        let (users, further_users) = SectionRoom::default().take(users);
        let users = UserQuotas {
            resources: self.users.resources.clone(),
            users,
        };
        let (server, users) = match only_user {
            None => (self.server.clone(), users),
            Some(uid) => {
                let server = ActivityServer {
                    connections: None,
                    troubles: Vec::new(),
                    ..(*self.server).clone()
                };
                (Arc::new(server), users.of_user(uid))
            }
        };
        ActivitySections {
            server,
            jobs: Arc::new(jobs),
            chains: Arc::new(chains),
            modules: Arc::new(ActivityModules { modules, further }),
            sinks: Arc::new(sinks),
            users: Arc::new(users),
            further: Arc::new(ActivityFurther {
                handlers: further_handlers,
                sinks: further_sinks,
                users: further_users,
            }),
        }
    }
}

/// Room for items of one kind in a report.
struct SectionRoom {
    items: usize,
    bytes: usize,
}

impl Default for SectionRoom {
    fn default() -> Self {
        SectionRoom {
            items: MAX_ITEMS,
            bytes: MAX_ITEM_BYTES,
        }
    }
}

impl SectionRoom {
    /// Takes the first items for which there is room. Returns them and the number of further ones.
    fn take<'a, T: Clone + Serialize + 'a>(
        &mut self,
        items: impl Iterator<Item = &'a T>,
    ) -> (Vec<T>, u64) {
        let mut taken = Vec::new();
        let mut further = 0_u64;
        for item in items {
            let left = self.items.checked_sub(1);
            let left = left.zip(json_length(item).and_then(|bytes| self.bytes.checked_sub(bytes)));
            match left {
                Some((items, bytes)) => {
                    *self = SectionRoom { items, bytes };
                    taken.push(item.clone());
                }
                None => {
                    // No later item is taken, so that those in a report are the first ones.
                    self.items = 0;
                    further = further.saturating_add(1);
                }
            }
        }
        (taken, further)
    }
}

/// Returns the length of a value in JSON, with a comma.
fn json_length(value: &impl Serialize) -> Option<usize> {
    struct Length(usize);
    impl Write for Length {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut length = Length(1);
    serde_json::to_writer(&mut length, value).ok()?;
    Some(length.0)
}

fn trouble(trouble: &Trouble) -> Trouble {
    let lines = trouble.message.lines().take(MAX_TROUBLE_LINES);
    let lines: Vec<String> = lines.map(|line| checked_plain(line, MAX_TEXT)).collect();
    Trouble {
        kind: trouble.kind,
        message: lines.join("\n"),
    }
}

fn local_jobs(LocalJobs { jobs, host }: LocalJobs) -> Vec<ActivityJob> {
    jobs.into_iter().map(|found| job(found, &*host)).collect()
}

fn job(found: JobProcs, host: &dyn HostEnvironment) -> ActivityJob {
    let JobProcs {
        progress,
        procs,
        further,
    } = found;
    let nspace = progress.spec.nspace.clone();
    let proc = |(rank, phase): (Rank, ProcPhase)| ActivityProc {
        rank: rank.0,
        state: match phase {
            ProcPhase::Expected => ActivityProcState::Expected,
            ProcPhase::Connected(_) => ActivityProcState::Connected,
            ProcPhase::Finalized => ActivityProcState::Finalized,
            ProcPhase::Terminated => ActivityProcState::Ended,
            ProcPhase::Lost => ActivityProcState::Lost,
        },
        pid: match host.process_of(&Proc::new(nspace.clone(), rank)) {
            ProcessLookup::Running(pid) => Some(pid),
            ProcessLookup::Unknown | ProcessLookup::Ended => None,
        },
    };
    ActivityJob {
        status: progress.into(),
        procs: procs.into_iter().map(proc).collect(),
        further_procs: u64::try_from(further).unwrap_or(u64::MAX),
    }
}

fn module(
    totals: ModuleTotals,
    owner: ChainOwner,
    status: Option<&ModuleStatus>,
) -> ActivityModule {
    let failure = status.and_then(|status| status.failure.as_deref());
    ActivityModule {
        owner,
        name: totals.module,
        role: totals.role.to_owned(),
        calls: totals.calls,
        failures: totals.failures,
        time_us: u64::try_from(totals.time.as_micros()).unwrap_or(u64::MAX),
        state: status.map(|status| status.state.clone()),
        // Another process may have sent the text.
        failure: failure.map(|failure| checked_plain(failure, MAX_TEXT)),
    }
}

#[cfg(test)]
pub(super) mod tests;

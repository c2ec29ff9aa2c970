//! Modules that users installed. They are read, compiled and started apart from the server's own
//! work, and join the set when they are ready.
use crate::{
    artifacts::FetchProgress,
    compile_queue::{CompileQueue, UserTask},
    compiler::CompileFailure,
    deployer::Deployer,
    error::DeployError,
    overrides::is_same,
    set::ModuleSet,
    users::{self, Installed},
    version::DesiredModule,
};
use peal_config::{Config, Problem, Problems};
use peal_core::owner::Owner;
use peal_sandbox::Digest;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    num::NonZeroUsize,
    path::Path,
    time::Instant,
};
use tokio::{task::JoinSet, time};

/// Modules that users installed.
pub(crate) struct UserModuleSets {
    /// The usable modules.
    pub(crate) modules: BTreeMap<u32, Vec<DesiredModule>>,
    /// The running modules.
    pub(crate) running: BTreeMap<u32, Vec<DesiredModule>>,
    /// The refused modules with their errors. They are not tried again until they change.
    pub(crate) refused: BTreeMap<u32, (Vec<DesiredModule>, Problems)>,
    /// The modules that will replace running ones when they are compiled and started.
    pub(crate) pending: BTreeMap<u32, Vec<DesiredModule>>,
    /// The modules that were started and are joining the set.
    pub(crate) started: ModuleSet,
    queue: CompileQueue,
    /// The running work, on threads of its own.
    work: JoinSet<UserModuleWork>,
    reading: Reading,
}

/// State of reading the directories; one reading at a time.
enum Reading {
    Idle,
    Running,
    /// A reading runs, and another one with this configuration follows.
    Again(Box<Config>),
}

/// Result of the work of a deployer in the background.
#[derive(Debug)]
pub enum DeployerProgress {
    /// Result of work on user modules, for [`Deployer::follow_users`].
    Users(UserProgress),
    /// Result of a try to fetch an artefact, for [`Deployer::follow_fetch`].
    Artifact(FetchProgress),
}

/// Result of work on user modules.
#[derive(Debug)]
pub struct UserProgress(UserModuleWork);

#[derive(Debug)]
enum UserModuleWork {
    Read(io::Result<Installed>),
    Compiled {
        uid: u32,
        result: Result<(), CompileFailure>,
    },
    Started {
        uid: u32,
        modules: Vec<DesiredModule>,
        result: Result<ModuleSet, Problems>,
    },
}

impl UserModuleSets {
    /// Creates an empty state for at most `max_compilers` tasks at a time.
    pub(crate) fn new(max_compilers: NonZeroUsize) -> UserModuleSets {
        UserModuleSets {
            modules: BTreeMap::new(),
            running: BTreeMap::new(),
            refused: BTreeMap::new(),
            pending: BTreeMap::new(),
            started: ModuleSet::default(),
            queue: CompileQueue::new(max_compilers.get()),
            work: JoinSet::new(),
            reading: Reading::Idle,
        }
    }

    fn read(&mut self, below: &Path, config: Config) {
        let below = below.to_owned();
        self.work
            .spawn_blocking(move || UserModuleWork::Read(users::installed(&below, &config)));
        self.reading = Reading::Running;
    }

    /// Drops the pending modules of a user.
    fn forget_pending(&mut self, uid: u32) {
        self.pending.remove(&uid);
        self.queue.enqueue(uid, []);
    }

    /// Returns problems for components that failed before.
    fn failed(&self, uid: u32, modules: &[DesiredModule]) -> Vec<Problem> {
        let failed = |(entry, component): &DesiredModule| {
            let why = self.queue.failure(uid, component.inspection.digest)?;
            let message = format!(
                "module {}: {why}; not tried again until it changes",
                entry.settings.name
            );
            Some(entry.problem("module.path", message))
        };
        modules.iter().filter_map(failed).collect()
    }
}

impl Deployer {
    /// Starts reading the user directories. [`Deployer::progress`] returns the result.
    pub fn look_at_users(&mut self, config: &Config) {
        let Some(below) = config.deploy.user_modules_dir.as_deref() else {
            return;
        };
        match self.users.reading {
            Reading::Idle => self.users.read(below, config.clone()),
            Reading::Running | Reading::Again(_) => {
                // The running read may have passed the changed file already.
                self.users.reading = Reading::Again(Box::new(config.clone()))
            }
        }
    }

    /// Waits for a result of the work in the background, and starts further tasks. Cancel safe.
    pub async fn progress(&mut self) -> DeployerProgress {
        loop {
            self.begin_tasks();
            let due = self.users.queue.next_start();
            let wait = async {
                match due {
                    Some(due) => time::sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(finished) = self.users.work.join_next() => match finished {
                    Ok(finished) => return DeployerProgress::Users(UserProgress(finished)),
                    // The task is never aborted, so it panicked: continue the panic here.
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                },
                fetched = self.artifacts.progress() => return DeployerProgress::Artifact(fetched),
                () = wait => {}
            }
        }
    }

    fn begin_tasks(&mut self) {
        while let Some((uid, task)) = self.users.queue.start(Instant::now()) {
            let modules = self.users.pending.get(&uid).cloned().unwrap_or_default();
            let loader = self.loader.clone();
            match task {
                UserTask::Compile(digest) => {
                    let compile = move || UserModuleWork::Compiled {
                        uid,
                        result: loader.precompile(&modules, digest),
                    };
                    self.users.work.spawn_blocking(compile);
                }
                UserTask::Start => {
                    let running = self.running.clone();
                    let chains = self.chains.clone();
                    let applied = self.overrides.applied(&modules);
                    // Started separately, so that it does not delay modules of the site.
                    let start = move || {
                        let set =
                            ModuleSet::load(&loader, &applied, &[], &running, &loader.rules())?;
                        set.seated(&chains).map(|_| set)
                    };
                    self.users
                        .work
                        .spawn_blocking(move || UserModuleWork::Started {
                            uid,
                            modules,
                            result: start(),
                        });
                }
            }
        }
    }

    /// Handles a result of the work on user modules.
    pub async fn follow_users(&mut self, progress: UserProgress) {
        match progress.0 {
            UserModuleWork::Read(installed) => {
                if let Reading::Again(config) =
                    std::mem::replace(&mut self.users.reading, Reading::Idle)
                {
                    self.look_at_users(&config);
                }
                match installed {
                    Ok(installed) => {
                        self.take_users(installed);
                        self.join_users().await;
                    }
                    // Users keep the modules that they have.
                    Err(error) => tracing::warn!(%error, "user modules not read"),
                }
            }
            UserModuleWork::Compiled { uid, result } => self.compiled(uid, result),
            UserModuleWork::Started {
                uid,
                modules,
                result,
            } => self.started(uid, modules, result).await,
        }
        self.show_troubles();
    }

    async fn join_users(&mut self) {
        // Errors were logged by `refuse`; the other modules run.
        let _ = self.deploy(self.desired_modules(), "users").await;
    }

    /// Compares the installed modules of each user with the present ones. A user's modules are
    /// compiled and started as a whole, or the previous ones stay.
    fn take_users(&mut self, installed: Installed) {
        // A user without a directory has no modules any more.
        self.users
            .modules
            .retain(|uid, _| installed.contains_key(uid));
        self.users
            .refused
            .retain(|uid, _| installed.contains_key(uid));
        let gone: Vec<u32> = self
            .users
            .pending
            .keys()
            .filter(|uid| !installed.contains_key(uid))
            .copied()
            .collect();
        gone.into_iter()
            .for_each(|uid| self.users.forget_pending(uid));
        for (uid, modules) in installed {
            let modules = match modules {
                Ok(modules) => modules,
                Err(problems) => {
                    self.users.forget_pending(uid);
                    self.refuse_user(uid, Vec::new(), problems);
                    continue;
                }
            };
            let is_known = |known: Option<&Vec<DesiredModule>>| {
                known.is_some_and(|known| is_same(known, &modules))
            };
            // What was refused is not tried again until it changes.
            if is_known(self.users.refused.get(&uid).map(|refused| &refused.0)) {
                self.users.forget_pending(uid);
            } else if is_known(self.users.modules.get(&uid)) {
                self.users.forget_pending(uid);
                self.users.refused.remove(&uid);
                self.users.modules.insert(uid, modules);
            // If they are pending, the same modules are being prepared already.
            } else if !is_known(self.users.pending.get(&uid)) {
                self.prepare(uid, modules);
            }
        }
    }

    /// Queues the compilation and start of modules, unless a component among them failed before.
    fn prepare(&mut self, uid: u32, modules: Vec<DesiredModule>) {
        // Bytes that failed once fail again and would cost the time of a compilation each time.
        let failed = self.users.failed(uid, &modules);
        if !failed.is_empty() {
            self.users.forget_pending(uid);
            return self.refuse_user(uid, modules, Problems(failed));
        }
        let owner = Owner::User(uid);
        let running = self
            .running
            .members()
            .iter()
            .filter(|member| member.owner == owner);
        let running: BTreeSet<Digest> = running.map(|member| member.module.digest()).collect();
        let components: BTreeSet<Digest> = modules
            .iter()
            .map(|(_, component)| component.inspection.digest)
            .collect();
        let compile = components
            // The code of running components is in the cache and in memory.
            .difference(&running)
            .copied()
            .map(UserTask::Compile);
        self.users
            .queue
            .enqueue(uid, compile.chain([UserTask::Start]));
        self.users.pending.insert(uid, modules);
    }

    fn compiled(&mut self, uid: u32, result: Result<(), CompileFailure>) {
        match result {
            Ok(()) => self.users.queue.succeed(uid),
            // Not the user's fault, so it is neither remembered nor followed by a longer wait.
            Err(failure @ CompileFailure::Unavailable(_)) => {
                self.users.queue.abandon(uid);
                if let Some(modules) = self.users.pending.remove(&uid) {
                    self.refuse_user(
                        uid,
                        modules,
                        Problems(vec![Problem::of_file(failure.to_string())]),
                    );
                }
            }
            Err(failure) => {
                self.users
                    .queue
                    .fail(uid, &failure.to_string(), Instant::now());
                // The user may have installed other modules meanwhile.
                if let Some(modules) = self.users.pending.remove(&uid) {
                    self.prepare(uid, modules);
                }
            }
        }
    }

    async fn started(
        &mut self,
        uid: u32,
        modules: Vec<DesiredModule>,
        result: Result<ModuleSet, Problems>,
    ) {
        // The user may have installed other modules while these were started.
        let is_current = self
            .users
            .pending
            .get(&uid)
            .is_some_and(|pending| is_same(pending, &modules));
        match result {
            Ok(started) => {
                self.users.queue.succeed(uid);
                if is_current {
                    self.users.pending.remove(&uid);
                    self.users.refused.remove(&uid);
                    self.users.modules.insert(uid, modules);
                    self.users.started = started;
                    self.join_users().await;
                    // The running set holds the members that joined it; the others are dropped
                    // here.
                    self.users.started = ModuleSet::default();
                }
            }
            Err(problems) => {
                self.users.queue.fail(uid, "", Instant::now());
                match self.users.pending.remove(&uid) {
                    Some(_) if is_current => self.refuse_user(uid, modules, problems),
                    Some(other) => self.prepare(uid, other),
                    None => {}
                }
            }
        }
    }

    fn refuse_user(&mut self, uid: u32, modules: Vec<DesiredModule>, problems: Problems) {
        tracing::warn!(uid, "user modules refused");
        self.refuse(DeployError::Unfit(problems.clone()));
        self.users.refused.insert(uid, (modules, problems));
    }

    /// Marks users as refused whose modules conflict with those of the site.
    pub(crate) fn note_refused(&mut self, newest: BTreeMap<u32, Vec<DesiredModule>>) {
        for (uid, modules) in newest
            .into_iter()
            .filter(|(uid, _)| !self.users.modules.contains_key(uid))
        {
            tracing::warn!(uid, "user modules conflict with site modules");
            let why = "these modules conflict with those of the site".to_owned();
            self.users
                .refused
                .insert(uid, (modules, Problems(vec![Problem::of_file(why)])));
        }
    }
}

//! The module set of a running server and its replacement: as a whole, between two requests.
use crate::{
    artifacts::ArtifactQueue,
    audit_entries,
    blocking::blocking,
    cluster_set,
    component::{self, AwaitedModule},
    downgrade,
    error::DeployError,
    load::{DeployedModule, Loader, QuarantineListener},
    module_events::{self, ModuleEvent},
    overrides::{Overrides, changes, is_same},
    plan::ModulePlan,
    scope::ResolvedScope,
    set::ModuleSet,
    startup::StartupModules,
    status::ModuleTroubles,
    user_modules::UserModuleSets,
    version::{DesiredModule, Versions, shared},
};
use peal_config::{Config, Mode, ModuleEntry, Modules, Problems};
use peal_model::Nspace;
use peal_server::{
    ChainView, Hosted, Metrics, Server, ServerHandle, Shadows, StoredState,
    admin::{AdminReply, ChangeKind, Deployed, ModuleCall, ModuleChange},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError},
};

/// Reason for reading the configuration again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReloadTrigger {
    /// A request of an admin or user.
    Requested,
    /// A possible change of files.
    Files,
}

/// Changes the modules of a running server.
pub struct Deployer {
    pub(crate) loader: Arc<Loader>,
    pub(crate) running: ModuleSet,
    pub(crate) versions: Versions,
    /// The desired modules except for those that an admin disabled.
    pub(crate) standing: Arc<[DesiredModule]>,
    /// The modules of the last configuration that was deployed.
    pub(crate) configured: Arc<[DesiredModule]>,
    /// The modules that users installed.
    pub(crate) users: UserModuleSets,
    /// The present jobs.
    pub(crate) jobs: Vec<Nspace>,
    pub(crate) overrides: Overrides,
    pub(crate) handle: ServerHandle,
    pub(crate) chains: ChainView,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) shadows: Shadows,
    pub(crate) troubles: ModuleTroubles,
    /// The artefacts that must be fetched.
    pub(crate) artifacts: ArtifactQueue,
}

/// Job that runs, and its user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PresentJob {
    /// The namespace.
    pub nspace: Nspace,
    /// The user.
    pub uid: u32,
}

/// Modules of a configuration, with those of the cluster.
pub(crate) struct ConfiguredModules {
    pub(crate) desired: Arc<[DesiredModule]>,
    /// Modules whose artefacts must be fetched.
    pub(crate) awaited: Vec<AwaitedModule>,
}

impl StartupModules {
    /// Creates the deployer for the server that runs these modules.
    pub fn at(self, server: &Server) -> Deployer {
        let StartupModules {
            loader,
            running,
            standing,
            versions,
            overrides,
            awaited,
        } = self;
        let handle = server.handle();
        let chains = server.chains();
        let metrics = server.metrics();
        let shadows = server.shadows();
        loader.set_listener(QuarantineListener {
            handle: handle.clone(),
            metrics: metrics.clone(),
        });
        // The set of the start counts as configured, so that a touched file deploys nothing.
        let configured = versions
            .latest()
            .map(|version| version.modules.clone())
            .unwrap_or_default();
        let users = UserModuleSets::new(loader.config().deploy.max_compilers);
        let jobs = Vec::new();
        let troubles = ModuleTroubles::default();
        let mut artifacts =
            ArtifactQueue::new(loader.fetcher(), loader.config().registry.retry_interval);
        artifacts.follow(awaited);
        let deployer = Deployer {
            loader,
            running,
            standing,
            versions,
            configured,
            users,
            jobs,
            overrides,
            handle,
            chains,
            metrics,
            shadows,
            troubles,
            artifacts,
        };
        deployer.show_troubles();
        deployer
    }
}

impl Deployer {
    /// Replaces the rules for signatures and returns the old ones. Running modules are not
    /// affected.
    fn replace_rules(&self, rules: Modules) -> Modules {
        std::mem::replace(
            &mut *self
                .loader
                .rules
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
            rules,
        )
    }

    /// Deploys the modules of a configuration, whose rules for signatures apply from then on. If the trigger
    /// is a change of files and the configuration is the same as the last time, changes by an admin stay in
    /// effect.
    pub async fn configure(
        &mut self,
        modules: Vec<ModuleEntry>,
        config: &Config,
        prompt: ReloadTrigger,
    ) -> Result<Deployed, DeployError> {
        self.look_at_users(config);
        let configured = self.read_configured(modules, config).await;
        let desired: Arc<[DesiredModule]> = match configured {
            Ok(ConfiguredModules { desired, awaited }) => {
                self.artifacts.follow(awaited);
                desired
            }
            Err(problems) => {
                // Changes of user modules are independent of the error.
                self.deploy(self.desired_modules(), "configuration").await?;
                return Err(self.refuse(DeployError::Unfit(problems)));
            }
        };
        let before = self.replace_rules(config.modules.clone());
        let deployed = self.deploy_configured(desired, prompt).await;
        if deployed.is_err() {
            // A refused configuration changes nothing, so the old rules apply again.
            self.replace_rules(before);
        }
        deployed
    }

    async fn deploy_configured(
        &mut self,
        desired: Arc<[DesiredModule]>,
        prompt: ReloadTrigger,
    ) -> Result<Deployed, DeployError> {
        // A touched file is no request: only modules of users may have changed. An explicit reload
        // deploys the configured set again, also after a rollback.
        if prompt == ReloadTrigger::Files && is_same(&self.configured, &desired) {
            return self.deploy(self.desired_modules(), "users").await;
        }
        let deployed = self.deploy(desired.clone(), "configuration").await?;
        self.configured = desired;
        self.forget_promotions().await;
        Ok(deployed)
    }

    /// Reads the modules of a configuration, and adds those of the cluster.
    pub(crate) async fn read_configured(
        &self,
        modules: Vec<ModuleEntry>,
        config: &Config,
    ) -> Result<ConfiguredModules, Problems> {
        let rules = &config.modules;
        let of_check = config.clone();
        let read = blocking(move || component::read_components(&modules, &of_check)).await?;
        let cluster = self.cluster_modules();
        let awaited = read.awaited();
        let unsigned = cluster_set::unsigned_by(&cluster, rules);
        if !unsigned.is_empty() {
            return Err(Problems(unsigned));
        }
        let desired = cluster_set::joined(read.with_earlier(&self.desired_modules()), cluster)?;
        downgrade::refuse_older(&desired, &self.versions, rules)?;
        Ok(ConfiguredModules {
            desired: shared(desired, self.versions.modules()).into(),
            awaited,
        })
    }

    /// Updates the present jobs. Modules with a pattern of jobs as their scope start and end with
    /// the jobs.
    pub async fn follow(&mut self, jobs: Vec<PresentJob>) {
        let users = jobs.iter().map(|job| (job.nspace.clone(), job.uid));
        self.loader.set_job_users(users.collect());
        let jobs: Vec<Nspace> = jobs.into_iter().map(|job| job.nspace).collect();
        let concerned = |(_, component): &DesiredModule| {
            component.scope.owners(&jobs) != component.scope.owners(&self.jobs)
        };
        let concerns = self.standing.iter().any(concerned);
        let gone: Vec<Nspace> = self
            .jobs
            .iter()
            .filter(|job| !jobs.contains(job))
            .cloned()
            .collect();
        self.jobs = jobs;
        if concerns {
            // A failure is logged by `refuse`; the job itself runs without the module.
            let _ = self
                .replace(self.standing.clone())
                .await
                .map_err(|refused| self.refuse(refused));
        }
        self.forget(gone).await;
    }

    /// Clears the state that modules with a pattern of jobs kept for ended jobs.
    async fn forget(&self, gone: Vec<Nspace>) {
        let Some(store) = self.loader.store().cloned() else {
            return;
        };
        let desired = self.desired_modules();
        let clear = move || {
            let of_jobs = desired
                .iter()
                .filter(|(_, component)| matches!(component.scope, ResolvedScope::Jobs(_)));
            for (_, component) in of_jobs {
                for owner in component.scope.owners(&gone) {
                    // The quota does not matter for removal.
                    StoredState::new(&store, &component.title, &owner, 0).clear();
                }
            }
        };
        blocking(clear).await;
    }

    /// Executes a request of an admin.
    pub async fn execute(&mut self, call: ModuleCall) -> Result<AdminReply, DeployError> {
        let plan = match call {
            ModuleCall::List => return Ok(AdminReply::Modules(self.list())),
            ModuleCall::Diff { name } => return self.differences(&name),
            call => self.plan(&call)?,
        };
        let deployed = match plan {
            ModulePlan::Reset(name) => {
                let deployed = self.reset(&name);
                self.quarantined(&name)
                    .for_each(|member| member.module.reset());
                Ok(deployed)
            }
            ModulePlan::Overrides { overrides, cause } => {
                self.with_overrides(overrides, &cause).await
            }
            ModulePlan::Modules { modules, cause } => self.deploy(modules, &cause).await,
        };
        deployed.map(AdminReply::Deployed)
    }

    /// Returns the result of a request that changes nothing.
    pub(crate) fn unchanged(&self) -> Deployed {
        Deployed {
            version: self.version(),
            changes: Vec::new(),
        }
    }

    /// Returns the modules of this name that are quarantined. A module may have several owners.
    pub(crate) fn quarantined<'a>(
        &'a self,
        name: &'a str,
    ) -> impl Iterator<Item = &'a Arc<DeployedModule>> {
        let titled = self.running.titled(name);
        titled.filter(|member| member.is_quarantined())
    }

    /// Returns the differences that a shadow module has shown.
    fn differences(&self, name: &str) -> Result<AdminReply, DeployError> {
        let (entry, _) = self.find(name)?;
        let shadows = self.shadows.reports(name);
        if shadows.is_empty() && entry.settings.mode != Mode::Shadow {
            return Err(DeployError::NoShadow {
                name: name.to_owned(),
            });
        }
        Ok(AdminReply::Differences { shadows })
    }

    /// Removes promotions of modules that are no longer configured as a shadow with the promoted
    /// component. A later shadow of that name is not promoted.
    async fn forget_promotions(&mut self) {
        let overrides = self.overrides.still_of(&self.everything(&self.configured));
        if overrides != self.overrides {
            self.overrides = overrides;
            self.keep_overrides().await;
        }
    }

    async fn keep_overrides(&self) {
        if let Some(store) = self.loader.store().cloned() {
            let overrides = self.overrides.clone();
            blocking(move || overrides.keep(&store)).await;
        }
    }

    /// Returns the number of the running version.
    pub(crate) fn version(&self) -> u64 {
        self.versions.latest().map_or(0, |version| version.number)
    }

    /// Returns the desired modules of the running version, including disabled ones.
    pub(crate) fn desired_modules(&self) -> Arc<[DesiredModule]> {
        self.versions
            .latest()
            .map(|version| version.modules.clone())
            .unwrap_or_default()
    }

    /// Returns the modules of the site and those of users.
    pub(crate) fn everything(&self, site: &[DesiredModule]) -> Vec<DesiredModule> {
        site.iter()
            .chain(self.users.modules.values().flatten())
            .cloned()
            .collect()
    }

    async fn with_overrides(
        &mut self,
        overrides: Overrides,
        cause: &str,
    ) -> Result<Deployed, DeployError> {
        let before = std::mem::replace(&mut self.overrides, overrides);
        let deployed = self
            .deploy(self.desired_modules(), cause)
            .await
            // The old set runs on, so the old overrides hold; they are stored only after success.
            .inspect_err(|_| self.overrides = before)?;
        self.keep_overrides().await;
        Ok(deployed)
    }

    /// Deploys these modules, unless they are the same as the running ones.
    pub(crate) async fn deploy(
        &mut self,
        modules: Arc<[DesiredModule]>,
        cause: &str,
    ) -> Result<Deployed, DeployError> {
        let before = self.standing.clone();
        let known = self.known();
        self.replace_with_users(&modules).await?;
        let changes = self
            .overrides
            .marked(&known, changes(&before, &self.standing));
        // Overrides change what runs and not what is desired, so they make no new version.
        let is_new = self
            .versions
            .latest()
            .is_none_or(|last| !is_same(&last.modules, &modules));
        if is_new {
            let store = self.loader.store().cloned();
            let cause = cause.to_owned();
            // The store blocks, so the versions move to the blocking thread and back.
            let mut versions = std::mem::take(&mut self.versions);
            self.versions = blocking(move || {
                versions.add(modules, cause, store.as_deref());
                versions
            })
            .await;
        }
        let version = self.version();
        if changes.is_empty() {
            return Ok(Deployed { version, changes });
        }
        tracing::info!(
            version,
            cause,
            changes = changes.len(),
            "module set deployed"
        );
        self.handle
            .notify(module_events::event(&ModuleEvent::Deployed {
                version,
                changes: &changes,
            }));
        let deployed = Deployed { version, changes };
        audit_entries::deployed(&self.loader, cause, &deployed).await;
        Ok(deployed)
    }

    /// Returns the names of the modules desired at the last change, including disabled ones.
    pub(crate) fn known(&self) -> BTreeSet<String> {
        let desired = self.desired_modules();
        let users = self.users.running.values().flatten();
        desired
            .iter()
            .chain(users)
            .map(|(_, component)| component.title.clone())
            .collect()
    }

    /// Returns the report of a reset of the quarantined modules of this name.
    pub(crate) fn reset(&self, name: &str) -> Deployed {
        let change = |_| ModuleChange {
            name: name.to_owned(),
            what: ChangeKind::Reset,
        };
        Deployed {
            changes: self.quarantined(name).map(change).collect(),
            ..self.unchanged()
        }
    }

    /// Counts and reports a refused set. The running set stays.
    pub fn refuse(&self, refused: DeployError) -> DeployError {
        self.metrics.counters().module_deployments_refused.count();
        tracing::warn!(%refused, "module set refused");
        audit_entries::refused(&self.loader, &refused);
        self.handle
            .notify(module_events::event(&ModuleEvent::Refused));
        refused
    }

    /// Deploys modules of the site and of users. If that fails, tries the users' previous modules,
    /// and then none of users: modules of the site come first.
    async fn replace_with_users(&mut self, site: &[DesiredModule]) -> Result<(), DeployError> {
        let newest = std::mem::take(&mut self.users.modules);
        let mut attempts = vec![newest.clone()];
        // A module of a user must not keep the site from changing its own. So the site's modules
        // are tried with the users' newest, with those that run, and at last alone.
        for users in [self.users.running.clone(), BTreeMap::new()] {
            if !attempts.iter().any(|known| is_same_of_each(known, &users)) {
                attempts.push(users);
            }
        }
        let mut first = None;
        for users in attempts {
            self.users.modules = users;
            let standing: Arc<[DesiredModule]> =
                self.overrides.applied(&self.everything(site)).into();
            let done = if changes(&self.standing, &standing).is_empty() {
                // The modules are the same; their signatures may be new.
                self.standing = standing;
                Ok(())
            } else {
                self.replace(standing).await
            };
            match done {
                Ok(()) => {
                    self.users.running = self.users.modules.clone();
                    if let Some(refused) = first {
                        self.refuse(refused);
                        self.note_refused(newest);
                        self.show_troubles();
                    }
                    return Ok(());
                }
                Err(refused) => first = first.or(Some(refused)),
            }
        }
        self.users.modules = self.users.running.clone();
        Err(self.refuse(first.unwrap_or(DeployError::Stopped)))
    }

    /// Loads modules by these rules for signatures, and places them beside what runs.
    pub(crate) async fn load(
        &self,
        modules: Arc<[DesiredModule]>,
        rules: Modules,
    ) -> Result<LoadedSet, Problems> {
        // User modules were started separately and are reused.
        let ready = self.running.with(&self.users.started);
        let loader = self.loader.clone();
        let chains = self.chains.clone();
        let jobs = self.jobs.clone();
        blocking(move || {
            let set = ModuleSet::load(&loader, &modules, &jobs, &ready, &rules)?;
            let hosted = set.seated(&chains)?;
            Ok(LoadedSet { set, hosted })
        })
        .await
    }

    /// Replaces the running modules, or leaves them unchanged and returns the error.
    async fn replace(&mut self, standing: Arc<[DesiredModule]>) -> Result<(), DeployError> {
        // Before anything is replaced: a set that cannot be loaded, or whose placements conflict,
        // leaves the running one as it is.
        let rules = self.loader.rules();
        let LoadedSet { set, hosted } = self.load(standing.clone(), rules).await?;
        // Before the set takes requests: a new instance of the same component must not lift its
        // quarantine.
        set.stay_quarantined(&self.running);
        self.handle
            .deploy(hosted)
            .await
            .ok_or(DeployError::Stopped)?;
        (self.running, self.standing) = (set, standing);
        self.show_troubles();
        let running = &self.running;
        self.shadows
            .keep(|owner, name| running.is_shadow(owner, name));
        self.metrics.counters().module_deployments.count();
        Ok(())
    }
}

/// Loaded modules, and their placement in chains and hooks.
pub(crate) struct LoadedSet {
    set: ModuleSet,
    hosted: Hosted,
}

/// Returns true if each user has the same modules in both.
fn is_same_of_each(
    some: &BTreeMap<u32, Vec<DesiredModule>>,
    others: &BTreeMap<u32, Vec<DesiredModule>>,
) -> bool {
    some.keys().eq(others.keys())
        && some
            .values()
            .zip(others.values())
            .all(|(one, other)| is_same(one, other))
}

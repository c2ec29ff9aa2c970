//! The modules of a running server, and how others take their place: all of them or none, between two requests.
use crate::{
    audit_entries, component,
    error::DeployError,
    load::{Loader, QuarantineListener},
    module_events::{self, ModuleEvent},
    overrides::{Overrides, changes, is_same},
    scope::ResolvedScope,
    set::ModuleSet,
    startup::StartupModules,
    status::{ModuleTroubles, is_quarantined},
    user_modules::UserModuleSets,
    version::{DesiredModule, Versions, shared},
};
use peal_config::{Config, Mode, ModuleEntry, Problems, nearest};
use peal_model::Nspace;
use peal_server::{
    ChainView, Metrics, Server, ServerHandle, Shadows, StoredState,
    admin::{AdminReply, ChangeKind, Deployed, ModuleCall, ModuleChange},
};
use peal_store::ModuleOverride;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Why a configuration is read again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReloadTrigger {
    /// Somebody asked for it.
    Asked,
    /// Files have changed, perhaps.
    Files,
}

/// Changes the modules of a running server.
pub struct Deployer {
    pub(crate) loader: Arc<Loader>,
    pub(crate) running: ModuleSet,
    pub(crate) versions: Versions,
    /// What runs: what is wanted, apart from what administrators disabled.
    pub(crate) standing: Arc<[DesiredModule]>,
    /// What the configuration said when it was last taken over.
    pub(crate) configured: Arc<[DesiredModule]>,
    /// What users installed.
    pub(crate) users: UserModuleSets,
    /// The jobs that there are.
    pub(crate) jobs: Vec<Nspace>,
    pub(crate) overrides: Overrides,
    pub(crate) handle: ServerHandle,
    pub(crate) chains: ChainView,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) shadows: Shadows,
    pub(crate) troubles: ModuleTroubles,
}

impl StartupModules {
    /// From now on that server runs them.
    pub fn at(self, server: &Server) -> Deployer {
        let StartupModules {
            loader,
            running,
            standing,
            versions,
            overrides,
        } = self;
        let (handle, chains) = (server.handle(), server.chains());
        let (metrics, shadows) = (server.metrics(), server.shadows());
        loader.tell(QuarantineListener {
            handle: handle.clone(),
            metrics: metrics.clone(),
        });
        let configured = versions
            .latest()
            .map(|version| version.wanted.clone())
            .unwrap_or_default();
        let users = UserModuleSets::new(loader.config().deploy.max_compilers);
        let (jobs, troubles) = (Vec::new(), ModuleTroubles::default());
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
        };
        deployer.show_troubles();
        deployer
    }
}

impl Deployer {
    /// Puts the modules of a configuration in the place of those that run. Where nobody asked and it is as it was when it was last
    /// read, whatever an administrator has done since stays done.
    pub async fn configure(
        &mut self,
        modules: Vec<ModuleEntry>,
        config: &Config,
        prompt: ReloadTrigger,
    ) -> Result<Deployed, DeployError> {
        self.look_at_users(config);
        let config = config.clone();
        let wanted = blocking(move || component::all(&modules, &config)).await;
        let wanted: Arc<[DesiredModule]> = match wanted {
            Ok(wanted) => shared(wanted, self.versions.modules()).into(),
            Err(problems) => {
                // What users changed has nothing to do with it.
                self.deploy(self.wanted(), "configuration").await?;
                return Err(self.refuse(DeployError::Unfit(problems)));
            }
        };
        if prompt == ReloadTrigger::Files && is_same(&self.configured, &wanted) {
            return self.deploy(self.wanted(), "users").await;
        }
        let deployed = self.deploy(wanted.clone(), "configuration").await?;
        self.configured = wanted;
        self.forget_promotions().await;
        Ok(deployed)
    }

    /// These are the jobs from now on: modules for jobs of some names come and go with them.
    pub async fn follow(&mut self, jobs: Vec<Nspace>) {
        let concerned = |(_, component): &DesiredModule| {
            component.whose.owners(&jobs) != component.whose.owners(&self.jobs)
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
            // Whose job it is has nothing to do with what is wrong with a module.
            let _ = self
                .replace(self.standing.clone())
                .await
                .map_err(|refused| self.refuse(refused));
        }
        self.forget(gone).await;
    }

    /// What modules for jobs of some names kept for these goes with them.
    async fn forget(&self, gone: Vec<Nspace>) {
        let Some(store) = self.loader.store().cloned() else {
            return;
        };
        let wanted = self.wanted();
        let clear = move || {
            let of_jobs = wanted
                .iter()
                .filter(|(_, component)| matches!(component.whose, ResolvedScope::Jobs(_)));
            for (_, component) in of_jobs {
                for owner in component.whose.owners(&gone) {
                    StoredState::new(&store, &component.title, &owner, 0).clear();
                }
            }
        };
        blocking(clear).await;
    }

    /// Does what an administrator wants.
    pub async fn execute(&mut self, call: ModuleCall) -> Result<AdminReply, DeployError> {
        let deployed = match call {
            ModuleCall::List => return Ok(AdminReply::Modules(self.list())),
            ModuleCall::Disable { name } => self.disable(&name).await,
            ModuleCall::Enable { name } => self.enable(&name).await,
            ModuleCall::Reset { name } => self.reset(&name),
            ModuleCall::Promote { name } => self.promote(&name).await,
            ModuleCall::Diff { name } => return self.differences(&name),
            ModuleCall::Rollback { to } => self.rollback(to).await,
        };
        deployed.map(AdminReply::Deployed)
    }

    /// Calls a module again that was quarantined.
    fn reset(&mut self, name: &str) -> Result<Deployed, DeployError> {
        self.find(name)?;
        let quarantined = self
            .running
            .titled(name)
            .filter(|member| is_quarantined(member));
        let mut changes = Vec::new();
        for member in quarantined {
            member.module.reset();
            changes.push(ModuleChange {
                name: name.to_owned(),
                what: ChangeKind::Reset,
            });
        }
        Ok(Deployed {
            version: self.version(),
            changes,
        })
    }

    /// Runs a module no more, until it is enabled again.
    async fn disable(&mut self, name: &str) -> Result<Deployed, DeployError> {
        self.find(name)?;
        let overrides = self.overrides.with(name, ModuleOverride::Disabled);
        self.with_overrides(overrides, &format!("disable {name}"))
            .await
    }

    /// Runs a module again that was disabled.
    async fn enable(&mut self, name: &str) -> Result<Deployed, DeployError> {
        self.find(name)?;
        let overrides = self.overrides.without(name, ModuleOverride::Disabled);
        self.with_overrides(overrides, &format!("enable {name}"))
            .await
    }

    /// Has a shadow take part.
    async fn promote(&mut self, name: &str) -> Result<Deployed, DeployError> {
        let (entry, component) = self.find(name)?;
        if entry.settings.mode != Mode::Shadow {
            return Err(DeployError::NoShadow {
                name: name.to_owned(),
            });
        }
        let overrides = self.overrides.with(
            name,
            ModuleOverride::Promoted(component.inspection.digest.0),
        );
        self.with_overrides(overrides, &format!("promote {name}"))
            .await
    }

    /// What was seen of a shadow.
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

    /// What was promoted and is no shadow of that component by its configuration any more: if it ever is again, it looks on.
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

    /// Runs the modules of an earlier version again; of the one before where none is named.
    async fn rollback(&mut self, to: Option<u64>) -> Result<Deployed, DeployError> {
        let version = match to {
            None => self.versions.previous().ok_or(DeployError::NoPrevious)?,
            Some(number) => {
                self.versions
                    .numbered(number)
                    .ok_or_else(|| DeployError::NoSuchVersion {
                        number,
                        kept: self
                            .versions
                            .statuses()
                            .iter()
                            .map(|kept| kept.version.to_string())
                            .collect::<Vec<_>>()
                            .join(", "),
                    })?
            }
        };
        let (wanted, cause) = (
            version.wanted.clone(),
            format!("rollback to {}", version.number),
        );
        self.deploy(wanted, &cause).await
    }

    /// The number of the version that runs.
    pub(crate) fn version(&self) -> u64 {
        self.versions.latest().map_or(0, |version| version.number)
    }

    /// The module of this name among those that are wanted.
    fn find(&self, name: &str) -> Result<DesiredModule, DeployError> {
        let wanted = self.everything(&self.wanted());
        if let Some(found) = wanted.iter().find(|(_, component)| component.title == name) {
            return Ok(found.clone());
        }
        let near = nearest(
            name,
            wanted.iter().map(|(_, component)| component.title.as_str()),
        )
        .map(str::to_owned);
        Err(DeployError::NoSuchModule {
            name: name.to_owned(),
            near,
        })
    }

    /// Those of the version that runs, also those that an administrator disabled.
    pub(crate) fn wanted(&self) -> Arc<[DesiredModule]> {
        self.versions
            .latest()
            .map(|version| version.wanted.clone())
            .unwrap_or_default()
    }

    /// What the site wants, and what users installed.
    pub(crate) fn everything(&self, site: &[DesiredModule]) -> Vec<DesiredModule> {
        site.iter()
            .chain(self.users.wanted.values().flatten())
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
            .deploy(self.wanted(), cause)
            .await
            .inspect_err(|_| self.overrides = before)?;
        self.keep_overrides().await;
        Ok(deployed)
    }

    /// Puts these in the place of those that run, unless they are the same.
    pub(crate) async fn deploy(
        &mut self,
        wanted: Arc<[DesiredModule]>,
        cause: &str,
    ) -> Result<Deployed, DeployError> {
        let (before, known) = (self.standing.clone(), self.known());
        self.replace_with_users(&wanted).await?;
        let changes = self.overridden(&known, changes(&before, &self.standing));
        let is_new = self
            .versions
            .latest()
            .is_none_or(|last| !is_same(&last.wanted, &wanted));
        if is_new {
            let (store, cause) = (self.loader.store().cloned(), cause.to_owned());
            let mut versions = std::mem::take(&mut self.versions);
            self.versions = blocking(move || {
                versions.add(wanted, cause, store.as_deref());
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
            "the modules were changed"
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

    /// The titles of what was wanted when modules were last changed, disabled or not.
    fn known(&self) -> BTreeSet<String> {
        let (wanted, users) = (self.wanted(), self.users.running.values().flatten());
        wanted
            .iter()
            .chain(users)
            .map(|(_, component)| component.title.clone())
            .collect()
    }

    /// These changes, where modules that are still wanted come and go since an administrator has disabled or enabled them.
    fn overridden(
        &self,
        known: &BTreeSet<String>,
        changes: Vec<ModuleChange>,
    ) -> Vec<ModuleChange> {
        let named = |ModuleChange { name, what }| {
            let what = match what {
                ChangeKind::Removed if self.overrides.disables(&name) => ChangeKind::Disabled,
                ChangeKind::Added if known.contains(&name) => ChangeKind::Enabled,
                what => what,
            };
            ModuleChange { name, what }
        };
        changes.into_iter().map(named).collect()
    }

    /// Counts and tells that others were to run and cannot: the modules stay as they are.
    pub fn refuse(&self, refused: DeployError) -> DeployError {
        self.metrics.counters().module_deployments_refused.count();
        tracing::warn!(%refused, "the modules stay as they are");
        audit_entries::refused(&self.loader, &refused);
        self.handle
            .notify(module_events::event(&ModuleEvent::Refused));
        refused
    }

    /// Puts what the site wants and what users installed in the place of what runs. Where that cannot be, users have what they had
    /// before or, if that is in the way as well, nothing: the site comes first.
    async fn replace_with_users(&mut self, site: &[DesiredModule]) -> Result<(), DeployError> {
        let newest = std::mem::take(&mut self.users.wanted);
        let mut attempts = vec![newest.clone()];
        for users in [self.users.running.clone(), BTreeMap::new()] {
            if !attempts.iter().any(|known| is_same_of_each(known, &users)) {
                attempts.push(users);
            }
        }
        let mut first = None;
        for users in attempts {
            self.users.wanted = users;
            let standing: Arc<[DesiredModule]> =
                self.overrides.applied(&self.everything(site)).into();
            let done = if changes(&self.standing, &standing).is_empty() {
                // They may have been signed anew.
                self.standing = standing;
                Ok(())
            } else {
                self.replace(standing).await
            };
            match done {
                Ok(()) => {
                    self.users.running = self.users.wanted.clone();
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
        self.users.wanted = self.users.running.clone();
        Err(self.refuse(first.unwrap_or(DeployError::Stopped)))
    }

    /// Puts these in the place of those that run, or leaves all as it is, and says why to whoever tells.
    async fn replace(&mut self, standing: Arc<[DesiredModule]>) -> Result<(), DeployError> {
        // What users installed was started apart.
        let ready = self.running.with(&self.users.started);
        let (loader, chains) = (self.loader.clone(), self.chains.clone());
        let (members, jobs) = (standing.clone(), self.jobs.clone());
        let loaded = blocking(move || {
            let set = ModuleSet::load(&loader, &members, &jobs, &ready)?;
            let hosted = set.seated(&chains)?;
            Ok((set, hosted))
        });
        let loaded: Result<_, Problems> = loaded.await;
        let (set, hosted) = loaded?;
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

/// Whether each user has the same in both.
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

/// What may take long, or runs guests, away from the runtime's thread.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // It is never aborted, so it has panicked: as if it had done so here.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

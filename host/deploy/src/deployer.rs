//! The modules of a running server, and how others take their place: all of them or none, between two requests.
use crate::{
    component::{self, Component},
    load::{Audience, Brought, Loader, Member},
    news::{self, News},
    overrides::{Brief, Overrides, changes},
    set::ModuleSet,
    version::{Versions, Wanted},
};
use peal_config::{Config, Mode, ModuleEntry, Problems, nearest};
use peal_server::{
    ChainView, Hosted, Metrics, Server, ServerHandle, Shadows,
    admin::{ChangeKind, Deployed, ModuleCall, ModuleChange, ModuleList, ModuleState, ModuleStatus, Reply},
};
use peal_store::ModuleOverride;
use std::sync::Arc;
use thiserror::Error;

/// Why the modules of a server stay as they are.
#[derive(Debug, Error)]
pub enum Refused {
    /// The others cannot take their place.
    #[error(transparent)]
    Unfit(#[from] Problems),
    /// There is no module of that name.
    #[error("there is no module {name:?}{}", hint(.near.as_deref()))]
    NoSuchModule {
        /// The name.
        name: String,
        /// One that is nearly so.
        near: Option<String>,
    },
    /// It takes part already.
    #[error("module {name:?} is no shadow: write mode = \"shadow\" into its [[module]]")]
    NoShadow {
        /// The name.
        name: String,
    },
    /// There is nothing to return to.
    #[error("there is no version before this one")]
    NoPrevious,
    /// That version is not kept.
    #[error("there is no version {number}; there are {kept}")]
    NoSuchVersion {
        /// Its number.
        number: u64,
        /// Those that are kept.
        kept: String,
    },
    /// There is no server any more.
    #[error("the server has stopped")]
    Stopped,
}

fn hint(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default()
}

/// The modules that a server is to start with.
pub struct Beginning {
    loader: Arc<Loader>,
    running: ModuleSet,
    versions: Versions,
    overrides: Overrides,
}

/// What a server that starts runs.
pub struct Begun {
    /// The modules in their seats.
    pub hosted: Hosted,
    /// By whom they are changed later.
    pub beginning: Beginning,
}

impl Beginning {
    /// Loads the modules of a configuration, and those that a job brings. Nothing of it is remembered: for a server of one job.
    pub fn of_job(loader: Loader, wanted: Vec<Wanted>, job: Option<&Brought>) -> Result<Begun, Problems> {
        let mut running = ModuleSet::load(&loader, &wanted, &ModuleSet::default())?;
        if let Some(job) = job {
            running.bring(&loader, job).map_err(|problem| Problems(vec![problem]))?;
        }
        let hosted = running.seated(&ChainView::default())?;
        let (versions, overrides) = (Versions::default(), Overrides::default());
        Ok(Begun { hosted, beginning: Beginning { loader: Arc::new(loader), running, versions, overrides } })
    }

    /// Loads the modules of a configuration or, where these cannot be used, those that ran last. What is wrong then is returned
    /// as well.
    pub fn of_server(
        loader: Loader,
        wanted: Result<Vec<Wanted>, Problems>,
    ) -> Result<(Begun, Option<Problems>), Problems> {
        let store = loader.store().map(|store| &**store);
        let (versions, overrides) = (Versions::recall(store), Overrides::recall(store));
        let load = |wanted: &[Wanted]| {
            let running = ModuleSet::load(&loader, &overrides.applied(wanted), &ModuleSet::default())?;
            let hosted = running.seated(&ChainView::default())?;
            Ok((running, hosted))
        };
        let first = wanted.and_then(|wanted| load(&wanted).map(|loaded| (wanted, loaded)));
        let (wanted, (running, hosted), cause, problems) = match first {
            Ok((wanted, loaded)) => (wanted.into(), loaded, "start".to_owned(), None),
            Err(problems) => {
                // If there is nothing else, what is wrong with the first is what counts.
                let Some(last) = versions.latest() else { return Err(problems) };
                let Ok(loaded) = load(&last.wanted) else { return Err(problems) };
                (last.wanted.clone(), loaded, format!("start with version {}", last.number), Some(problems))
            }
        };
        let mut beginning = Beginning { loader: Arc::new(loader), running, versions, overrides };
        let is_known = beginning.versions.latest().is_some_and(|last| is_same(&last.wanted, &wanted));
        if !is_known {
            let store = beginning.loader.store().cloned();
            beginning.versions.add(wanted, cause, store.as_deref());
        }
        Ok((Begun { hosted, beginning }, problems))
    }

    /// From now on that server runs them.
    pub fn at(self, server: &Server) -> Deployer {
        let Beginning { loader, running, versions, overrides } = self;
        let (handle, chains) = (server.handle(), server.chains());
        let (metrics, shadows) = (server.metrics(), server.shadows());
        loader.tell(Audience { handle: handle.clone(), metrics: metrics.clone() });
        let configured = versions.latest().map(|version| version.wanted.clone()).unwrap_or_default();
        Deployer { loader, running, versions, configured, overrides, handle, chains, metrics, shadows }
    }
}

/// Why a configuration is read again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prompt {
    /// Somebody asked for it.
    Asked,
    /// Files have changed, perhaps.
    Files,
}

/// Changes the modules of a running server.
pub struct Deployer {
    loader: Arc<Loader>,
    running: ModuleSet,
    versions: Versions,
    /// What the configuration said when it was last taken over.
    configured: Arc<[Wanted]>,
    overrides: Overrides,
    handle: ServerHandle,
    chains: ChainView,
    metrics: Arc<Metrics>,
    shadows: Shadows,
}

impl Deployer {
    /// Puts the modules of a configuration in the place of those that run. Where nobody asked and it is as it was when it was last
    /// read, whatever an administrator has done since stays done.
    pub async fn configure(
        &mut self,
        modules: Vec<ModuleEntry>,
        config: &Config,
        prompt: Prompt,
    ) -> Result<Deployed, Refused> {
        let config = config.clone();
        let wanted = blocking(move || component::all(&modules, &config)).await;
        let wanted: Arc<[Wanted]> = wanted.map_err(|problems| self.refuse(Refused::Unfit(problems)))?.into();
        if prompt == Prompt::Files && is_same(&self.configured, &wanted) {
            return Ok(Deployed { version: self.version(), changes: Vec::new() });
        }
        let deployed = self.deploy(wanted.clone(), "configuration").await?;
        self.configured = wanted;
        Ok(deployed)
    }

    /// Does what an administrator wants.
    pub async fn obey(&mut self, call: ModuleCall) -> Result<Reply, Refused> {
        let deployed = match call {
            ModuleCall::List => return Ok(Reply::Modules(self.list())),
            ModuleCall::Disable { name } => self.disable(&name).await,
            ModuleCall::Enable { name } => self.enable(&name).await,
            ModuleCall::Reset { name } => self.reset(&name),
            ModuleCall::Promote { name } => self.promote(&name).await,
            ModuleCall::Diff { name } => return self.differences(&name),
            ModuleCall::Rollback { to } => self.rollback(to).await,
        };
        deployed.map(Reply::Deployed)
    }

    /// Calls a module again that was quarantined.
    pub fn reset(&mut self, name: &str) -> Result<Deployed, Refused> {
        self.find(name)?;
        let quarantined =
            self.running.members().iter().filter(|member| member.name() == name && is_quarantined(member));
        let mut changes = Vec::new();
        for member in quarantined {
            member.module.reset();
            changes.push(ModuleChange { name: name.to_owned(), what: ChangeKind::Reset });
        }
        Ok(Deployed { version: self.version(), changes })
    }

    /// The modules, how they are, and what can be returned to.
    pub fn list(&self) -> ModuleList {
        let version = self.versions.latest();
        let wanted = self.wanted();
        let configured = wanted.iter().map(|(entry, component)| self.status(entry, component));
        let brought = self.running.members().iter().filter(|member| member.entry.is_none());
        let brought = brought.map(|member| described(member, None));
        ModuleList {
            version: version.map_or(0, |version| version.number),
            modules: configured.chain(brought).collect(),
            versions: self.versions.statuses(),
        }
    }

    /// Runs a module no more, until it is enabled again.
    pub async fn disable(&mut self, name: &str) -> Result<Deployed, Refused> {
        self.find(name)?;
        let overrides = self.overrides.with(name, ModuleOverride::Disabled);
        self.with_overrides(overrides, &format!("disable {name}")).await
    }

    /// Runs a module again that was disabled.
    pub async fn enable(&mut self, name: &str) -> Result<Deployed, Refused> {
        self.find(name)?;
        let overrides = self.overrides.without(name, ModuleOverride::Disabled);
        self.with_overrides(overrides, &format!("enable {name}")).await
    }

    /// Has a shadow take part.
    pub async fn promote(&mut self, name: &str) -> Result<Deployed, Refused> {
        let (entry, component) = self.find(name)?;
        if entry.settings.mode != Mode::Shadow {
            return Err(Refused::NoShadow { name: name.to_owned() });
        }
        let overrides = self.overrides.with(name, ModuleOverride::Promoted(component.inspection.digest.0));
        self.with_overrides(overrides, &format!("promote {name}")).await
    }

    /// What was seen of a shadow.
    fn differences(&self, name: &str) -> Result<Reply, Refused> {
        let (entry, _) = self.find(name)?;
        let shadows = self.shadows.reports(name);
        if shadows.is_empty() && entry.settings.mode != Mode::Shadow {
            return Err(Refused::NoShadow { name: name.to_owned() });
        }
        Ok(Reply::Differences { shadows })
    }

    /// Runs the modules of an earlier version again; of the one before where none is named.
    pub async fn rollback(&mut self, to: Option<u64>) -> Result<Deployed, Refused> {
        let version = match to {
            None => self.versions.previous().ok_or(Refused::NoPrevious)?,
            Some(number) => self.versions.numbered(number).ok_or_else(|| Refused::NoSuchVersion {
                number,
                kept: self
                    .versions
                    .statuses()
                    .iter()
                    .map(|kept| kept.version.to_string())
                    .collect::<Vec<_>>()
                    .join(", "),
            })?,
        };
        let (wanted, cause) = (version.wanted.clone(), format!("rollback to {}", version.number));
        self.deploy(wanted, &cause).await
    }

    fn version(&self) -> u64 {
        self.versions.latest().map_or(0, |version| version.number)
    }

    /// The module of this name among those that are wanted.
    fn find(&self, name: &str) -> Result<Wanted, Refused> {
        let wanted = self.wanted();
        if let Some(found) = wanted.iter().find(|(entry, _)| entry.settings.name == name) {
            return Ok(found.clone());
        }
        let near = nearest(name, wanted.iter().map(|(entry, _)| entry.settings.name.as_str())).map(str::to_owned);
        Err(Refused::NoSuchModule { name: name.to_owned(), near })
    }

    /// Those of the version that runs, also those that an administrator disabled.
    fn wanted(&self) -> Arc<[Wanted]> {
        self.versions.latest().map(|version| version.wanted.clone()).unwrap_or_default()
    }

    async fn with_overrides(&mut self, overrides: Overrides, cause: &str) -> Result<Deployed, Refused> {
        let before = std::mem::replace(&mut self.overrides, overrides);
        let deployed = self.deploy(self.wanted(), cause).await.inspect_err(|_| self.overrides = before)?;
        if let Some(store) = self.loader.store().cloned() {
            let overrides = self.overrides.clone();
            blocking(move || overrides.keep(&store)).await;
        }
        Ok(deployed)
    }

    /// Puts these in the place of those that run, unless they are the same.
    async fn deploy(&mut self, wanted: Arc<[Wanted]>, cause: &str) -> Result<Deployed, Refused> {
        let changes = self.changes(&wanted);
        if changes.is_empty() {
            return Ok(Deployed { version: self.version(), changes });
        }
        let (loader, running, chains) = (self.loader.clone(), self.running.clone(), self.chains.clone());
        let members = self.overrides.applied(&wanted);
        let loaded = blocking(move || {
            let set = ModuleSet::load(&loader, &members, &running)?;
            let hosted = set.seated(&chains)?;
            Ok((set, hosted))
        });
        let loaded: Result<_, Problems> = loaded.await;
        let (set, hosted) = loaded.map_err(|problems| self.refuse(Refused::Unfit(problems)))?;
        self.handle.deploy(hosted).await.ok_or(Refused::Stopped)?;
        self.running = set;
        let running = &self.running;
        self.shadows.keep(|owner, name| running.is_shadow(owner, name));
        self.metrics.counters().module_deployments.count();
        let is_new = self.versions.latest().is_none_or(|last| !is_same(&last.wanted, &wanted));
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
        tracing::info!(version, cause, changes = changes.len(), "the modules were changed");
        self.handle.notify(news::event(&News::Deployed { version, changes: &changes }));
        Ok(Deployed { version, changes })
    }

    fn refuse(&self, refused: Refused) -> Refused {
        self.metrics.counters().module_deployments_refused.count();
        tracing::warn!(%refused, "the modules stay as they are");
        self.handle.notify(news::event(&News::Refused));
        refused
    }

    /// What would be different from what runs.
    fn changes(&self, wanted: &[Wanted]) -> Vec<ModuleChange> {
        let running = Brief::of_members(self.running.members().iter().map(|member| &**member));
        changes(&running, &Brief::of_wanted(&self.overrides.applied(wanted)))
    }

    fn status(&self, entry: &ModuleEntry, component: &Component) -> ModuleStatus {
        let path = Some(entry.settings.path.display().to_string());
        match self.running.named(&entry.settings.name) {
            Some(member) => described(member, path),
            None => ModuleStatus {
                name: entry.settings.name.clone(),
                owner: (&component.owner).into(),
                roles: component.inspection.roles.iter().map(|role| role.name().to_owned()).collect(),
                state: ModuleState::Disabled,
                sha256: component.inspection.digest.to_string(),
                failures: 0,
                failure: None,
                memory: 0,
                path,
            },
        }
    }
}

fn is_quarantined(member: &Member) -> bool {
    member.module.health().quarantined.is_some()
}

fn described(member: &Member, path: Option<String>) -> ModuleStatus {
    let (module, health) = (&member.module, member.module.health());
    let mode = member.entry.as_ref().map_or(Mode::Active, |entry| entry.settings.mode);
    let state = match (health.quarantined, mode) {
        (Some(_), _) => ModuleState::Quarantined,
        (None, Mode::Shadow) => ModuleState::Shadow,
        (None, Mode::Active) => ModuleState::Active,
    };
    ModuleStatus {
        name: module.name().to_owned(),
        owner: (&member.owner).into(),
        roles: module.inspection().roles.iter().map(|role| role.name().to_owned()).collect(),
        state,
        sha256: module.digest().to_string(),
        failures: health.failures,
        failure: health.last.map(|(_, failure)| failure.reason),
        memory: module.memory(),
        path,
    }
}

/// Whether these are the same in the same order.
fn is_same(some: &[Wanted], others: &[Wanted]) -> bool {
    changes(&Brief::of_wanted(some), &Brief::of_wanted(others)).is_empty()
}

/// What may take long, or runs guests, away from the runtime's thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // It is never aborted, so it has panicked: as if it had done so here.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

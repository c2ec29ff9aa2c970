//! The modules of a running server, and how others take their place: all of them or none, between two requests.
use crate::{
    component::{self, Component},
    load::{Brought, Loader},
    news::{self, News},
    set::ModuleSet,
    version::{Versions, Wanted},
};
use peal_config::{Config, ModuleEntry, Problems, nearest};
use peal_server::{
    ChainView, Hosted, Metrics, Server, ServerHandle,
    admin::{ChangeKind, Deployed, ModuleCall, ModuleChange, ModuleList, ModuleState, ModuleStatus, Reply},
};
use std::{collections::BTreeSet, sync::Arc};
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
    disabled: BTreeSet<String>,
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
        let (versions, disabled) = (Versions::recall(None), BTreeSet::new());
        Ok(Begun { hosted, beginning: Beginning { loader: Arc::new(loader), running, versions, disabled } })
    }

    /// Loads the modules of a configuration or, where these cannot be used, those that ran last. What is wrong then is returned
    /// as well.
    pub fn of_server(
        loader: Loader,
        wanted: Result<Vec<Wanted>, Problems>,
    ) -> Result<(Begun, Option<Problems>), Problems> {
        let versions = Versions::recall(loader.store().map(|store| &**store));
        let disabled = loader.store().map(|store| store.modules_disabled().unwrap_or_default()).unwrap_or_default();
        let load = |wanted: &[Wanted]| {
            let running = ModuleSet::load(&loader, &enabled(wanted, &disabled), &ModuleSet::default())?;
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
        let mut beginning = Beginning { loader: Arc::new(loader), running, versions, disabled };
        let is_known = beginning.versions.latest().is_some_and(|last| changes(&last.wanted, &wanted).is_empty());
        if !is_known {
            let store = beginning.loader.store().cloned();
            beginning.versions.add(wanted, cause, store.as_deref());
        }
        Ok((Begun { hosted, beginning }, problems))
    }

    /// From now on that server runs them.
    pub fn at(self, server: &Server) -> Deployer {
        let Beginning { loader, running, versions, disabled } = self;
        let (handle, chains, metrics) = (server.handle(), server.chains(), server.metrics());
        let configured = versions.latest().map(|version| version.wanted.clone()).unwrap_or_default();
        Deployer { loader, running, versions, configured, disabled, handle, chains, metrics }
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
    disabled: BTreeSet<String>,
    handle: ServerHandle,
    chains: ChainView,
    metrics: Arc<Metrics>,
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
        if prompt == Prompt::Files && changes(&self.configured, &wanted).is_empty() {
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
            ModuleCall::Rollback { to } => self.rollback(to).await,
        };
        deployed.map(Reply::Deployed)
    }

    /// Calls a module again that was quarantined.
    pub fn reset(&mut self, name: &str) -> Result<Deployed, Refused> {
        self.named(name)?;
        Ok(Deployed { version: self.version(), changes: Vec::new() })
    }

    /// The modules, how they are, and what can be returned to.
    pub fn list(&self) -> ModuleList {
        let version = self.versions.latest();
        let wanted = version.map(|version| version.wanted.clone()).unwrap_or_default();
        let configured = wanted.iter().map(|(entry, component)| self.status(entry, component));
        let brought = self.running.members().iter().filter(|member| member.entry.is_none());
        let brought = brought.map(|member| status(member, ModuleState::Active, None));
        ModuleList {
            version: version.map_or(0, |version| version.number),
            modules: configured.chain(brought).collect(),
            versions: self.versions.statuses(),
        }
    }

    /// Runs a module no more, until it is enabled again.
    pub async fn disable(&mut self, name: &str) -> Result<Deployed, Refused> {
        self.named(name)?;
        let disabled = self.disabled.iter().cloned().chain([name.to_owned()]).collect();
        self.with_disabled(disabled, &format!("disable {name}")).await
    }

    /// Runs a module again that was disabled.
    pub async fn enable(&mut self, name: &str) -> Result<Deployed, Refused> {
        self.named(name)?;
        let disabled = self.disabled.iter().filter(|disabled| *disabled != name).cloned().collect();
        self.with_disabled(disabled, &format!("enable {name}")).await
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

    /// Whether there is a module of this name among those that are wanted.
    fn named(&self, name: &str) -> Result<(), Refused> {
        let wanted = self.versions.latest().map(|version| version.wanted.clone()).unwrap_or_default();
        let mut names = wanted.iter().map(|(entry, _)| entry.settings.name.as_str());
        if names.clone().any(|known| known == name) {
            return Ok(());
        }
        let near = nearest(name, &mut names).map(str::to_owned);
        Err(Refused::NoSuchModule { name: name.to_owned(), near })
    }

    async fn with_disabled(&mut self, disabled: BTreeSet<String>, cause: &str) -> Result<Deployed, Refused> {
        let before = std::mem::replace(&mut self.disabled, disabled);
        let wanted = self.versions.latest().map(|version| version.wanted.clone()).unwrap_or_default();
        let deployed = self.deploy(wanted, cause).await.inspect_err(|_| self.disabled = before)?;
        if let Some(store) = self.loader.store().cloned() {
            let disabled = self.disabled.clone();
            // What goes wrong there the store counts and traces itself.
            let _ = blocking(move || store.disable_modules(&disabled)).await;
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
        let members = enabled(&wanted, &self.disabled);
        let loaded = blocking(move || {
            let set = ModuleSet::load(&loader, &members, &running)?;
            let hosted = set.seated(&chains)?;
            Ok((set, hosted))
        });
        let loaded: Result<_, Problems> = loaded.await;
        let (set, hosted) = loaded.map_err(|problems| self.refuse(Refused::Unfit(problems)))?;
        self.handle.deploy(hosted).await.ok_or(Refused::Stopped)?;
        self.running = set;
        self.metrics.counters().module_deployments.count();
        let is_new = self.versions.latest().is_none_or(|last| !self::changes(&last.wanted, &wanted).is_empty());
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
        let latest = self.versions.latest().map(|version| version.wanted.clone()).unwrap_or_default();
        let running: Vec<Wanted> =
            latest.iter().filter(|(entry, _)| self.running.named(&entry.settings.name).is_some()).cloned().collect();
        changes(&running, &enabled(wanted, &self.disabled))
    }

    fn status(&self, entry: &ModuleEntry, component: &Component) -> ModuleStatus {
        let (name, path) = (&entry.settings.name, entry.settings.path.display().to_string());
        let state = if self.disabled.contains(name) { ModuleState::Disabled } else { ModuleState::Active };
        let roles = component.roles.iter().map(|role| role.name().to_owned()).collect();
        ModuleStatus {
            name: name.clone(),
            owner: (&component.owner).into(),
            roles,
            state,
            sha256: component.digest.to_string(),
            path: Some(path),
        }
    }
}

fn status(member: &crate::load::Member, state: ModuleState, path: Option<String>) -> ModuleStatus {
    let roles = member.module.inspection().roles.iter().map(|role| role.name().to_owned()).collect();
    let sha256 = member.module.digest().to_string();
    ModuleStatus { name: member.name().to_owned(), owner: (&member.owner).into(), roles, state, sha256, path }
}

/// Those that are not disabled.
fn enabled(wanted: &[Wanted], disabled: &BTreeSet<String>) -> Vec<Wanted> {
    wanted.iter().filter(|(entry, _)| !disabled.contains(&entry.settings.name)).cloned().collect()
}

/// What leads from some modules to others.
fn changes(old: &[Wanted], new: &[Wanted]) -> Vec<ModuleChange> {
    let names = |of: &[Wanted]| of.iter().map(|(entry, _)| entry.settings.name.clone()).collect::<Vec<_>>();
    let (before, after) = (names(old), names(new));
    let common = |names: &[String], others: &[String]| {
        names.iter().filter(|name| others.contains(name)).cloned().collect::<Vec<_>>()
    };
    let (before_common, after_common) = (common(&before, &after), common(&after, &before));
    let change = |name: &String, what| ModuleChange { name: name.clone(), what };
    let removed = before.iter().filter(|name| !after.contains(name)).map(|name| change(name, ChangeKind::Removed));
    let rest = new.iter().filter_map(|(entry, component)| {
        let name = &entry.settings.name;
        let Some((own, had)) = old.iter().find(|(old, _)| old.settings.name == *name) else {
            return Some(change(name, ChangeKind::Added));
        };
        let place = |names: &[String]| names.iter().position(|known| known == name);
        if had.digest != component.digest {
            Some(change(name, ChangeKind::Replaced))
        } else if own.settings != entry.settings || had.owner != component.owner {
            Some(change(name, ChangeKind::Configured))
        } else if place(&before_common) != place(&after_common) {
            Some(change(name, ChangeKind::Moved))
        } else {
            None
        }
    });
    removed.chain(rest).collect()
}

/// What may take long, or runs guests, away from the runtime's thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // It is never aborted, so it has panicked: as if it had done so here.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

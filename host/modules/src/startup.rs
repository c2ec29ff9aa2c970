//! Modules at the start of a server: those of its configuration and its job. If the configuration
//! is invalid, the last running set is used.
use crate::{
    cluster_set::{is_of_cluster, joined},
    component::{AwaitedModule, ReadModules},
    downgrade,
    load::{JobHandlers, Loader},
    overrides::{Overrides, is_same},
    set::ModuleSet,
    version::{DesiredModule, Versions},
};
use peal_audit::AuditEntry;
use peal_config::Problems;
use peal_server::{ChainView, Hosted};
use std::sync::Arc;

/// The modules that a server starts with.
pub struct StartupModules {
    pub(crate) loader: Arc<Loader>,
    pub(crate) running: ModuleSet,
    /// The desired modules except for those that an admin disabled.
    pub(crate) standing: Arc<[DesiredModule]>,
    pub(crate) versions: Versions,
    pub(crate) overrides: Overrides,
    /// The modules whose artefacts must be fetched.
    pub(crate) awaited: Vec<AwaitedModule>,
}

/// Modules of a server that starts.
pub struct StartedModules {
    /// The placed modules.
    pub hosted: Hosted,
    /// The state from which the deployer is created.
    pub beginning: StartupModules,
}

impl StartupModules {
    /// Loads the modules of a configuration and of a job. Nothing is stored: for a server of one
    /// job.
    pub fn of_job(
        loader: Loader,
        modules: Vec<DesiredModule>,
        job: &JobHandlers,
    ) -> Result<StartedModules, Problems> {
        let jobs = std::slice::from_ref(&job.nspace);
        let mut running = ModuleSet::load(
            &loader,
            &modules,
            jobs,
            &ModuleSet::default(),
            &loader.rules(),
        )?;
        running
            .add_job_handlers(&loader, job)
            .map_err(|problem| Problems(vec![problem]))?;
        let hosted = running.seated(&ChainView::default())?;
        // A server of one job keeps no versions, because its set ends with the job.
        let versions = Versions::default();
        let overrides = Overrides::default();
        let loader = Arc::new(loader);
        let standing = modules.into();
        Ok(StartedModules {
            hosted,
            beginning: StartupModules {
                loader,
                running,
                standing,
                versions,
                overrides,
                awaited: Vec::new(),
            },
        })
    }

    /// Loads the modules of a configuration, or the last running set if these are invalid. The
    /// errors are then returned too.
    pub fn of_server(
        loader: Loader,
        modules: Result<ReadModules, Problems>,
    ) -> Result<(StartedModules, Option<Problems>), Problems> {
        let store = loader.store().map(|store| &**store);
        let versions = Versions::recall(store, &loader.config().modules);
        let overrides = Overrides::recall(store);
        let load = |modules: &[DesiredModule]| {
            let standing: Arc<[DesiredModule]> = overrides.applied(modules).into();
            let running = ModuleSet::load(
                &loader,
                &standing,
                &[],
                &ModuleSet::default(),
                &loader.rules(),
            )?;
            let hosted = running.seated(&ChainView::default())?;
            Ok((running, hosted, standing))
        };
        let awaited = modules.as_ref().map(ReadModules::awaited);
        let mut awaited = awaited.unwrap_or_default();
        let first = modules.and_then(|read| {
            let ran = versions.latest().map(|last| last.modules.clone());
            let ran = ran.unwrap_or_default();
            let modules = read.with_earlier(&ran);
            // Those of the cluster run on until it is reached. Such that must be signed by now and are not
            // do not.
            let cluster = ran.iter().filter(|module| {
                is_of_cluster(module) && {
                    let (entry, component) = module;
                    let unsigned = component.unsigned(entry, &loader.config().modules);
                    unsigned
                        .inspect(
                            |problem| tracing::warn!(%problem, "module of the cluster left out"),
                        )
                        .is_none()
                }
            });
            let modules = joined(modules, cluster.cloned())?;
            downgrade::refuse_older(&modules, &versions, &loader.config().modules)?;
            load(&modules).map(|loaded| (modules, loaded))
        });
        let (modules, (running, hosted, standing), cause, problems) = match first {
            Ok((modules, loaded)) => (modules.into(), loaded, "start".to_owned(), None),
            Err(problems) => {
                awaited.clear();
                // Without a usable earlier version the errors of the configuration are returned.
                let Some(last) = versions.latest() else {
                    return Err(problems);
                };
                let Ok(loaded) = load(&last.modules) else {
                    return Err(problems);
                };
                (
                    last.modules.clone(),
                    loaded,
                    format!("start with version {}", last.number),
                    Some(problems),
                )
            }
        };
        let mut beginning = StartupModules {
            loader: Arc::new(loader),
            running,
            standing,
            versions,
            overrides,
            awaited,
        };
        let is_known = beginning
            .versions
            .latest()
            .is_some_and(|last| is_same(&last.modules, &modules));
        let version = beginning
            .versions
            .latest()
            .map_or(0, |version| version.number)
            + u64::from(!is_known);
        let changes = modules
            .iter()
            .map(|(_, component)| format!("{} runs", component.title))
            .collect();
        beginning.loader.note(AuditEntry::Deployed {
            version,
            cause: cause.clone(),
            changes,
        });
        if !is_known {
            let store = beginning.loader.store().cloned();
            beginning.versions.add(modules, cause, store.as_deref());
        }
        Ok((StartedModules { hosted, beginning }, problems))
    }
}

//! What a server starts with: the modules of its configuration and of its job or, where the configuration makes no sense, those that
//! ran last.
use crate::{
    load::{JobHandlers, Loader},
    overrides::{Overrides, is_same},
    set::ModuleSet,
    version::{DesiredModule, Versions},
};
use peal_audit::AuditEntry;
use peal_config::Problems;
use peal_server::{ChainView, Hosted};
use std::sync::Arc;

/// The modules that a server is to start with.
pub struct StartupModules {
    pub(crate) loader: Arc<Loader>,
    pub(crate) running: ModuleSet,
    /// What these are: what is wanted, apart from what administrators disabled.
    pub(crate) standing: Arc<[DesiredModule]>,
    pub(crate) versions: Versions,
    pub(crate) overrides: Overrides,
}

/// What a server that starts runs.
pub struct StartedModules {
    /// The modules in their seats.
    pub hosted: Hosted,
    /// By whom they are changed later.
    pub beginning: StartupModules,
}

impl StartupModules {
    /// Loads the modules of a configuration, and those that a job brings. Nothing of it is remembered: for a server of one job.
    pub fn of_job(
        loader: Loader,
        wanted: Vec<DesiredModule>,
        job: &JobHandlers,
    ) -> Result<StartedModules, Problems> {
        let jobs = std::slice::from_ref(&job.nspace);
        let mut running = ModuleSet::load(&loader, &wanted, jobs, &ModuleSet::default())?;
        running
            .bring(&loader, job)
            .map_err(|problem| Problems(vec![problem]))?;
        let hosted = running.seated(&ChainView::default())?;
        let (versions, overrides) = (Versions::default(), Overrides::default());
        let (loader, standing) = (Arc::new(loader), wanted.into());
        Ok(StartedModules {
            hosted,
            beginning: StartupModules {
                loader,
                running,
                standing,
                versions,
                overrides,
            },
        })
    }

    /// Loads the modules of a configuration or, where these cannot be used, those that ran last. What is wrong then is returned
    /// as well.
    pub fn of_server(
        loader: Loader,
        wanted: Result<Vec<DesiredModule>, Problems>,
    ) -> Result<(StartedModules, Option<Problems>), Problems> {
        let store = loader.store().map(|store| &**store);
        let (versions, overrides) = (
            Versions::recall(store, &loader.config().modules),
            Overrides::recall(store),
        );
        let load = |wanted: &[DesiredModule]| {
            let standing: Arc<[DesiredModule]> = overrides.applied(wanted).into();
            let running = ModuleSet::load(&loader, &standing, &[], &ModuleSet::default())?;
            let hosted = running.seated(&ChainView::default())?;
            Ok((running, hosted, standing))
        };
        let first = wanted.and_then(|wanted| load(&wanted).map(|loaded| (wanted, loaded)));
        let (wanted, (running, hosted, standing), cause, problems) = match first {
            Ok((wanted, loaded)) => (wanted.into(), loaded, "start".to_owned(), None),
            Err(problems) => {
                // If there is nothing else, what is wrong with the first is what counts.
                let Some(last) = versions.latest() else {
                    return Err(problems);
                };
                let Ok(loaded) = load(&last.wanted) else {
                    return Err(problems);
                };
                (
                    last.wanted.clone(),
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
        };
        let is_known = beginning
            .versions
            .latest()
            .is_some_and(|last| is_same(&last.wanted, &wanted));
        let version = beginning
            .versions
            .latest()
            .map_or(0, |version| version.number)
            + u64::from(!is_known);
        let changes = wanted
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
            beginning.versions.add(wanted, cause, store.as_deref());
        }
        Ok((StartedModules { hosted, beginning }, problems))
    }
}

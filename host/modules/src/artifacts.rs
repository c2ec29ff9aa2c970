//! Artefacts that must be fetched before their modules can run. They are fetched one after the
//! other by a process of its own; a registry that does not answer is asked again later.
use crate::component::AwaitedModule;
use crate::scope::resolve_scope;
use peal_config::{ArtifactReference, Config};
use peal_server::admin::{ModuleState, ModuleStatus};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

/// Directory of artefacts beside the store, and in the cache directory of a user.
const DIRECTORY: &str = "artifacts";

/// Fetches artefacts into the store of artefacts.
pub trait ArtifactFetcher: Send + Sync {
    /// Fetches an artefact. Blocks.
    ///
    /// # Errors
    ///
    /// Returns the reason for which it was not fetched.
    fn fetch(&self, reference: &ArtifactReference) -> Result<(), String>;
}

/// Returns the directory of artefacts: the configured one, or one beside the store, or one in the
/// cache directory of the user.
pub fn artifact_dir(config: &Config) -> Option<PathBuf> {
    configured(config).or_else(|| crate::code_dir(&config.sandbox).map(|code| beside(&code)))
}

/// Returns the directory of artefacts of a server whose compiled code is in `code`.
pub fn artifact_dir_beside(config: &Config, code: &Path) -> PathBuf {
    configured(config).unwrap_or_else(|| beside(code))
}

fn configured(config: &Config) -> Option<PathBuf> {
    let registry = config.registry.store_dir.clone();
    registry.or_else(|| config.store.path.as_deref().map(beside))
}

fn beside(path: &Path) -> PathBuf {
    path.with_file_name(DIRECTORY)
}

/// Module whose artefact is being fetched.
struct AwaitedArtifact {
    module: AwaitedModule,
    /// The reason for which it was not fetched the last time.
    failure: Option<String>,
    /// The time of the next try.
    due: Instant,
    /// True once the artefact has come since the configuration was read. It is not fetched again.
    has_come: bool,
}

/// Result of a try.
#[derive(Debug)]
pub struct FetchProgress {
    reference: ArtifactReference,
    result: Result<(), String>,
}

/// Artefacts that must be fetched.
pub(crate) struct ArtifactQueue {
    fetcher: Option<Arc<dyn ArtifactFetcher>>,
    retry_interval: Duration,
    awaited: Vec<AwaitedArtifact>,
    /// The running try, if there is one.
    work: JoinSet<FetchProgress>,
}

impl ArtifactQueue {
    /// Creates an empty queue.
    pub(crate) fn new(
        fetcher: Option<Arc<dyn ArtifactFetcher>>,
        retry_interval: Duration,
    ) -> ArtifactQueue {
        ArtifactQueue {
            fetcher,
            retry_interval,
            awaited: Vec::new(),
            work: JoinSet::new(),
        }
    }

    /// Replaces the awaited modules. Those that were awaited before keep their next try.
    pub(crate) fn follow(&mut self, modules: Vec<AwaitedModule>) {
        let old = std::mem::take(&mut self.awaited);
        let awaited = |module: AwaitedModule| {
            let known = old
                .iter()
                .find(|known| known.module.reference == module.reference);
            AwaitedArtifact {
                failure: known.and_then(|known| known.failure.clone()),
                // One that has come, and is missing again, is not fetched in a tight loop.
                due: known.map_or_else(Instant::now, |known| known.due),
                has_come: false,
                module,
            }
        };
        self.awaited = modules.into_iter().map(awaited).collect();
    }

    /// Returns the modules whose artefacts have not come.
    fn missing(&self) -> impl Iterator<Item = &AwaitedArtifact> {
        self.awaited.iter().filter(|awaited| !awaited.has_come)
    }

    /// Waits for the result of a try, and starts the next one. Cancel safe.
    pub(crate) async fn progress(&mut self) -> FetchProgress {
        loop {
            if self.work.is_empty() {
                let next = self.missing().min_by_key(|awaited| awaited.due);
                let Some(next) = next else {
                    std::future::pending().await
                };
                sleep_until(next.due).await;
                let reference = next.module.reference.clone();
                let fetcher = self.fetcher.clone();
                self.work.spawn_blocking(move || {
                    let result = match fetcher {
                        Some(fetcher) => fetcher.fetch(&reference),
                        None => Err("this server has no process that fetches".to_owned()),
                    };
                    FetchProgress { reference, result }
                });
            }
            match self.work.join_next().await {
                Some(Ok(progress)) => return progress,
                // The task is never aborted, so it panicked: continue the panic here.
                Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
                None => {}
            }
        }
    }

    /// Handles the result of a try. Returns true if an artefact has come.
    fn take(&mut self, progress: FetchProgress) -> bool {
        let FetchProgress { reference, result } = progress;
        let due = Instant::now() + self.retry_interval;
        let failure = match result {
            Ok(()) => {
                tracing::info!(%reference, "artefact fetched");
                None
            }
            Err(error) => {
                let mut others = self
                    .awaited
                    .iter()
                    .filter(|one| one.module.reference == reference);
                // Once for each reason: a registry may be away for days.
                if others.any(|one| one.failure.as_ref() != Some(&error)) {
                    tracing::warn!(%reference, %error, "artefact not fetched");
                }
                Some(error)
            }
        };
        let is_here = failure.is_none();
        for awaited in &mut self.awaited {
            if awaited.module.reference == reference {
                awaited.due = due;
                awaited.has_come = is_here;
                awaited.failure = failure.clone();
            }
        }
        is_here
    }

    /// Returns the states of the awaited modules.
    pub(crate) fn statuses(&self) -> impl Iterator<Item = ModuleStatus> {
        self.missing().filter_map(|awaited| {
            let AwaitedModule { entry, reference } = &awaited.module;
            // A module whose scope names no user is reported when its component is there.
            let owner = resolve_scope(entry).ok()?.any();
            Some(ModuleStatus {
                name: entry.settings.name.clone(),
                owner: (&owner).into(),
                roles: Vec::new(),
                state: ModuleState::Fetching,
                sha256: String::new(),
                failures: 0,
                failure: awaited.failure.clone(),
                memory: 0,
                path: Some(reference.to_string()),
                signer: None,
                reaches: Vec::new(),
            })
        })
    }

    /// Returns messages about artefacts that could not be fetched.
    pub(crate) fn troubles(&self) -> Vec<String> {
        let every = self.retry_interval.as_secs_f64();
        let message = |awaited: &AwaitedArtifact| {
            let AwaitedModule { entry, reference } = &awaited.module;
            Some(format!(
                "module {} waits for {reference}, which is tried again every {every} s: {}",
                entry.settings.name,
                awaited.failure.as_ref()?
            ))
        };
        self.missing().filter_map(message).collect()
    }
}

impl crate::Deployer {
    /// Returns the names of the modules whose artefacts are fetched.
    pub fn fetching(&self) -> Vec<String> {
        let awaited = self.artifacts.missing();
        awaited
            .map(|awaited| awaited.module.entry.settings.name.clone())
            .collect()
    }

    /// Handles the result of a try. Returns true if an artefact has come, so that the configuration
    /// must be read again.
    pub fn follow_fetch(&mut self, progress: FetchProgress) -> bool {
        let is_here = self.artifacts.take(progress);
        self.show_troubles();
        is_here
    }
}

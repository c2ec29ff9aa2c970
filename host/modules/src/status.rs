//! State of the modules of a server, for admins.
use crate::{
    component::Component, deployer::Deployer, load::DeployedModule, version::DesiredModule,
};
use peal_config::{Keyword, Mode, ModuleEntry};
use peal_model::counted;
use peal_sandbox::Inspection;
use peal_server::admin::{
    ModuleList, ModuleSigner, ModuleState, ModuleStatus, Trouble, TroubleKind, UserRefused,
};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Troubles with the modules of a server, readable while the deployer is busy.
#[derive(Clone, Debug, Default)]
pub struct ModuleTroubles(Arc<Mutex<WatchedModules>>);

#[derive(Debug, Default)]
struct WatchedModules {
    /// The running modules, held weakly: the deployer decides when they end.
    running: Vec<Weak<DeployedModule>>,
    refused: Vec<UserRefused>,
    /// The artefacts that could not be fetched.
    unfetched: Vec<String>,
}

impl ModuleTroubles {
    /// Returns the present troubles.
    pub fn list(&self) -> Vec<Trouble> {
        let watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let quarantined = watched
            .running
            .iter()
            .filter_map(Weak::upgrade)
            .filter_map(|member| quarantine(&member));
        let refused = watched.refused.iter();
        let refused = refused.map(|user| Trouble {
            kind: TroubleKind::UserModules,
            message: user.to_string(),
        });
        let unfetched = watched.unfetched.iter().map(|message| Trouble {
            kind: TroubleKind::Artifacts,
            message: message.clone(),
        });
        quarantined.chain(refused).chain(unfetched).collect()
    }

    fn follow(
        &self,
        running: &[Arc<DeployedModule>],
        refused: Vec<UserRefused>,
        unfetched: Vec<String>,
    ) {
        let running = running.iter().map(Arc::downgrade).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = WatchedModules {
            running,
            refused,
            unfetched,
        };
    }
}

/// Returns the trouble of a quarantined module.
fn quarantine(member: &DeployedModule) -> Option<Trouble> {
    let health = member.module.health();
    health.quarantined?;
    let failed = counted(health.failures, "time");
    let last = health
        .last
        .map(|(_, failure)| format!(", the last time: {}", failure.reason))
        .unwrap_or_default();
    let name = member.name();
    let owner = &member.owner;
    let message = format!(
        "module {name} of {owner} failed {failed} and is not called{last}; `peal module reset {name}` has it called again"
    );
    Some(Trouble {
        kind: TroubleKind::Quarantine,
        message,
    })
}

impl Deployer {
    /// Returns the modules with their states, and the stored versions.
    pub fn list(&self) -> ModuleList {
        let desired = self.everything(&self.desired_modules());
        let configured = desired
            .iter()
            .flat_map(|(entry, component)| self.statuses_of(entry, component));
        let job_supplied = self
            .running
            .members()
            .iter()
            .filter(|member| member.entry.is_none());
        let job_supplied = job_supplied.map(|member| described(member, None));
        let compiling = self
            .compiling()
            .map(|(entry, component)| self.status(entry, component, ModuleState::Compiling));
        ModuleList {
            version: self.version(),
            modules: configured
                .chain(compiling)
                .chain(self.artifacts.statuses())
                .chain(job_supplied)
                .collect(),
            versions: self.versions.statuses(),
            refused: self.refused_users(),
            cluster: None,
        }
    }

    /// Returns user modules that are queued, compiled or started. Running modules are not among
    /// them.
    fn compiling(&self) -> impl Iterator<Item = &DesiredModule> {
        let runs = move |(entry, component): &DesiredModule| {
            let owner = component.scope.any();
            self.running
                .titled(&component.title)
                .any(|member| member.is_still(entry, component, &owner))
        };
        self.users
            .pending
            .values()
            .flatten()
            .filter(move |&desired| !runs(desired))
    }

    /// Returns a handle to the troubles that follows later changes.
    pub fn troubles(&self) -> ModuleTroubles {
        self.troubles.clone()
    }

    /// Updates the troubles and metrics.
    pub(crate) fn show_troubles(&self) {
        self.troubles.follow(
            self.running.members(),
            self.refused_users(),
            self.artifacts.troubles(),
        );
        self.metrics
            .counters()
            .user_modules_compiling
            .set(self.compiling().count());
    }

    /// Returns users with refused modules, whose previous modules stay.
    pub fn refused_users(&self) -> Vec<UserRefused> {
        let refused = self.users.refused.iter();
        refused
            .map(|(uid, (_, why))| UserRefused {
                uid: *uid,
                why: why.to_string(),
            })
            .collect()
    }

    /// Returns the states of a module, one for each owner.
    fn statuses_of(&self, entry: &ModuleEntry, component: &Component) -> Vec<ModuleStatus> {
        let path = Some(entry.settings.path.to_string());
        let title = &component.title;
        let signer = self.signer(component);
        let running = self.running.titled(title);
        let running: Vec<ModuleStatus> = running
            .map(|member| ModuleStatus {
                signer: signer.clone(),
                ..described(member, path.clone())
            })
            .collect();
        if !running.is_empty() {
            return running;
        }
        // A module for a pattern of jobs waits until such a job runs.
        let state = if self.overrides.disables(title) {
            ModuleState::Disabled
        } else {
            ModuleState::Waiting
        };
        vec![self.status(entry, component, state)]
    }

    /// Returns the state of a module that does not run.
    fn status(
        &self,
        entry: &ModuleEntry,
        component: &Component,
        state: ModuleState,
    ) -> ModuleStatus {
        ModuleStatus {
            name: component.title.clone(),
            owner: (&component.scope.any()).into(),
            roles: component
                .inspection
                .roles
                .iter()
                .map(|role| role.name().to_owned())
                .collect(),
            state,
            sha256: component.inspection.digest.to_string(),
            failures: 0,
            failure: None,
            memory: 0,
            path: Some(entry.settings.path.to_string()),
            signer: self.signer(component),
            reaches: reaches(&component.inspection, Some(entry)),
        }
    }

    fn signer(&self, component: &Component) -> Option<ModuleSigner> {
        let signer = component.trusted_signer(&self.loader.rules())?;
        Some(ModuleSigner {
            key: signer.key.id().to_string(),
            comment: signer.comment.clone(),
        })
    }
}

/// Returns what a module reaches: the capabilities that it imports, for each of which it has a grant, and what
/// its admin gave it for them.
fn reaches(inspection: &Inspection, entry: Option<&ModuleEntry>) -> Vec<String> {
    let capabilities = inspection.capabilities.iter();
    let capabilities = capabilities.map(|capability| capability.name().to_owned());
    let settings = entry.map(|entry| &entry.settings);
    let sinks = settings.into_iter().flat_map(|settings| &settings.sinks);
    let sinks = sinks.map(|sink| format!("sink {}", sink.name()));
    let files = settings.into_iter().flat_map(|settings| &settings.files);
    let files = files.map(|of| format!("directory {} ({})", of.path.display(), of.mode.name()));
    capabilities.chain(sinks).chain(files).collect()
}

fn described(member: &DeployedModule, path: Option<String>) -> ModuleStatus {
    let module = &member.module;
    let health = member.module.health();
    let mode = member
        .entry
        .as_ref()
        .map_or(Mode::Active, |entry| entry.settings.mode);
    let state = match (health.quarantined, mode) {
        (Some(_), _) => ModuleState::Quarantined,
        (None, Mode::Shadow) => ModuleState::Shadow,
        (None, Mode::Active) => ModuleState::Active,
    };
    ModuleStatus {
        name: member.name().to_owned(),
        owner: (&member.owner).into(),
        roles: module
            .inspection()
            .roles
            .iter()
            .map(|role| role.name().to_owned())
            .collect(),
        state,
        sha256: module.digest().to_string(),
        failures: health.failures,
        failure: health
            // The last failure stays known when it no longer counts, as after a reset.
            .last
            .filter(|_| health.failures > 0)
            .map(|(_, failure)| failure.reason),
        memory: module.memory(),
        path,
        signer: None,
        reaches: reaches(module.inspection(), member.entry.as_ref()),
    }
}

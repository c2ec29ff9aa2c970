//! All modules of a server, and their placement.
use crate::{
    limits::ModuleCount,
    load::{DeployedModule, JobHandlers, Loader},
    placement_check::{self, PlacementCheck},
    scope::ResolvedScope,
    version::DesiredModule,
};
use peal_config::{ModuleEntry, Modules, Problem, Problems};
use peal_core::{
    owner::Owner,
    policy::OnFailure,
    registration::{EventCodes, HandlerRegistration, RegistrationError},
};
use peal_model::Nspace;
use peal_sandbox::Role;
use peal_server::{ChainView, Hosted, HostedChains, HostedHandler, HostedPolicy};
use std::sync::Arc;

/// The modules of a server, in order.
#[derive(Clone, Debug, Default)]
pub struct ModuleSet {
    members: Vec<Arc<DeployedModule>>,
}

impl ModuleSet {
    /// Loads the modules of a configuration by these rules for signatures. Modules of `running` that would not change are reused,
    /// and job-supplied modules stay. Runs guests: not for a thread of the runtime.
    pub(crate) fn load(
        loader: &Loader,
        modules: &[DesiredModule],
        jobs: &[Nspace],
        running: &ModuleSet,
        rules: &Modules,
    ) -> Result<ModuleSet, Problems> {
        let mut members = Vec::new();
        let mut problems = Vec::new();
        let each = modules.iter().flat_map(|module| {
            module
                .1
                .scope
                .owners(jobs)
                .into_iter()
                .map(move |owner| (module, owner))
        });
        for (module, owner) in each {
            let (entry, component) = module;
            let stays = running
                .members
                .iter()
                // An unchanged module keeps its instances with their memory, and is not compiled
                // again.
                .find(|member| member.is_still(entry, component, &owner))
                .cloned();
            match stays.map_or_else(
                || loader.load_configured(module, owner, rules).map(Arc::new),
                Ok,
            ) {
                Ok(member) => members.push(member),
                // The job runs without the module; other jobs are not affected.
                Err(problem) if matches!(component.scope, ResolvedScope::Jobs(_)) => {
                    tracing::warn!(%problem, "module not loaded for a job");
                }
                Err(problem) => problems.push(problem),
            }
        }
        members.extend(
            running
                .members
                .iter()
                // Handlers that came with the job are in no configuration, so no reload may drop
                // them.
                .filter(|member| member.entry.is_none())
                .cloned(),
        );
        if problems.is_empty() {
            Ok(ModuleSet { members })
        } else {
            Err(Problems(problems))
        }
    }

    /// Returns this set with the configured modules of another one added.
    pub(crate) fn with(&self, other: &ModuleSet) -> ModuleSet {
        let others = other.members.iter().filter(|member| member.entry.is_some());
        ModuleSet {
            members: self.members.iter().chain(others).cloned().collect(),
        }
    }

    /// Adds the modules that a job supplies.
    pub(crate) fn add_job_handlers(
        &mut self,
        loader: &Loader,
        job: &JobHandlers,
    ) -> Result<(), Problem> {
        let mut module_counts = ModuleCount::new(loader.config());
        for path in &job.handlers {
            module_counts
                .add(&Owner::Namespace(job.nspace.clone()))
                .map_err(|error| Problem::of_file(error.to_string()))?;
            self.members
                .push(Arc::new(loader.job_supplied(path, &job.nspace)?));
        }
        Ok(())
    }

    /// Returns the modules in order.
    pub fn members(&self) -> &[Arc<DeployedModule>] {
        &self.members
    }

    /// Returns the modules with this name for admins: one for each owner.
    pub(crate) fn titled<'a>(
        &'a self,
        title: &'a str,
    ) -> impl Iterator<Item = &'a Arc<DeployedModule>> {
        self.members
            .iter()
            .filter(move |member| member.entry.is_some() && member.name() == title)
    }

    /// Keeps modules quarantined whose component was quarantined with other settings.
    pub(crate) fn stay_quarantined(&self, before: &ModuleSet) {
        for member in &self.members {
            let is_same = |old: &&Arc<DeployedModule>| {
                // A member that stays in the set has its quarantine itself.
                !Arc::ptr_eq(old, member)
                    && old.owner == member.owner
                    && old.name() == member.name()
                    && old.module.digest() == member.module.digest()
            };
            before
                .members
                .iter()
                .filter(is_same)
                .for_each(|old| member.module.stay_quarantined(&old.module.health()));
        }
    }

    /// Returns true if the module of this owner is a shadow.
    pub(crate) fn is_shadow(&self, owner: &Owner, name: &str) -> bool {
        let mode = |member: &DeployedModule| member.entry.as_ref().map(|entry| entry.settings.mode);
        let own = self
            .members
            .iter()
            .find(|member| member.owner == *owner && member.name() == name);
        own.is_some_and(|member| mode(member) == Some(peal_config::Mode::Shadow))
    }

    /// Places all modules, to replace the running ones. A conflict is reported with the module's
    /// setting.
    pub fn seated(&self, running: &ChainView) -> Result<Hosted, Problems> {
        // Running modules would make room for new ones and hide conflicts, so they are left out.
        let mut placements = PlacementCheck::default();
        let configured = self
            .members
            .iter()
            .filter_map(|member| Some((member.entry.as_ref()?, member)));
        let take = |(entry, member): (_, &Arc<DeployedModule>)| {
            placements.take(entry, &member.owner, &member.module.inspection().roles)
        };
        let problems: Vec<Problem> = configured.flat_map(take).collect();
        if !problems.is_empty() {
            return Err(Problems(problems));
        }
        let mut hosted = Hosted {
            chains: HostedChains::instead_of(running),
            ..Hosted::default()
        };
        let placed = |member: &Arc<DeployedModule>| match &member.entry {
            Some(entry) => place_configured(&mut hosted, entry, member).err(),
            None => {
                let registration = HandlerRegistration::new(member.name(), EventCodes::Default);
                let registered = place_handler(&mut hosted.chains, member, registration);
                let problem =
                    |error| Problem::of_file(format!("--handler {}: {error}", member.name()));
                registered.map_err(problem).err()
            }
        };
        let problems: Vec<Problem> = self.members.iter().filter_map(placed).collect();
        if problems.is_empty() {
            Ok(hosted)
        } else {
            Err(Problems(problems))
        }
    }
}

/// Places a module in each of its roles.
fn place_configured(
    hosted: &mut Hosted,
    entry: &ModuleEntry,
    member: &Arc<DeployedModule>,
) -> Result<(), Problem> {
    let settings = &entry.settings;
    let module = &member.module;
    // Policies and channels belong to the site, whose modules run in this process.
    let here = || {
        let elsewhere = || entry.problem("module.scope", "only the site's modules decide and log");
        module.here().cloned().ok_or_else(elsewhere)
    };
    let wrong = |key: &'static str| move |error: String| entry.problem(key, error);
    let cannot = |error: RegistrationError| {
        format!("module {} cannot be registered: {error}", settings.name)
    };
    let name = &settings.name;
    let place = || settings.placement.clone();
    let mode = placement_check::mode(settings);
    let roles = Role::ALL
        .into_iter()
        .filter(|role| module.has_role(*role))
        .collect();
    if module.has_role(Role::EventHandler) {
        // Only its start has shown whether the module registers its handlers itself.
        let unused = placement_check::handler_keys(entry, &roles);
        // These settings place the one handler of a module without registrations.
        if let (Some(first), false) = (unused.first(), member.registrations.is_empty()) {
            let message = format!(
                "module {name} registers its handlers itself: leave out {}",
                unused.join(", ")
            );
            return Err(entry.problem(first, message));
        }
        let registered = place_handler(
            &mut hosted.chains,
            member,
            placement_check::registration(settings),
        );
        registered
            .map_err(cannot)
            .map_err(wrong("module.placement"))?;
    }
    for hook in placement_check::hooks(&roles) {
        let on_failure = match settings.on_failure {
            peal_config::OnFailure::Deny => OnFailure::Deny,
            peal_config::OnFailure::Pass => OnFailure::Pass,
        };
        let policy = HostedPolicy {
            module: here()?,
            mode,
        };
        let added = hosted
            .policies
            .register(hook, name, place(), on_failure, policy);
        added.map_err(|error| wrong("module.placement")(error.to_string()))?;
    }
    if module.has_role(Role::LogChannel) {
        let added = hosted
            .channels
            .register(name, settings.channels.clone(), place(), here()?);
        added.map_err(|error| wrong("module.channels")(error.to_string()))?;
    }
    Ok(())
}

/// Registers the handlers of a module: as it requested, or by its settings.
fn place_handler(
    chains: &mut HostedChains,
    member: &DeployedModule,
    otherwise: HandlerRegistration,
) -> Result<(), RegistrationError> {
    let owner = &member.owner;
    let module = &member.module;
    if member.registrations.is_empty() {
        return chains.register(owner.clone(), otherwise, HostedHandler::new(module.clone()));
    }
    // The site chooses these, also of handlers that the module registers itself.
    let chosen = (otherwise.mode, otherwise.location);
    member.registrations.iter().try_for_each(|registration| {
        chains.register_requested(owner.clone(), module, registration, chosen)
    })
}

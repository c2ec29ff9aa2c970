//! All modules of a server, and the seats that they take.
use crate::{
    limits::HeadCount,
    load::{DeployedModule, JobHandlers, Loader},
    placement_check::{self, PlacementCheck},
    scope::ResolvedScope,
    version::DesiredModule,
};
use peal_config::{ModuleEntry, Problem, Problems};
use peal_core::{
    owner::Owner,
    policy::OnFailure,
    registration::{EventCodes, Registration, RegistrationError},
};
use peal_model::Nspace;
use peal_sandbox::Role;
use peal_server::{ChainView, Hosted, HostedChains, HostedHandler, HostedPolicy};
use std::sync::Arc;

/// The modules of a server, in their order.
#[derive(Clone, Debug, Default)]
pub struct ModuleSet {
    members: Vec<Arc<DeployedModule>>,
}

impl ModuleSet {
    /// Loads the modules of a configuration. Those that are in `running` already, and would be no different, stay as they are;
    /// so do those that a job has brought. Runs guests: not for a thread of the runtime.
    pub(crate) fn load(
        loader: &Loader,
        wanted: &[DesiredModule],
        jobs: &[Nspace],
        running: &ModuleSet,
    ) -> Result<ModuleSet, Problems> {
        let (mut members, mut problems) = (Vec::new(), Vec::new());
        let each = wanted.iter().flat_map(|wanted| {
            wanted
                .1
                .whose
                .owners(jobs)
                .into_iter()
                .map(move |owner| (wanted, owner))
        });
        for ((entry, component), owner) in each {
            let stays = running
                .members
                .iter()
                .find(|member| member.is_still(entry, component, &owner))
                .cloned();
            match stays.map_or_else(
                || loader.configured(entry, component, owner).map(Arc::new),
                Ok,
            ) {
                Ok(member) => members.push(member),
                // The job does without; other jobs have theirs.
                Err(problem) if matches!(component.whose, ResolvedScope::Jobs(_)) => {
                    tracing::warn!(%problem, "a job does not have a module that it should");
                }
                Err(problem) => problems.push(problem),
            }
        }
        members.extend(
            running
                .members
                .iter()
                .filter(|member| member.entry.is_none())
                .cloned(),
        );
        if problems.is_empty() {
            Ok(ModuleSet { members })
        } else {
            Err(Problems(problems))
        }
    }

    /// This set, with the configured modules of another one.
    pub(crate) fn with(&self, other: &ModuleSet) -> ModuleSet {
        let others = other.members.iter().filter(|member| member.entry.is_some());
        ModuleSet {
            members: self.members.iter().chain(others).cloned().collect(),
        }
    }

    /// Adds what a job brings.
    pub(crate) fn bring(&mut self, loader: &Loader, job: &JobHandlers) -> Result<(), Problem> {
        let mut heads = HeadCount::new(loader.config());
        for path in &job.handlers {
            heads
                .add(&Owner::Namespace(job.nspace.clone()))
                .map_err(|error| Problem::of_file(error.to_string()))?;
            self.members
                .push(Arc::new(loader.brought(path, &job.nspace)?));
        }
        Ok(())
    }

    /// The modules, in their order.
    pub fn members(&self) -> &[Arc<DeployedModule>] {
        &self.members
    }

    /// Those of a module that an administrator calls so: one for each owner.
    pub(crate) fn titled<'a>(
        &'a self,
        title: &'a str,
    ) -> impl Iterator<Item = &'a Arc<DeployedModule>> {
        self.members
            .iter()
            .filter(move |member| member.entry.is_some() && member.name() == title)
    }

    /// Those that take the place of the same component with other settings stay quarantined, if that is.
    pub(crate) fn stay_quarantined(&self, before: &ModuleSet) {
        for member in &self.members {
            let is_same = |old: &&Arc<DeployedModule>| {
                !Arc::ptr_eq(old, member)
                    && old.owner == member.owner
                    && old.name() == member.name()
                    && old.module.digest() == member.module.digest()
            };
            before
                .members
                .iter()
                .filter(is_same)
                .for_each(|old| member.module.stay_quarantined(&old.module));
        }
    }

    /// Whether this one of that owner only looks on.
    pub(crate) fn is_shadow(&self, owner: &Owner, name: &str) -> bool {
        let mode = |member: &DeployedModule| member.entry.as_ref().map(|entry| entry.settings.mode);
        let own = self
            .members
            .iter()
            .find(|member| member.owner == *owner && member.name() == name);
        own.is_some_and(|member| mode(member) == Some(peal_config::Mode::Shadow))
    }

    /// Each in its seats, to take the place of those that run. A module without a place is told with its setting.
    pub fn seated(&self, running: &ChainView) -> Result<Hosted, Problems> {
        // Those that run already would make room for one that comes, even where that is only promoted.
        let mut seats = PlacementCheck::default();
        let configured = self
            .members
            .iter()
            .filter_map(|member| Some((member.entry.as_ref()?, member)));
        let take = |(entry, member): (_, &Arc<DeployedModule>)| {
            seats.take(entry, &member.owner, &member.module.inspection().roles)
        };
        let problems: Vec<Problem> = configured.flat_map(take).collect();
        if !problems.is_empty() {
            return Err(Problems(problems));
        }
        let mut hosted = Hosted {
            chains: HostedChains::instead_of(running),
            ..Hosted::default()
        };
        let seat = |member: &Arc<DeployedModule>| match &member.entry {
            Some(entry) => seat_configured(&mut hosted, entry, member).err(),
            None => {
                let registration = Registration::new(member.name(), EventCodes::Default);
                let registered = seat_handler(&mut hosted.chains, member, registration);
                let problem =
                    |error| Problem::of_file(format!("--handler {}: {error}", member.name()));
                registered.map_err(problem).err()
            }
        };
        let problems: Vec<Problem> = self.members.iter().filter_map(seat).collect();
        if problems.is_empty() {
            Ok(hosted)
        } else {
            Err(Problems(problems))
        }
    }
}

/// Seats a module in every role that it fills.
fn seat_configured(
    hosted: &mut Hosted,
    entry: &ModuleEntry,
    member: &Arc<DeployedModule>,
) -> Result<(), Problem> {
    let (settings, module) = (&entry.settings, &member.module);
    let wrong = |key: &'static str| move |error: String| entry.problem(key, error);
    let cannot = |error: RegistrationError| {
        format!("module {} cannot be registered: {error}", settings.name)
    };
    let (name, place) = (&settings.name, || settings.placement.clone());
    let mode = placement_check::mode(settings);
    let roles = Role::ALL
        .into_iter()
        .filter(|role| module.has_role(*role))
        .collect();
    if module.has_role(Role::EventHandler) {
        let unused = placement_check::handler_keys(entry, &roles);
        if let (Some(first), false) = (unused.first(), member.wishes.is_empty()) {
            let message = format!(
                "module {name} registers its handlers itself: leave out {}",
                unused.join(", ")
            );
            return Err(entry.problem(first, message));
        }
        let registered = seat_handler(
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
            module: module.clone(),
            mode,
        };
        let added = hosted
            .policies
            .register(hook, name, place(), on_failure, policy);
        added.map_err(|error| wrong("module.placement")(error.to_string()))?;
    }
    if module.has_role(Role::LogChannel) {
        let added =
            hosted
                .channels
                .register(name, settings.channels.clone(), place(), module.clone());
        added.map_err(|error| wrong("module.channels")(error.to_string()))?;
    }
    Ok(())
}

/// Registers a module's handlers as it wishes, or if it has no wishes as its owner has it.
fn seat_handler(
    chains: &mut HostedChains,
    member: &DeployedModule,
    otherwise: Registration,
) -> Result<(), RegistrationError> {
    let (owner, module) = (&member.owner, &member.module);
    if member.wishes.is_empty() {
        return chains.register(owner.clone(), otherwise, HostedHandler::new(module.clone()));
    }
    let mode = otherwise.mode;
    member
        .wishes
        .iter()
        .try_for_each(|wish| chains.register_wish(owner.clone(), module, wish, mode))
}

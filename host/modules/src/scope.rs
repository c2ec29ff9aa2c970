//! Owner of a configured module, and what follows from it: chain, roles and grants.
use crate::limits::{has_grant, tenants_may_have};
use peal_config::{Config, ConfiguredScope, ModuleEntry, ModuleOwner, Problem, UserRef};
use peal_core::{owner::Owner, pattern::NspacePattern};
use peal_model::{Nspace, with_article};
use peal_sandbox::{Capability, Inspection, Role};

/// Owner or owners of a module.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ResolvedScope {
    /// The module belongs to one owner.
    One(Owner),
    /// Each job with a matching name has an instance of the module while it runs.
    Jobs(NspacePattern),
}

impl ResolvedScope {
    /// Returns the owners while these jobs are present.
    pub(crate) fn owners(&self, jobs: &[Nspace]) -> Vec<Owner> {
        match self {
            ResolvedScope::One(owner) => vec![owner.clone()],
            ResolvedScope::Jobs(pattern) => jobs
                .iter()
                .filter(|job| pattern.matches(job))
                .cloned()
                .map(Owner::Namespace)
                .collect(),
        }
    }

    /// Returns the kind of owner for the signature rules.
    pub(crate) fn module_owner(&self) -> ModuleOwner {
        match self {
            ResolvedScope::One(Owner::Site) => ModuleOwner::Site,
            ResolvedScope::One(Owner::User(_)) => ModuleOwner::User,
            ResolvedScope::One(Owner::Namespace(_)) | ResolvedScope::Jobs(_) => {
                ModuleOwner::Namespace
            }
        }
    }

    /// Returns one owner that represents all of them.
    pub(crate) fn any(&self) -> Owner {
        match self {
            ResolvedScope::One(owner) => owner.clone(),
            ResolvedScope::Jobs(pattern) => Owner::Namespace(pattern.as_nspace().clone()),
        }
    }
}

/// Resolves the scope of a module. Blocks for a lookup in the user database.
pub(crate) fn resolve_scope(entry: &ModuleEntry) -> Result<ResolvedScope, Problem> {
    if let ConfiguredScope::Namespace(pattern) = &entry.settings.scope
        && pattern.exact().is_none()
    {
        return Ok(ResolvedScope::Jobs(pattern.clone()));
    }
    owner(entry).map(ResolvedScope::One)
}

fn owner(entry: &ModuleEntry) -> Result<Owner, Problem> {
    match &entry.settings.scope {
        ConfiguredScope::Site => Ok(Owner::Site),
        ConfiguredScope::Namespace(pattern) => Ok(Owner::Namespace(pattern.as_nspace().clone())),
        ConfiguredScope::User(UserRef::Id(uid)) => Ok(Owner::User(*uid)),
        ConfiguredScope::User(UserRef::Name(name)) => {
            let wrong = |why: String| entry.problem("module.scope", format!("module.scope: {why}"));
            // Clients are known by their user ids, so the name is looked up here.
            match nix::unistd::User::from_name(name) {
                Ok(Some(user)) => Ok(Owner::User(user.uid.as_raw())),
                Ok(None) => Err(wrong(format!(
                    "there is no user {name:?} here; `getent passwd` lists those there are"
                ))),
                Err(error) => Err(wrong(format!("cannot look up user {name:?}: {error}"))),
            }
        }
    }
}

/// Returns roles and grants that are not allowed for the owner: policies and log channels are for
/// the site, since they act for all users.
pub fn unfit(
    entry: &ModuleEntry,
    owner: &Owner,
    found: &Inspection,
    config: &Config,
) -> Vec<Problem> {
    // The site may have every role and grant.
    if *owner == Owner::Site {
        return Vec::new();
    }
    let name = &entry.settings.name;
    let mut problems = Vec::new();
    for role in found
        .roles
        .iter()
        .filter(|role| !matches!(role, Role::EventHandler | Role::Lifecycle))
    {
        let message = format!(
            "module {name} is {}, which belongs to the site: leave out module.scope",
            with_article(role.name())
        );
        problems.push(entry.problem("module.scope", message));
    }
    let granted = |capability: &Capability| has_grant(entry, *capability);
    for capability in Capability::ALL
        .into_iter()
        .filter(granted)
        .filter(|grant| !tenants_may_have(config, *grant))
    {
        let grant = capability.name();
        let message = format!(
            "module {name} is of {owner} and cannot be granted {grant:?}: only the site's can (tenant.grants)"
        );
        problems.push(entry.problem("module.grants", message));
    }
    problems
}

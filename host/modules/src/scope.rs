//! Whose a module of the configuration is, and what follows from that: its chain, and what it may be.
use crate::{component::has_grant, limits::tenants_may_have};
use peal_config::{Config, ConfiguredScope, ModuleEntry, Problem, UserRef};
use peal_core::{owner::Owner, pattern::NspacePattern};
use peal_model::{Nspace, with_article};
use peal_sandbox::{Capability, Inspection, Role};

/// Whose a module is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ResolvedScope {
    /// It stands in the chain of one owner.
    One(Owner),
    /// Each job of such a name has one of its own, for as long as the job is there.
    Jobs(NspacePattern),
}

impl ResolvedScope {
    /// Those that there are while there are these jobs.
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

    /// One owner who stands for all that it may come to have.
    pub(crate) fn any(&self) -> Owner {
        match self {
            ResolvedScope::One(owner) => owner.clone(),
            ResolvedScope::Jobs(pattern) => Owner::Namespace(pattern.as_nspace().clone()),
        }
    }
}

/// Whose a module is by its settings. Blocks for as long as the system's directory takes.
pub(crate) fn whose(entry: &ModuleEntry) -> Result<ResolvedScope, Problem> {
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

/// What of a module does not go with whose it is: policies decide and channels log for everybody, so they are the site's.
pub fn unfit(
    entry: &ModuleEntry,
    owner: &Owner,
    found: &Inspection,
    config: &Config,
) -> Vec<Problem> {
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

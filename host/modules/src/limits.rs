//! Limits and grants of modules by the configuration, for each module and for all modules of one
//! owner.
use peal_config::{Config, FilesMode, Mode, Module, ModuleEntry, Problem};
use peal_core::owner::Owner;
use peal_sandbox::{
    Capability, Directories, DirectoryService, FileAccess, FuelCount, Grants, Isolation,
    ModuleLimits, Tenant, TenantLimits,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};
use thiserror::Error;

/// Returns the limits of a configured module.
pub(crate) fn of_module(settings: &Module, owner: &Owner) -> ModuleLimits {
    let limits = &settings.limits;
    ModuleLimits {
        memory_bytes: limits.memory_bytes,
        total_memory_bytes: limits.total_memory_bytes,
        call_time: limits.call_time,
        host_call_time: limits.host_call_time,
        fuel: limits.fuel,
        output_bytes: limits.output_bytes,
        raised_events: limits.raised_events,
        host_calls: limits.host_calls,
        log_lines_per_second: limits.log_lines_per_second,
        calls_per_instance: limits.calls_per_instance,
        idle_instances: limits.idle_instances,
        isolation: isolation(settings.isolation, owner),
        failures: limits.failures,
        failure_window: limits.failure_window,
    }
}

/// Returns the limits of a job-supplied module.
pub(crate) fn of_job_supplied(config: &Config) -> ModuleLimits {
    let limits = &config.job_supplied;
    ModuleLimits {
        memory_bytes: limits.memory_bytes,
        call_time: limits.call_time,
        host_call_time: limits.host_call_time,
        fuel: limits.fuel,
        output_bytes: limits.output_bytes,
        raised_events: limits.raised_events,
        host_calls: limits.host_calls,
        log_lines_per_second: limits.log_lines_per_second,
        isolation: Isolation::Namespace,
        // Job-supplied modules have no settings for these.
        ..ModuleLimits::default()
    }
}

/// Caps limits of a user's module at those of job-supplied modules.
pub(crate) fn capped(limits: ModuleLimits, config: &Config) -> ModuleLimits {
    let most = of_job_supplied(config);
    ModuleLimits {
        memory_bytes: limits.memory_bytes.min(most.memory_bytes),
        call_time: limits.call_time.min(most.call_time),
        host_call_time: limits.host_call_time.min(most.host_call_time),
        // A limit that only one of them sets holds as well.
        fuel: [limits.fuel, most.fuel].into_iter().flatten().min(),
        output_bytes: limits.output_bytes.min(most.output_bytes),
        raised_events: limits.raised_events.min(most.raised_events),
        host_calls: limits.host_calls.min(most.host_calls),
        log_lines_per_second: limits.log_lines_per_second.min(most.log_lines_per_second),
        ..limits
    }
}

/// Returns the isolation: by default, no job finds data of another job in a module's memory.
fn isolation(set: Option<peal_config::Isolation>, owner: &Owner) -> Isolation {
    match set {
        Some(peal_config::Isolation::Module) => Isolation::Module,
        Some(peal_config::Isolation::Namespace) => Isolation::Namespace,
        Some(peal_config::Isolation::Call) => Isolation::Call,
        None if *owner == Owner::Site => Isolation::Module,
        None => Isolation::Namespace,
    }
}

/// Converts the setting for fuel.
pub(crate) fn fuel(set: peal_config::FuelCount) -> FuelCount {
    match set {
        peal_config::FuelCount::WhereLimited => FuelCount::WhereLimited,
        peal_config::FuelCount::Always => FuelCount::Always,
    }
}

/// Returns the grants of job-supplied modules. State, sinks and files need a module with a name.
pub(crate) fn job_supplied_grants(config: &Config) -> Grants {
    let may_have =
        |grant: &Capability| !is_for_configured(*grant) && tenants_may_have(config, *grant);
    Capability::ALL.into_iter().filter(may_have).collect()
}

/// Returns true if only configured modules may have this capability, since it needs further
/// settings.
pub(crate) fn is_for_configured(capability: Capability) -> bool {
    matches!(
        capability,
        Capability::State | Capability::Sink | Capability::Files
    )
}

/// Returns true if modules of users and jobs may have this capability.
pub(crate) fn tenants_may_have(config: &Config, capability: Capability) -> bool {
    config
        .tenant
        .grants
        .iter()
        .any(|grant| grant == capability.name())
}

/// Returns true if the configuration grants a capability to a module.
pub(crate) fn has_grant(entry: &ModuleEntry, capability: Capability) -> bool {
    entry
        .settings
        .grants
        .iter()
        .any(|grant| grant == capability.name())
}

/// Returns the grants of a module.
pub(crate) fn grants(entry: &ModuleEntry) -> Grants {
    Capability::ALL
        .into_iter()
        .filter(|capability| has_grant(entry, *capability))
        .collect()
}

/// Opens the directories that a module may use.
pub(crate) fn files(
    entry: &ModuleEntry,
    mode: Mode,
    directories: &Directories,
) -> Result<BTreeMap<String, Arc<dyn DirectoryService>>, Problem> {
    let open = |files: &peal_config::DirectoryGrant| {
        let access = match (files.mode, mode) {
            // Writes of a shadow could not be taken back.
            (FilesMode::Read, _) | (_, Mode::Shadow) => FileAccess::Read,
            (FilesMode::ReadWrite, Mode::Active) => FileAccess::ReadWrite {
                quota: files.max_bytes,
            },
        };
        match directories.open(&files.path, access) {
            Ok(directory) => {
                let directory: Arc<dyn DirectoryService> = Arc::new(directory);
                Ok((files.name.clone(), directory))
            }
            Err(error) => {
                let message = format!("cannot use the directory {}: {error}", files.path.display());
                Err(entry.problem("module.files", message))
            }
        }
    };
    entry.settings.files.iter().map(open).collect()
}

/// Error: an owner exceeds the maximum number of modules.
#[derive(Debug, Error)]
#[error("{owner} would have more than {most} modules (tenant.max_modules)")]
pub(crate) struct TooMany {
    owner: Owner,
    most: usize,
}

/// Number of modules of each owner in a set. The site has no limit.
pub(crate) struct ModuleCount {
    most: usize,
    module_counts: BTreeMap<Owner, usize>,
}

impl ModuleCount {
    /// Creates empty counts.
    pub(crate) fn new(config: &Config) -> ModuleCount {
        ModuleCount {
            most: config.tenant.max_modules,
            module_counts: BTreeMap::new(),
        }
    }

    /// Counts a module of this owner.
    pub(crate) fn add(&mut self, owner: &Owner) -> Result<(), TooMany> {
        let module_counts = self.module_counts.entry(owner.clone()).or_default();
        if *owner != Owner::Site && *module_counts >= self.most {
            return Err(TooMany {
                owner: owner.clone(),
                most: self.most,
            });
        }
        *module_counts += 1;
        Ok(())
    }
}

/// Returns the limits that the modules of one owner share.
pub(crate) fn tenant_limits(config: &Config) -> TenantLimits {
    TenantLimits {
        memory: config.tenant.max_memory_bytes,
        instances: config.tenant.max_instances,
    }
}

/// Resource use of all modules of each owner, across sets: while one set replaces another, both
/// count.
pub(crate) struct Tenants {
    limits: TenantLimits,
    known: Mutex<BTreeMap<Owner, Tenant>>,
}

impl Tenants {
    /// Creates empty accounts.
    pub(crate) fn new(config: &Config) -> Tenants {
        Tenants {
            limits: tenant_limits(config),
            known: Mutex::default(),
        }
    }

    /// Returns the account of this owner; `None` for the site, which has no such limits.
    pub(crate) fn of(&self, owner: &Owner) -> Option<Tenant> {
        if *owner == Owner::Site {
            return None;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Owners without modules are forgotten: otherwise the namespaces of all past jobs would
        // stay.
        known.retain(|other, tenant| other == owner || tenant.is_used());
        Some(
            known
                .entry(owner.clone())
                .or_insert_with(|| Tenant::new(self.limits))
                .clone(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::Nspace;

    #[test]
    fn the_table_of_settings_has_the_defaults_of_the_sandbox() {
        assert_eq!(
            of_module(&Module::default(), &Owner::Site),
            ModuleLimits::default()
        );
        let shared = ModuleLimits {
            isolation: Isolation::Namespace,
            ..ModuleLimits::default()
        };
        assert_eq!(of_module(&Module::default(), &Owner::User(1)), shared);
        assert_eq!(of_job_supplied(&Config::default()), shared);
        assert_eq!(job_supplied_grants(&Config::default()), Grants::tenant());
        let tenant = TenantLimits {
            memory: Config::default().tenant.max_memory_bytes,
            instances: Config::default().tenant.max_instances,
        };
        assert_eq!(tenant, TenantLimits::default());
        assert_eq!(fuel(Config::default().sandbox.fuel), FuelCount::default());
    }

    #[test]
    fn an_owner_has_so_many_modules_and_no_more() {
        let mut config = Config::default();
        config.tenant.max_modules = 2;
        let mut module_counts = ModuleCount::new(&config);
        let job = Owner::Namespace(Nspace::new("job").unwrap());
        assert!(module_counts.add(&job).is_ok() && module_counts.add(&job).is_ok());
        let error = module_counts.add(&job).unwrap_err().to_string();
        assert_eq!(
            error,
            "namespace job would have more than 2 modules (tenant.max_modules)"
        );
        assert!(module_counts.add(&Owner::User(1)).is_ok());
        assert!((0..50).all(|_| module_counts.add(&Owner::Site).is_ok()));
        let tenants = Tenants::new(&config);
        assert!(tenants.of(&Owner::Site).is_none() && tenants.of(&job).is_some());
    }
}

//! Module that a server has loaded, wherever it runs.
use crate::tenant_module::TenantModule;
use peal_sandbox::{Digest, Inspection, Module, ModuleHealth, Role};
use std::sync::Arc;

/// Module of a server.
#[derive(Clone, Debug)]
pub enum LoadedModule {
    /// It runs in this process.
    Here(Arc<Module>),
    /// It runs in the process of its user.
    Tenant(Arc<TenantModule>),
}

impl LoadedModule {
    /// Returns the admin's name of the module.
    pub fn name(&self) -> &str {
        match self {
            LoadedModule::Here(module) => module.name(),
            LoadedModule::Tenant(module) => module.name(),
        }
    }

    /// Returns the digest of the component.
    pub fn digest(&self) -> Digest {
        self.inspection().digest
    }

    /// Returns the inspection of the component.
    pub fn inspection(&self) -> &Inspection {
        match self {
            LoadedModule::Here(module) => module.inspection(),
            LoadedModule::Tenant(module) => module.inspection(),
        }
    }

    /// Returns true if the module has a role.
    pub fn has_role(&self, role: Role) -> bool {
        self.inspection().roles.contains(&role)
    }

    /// Returns the bytes of memory that the instances take, for a module of a user those after its last
    /// call.
    pub fn memory(&self) -> usize {
        match self {
            LoadedModule::Here(module) => module.memory(),
            LoadedModule::Tenant(module) => module.memory(),
        }
    }

    /// Returns whether the module is quarantined, and its recent failures.
    pub fn health(&self) -> ModuleHealth {
        match self {
            LoadedModule::Here(module) => module.health(),
            LoadedModule::Tenant(module) => module.health(),
        }
    }

    /// Takes over the quarantine of the module that this one replaces.
    pub fn stay_quarantined(&self, before: &ModuleHealth) {
        match self {
            LoadedModule::Here(module) => module.stay_quarantined(before),
            LoadedModule::Tenant(module) => module.stay_quarantined(before),
        }
    }

    /// Lifts the quarantine and forgets the failures.
    pub fn reset(&self) {
        match self {
            LoadedModule::Here(module) => module.reset(),
            LoadedModule::Tenant(module) => module.reset(),
        }
    }

    /// Stops the module: its instances are dropped, and later calls fail. Blocks.
    pub fn stop(&self) {
        match self {
            LoadedModule::Here(module) => module.stop(),
            LoadedModule::Tenant(module) => module.stop(),
        }
    }

    /// Returns the module if it runs in this process.
    pub fn here(&self) -> Option<&Arc<Module>> {
        match self {
            LoadedModule::Here(module) => Some(module),
            LoadedModule::Tenant(_) => None,
        }
    }

    /// Returns the module if it runs in the process of its user.
    pub fn tenant(&self) -> Option<&Arc<TenantModule>> {
        match self {
            LoadedModule::Here(_) => None,
            LoadedModule::Tenant(module) => Some(module),
        }
    }

    /// Returns true if both are the same loaded module.
    pub fn is_same(&self, other: &LoadedModule) -> bool {
        match (self, other) {
            (LoadedModule::Here(one), LoadedModule::Here(other)) => Arc::ptr_eq(one, other),
            (LoadedModule::Tenant(one), LoadedModule::Tenant(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl From<Arc<Module>> for LoadedModule {
    fn from(module: Arc<Module>) -> LoadedModule {
        LoadedModule::Here(module)
    }
}

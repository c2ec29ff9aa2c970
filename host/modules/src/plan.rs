//! Changes that requests of admins ask for, before they are made or checked.
use crate::{
    cluster_set::{self, is_of_cluster},
    deployer::Deployer,
    error::DeployError,
    overrides::Overrides,
    version::DesiredModule,
};
use peal_config::{Mode, nearest};
use peal_server::admin::ModuleCall;
use peal_store::ModuleOverride;
use std::sync::Arc;

/// Change of the running modules.
pub(crate) enum ModulePlan {
    /// The quarantine of the module with this name ends.
    Reset(String),
    /// Other overrides by admins apply to the same modules.
    Overrides { overrides: Overrides, cause: String },
    /// Other modules are desired.
    Modules {
        modules: Arc<[DesiredModule]>,
        cause: String,
    },
}

impl Deployer {
    /// Returns the change that a request asks for.
    ///
    /// # Errors
    ///
    /// Fails if the request changes nothing, or names a module or version that is not there, or a module of
    /// another mode.
    pub(crate) fn plan(&self, call: &ModuleCall) -> Result<ModulePlan, DeployError> {
        match call {
            ModuleCall::List | ModuleCall::Diff { .. } => Err(DeployError::NoChange),
            ModuleCall::Reset { name } => {
                self.find(name)?;
                Ok(ModulePlan::Reset(name.clone()))
            }
            ModuleCall::Disable { name } => {
                self.find(name)?;
                Ok(ModulePlan::Overrides {
                    overrides: self.overrides.with(name, ModuleOverride::Disabled),
                    cause: format!("disable {name}"),
                })
            }
            ModuleCall::Enable { name } => {
                self.find(name)?;
                Ok(ModulePlan::Overrides {
                    overrides: self.overrides.without(name, ModuleOverride::Disabled),
                    cause: format!("enable {name}"),
                })
            }
            ModuleCall::Promote { name } => self.plan_promotion(name),
            ModuleCall::Rollback { to } => self.plan_rollback(*to),
            ModuleCall::Cluster { .. } => Err(DeployError::NoCluster),
        }
    }

    /// Makes a shadow module active.
    fn plan_promotion(&self, name: &str) -> Result<ModulePlan, DeployError> {
        let (entry, component) = self.find(name)?;
        if entry.settings.mode != Mode::Shadow {
            return Err(DeployError::NoShadow {
                name: name.to_owned(),
            });
        }
        let overrides = self.overrides.with(
            name,
            // For this component only: other bytes of that name must be promoted again.
            ModuleOverride::Promoted(component.inspection.digest.0),
        );
        Ok(ModulePlan::Overrides {
            overrides,
            cause: format!("promote {name}"),
        })
    }

    /// Returns to an earlier version of the set; the previous one if none is given.
    fn plan_rollback(&self, to: Option<u64>) -> Result<ModulePlan, DeployError> {
        let version = match to {
            None => self.versions.previous().ok_or(DeployError::NoPrevious)?,
            Some(number) => {
                self.versions
                    .numbered(number)
                    .ok_or_else(|| DeployError::NoSuchVersion {
                        number,
                        stored_versions: self
                            .versions
                            .statuses()
                            .iter()
                            .map(|kept| kept.version.to_string())
                            .collect::<Vec<_>>()
                            .join(", "),
                    })?
            }
        };
        // The modules of the cluster are the same on all nodes, and stay.
        let own = version
            .modules
            .iter()
            .filter(|module| !is_of_cluster(module));
        let desired = cluster_set::joined(own.cloned(), self.cluster_modules())?;
        Ok(ModulePlan::Modules {
            modules: desired.into(),
            cause: format!("rollback to {}", version.number),
        })
    }

    /// Finds a desired module by name.
    pub(crate) fn find(&self, name: &str) -> Result<DesiredModule, DeployError> {
        let desired = self.everything(&self.desired_modules());
        if let Some(found) = desired
            .iter()
            .find(|(_, component)| component.title == name)
        {
            return Ok(found.clone());
        }
        let near = nearest(
            name,
            desired
                .iter()
                .map(|(_, component)| component.title.as_str()),
        )
        .map(str::to_owned);
        Err(DeployError::NoSuchModule {
            name: name.to_owned(),
            similar_name: near,
        })
    }
}

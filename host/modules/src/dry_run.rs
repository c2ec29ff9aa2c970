//! Checks of changes of the running modules. Modules are loaded and placed as for the change, and not
//! activated.
use crate::{
    deployer::{ConfiguredModules, Deployer},
    error::DeployError,
    overrides::{Overrides, changes},
    plan::ModulePlan,
    version::DesiredModule,
};
use peal_config::{Config, ModuleEntry, Modules};
use peal_server::admin::{Deployed, ModuleCall};
use std::sync::Arc;

/// Result of the check of a configuration.
pub struct CheckedConfiguration {
    /// Changes, and the version that runs.
    pub deployed: Deployed,
    /// Names of the modules whose artefacts would be fetched.
    pub fetching: Vec<String>,
}

impl Deployer {
    /// Returns the changes that a request would make.
    ///
    /// # Errors
    ///
    /// Fails if the request would be refused.
    pub async fn check(&self, call: &ModuleCall) -> Result<Deployed, DeployError> {
        match self.plan(call)? {
            ModulePlan::Reset(name) => Ok(self.reset(&name)),
            ModulePlan::Overrides { overrides, .. } => {
                self.check_set(&self.desired_modules(), &overrides, self.loader.rules())
                    .await
            }
            ModulePlan::Modules { modules, .. } => {
                self.check_set(&modules, &self.overrides, self.loader.rules())
                    .await
            }
        }
    }

    /// Returns the changes that the modules of a configuration would make, by its rules for signatures.
    ///
    /// # Errors
    ///
    /// Fails if the configuration would be refused.
    pub async fn check_configuration(
        &self,
        modules: Vec<ModuleEntry>,
        config: &Config,
    ) -> Result<CheckedConfiguration, DeployError> {
        let configured = self.read_configured(modules, config).await;
        let ConfiguredModules { desired, awaited } = configured.map_err(DeployError::Unfit)?;
        let overrides = self.overrides.still_of(&self.everything(&desired));
        let awaited = awaited.into_iter();
        Ok(CheckedConfiguration {
            deployed: self
                .check_set(&desired, &overrides, config.modules.clone())
                .await?,
            fetching: awaited.map(|module| module.entry.settings.name).collect(),
        })
    }

    async fn check_set(
        &self,
        modules: &[DesiredModule],
        overrides: &Overrides,
        rules: Modules,
    ) -> Result<Deployed, DeployError> {
        let standing: Arc<[DesiredModule]> = overrides.applied(&self.everything(modules)).into();
        let changes = changes(&self.standing, &standing);
        if !changes.is_empty() {
            self.load(standing, rules).await?;
        }
        Ok(Deployed {
            changes: overrides.marked(&self.known(), changes),
            ..self.unchanged()
        })
    }
}

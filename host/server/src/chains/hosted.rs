//! Chains of a set of modules, before a server runs them.
use super::{
    ChainView, HostedHandler,
    chain_modules::{ChainModule, ChainModules},
    change,
};
use peal_core::{
    owner::Owner,
    registration::{EventCodes, HandlerLocation, HandlerRegistration, Mode, RegistrationError},
};
use peal_model::ModuleRegistration;
use peal_tenant::LoadedModule;
use std::{collections::BTreeMap, sync::Arc};

/// Chains of one server, before it starts or before they replace its current ones.
#[derive(Default)]
pub struct HostedChains {
    pub(super) owners: BTreeMap<Owner, Vec<ChainModule>>,
    /// Chains that these replace.
    before: BTreeMap<Owner, Arc<ChainModules>>,
}

impl HostedChains {
    /// Returns empty chains that replace the running ones. A module in both keeps its current
    /// registrations.
    pub fn instead_of(running: &ChainView) -> HostedChains {
        HostedChains {
            owners: BTreeMap::new(),
            before: running.modules_by_owner(),
        }
    }

    /// Adds a module's handler to its owner's chain.
    pub fn register(
        &mut self,
        owner: Owner,
        registration: HandlerRegistration,
        handler: HostedHandler,
    ) -> Result<(), RegistrationError> {
        let module = handler.module.clone();
        let modules = self.owners.entry(owner.clone()).or_default();
        match modules
            .iter_mut()
            .find(|member| member.module.is_same(&handler.module))
        {
            Some(member) => member.registrations.push((registration, handler)),
            None => {
                let module = handler.module.clone();
                modules.push(ChainModule {
                    module,
                    registrations: vec![(registration, handler)],
                });
            }
        }
        self.check(&owner, &module)
    }

    /// Adds a handler as its module requests it.
    pub fn register_requested(
        &mut self,
        owner: Owner,
        module: &LoadedModule,
        request: &ModuleRegistration,
        (mode, location): (Mode, HandlerLocation),
    ) -> Result<(), RegistrationError> {
        let (registration, handler) =
            change::requested_registration(&owner, module, request, (mode, location))?;
        self.register(owner, registration, handler)
    }

    /// Returns the codes for which handlers are registered.
    pub(super) fn codes(&self) -> Vec<EventCodes> {
        let registrations = self
            .owners
            .values()
            .flatten()
            .flat_map(|member| &member.registrations);
        registrations
            .map(|(registration, _)| registration.codes.clone())
            .collect()
    }

    /// Returns an error if the registrations of a new module are not possible beside those added so
    /// far. A module that stays is not checked: it may be placed next to handlers that are added
    /// later or were removed. Its conflicts are found when the chain is replaced.
    fn check(&self, owner: &Owner, module: &LoadedModule) -> Result<(), RegistrationError> {
        let empty = Arc::default();
        let before: &ChainModules = self.before.get(owner).unwrap_or(&empty);
        let (_, conflicts) = before.replaced_by(
            self.owners
                .get(owner)
                .map(Vec::as_slice)
                .unwrap_or_default(),
        );
        // Conflicts of other modules were reported when those were added.
        let own = conflicts
            .into_iter()
            .find(|conflict| conflict.module.is_same(module) && !before.has(module));
        own.map_or(Ok(()), |conflict| Err(conflict.error))
    }
}

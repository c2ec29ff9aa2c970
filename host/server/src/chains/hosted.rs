//! The chains of a set of modules, before a server runs them.
use super::{
    ChainView, HostedHandler,
    chain_modules::{ChainModule, ChainModules},
    change,
};
use peal_core::{
    owner::Owner,
    registration::{EventCodes, Mode, Registration, RegistrationError},
};
use peal_model::ModuleRegistration;
use peal_sandbox::Module;
use std::{collections::BTreeMap, sync::Arc};

/// The chains of one server, before it starts, or before they take the place of those that it has.
#[derive(Default)]
pub struct HostedChains {
    pub(super) owners: BTreeMap<Owner, Vec<ChainModule>>,
    /// What these would take the place of.
    before: BTreeMap<Owner, Arc<ChainModules>>,
}

impl HostedChains {
    /// Chains that are to take the place of these. A module that is in both keeps its registrations as they are.
    pub fn instead_of(running: &ChainView) -> HostedChains {
        HostedChains {
            owners: BTreeMap::new(),
            before: running.seated(),
        }
    }

    /// Adds a module's handler to its owner's chain.
    pub fn register(
        &mut self,
        owner: Owner,
        registration: Registration,
        handler: HostedHandler,
    ) -> Result<(), RegistrationError> {
        let module = handler.module.clone();
        let seats = self.owners.entry(owner.clone()).or_default();
        match seats
            .iter_mut()
            .find(|seat| Arc::ptr_eq(&seat.module, &handler.module))
        {
            Some(seat) => seat.registrations.push((registration, handler)),
            None => {
                let module = handler.module.clone();
                seats.push(ChainModule {
                    module,
                    registrations: vec![(registration, handler)],
                });
            }
        }
        self.check(&owner, &module)
    }

    /// Adds a handler of a module as the module wishes it.
    pub fn register_wish(
        &mut self,
        owner: Owner,
        module: &Arc<Module>,
        wish: &ModuleRegistration,
        mode: Mode,
    ) -> Result<(), RegistrationError> {
        let (registration, handler) = change::wished(&owner, module, wish, mode)?;
        self.register(owner, registration, handler)
    }

    /// The codes for which handlers are registered.
    pub(super) fn codes(&self) -> Vec<EventCodes> {
        let registrations = self
            .owners
            .values()
            .flatten()
            .flat_map(|seat| &seat.registrations);
        registrations
            .map(|(registration, _)| registration.codes.clone())
            .collect()
    }

    /// Whether this module, if it comes, has a place among those who are in this chain so far. One that stays may have registered
    /// itself beside others that come later or are gone: what becomes of that is seen when all sit.
    fn check(&self, owner: &Owner, module: &Arc<Module>) -> Result<(), RegistrationError> {
        let nobody = Arc::default();
        let before: &ChainModules = self.before.get(owner).unwrap_or(&nobody);
        let (_, clashes) = before.replaced_by(
            self.owners
                .get(owner)
                .map(Vec::as_slice)
                .unwrap_or_default(),
        );
        let own = clashes
            .into_iter()
            .find(|clash| Arc::ptr_eq(&clash.module, module) && !before.has(module));
        own.map_or(Ok(()), |clash| Err(clash.error))
    }
}

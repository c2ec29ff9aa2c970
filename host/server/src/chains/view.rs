//! View of the registrations in the hosted chains. Each worker publishes its registrations when
//! they change, so that readers never delay an event.
use super::chain_modules::ChainModules;
use peal_core::{
    owner::Owner,
    registration::{HandlerRegistration, RegistrationId},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Registered handler.
#[derive(Clone, Debug)]
pub struct RegisteredHandler {
    /// Number of the registration, unique in its owner's chain.
    pub id: RegistrationId,
    /// Registration.
    pub registration: Arc<HandlerRegistration>,
    /// Name of the module that is called.
    pub module: String,
}

/// Current chains of a server.
#[derive(Clone, Debug, Default)]
pub struct ChainView(Arc<Mutex<BTreeMap<Owner, Arc<ChainModules>>>>);

impl ChainView {
    /// Publishes the current modules and registrations of an owner's chain.
    pub(super) fn publish(&self, owner: &Owner, modules: &ChainModules) {
        self.map().insert(owner.clone(), Arc::new(modules.clone()));
    }

    /// Removes an owner's chain.
    pub(super) fn withdraw(&self, owner: &Owner) {
        self.map().remove(owner);
    }

    /// Returns each owner's chain, in the order in which the chains and their handlers run.
    pub fn chains(&self) -> Vec<(Owner, Vec<RegisteredHandler>)> {
        let handlers = |modules: &ChainModules| {
            let each = modules
                .registrations
                .iter()
                .map(|member| RegisteredHandler {
                    id: member.id,
                    registration: member.registration.clone(),
                    module: member.handler.module.name().to_owned(),
                });
            each.collect()
        };
        self.modules_by_owner()
            .iter()
            .map(|(owner, modules)| (owner.clone(), handlers(modules)))
            .collect()
    }

    pub(super) fn modules_by_owner(&self) -> BTreeMap<Owner, Arc<ChainModules>> {
        // A copy of the references keeps the lock short.
        self.map().clone()
    }

    fn map(&self) -> MutexGuard<'_, BTreeMap<Owner, Arc<ChainModules>>> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

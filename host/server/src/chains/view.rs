//! What is registered in the hosted chains, for whoever asks: each worker publishes its registrations whenever they change, so
//! that nobody who looks at them holds up an event.
use super::chain_modules::ChainModules;
use peal_core::{
    owner::Owner,
    registration::{Registration, RegistrationId},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A handler that is registered.
#[derive(Clone, Debug)]
pub struct RegisteredHandler {
    /// The number of the registration, in its owner's chain.
    pub id: RegistrationId,
    /// What it asks for.
    pub registration: Arc<Registration>,
    /// The module that is called.
    pub module: String,
}

/// The chains of a server, as they are.
#[derive(Clone, Debug, Default)]
pub struct ChainView(Arc<Mutex<BTreeMap<Owner, Arc<ChainModules>>>>);

impl ChainView {
    /// What stands in an owner's chain has changed.
    pub(super) fn publish(&self, owner: &Owner, seated: &ChainModules) {
        self.map().insert(owner.clone(), Arc::new(seated.clone()));
    }

    /// An owner has no chain any more.
    pub(super) fn withdraw(&self, owner: &Owner) {
        self.map().remove(owner);
    }

    /// Each owner's chain, in the order in which they and their handlers run.
    pub fn chains(&self) -> Vec<(Owner, Vec<RegisteredHandler>)> {
        let standing = |seated: &ChainModules| {
            let each = seated
                .registrations
                .iter()
                .map(|(id, registration, handler)| RegisteredHandler {
                    id,
                    registration: registration.clone(),
                    module: handler.module.name().to_owned(),
                });
            each.collect()
        };
        self.seated()
            .iter()
            .map(|(owner, seated)| (owner.clone(), standing(seated)))
            .collect()
    }

    pub(super) fn seated(&self) -> BTreeMap<Owner, Arc<ChainModules>> {
        self.map().clone()
    }

    fn map(&self) -> MutexGuard<'_, BTreeMap<Owner, Arc<ChainModules>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

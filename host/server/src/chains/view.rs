//! What is registered in the hosted chains, for whoever asks: each worker publishes its registrations whenever they change, so
//! that nobody who looks at them holds up an event.
use super::HostedHandler;
use peal_core::{
    order::Registrations,
    owner::Owner,
    registration::{Registration, RegistrationId},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A handler that is registered.
#[derive(Clone, PartialEq, Debug)]
pub struct Standing {
    /// The number of the registration, in its owner's chain.
    pub id: RegistrationId,
    /// What it asks for.
    pub registration: Registration,
    /// The module that is called.
    pub module: String,
}

/// The chains of a server, as they are.
#[derive(Clone, Debug, Default)]
pub struct ChainView(Arc<Mutex<BTreeMap<Owner, Arc<[Standing]>>>>);

impl ChainView {
    /// What stands in an owner's chain has changed.
    pub(super) fn publish(&self, owner: &Owner, registrations: &Registrations<HostedHandler>) {
        let standing = registrations.iter().map(|(id, registration, handler)| {
            let module = handler.module.name().to_owned();
            Standing { id, registration: registration.clone(), module }
        });
        self.map().insert(owner.clone(), standing.collect());
    }

    /// Each owner's chain, in the order in which they and their handlers run.
    pub fn chains(&self) -> Vec<(Owner, Arc<[Standing]>)> {
        self.map().iter().map(|(owner, standing)| (owner.clone(), standing.clone())).collect()
    }

    fn map(&self) -> MutexGuard<'_, BTreeMap<Owner, Arc<[Standing]>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

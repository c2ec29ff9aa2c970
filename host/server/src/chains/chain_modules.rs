//! Who sits in an owner's chain, and how one set of modules takes the place of another: those that stay keep their registrations
//! as these have become, with their numbers; those that come have what they were given.
use super::HostedHandler;
use peal_core::{
    order::Registrations,
    registration::{Registration, RegistrationError, RegistrationId},
};
use peal_sandbox::Module;
use std::sync::Arc;

/// A module in a chain, and what it is registered for when it comes into it.
#[derive(Clone, Debug)]
pub(crate) struct ChainModule {
    pub(super) module: Arc<Module>,
    pub(super) registrations: Vec<(Registration, HostedHandler)>,
}

/// The modules of a chain and their registrations, as they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChainModules {
    pub(super) registrations: Registrations<HostedHandler>,
    /// Also those that have taken all their registrations back.
    pub(super) modules: Vec<Arc<Module>>,
}

/// A registration that has no place in a new set.
#[derive(Debug)]
pub(super) struct RegistrationConflict {
    pub(super) module: Arc<Module>,
    pub(super) error: RegistrationError,
}

/// A registration of a module that stays, with its number.
type KeptRegistration<'a> = (RegistrationId, &'a Arc<Registration>, &'a HostedHandler);

impl ChainModules {
    /// What these become when others take their place, and what of it cannot be.
    pub(super) fn replaced_by(
        &self,
        seats: &[ChainModule],
    ) -> (ChainModules, Vec<RegistrationConflict>) {
        let mut new = ChainModules {
            registrations: Registrations::instead_of(&self.registrations),
            modules: Vec::new(),
        };
        let (mut clashes, mut waiting) = (Vec::new(), Vec::new());
        for seat in seats {
            if self.has(&seat.module) {
                waiting.extend(new.keep(self.registrations_of(&seat.module)));
            } else {
                clashes.extend(new.admit(seat));
            }
            new.modules.push(seat.module.clone());
        }
        // What was registered beside a later one has that before it now.
        while !waiting.is_empty() {
            let left = waiting.len();
            waiting = new.keep(waiting.into_iter().map(|(kept, _)| kept).collect());
            if waiting.len() == left {
                break;
            }
        }
        clashes.extend(
            waiting
                .into_iter()
                .map(|((_, _, handler), error)| RegistrationConflict {
                    module: handler.module.clone(),
                    error,
                }),
        );
        (new, clashes)
    }

    pub(super) fn has(&self, module: &Arc<Module>) -> bool {
        self.modules.iter().any(|own| Arc::ptr_eq(own, module))
    }

    /// In the order in which they were made, on which their places depend.
    fn registrations_of(&self, module: &Arc<Module>) -> Vec<KeptRegistration<'_>> {
        let mut own: Vec<KeptRegistration<'_>> = self
            .registrations
            .iter()
            .filter(|(_, _, handler)| Arc::ptr_eq(&handler.module, module))
            .collect();
        own.sort_by_key(|kept| kept.0);
        own
    }

    /// Takes over what there is room for; returns the rest, and why.
    fn keep<'a>(
        &mut self,
        kept: Vec<KeptRegistration<'a>>,
    ) -> Vec<(KeptRegistration<'a>, RegistrationError)> {
        let take = |(id, registration, handler): KeptRegistration<'a>| {
            let taken = self
                .registrations
                .take_over(id, registration, handler.clone());
            taken
                .err()
                .map(|error| ((id, registration, handler), error))
        };
        kept.into_iter().filter_map(take).collect()
    }

    /// Registers what a module that comes was given, as far as there is room for it.
    fn admit(&mut self, seat: &ChainModule) -> Vec<RegistrationConflict> {
        let register = |(registration, handler): &(Registration, HostedHandler)| {
            let registered = self
                .registrations
                .register(registration.clone(), handler.clone());
            registered.err().map(|error| RegistrationConflict {
                module: seat.module.clone(),
                error,
            })
        };
        seat.registrations.iter().filter_map(register).collect()
    }
}

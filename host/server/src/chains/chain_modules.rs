//! Modules of an owner's chain and their replacement. Modules that stay keep their current
//! registrations with their numbers; new modules get the registrations that they were given.
use super::HostedHandler;
use peal_core::{
    chain::ChainMember,
    order::Registrations,
    registration::{HandlerRegistration, RegistrationError},
};
use peal_tenant::LoadedModule;
use std::sync::Arc;

/// Module in a chain, with its registrations at the time it is added.
#[derive(Clone, Debug)]
pub(crate) struct ChainModule {
    pub(super) module: LoadedModule,
    pub(super) registrations: Vec<(HandlerRegistration, HostedHandler)>,
}

/// Modules of a chain and their current registrations.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChainModules {
    pub(super) registrations: Registrations<HostedHandler>,
    /// All modules, including those that have deregistered everything.
    pub(super) modules: Vec<LoadedModule>,
}

/// Registration that is not possible in a new set.
#[derive(Debug)]
pub(super) struct RegistrationConflict {
    pub(super) module: LoadedModule,
    pub(super) error: RegistrationError,
}

/// Registration of a module that stays, with its number.
type KeptRegistration = Arc<ChainMember<HostedHandler>>;

impl ChainModules {
    /// Returns the chain after a replacement of its modules, and the registrations that are not
    /// possible in it.
    pub(super) fn replaced_by(
        &self,
        modules: &[ChainModule],
    ) -> (ChainModules, Vec<RegistrationConflict>) {
        let mut new = ChainModules {
            registrations: Registrations::instead_of(&self.registrations),
            modules: Vec::new(),
        };
        let mut conflicts = Vec::new();
        let mut waiting = Vec::new();
        for member in modules {
            if self.has(&member.module) {
                waiting.extend(new.keep(self.registrations_of(&member.module)));
            } else {
                conflicts.extend(new.admit(member));
            }
            new.modules.push(member.module.clone());
        }
        // A registration placed next to a handler of a later module is possible only now. Each pass
        // may enable others, so repeat until none succeeds.
        while !waiting.is_empty() {
            let left = waiting.len();
            waiting = new.keep(waiting.into_iter().map(|(kept, _)| kept).collect());
            if waiting.len() == left {
                break;
            }
        }
        conflicts.extend(
            waiting
                .into_iter()
                .map(|(kept, error)| RegistrationConflict {
                    module: kept.handler.module.clone(),
                    error,
                }),
        );
        (new, conflicts)
    }

    pub(super) fn has(&self, module: &LoadedModule) -> bool {
        self.modules.iter().any(|own| own.is_same(module))
    }

    /// Returns the registrations of a module in the order in which they were made, on which their
    /// placement depends.
    fn registrations_of(&self, module: &LoadedModule) -> Vec<KeptRegistration> {
        let mut own: Vec<KeptRegistration> = self
            .registrations
            .iter()
            .filter(|member| member.handler.module.is_same(module))
            .cloned()
            .collect();
        own.sort_by_key(|kept| kept.id);
        own
    }

    /// Takes over the possible registrations; returns the others with their errors.
    fn keep(&mut self, kept: Vec<KeptRegistration>) -> Vec<(KeptRegistration, RegistrationError)> {
        let take = |kept: KeptRegistration| {
            let taken = self.registrations.take_over(kept.clone());
            taken.err().map(|error| (kept, error))
        };
        kept.into_iter().filter_map(take).collect()
    }

    /// Makes the registrations of a new module; returns those that are not possible.
    fn admit(&mut self, member: &ChainModule) -> Vec<RegistrationConflict> {
        let register = |(registration, handler): &(HandlerRegistration, HostedHandler)| {
            let registered = self
                .registrations
                .register(registration.clone(), handler.clone());
            registered.err().map(|error| RegistrationConflict {
                module: member.module.clone(),
                error,
            })
        };
        member.registrations.iter().filter_map(register).collect()
    }
}

//! How modules are registered as they wish, when they start and later on.
use super::HostedHandler;
use peal_core::{
    order::Registrations,
    owner::Owner,
    registration::{Mode, Registration, RegistrationError, RegistrationId},
};
use peal_model::{ModuleRegistration, RegistrationChange};
use peal_sandbox::Module;
use std::sync::Arc;

/// How many registrations one module may have in a chain, as many as it may wish for when it starts.
const MAX_REGISTRATIONS: usize = 64;

/// How many codes these may have in all, and how many procs one of them may name.
const MAX_CODES: usize = 256;
const MAX_PROCS: usize = 1024;

/// What a module of this owner wishes for, and what is called for it.
pub(super) fn wished(
    owner: &Owner,
    module: &Arc<Module>,
    wish: &ModuleRegistration,
    mode: Mode,
) -> Result<(Registration, HostedHandler), RegistrationError> {
    let registration =
        Registration::from_directives(&wish.codes, &wish.directives, owner.registrant().as_ref())?;
    let registration = Registration {
        mode,
        ..registration.named(wish.name.as_deref(), module.name())
    };
    Ok((
        registration,
        HostedHandler {
            module: module.clone(),
            tag: wish.tag,
        },
    ))
}

/// Changes what a module is registered for, if it may. What cannot be is traced: whoever asked has returned.
pub(super) fn apply(
    chain: &mut Registrations<HostedHandler>,
    owner: &Owner,
    module: &Arc<Module>,
    change: RegistrationChange,
) {
    match change {
        RegistrationChange::Deregister(number) => {
            let id = RegistrationId(number);
            if chain
                .get(id)
                .is_some_and(|(_, handler)| Arc::ptr_eq(&handler.module, module))
            {
                chain.deregister(id);
            }
        }
        RegistrationChange::Register(wish) => {
            let own = chain
                .iter()
                .filter(|(_, _, handler)| Arc::ptr_eq(&handler.module, module));
            let (count, codes) = own.fold(
                (0, wish.codes.len()),
                |(count, codes), (_, registration, _)| {
                    (count + 1, codes + registration.codes.len())
                },
            );
            if count >= MAX_REGISTRATIONS || codes > MAX_CODES {
                tracing::warn!(%owner, module = module.name(), "a module may have no more registrations");
                return;
            }
            let registered = wished(owner, module, &wish, Mode::Active);
            if registered
                .as_ref()
                .is_ok_and(|(registration, _)| registration.names() > MAX_PROCS)
            {
                tracing::warn!(%owner, module = module.name(), "a module may name no more procs in a registration");
                return;
            }
            let registered = registered
                .and_then(|(registration, handler)| chain.register(registration, handler));
            if let Err(error) = registered {
                tracing::warn!(%owner, module = module.name(), %error, "a module cannot be registered as it wishes");
            }
        }
    }
}

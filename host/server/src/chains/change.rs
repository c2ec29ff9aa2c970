//! Registrations that modules request, at their start and later.
use super::HostedHandler;
use peal_core::{
    order::Registrations,
    owner::Owner,
    registration::{HandlerLocation, HandlerRegistration, Mode, RegistrationError, RegistrationId},
};
use peal_model::{ModuleRegistration, RegistrationChange};
use peal_tenant::LoadedModule;

/// Upper bound of the registrations of one module in a chain. It equals the bound at its start.
const MAX_REGISTRATIONS: usize = 64;

/// Upper bounds of the codes of these registrations in total, and of the procs that one of them may
/// name.
const MAX_CODES: usize = 256;
const MAX_PROCS: usize = 1024;

/// Returns the registration that a module of this owner requests, and its handler.
pub(super) fn requested_registration(
    owner: &Owner,
    module: &LoadedModule,
    request: &ModuleRegistration,
    (mode, location): (Mode, HandlerLocation),
) -> Result<(HandlerRegistration, HostedHandler), RegistrationError> {
    let registration = HandlerRegistration::from_directives(
        &request.codes,
        &request.directives,
        owner.registrant().as_ref(),
    )?;
    let registration = HandlerRegistration {
        mode,
        location,
        ..registration.named(request.name.as_deref(), module.name())
    };
    Ok((
        registration,
        HostedHandler {
            module: module.clone(),
            tag: request.tag,
        },
    ))
}

/// Changes the registrations of a module within its limits. Errors are traced, because the call
/// that requested the change has returned.
pub(super) fn apply(
    chain: &mut Registrations<HostedHandler>,
    owner: &Owner,
    (module, location): (&LoadedModule, HandlerLocation),
    change: RegistrationChange,
) {
    match change {
        RegistrationChange::Deregister(number) => {
            // A module can remove only its own registrations.
            let id = RegistrationId(number);
            if chain
                .get(id)
                .is_some_and(|member| member.handler.module.is_same(module))
            {
                chain.deregister(id);
            }
        }
        RegistrationChange::Register(request) => {
            let own = chain
                .iter()
                .filter(|member| member.handler.module.is_same(module));
            let (count, codes) = own.fold((0, request.codes.len()), |(count, codes), member| {
                (count + 1, codes + member.registration.codes.len())
            });
            if count >= MAX_REGISTRATIONS || codes > MAX_CODES {
                tracing::warn!(%owner, module = module.name(), "registration refused: limit of registrations or codes reached");
                return;
            }
            let registered =
                requested_registration(owner, module, &request, (Mode::Active, location));
            if registered
                .as_ref()
                .is_ok_and(|(registration, _)| registration.names() > MAX_PROCS)
            {
                tracing::warn!(%owner, module = module.name(), "registration refused: limit of procs reached");
                return;
            }
            let registered = registered
                .and_then(|(registration, handler)| chain.register(registration, handler));
            if let Err(error) = registered {
                tracing::warn!(%owner, module = module.name(), %error, "registration refused: not possible in the chain");
            }
        }
    }
}

//! Capability `registration`: changes the registrations of this module.
use crate::{Registration, bindings::registration};

/// Adds a registration after this call has returned, in the chain that called the module. If
/// another module holds the requested placement, the host traces the conflict and adds nothing.
///
/// # Errors
/// The status of the refusal: [`crate::status::PMIX_ERR_OUT_OF_RESOURCE`] after 16 changes in one
/// call.
pub fn register(wish: Registration) -> Result<(), i32> {
    registration::register(&wish.lower())
}

/// Removes one of this module's registrations after this call has returned, such as that of the
/// current call ([`crate::Event::registration`]).
///
/// # Errors
/// Those of [`register`].
pub fn deregister(number: u64) -> Result<(), i32> {
    registration::deregister(number)
}

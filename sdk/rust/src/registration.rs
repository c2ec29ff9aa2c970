//! Capability `registration`: changes what this module is registered for.
use crate::{Registration, bindings::registration};

/// Registers for more events once this call has returned, in the chain in which the module is being called. A place that
/// somebody else holds is found out only then: the host traces it, and registers nothing.
///
/// # Errors
/// The status with which the host refused it: [`crate::status::PMIX_ERR_OUT_OF_RESOURCE`] where this call has asked for as many
/// changes as one may.
pub fn register(wish: Registration) -> Result<(), i32> {
    registration::register(&wish.lower())
}

/// Ends one of this module's registrations once this call has returned, such as the one being called
/// ([`crate::Event::registration`]).
///
/// # Errors
/// As for [`register`].
pub fn deregister(number: u64) -> Result<(), i32> {
    registration::deregister(number)
}

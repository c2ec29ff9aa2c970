//! Registrations that a module requests: bounds on their number, their codes and their names.
use crate::bindings::peal::pmix::types::Registration;
use crate::instance_state::InstanceState;
use crate::meter::CallAbort;
use crate::text::{MAX_QUOTED, is_plain, plain};
use peal_model::{Key, ModuleRegistration, Status};
use thiserror::Error;

/// Bound on the registrations of one module.
const MAX_REGISTRATIONS: usize = 64;
/// Bound on the codes of all registrations of one module together.
const MAX_CODES: usize = 256;

/// Bound that requested registrations exceed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RegistrationLimitError {
    /// Too many registrations.
    #[error("module requests {count} registrations; the limit is {limit}")]
    Registrations {
        /// Requested number.
        count: usize,
        /// Largest number allowed.
        limit: usize,
    },
    /// Too many codes.
    #[error(
        "module requests registrations for {count} codes; the limit for all of them together is {limit}"
    )]
    Codes {
        /// Requested number.
        count: usize,
        /// Largest number allowed.
        limit: usize,
    },
    /// A name longer than a key. It becomes a key where chain results are passed on.
    #[error("name of registration {at} has {len} bytes; the limit is {limit}")]
    LongName {
        /// Index of the registration, from 0.
        at: usize,
        /// Length of the name in bytes.
        len: usize,
        /// Longest length allowed, in bytes.
        limit: usize,
    },
    /// A name with characters that are not plain.
    #[error(
        "name of registration {at}, \"{name}\", has characters that control a terminal or cannot be seen"
    )]
    UnplainName {
        /// Index of the registration, from 0.
        at: usize,
        /// The name, with these characters escaped.
        name: String,
    },
}

/// Checks requested registrations against the bounds.
pub(crate) fn check_registrations(
    registrations: &[Registration],
) -> Result<(), RegistrationLimitError> {
    if registrations.len() > MAX_REGISTRATIONS {
        return Err(RegistrationLimitError::Registrations {
            count: registrations.len(),
            limit: MAX_REGISTRATIONS,
        });
    }
    let codes = registrations
        .iter()
        .map(|registration| registration.codes.len())
        .sum();
    if codes > MAX_CODES {
        return Err(RegistrationLimitError::Codes {
            count: codes,
            limit: MAX_CODES,
        });
    }
    let names = registrations
        .iter()
        .enumerate()
        .filter_map(|(at, registration)| Some((at, registration.name.as_deref()?)));
    for (at, name) in names {
        if name.len() > Key::MAX {
            return Err(RegistrationLimitError::LongName {
                at,
                len: name.len(),
                limit: Key::MAX,
            });
        }
        // `is_plain` excludes the backslash only because it begins escapes.
        if !name
            .chars()
            .all(|character| character == '\\' || is_plain(character))
        {
            return Err(RegistrationLimitError::UnplainName {
                at,
                name: plain(name, MAX_QUOTED),
            });
        }
    }
    Ok(())
}

/// Lifts requested registrations from the guest, at the cost of its call.
pub(crate) fn lift_registrations(
    host: &mut InstanceState,
    registrations: Vec<Registration>,
) -> Result<Vec<ModuleRegistration>, CallAbort> {
    registrations
        .into_iter()
        .map(|registration| lift_registration(host, registration))
        .collect()
}

/// Lifts one registration.
pub(crate) fn lift_registration(
    host: &mut InstanceState,
    registration: Registration,
) -> Result<ModuleRegistration, CallAbort> {
    // A name and codes can be far larger than the struct.
    let heap = registration.name.as_ref().map_or(0, String::len)
        + size_of_val(registration.codes.as_slice());
    host.meter
        .charge(size_of::<ModuleRegistration>().saturating_add(heap))?;
    Ok(ModuleRegistration {
        tag: registration.tag,
        name: registration.name,
        codes: registration.codes.into_iter().map(Status).collect(),
        directives: host.lifter().content(registration.directives)?,
    })
}

//! The registrations that a module wishes for itself: how many there may be, and what they may be called.
use crate::ModuleRegistration;
use crate::bindings::peal::pmix::types::Registration;
use crate::instance_state::InstanceState;
use crate::meter::CallAbort;
use crate::text::{MAX_QUOTED, is_plain, plain};
use peal_model::{Key, Status};
use thiserror::Error;

/// The most registrations of one module.
const MAX_WISHES: usize = 64;
/// The most codes of all registrations of one module together.
const MAX_CODES: usize = 256;

/// Why a module cannot have the registrations that it wishes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RegistrationLimitError {
    /// Too many of them.
    #[error("it wishes {count} registrations, {limit} are allowed")]
    Registrations {
        /// How many.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// Too many codes.
    #[error(
        "it wishes registrations for {count} codes, {limit} are allowed in all of them together"
    )]
    Codes {
        /// How many.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A name that cannot be a key, which it becomes where results are handed on.
    #[error("the name of its registration {at} has {len} bytes, {limit} are allowed")]
    LongName {
        /// Which registration, from 0.
        at: usize,
        /// The length of its name in bytes.
        len: usize,
        /// The longest allowed, in bytes.
        limit: usize,
    },
    /// A name that cannot be shown as it is.
    #[error(
        "the name of its registration {at}, \"{name}\", has characters that control a terminal or cannot be seen"
    )]
    UnplainName {
        /// Which registration, from 0.
        at: usize,
        /// Its name, such characters escaped.
        name: String,
    },
}

/// Whether these may be.
pub(crate) fn check_wishes(wishes: &[Registration]) -> Result<(), RegistrationLimitError> {
    if wishes.len() > MAX_WISHES {
        return Err(RegistrationLimitError::Registrations {
            count: wishes.len(),
            limit: MAX_WISHES,
        });
    }
    let codes = wishes.iter().map(|wish| wish.codes.len()).sum();
    if codes > MAX_CODES {
        return Err(RegistrationLimitError::Codes {
            count: codes,
            limit: MAX_CODES,
        });
    }
    let names = wishes
        .iter()
        .enumerate()
        .filter_map(|(at, wish)| Some((at, wish.name.as_deref()?)));
    for (at, name) in names {
        if name.len() > Key::MAX {
            return Err(RegistrationLimitError::LongName {
                at,
                len: name.len(),
                limit: Key::MAX,
            });
        }
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

/// Takes them from the guest, at its cost.
pub(crate) fn raise_wishes(
    host: &mut InstanceState,
    wishes: Vec<Registration>,
) -> Result<Vec<ModuleRegistration>, CallAbort> {
    wishes
        .into_iter()
        .map(|wish| lift_registration(host, wish))
        .collect()
}

/// Takes one of them.
pub(crate) fn lift_registration(
    host: &mut InstanceState,
    wish: Registration,
) -> Result<ModuleRegistration, CallAbort> {
    let heap = wish.name.as_ref().map_or(0, String::len) + size_of_val(wish.codes.as_slice());
    host.meter
        .charge(size_of::<ModuleRegistration>().saturating_add(heap))?;
    Ok(ModuleRegistration {
        tag: wish.tag,
        name: wish.name,
        codes: wish.codes.into_iter().map(Status).collect(),
        directives: host.raise().content(wish.directives)?,
    })
}

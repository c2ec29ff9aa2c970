//! Capability `usage`: knows what procs use of the machine.
use crate::{Info, Proc, bindings::usage, tree::lift_content};

/// What these procs use now: one info for each that is there.
///
/// # Errors
/// The status with which the host refused it: [`crate::status::PMIX_ERR_NO_PERMISSIONS`] for procs that belong to others than
/// this module does, [`crate::status::PMIX_ERR_NOT_SUPPORTED`] where the host measures nothing,
/// [`crate::status::PMIX_ERR_NOT_FOUND`] for procs that are not known.
pub fn of(procs: &[Proc]) -> Result<Vec<Info>, i32> {
    usage::of(procs).map(lift_content)
}

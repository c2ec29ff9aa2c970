//! Capability `report`: logs, as whoever this module belongs to.
use crate::{Info, bindings::report, tree::lower_content};

/// Logs this once this call has returned, through the same policies and channels as what a client logs. The directive
/// [`crate::key::PMIX_LOG_SOURCE`] says about which proc or job it is, and so in whose record it appears.
///
/// # Errors
/// The status with which the host refused it: [`crate::status::PMIX_ERR_NOT_AVAILABLE`] where no event is being handled,
/// [`crate::status::PMIX_ERR_BAD_PARAM`] where there is nothing to log, [`crate::status::PMIX_ERR_OUT_OF_RESOURCE`] where this
/// call has logged as often as one may.
pub fn log(
    data: impl IntoIterator<Item = Info>,
    directives: impl IntoIterator<Item = Info>,
) -> Result<(), i32> {
    report::log(&lower_content(data), &lower_content(directives))
}

//! Capability `log-request`: submits log requests with the rights of the owner of this module.
use crate::{Info, bindings::log_request, tree::lower_infos};

/// Submits a log request after this call has returned. It passes the same policies and channels as
/// that of a client. The directive [`crate::key::PMIX_LOG_SOURCE`] names the proc or job that the
/// data are about; they appear in the record of that job.
///
/// # Errors
/// The status of the refusal: [`crate::status::PMIX_ERR_NOT_AVAILABLE`] outside of event handlers,
/// [`crate::status::PMIX_ERR_BAD_PARAM`] without data, [`crate::status::PMIX_ERR_OUT_OF_RESOURCE`]
/// after 16 requests in one call.
pub fn submit(
    data: impl IntoIterator<Item = Info>,
    directives: impl IntoIterator<Item = Info>,
) -> Result<(), i32> {
    log_request::submit(&lower_infos(data), &lower_infos(directives))
}

//! Capability `notify`: raises events.
use crate::{Info, Range, bindings::notify, tree::lower_content};

/// Raises an event after this call has returned; a handler can therefore never wait for itself.
///
/// Returns the number under which the request is recorded.
///
/// # Errors
/// The status with which the host refused it: [`crate::status::PMIX_ERR_OUT_OF_RESOURCE`] where this call has raised as
/// many as one may.
pub fn notify(code: i32, range: Range, infos: impl IntoIterator<Item = Info>) -> Result<u64, i32> {
    notify::notify(code, range, &lower_content(infos))
}

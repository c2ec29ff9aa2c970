//! Capability `notify`: raises events.
use crate::{Info, Range, bindings::notify, tree::lower_infos};

/// Raises an event after this call has returned; a handler can therefore never wait for itself.
///
/// Returns the number of the recorded request.
///
/// # Errors
/// The status of the refusal: [`crate::status::PMIX_ERR_OUT_OF_RESOURCE`] if this call has raised
/// as many events as the host allows.
pub fn notify(code: i32, range: Range, infos: impl IntoIterator<Item = Info>) -> Result<u64, i32> {
    notify::notify(code, range, &lower_infos(infos))
}

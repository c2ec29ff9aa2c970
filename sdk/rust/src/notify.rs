//! Capability `notify`: raises events.
use crate::{
    Info, Range,
    bindings::notify,
    tree::{Host, lower_info},
};

/// Raises an event after this call has returned; a handler can therefore never wait for itself.
///
/// Returns the number under which the request is recorded.
///
/// # Errors
/// The status with which the host refused it.
pub fn notify(code: i32, range: Range, infos: impl IntoIterator<Item = Info>) -> Result<u64, i32> {
    let infos: Vec<_> = infos.into_iter().map(|info| lower_info(info, &mut Host)).collect();
    notify::notify(code, range, &infos)
}

//! Capability `control`: controls procs, as whoever this module belongs to.
use crate::{Info, Proc, bindings::control, tree::lower_content};

/// Asks for job control once this call has returned: of these procs, or of none, which means the job that this module belongs to,
/// as these directives say, such as [`crate::key::PMIX_JOB_CTRL_KILL`]. It passes the same policies as a client's request.
///
/// Returns the number under which the request is recorded; what becomes of it is traced.
///
/// # Errors
/// The status with which the host refused it: [`crate::status::PMIX_ERR_NOT_AVAILABLE`] where no event is being handled,
/// [`crate::status::PMIX_ERR_BAD_PARAM`] for more than 1024 procs or without directives,
/// [`crate::status::PMIX_ERR_OUT_OF_RESOURCE`] where this call has asked as often as one may.
pub fn request(
    targets: impl IntoIterator<Item = Proc>,
    directives: impl IntoIterator<Item = Info>,
) -> Result<u64, i32> {
    let targets: Vec<Proc> = targets.into_iter().collect();
    control::request(&targets, &lower_content(directives))
}

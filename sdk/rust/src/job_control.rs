//! Capability `job-control`: requests job control with the rights of the owner of this module.
use crate::{Info, Proc, bindings::job_control, tree::lower_infos};

/// Requests job control after this call has returned, for these targets or, without targets, for
/// the job that owns this module. The directives name the action, such as
/// [`crate::key::PMIX_JOB_CTRL_KILL`]. The request passes the same policies as that of a client.
///
/// Returns the number of the recorded request; the host traces its result.
///
/// # Errors
/// The status of the refusal: [`crate::status::PMIX_ERR_NOT_AVAILABLE`] outside of event handlers,
/// [`crate::status::PMIX_ERR_BAD_PARAM`] for more than 1024 targets or no directives,
/// [`crate::status::PMIX_ERR_OUT_OF_RESOURCE`] after 16 requests in one call.
pub fn request(
    targets: impl IntoIterator<Item = Proc>,
    directives: impl IntoIterator<Item = Info>,
) -> Result<u64, i32> {
    let targets: Vec<Proc> = targets.into_iter().collect();
    job_control::request(&targets, &lower_infos(directives))
}

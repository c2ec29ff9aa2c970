//! Capability `resource-usage`: queries the resources that procs use.
use crate::{Info, Proc, bindings::resource_usage, tree::lift_infos};

/// Returns the present usage of these procs: one info for each running proc.
///
/// # Errors
/// The status of the refusal: [`crate::status::PMIX_ERR_NO_PERMISSIONS`] for procs of other owners,
/// [`crate::status::PMIX_ERR_NOT_SUPPORTED`] if the host measures nothing,
/// [`crate::status::PMIX_ERR_NOT_FOUND`] for unknown procs.
pub fn query(procs: &[Proc]) -> Result<Vec<Info>, i32> {
    resource_usage::query(procs).map(lift_infos)
}

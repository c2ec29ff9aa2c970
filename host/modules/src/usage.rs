//! Resource usage that modules may query: that of the procs of their owners.
use peal_core::owner::Owner;
use peal_model::{Info, Proc, Status};
use peal_sandbox::ProcUsage;
use std::sync::Arc;

/// Measures the resource usage of procs.
pub trait UsageSource: Send + Sync {
    /// Returns the present usage, one info for each proc. Fails with `PMIX_ERR_NO_PERMISSIONS` if a
    /// proc is not this owner's (the site owns all), and with `PMIX_ERR_NOT_FOUND` if one is
    /// unknown. Called on a guest thread, which it may block for a short time.
    fn of(&self, owner: &Owner, procs: &[Proc]) -> Result<Vec<Info>, Status>;
}

/// Resource usage for the modules of one owner.
pub(crate) struct OwnUsage {
    pub(crate) gauge: Arc<dyn UsageSource>,
    pub(crate) owner: Owner,
}

impl ProcUsage for OwnUsage {
    fn of(&self, procs: &[Proc]) -> Result<Vec<Info>, Status> {
        self.gauge.of(&self.owner, procs)
    }
}

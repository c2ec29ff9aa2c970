//! What modules may know of the use of the machine: that of the procs of their owners.
use peal_core::owner::Owner;
use peal_model::{Info, Proc, Status};
use peal_sandbox::ProcUsage;
use std::sync::Arc;

/// Measures what procs use.
pub trait UsageSource: Send + Sync {
    /// What these procs use now, one info for each that is there: `PMIX_ERR_NO_PERMISSIONS` where one of them is not this owner's (all
    /// are the site's), `PMIX_ERR_NOT_FOUND` where one is not known. Called on a guest thread, which it may block for a short while.
    fn of(&self, owner: &Owner, procs: &[Proc]) -> Result<Vec<Info>, Status>;
}

/// What the modules of one owner may know.
pub(crate) struct OwnUsage {
    pub(crate) gauge: Arc<dyn UsageSource>,
    pub(crate) owner: Owner,
}

impl ProcUsage for OwnUsage {
    fn of(&self, procs: &[Proc]) -> Result<Vec<Info>, Status> {
        self.gauge.of(&self.owner, procs)
    }
}

//! What all modules of one owner may have together.
use crate::LimitKind;
use crate::memory_limiter::Budget;
use std::sync::Arc;

/// How much that is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TenantLimits {
    /// Bytes of the memories and tables of all instances.
    pub memory: usize,
    /// Instances, warm and running.
    pub instances: usize,
}

impl Default for TenantLimits {
    /// 1 GiB and 64 instances.
    fn default() -> TenantLimits {
        TenantLimits {
            memory: 1 << 30,
            instances: 64,
        }
    }
}

/// One owner. All modules that are loaded with clones of it share its limits.
#[derive(Clone, Debug)]
pub struct Tenant {
    pub(crate) memory: Arc<Budget>,
    pub(crate) instances: Arc<Budget>,
}

impl Tenant {
    /// An owner without modules yet.
    pub fn new(limits: TenantLimits) -> Tenant {
        Tenant {
            memory: Arc::new(Budget::new(LimitKind::TenantMemory, limits.memory)),
            instances: Arc::new(Budget::new(LimitKind::TenantInstances, limits.instances)),
        }
    }

    /// Whether there are modules, or others, who hold to it.
    pub fn is_used(&self) -> bool {
        Arc::strong_count(&self.memory) > 1
    }

    /// Bytes of memory that its instances take now.
    pub fn memory(&self) -> usize {
        self.memory.used()
    }

    /// How many instances it has now.
    pub fn instances(&self) -> usize {
        self.instances.used()
    }
}

//! Limits that the modules of one owner share.
use crate::LimitKind;
use crate::memory_limiter::Budget;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Limits of one owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TenantLimits {
    /// Bytes of the memories and tables of all instances.
    pub memory: usize,
    /// Number of instances, warm and running.
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

/// An owner. All modules loaded with clones of it share its limits.
#[derive(Clone, Debug)]
pub struct Tenant {
    pub(crate) memory: Arc<Budget>,
    pub(crate) instances: Arc<Budget>,
}

impl Tenant {
    /// Makes an owner without modules.
    pub fn new(limits: TenantLimits) -> Tenant {
        Tenant {
            memory: Arc::new(Budget::new(LimitKind::TenantMemory, limits.memory)),
            instances: Arc::new(Budget::new(LimitKind::TenantInstances, limits.instances)),
        }
    }

    /// Returns true if a module or another holder has a clone.
    pub fn is_used(&self) -> bool {
        Arc::strong_count(&self.memory) > 1
    }

    /// Returns the bytes of memory that the instances take now.
    pub fn memory(&self) -> usize {
        self.memory.used()
    }

    /// Returns the number of instances now.
    pub fn instances(&self) -> usize {
        self.instances.used()
    }
}

//! The names of the limits: what a failure, the trace and the metrics call the one that was hit, and the setting that raises it.
use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! limits {
    ($($(#[doc = $doc:literal])+ $Kind:ident = $name:literal, $key:literal;)+) => {
        /// A limit that a call can hit.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        pub enum LimitKind { $($(#[doc = $doc])+ $Kind,)+ }

        impl LimitKind {
            /// Every limit.
            pub const ALL: [LimitKind; [$($name),+].len()] = [$(LimitKind::$Kind),+];

            /// Its name, as in the metrics.
            pub fn name(self) -> &'static str {
                match self { $(LimitKind::$Kind => $name,)+ }
            }

            /// The setting that raises it.
            pub fn key(self) -> &'static str {
                match self { $(LimitKind::$Kind => $key,)+ }
            }
        }
    };
}

limits! {
    /// Memory of one instance.
    Memory = "memory", "limits.memory_bytes";
    /// Memory of all instances of the module.
    MemoryTotal = "memory_total", "limits.total_memory_bytes";
    /// Memory of all modules of the tenant.
    TenantMemory = "tenant_memory", "tenant.max_memory_bytes";
    /// Instances of all modules of the tenant.
    TenantInstances = "tenant_instances", "tenant.max_instances";
    /// Instances of all modules there are.
    Instances = "instances", "sandbox.max_instances";
    /// Instances of the modules of all tenants: the rest is the site's.
    TenantsInstances = "tenants_instances", "sandbox.max_instances";
    /// The guest's own time.
    CallTime = "call_time", "limits.call_time_ms";
    /// Time in host calls.
    HostTime = "host_time", "limits.host_call_time_ms";
    /// Fuel: instructions, so to speak.
    Fuel = "fuel", "limits.fuel";
    /// Calls within calls. The same for all modules.
    Stack = "stack", "stack, which is the same for all modules";
    /// What is pushed.
    Output = "output", "limits.output_bytes";
    /// Calls of the host.
    HostCalls = "host_calls", "limits.host_calls";
    /// Events raised. The guest is refused and goes on.
    Notifications = "notifications", "limits.raised_events";
    /// Lines in the trace. They are left out, and the guest goes on.
    LogLines = "log_lines", "limits.log_lines_per_second";
    /// What is kept as state. The guest is refused and goes on.
    StateQuota = "state_quota", "state_quota";
    /// Failures: the module is quarantined.
    Failures = "failures", "limits.failures";
}

impl LimitKind {
    /// Whether others share it, so that who hits it need not be to blame.
    pub fn is_shared(self) -> bool {
        matches!(
            self,
            LimitKind::TenantMemory
                | LimitKind::TenantInstances
                | LimitKind::TenantsInstances
                | LimitKind::Instances
        )
    }

    /// Whether an instance that is not needed now may be in the way of one that is.
    pub(crate) fn is_of_instances(self) -> bool {
        self.is_shared() || self == LimitKind::MemoryTotal
    }

    fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl fmt::Display for LimitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

/// Some of the limits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LimitSet(u16);

impl LimitSet {
    /// Whether none is in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether this one is in it.
    pub fn contains(self, limit: LimitKind) -> bool {
        self.0 & limit.bit() != 0
    }

    /// Those that are in it.
    pub fn iter(self) -> impl Iterator<Item = LimitKind> {
        LimitKind::ALL
            .into_iter()
            .filter(move |limit| self.contains(*limit))
    }

    pub(crate) fn insert(&mut self, limit: LimitKind) {
        self.0 |= limit.bit();
    }
}

impl fmt::Debug for LimitSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// What one call has used, however it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CallUsage {
    /// Fuel, where it is counted.
    pub fuel: Option<u64>,
    /// Calls of the host.
    pub host_calls: u32,
    /// Bytes pushed.
    pub output: usize,
    /// The limits that it hit, also those that it survived.
    pub hits: LimitSet,
}

#[cfg(test)]
mod tests {
    use super::{LimitKind, LimitSet};
    use std::collections::BTreeSet;

    #[test]
    fn each_limit_has_a_name_and_a_bit_of_its_own() {
        let names: BTreeSet<&str> = LimitKind::ALL.into_iter().map(LimitKind::name).collect();
        assert_eq!(names.len(), LimitKind::ALL.len());
        let mut set = LimitSet::default();
        for (at, limit) in LimitKind::ALL.into_iter().enumerate() {
            assert!(!set.contains(limit));
            set.insert(limit);
            assert_eq!(set.iter().count(), at + 1);
        }
    }
}

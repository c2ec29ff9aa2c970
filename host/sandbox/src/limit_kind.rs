//! Names of the limits, as failures, the trace and the metrics show them, and the settings that
//! raise them.
use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! limits {
    ($($(#[doc = $doc:literal])+ $Kind:ident = $name:literal, $key:literal;)+) => {
        /// A limit that a call can exceed.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        pub enum LimitKind { $($(#[doc = $doc])+ $Kind,)+ }

        impl LimitKind {
            /// All limits.
            pub const ALL: [LimitKind; [$($name),+].len()] = [$(LimitKind::$Kind),+];

            /// Returns the name, as in metrics and outcomes. The name of a limit of one module is
            /// that of its setting without `limits.`.
            pub fn name(self) -> &'static str {
                match self { $(LimitKind::$Kind => $name,)+ }
            }

            /// Returns the setting that raises the limit.
            pub fn key(self) -> &'static str {
                match self { $(LimitKind::$Kind => $key,)+ }
            }
        }
    };
}

limits! {
    /// Memory of one instance.
    Memory = "memory_bytes", "limits.memory_bytes";
    /// Memory of all instances of the module.
    TotalMemory = "total_memory_bytes", "limits.total_memory_bytes";
    /// Memory of all modules of the tenant.
    TenantMemory = "tenant_memory_bytes", "tenant.max_memory_bytes";
    /// Instances of all modules of the tenant.
    TenantInstances = "tenant_instances", "tenant.max_instances";
    /// Instances of all modules.
    Instances = "instances", "sandbox.max_instances";
    /// Instances of the modules of all tenants; the rest is reserved for the site's.
    TenantsInstances = "instances_of_tenants", "sandbox.max_instances";
    /// The guest's own time.
    CallTime = "call_time_ms", "limits.call_time_ms";
    /// Time in host calls.
    HostCallTime = "host_call_time_ms", "limits.host_call_time_ms";
    /// Fuel, about one for each instruction.
    Fuel = "fuel", "limits.fuel";
    /// Depth of the guest's stack, the same for all modules.
    Stack = "stack", "stack, which is the same for all modules";
    /// Bytes pushed.
    Output = "output_bytes", "limits.output_bytes";
    /// Host calls.
    HostCalls = "host_calls", "limits.host_calls";
    /// Events raised. Beyond the limit `notify` is refused and the guest goes on.
    RaisedEvents = "raised_events", "limits.raised_events";
    /// Lines in the trace. Lines beyond the limit are left out and the guest goes on.
    LogLines = "log_lines_per_second", "limits.log_lines_per_second";
    /// Bytes of the module's state. Beyond the limit `state.set` is refused and the guest goes on.
    State = "max_state_bytes", "module.max_state_bytes or tenant.max_state_bytes";
    /// Failures within the window; beyond the limit the module is quarantined.
    Failures = "failures", "limits.failures";
}

impl LimitKind {
    /// Returns true if other modules share the limit, so that the module that exceeds it need not
    /// be the cause.
    pub fn is_shared(self) -> bool {
        matches!(
            self,
            LimitKind::TenantMemory
                | LimitKind::TenantInstances
                | LimitKind::TenantsInstances
                | LimitKind::Instances
        )
    }

    /// Returns true if stopping an idle instance may help to keep the limit.
    pub(crate) fn is_of_instances(self) -> bool {
        self.is_shared() || self == LimitKind::TotalMemory
    }

    fn bit(self) -> u16 {
        // There are as many limits as bits: one more needs a wider set.
        1 << self as u16
    }
}

impl fmt::Display for LimitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

/// A set of limits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LimitSet(u16);

impl LimitSet {
    /// Returns true if the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if the set contains a limit.
    pub fn contains(self, limit: LimitKind) -> bool {
        self.0 & limit.bit() != 0
    }

    /// Returns the limits in the set.
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

/// Resources that one call has used, however it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CallUsage {
    /// Fuel, if it is counted.
    pub fuel: Option<u64>,
    /// Host calls.
    pub host_calls: u32,
    /// Bytes pushed.
    pub output: usize,
    /// Limits that were exceeded, including those after which the call went on.
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

//! Roles of modules, and the role exports of a component, which are looked up one by one because a
//! component exports only some of them.
use crate::bindings::exports::peal::pmix::{
    connection_policy, event_handler, event_policy, group_policy, job_control_policy, lifecycle,
    log_channel, log_policy, monitor_policy, provision_policy, spawn_policy,
};
use crate::instance_state::InstanceState;
use crate::interface::PACKAGE;
use peal_model::Hook;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre};

macro_rules! roles {
    ($($(#[$doc:meta])* $Role:ident = $name:literal, $field:ident: $interface:ident;)+) => {
        /// Role of a module: an interface that it exports.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Role {
            $($(#[$doc])* $Role,)+
        }

        impl Role {
            /// All roles.
            pub const ALL: [Role; [$($name),+].len()] = [$(Role::$Role),+];

            /// Returns the name of the interface within the package.
            pub fn name(self) -> &'static str {
                match self {
                    $(Role::$Role => $name,)+
                }
            }
        }

        /// Indexes of a component's role exports.
        pub(crate) struct Indices {
            $($field: Option<$interface::GuestIndices>,)+
        }

        /// Role exports of an instance, ready to be called.
        pub(crate) struct Exports {
            $(pub(crate) $field: Option<$interface::Guest>,)+
        }

        impl Indices {
            /// Looks up the exports of a component's roles.
            pub(crate) fn new(instance: &InstancePre<InstanceState>, roles: &BTreeSet<Role>) -> wasmtime::Result<Indices> {
                let fills = |role| roles.contains(&role);
                Ok(Indices {
                    $($field: fills(Role::$Role).then(|| $interface::GuestIndices::new(instance)).transpose()?,)+
                })
            }

            /// Loads the exports of an instance.
            pub(crate) fn load(&self, store: &mut Store<InstanceState>, instance: &Instance) -> wasmtime::Result<Exports> {
                Ok(Exports {
                    $($field: self.$field.as_ref().map(|at| at.load(&mut *store, instance)).transpose()?,)+
                })
            }
        }
    };
}

roles! {
    /// Handles events.
    EventHandler = "event-handler", handler: event_handler;
    /// Decides about connections.
    ConnectionPolicy = "connection-policy", connection_policy: connection_policy;
    /// Decides about events and registrations.
    EventPolicy = "event-policy", event_policy: event_policy;
    /// Decides about job control.
    JobControlPolicy = "job-control-policy", job_control_policy: job_control_policy;
    /// Decides about process monitors.
    MonitorPolicy = "monitor-policy", monitor_policy: monitor_policy;
    /// Decides about the provision of nodes.
    ProvisionPolicy = "provision-policy", provision_policy: provision_policy;
    /// Decides about log requests.
    LogPolicy = "log-policy", log_policy: log_policy;
    /// Decides about group operations.
    GroupPolicy = "group-policy", group_policy: group_policy;
    /// Decides about spawns.
    SpawnPolicy = "spawn-policy", spawn_policy: spawn_policy;
    /// Writes log requests.
    LogChannel = "log-channel", log_channel: log_channel;
    /// Is initialized and stopped, and requests registrations.
    Lifecycle = "lifecycle", lifecycle: lifecycle;
}

impl Role {
    /// Returns the role of the policies of a hook; `None` for a hook without policies.
    pub fn policy(hook: Hook) -> Option<Role> {
        let name = hook.role()?;
        Role::ALL.into_iter().find(|role| role.name() == name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PACKAGE}/{}", self.name())
    }
}

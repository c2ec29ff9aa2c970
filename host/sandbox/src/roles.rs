//! Role exports of a component, looked up one by one because a component exports only some of them.
use crate::Role;
use crate::bindings::exports::peal::pmix::{
    connection_policy, event_handler, event_policy, group_policy, job_control_policy, lifecycle,
    log_channel, log_policy, monitor_policy, provision_policy, spawn_policy,
};
use crate::instance_state::InstanceState;
use std::collections::BTreeSet;
use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre};

macro_rules! roles {
    ($($field:ident: $interface:ident, $role:ident;)+) => {
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
                    $($field: fills(Role::$role).then(|| $interface::GuestIndices::new(instance)).transpose()?,)+
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
    handler: event_handler, EventHandler;
    connection_policy: connection_policy, ConnectionPolicy;
    event_policy: event_policy, EventPolicy;
    job_control_policy: job_control_policy, JobControlPolicy;
    monitor_policy: monitor_policy, MonitorPolicy;
    provision_policy: provision_policy, ProvisionPolicy;
    log_policy: log_policy, LogPolicy;
    group_policy: group_policy, GroupPolicy;
    spawn_policy: spawn_policy, SpawnPolicy;
    log_channel: log_channel, LogChannel;
    lifecycle: lifecycle, Lifecycle;
}

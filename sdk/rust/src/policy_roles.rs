//! Macros that export the policy roles, one for each.

/// Exports the role `connection-policy` from this crate, by a `fn(&Request) -> PolicyOutcome`:
/// decides about connections.
#[macro_export]
macro_rules! connection_policy {
    ($decide:path) => {
        $crate::export_policy!(connection_policy, export_connection_policy, $decide);
    };
}

/// Exports the role `event-policy` from this crate, by a `fn(&Request) -> PolicyOutcome`: decides
/// about events and registrations.
#[macro_export]
macro_rules! event_policy {
    ($decide:path) => {
        $crate::export_policy!(event_policy, export_event_policy, $decide, {
            fn decide_registration(head: role::RegistrationHead) -> types::PolicyOutcome {
                $crate::run_decide(head, $decide)
            }
        });
    };
}

/// Exports the role `job-control-policy` from this crate, by a `fn(&Request) -> PolicyOutcome`:
/// decides about job control.
#[macro_export]
macro_rules! job_control_policy {
    ($decide:path) => {
        $crate::export_policy!(job_control_policy, export_job_control_policy, $decide);
    };
}

/// Exports the role `monitor-policy` from this crate, by a `fn(&Request) -> PolicyOutcome`: decides
/// about monitors.
#[macro_export]
macro_rules! monitor_policy {
    ($decide:path) => {
        $crate::export_policy!(monitor_policy, export_monitor_policy, $decide);
    };
}

/// Exports the role `provision-policy` from this crate, by a `fn(&Request) -> PolicyOutcome`:
/// provides nodes. The requester receives the infos of a grant ([`PolicyOutcome::with`]).
#[macro_export]
macro_rules! provision_policy {
    ($decide:path) => {
        $crate::export_policy!(provision_policy, export_provision_policy, $decide);
    };
}

/// Exports the role `log-policy` from this crate, by a `fn(&Request) -> PolicyOutcome`: decides
/// about log requests.
#[macro_export]
macro_rules! log_policy {
    ($decide:path) => {
        $crate::export_policy!(log_policy, export_log_policy, $decide);
    };
}

/// Exports the role `group-policy` from this crate, by a `fn(&Request) -> PolicyOutcome`: decides
/// about groups and invitations.
#[macro_export]
macro_rules! group_policy {
    ($decide:path) => {
        $crate::export_policy!(group_policy, export_group_policy, $decide);
    };
}

/// Exports the role `spawn-policy` from this crate, by a `fn(&Request) -> PolicyOutcome`: decides
/// about spawned jobs.
#[macro_export]
macro_rules! spawn_policy {
    ($decide:path) => {
        $crate::export_policy!(spawn_policy, export_spawn_policy, $decide);
    };
}

/// Common part of the macros of policies.
#[doc(hidden)]
#[macro_export]
macro_rules! export_policy {
    ($role:ident, $export:ident, $decide:path $(, { $($more:item)+ })?) => {
        const _: () = {
            use $crate::bindings::{
                types,
                $role::{self as bindings, exports::peal::pmix::$role as role},
            };

            struct Module;

            impl role::Guest for Module {
                fn decide(head: role::RequestHead) -> types::PolicyOutcome {
                    $crate::run_decide(head, $decide)
                }
                $($($more)+)?
            }

    bindings::$export!(Module with_types_in bindings);
        };
    };
}

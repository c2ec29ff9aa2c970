//! What makes a policy of a crate: one macro for each role.

/// Makes a component of this crate: a module that decides who may connect, by a `fn(&Request) -> PolicyOutcome`.
#[macro_export]
macro_rules! connection_policy {
    ($decide:path) => {
        $crate::export_policy!(connection_policy, export_connection_policy, $decide);
    };
}

/// Makes a component of this crate: a module that decides which events may be raised and heard, by a
/// `fn(&Request) -> PolicyOutcome`.
#[macro_export]
macro_rules! event_policy {
    ($decide:path) => {
        $crate::export_policy!(event_policy, export_event_policy, $decide, {
            fn decide_registration(head: role::RegistrationHead) -> types::Outcome {
                $crate::run_decide(head, $decide)
            }
        });
    };
}

/// Makes a component of this crate: a module that decides which procs may be controlled, by a
/// `fn(&Request) -> PolicyOutcome`.
#[macro_export]
macro_rules! job_control_policy {
    ($decide:path) => {
        $crate::export_policy!(job_control_policy, export_job_control_policy, $decide);
    };
}

/// Makes a component of this crate: a module that decides who may watch what, by a `fn(&Request) -> PolicyOutcome`.
#[macro_export]
macro_rules! monitor_policy {
    ($decide:path) => {
        $crate::export_policy!(monitor_policy, export_monitor_policy, $decide);
    };
}

/// Makes a component of this crate: a module that provides nodes, by a `fn(&Request) -> PolicyOutcome`. What a grant is given by
/// [`PolicyOutcome::with`] the requester is told.
#[macro_export]
macro_rules! provision_policy {
    ($decide:path) => {
        $crate::export_policy!(provision_policy, export_provision_policy, $decide);
    };
}

/// Makes a component of this crate: a module that decides what may be logged, by a `fn(&Request) -> PolicyOutcome`.
#[macro_export]
macro_rules! log_policy {
    ($decide:path) => {
        $crate::export_policy!(log_policy, export_log_policy, $decide);
    };
}

/// Makes a component of this crate: a module that decides who may form groups, invite and join, by a `fn(&Request) -> PolicyOutcome`.
#[macro_export]
macro_rules! group_policy {
    ($decide:path) => {
        $crate::export_policy!(group_policy, export_group_policy, $decide);
    };
}

/// Makes a component of this crate: a module that decides what may be spawned, by a `fn(&Request) -> PolicyOutcome`.
#[macro_export]
macro_rules! spawn_policy {
    ($decide:path) => {
        $crate::export_policy!(spawn_policy, export_spawn_policy, $decide);
    };
}

/// What the macros of policies have in common.
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
                fn decide(head: role::RequestHead) -> types::Outcome {
                    $crate::run_decide(head, $decide)
                }
                $($($more)+)?
            }

    bindings::$export!(Module with_types_in bindings);
        };
    };
}

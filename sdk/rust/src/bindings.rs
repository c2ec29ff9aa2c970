//! Rust bindings of the contract in `wit/`. Authors use the rest of the crate instead.
#![allow(
    missing_docs,
    clippy::all,
    clippy::restriction,
    unsafe_code,
    reason = "generated"
)]

/// Imports of modules.
mod imports {
    wit_bindgen::generate!({
        world: "imports",
        path: "wit",
        additional_derives: [PartialEq],
        additional_derives_ignore: ["info-flags"],
    });
}

/// Declares a role with the macro that exports it. Each role has a world of its own, because a
/// component exports only its own roles. One crate cannot generate the same import twice, hence
/// `with`.
macro_rules! role {
    ($role:ident, $export:literal, $world:literal) => {
        pub mod $role {
            wit_bindgen::generate!({
                inline: $world,
                path: "wit",
                pub_export_macro: true,
                export_macro_name: $export,
                with: {
                    "peal:pmix/types@0.1.0": crate::bindings::types,
                    "peal:pmix/call@0.1.0": crate::bindings::call,
                    "peal:pmix/amendment@0.1.0": crate::bindings::amendment,
                    "peal:pmix/exception@0.1.0": crate::bindings::exception,
                    "peal:pmix/logging@0.1.0": crate::bindings::logging,
                    "peal:pmix/clock@0.1.0": crate::bindings::clock,
                    "peal:pmix/notify@0.1.0": crate::bindings::notify,
                    "peal:pmix/registration@0.1.0": crate::bindings::registration,
                    "peal:pmix/sink@0.1.0": crate::bindings::sink,
                    "peal:pmix/state@0.1.0": crate::bindings::state,
                    "peal:pmix/random@0.1.0": crate::bindings::random,
                    "peal:pmix/files@0.1.0": crate::bindings::files,
                    "peal:pmix/job-control@0.1.0": crate::bindings::job_control,
                    "peal:pmix/log-request@0.1.0": crate::bindings::log_request,
                    "peal:pmix/resource-usage@0.1.0": crate::bindings::resource_usage,
                },
            });
        }
    };
}

role!(
    event_handler,
    "export_event_handler",
    "package peal:sdk;
     world event-handler { include peal:pmix/imports@0.1.0; export peal:pmix/event-handler@0.1.0; }"
);
role!(
    connection_policy,
    "export_connection_policy",
    "package peal:sdk;
     world connection-policy { include peal:pmix/imports@0.1.0; export peal:pmix/connection-policy@0.1.0; }"
);
role!(
    event_policy,
    "export_event_policy",
    "package peal:sdk;
     world event-policy { include peal:pmix/imports@0.1.0; export peal:pmix/event-policy@0.1.0; }"
);
role!(
    job_control_policy,
    "export_job_control_policy",
    "package peal:sdk;
     world job-control-policy { include peal:pmix/imports@0.1.0; export peal:pmix/job-control-policy@0.1.0; }"
);
role!(
    monitor_policy,
    "export_monitor_policy",
    "package peal:sdk;
     world monitor-policy { include peal:pmix/imports@0.1.0; export peal:pmix/monitor-policy@0.1.0; }"
);
role!(
    provision_policy,
    "export_provision_policy",
    "package peal:sdk;
     world provision-policy { include peal:pmix/imports@0.1.0; export peal:pmix/provision-policy@0.1.0; }"
);
role!(
    log_policy,
    "export_log_policy",
    "package peal:sdk;
     world log-policy { include peal:pmix/imports@0.1.0; export peal:pmix/log-policy@0.1.0; }"
);
role!(
    group_policy,
    "export_group_policy",
    "package peal:sdk;
     world group-policy { include peal:pmix/imports@0.1.0; export peal:pmix/group-policy@0.1.0; }"
);
role!(
    spawn_policy,
    "export_spawn_policy",
    "package peal:sdk;
     world spawn-policy { include peal:pmix/imports@0.1.0; export peal:pmix/spawn-policy@0.1.0; }"
);
role!(
    log_channel,
    "export_log_channel",
    "package peal:sdk;
     world log-channel { include peal:pmix/imports@0.1.0; export peal:pmix/log-channel@0.1.0; }"
);
role!(
    lifecycle,
    "export_lifecycle",
    "package peal:sdk;
     world lifecycle { include peal:pmix/imports@0.1.0; export peal:pmix/lifecycle@0.1.0; }"
);

pub use event_handler::exports::peal::pmix::event_handler::EventHead;
pub use imports::peal::pmix::{
    amendment, call, clock, exception, files, job_control, log_request, logging, notify, random,
    registration, resource_usage, sink, state, types,
};

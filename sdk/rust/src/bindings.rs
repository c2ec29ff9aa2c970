//! What the contract in `wit/` becomes in Rust. The rest of the crate makes it pleasant; authors need not look here.
#![allow(missing_docs, clippy::all, clippy::restriction, unsafe_code, reason = "generated")]

/// World `handler`.
pub mod handler {
    wit_bindgen::generate!({
        world: "handler",
        path: "../../wit",
        pub_export_macro: true,
        export_macro_name: "export_handler",
        additional_derives: [PartialEq],
        additional_derives_ignore: ["info-flags"],
    });
}

/// What world `managed-handler` adds to [`handler`]: one crate cannot generate the same export twice, but a module may
/// export both and is then a managed handler.
pub mod managed {
    wit_bindgen::generate!({
        inline: "
            package peal:sdk;
            world managed {
                include peal:pmix/capabilities@0.1.0;
                export peal:pmix/lifecycle@0.1.0;
            }
        ",
        path: "../../wit",
        pub_export_macro: true,
        export_macro_name: "export_lifecycle",
        with: {
            "peal:pmix/types@0.1.0": super::handler::peal::pmix::types,
            "peal:pmix/call@0.1.0": super::handler::peal::pmix::call,
            "peal:pmix/logging@0.1.0": super::handler::peal::pmix::logging,
            "peal:pmix/clock@0.1.0": super::handler::peal::pmix::clock,
            "peal:pmix/notify@0.1.0": super::handler::peal::pmix::notify,
        },
    });
}

pub use handler::exports::peal::pmix::event_handler::EventHead;
pub use handler::peal::pmix::{call, clock, logging, notify, types};

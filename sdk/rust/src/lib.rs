//! What an author of Peal modules writes against.
//!
//! A handler is a function from an event to an outcome:
//!
//! ```
//! use peal_sdk::{Event, Outcome, handler, key, log};
//!
//! fn handle(event: &Event) -> Outcome {
//!     log::info(format!("event {}", event.code()));
//!     match event.get(key::PMIX_EVENT_HDLR_NAME) {
//!         Some(_) => Outcome::complete().with("my.handler.seen", event.step_count()),
//!         None => Outcome::no_action(),
//!     }
//! }
//!
//! handler!(handle);
//! ```
//!
//! A module asks its host for what it uses and for nothing else: whoever never calls [`log`] does not import `logging`.
//! A panic is a trap; the host drops the instance and the chain goes on.
#[doc(hidden)]
pub mod bindings;
pub mod clock;
mod event;
mod lifecycle;
pub mod log;
mod names;
mod notify;
mod outcome;
mod tree;
mod value;

pub use event::Event;
#[doc(hidden)]
pub use lifecycle::run_init;
pub use lifecycle::{Config, Registration};
pub use names::{key, status};
pub use notify::notify;
pub use outcome::Outcome;
pub use value::{Identity, Info, InfoFlags, Opaque, Proc, Range, Step, Value};

/// What [`handler!`] exports as `handle`.
#[doc(hidden)]
pub fn run_handle(head: bindings::EventHead, handle: impl Fn(&Event) -> Outcome) -> i32 {
    handle(&Event::new(head)).deliver()
}

/// Makes a component of this crate: a module whose events are handled by a `fn(&Event) -> Outcome`. Which events those
/// are, the admin's file or the command line says.
#[macro_export]
macro_rules! handler {
    ($handle:path) => {
        const _: () = {
            use $crate::bindings::handler::{self as bindings, exports::peal::pmix::event_handler};

            struct Module;

            impl event_handler::Guest for Module {
                fn handle(head: event_handler::EventHead) -> i32 {
                    $crate::run_handle(head, $handle)
                }
            }

    bindings::export_handler!(Module with_types_in bindings);
        };
    };
}

/// Beside [`handler!`], for a module that says itself which events it handles: an
/// `init: fn(&Config) -> Result<Vec<Registration>, String>` is called before anything else, with the settings from the
/// admin's file, and a `stop: fn()` when the module is taken out of service.
#[macro_export]
macro_rules! lifecycle {
    ($init:path, $stop:path) => {
        const _: () = {
            use $crate::bindings::{
                managed::{self as bindings, exports::peal::pmix::lifecycle},
                types,
            };

            struct Module;

            impl lifecycle::Guest for Module {
                fn init(config: types::Content) -> Result<Vec<types::Registration>, String> {
                    $crate::run_init(config, $init)
                }

                fn stop() {
                    $stop()
                }
            }

    bindings::export_lifecycle!(Module with_types_in bindings);
        };
    };
}

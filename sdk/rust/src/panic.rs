//! Panics, described to the host before they end the call.
use crate::bindings::exception;
use std::{panic, sync::Once};

/// Has panics described to the host. Every function that a component exports begins with this: it has no other start.
#[doc(hidden)]
pub fn describe_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        panic::set_hook(Box::new(|info| {
            let message = info
                .payload_as_str()
                .unwrap_or("with a payload that is no text");
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            // Without places: the host shows the functions that were running.
            exception::describe(&format!("panicked at {place}: {message}"), &[]);
        }));
    });
}

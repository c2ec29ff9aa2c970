//! Description of panics to the host before they end the call.
use crate::bindings::exception;
use std::{panic, sync::Once};

/// Installs the hook that describes panics to the host. Every exported function calls it first,
/// because a component has no other start.
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

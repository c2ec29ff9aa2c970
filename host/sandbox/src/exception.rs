//! The exception or panic because of which a call fails, as the guest reports it: by
//! `exception.describe`, which needs no grant, or else in the text that its language prints to the
//! standard error of WASI.
use crate::bindings::peal::pmix::exception;
use crate::host_calls::HostCallRequest;
use crate::instance_state::InstanceState;
use crate::text::plain;

/// Bound on the text, in bytes; the rest is cut.
const MAX_TEXT: usize = 4096;
/// Bound on one source position, in bytes; the rest is cut.
const MAX_PLACE: usize = 256;
/// Bound on the number of source positions.
const MAX_PLACES: usize = 16;

/// An exception or panic, with its texts escaped for a terminal.
pub(crate) struct Exception {
    /// Type and message.
    pub(crate) text: String,
    /// Source positions in the author's code, innermost first; empty if the guest gives none.
    pub(crate) places: Vec<String>,
}

/// Description of an exception that a guest has left in the current call, in case the call fails.
#[derive(Default)]
pub(crate) struct ExceptionReport {
    described: Option<Exception>,
    /// The last bytes written to the standard error.
    printed: Vec<u8>,
}

impl ExceptionReport {
    /// Adds bytes that the guest wrote to its standard error.
    pub(crate) fn print(&mut self, bytes: &[u8]) {
        // Languages print the exception last, so the end is kept.
        self.printed.extend_from_slice(bytes);
        self.printed
            .drain(..self.printed.len().saturating_sub(MAX_TEXT));
    }

    /// Returns the exception that the guest described or printed, if any.
    pub(crate) fn exception(self) -> Option<Exception> {
        let printed = || plain(String::from_utf8_lossy(&self.printed).trim_end(), MAX_TEXT);
        // A description by the guest is more precise than what it printed.
        let exception = self.described.unwrap_or_else(|| Exception {
            text: printed(),
            places: Vec::new(),
        });
        (!exception.text.is_empty()).then_some(exception)
    }
}

impl exception::Host for InstanceState {
    fn describe(&mut self, text: String, places: Vec<String>) -> wasmtime::Result<()> {
        self.host_call(
            || HostCallRequest::Exception,
            |host| {
                // The guest chooses the texts, so their number and lengths are bounded.
                let places = places
                    .iter()
                    .take(MAX_PLACES)
                    .map(|place| plain(place, MAX_PLACE))
                    .collect();
                host.exception_report.described = Some(Exception {
                    text: plain(&text, MAX_TEXT),
                    places,
                });
                Ok(())
            },
        )
    }
}

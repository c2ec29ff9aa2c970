//! The exception or panic because of which a call fails, in the guest's own words: as it describes it by `exception`, which takes no
//! grant, or else as its language prints it to the standard error of WASI.
use crate::bindings::peal::pmix::exception;
use crate::host_calls::HostCallRequest;
use crate::instance_state::InstanceState;
use crate::text::plain;

/// The longest text kept, in bytes.
const MAX_TEXT: usize = 4096;
/// The longest place kept, in bytes.
const MAX_PLACE: usize = 256;
/// The most places kept.
const MAX_PLACES: usize = 16;

/// An exception or panic, made plain.
pub(crate) struct Exception {
    /// Its type and text.
    pub(crate) text: String,
    /// Where it came from in the author's code, innermost first; none where the guest does not say.
    pub(crate) places: Vec<String>,
}

/// The words that a guest has left in the call being made, in case it fails.
#[derive(Default)]
pub(crate) struct LastWords {
    described: Option<Exception>,
    /// The last that it wrote to its standard error.
    printed: Vec<u8>,
}

impl LastWords {
    /// Adds what the guest wrote to its standard error.
    pub(crate) fn print(&mut self, bytes: &[u8]) {
        self.printed.extend_from_slice(bytes);
        self.printed
            .drain(..self.printed.len().saturating_sub(MAX_TEXT));
    }

    /// The exception of which they tell, if they do.
    pub(crate) fn exception(self) -> Option<Exception> {
        let printed = || plain(String::from_utf8_lossy(&self.printed).trim_end(), MAX_TEXT);
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
                let places = places
                    .iter()
                    .take(MAX_PLACES)
                    .map(|place| plain(place, MAX_PLACE))
                    .collect();
                host.last_words.described = Some(Exception {
                    text: plain(&text, MAX_TEXT),
                    places,
                });
                Ok(())
            },
        )
    }
}

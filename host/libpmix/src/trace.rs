//! Trace of the library on standard error, for programs whose environment asks for it by `PEAL_LOG`.
//! Without the variable nothing is set up, and each line of the trace costs one comparison.
use std::{
    env,
    io::{self, Write},
    sync::Once,
};
use tracing_subscriber::{filter::Targets, fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// Variable with the filter, in the form of the command `peal`: levels and their targets.
const VARIABLE: &str = "PEAL_LOG";

/// Starts the trace at the first init of the process, if the variable asks for it. A program in Rust
/// that is linked with this crate keeps a subscriber of its own.
pub(crate) fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let Some(text) = env::var_os(VARIABLE).filter(|text| !text.is_empty()) else {
            return;
        };
        let Some(filter) = text.to_str().and_then(parsed) else {
            say(&format!(
                "{VARIABLE} is {text:?}; it should be levels and their targets, such as \
                 warn,peal_client=debug"
            ));
            return;
        };
        let lines = fmt::layer()
            .with_writer(|| StandardError)
            // Lines of several procs share one standard error, which is rarely a terminal.
            .with_ansi(false);
        // It fails if the program has a subscriber already, which then gets the trace.
        let _ = tracing_subscriber::registry()
            .with(filter)
            .with(lines)
            .try_init();
    });
}

/// Writes a line to standard error, for what a program must learn without a trace.
pub(crate) fn say(text: &str) {
    let line = format!("libpmix: {text}\n");
    // Nothing else can be told of a standard error that takes no lines.
    let _ = StandardError.write_all(line.as_bytes());
}

/// Returns the filter of a text; `None` for a text of another form.
fn parsed(text: &str) -> Option<Targets> {
    text.parse().ok()
}

/// Standard error without the lock of Rust's own: a forked child of the program may find that one
/// held by a thread that it does not have.
struct StandardError;

impl Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: the pointer and the length are those of a slice.
        let written =
            unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
        usize::try_from(written).map_err(|_| io::Error::last_os_error())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn filters_have_levels_and_targets() {
        let filter = parsed("warn,peal_client=debug,peal_libpmix::client=off").unwrap();
        assert!(filter.would_enable("peal_libpmix", &Level::WARN));
        assert!(!filter.would_enable("peal_libpmix", &Level::INFO));
        assert!(filter.would_enable("peal_client::session", &Level::DEBUG));
        assert!(!filter.would_enable("peal_libpmix::client::get", &Level::ERROR));
        assert!(parsed("peal=loud").is_none());
    }
}

//! Trace of the library on standard error, for programs whose environment asks for it by `PEAL_LOG`.
//! Without the variable nothing is set up, and each line of the trace costs one comparison.
use std::{
    env, fs,
    io::{self, Write},
    os::unix::{
        fs::{FileTypeExt, MetadataExt},
        net::UnixDatagram,
    },
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

/// Writes a line to standard error, for what a program must learn without a trace; to the system's log where standard
/// error leads nowhere.
pub(crate) fn say(text: &str) {
    let line = format!("libpmix: {text}");
    // Nothing else can be told where neither takes lines.
    let _ = match system_log() {
        Some(log) => log.send(format!("{PRIORITY}{line}").as_bytes()).map(drop),
        None => StandardError.write_all(format!("{line}\n").as_bytes()),
    };
}

/// Socket of the system's log.
const SYSTEM_LOG: &str = "/dev/log";

/// Priority of all messages there: facility `daemon`, severity `warning`.
const PRIORITY: &str = "<28>";

/// Returns the system's log if there is one and the standard error of this process is `/dev/null`, as in launchers that are
/// daemons. Each write is a message.
pub(crate) fn system_log() -> Option<UnixDatagram> {
    if !is_null("/proc/self/fd/2") {
        return None;
    }
    let log = UnixDatagram::unbound().ok()?;
    log.connect(SYSTEM_LOG).ok()?;
    // A log that is not read must not delay the launcher or its server.
    log.set_nonblocking(true).ok()?;
    Some(log)
}

/// Returns true if a path leads to `/dev/null`.
fn is_null(path: &str) -> bool {
    let device = |path| {
        let found = fs::metadata(path).ok()?;
        found.file_type().is_char_device().then(|| found.rdev())
    };
    device(path).is_some_and(|number| device("/dev/null") == Some(number))
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
    fn null_device_differs_from_other_devices_and_files() {
        assert!(is_null("/dev/null"));
        for other in ["/dev/zero", "/proc/self/exe", "/nowhere"] {
            assert!(!is_null(other), "{other}");
        }
    }

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

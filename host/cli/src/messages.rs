//! Standard error for messages. The library gives a launcher's server the socket of the system's
//! log, where the launcher's own standard error leads nowhere: there each write is a message, and
//! begins with a priority.
use rustix::net::{SocketType, sockopt::socket_type};
use std::{
    io::{self, Write},
    sync::LazyLock,
};

/// Priority of all messages: facility `daemon`, severity `warning`.
const PRIORITY: &str = "<28>";

/// Prefix of lines, and name of the program in the system's log.
pub const PREFIX: &str = "peal: ";

/// True if standard error is the system's log.
static IS_SYSTEM_LOG: LazyLock<bool> =
    LazyLock::new(|| socket_type(io::stderr()) == Ok(SocketType::DGRAM));

/// Writer of messages, each in one write.
#[derive(Debug)]
pub struct StandardErrorWriter;

impl Write for StandardErrorWriter {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        if !*IS_SYSTEM_LOG {
            return io::stderr().write(message);
        }
        let text = message.strip_prefix(PREFIX.as_bytes()).unwrap_or(message);
        let parts = [
            PRIORITY.as_bytes(),
            PREFIX.as_bytes(),
            text.trim_ascii_end(),
        ];
        // A message that the log does not take is lost: there is no other place for it.
        let _ = io::stderr().write_all(&parts.concat());
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

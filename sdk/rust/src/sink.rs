//! Capability `sink`: writes to what the admin named and opened for this module.
use crate::bindings::sink;

/// The names of the sinks that this module may write to, in their order.
pub fn names() -> Vec<String> {
    sink::names()
}

/// Writes all of this for the request being logged, at once: what was written before a call fails stays written.
///
/// # Errors
/// The status with which it was refused: [`crate::status::PMIX_ERR_NOT_FOUND`] where no sink has this name,
/// [`crate::status::PMIX_ERR_NOT_AVAILABLE`] where nothing is being logged, else what the sink says.
pub fn write(sink: &str, bytes: impl AsRef<[u8]>) -> Result<(), i32> {
    sink::write(sink, bytes.as_ref())
}

/// A mail in its parts; the host makes the message.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mail {
    /// From whom; none: whom the admin said.
    pub sender: Option<String>,
    /// To whom.
    pub recipients: Vec<String>,
    /// One line.
    pub subject: String,
    /// Any text, with line feeds.
    pub text: String,
    /// By which mail server; none: the one that the admin said.
    pub server: Option<String>,
    /// On which port of it.
    pub port: Option<u16>,
}

/// Hands a mail to a sink that takes mail, for the request being logged.
///
/// # Errors
/// As [`write`], and [`crate::status::PMIX_ERR_NOT_SUPPORTED`] by a sink that takes none,
/// [`crate::status::PMIX_ERR_BAD_PARAM`] where an address is none, [`crate::status::PMIX_ERR_NO_PERMISSIONS`] for a sender,
/// recipient or server that its admin does not allow.
pub fn submit(sink: &str, mail: Mail) -> Result<(), i32> {
    let Mail {
        sender,
        recipients,
        subject,
        text,
        server,
        port,
    } = mail;
    sink::submit(
        sink,
        &sink::Mail {
            sender,
            recipients,
            subject,
            text,
            server,
            port,
        },
    )
}

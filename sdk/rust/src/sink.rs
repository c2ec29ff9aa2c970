//! Capability `sink`: writes to the sinks that the admin opened for this module.
use crate::bindings::sink;

/// Returns the names of the sinks that this module may write to, sorted.
pub fn names() -> Vec<String> {
    sink::names()
}

/// Writes all bytes immediately, for the log request of this call. Data written before a call fails
/// stay written.
///
/// # Errors
/// The status of the refusal: [`crate::status::PMIX_ERR_NOT_FOUND`] for an unknown sink,
/// [`crate::status::PMIX_ERR_NOT_AVAILABLE`] outside of log channels, or the status of the sink.
pub fn write(sink: &str, bytes: impl AsRef<[u8]>) -> Result<(), i32> {
    sink::write(sink, bytes.as_ref())
}

/// Parts of a mail; the host composes the message.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mail {
    /// Address of the sender; none: the sender that the admin configured.
    pub sender: Option<String>,
    /// Addresses of the recipients.
    pub recipients: Vec<String>,
    /// Subject, one line.
    pub subject: String,
    /// Body, with line feeds.
    pub text: String,
    /// Mail server; none: the server that the admin configured.
    pub server: Option<String>,
    /// Port of the mail server; none: the port that the admin configured.
    pub port: Option<u16>,
}

/// Passes a mail to a mail sink, for the log request of this call.
///
/// # Errors
/// Those of [`write`], and [`crate::status::PMIX_ERR_NOT_SUPPORTED`] by a sink of another kind,
/// [`crate::status::PMIX_ERR_BAD_PARAM`] for an invalid address,
/// [`crate::status::PMIX_ERR_NO_PERMISSIONS`] for a sender, recipient or server that the admin does
/// not allow.
pub fn send_mail(sink: &str, mail: Mail) -> Result<(), i32> {
    let Mail {
        sender,
        recipients,
        subject,
        text,
        server,
        port,
    } = mail;
    sink::send_mail(
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

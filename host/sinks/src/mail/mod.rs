//! Mail sinks: they build a message within the limits set by the admin and submit it to a mail
//! server.
mod message;
mod rules;
mod submit;

pub(crate) use message::MailRules;
pub use rules::{AddressPattern, Addresses, MalformedPattern, MalformedServer, SmtpServer};

use crate::{SinkError, worker::SinkTransport};
use std::{path::PathBuf, time::Duration};
use submit::Submission;

/// Settings of a mail sink.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MailSettings {
    /// The server that mail is submitted to.
    pub server: SmtpServer,
    /// Encryption of the connection.
    pub encryption: Encryption,
    /// Certificates of authorities in PEM; `None` for those of the system.
    pub ca: Option<PathBuf>,
    /// Credentials for `server`. They are not sent to other servers or without encryption.
    pub credentials: Option<Credentials>,
    /// Default sender: an address, or `Name <address>`.
    pub sender: String,
    /// Senders that a requester may choose besides `sender`.
    pub allowed_senders: Addresses,
    /// Servers that a requester may choose besides `server`.
    pub allowed_servers: Vec<SmtpServer>,
    /// Allowed recipients.
    pub allowed_recipients: Addresses,
    /// Maximum number of recipients of a mail.
    pub max_recipients: usize,
    /// Maximum size of a message in bytes, as it is sent.
    pub max_bytes: usize,
    /// Name in the SMTP greeting; `None` for the name of this machine.
    pub hello: Option<String>,
    /// Maximum time for connecting and for each reply.
    pub timeout: Duration,
    /// Maximum time for the reply to a message. After it the result is unknown and the message is
    /// sent again: RFC 5321 requires ten minutes.
    pub data_timeout: Duration,
}

/// Credentials for a mail server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credentials {
    /// The user name.
    pub user: String,
    /// A file with the password on its first line, readable by its owner only.
    pub password_file: PathBuf,
}

/// Encryption of the connection to a mail server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Encryption {
    /// Required STARTTLS: a server without it gets no mail.
    #[default]
    StartTls,
    /// STARTTLS if the server offers it. An attacker on the way can remove the offer.
    StartTlsIfOffered,
    /// TLS from the first byte.
    Tls,
    /// No encryption.
    None,
}

impl MailSettings {
    /// Returns the default settings: requesters may choose neither sender nor server, and any
    /// recipient.
    pub fn new(server: SmtpServer, sender: impl Into<String>) -> MailSettings {
        MailSettings {
            server,
            encryption: Encryption::default(),
            ca: None,
            credentials: None,
            sender: sender.into(),
            allowed_senders: Addresses::Only(Vec::new()),
            allowed_servers: Vec::new(),
            allowed_recipients: Addresses::Any,
            max_recipients: 100,
            max_bytes: 1 << 20,
            hello: None,
            timeout: Duration::from_secs(30),
            data_timeout: Duration::from_secs(600),
        }
    }

    /// Creates the transport.
    pub(crate) fn carrier(&self, name: &str) -> Result<Box<dyn SinkTransport>, SinkError> {
        let invalid = |setting, value, right| SinkError::Setting {
            name: name.to_owned(),
            setting,
            value,
            right,
        };
        // The functions of sockets reject a timeout of zero.
        if self.timeout.is_zero() || self.data_timeout.is_zero() {
            return Err(invalid(
                "timeout or data_timeout",
                "0".to_owned(),
                "greater than 0",
            ));
        }
        if self.encryption == Encryption::None && self.credentials.is_some() {
            let right = "start-tls, start-tls-if-offered or tls with credentials: a password is not sent without encryption";
            return Err(invalid("encryption", "none".to_owned(), right));
        }
        Ok(Box::new(Submission::new(name, self)?))
    }
}

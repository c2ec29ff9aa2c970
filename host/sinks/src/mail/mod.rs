//! Mail: what a requester asks for becomes a message within what the admin allows, and a mail server is given it.
mod message;
mod rules;
mod secret;
mod submit;

pub(crate) use message::MailRules;
pub use rules::{AddressPattern, Addresses, MalformedPattern, MalformedServer, SmtpServer};
pub use secret::Credentials;

use crate::{SinkError, worker::SinkTransport};
use std::{path::PathBuf, time::Duration};
use submit::Submission;

/// People, by way of a mail server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MailSettings {
    /// The server that mail is submitted to.
    pub server: SmtpServer,
    /// Whether what is said to it can be read on the way.
    pub encryption: Encryption,
    /// Certificates of authorities, in PEM; those of the system where there is no file.
    pub ca: Option<PathBuf>,
    /// Who we are to `server`. Other servers are never told, and neither is anybody without encryption.
    pub credentials: Option<Credentials>,
    /// Whom mail is from if its requester does not say: an address, or `Name <address>`.
    pub sender: String,
    /// Whom a requester may say that mail is from, beside `sender`.
    pub allowed_senders: Addresses,
    /// The servers that a requester may choose, beside `server`.
    pub allowed_servers: Vec<SmtpServer>,
    /// Who may be sent mail.
    pub allowed_recipients: Addresses,
    /// How many recipients a mail may have.
    pub max_recipients: usize,
    /// How large a mail may be, as it is sent, in bytes.
    pub max_bytes: usize,
    /// By which name we greet servers; that of this machine, if there is none.
    pub hello: Option<String>,
    /// How long connecting, and each answer, may take.
    pub timeout: Duration,
    /// How long the answer to a whole message may take. When it is over, nobody knows whether it was accepted, and it is repeated:
    /// RFC 5321 asks for ten minutes.
    pub data_timeout: Duration,
}

/// Whether what is said to a mail server can be read on the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Encryption {
    /// Not, behind the first words: where the server does not offer STARTTLS it gets nothing.
    #[default]
    StartTls,
    /// Only where the server does not offer STARTTLS, or somebody on the way takes out that it does.
    StartTlsIfOffered,
    /// Not at all: TLS from the first byte on.
    Tls,
    /// It can.
    None,
}

impl MailSettings {
    /// A server and a sender, with the defaults: requesters may choose neither, and write to anybody.
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

    /// What delivers there.
    pub(crate) fn carrier(&self, name: &str) -> Result<Box<dyn SinkTransport>, SinkError> {
        let setting = |what, value, right| SinkError::Setting {
            name: name.to_owned(),
            what,
            value,
            right,
        };
        if self.timeout.is_zero() || self.data_timeout.is_zero() {
            return Err(setting(
                "timeout or data_timeout",
                "0".to_owned(),
                "more than nothing",
            ));
        }
        if self.encryption == Encryption::None && self.credentials.is_some() {
            let right = "start-tls, start-tls-if-offered or tls where there are credentials: a password is not said in the open";
            return Err(setting("encryption", "none".to_owned(), right));
        }
        Ok(Box::new(Submission::new(name, self)?))
    }
}

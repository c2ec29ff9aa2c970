//! SMTP session with a mail server: recipient by recipient, and the meaning of its replies.
use super::{Encryption, MailSettings, SmtpServer};
use crate::{
    SinkError,
    queue::QueuedMessage,
    secret::{SecretKind, secret},
    syslog::certificates,
    worker::{DeliveryResult, IdleTransport, SinkTransport},
};
use lettre::{
    Address,
    transport::smtp::{
        Error,
        authentication::{Credentials, Mechanism},
        client::{Certificate, CertificateStore, SmtpConnection, TlsParameters},
        commands::{Data, Mail, Rcpt},
        extension::ClientId,
    },
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::Path, time::Duration};

/// Server of a mail; `None` for the sink's own one.
pub(super) type SubmitTarget = Option<SmtpServer>;

/// Envelope of a mail.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct MailEnvelope {
    pub(super) target: SubmitTarget,
    #[serde(with = "as_text")]
    pub(super) sender: Address,
    /// The recipients that have not got the mail yet.
    #[serde(with = "all_as_text")]
    pub(super) recipients: Vec<Address>,
}

mod as_text {
    //! Serializes an address as a string.
    use lettre::Address;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(address: &Address, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(address.as_ref())
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Address, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

mod all_as_text {
    //! Serializes addresses as strings.
    use lettre::Address;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(
        addresses: &[Address],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(addresses.iter().map(AsRef::<str>::as_ref))
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<Address>, D::Error> {
        let texts = Vec::<String>::deserialize(from)?;
        texts
            .iter()
            .map(|text| text.parse().map_err(D::Error::custom))
            .collect()
    }
}

/// Parameters of the connections to one server.
struct SmtpSession {
    tls: TlsParameters,
    credentials: Option<Credentials>,
}

/// Transport that submits mail.
pub(super) struct Submission {
    own: SmtpServer,
    lines: BTreeMap<SmtpServer, SmtpSession>,
    encryption: Encryption,
    hello: ClientId,
    timeout: Duration,
    data_timeout: Duration,
    /// An open connection, kept for the next mail.
    open: Option<(SmtpServer, SmtpConnection)>,
}

/// Reason for which a mail was not sent.
enum SubmitError {
    /// The server is unreachable, refused the connection or ended it.
    Server(String),
    /// A temporary error.
    Temporary(String),
    /// A permanent error.
    Permanent(String),
}

/// Replies of a server for each recipient.
#[derive(Default)]
struct RecipientReplies {
    accepted: Vec<Address>,
    later: Vec<Address>,
    /// The reason for `later`.
    reason: String,
    refused: Vec<String>,
}

impl Submission {
    pub(super) fn new(name: &str, settings: &MailSettings) -> Result<Submission, SinkError> {
        let authorities = settings
            .ca
            .as_deref()
            .map(|ca| authorities(name, ca))
            .transpose()?;
        let mut lines = BTreeMap::new();
        for server in settings.allowed_servers.iter().chain([&settings.server]) {
            let wrong = |error: Error| SinkError::Tls {
                name: name.to_owned(),
                subject: server.to_string(),
                reason: error.to_string(),
            };
            let mut tls = TlsParameters::builder(server.host.clone());
            if let Some(authorities) = &authorities {
                tls = tls.certificate_store(CertificateStore::None);
                tls = authorities
                    .iter()
                    .cloned()
                    .fold(tls, |tls, authority| tls.add_root_certificate(authority));
            }
            // Credentials are for the sink's own server only.
            let credentials = settings
                .credentials
                .as_ref()
                .filter(|_| *server == settings.server);
            let credentials = credentials.map(|credentials| {
                let password = secret(SecretKind::Password, &credentials.password_file)
                    .map_err(|error| SinkError::credential(name, error))?;
                Ok::<_, SinkError>(Credentials::new(credentials.user.clone(), password))
            });
            let credentials = credentials.transpose()?;
            lines.insert(
                server.clone(),
                SmtpSession {
                    tls: tls.build_rustls().map_err(wrong)?,
                    credentials,
                },
            );
        }
        let nodename = || {
            rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned()
        };
        Ok(Submission {
            own: settings.server.clone(),
            lines,
            encryption: settings.encryption,
            hello: ClientId::Domain(settings.hello.clone().unwrap_or_else(nodename)),
            timeout: settings.timeout,
            data_timeout: settings.data_timeout,
            open: None,
        })
    }

    fn send(
        &mut self,
        server: &SmtpServer,
        head: &MailEnvelope,
        message: &[u8],
    ) -> Result<RecipientReplies, SubmitError> {
        if let Some((open, mut connection)) = self.open.take() {
            if open == *server
                // The first command shows whether the open connection still works, before anything
                // is sent twice.
                && connection
                    .command(Mail::new(Some(head.sender.clone()), Vec::new()))
                    .is_ok()
            {
                return self.converse(server, connection, head, message);
            }
            // The server may have closed the connection or reached a limit per connection: start
            // again.
            drop(connection);
        }
        let mut connection = self.connect(server)?;
        connection
            .command(Mail::new(Some(head.sender.clone()), Vec::new()))
            .map_err(submit_error)?;
        self.converse(server, connection, head, message)
    }

    /// Continues after the MAIL command.
    fn converse(
        &mut self,
        server: &SmtpServer,
        mut connection: SmtpConnection,
        head: &MailEnvelope,
        message: &[u8],
    ) -> Result<RecipientReplies, SubmitError> {
        let mut replies = RecipientReplies::default();
        for recipient in &head.recipients {
            match connection
                .command(Rcpt::new(recipient.clone(), Vec::new()))
                .map_err(submit_error)
            {
                Ok(_) => replies.accepted.push(recipient.clone()),
                Err(SubmitError::Permanent(reason)) => {
                    replies.refused.push(format!("{recipient}: {reason}"))
                }
                Err(SubmitError::Temporary(reason)) => {
                    replies.later.push(recipient.clone());
                    replies.reason = format!("{recipient}: {reason}");
                }
                Err(gone) => return Err(gone),
            }
        }
        // Without an accepted recipient a server refuses DATA, which would look like a refusal of
        // the mail.
        if replies.accepted.is_empty() {
            return Ok(replies);
        }
        connection.command(Data).map_err(submit_error)?;
        // A late reply must be waited for: without it the mail is sent again.
        let lost = |error: std::io::Error| SubmitError::Server(error.to_string());
        connection
            .set_timeout(Some(self.data_timeout))
            .map_err(lost)?;
        connection.message(message).map_err(submit_error)?;
        if connection.set_timeout(Some(self.timeout)).is_ok() {
            self.open = Some((server.clone(), connection));
        }
        Ok(replies)
    }

    fn connect(&self, server: &SmtpServer) -> Result<SmtpConnection, SubmitError> {
        // Errors before the MAIL command say nothing about the mail, even if they are permanent.
        let not_in = |what: &str, error: &dyn ToString| {
            SubmitError::Server(format!("{what}: {}", error.to_string()))
        };
        let no = |what: &str| SubmitError::Server(what.to_owned());
        let line = self
            .lines
            .get(server)
            .ok_or_else(|| SubmitError::Permanent(format!("{server} is not allowed any more")))?;
        let at_once = (self.encryption == Encryption::Tls).then_some(&line.tls);
        let to = (server.host.as_str(), server.port);
        let mut connection =
            SmtpConnection::connect(to, Some(self.timeout), &self.hello, at_once, None)
                .map_err(|error| not_in("no connection", &error))?;
        match self.encryption {
            Encryption::StartTls | Encryption::StartTlsIfOffered if connection.can_starttls() => {
                connection
                    .starttls(&line.tls, &self.hello)
                    .map_err(|error| not_in("STARTTLS", &error))?;
            }
            Encryption::StartTls => return Err(no("the server does not offer STARTTLS")),
            Encryption::StartTlsIfOffered | Encryption::Tls | Encryption::None => {}
        }
        if let Some(credentials) = &line.credentials {
            // Checked on the connection, not by the setting: with `StartTlsIfOffered` an attacker
            // can remove the offer.
            if !connection.is_encrypted() {
                return Err(no(
                    "the server does not offer STARTTLS, and a password is not sent without encryption",
                ));
            }
            let mechanisms = [Mechanism::Plain, Mechanism::Login];
            connection
                .auth(&mechanisms, credentials)
                .map_err(|error| not_in("authentication", &error))?;
        }
        Ok(connection)
    }
}

fn authorities(name: &str, ca: &Path) -> Result<Vec<Certificate>, SinkError> {
    let wrong = |reason: String| SinkError::Tls {
        name: name.to_owned(),
        subject: ca.display().to_string(),
        reason,
    };
    let found = certificates(ca)
        .map_err(|error| SinkError::credential(name, error))?
        .into_iter()
        .map(|certificate| Certificate::from_der(certificate.to_vec()));
    found
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(error.to_string()))
}

fn submit_error(error: Error) -> SubmitError {
    let reason = error.to_string();
    if error.is_permanent() {
        SubmitError::Permanent(reason)
    } else if error.is_transient() {
        SubmitError::Temporary(reason)
    } else {
        SubmitError::Server(reason)
    }
}

impl SinkTransport for Submission {
    fn peer(&self, head: &str) -> String {
        let head: Option<MailEnvelope> = serde_json::from_str(head).ok();
        head.and_then(|head| head.target)
            .map_or_else(String::new, |server| server.to_string())
    }

    fn carry(&mut self, parcel: &mut QueuedMessage) -> DeliveryResult {
        let mut head: MailEnvelope = match serde_json::from_str(&parcel.head) {
            Ok(head) => head,
            Err(error) => {
                return DeliveryResult::Never(format!(
                    "the envelope in the store could not be read: {error}"
                ));
            }
        };
        let server = head.target.clone().unwrap_or_else(|| self.own.clone());
        match self.send(&server, &head, &parcel.body) {
            Ok(RecipientReplies {
                accepted,
                later,
                refused,
                ..
            }) if later.is_empty() => {
                if accepted.is_empty() {
                    return DeliveryResult::Never(format!(
                        "{server} refuses all recipients: {}",
                        refused.join("; ")
                    ));
                }
                DeliveryResult::Delivered { refused }
            }
            Ok(RecipientReplies {
                later,
                reason,
                refused,
                ..
            }) => {
                // The other recipients have the mail or never get it: only these are tried again.
                head.recipients = later;
                match serde_json::to_string(&head) {
                    Ok(head) => parcel.head = head,
                    Err(error) => {
                        return DeliveryResult::Never(format!(
                            "the remaining recipients could not be recorded: {error}"
                        ));
                    }
                }
                DeliveryResult::Later {
                    reason: format!("{server}: {reason}"),
                    refused,
                }
            }
            Err(SubmitError::Server(reason)) => {
                DeliveryResult::Unreachable(format!("{server}: {reason}"))
            }
            Err(SubmitError::Temporary(reason)) => DeliveryResult::Later {
                reason: format!("{server}: {reason}"),
                refused: Vec::new(),
            },
            Err(SubmitError::Permanent(reason)) => {
                DeliveryResult::Never(format!("{server}: {reason}"))
            }
        }
    }

    fn rest(&mut self) -> IdleTransport {
        if let Some((_, mut connection)) = self.open.take() {
            // The QUIT command is a courtesy; errors do not matter.
            let _ = connection.quit();
        }
        IdleTransport::Closed
    }
}

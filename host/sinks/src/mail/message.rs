//! Builds a message from the parts of a mail within the limits set by the admin. All errors of a
//! mail are found here, while the requester waits.
use super::{
    MailSettings, SmtpServer,
    submit::{MailEnvelope, SubmitTarget},
};
use crate::{
    SinkError, SinkWriteError,
    queue::{QueuedMessage, unique_id},
};
use lettre::{
    Address, Message,
    message::{
        Body, Mailbox,
        header::{ContentTransferEncoding, ContentType, HeaderName, HeaderValue},
    },
};
use peal_model::Mail;

/// Maximum length of a subject in bytes.
const LONGEST_SUBJECT: usize = 1000;
/// Maximum length of an address with its name, in bytes.
const LONGEST_ADDRESS: usize = 500;
/// Maximum number of characters of a value in an error.
const SHOWN: usize = 80;

/// Rules for mails of a sink.
#[derive(Debug)]
pub(crate) struct MailRules {
    name: String,
    settings: MailSettings,
    sender: Mailbox,
}

impl MailRules {
    pub(crate) fn new(name: &str, settings: &MailSettings) -> Result<MailRules, SinkError> {
        let sender = mailbox(&settings.sender).ok_or_else(|| SinkError::Setting {
            name: name.to_owned(),
            setting: "sender",
            value: format!("{:?}", settings.sender),
            right: AN_ADDRESS,
        })?;
        Ok(MailRules {
            name: name.to_owned(),
            settings: settings.clone(),
            sender,
        })
    }

    /// Builds the message and its envelope.
    pub(crate) fn message_for(&self, mail: Mail) -> Result<QueuedMessage, SinkWriteError> {
        let sender = self.sender(mail.sender.as_deref())?;
        let recipients = self.recipients(&mail.recipients)?;
        let target = self.target(mail.server, mail.port)?;
        if mail.subject.len() > LONGEST_SUBJECT || mail.subject.chars().any(char::is_control) {
            let right = "one line of at most 1000 bytes without control characters";
            return Err(self.malformed("subject", &mail.subject, right));
        }
        // The size is checked before the encoding enlarges the text, and again after it.
        self.check_size(mail.text.len())?;
        let addresses = recipients
            .iter()
            .map(|recipient| recipient.email.clone())
            .collect();
        let head = MailEnvelope {
            target: target.clone(),
            sender: sender.email.clone(),
            recipients: addresses,
        };
        let message = self.message(sender, recipients, mail.subject, mail.text)?;
        self.check_size(message.len())?;
        let peer = target.map_or_else(String::new, |server| server.to_string());
        let failed = |_| self.malformed("envelope", "", "one that can be written as JSON");
        Ok(QueuedMessage {
            peer,
            head: serde_json::to_string(&head).map_err(failed)?,
            body: message,
        })
    }

    fn sender(&self, wanted: Option<&str>) -> Result<Mailbox, SinkWriteError> {
        let Some(text) = wanted else {
            return Ok(self.sender.clone());
        };
        let sender = mailbox(text).ok_or_else(|| self.malformed("sender", text, AN_ADDRESS))?;
        // The sink's own address may not be combined with another name.
        if sender == self.sender || self.settings.allowed_senders.allow(&sender.email) {
            return Ok(sender);
        }
        if sender.email == self.sender.email && sender.name.is_none() {
            return Ok(self.sender.clone());
        }
        Err(self.denied("sender", text))
    }

    fn recipients(&self, wanted: &[String]) -> Result<Vec<Mailbox>, SinkWriteError> {
        if wanted.is_empty() || wanted.len() > self.settings.max_recipients {
            let right = "one recipient at least, and no more than the sink's setting allows";
            return Err(self.malformed("number of recipients", &wanted.len().to_string(), right));
        }
        let mut recipients: Vec<Mailbox> = Vec::new();
        for text in wanted {
            let recipient =
                mailbox(text).ok_or_else(|| self.malformed("recipient", text, AN_ADDRESS))?;
            if !self.settings.allowed_recipients.allow(&recipient.email) {
                return Err(self.denied("recipient", text));
            }
            // A recipient that is named twice gets one copy.
            if !recipients
                .iter()
                .any(|other| other.email == recipient.email)
            {
                recipients.push(recipient);
            }
        }
        Ok(recipients)
    }

    /// Returns the server: `None` for the sink's own one, whatever that is at the time of delivery.
    fn target(
        &self,
        host: Option<String>,
        port: Option<u16>,
    ) -> Result<SubmitTarget, SinkWriteError> {
        let own = &self.settings.server;
        // A requester may name a host or a port alone. The resulting pair has to be allowed.
        let wanted = SmtpServer {
            host: host.unwrap_or_else(|| own.host.clone()),
            port: port.unwrap_or(own.port),
        };
        if wanted == *own {
            return Ok(None);
        }
        if self.settings.allowed_servers.contains(&wanted) {
            Ok(Some(wanted))
        } else {
            Err(self.denied("server", &wanted.to_string()))
        }
    }

    fn message(
        &self,
        from: Mailbox,
        to: Vec<Mailbox>,
        subject: String,
        text: String,
    ) -> Result<Vec<u8>, SinkWriteError> {
        let domain = from.email.domain().to_owned();
        let mut builder = Message::builder()
            .from(from)
            .subject(subject)
            .date_now()
            .header(ContentType::TEXT_PLAIN);
        for recipient in to {
            builder = builder.to(recipient);
        }
        // This header stops automatic replies (RFC 3834).
        let header = HeaderName::new_from_ascii_str("Auto-Submitted");
        builder = builder.raw_header(HeaderValue::new(header, "auto-generated".to_owned()));
        builder = builder.message_id(Some(format!("<{}@{domain}>", unique_id(&self.name)?)));
        let unusual = |_| self.malformed("text", "", "text");
        let body = if is_plain(&text) {
            Body::new(text)
        } else {
            Body::new_with_encoding(text, ContentTransferEncoding::Base64).map_err(unusual)?
        };
        let failed = |_| self.malformed("envelope", "", "one that mail can have");
        let mut message = builder.body(body).map_err(failed)?.formatted();
        // The end of the last line is sent together with the final dot.
        if message.ends_with(b"\r\n") {
            message.truncate(message.len().saturating_sub(2));
        }
        Ok(message)
    }

    fn check_size(&self, bytes: usize) -> Result<(), SinkWriteError> {
        SinkWriteError::check_size(&self.name, bytes, self.settings.max_bytes)
    }

    fn malformed(&self, part: &'static str, value: &str, right: &'static str) -> SinkWriteError {
        SinkWriteError::Mail {
            name: self.name.clone(),
            part,
            value: value.chars().take(SHOWN).collect(),
            right,
        }
    }

    fn denied(&self, part: &'static str, value: &str) -> SinkWriteError {
        SinkWriteError::Denied {
            name: self.name.clone(),
            part,
            value: value.chars().take(SHOWN).collect(),
        }
    }
}

const AN_ADDRESS: &str =
    "an address, or a name and an address in <>, of at most 500 bytes, the address in ASCII";

/// Parses an address with an optional name. Control characters are rejected regardless of the
/// parser, so that nothing is added to a header or command, and an address cannot contain a second
/// one.
fn mailbox(text: &str) -> Option<Mailbox> {
    if text.len() > LONGEST_ADDRESS || text.chars().any(char::is_control) {
        return None;
    }
    let mailbox: Mailbox = text.trim().parse().ok()?;
    is_simple(&mailbox.email).then_some(mailbox)
}

/// Returns true if the address needs no quotes and has no special characters.
fn is_simple(address: &Address) -> bool {
    let is_of_domain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    let is_of_user = |byte: u8| byte.is_ascii_graphic() && !b"<>()[],;:\\\"@".contains(&byte);
    // Quoted and commented forms are valid and read differently by different servers.
    address.user().bytes().all(is_of_user) && address.domain().bytes().all(is_of_domain)
}

/// Returns true if the text can be sent almost unchanged: lines of text without characters that
/// servers on the way might change.
fn is_plain(text: &str) -> bool {
    let lines = text
        .split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line));
    let mut characters = lines.flat_map(str::chars);
    !characters.any(|character| character != '\t' && character.is_control())
}

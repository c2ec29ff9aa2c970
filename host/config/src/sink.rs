//! Table of settings of sinks, and their conversion to the settings of peal-sinks. A sink is a
//! destination outside of the process.
use crate::{
    document::SinkEntry,
    kinds::{FilePath, KeywordKind, Millis, Number, Required, Unset},
    module_kinds::List,
    problem::Problems,
    sink_kinds::{NewSink, Parsed, Permissions, TextLineKind},
    table::{NamedTable, settings},
    values::{Encryption, FileSync, SinkDurability},
};
use peal_sinks::{
    Address, AddressPattern, Addresses, Credentials, FileSettings, MailSettings, PlainHttp,
    QueueBounds, QueueDurability, Retry, SinkKind, SinkSettings, SmtpServer, SyslogSettings,
    TlsIdentity, TlsSettings, WebhookFormat, WebhookHeader, WebhookUrl,
};
use std::{path::PathBuf, time::Duration};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// A day, in milliseconds.
const DAY: u64 = 86_400_000;
const HOUR: u64 = 3_600_000;
const MILLION: u64 = 1_000_000;

const SYSLOG_ADDRESS: &str =
    "\"unix:/PATH\", \"udp://HOST:PORT\", \"tcp://HOST:PORT\" or \"tls://HOST:PORT\"";
const PATTERN: &str =
    "an address, or @ and a domain, as in \"ops@example.org\" or \"@example.org\"";
const HOST_PORT: &str = "\"HOST:PORT\"";
const WEB_ADDRESS: &str = "\"https://HOST/PATH\"";
const HEADER_FIELD: &str = "\"NAME: VALUE\"";

settings! {
    /// A destination outside of the process: a syslog server, a mail server, a web service or a file.
    /// Modules that list its name in `module.sinks` write to it. The server opens it at startup.
    "sink" Sink {
        /// Name of the sink in `module.sinks`.
        name "sink.name": String = String::new(), Required(NewSink), "\"central\"";
        /// Place of accepted messages that are not delivered yet: memory, or the store, where they
        /// survive the end of the process. A file sink writes immediately.
        durability "sink.durability": Option<SinkDurability> = None,
            Unset("\"store\" for mail, web services and syslog over a network, \"memory\" for syslog on this node", KeywordKind), "\"memory\"";
        /// Maximum number of messages in the queue. More are refused.
        max_queue_messages "sink.max_queue_messages": usize = 10_000, Number(1, MILLION), "1000";
        /// Maximum size of the messages in the queue, in bytes.
        max_queue_bytes "sink.max_queue_bytes": usize = 16 * MIB, Number(1024, 1 << 40), "1048576";
        /// Maximum number of messages of one user in the queue. More are refused.
        max_queue_messages_per_user "sink.max_queue_messages_per_user": Option<usize> = None,
            Unset("a quarter of sink.max_queue_messages", Number(1, MILLION)), "100";
        /// Maximum size of the messages of one user in the queue, in bytes.
        max_queue_bytes_per_user "sink.max_queue_bytes_per_user": Option<usize> = None,
            Unset("a quarter of sink.max_queue_bytes", Number(256, 1 << 40)), "262144";
        /// Delay of the first retry after a failure, in milliseconds. Each later delay is twice as
        /// long.
        first_retry_delay "sink.first_retry_delay_ms": Duration = Duration::from_secs(1), Millis(10, DAY), "500";
        /// Maximum delay between retries, in milliseconds.
        max_retry_delay "sink.max_retry_delay_ms": Duration = Duration::from_secs(300), Millis(10, DAY), "60000";
        /// Age at which an undelivered message is dropped, in milliseconds.
        delivery_timeout "sink.delivery_timeout_ms": Duration = Duration::from_secs(5 * 24 * 3600), Millis(1000, 30 * DAY), "3600000";
    }

    /// A syslog server.
    "sink.syslog" syslog: Syslog {
        /// Address of the syslog server. Over TCP and TLS each message is preceded by its length
        /// (RFC 6587, RFC 5425).
        address "sink.syslog.address": Option<Address> = None, Unset("not a syslog sink", Parsed(SYSLOG_ADDRESS)),
            "\"tls://log.example.org:6514\"";
        /// Maximum length of a message, in bytes.
        max_message_bytes "sink.syslog.max_message_bytes": usize = 8 * KIB, Number(480, MIB as u64), "2048";
        /// Timeout of a connection attempt or a write, in milliseconds.
        timeout "sink.syslog.timeout_ms": Duration = Duration::from_secs(10), Millis(10, HOUR), "5000";
        /// File with the certificates of trusted authorities, in PEM.
        ca "sink.syslog.ca": Option<PathBuf> = None, Unset("the authorities of the system", FilePath), "\"/etc/peal/log-ca.pem\"";
        /// File with the client certificate and its chain, in PEM, for servers that request one.
        certificate "sink.syslog.certificate": Option<PathBuf> = None, Unset("none", FilePath), "\"/etc/peal/node.pem\"";
        /// File with the private key of the client certificate, in PEM.
        key "sink.syslog.key": Option<PathBuf> = None, Unset("none", FilePath), "\"/etc/peal/node.key\"";
    }

    /// Mail, submitted to a mail server.
    "sink.mail" mail: Mail {
        /// Server to which mail is submitted.
        server "sink.mail.server": Option<SmtpServer> = None, Unset("not a mail sink", Parsed(HOST_PORT)),
            "\"mail.example.org:587\"";
        /// Encryption of the connection to the server.
        encryption "sink.mail.encryption": Encryption = Encryption::StartTls, KeywordKind, "\"tls\"";
        /// File with the certificates of trusted authorities, in PEM.
        ca "sink.mail.ca": Option<PathBuf> = None, Unset("the authorities of the system", FilePath), "\"/etc/peal/mail-ca.pem\"";
        /// User name for the server. It is sent only to this server and only over an encrypted
        /// connection.
        user "sink.mail.user": Option<String> = None, Unset("none", TextLineKind("a name")), "\"peal\"";
        /// File with the password on its first line. Only its owner may have read permission.
        password_file "sink.mail.password_file": Option<PathBuf> = None, Unset("none", FilePath), "\"/etc/peal/mail-password\"";
        /// Sender of mail, unless the requester names an allowed other one: an address, or a name
        /// and an address.
        sender "sink.mail.sender": Option<String> = None, Unset("none; required for a mail sink", TextLineKind("an address, as in \"Peal <peal@example.org>\"")),
            "\"Peal <peal@example.org>\"";
        /// Senders that a requester may name.
        allowed_senders "sink.mail.allowed_senders": Vec<AddressPattern> = Vec::new(), List(Parsed(PATTERN)), "[\"@example.org\"]";
        /// Servers that a requester may choose.
        allowed_servers "sink.mail.allowed_servers": Vec<SmtpServer> = Vec::new(), List(Parsed(HOST_PORT)), "[\"backup.example.org:587\"]";
        /// Addresses that may receive mail.
        allowed_recipients "sink.mail.allowed_recipients": Option<Vec<AddressPattern>> = None,
            Unset("all addresses", List(Parsed(PATTERN))), "[\"@example.org\", \"ops@example.com\"]";
        /// Maximum number of recipients of one mail.
        max_recipients "sink.mail.max_recipients": usize = 100, Number(1, 10_000), "10";
        /// Maximum size of a mail as sent, in bytes.
        max_message_bytes "sink.mail.max_message_bytes": usize = MIB, Number(4096, 1 << 30), "65536";
        /// Host name in the HELO or EHLO command.
        helo_name "sink.mail.helo_name": Option<String> = None, Unset("name of this node", TextLineKind("a host name")), "\"node1.example.org\"";
        /// Timeout of a connection attempt or a reply, in milliseconds.
        timeout "sink.mail.timeout_ms": Duration = Duration::from_secs(30), Millis(10, HOUR), "10000";
        /// Timeout of the reply to a complete message, in milliseconds. RFC 5321 recommends ten
        /// minutes.
        data_timeout "sink.mail.data_timeout_ms": Duration = Duration::from_secs(600), Millis(10, HOUR), "60000";
    }

    /// A web service, such as a chat, to which each message is posted.
    "sink.webhook" webhook: Webhook {
        /// URL to which messages are posted. Requesters and modules choose no part of it. Redirects
        /// to other URLs are refused.
        url "sink.webhook.url": Option<WebhookUrl> = None, Unset("not a webhook sink", Parsed(WEB_ADDRESS)),
            "\"https://chat.example.org\"";
        /// Permission for a URL that begins with `http://`: none, or if its host is a loopback address
        /// of this node in digits.
        http "sink.webhook.http": PlainHttp = PlainHttp::Refused, KeywordKind, "\"loopback\"";
        /// File with the path of the URL on its first line, for services that know the sender by a
        /// secret path. Only its owner may have read permission. The URL then has no path.
        path_file "sink.webhook.path_file": Option<PathBuf> = None, Unset("none", FilePath), "\"/etc/peal/chat-path\"";
        /// File with a token on its first line, which is sent as `Authorization: Bearer`. Only its owner
        /// may have read permission. It is sent over TLS only.
        token_file "sink.webhook.token_file": Option<PathBuf> = None, Unset("none", FilePath), "\"/etc/peal/chat-token\"";
        /// Header fields of each request. Secrets belong in `path_file` or `token_file`.
        headers "sink.webhook.headers": Vec<WebhookHeader> = Vec::new(), List(Parsed(HEADER_FIELD)), "[\"x-cluster: alpha\"]";
        /// File with the certificates of trusted authorities, in PEM.
        ca "sink.webhook.ca": Option<PathBuf> = None, Unset("the authorities of the system", FilePath), "\"/etc/peal/chat-ca.pem\"";
        /// Form of the body: `{"text": "..."}` with the text that a module writes, or the JSON object
        /// that a module writes.
        format "sink.webhook.format": WebhookFormat = WebhookFormat::Text, KeywordKind, "\"json\"";
        /// Maximum size of the body of a request, in bytes.
        max_message_bytes "sink.webhook.max_message_bytes": usize = 64 * KIB, Number(256, 1 << 30), "16384";
        /// Timeout of a request, from the connection to the end of the reply, in milliseconds.
        timeout "sink.webhook.timeout_ms": Duration = Duration::from_secs(30), Millis(10, HOUR), "10000";
    }

    /// A file.
    "sink.file" file: LogFile {
        /// Path of the file. Its directory must exist.
        path "sink.file.path": Option<PathBuf> = None, Unset("not a file sink", FilePath), "\"/var/log/peal/board.log\"";
        /// Permissions of a new file.
        mode "sink.file.mode": u32 = 0o600, Permissions, "\"640\"";
        /// Size at which the file is rotated, in bytes.
        max_bytes "sink.file.max_bytes": u64 = 64 * MIB as u64, Number(1024, 1 << 40), "1048576";
        /// Maximum number of rotated files, called NAME.1, NAME.2 and so on.
        max_rotated_files "sink.file.max_rotated_files": u32 = 5, Number(0, 1000), "10";
        /// Maximum length of a message, in bytes.
        max_message_bytes "sink.file.max_message_bytes": usize = MIB, Number(80, 1 << 30), "65536";
        /// Time at which a message reaches the disk: when the system writes it, or before the
        /// requester receives a reply.
        sync "sink.file.sync": FileSync = FileSync::Never, KeywordKind, "\"each\"";
    }
}

impl NamedTable for Sink {
    const HEAD: &'static str = "sink";
    const MAX_ENTRIES: usize = 64;

    fn name(&self) -> &str {
        &self.name
    }
}

impl SinkEntry {
    /// Returns the settings by which the sink is opened.
    ///
    /// # Errors
    /// All problems of the combination of settings.
    pub fn to_open(&self) -> Result<SinkSettings, Problems> {
        let (kind, retry) = both(self.kind(), self.retry())?;
        let Sink {
            name,
            durability,
            max_queue_messages,
            max_queue_bytes,
            max_queue_messages_per_user,
            max_queue_bytes_per_user,
            ..
        } = self.settings.clone();
        let is_far = match &kind {
            SinkKind::Mail(_) | SinkKind::Webhook(_) => true,
            SinkKind::Syslog(syslog) => !matches!(syslog.address, Address::Unix(_)),
            SinkKind::File(_) => false,
        };
        let durability = match durability {
            Some(SinkDurability::Store) => QueueDurability::Store,
            Some(SinkDurability::Memory) => QueueDurability::Memory,
            // Messages for a machine that is away survive a restart in the store.
            None if is_far => QueueDurability::Store,
            None => QueueDurability::Memory,
        };
        Ok(SinkSettings {
            name,
            kind,
            queue: QueueBounds {
                messages: max_queue_messages,
                bytes: max_queue_bytes,
                user_messages: max_queue_messages_per_user
                    .unwrap_or(max_queue_messages.div_ceil(4)),
                user_bytes: max_queue_bytes_per_user.unwrap_or(max_queue_bytes.div_ceil(4)),
            },
            durability,
            retry,
        })
    }

    fn retry(&self) -> Result<Retry, Problems> {
        let Sink {
            first_retry_delay,
            max_retry_delay,
            delivery_timeout,
            ..
        } = self.settings.clone();
        // peal-sinks checks this as well, but does not know the place in the file.
        if first_retry_delay > max_retry_delay {
            return Err(self.single_problem(
                "sink.first_retry_delay_ms",
                "sink.first_retry_delay_ms is more than sink.max_retry_delay_ms",
            ));
        }
        Ok(Retry {
            first: first_retry_delay,
            longest: max_retry_delay,
            give_up: delivery_timeout,
        })
    }

    /// Returns a single problem of a key as the error.
    pub(crate) fn single_problem(&self, key: &str, message: impl Into<String>) -> Problems {
        Problems(vec![self.problem(key, message)])
    }

    /// Returns the kind of the sink, which the given address key selects. Settings of other kinds
    /// are problems.
    fn kind(&self) -> Result<SinkKind, Problems> {
        const PLACES: [(&str, &str); 4] = [
            ("sink.syslog.", "sink.syslog.address"),
            ("sink.mail.", "sink.mail.server"),
            ("sink.webhook.", "sink.webhook.url"),
            ("sink.file.", "sink.file.path"),
        ];
        // The origin decides, because the values of all kinds have defaults.
        let mut given = PLACES
            .iter()
            .filter(|(_, place)| self.origin_of(place).is_some());
        let wanted =
            "a sink has one of `syslog.address`, `mail.server`, `webhook.url` and `file.path`";
        let Some((section, place)) = given.next() else {
            return Err(self.single_problem("sink.name", wanted));
        };
        if let Some((_, second)) = given.next() {
            return Err(self.single_problem(
                second,
                format!("{wanted}; this one has {place} and {second}"),
            ));
        }
        // Otherwise these settings would have no effect, and nothing would say so.
        let is_of_other = |key: &&&str| {
            PLACES
                .iter()
                .any(|(other, _)| other != section && key.starts_with(other))
        };
        let message = |key| format!("{key} does not apply to a sink that has {place}");
        let of_others = self
            .origins
            .keys()
            .filter(is_of_other)
            .map(|key| self.problem(key, message(key)));
        let of_others = Problems(of_others.collect()).or_none();
        let Sink {
            syslog,
            mail,
            webhook,
            file,
            ..
        } = &self.settings;
        let kind = match (&syslog.address, &mail.server, &webhook.url, &file.path) {
            (Some(address), ..) => self.syslog(address).map(SinkKind::Syslog),
            (_, Some(server), ..) => self.mail(server).map(|mail| SinkKind::Mail(Box::new(mail))),
            (_, _, Some(url), _) => self
                .webhook(url)
                .map(|webhook| SinkKind::Webhook(Box::new(webhook))),
            (.., Some(path)) => Ok(SinkKind::File(self.file(path))),
            // Not reached: the value of a given key is missing only if it is invalid, and then the
            // sink is not opened.
            _ => Err(self.single_problem("sink.name", wanted)),
        };
        both(kind, of_others).map(|(kind, ())| kind)
    }

    fn syslog(&self, address: &Address) -> Result<SyslogSettings, Problems> {
        let Syslog {
            max_message_bytes,
            timeout,
            ca,
            certificate,
            key,
            ..
        } = self.settings.syslog.clone();
        let is_tls = matches!(address, Address::Tls(_));
        let of_tls = [
            "sink.syslog.ca",
            "sink.syslog.certificate",
            "sink.syslog.key",
        ];
        let message = |key| format!("{key} is for an address that begins with tls://");
        // Without TLS these files have no effect, and the connection would be taken for a protected
        // one.
        let in_vain = of_tls
            .iter()
            .filter(|key| !is_tls && self.origin_of(key).is_some());
        let in_vain =
            Problems(in_vain.map(|key| self.problem(key, message(key))).collect()).or_none();
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Ok(Some(TlsIdentity { certificate, key })),
            (None, None) => Ok(None),
            (Some(_), None) => Err(self.single_problem(
                "sink.syslog.certificate",
                "a certificate needs its key: sink.syslog.key",
            )),
            (None, Some(_)) => Err(self.single_problem(
                "sink.syslog.key",
                "a key needs its certificate: sink.syslog.certificate",
            )),
        };
        let (identity, ()) = both(identity, in_vain)?;
        Ok(SyslogSettings {
            address: address.clone(),
            max_message: max_message_bytes,
            timeout,
            tls: TlsSettings { ca, identity },
        })
    }

    fn mail(&self, server: &SmtpServer) -> Result<MailSettings, Problems> {
        let Mail {
            encryption,
            ca,
            user,
            password_file,
            sender,
            ..
        } = self.settings.mail.clone();
        let sender = sender.ok_or_else(|| {
            self.single_problem(
                "sink.mail.server",
                "a sink of mail needs `mail.sender`, an address",
            )
        });
        // Also a user or a password alone, so that all problems are reported at once.
        let has_password = user.is_some() || password_file.is_some();
        let credentials = match (user, password_file) {
            (Some(user), Some(password_file)) => Ok(Some(Credentials {
                user,
                password_file,
            })),
            (None, None) => Ok(None),
            (Some(_), None) => Err(self.single_problem(
                "sink.mail.user",
                "a user needs a password: sink.mail.password_file",
            )),
            (None, Some(_)) => Err(self.single_problem(
                "sink.mail.password_file",
                "a password needs a user: sink.mail.user",
            )),
        };
        let encryption = match encryption {
            Encryption::StartTls => Ok(peal_sinks::Encryption::StartTls),
            Encryption::StartTlsIfOffered => Ok(peal_sinks::Encryption::StartTlsIfOffered),
            Encryption::Tls => Ok(peal_sinks::Encryption::Tls),
            Encryption::None if has_password => Err(self.single_problem(
                "sink.mail.encryption",
                "a password needs an encrypted connection",
            )),
            Encryption::None => Ok(peal_sinks::Encryption::None),
        };
        let ((sender, credentials), encryption) = both(both(sender, credentials), encryption)?;
        let Mail {
            allowed_senders,
            allowed_servers,
            allowed_recipients,
            max_recipients,
            max_message_bytes,
            ..
        } = self.settings.mail.clone();
        let Mail {
            helo_name,
            timeout,
            data_timeout,
            ..
        } = self.settings.mail.clone();
        Ok(MailSettings {
            server: server.clone(),
            encryption,
            ca,
            credentials,
            sender,
            allowed_senders: Addresses::Only(allowed_senders),
            allowed_servers,
            allowed_recipients: allowed_recipients.map_or(Addresses::Any, Addresses::Only),
            max_recipients,
            max_bytes: max_message_bytes,
            hello: helo_name,
            timeout,
            data_timeout,
        })
    }

    fn file(&self, path: &std::path::Path) -> FileSettings {
        let LogFile {
            mode,
            max_bytes,
            max_rotated_files,
            max_message_bytes,
            sync,
            ..
        } = self.settings.file.clone();
        let sync = match sync {
            FileSync::Never => peal_sinks::FileSync::Never,
            FileSync::Each => peal_sinks::FileSync::Each,
        };
        FileSettings {
            path: path.to_owned(),
            mode,
            max_bytes,
            keep: max_rotated_files,
            max_message: max_message_bytes,
            sync,
        }
    }
}

/// Returns both parts of a sink, or the problems of both.
fn both<A, B>(one: Result<A, Problems>, other: Result<B, Problems>) -> Result<(A, B), Problems> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (one, other) => Err(Problems(
            one.err()
                .into_iter()
                .chain(other.err())
                .flat_map(|problems| problems.0)
                .collect(),
        )),
    }
}

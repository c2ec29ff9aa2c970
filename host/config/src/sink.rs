//! The table of settings of sinks, which are ways out of the process, and what they come to.
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
    Address, AddressPattern, Addresses, Credentials, FileSettings, MailSettings, QueueBounds,
    QueueDurability, Retry, SinkKind, SinkSettings, SmtpServer, SyslogSettings, TlsIdentity,
    TlsSettings,
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

settings! {
    /// A way out of the process: to a server of syslog, to people by way of a mail server, or into a file. Modules write to it that
    /// have its name in `module.sinks`. It is opened when the server starts.
    "sink" Sink {
        /// What modules know it by.
        name "sink.name": String = String::new(), Required(NewSink), "\"central\"";
        /// What a message survives that was accepted and has not arrived yet: nothing, or, in the store, the end of the process. A
        /// file is written at once.
        keep "sink.keep": Option<SinkDurability> = None,
            Unset("\"store\" for mail and for syslog over a network, \"memory\" for syslog on this machine", KeywordKind), "\"memory\"";
        /// How many messages may wait; who has more to say is refused.
        queue "sink.queue": usize = 10_000, Number(1, MILLION), "1000";
        /// How many bytes these may have.
        queue_bytes "sink.queue_bytes": usize = 16 * MIB, Number(1024, 1 << 40), "1048576";
        /// How long after a failure it is tried again first; each time after that twice as long.
        retry_first "sink.retry_first_ms": Duration = Duration::from_secs(1), Millis(10, DAY), "500";
        /// But no longer than so.
        retry_longest "sink.retry_longest_ms": Duration = Duration::from_secs(300), Millis(10, DAY), "60000";
        /// What could not be delivered for so long is given up.
        give_up "sink.give_up_ms": Duration = Duration::from_secs(5 * 24 * 3600), Millis(1000, 30 * DAY), "3600000";
    }

    /// A server of syslog.
    "sink.syslog" syslog: Syslog {
        /// Where it listens. Over TCP and TLS each message stands behind its length (RFC 6587, RFC 5425).
        address "sink.syslog.address": Option<Address> = None, Unset("it is no sink of syslog", Parsed(SYSLOG_ADDRESS)),
            "\"tls://log.example.org:6514\"";
        /// The longest message, in bytes.
        max_message "sink.syslog.max_message": usize = 8 * KIB, Number(480, MIB as u64), "2048";
        /// How long connecting or writing may take.
        timeout "sink.syslog.timeout_ms": Duration = Duration::from_secs(10), Millis(10, HOUR), "5000";
        /// A file with the certificates of authorities to trust, in PEM.
        ca "sink.syslog.ca": Option<PathBuf> = None, Unset("those of the system", FilePath), "\"/etc/peal/log-ca.pem\"";
        /// Who we are, if the server asks: a file with our certificate and those above it, in PEM.
        certificate "sink.syslog.certificate": Option<PathBuf> = None, Unset("nobody", FilePath), "\"/etc/peal/node.pem\"";
        /// The file with its key, in PEM.
        key "sink.syslog.key": Option<PathBuf> = None, Unset("none", FilePath), "\"/etc/peal/node.key\"";
    }

    /// People, by way of a mail server.
    "sink.mail" mail: Mail {
        /// The server that mail is submitted to.
        server "sink.mail.server": Option<SmtpServer> = None, Unset("it is no sink of mail", Parsed(HOST_PORT)),
            "\"mail.example.org:587\"";
        /// Whether what is said to it can be read on the way.
        encryption "sink.mail.encryption": Encryption = Encryption::StartTls, KeywordKind, "\"tls\"";
        /// A file with the certificates of authorities to trust, in PEM.
        ca "sink.mail.ca": Option<PathBuf> = None, Unset("those of the system", FilePath), "\"/etc/peal/mail-ca.pem\"";
        /// Who we are to that server; it alone is told, and only behind encryption.
        user "sink.mail.user": Option<String> = None, Unset("nobody", TextLineKind("a name")), "\"peal\"";
        /// A file with the password on its first line, which only its owner may read.
        password_file "sink.mail.password_file": Option<PathBuf> = None, Unset("none", FilePath), "\"/etc/peal/mail-password\"";
        /// Whom mail is from, unless its requester may say and says somebody else: an address, or a name and an address.
        sender "sink.mail.sender": Option<String> = None, Unset("must be given for a sink of mail", TextLineKind("an address, as in \"Peal <peal@example.org>\"")),
            "\"Peal <peal@example.org>\"";
        /// Whom a requester may say that mail is from.
        allowed_senders "sink.mail.allowed_senders": Vec<AddressPattern> = Vec::new(), List(Parsed(PATTERN)), "[\"@example.org\"]";
        /// The servers that a requester may choose.
        allowed_servers "sink.mail.allowed_servers": Vec<SmtpServer> = Vec::new(), List(Parsed(HOST_PORT)), "[\"backup.example.org:587\"]";
        /// Who may be sent mail.
        allowed_recipients "sink.mail.allowed_recipients": Option<Vec<AddressPattern>> = None,
            Unset("anybody", List(Parsed(PATTERN))), "[\"@example.org\", \"ops@example.com\"]";
        /// How many recipients one mail may have.
        max_recipients "sink.mail.max_recipients": usize = 100, Number(1, 10_000), "10";
        /// How large a mail may be, as it is sent, in bytes.
        max_bytes "sink.mail.max_bytes": usize = MIB, Number(4096, 1 << 30), "65536";
        /// The name by which we greet servers.
        hello "sink.mail.hello": Option<String> = None, Unset("that of this machine", TextLineKind("a name of a machine")), "\"node1.example.org\"";
        /// How long connecting, and each answer, may take.
        timeout "sink.mail.timeout_ms": Duration = Duration::from_secs(30), Millis(10, HOUR), "10000";
        /// How long the answer to a whole message may take; RFC 5321 asks for ten minutes.
        data_timeout "sink.mail.data_timeout_ms": Duration = Duration::from_secs(600), Millis(10, HOUR), "60000";
    }

    /// A file.
    "sink.file" file: LogFile {
        /// Where it is, or will be. Its directory must be there.
        path "sink.file.path": Option<PathBuf> = None, Unset("it is no file", FilePath), "\"/var/log/peal/board.log\"";
        /// Who may do what with it when it is made.
        mode "sink.file.mode": u32 = 0o600, Permissions, "\"640\"";
        /// How large it may become before it is put aside, in bytes.
        max_bytes "sink.file.max_bytes": u64 = 64 * MIB as u64, Number(1024, 1 << 40), "1048576";
        /// How many of those that were put aside are kept, as NAME.1, NAME.2 and so on.
        keep "sink.file.keep": u32 = 5, Number(0, 1000), "10";
        /// The longest message, in bytes.
        max_message "sink.file.max_message": usize = MIB, Number(80, 1 << 30), "65536";
        /// When a message is on the disk: when the system writes it, or before its requester is told.
        sync "sink.file.sync": FileSync = FileSync::Never, KeywordKind, "\"each\"";
    }
}

impl NamedTable for Sink {
    const HEAD: &'static str = "sink";
    const MOST: usize = 64;

    fn name(&self) -> &str {
        &self.name
    }
}

impl SinkEntry {
    /// The sink as it is to be opened.
    ///
    /// # Errors
    /// All that is wrong with its settings together.
    pub fn to_open(&self) -> Result<SinkSettings, Problems> {
        let (kind, retry) = both(self.kind(), self.retry())?;
        let Sink {
            name,
            keep,
            queue,
            queue_bytes,
            ..
        } = self.settings.clone();
        let is_far = match &kind {
            SinkKind::Mail(_) => true,
            SinkKind::Syslog(syslog) => !matches!(syslog.address, Address::Unix(_)),
            SinkKind::File(_) => false,
        };
        let durability = match keep {
            Some(SinkDurability::Store) => QueueDurability::Store,
            Some(SinkDurability::Memory) => QueueDurability::Memory,
            None if is_far => QueueDurability::Store,
            None => QueueDurability::Memory,
        };
        Ok(SinkSettings {
            name,
            kind,
            queue: QueueBounds {
                messages: queue,
                bytes: queue_bytes,
            },
            durability,
            retry,
        })
    }

    fn retry(&self) -> Result<Retry, Problems> {
        let Sink {
            retry_first,
            retry_longest,
            give_up,
            ..
        } = self.settings.clone();
        if retry_first > retry_longest {
            return Err(self.wrong(
                "sink.retry_first_ms",
                "sink.retry_first_ms is more than sink.retry_longest_ms",
            ));
        }
        Ok(Retry {
            first: retry_first,
            longest: retry_longest,
            give_up,
        })
    }

    /// The only thing that is wrong with a part of it.
    fn wrong(&self, key: &str, message: impl Into<String>) -> Problems {
        Problems(vec![self.problem(key, message)])
    }

    /// It is of the one kind whose place is given, and has no settings of others.
    fn kind(&self) -> Result<SinkKind, Problems> {
        const PLACES: [(&str, &str); 3] = [
            ("sink.syslog.", "sink.syslog.address"),
            ("sink.mail.", "sink.mail.server"),
            ("sink.file.", "sink.file.path"),
        ];
        let mut given = PLACES
            .iter()
            .filter(|(_, place)| self.given(place).is_some());
        let wanted = "a sink has one of `syslog.address`, `mail.server` and `file.path`";
        let Some((section, place)) = given.next() else {
            return Err(self.wrong("sink.name", wanted));
        };
        if let Some((_, second)) = given.next() {
            return Err(self.wrong(
                second,
                format!("{wanted}; this one has {place} and {second}"),
            ));
        }
        let is_of_other = |key: &&&str| {
            PLACES
                .iter()
                .any(|(other, _)| other != section && key.starts_with(other))
        };
        let message = |key| format!("{key} says nothing of a sink that has {place}");
        let of_others = self
            .origins
            .keys()
            .filter(is_of_other)
            .map(|key| self.problem(key, message(key)));
        let of_others = Problems(of_others.collect()).or_none();
        let Sink {
            syslog, mail, file, ..
        } = &self.settings;
        let kind = match (&syslog.address, &mail.server, &file.path) {
            (Some(address), ..) => self.syslog(address).map(SinkKind::Syslog),
            (_, Some(server), _) => self.mail(server).map(|mail| SinkKind::Mail(Box::new(mail))),
            (.., Some(path)) => Ok(SinkKind::File(self.file(path))),
            _ => Err(self.wrong("sink.name", wanted)),
        };
        both(kind, of_others).map(|(kind, ())| kind)
    }

    fn syslog(&self, address: &Address) -> Result<SyslogSettings, Problems> {
        let Syslog {
            max_message,
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
        let in_vain = of_tls
            .iter()
            .filter(|key| !is_tls && self.given(key).is_some());
        let in_vain =
            Problems(in_vain.map(|key| self.problem(key, message(key))).collect()).or_none();
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Ok(Some(TlsIdentity { certificate, key })),
            (None, None) => Ok(None),
            (Some(_), None) => Err(self.wrong(
                "sink.syslog.certificate",
                "a certificate needs its key: sink.syslog.key",
            )),
            (None, Some(_)) => Err(self.wrong(
                "sink.syslog.key",
                "a key needs its certificate: sink.syslog.certificate",
            )),
        };
        let (identity, ()) = both(identity, in_vain)?;
        Ok(SyslogSettings {
            address: address.clone(),
            max_message,
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
            self.wrong(
                "sink.mail.server",
                "a sink of mail needs `mail.sender`, an address",
            )
        });
        let has_password = user.is_some() || password_file.is_some();
        let credentials = match (user, password_file) {
            (Some(user), Some(password_file)) => Ok(Some(Credentials {
                user,
                password_file,
            })),
            (None, None) => Ok(None),
            (Some(_), None) => Err(self.wrong(
                "sink.mail.user",
                "a user needs a password: sink.mail.password_file",
            )),
            (None, Some(_)) => Err(self.wrong(
                "sink.mail.password_file",
                "a password needs a user: sink.mail.user",
            )),
        };
        let encryption = match encryption {
            Encryption::StartTls => Ok(peal_sinks::Encryption::StartTls),
            Encryption::StartTlsIfOffered => Ok(peal_sinks::Encryption::StartTlsIfOffered),
            Encryption::Tls => Ok(peal_sinks::Encryption::Tls),
            Encryption::None if has_password => Err(self.wrong(
                "sink.mail.encryption",
                "a password is not said in the open: encryption is needed",
            )),
            Encryption::None => Ok(peal_sinks::Encryption::None),
        };
        let ((sender, credentials), encryption) = both(both(sender, credentials), encryption)?;
        let Mail {
            allowed_senders,
            allowed_servers,
            allowed_recipients,
            max_recipients,
            max_bytes,
            ..
        } = self.settings.mail.clone();
        let Mail {
            hello,
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
            max_bytes,
            hello,
            timeout,
            data_timeout,
        })
    }

    fn file(&self, path: &std::path::Path) -> FileSettings {
        let LogFile {
            mode,
            max_bytes,
            keep,
            max_message,
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
            keep,
            max_message,
            sync,
        }
    }
}

/// Two parts of a sink, or what is wrong with either.
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

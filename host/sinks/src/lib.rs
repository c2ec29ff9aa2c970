//! Sinks: destinations for the messages of log channels outside of the process: syslog, mail, web
//! services, files.
//!
//! ```text
//! Sinks            the sinks that an admin configured, by name
//!   SinkHandle       accepts or refuses a message at once
//!     FileSink         written by the caller, which gets the result (file.rs)
//!     DeliveryQueue    bounded; with durability `store` its messages are in the store too (queue.rs)
//!       SinkWorker       a thread that delivers, waits and retries (worker.rs)
//!         SinkTransport    syslog (syslog/), a mail server (mail/) or a web service (webhook/)
//! ```
//!
//! Channels format, sinks deliver. A syslog message arrives here complete and is framed. A mail
//! arrives in parts and becomes a message here, so that no part can be taken for more than that
//! part. What is posted to a web service arrives as text or as a JSON object. Each message is checked before it is accepted, even if a channel checked it before: no
//! message may be read as two.
//!
//! **Guarantees.** With [`QueueDurability::Memory`] an accepted message is delivered with these
//! exceptions: the process ends, the peer is unreachable for longer than [`Retry::give_up`], or a
//! network loses the message silently (UDP, or TCP if the peer dies with unread data). With
//! [`QueueDurability::Store`] the end of the process is no exception: the next process delivers the
//! rest. A mail, or a message for a web service, may arrive twice if the connection is lost between
//! its last byte and the server's reply, or the process ends between that reply and the write to
//! the store. Both copies have the same Message-ID or Idempotency-Key.
//!
//! All functions block, but [`SinkHandle::submit`] waits at most for the disk, never for a network.

mod credential_error;
mod error;
mod external_access;
mod file;
mod handle;
mod health;
mod mail;
mod queue;
mod secret;
mod settings;
mod syslog;
mod web_service;
mod webhook;
mod worker;
mod write_error;

pub use credential_error::CredentialError;
pub use error::SinkError;
pub use external_access::{AUTHORITIES, ExternalAccess};
pub use file::{FileSettings, FileSync};
pub use handle::{SinkHandle, SinkMessage, Sinks};
pub use health::{PeerReachability, SinkHealth, SinkUse};
pub use mail::{
    AddressPattern, Addresses, Credentials, Encryption, MailSettings, MalformedPattern,
    MalformedServer, SmtpServer,
};
pub use queue::{QueueBounds, QueueDurability, Retry};
pub use secret::{read_private_key, read_token};
pub use settings::{SinkKind, SinkSettings};
pub use syslog::{
    Address, HostPort, MalformedAddress, SyslogSettings, TlsIdentity, TlsSettings, certificates,
};
pub use web_service::{PostError, ServiceReply, WebService, WebServiceSettings};
pub use webhook::{
    MalformedHeader, MalformedUrl, PlainHttp, WebhookFormat, WebhookHeader, WebhookRule,
    WebhookSettings, WebhookUrl,
};
pub use write_error::SinkWriteError;

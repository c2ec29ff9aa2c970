//! Carries what log channels wrote out of the process: to syslog, as mail, into files.
//!
//! ```text
//! Sinks          what an admin opened, by name
//!   SinkHandle     takes a message or refuses it, at once
//!     File           written by the caller, who is told what became of it (file.rs)
//!     Queue          bounded; kept in the store as well, where it must not be forgotten (queue.rs)
//!       worker         a thread that delivers, waits and tries again (worker.rs)
//!         Carrier        syslog (syslog/) or a mail server (mail/)
//! ```
//!
//! Channels format, sinks carry: a message of syslog comes here complete, and is framed; a mail comes in its parts, and
//! becomes a message here, so that nothing in a part can be taken for more than that part. What a sink is given to carry is
//! looked through again before it is accepted, whoever was to do that before: nothing may become two messages.
//!
//! **What is promised.** With [`QueueDurability::Memory`] what was accepted is delivered unless the process ends, its peer stays
//! away for longer than [`Retry::give_up`], or a network loses it that says nothing (UDP; and TCP, if the peer dies with what it
//! has not read). With [`QueueDurability::Store`] the end of the process is no reason either: the next one delivers what is left. A
//! mail may arrive twice where the connection is lost between its last byte and the server's answer, or the process between that
//! answer and the store: who has it cannot be known then. Both have the same Message-ID.
//!
//! Everything here blocks, but [`SinkHandle::submit`] waits for no network: at most for the disk.

mod error;
mod external_access;
mod file;
mod handle;
mod health;
mod mail;
mod queue;
mod settings;
mod syslog;
mod worker;
mod write_error;

pub use error::SinkError;
pub use external_access::ExternalAccess;
pub use file::{FileSettings, FileSync};
pub use handle::{SinkHandle, SinkMessage, Sinks};
pub use health::{PeerReachability, SinkHealth};
pub use mail::{
    AddressPattern, Addresses, Credentials, Encryption, MailSettings, MalformedPattern,
    MalformedServer, SmtpServer,
};
pub use settings::{QueueBounds, QueueDurability, Retry, SinkKind, SinkSettings};
pub use syslog::{Address, HostPort, MalformedAddress, SyslogSettings, TlsIdentity, TlsSettings};
pub use write_error::SinkWriteError;

//! Protocol between a *stub* and its server. A stub is Peal's `libpmix.so.2` in the process of a host
//! environment, such as Slurm's `slurmstepd` or Open MPI's `orted`. The server runs in a `peal`
//! process on the same node. Both use a stream socket of the Unix domain.
//!
//! | module | contents |
//! |---|---|
//! | [`hello`] | first message of each side |
//! | [`request`] | requests of the host environment (`PMIx_server_*`) and their replies |
//! | [`upcall`] | upcalls of the server and their results |
//! | [`fork`] | message of a forked child that becomes a proc |
//! | [`socket`] | socket of a connection |
//!
//! The stub sends [`StubMessage::Hello`] and gets [`ServerMessage::Welcome`] or
//! [`ServerMessage::Refusal`]. After that both sides may send at any time. Requests and upcalls are
//! numbered by their sender, and each is answered once. Frames are those of `peal_frames`. Only
//! [`socket`] does I/O.

pub mod fork;
pub mod hello;
pub mod request;
pub mod socket;
pub mod upcall;

pub use hello::{EnvironmentVariable, PROTOCOL, ServerWelcome, StubHello, StubRefusal};
pub use peal_frames::{CodecError, FrameLimit, MessageDecoder, encode};
pub use request::{HostReply, HostRequest};
pub use socket::StubSocket;
pub use upcall::{HostNotice, HostUpcall, UpcallKind, UpcallResult};

use peal_model::Status;
use serde::{Deserialize, Serialize};

/// Number of a request, unique among the open requests of a stub.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct RequestNumber(pub u64);

/// Number of an upcall, unique among the open upcalls of a server to one stub.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct UpcallNumber(pub u64);

/// Message of a stub to its server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum StubMessage {
    /// First message.
    Hello(StubHello),
    /// Request of the host environment.
    Request {
        /// Number that the reply repeats.
        number: RequestNumber,
        /// The request.
        request: HostRequest,
    },
    /// Result of an upcall.
    Answer {
        /// Number of the upcall.
        number: UpcallNumber,
        /// The result, or the status of the host environment.
        answer: Result<UpcallResult, Status>,
    },
}

/// Message of a server to a stub.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ServerMessage {
    /// Acceptance of the stub.
    Welcome(ServerWelcome),
    /// Refusal of the stub. The connection then ends.
    Refusal(StubRefusal),
    /// Reply to a request.
    Reply {
        /// Number of the request.
        number: RequestNumber,
        /// The reply, or the status of a failure.
        reply: Result<HostReply, Status>,
    },
    /// Upcall to the host environment.
    Upcall {
        /// Number that the answer repeats.
        number: UpcallNumber,
        /// The upcall.
        upcall: HostUpcall,
    },
    /// Upcall without an answer.
    Notice(HostNotice),
}

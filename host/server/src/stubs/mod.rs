//! Jobs of other launchers: connections of stubs (`peal_stub`), which register jobs and answer upcalls.
//!
//! | module | contents |
//! |---|---|
//! | `listener` | socket to which stubs connect |
//! | `service` | parts that all connections share; admission of a stub |
//! | `session` | one connection: requests of the host environment, in order |
//! | `transfer` | frames and descriptors on the socket |
//! | `registered_jobs` | jobs of one connection, from their registration to their removal |
//! | `suspension` | suspension of all connections |
//! | `handover` | connections as bytes, for another process of the server |
//! | `remote_host` | upcalls to the host environment at the other end |
//! | `local_services` | services of the server's own host environment for these jobs |
//! | `host_router` | the `HostEnvironment` of the server: upcalls by the job's launcher |
//! | `queries` | queries that host environments answer |
//! | `fork_messages` | processes of procs, as the kernel names them |

mod fork_messages;
mod handover;
mod host_router;
mod listener;
mod local_services;
mod queries;
mod registered_jobs;
mod remote_host;
mod service;
mod session;
mod suspension;
mod transfer;

pub use handover::{ContinuedStubs, EnteredStubs, HandedStubs, StubHandover};
pub use host_router::HostRouter;
pub use listener::StubListener;
pub use local_services::{KeyAnswer, LocalServices, Puller, QueriedKey, StreamPull};
pub use service::{StubService, StubSettings};
pub use session::SessionError;
pub use suspension::{StubHold, SuspendedStubs};

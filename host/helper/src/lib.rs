//! Privileged helper of a server. A confined server can neither look into other processes nor act as
//! another user. It sends such work to this helper, a process without clients and without modules,
//! over a socket pair. The helper checks each call against what it knows itself.
//!
//! | module | contents |
//! |---|---|
//! | [`message`] | calls, answers, and the first messages |
//! | [`authority`] | which calls the helper carries out, and for which users |
//! | [`removal`], [`files`], [`control`] | the work itself |
//! | [`service`] | loop of the helper's process |
//! | [`client`] | the server's end; it does the work itself where there is no helper |

pub mod authority;
pub mod client;
pub mod control;
pub mod files;
pub mod message;
pub mod removal;
pub mod service;

pub use authority::{HelperRules, is_below, is_plain};
pub use client::{PrivilegedHelper, RefusedCall};
pub use control::{ControlFailure, ControlOrder, ProcessAction, ProcessTarget};
pub use files::FilePlace;
pub use message::{FileFault, FileRequest, HelperError, OpenedFile};
pub use removal::{RemovalBounds, RemovalExtent, RemovalOrder};
pub use service::serve;

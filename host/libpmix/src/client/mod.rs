//! Functions of clients and tools, on `peal_client`.
//!
//! | module | contents |
//! |---|---|
//! | `progress` | thread on which connections live and callbacks come |
//! | `fork` | number that tells a forked child from its parent |
//! | `stack` | room on the stack of the calling thread |
//! | `library` | state of the process between its first init and its last finalize |
//! | `operations` | blocking and `_nb` forms of a function, on one future |
//! | `participants` | arguments of calls that several procs make together |
//! | `tokens` | values that the program gets a token of instead of a pointer |
//! | `handler`, `completions` | event handlers of the program, and their ends |
//! | `passed_event`, `passed_results` | arguments of event handlers |
//! | `stdin` | standard input that is pushed to procs |
//! | [`init`], [`tool`] | begin and end of a client and of a tool |
//! | [`data`], [`get`], [`fence`] | put, commit and store; get; fences |
//! | [`events`] | registration of handlers, and events of the program |
//! | [`publish`], [`resolve`] | published data; procs and nodes of jobs |
//! | [`spawn`], [`connect`], [`abort`] | begin, connection and end of jobs |
//! | [`groups`], [`invitations`] | groups of a collective and by invitation |
//! | [`query`], [`control`] | queries and logs; job control, monitoring and allocation |
//! | [`iof`] | output and input of procs |
//! | [`credentials`], [`fabric`], [`sessions`] | credentials; fabrics and distances; sessions and resource blocks |
//!
//! A blocking function that is called from a callback, that is on the progress thread, returns
//! `PMIX_ERR_WOULD_BLOCK` and logs its name; the C library hangs there.

pub mod abort;
mod completions;
pub mod connect;
pub mod control;
pub mod credentials;
pub mod data;
pub mod events;
pub mod fabric;
pub mod fence;
mod fork;
pub mod get;
pub mod groups;
mod handler;
pub mod init;
pub mod invitations;
pub mod iof;
pub(crate) mod library;
pub(crate) mod operations;
mod participants;
mod passed_event;
mod passed_results;
pub(crate) mod progress;
pub mod publish;
pub mod query;
pub mod resolve;
pub mod sessions;
pub mod spawn;
mod stack;
mod stdin;
pub(crate) mod tokens;
pub mod tool;

use library::Library;
use peal_model::Status;

/// Checks that the library is initialized.
///
/// # Errors
///
/// `PMIX_ERR_INIT` before the first init and after the last finalize.
pub(crate) fn check_initialized() -> Result<(), Status> {
    Library::running().map(drop)
}

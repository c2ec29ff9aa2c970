//! Functions of host environments, such as Slurm's `slurmstepd` and Open MPI's `orted`.
//!
//! The server is not in the process of the host environment: the library is a *stub*, and the server
//! is a `peal` process on the other end of a Unix stream socket. Both speak [`peal_stub`].
//!
//! | module | contents |
//! |---|---|
//! | [`init`] | `PMIx_server_init` and `PMIx_server_finalize` |
//! | `home`, `executable`, `embedded` | choice of the server, and start of one of the process's own |
//! | `handshake`, `link` | first messages; requests, answers and the end of the stream |
//! | [`fork`] | `PMIx_server_setup_fork`, and the message of a forked child |
//! | `forms` | blocking and non-blocking forms of a function, on one request |
//! | [`registrations`] | jobs, procs, resources and process sets |
//! | [`applications`] | set-up of applications, modex, output, inventories, attributes |
//! | `launch_variables` | environment variables that an application needs |
//! | `model_variables` | environment variables of procs of Open MPI |
//! | [`processors`] | cpusets and localities as text |
//! | [`unsupported`] | functions that return `PMIX_ERR_NOT_SUPPORTED` |
//! | `events` | events of the host environment, and those for it |
//! | `host` | the connected server, and the tasks that serve it |
//! | `upcalls` | calls of the host environment's module, and their answers |
//!
//! # The module of the host environment
//!
//! `pmix_server_module_t` has grown from 28 members in 4.2 to 32 in 6.1. `PMIx_server_init` gets no
//! size and no release of the caller: the C library of each release copies its own size, so that a
//! host built for 4.2 may be read beyond its end by a newer one. This library reads the 28 members
//! of 4.2, whichever release the host was built for. The four newer ones are taken for absent.
//!
//! # Threads
//!
//! Upcalls come on the progress thread. A callback that the host calls from any thread sends the
//! answer and calls no code of the program: the release function of an answer is called later, on
//! the progress thread. Some hosts hold a lock during the callback that the release function takes.

pub mod applications;
mod embedded;
mod events;
mod executable;
pub mod fork;
mod forms;
mod handshake;
mod home;
mod host;
pub mod init;
mod launch_variables;
mod link;
mod model_variables;
pub mod processors;
pub mod registrations;
pub mod unsupported;
mod upcalls;

pub(crate) use events::{notify, source_of};
pub(crate) use host::HostServer;
pub(crate) use upcalls::PendingUpcall;

use crate::client::library::Library;
use peal_model::{Status, code};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Returns the server of this process.
///
/// # Errors
///
/// `PMIX_ERR_INIT` if the library is not initialized, `PMIX_ERR_NOT_SUPPORTED` in a client or tool.
fn server() -> Result<Arc<HostServer>, Status> {
    let host = Library::running()?.host.clone();
    host.ok_or(code::PMIX_ERR_NOT_SUPPORTED)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

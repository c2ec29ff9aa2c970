//! Attacks of an unprivileged user on a server, and what its victims do meanwhile.
mod attached;
pub mod borrowed_groups;
pub mod connecting;
pub mod job_records;
pub mod large_components;
pub mod log_flood;
pub mod long_messages;
pub mod many_tools;
pub mod parked_values;
pub mod partial_frames;
pub mod port_reuse;
mod session;
pub mod silent_sockets;
pub mod trail;

use anyhow::Result;
use peal_model::{Nspace, Proc, Rank};
use peal_wire::{Credential, Hello, Identity, PeerKind, User};
use rustix::process::{Resource, Rlimit, getegid, geteuid, getrlimit, setrlimit};

/// The user and group that this process runs as.
fn own_user() -> User {
    User { uid: geteuid().as_raw(), gid: getegid().as_raw() }
}

/// Lets this process open as many files as the system allows.
fn may_open_all_files() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?)
}

/// The handshake of a tool that says it runs as this user, and brings a name.
fn tool(user: User, name: &str) -> Hello {
    let proc = Proc::new(Nspace::new(name).unwrap(), Rank(0));
    Hello {
        credential: Credential::Native(user),
        peer: PeerKind::Tool(user, Identity::Own(proc.clone())),
        ..crate::raw::hello(proc)
    }
}

/// The same for the user that this process runs as.
fn own_tool(name: &str) -> Hello {
    tool(User { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }, name)
}

//! Attacks by an unprivileged user on a server, and the work of its victims meanwhile.
pub mod admin_calls;
pub mod beside;
pub mod borrowed_groups;
pub mod connecting;
mod connection;
pub mod decision_flood;
pub mod forwarded;
pub mod held_resources;
pub mod job_records;
pub mod large_components;
pub mod log_flood;
pub mod long_messages;
pub mod many_tools;
pub mod module_bombs;
pub mod parked_values;
pub mod partial_frames;
pub mod port_reuse;
pub mod silent_sockets;
pub mod trail;
pub mod watchers;

use anyhow::{Context, Result};
use peal_model::{Nspace, Proc, Rank};
use peal_wire::{ClaimedUser, Credential, Hello, PeerKind, ToolIdentifier};
use rustix::process::{Resource, Rlimit, getegid, geteuid, getrlimit, setrlimit};
use std::{thread, time::Duration};

/// Time after which an attacker that stays ends by itself.
const STAY: Duration = Duration::from_secs(120);

/// Returns the user and group of this process.
fn own_user() -> ClaimedUser {
    ClaimedUser {
        uid: geteuid().as_raw(),
        gid: getegid().as_raw(),
    }
}

/// Raises the limit of open files of this process to the system's maximum.
fn may_open_all_files() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    Ok(setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    )?)
}

/// Returns the handshake of a tool that claims to run as this user, and sends a name.
fn tool(user: ClaimedUser, name: &str) -> Hello {
    let proc = Proc::new(Nspace::new(name).unwrap(), Rank(0));
    Hello {
        credential: Credential::Native(user),
        peer: PeerKind::Tool(user, ToolIdentifier::Own(proc.clone())),
        ..crate::raw_client::hello(proc)
    }
}

/// Returns the handshake of a tool of this process's user, with a name that no other process sends.
fn own_tool(name: &str) -> Hello {
    tool(own_user(), &format!("{name}-{}", std::process::id()))
}

/// Prints the median and the maximum of these times, in microseconds.
fn print_times(mut times: Vec<Duration>) -> Result<()> {
    times.sort_unstable();
    let median = times.get(times.len() / 2).context("nothing was measured")?;
    let longest = times.last().context("nothing was measured")?;
    println!(
        "median_us {}\nlongest_us {}",
        median.as_micros(),
        longest.as_micros()
    );
    Ok(())
}

/// Keeps the resources of an attacker for as long as a test may look at them.
fn stay() {
    thread::sleep(STAY);
}

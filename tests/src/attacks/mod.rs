//! Attacks of an unprivileged user on a server, and what its victims do meanwhile.
pub mod borrowed_groups;
pub mod connecting;
mod connection;
pub mod job_records;
pub mod large_components;
pub mod log_flood;
pub mod long_messages;
pub mod many_tools;
pub mod parked_values;
pub mod partial_frames;
pub mod port_reuse;
pub mod silent_sockets;
pub mod trail;

use anyhow::{Context, Result};
use peal_model::{Nspace, Proc, Rank};
use peal_wire::{ClaimedUser, Credential, Hello, PeerKind, ToolIdentifier};
use rustix::process::{Resource, Rlimit, getegid, geteuid, getrlimit, setrlimit};
use std::{thread, time::Duration};

/// The time after which an attacker that stays goes by itself.
const STAY: Duration = Duration::from_secs(120);

/// The user and group that this process runs as.
fn own_user() -> ClaimedUser {
    ClaimedUser {
        uid: geteuid().as_raw(),
        gid: getegid().as_raw(),
    }
}

/// Lets this process open as many files as the system allows.
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

/// The handshake of a tool that says it runs as this user, and brings a name.
fn tool(user: ClaimedUser, name: &str) -> Hello {
    let proc = Proc::new(Nspace::new(name).unwrap(), Rank(0));
    Hello {
        credential: Credential::Native(user),
        peer: PeerKind::Tool(user, ToolIdentifier::Own(proc.clone())),
        ..crate::raw_client::hello(proc)
    }
}

/// The handshake of a tool of the user that this process runs as, by a name that no other process brings.
fn own_tool(name: &str) -> Hello {
    tool(own_user(), &format!("{name}-{}", std::process::id()))
}

/// Prints the median and the longest of some times, in microseconds.
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

/// Keeps what an attacker has for as long as a test may look at it.
fn stay() {
    thread::sleep(STAY);
}

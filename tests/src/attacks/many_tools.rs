//! Tools, as many as there may be.
use super::{own_user, session::Session, tool};
use anyhow::Result;
use std::{net::SocketAddr, thread, time::Duration};

/// The time for which the tools stay.
const STAY: Duration = Duration::from_secs(120);

/// Attaches so many tools, prints how many of them the server let in, and stays.
pub fn attack(server: SocketAddr, count: u32) -> Result<()> {
    let user = own_user();
    let mut attached = Vec::new();
    for number in 0..count {
        attached.extend(Session::open(server, &tool(user, &format!("tool-{number}-of-{}", user.uid)))?);
    }
    println!("{}", attached.len());
    thread::sleep(STAY);
    Ok(())
}

//! Tools, as many as there may be.
use super::{connection::AdmittedConnection, own_tool, stay};
use anyhow::Result;
use std::net::SocketAddr;

/// Attaches so many tools, prints how many of them the server let in, and stays.
pub fn attack(server: SocketAddr, count: u32) -> Result<()> {
    let mut attached = Vec::new();
    for number in 0..count {
        attached.extend(AdmittedConnection::try_connect(
            server,
            &own_tool(&format!("tool-{number}")),
        )?);
    }
    println!("{}", attached.len());
    stay();
    Ok(())
}

//! As many tools as the server admits.
use super::{connection::AdmittedConnection, own_tool, stay};
use anyhow::Result;
use std::net::SocketAddr;

/// Attaches this number of tools, prints the number that the server admitted, and stays.
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

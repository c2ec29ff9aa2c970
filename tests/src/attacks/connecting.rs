//! A user who connects to a server repeatedly, as tools do that are started in a loop.
use super::{own_tool, print_times};
use crate::raw_client::encoded;
use anyhow::{Context, Result, ensure};
use rustix::net::sockopt::set_socket_linger;
use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

/// Time limit of an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Connects this number of times, and prints the times taken. Fails unless the server admits all
/// connections.
pub fn connect_often(server: SocketAddr, tries: u32) -> Result<()> {
    let mut admitted = 0;
    let mut times = Vec::new();
    for number in 0..tries {
        // The server may not have noticed the end of the previous connection yet.
        let hello = encoded(&own_tool(&format!("tool-{number}")));
        let start = Instant::now();
        let mut stream = connected(server)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&hello)?;
        // The server closes a refused connection without sending a byte.
        admitted += u32::from(stream.read(&mut [0; 512]).is_ok_and(|count| count > 0));
        times.push(start.elapsed());
        // Without lingering, the port is free at once.
        set_socket_linger(&stream, Some(Duration::ZERO))?;
    }
    print_times(times)?;
    ensure!(
        admitted == tries,
        "{admitted} of {tries} connections were admitted"
    );
    Ok(())
}

/// Opens a connection. Tries again if no port is free, since one becomes free soon.
fn connected(server: SocketAddr) -> Result<TcpStream> {
    let start = Instant::now();
    loop {
        match TcpStream::connect(server) {
            Err(error)
                if error.kind() == ErrorKind::AddrNotAvailable && start.elapsed() < PATIENCE =>
            {
                std::thread::yield_now();
            }
            connected => return connected.context("connecting"),
        }
    }
}

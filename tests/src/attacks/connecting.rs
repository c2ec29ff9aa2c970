//! A user who connects to a server again and again, as tools do that are started in a loop.
use super::{own_tool, print_times};
use crate::raw_client::encoded;
use anyhow::{Context, Result, ensure};
use rustix::net::sockopt::set_socket_linger;
use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

/// The time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Connects so many times, and prints the times that took. All of them must be let in.
pub fn connect_often(server: SocketAddr, tries: u32) -> Result<()> {
    let (mut admitted, mut times) = (0, Vec::new());
    for number in 0..tries {
        // The server may not have seen yet that the one before has gone.
        let hello = encoded(&own_tool(&format!("tool-{number}")));
        let start = Instant::now();
        let mut stream = connected(server)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&hello)?;
        // A refused connection is closed without a byte.
        admitted += u32::from(stream.read(&mut [0; 512]).is_ok_and(|count| count > 0));
        times.push(start.elapsed());
        // The port is free at once.
        set_socket_linger(&stream, Some(Duration::ZERO))?;
    }
    print_times(times)?;
    ensure!(
        admitted == tries,
        "{admitted} of {tries} connections were admitted"
    );
    Ok(())
}

/// A connection. Whoever has all ports gives one back soon.
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

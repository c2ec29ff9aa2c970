//! Sockets that send nothing, as many as the server allows connections. Sockets that the server
//! closes are opened again.
use super::may_open_all_files;
use anyhow::{Context, Result};
use std::{
    io::{ErrorKind, Read},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

/// Time after which the attacker ends.
const LONGEST: Duration = Duration::from_secs(120);

/// Opens this number of sockets, prints a line, and opens those again that the server closes.
pub fn attack(server: SocketAddr, count: usize) -> Result<()> {
    may_open_all_files()?;
    let mut sockets = (0..count)
        .map(|_| silent(server))
        .collect::<Result<Vec<_>>>()?;
    println!("ready");
    let start = Instant::now();
    while start.elapsed() < LONGEST {
        for socket in &mut sockets {
            // For a while, no port may be free, or no answer may come.
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

//! Messages that are never complete. Each connection sends the header of a long message and all of
//! its body but the last byte.
use super::{connection::AdmittedConnection, own_tool};
use anyhow::Result;
use peal_wire::{Header, Tag};
use std::{
    io::{ErrorKind, Read, Write},
    net::SocketAddr,
    time::{Duration, Instant},
};

/// Time without progress after which the server is taken to have stopped reading.
const STALLED: Duration = Duration::from_secs(2);

/// Begins this number of messages of this size in bytes. Prints a line when the server reads no
/// more of them. Waits until the server has closed all connections, and prints their number.
pub fn attack(server: SocketAddr, connections: u32, bytes: u32) -> Result<()> {
    let mut frames = (0..connections)
        .map(|number| PartialFrame::begin(server, number, bytes))
        .collect::<Result<Vec<_>>>()?;
    let mut progress = Instant::now();
    while progress.elapsed() < STALLED {
        for frame in &mut frames {
            if frame.send_more() {
                progress = Instant::now();
            }
        }
    }
    println!("stalled");
    let mut closed = 0;
    for frame in &mut frames {
        closed += u32::from(frame.is_closed()?);
    }
    println!("{closed}");
    Ok(())
}

struct PartialFrame {
    connection: AdmittedConnection,
    unsent: usize,
}

impl PartialFrame {
    fn begin(server: SocketAddr, number: u32, bytes: u32) -> Result<PartialFrame> {
        let mut connection =
            AdmittedConnection::connect(server, &own_tool(&format!("partial-{number}")))?;
        connection.stream.write_all(
            &Header {
                pindex: 0,
                tag: Tag::FIRST_REQUEST,
                len: bytes,
            }
            .encode(),
        )?;
        connection.stream.set_nonblocking(true)?;
        Ok(PartialFrame {
            connection,
            unsent: bytes as usize - 1,
        })
    }

    /// Waits until the server closes the connection. Returns true if it did.
    fn is_closed(&mut self) -> Result<bool> {
        let stream = &mut self.connection.stream;
        stream.set_nonblocking(false)?;
        loop {
            match stream.read(&mut [0; 512]) {
                Ok(0) => return Ok(true),
                Ok(_) => {}
                // Any other error than a time-out is a reset.
                Err(error) => {
                    return Ok(!matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut
                    ));
                }
            }
        }
    }

    /// Sends as much as the server accepts. Returns true if that is at least one byte.
    fn send_more(&mut self) -> bool {
        let chunk = [0; 64 * 1024];
        match self
            .connection
            .stream
            .write(&chunk[..self.unsent.min(chunk.len())])
        {
            Ok(count) => {
                self.unsent -= count;
                count > 0
            }
            Err(error) => {
                if error.kind() != ErrorKind::WouldBlock {
                    self.unsent = 0;
                }
                false
            }
        }
    }
}

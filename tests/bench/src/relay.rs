//! Lower bound of the time of an event through a server: a message over TCP to a thread that only
//! forwards it to another one. This is the machine's own cost of two sockets and two wake-ups.
use crate::times::Times;
use anyhow::{Context, Result};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::Instant,
};

/// Message as long as the event that is measured elsewhere.
const MESSAGE: [u8; 256] = [0; 256];

/// Arguments of `peal-bench relay`.
#[derive(clap::Args)]
pub struct Relay {
    /// The number of measured messages
    count: u32,
    /// The number of messages before the measured ones
    warm: u32,
}

impl Relay {
    /// Measures one message after the other.
    pub fn run(&self) -> Result<()> {
        let (mut source, from_source) = connection()?;
        let (to_target, target) = connection()?;
        let (tell, told) = mpsc::channel();
        thread::spawn(move || pass_on(from_source, |message| (&to_target).write_all(message)));
        thread::spawn(move || {
            pass_on(target, |_| {
                tell.send(Instant::now()).map_err(std::io::Error::other)
            })
        });
        let mut times = Times::new(self.warm, self.count);
        for _ in 0..self.warm + self.count {
            let start = Instant::now();
            source.write_all(&MESSAGE)?;
            times.add(
                told.recv()
                    .context("the relay has ended")?
                    .saturating_duration_since(start),
            );
        }
        times.print();
        Ok(())
    }
}

/// Returns both ends of a connection.
pub fn connection() -> Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    let (other, _) = listener.accept()?;
    one.set_nodelay(true)?;
    other.set_nodelay(true)?;
    Ok((one, other))
}

/// Forwards bytes until either end is closed.
fn pass_on(mut from: TcpStream, mut to: impl FnMut(&[u8]) -> std::io::Result<()>) {
    let mut message = MESSAGE;
    while from.read_exact(&mut message).is_ok() && to(&message).is_ok() {}
}

//! The least that an event can take through a server: a message over TCP to a thread that does nothing but pass it on to
//! another. What the machine itself needs for two sockets and two wake-ups.
use crate::times::Times;
use anyhow::{Context, Result};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::Instant,
};

/// As long as the event that is measured elsewhere.
const MESSAGE: [u8; 256] = [0; 256];

/// `peal-bench relay`.
#[derive(clap::Args)]
pub struct Relay {
    /// How many are measured
    count: u32,
    /// How many are not, before those
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

fn connection() -> Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    let (other, _) = listener.accept()?;
    one.set_nodelay(true)?;
    other.set_nodelay(true)?;
    Ok((one, other))
}

/// Until either end is closed.
fn pass_on(mut from: TcpStream, mut to: impl FnMut(&[u8]) -> std::io::Result<()>) {
    let mut message = MESSAGE;
    while from.read_exact(&mut message).is_ok() && to(&message).is_ok() {}
}

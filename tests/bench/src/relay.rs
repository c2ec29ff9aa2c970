//! Lower bound of the time of an event through a server: a message over TCP to a thread that only
//! forwards it to another one. This is the machine's own cost of two sockets and two wake-ups.
use crate::times::Times;
use anyhow::{Context, Result, bail};
use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::Instant,
};

/// Message as long as the event that is measured elsewhere.
const MESSAGE: [u8; 256] = [0; 256];

/// Length of the acknowledgement of a message.
const ACKNOWLEDGEMENT: usize = 48;

/// Number of bytes that are read at once in a flood.
const BUFFER: usize = 1 << 16;

/// Arguments of `peal-bench relay`.
#[derive(clap::Args)]
pub struct Relay {
    /// Way of the messages
    way: Way,
    /// The number of measured messages
    count: u32,
    /// The number of messages before the measured ones
    warm: u32,
}

/// Way of the messages.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Way {
    /// To the target, one after the other
    There,
    /// To the target, which sends it back, one after the other
    Back,
    /// To the target, as many as the connections take
    Flood,
}

impl Relay {
    /// Measures the time of each message, or the number of messages in a second.
    pub fn run(&self) -> Result<()> {
        match self.way {
            Way::There => self.there(),
            Way::Back => self.there_and_back(),
            Way::Flood => self.flood(),
        }
    }

    fn there(&self) -> Result<()> {
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

    fn there_and_back(&self) -> Result<()> {
        let (mut source, of_source) = connection()?;
        let (of_target, target) = connection()?;
        let echoes = target.try_clone()?;
        thread::spawn(move || pass_on(target, |message| (&echoes).write_all(message)));
        // One thread serves both, as a server does.
        thread::spawn(move || {
            pass_on(&of_source, |message| {
                let mut answer = MESSAGE;
                (&of_target).write_all(message)?;
                (&of_target).read_exact(&mut answer)?;
                (&of_source).write_all(&answer)
            });
        });
        let mut times = Times::new(self.warm, self.count);
        let mut answer = MESSAGE;
        for _ in 0..self.warm + self.count {
            let start = Instant::now();
            source.write_all(&MESSAGE)?;
            source.read_exact(&mut answer)?;
            times.add(start.elapsed());
        }
        times.print();
        Ok(())
    }

    /// Counts where the messages arrive. The source writes each by itself, the relay forwards and acknowledges what it
    /// has read at once.
    fn flood(&self) -> Result<()> {
        let (mut source, of_source) = connection()?;
        let (to_target, mut target) = connection()?;
        let mut acknowledged = source.try_clone()?;
        thread::spawn(move || io::copy(&mut acknowledged, &mut io::sink()));
        thread::spawn(move || forward_flood(&of_source, &to_target));
        let count = self.warm + self.count;
        let start = Instant::now();
        thread::spawn(move || (0..count).try_for_each(|_| source.write_all(&MESSAGE)));
        let mut left = count as usize * MESSAGE.len();
        let mut buffer = vec![0; BUFFER];
        while left > 0 {
            match target.read(&mut buffer)? {
                0 => bail!("the relay has ended"),
                bytes => left = left.saturating_sub(bytes),
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        println!("per_s {:.1}", f64::from(count) / seconds);
        Ok(())
    }
}

/// Forwards what there is, and sends an acknowledgement of each message, until either end is closed.
fn forward_flood(mut source: &TcpStream, mut target: &TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    let acknowledgements = vec![0; BUFFER / MESSAGE.len() * ACKNOWLEDGEMENT];
    // Bytes of a message that has not been read to its end.
    let mut begun = 0;
    loop {
        let bytes = source.read(&mut buffer)?;
        if bytes == 0 {
            return Ok(());
        }
        target.write_all(buffer.get(..bytes).unwrap_or_default())?;
        let whole = (begun + bytes) / MESSAGE.len();
        begun = (begun + bytes) % MESSAGE.len();
        let answer = acknowledgements.get(..whole * ACKNOWLEDGEMENT);
        source.write_all(answer.unwrap_or(&acknowledgements))?;
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

/// Forwards messages until either end is closed.
fn pass_on(mut from: impl Read, mut to: impl FnMut(&[u8]) -> io::Result<()>) {
    let mut message = MESSAGE;
    while from.read_exact(&mut message).is_ok() && to(&message).is_ok() {}
}

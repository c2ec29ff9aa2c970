//! Lower bound of a server's work for procs on its node: it receives a message of each that sends one, and
//! sends one to each, over TCP and without anything else.
use crate::relay::connection;
use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};
use std::{
    io::{self, Read, Write},
    net::TcpStream,
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

/// Message as long as those of a fence without data.
const MESSAGE: [u8; 96] = [0; 96];

/// Arguments of `peal-bench floor`.
#[derive(clap::Args)]
pub struct Floor {
    /// Work whose messages are sent
    work: Work,
    /// The number of procs
    procs: u32,
    /// The number of measured repetitions
    count: u32,
    /// The number of repetitions before the measured ones
    warm: u32,
}

/// Work of all procs.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Work {
    /// Each proc sends one message, and receives one
    Fence,
    /// The first proc sends one message, and each receives one
    Event,
}

impl Work {
    fn sends(self, proc: u32) -> bool {
        self == Work::Fence || proc == 0
    }
}

/// Times at the start of the measured repetitions.
struct Start {
    at: Instant,
    used: Duration,
}

impl Floor {
    /// Prints the mean time of a repetition, and the processor time of the server in it.
    pub fn run(&self) -> Result<()> {
        let procs = (0..self.procs)
            .map(|_| connection())
            .collect::<Result<Vec<_>>>()?;
        let (clients, mut server): (Vec<_>, Vec<_>) = procs.into_iter().unzip();
        let barrier = Arc::new(Barrier::new(self.procs as usize));
        for (proc, client) in (0..).zip(clients) {
            let (work, barrier) = (self.work, barrier.clone());
            thread::spawn(move || take_part(client, proc, work, &barrier));
        }
        let senders = (0..self.procs).filter(|proc| self.work.sends(*proc));
        let senders = senders.count();
        let mut start = Start::now();
        for repetition in 0..self.warm + self.count {
            if repetition == self.warm {
                start = Start::now();
            }
            serve(&mut server, senders)?;
        }
        let mean = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(self.count);
        println!("us {:.3}", mean(start.at.elapsed()));
        println!("cpu_us {:.3}", mean(used().saturating_sub(start.used)));
        Ok(())
    }
}

impl Start {
    fn now() -> Start {
        Start {
            at: Instant::now(),
            used: used(),
        }
    }
}

/// Returns the processor time of this thread.
fn used() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Receives a message of each sender, and sends one to each proc.
fn serve(procs: &mut [TcpStream], senders: usize) -> io::Result<()> {
    let mut message = MESSAGE;
    for proc in procs.iter_mut().take(senders) {
        proc.read_exact(&mut message)?;
    }
    procs
        .iter_mut()
        .try_for_each(|proc| proc.write_all(&MESSAGE))
}

/// Does the part of a proc until the server has closed the connection.
fn take_part(mut server: TcpStream, proc: u32, work: Work, barrier: &Barrier) {
    let mut message = MESSAGE;
    loop {
        if work.sends(proc) && server.write_all(&MESSAGE).is_err() {
            return;
        }
        if server.read_exact(&mut message).is_err() {
            return;
        }
        if work == Work::Event {
            // The next event follows when all have this one.
            barrier.wait();
        }
    }
}

//! Lower bound of a server's work for procs on its node: it receives a message of each that sends one, and
//! sends one to each that waits for one, over TCP and without anything else.
use crate::relay::connection;
use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};
use std::{
    io::{self, BufReader, Read, Write},
    net::TcpStream,
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

/// Length of the messages of a fence without data, and of others that name no procs.
const SHORT: usize = 96;

/// Bytes by which a name of a proc makes a message of a group longer.
const NAMED_PROC: usize = 32;

/// Line that a client logs.
const LINE: &str = "a line of usual length that a proc of a job writes while it runs\n";

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
    /// Each proc sends one message that names all, and receives one; then the same once more
    Group,
    /// Each proc sends a line, which the server writes to its standard error, and receives an answer
    Log,
    /// Each proc sends messages without an answer
    Beats,
}

/// Messages of procs to the server, and of the server to procs.
#[derive(Clone, Copy)]
struct Exchange {
    /// Name of its time in the output.
    name: &'static str,
    senders: Participants,
    /// Length of a message to the server.
    sent: usize,
    receivers: Participants,
    /// Length of a message to a proc.
    received: usize,
}

/// Procs that send or receive a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Participants {
    All,
    First,
    Nobody,
}

impl Participants {
    fn include(self, proc: u32) -> bool {
        match self {
            Participants::All => true,
            Participants::First => proc == 0,
            Participants::Nobody => false,
        }
    }
}

impl Work {
    /// Returns the messages of a repetition, for this number of procs.
    fn exchanges(self, procs: u32) -> Vec<Exchange> {
        use Participants::{All, First, Nobody};
        let short = |senders, receivers| Exchange {
            name: "us",
            senders,
            sent: SHORT,
            receivers,
            received: SHORT,
        };
        let names = SHORT + NAMED_PROC * procs as usize;
        let group = |name| Exchange {
            name,
            sent: names,
            received: names,
            ..short(All, All)
        };
        match self {
            Work::Fence => vec![short(All, All)],
            Work::Event => vec![short(First, All)],
            Work::Group => vec![group("construct_us"), group("destruct_us")],
            Work::Log => vec![short(All, All)],
            Work::Beats => vec![short(All, Nobody)],
        }
    }
}

/// Server's end of a connection. It reads as much as there is.
type ServerEnd = BufReader<TcpStream>;

/// Times since the start of the measured repetitions.
struct Measured {
    began: Instant,
    used_before: Duration,
    /// Time of each exchange in all repetitions.
    exchanges: Vec<Duration>,
}

impl Measured {
    fn start(exchanges: usize) -> Measured {
        Measured {
            began: Instant::now(),
            used_before: used(),
            exchanges: vec![Duration::ZERO; exchanges],
        }
    }
}

impl Floor {
    /// Prints the mean time of each exchange, the processor time of the server in a repetition, and the number of
    /// repetitions in a second.
    pub fn run(&self) -> Result<()> {
        let procs = (0..self.procs)
            .map(|_| connection())
            .collect::<Result<Vec<_>>>()?;
        let exchanges = self.work.exchanges(self.procs);
        let barrier = Arc::new(Barrier::new(self.procs as usize));
        let mut server = Vec::new();
        for (proc, (client, end)) in (0..).zip(procs) {
            server.push(BufReader::with_capacity(1 << 16, end));
            let (exchanges, barrier) = (exchanges.clone(), barrier.clone());
            thread::spawn(move || take_part(client, proc, &exchanges, &barrier));
        }
        let mut measured = Measured::start(exchanges.len());
        for repetition in 0..self.warm + self.count {
            if repetition == self.warm {
                measured = Measured::start(exchanges.len());
            }
            for (exchange, time) in exchanges.iter().zip(&mut measured.exchanges) {
                let start = Instant::now();
                serve(&mut server, exchange)?;
                if self.work == Work::Log {
                    io::stderr().write_all(LINE.as_bytes())?;
                }
                *time += start.elapsed();
            }
        }
        let mean = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(self.count);
        for (exchange, time) in exchanges.iter().zip(&measured.exchanges) {
            println!("{} {:.3}", exchange.name, mean(*time));
        }
        let used = used().saturating_sub(measured.used_before);
        println!("cpu_us {:.3}", mean(used));
        let seconds = measured.began.elapsed().as_secs_f64();
        println!("per_s {:.1}", f64::from(self.count) / seconds);
        Ok(())
    }
}

/// Returns the processor time of this thread.
fn used() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Receives a message of each sender, and sends one to each receiver.
fn serve(procs: &mut [ServerEnd], exchange: &Exchange) -> io::Result<()> {
    let mut message = vec![0; exchange.sent.max(exchange.received)];
    let (sent, received) = (exchange.sent, exchange.received);
    for (number, proc) in (0..).zip(procs.iter_mut()) {
        if exchange.senders.include(number) {
            proc.read_exact(message.get_mut(..sent).unwrap_or_default())?;
        }
    }
    for (number, proc) in (0..).zip(procs.iter_mut()) {
        if exchange.receivers.include(number) {
            let message = message.get(..received).unwrap_or_default();
            proc.get_mut().write_all(message)?;
        }
    }
    Ok(())
}

/// Does the part of a proc until the server has closed the connection.
fn take_part(mut server: TcpStream, proc: u32, exchanges: &[Exchange], barrier: &Barrier) {
    let longest = exchanges
        .iter()
        .map(|exchange| exchange.sent.max(exchange.received));
    let mut message = vec![0; longest.max().unwrap_or_default()];
    loop {
        for exchange in exchanges {
            if exchange.senders.include(proc)
                && server
                    .write_all(message.get(..exchange.sent).unwrap_or_default())
                    .is_err()
            {
                return;
            }
            if exchange.receivers.include(proc)
                && server
                    .read_exact(message.get_mut(..exchange.received).unwrap_or_default())
                    .is_err()
            {
                return;
            }
            if exchange.senders == Participants::First {
                // The next event follows when all have this one.
                barrier.wait();
            }
        }
    }
}

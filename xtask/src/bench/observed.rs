//! Events through handlers of a server while somebody observes it: a browser at its console, or a collector of its
//! traces.
use super::{
    arm::{Values, handler_modules},
    launch::{Running, Scratch},
    machine::OwnProcessors,
    programs::Programs,
    samples::Spread,
    served::ServerDirectory,
};
use anyhow::{Context, Result, ensure};
use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    thread::{self, JoinHandle},
};

/// Number of handlers that do nothing. One more raises the reply.
const HANDLERS: u32 = 15;

/// Token of the browser.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Number of measurements of each server, by turns.
const TURNS: u32 = 8;

/// Observer of the events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Observer {
    /// Browser that shows the page of events, which is refreshed several times a second.
    Browser,
    /// Collector that takes a trace of each event, up to the usual number a second, and metrics.
    Collector,
}

impl Observer {
    /// All observers.
    pub const ALL: [Observer; 2] = [Observer::Browser, Observer::Collector];

    /// Returns the name in names of arms.
    pub fn name(self) -> &'static str {
        match self {
            Observer::Browser => "browser",
            Observer::Collector => "collector",
        }
    }
}

/// Measures an event through the handlers, of which the last raises an event that comes back: at servers that
/// are observed, and with `alone_` before the name at others, by turns. Each is a new one: of two equal servers
/// one may be faster by a fifth.
///
/// All processes have one processor. What an observer costs cannot hide on another one, and no thread waits
/// until another processor wakes up, which takes most of the time of an event otherwise, and never the same.
pub fn time(programs: &Programs, observer: Observer, count: u32, warm: u32) -> Result<Values> {
    OwnProcessors::find()?.on_one(|| by_turns(programs, observer, count, warm))
}

fn by_turns(programs: &Programs, observer: Observer, count: u32, warm: u32) -> Result<Values> {
    let time = |observer| ObservedServer::time_of_one(programs, observer, count, warm);
    let (mut observed, mut alone) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        // Each is as often the first one.
        if turn % 2 == 0 {
            observed.push(time(Some(observer))?);
            alone.push(time(None)?);
        } else {
            alone.push(time(None)?);
            observed.push(time(Some(observer))?);
        }
    }
    let median = |times| anyhow::Ok(Spread::of(times).context("no turns")?.median);
    Ok(vec![
        ("us".to_owned(), median(observed)?),
        ("alone_us".to_owned(), median(alone)?),
    ])
}

/// Server with handlers, and its observer.
struct ObservedServer<'a> {
    directory: ServerDirectory<'a>,
    running: Running,
    browser: Option<Browser>,
    collector: Option<Collector>,
}

impl ObservedServer<'_> {
    /// Returns the time of an event at a new server in microseconds.
    fn time_of_one(
        programs: &Programs,
        observer: Option<Observer>,
        count: u32,
        warm: u32,
    ) -> Result<f64> {
        let scratch = Scratch::new()?;
        let server = ObservedServer::start(programs, &scratch, observer)?;
        let time = server.directory.pingpong(count, warm)?;
        server.stop()?;
        Ok(time)
    }

    fn start<'a>(
        programs: &'a Programs,
        scratch: &'a Scratch,
        observer: Option<Observer>,
    ) -> Result<ObservedServer<'a>> {
        let directory = ServerDirectory::new(programs, scratch);
        let port = free_port()?;
        let collector = match observer {
            Some(Observer::Collector) => Some(Collector::start()?),
            Some(Observer::Browser) | None => None,
        };
        let observed = match (observer, &collector) {
            (Some(Observer::Browser), _) => {
                let file = directory.path("token");
                fs::write(&file, format!("{TOKEN}\n"))?;
                fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
                format!("[console]\nlisten = \"127.0.0.1:{port}\"\ntoken_file = {file:?}\n")
            }
            (_, Some(collector)) => format!(
                "[telemetry]\nendpoint = \"http://{}\"\nmetrics_interval_ms = 1000\n",
                collector.address
            ),
            (_, None) => String::new(),
        };
        let handlers = handler_modules(programs, "noop", HANDLERS);
        let running = directory.start(&format!("{observed}\n{handlers}"))?;
        let browser = match observer {
            Some(Observer::Browser) => Some(Browser::start(port)?),
            Some(Observer::Collector) | None => None,
        };
        Ok(ObservedServer {
            directory,
            running,
            browser,
            collector,
        })
    }

    /// Stops the server, and fails if its observer has seen nothing.
    fn stop(self) -> Result<()> {
        if let Some(browser) = self.browser {
            let shown = browser.close()?;
            ensure!(
                shown.contains("-3101"),
                "the browser has not seen the events"
            );
        }
        self.directory.stop(self.running)?;
        if let Some(collector) = self.collector {
            let taken = collector.close()?;
            ensure!(taken > 0, "the collector has got nothing");
        }
        Ok(())
    }
}

/// Returns a port that had no listener a moment ago.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

/// Browser that shows the page of events.
struct Browser {
    stream: TcpStream,
    reader: JoinHandle<io::Result<String>>,
}

impl Browser {
    fn start(port: u16) -> Result<Browser> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut stream = TcpStream::connect(address).context("the console does not listen")?;
        write!(
            stream,
            "GET /live/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        )?;
        let mut input = BufReader::new(stream.try_clone()?);
        let mut status = String::new();
        input.read_line(&mut status)?;
        ensure!(status.contains(" 200 "), "the console answers {status:?}");
        let reader = thread::spawn(move || {
            let mut shown = String::new();
            let mut last = String::new();
            // The end of the stream is that of the measurement.
            while input.read_line(&mut last)? > 0 {
                if last.starts_with("data:") {
                    shown = std::mem::take(&mut last);
                }
                last.clear();
            }
            Ok(shown)
        });
        Ok(Browser { stream, reader })
    }

    /// Ends the connection, and returns the last state of the page.
    fn close(self) -> Result<String> {
        self.stream.shutdown(Shutdown::Both)?;
        let shown = self.reader.join();
        Ok(shown.map_err(|_| anyhow::anyhow!("the browser failed"))??)
    }
}

/// Collector that takes everything and looks at nothing.
struct Collector {
    address: SocketAddr,
    listener: JoinHandle<usize>,
}

impl Collector {
    fn start() -> Result<Collector> {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = socket.local_addr()?;
        let listener = thread::spawn(move || {
            let mut taken = 0;
            // An error is that of one connection. An empty request ends the collector.
            while let Ok((stream, _)) = socket.accept() {
                match take_requests(stream) {
                    Ok(0) => break,
                    Ok(count) => taken += count,
                    Err(_) => taken += 1,
                }
            }
            taken
        });
        Ok(Collector { address, listener })
    }

    /// Ends the collector, and returns the number of requests that it has taken.
    fn close(self) -> Result<usize> {
        TcpStream::connect(self.address)?.shutdown(Shutdown::Both)?;
        let taken = self.listener.join();
        taken.map_err(|_| anyhow::anyhow!("the collector failed"))
    }
}

/// Takes the requests of one connection, and returns their number.
fn take_requests(stream: TcpStream) -> io::Result<usize> {
    let mut output = stream.try_clone()?;
    let mut input = BufReader::new(stream);
    let mut taken = 0;
    loop {
        let mut length = 0;
        let mut line = String::new();
        while input.read_line(&mut line)? > 0 && line != "\r\n" {
            let value = line.to_ascii_lowercase();
            if let Some(value) = value.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or_default();
            }
            line.clear();
        }
        if line.is_empty() {
            return Ok(taken);
        }
        io::copy(&mut input.by_ref().take(length), &mut io::sink())?;
        output.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n",
        )?;
        taken += 1;
    }
}

//! Events through handlers of a server while somebody observes it: a browser at its console, or a collector of its
//! traces.
use super::{
    arm::{Values, handler_modules},
    launch::{self, Scratch},
    programs::Programs,
    served::ServerDirectory,
};
use anyhow::{Context, Result, ensure};
use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    process::Command,
    thread::{self, JoinHandle},
};

/// Number of handlers that do nothing. One more raises the reply.
const HANDLERS: u32 = 15;

/// Token of the browser.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Observer of the events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Observer {
    /// None.
    Nobody,
    /// Browser that shows the page of events, which is refreshed several times a second.
    Browser,
    /// Collector that takes a trace of each event, up to the usual number a second, and metrics.
    Collector,
}

impl Observer {
    /// All observers.
    pub const ALL: [Observer; 3] = [Observer::Nobody, Observer::Browser, Observer::Collector];

    /// Returns the name in names of arms.
    pub fn name(self) -> &'static str {
        match self {
            Observer::Nobody => "nobody",
            Observer::Browser => "browser",
            Observer::Collector => "collector",
        }
    }
}

/// Measures an event through the handlers, of which the last raises an event that comes back.
pub fn time(programs: &Programs, observer: Observer, count: u32, warm: u32) -> Result<Values> {
    let scratch = Scratch::new()?;
    let directory = ServerDirectory::new(programs, &scratch);
    let port = free_port()?;
    let collector = match observer {
        Observer::Collector => Some(Collector::start()?),
        Observer::Nobody | Observer::Browser => None,
    };
    let observed = match (observer, &collector) {
        (Observer::Browser, _) => {
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
    let server = directory.start(&format!("{observed}\n{handlers}"))?;
    let browser = match observer {
        Observer::Browser => Some(Browser::start(port)?),
        Observer::Nobody | Observer::Collector => None,
    };
    directory.ask(&["job", "register", "job", "-n", "1"])?;
    let environment = directory.ask(&["job", "environment", "job", "--rank", "0"])?;
    let files = Scratch::new()?;
    let mut client = Command::new(&programs.bench);
    client
        .args(["proc", "pingpong", &count.to_string(), &warm.to_string()])
        .arg(files.path())
        .envs(environment.lines().filter_map(|line| line.split_once('=')));
    let measured = launch::values(&launch::finish(client, &files)?)?;
    if let Some(browser) = browser {
        let shown = browser.close()?;
        ensure!(
            shown.contains("-3101"),
            "the browser has not seen the events"
        );
    }
    directory.stop(server)?;
    if let Some(collector) = collector {
        let taken = collector.close()?;
        ensure!(taken > 0, "the collector has got nothing");
    }
    Ok(measured)
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

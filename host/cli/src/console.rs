//! `peal console`: a process of `peal serve` that serves the web console. It speaks to browsers and, as an
//! administrator, to the server; it can change no file and connects to no other machine.
use crate::{
    args::ConsoleArgs,
    call_replay,
    confinement::{SYSTEM_FILES, refused_calls},
    node, process_setup,
    supervisor::{
        ProcessStarter, ServerAccount, StartOrder, StartedProcess, only_start, own_program,
    },
    users,
};
use anyhow::{Context, Result, bail};
use peal_config::{Config, Keyword, Problem, Resolved};
use peal_confinement::{Confinement, ProcessRole};
use peal_console::{
    ConsoleBounds, ConsoleFunctions, ConsoleSecrets, ConsoleSettings, ReplayReport,
};
use peal_frames::{
    FrameLimit, MessageStream, MessageWithDescriptors, receive_with_descriptors,
    send_with_descriptors,
};
use rustix::{
    net::{self, AddressFamily, SocketFlags, SocketType, sockopt},
    process::geteuid,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    io::{self, ErrorKind},
    net::{SocketAddr, TcpListener},
    os::{
        fd::AsFd,
        unix::{net::UnixStream, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// Limit of a message.
const LIMIT: FrameLimit = FrameLimit(64 * 1024);
/// Time in which a console must be ready.
const READY: Duration = Duration::from_secs(20);
/// Time for which an address in use is tried: that of a console whose server has just ended.
const ADDRESS_IN_USE: Duration = Duration::from_secs(5);
const ADDRESS_RETRY: Duration = Duration::from_millis(50);
/// Pause before a console that has ended, or could not be started, is started again.
const RESTART: Duration = Duration::from_secs(2);
/// Connections that the kernel keeps for a console that does not accept them yet.
const BACKLOG: i32 = 128;

/// Message of the server, with the listening socket. What follows are answers.
#[derive(Serialize, Deserialize)]
struct ListenerMessage;

/// Beginning of the line with the address of a console whose port the system has chosen.
const CHOSEN_ADDRESS: &str = "the web console listens at ";

/// Message of a console.
#[derive(Serialize, Deserialize)]
enum ConsoleMessage {
    /// The console serves at the socket.
    Ready,
    /// The console could not be started.
    Failed(String),
    /// A recorded call is to be replayed. The reply is a [`ReplayAnswer`].
    Replay(u64),
}

/// Answer of the server to [`ConsoleMessage::Replay`].
type ReplayAnswer = Result<ReplayReport, String>;

/// Returns the settings of the console of a server; `None` without one.
pub fn settings(config: &Config, admin_socket: &Path) -> Option<ConsoleSettings> {
    let console = &config.console;
    // The process has another directory.
    let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let file = |path: &Option<PathBuf>| path.as_ref().map(absolute);
    Some(ConsoleSettings {
        listen: console.listen?,
        token_file: file(&console.token_file),
        admin_token_file: file(&console.admin_token_file),
        certificate: file(&console.certificate),
        private_key: file(&console.private_key),
        client_ca: file(&console.client_ca),
        admin_socket: absolute(&admin_socket.to_owned()),
        audit: file(&config.audit.path),
        bounds: ConsoleBounds {
            connections: console.max_connections,
            watchers: console.max_watchers,
            sessions: console.max_sessions,
            session_lifetime: console.session_lifetime,
            request_timeout: console.request_timeout,
        },
    })
}

/// Checks the settings of the console.
pub fn check(resolved: &Resolved) -> Result<(), Problem> {
    let Some(settings) = settings(&resolved.config, Path::new("/")) else {
        return Ok(());
    };
    let origin = || resolved.origin("console.listen").clone();
    let checked = settings.check();
    checked.map_err(|error| Problem::new(origin(), error.to_string()))
}

/// Reads the secrets of the console, as the user of the server.
///
/// # Errors
///
/// Fails if a file that the settings name is unusable.
pub fn check_secrets(config: &Config) -> Result<()> {
    if let Some(settings) = settings(config, Path::new("/")) {
        let user = || users::shown(geteuid().as_raw());
        ConsoleSecrets::read(&settings)
            .with_context(|| format!("cannot serve the web console as user {}", user()))?;
    }
    Ok(())
}

/// Listening socket of the console. The server has it as long as it runs: no other user gets the address while a
/// process of the console has ended.
pub struct ConsoleListener {
    address: SocketAddr,
    socket: Option<TcpListener>,
}

impl ConsoleListener {
    /// Listens at an address that nobody else has. A process of the same user can listen beside this one, as that
    /// does which goes on with the server.
    fn alone(address: SocketAddr) -> Result<ConsoleListener> {
        let socket = bind_alone(address).with_context(|| cannot_listen(address))?;
        tell_chosen(address, &socket);
        Ok(ConsoleListener {
            address,
            socket: Some(socket),
        })
    }

    /// Listens at the address of the configuration beside another process of this user, if there is one; `None`
    /// without a console. An address that cannot be had is tried again later.
    pub fn beside(config: &Config) -> Option<ConsoleListener> {
        let mut listener = ConsoleListener {
            address: config.console.listen?,
            socket: None,
        };
        if let Err(error) = listener.socket() {
            let error = crate::error_text(&error);
            tracing::error!(%error, "web console does not listen yet");
        }
        Some(listener)
    }

    fn socket(&mut self) -> Result<&TcpListener> {
        let address = self.address;
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => {
                let socket = bind_beside(address).with_context(|| cannot_listen(address))?;
                tell_chosen(address, &socket);
                socket
            }
        };
        Ok(self.socket.insert(socket))
    }
}

/// Prints the address of a socket whose port the system has chosen.
fn tell_chosen(address: SocketAddr, socket: &TcpListener) {
    if address.port() == 0
        && let Ok(chosen) = socket.local_addr()
    {
        crate::print_line(&format!("{CHOSEN_ADDRESS}{chosen}"));
    }
}

fn cannot_listen(address: SocketAddr) -> String {
    format!("cannot serve the web console on {address} (console.listen)")
}

fn bind_alone(address: SocketAddr) -> io::Result<TcpListener> {
    let begun = Instant::now();
    let socket = loop {
        match TcpListener::bind(address) {
            Err(error)
                if error.kind() == ErrorKind::AddrInUse && begun.elapsed() < ADDRESS_IN_USE =>
            {
                thread::sleep(ADDRESS_RETRY);
            }
            bound => break bound?,
        }
    };
    // Only now: a second server must find the address in use.
    sockopt::set_socket_reuseport(&socket, true)?;
    Ok(socket)
}

fn bind_beside(address: SocketAddr) -> io::Result<TcpListener> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    // The kernel lets processes of the same user alone share an address.
    sockopt::set_socket_reuseport(&socket, true)?;
    net::bind(&socket, &address)?;
    net::listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

/// Function that starts a process of the console, and returns the connection to it.
type ConsoleStart = Box<dyn Fn() -> io::Result<UnixStream> + Send>;

/// Console of a server.
pub struct ServedConsole {
    config: Config,
    listener: ConsoleListener,
    starter: Option<ProcessStarter>,
    start: ConsoleStart,
    /// Process that serves; none before it is ready.
    connection: Option<MessageStream>,
    /// True after the first start. A server without a supervisor has no other one.
    is_started: bool,
}

/// Starts the console of a server that is about to be confined; `None` if it has none. That of a server that this
/// process goes on with has its socket already, and is started when it is kept: the clients wait until then.
///
/// # Errors
///
/// Fails if the console of a new server cannot listen, or a file that its settings name is unusable.
pub fn start(
    config: &Config,
    admin_socket: &Path,
    starter: Option<ProcessStarter>,
    continued: Option<ConsoleListener>,
) -> Result<Option<ServedConsole>> {
    let Some(address) = config.console.listen else {
        return Ok(None);
    };
    let start: Result<ConsoleStart> = match starter.clone() {
        Some(starter) => Ok(Box::new(move || starter.connect(StartOrder::Console))),
        None => spawn(config, None, admin_socket)
            .map(|process| -> ConsoleStart { Box::new(only_start(process)) }),
    };
    let console = |listener, start| ServedConsole {
        config: config.clone(),
        listener,
        starter,
        start,
        connection: None,
        is_started: false,
    };
    match (continued, start) {
        (None, start) => {
            let mut console = console(ConsoleListener::alone(address)?, start?);
            console.connection = Some(console.begin()?);
            Ok(Some(console))
        }
        (Some(listener), Ok(start)) => Ok(Some(console(listener, start))),
        (Some(_), Err(error)) => {
            let error = crate::error_text(&error);
            tracing::error!(%error, "server goes on without its web console");
            Ok(None)
        }
    }
}

/// Starts the process, as the user of the server that it serves.
pub fn spawn(
    config: &Config,
    account: Option<&ServerAccount>,
    admin_socket: &Path,
) -> Result<StartedProcess> {
    let settings = settings(config, admin_socket).context("the configuration has no console")?;
    let mut command = own_program();
    command.arg("console");
    command.args(["--settings", &serde_json::to_string(&settings)?]);
    command.args(["--confinement", config.confinement.mode.name()]);
    if let Some(account) = account {
        command.uid(account.identity.uid).gid(account.identity.gid);
    }
    StartedProcess::start(command).context("cannot start the web console")
}

/// Gives a process of the console the socket, and waits until it serves there.
fn ready(connection: UnixStream, listener: &TcpListener) -> Result<MessageStream> {
    connection.set_read_timeout(Some(READY))?;
    let timed = connection.try_clone()?;
    // A process that has ended tells more by its messages.
    let given = send_with_descriptors(&connection, &ListenerMessage, &[listener.as_fd()], LIMIT);
    let mut messages = MessageStream::new(connection, LIMIT);
    let first = messages.next_message();
    match first.context("the web console was not started")? {
        Some(ConsoleMessage::Ready) => {
            timed.set_read_timeout(None)?;
            Ok(messages)
        }
        Some(ConsoleMessage::Failed(reason)) => bail!("{}", crate::plain(&reason)),
        Some(ConsoleMessage::Replay(_)) | None => {
            given.context("the web console takes no socket")?;
            bail!("the web console ended at its start")
        }
    }
}

impl ServedConsole {
    /// Keeps the console running until the process ends, on a thread of its own.
    pub fn keep(self) -> io::Result<()> {
        let keeper = thread::Builder::new().name("console keeper".to_owned());
        keeper.spawn(move || self.keep_running()).map(drop)
    }

    /// Starts a process, and waits until it serves.
    fn begin(&mut self) -> Result<MessageStream> {
        let socket = self.listener.socket()?;
        self.is_started = true;
        ready((self.start)()?, socket)
    }

    /// Answers the console until it ends.
    fn answer(&self, mut connection: MessageStream) {
        while let Ok(Some(ConsoleMessage::Replay(seq))) = connection.next_message() {
            let replayed = call_replay::replay(&self.config, self.starter.as_ref(), seq);
            let answer: ReplayAnswer = replayed.map_err(|error| crate::error_text(&error));
            // A console that does not take it has ended, as the next message tells.
            let _ = connection.send(&answer);
        }
    }

    fn keep_running(mut self) {
        loop {
            match self.connection.take() {
                Some(connection) => {
                    self.answer(connection);
                    tracing::error!("web console ended");
                }
                None => match self.begin() {
                    Ok(connection) => {
                        self.connection = Some(connection);
                        continue;
                    }
                    Err(error) => {
                        let error = crate::error_text(&error);
                        tracing::error!(%error, "web console not started");
                    }
                },
            }
            if self.starter.is_none() && self.is_started {
                tracing::error!(
                    "no other web console is started: a confined server without a supervisor starts no process"
                );
                // The address stays that of this server.
                loop {
                    thread::park();
                }
            }
            thread::sleep(RESTART);
        }
    }
}

/// Serves the console until the server at the other end of the standard input has ended.
pub fn work(args: ConsoleArgs) -> Result<ExitCode> {
    // The tokens are in it.
    process_setup::hide_memory()?;
    process_setup::end_with_parent()?;
    // Reports of a flood must not take the time of those who are flooded.
    process_setup::take_low_priority().context("cannot lower the priority")?;
    let server = process_setup::standard_input()?;
    let server = UnixStream::from(server);
    let mut messages = MessageStream::new(server.try_clone()?, LIMIT);
    let (secrets, listener) = match prepare(&args, &server) {
        Ok(prepared) => prepared,
        Err(error) => {
            messages.send(&ConsoleMessage::Failed(crate::error_text(&error)))?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    messages.send(&ConsoleMessage::Ready)?;
    let (parent, ended) = ConsoleParent::listen(server)?;
    let runtime = node::runtime()?;
    let functions = ConsoleFunctions {
        naming: users::shown,
        users: users::find,
        replay: Arc::new(move |seq| parent.replay(seq)),
    };
    let served = runtime.block_on(async {
        tokio::select! {
            served = peal_console::serve(args.settings, secrets, listener, functions) => served,
            _ = ended => Ok(()),
        }
    });
    runtime.shutdown_background();
    served.context("the web console failed")?;
    Ok(ExitCode::SUCCESS)
}

/// Server that this console belongs to, at the other end of the standard input.
struct ConsoleParent {
    orders: Mutex<MessageStream>,
    answers: Mutex<mpsc::Receiver<ReplayAnswer>>,
}

impl ConsoleParent {
    /// Takes what the server sends, on a thread. The receiver fails when the server has ended.
    fn listen(socket: UnixStream) -> Result<(ConsoleParent, oneshot::Receiver<()>)> {
        let mut messages = MessageStream::new(socket.try_clone()?, LIMIT);
        let (tell, answers) = mpsc::channel();
        let (alive, ended) = oneshot::channel();
        thread::Builder::new()
            .name("messages of the server".to_owned())
            .spawn(move || {
                while let Ok(Some(answer)) = messages.next_message() {
                    if tell.send(answer).is_err() {
                        break;
                    }
                }
                drop::<oneshot::Sender<()>>(alive);
            })?;
        let parent = ConsoleParent {
            orders: Mutex::new(MessageStream::new(socket, LIMIT)),
            answers: Mutex::new(answers),
        };
        Ok((parent, ended))
    }

    /// Has the server replay a call. Blocks. The console replays one at a time.
    fn replay(&self, seq: u64) -> ReplayAnswer {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = orders.send(&ConsoleMessage::Replay(seq));
        sent.map_err(|error| format!("the server does not answer: {error}"))?;
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = answers.recv();
        answer.unwrap_or_else(|_| Err("the server has ended".to_owned()))
    }
}

/// Takes the socket from the server, reads the secrets, and confines this process.
fn prepare(args: &ConsoleArgs, server: &UnixStream) -> Result<(ConsoleSecrets, TcpListener)> {
    let settings = &args.settings;
    let MessageWithDescriptors {
        message: ListenerMessage,
        mut descriptors,
    } = receive_with_descriptors(server, LIMIT).context("the server gives no socket")?;
    let listener = descriptors.pop().context("the server gives no socket")?;
    let secrets = ConsoleSecrets::read(settings)?;
    if let Some(refused) = refused_calls(args.confinement) {
        let mut read: BTreeSet<PathBuf> = SYSTEM_FILES.map(PathBuf::from).into();
        // SQLite has files of its own beside a database, which come and go.
        read.extend(
            settings
                .audit
                .as_ref()
                .and_then(|path| path.parent())
                .map(Path::to_owned),
        );
        Confinement {
            refused,
            read,
            ..Confinement::of(ProcessRole::Console)
        }
        .enforce()
        .context("cannot confine the web console")?;
    }
    Ok((secrets, listener.into()))
}

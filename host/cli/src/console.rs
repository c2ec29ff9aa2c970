//! `peal console`: a process of `peal serve` that serves the web console. It speaks to browsers and, as an
//! administrator, to the server; it can change no file and connects to no other machine.
use crate::{
    args::ConsoleArgs,
    call_replay,
    confinement::{SYSTEM_FILES, refused_calls},
    node, process_setup,
    supervisor::{ProcessStarter, ServerAccount, StartOrder, StartedProcess, own_program},
    users,
};
use anyhow::{Context, Result, bail};
use peal_config::{Config, Keyword, Problem, Resolved};
use peal_confinement::{Confinement, ProcessRole};
use peal_console::{
    ConsoleBounds, ConsoleFunctions, ConsoleSecrets, ConsoleSettings, ReplayReport,
};
use peal_frames::{FrameLimit, MessageStream};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    io::{self, ErrorKind},
    net::{SocketAddr, TcpListener},
    os::unix::{net::UnixStream, process::CommandExt},
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
/// Pause before a console that has ended is started again.
const RESTART: Duration = Duration::from_secs(2);

/// Beginning of the line with the address of a console whose port the system has chosen.
const CHOSEN_ADDRESS: &str = "the web console listens at ";

/// Message of a console.
#[derive(Serialize, Deserialize)]
enum ConsoleMessage {
    /// The console listens.
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

/// Console that is ready.
pub struct ServedConsole {
    connection: MessageStream,
    config: Config,
    starter: Option<ProcessStarter>,
}

/// Starts the console of a server that is about to be confined; `None` if it has none. A supervised server
/// can have another one started later.
///
/// # Errors
///
/// Fails if the console cannot listen, or a file that its settings name is unusable.
pub fn start(
    config: &Config,
    admin_socket: &Path,
    starter: Option<ProcessStarter>,
) -> Result<Option<ServedConsole>> {
    if config.console.listen.is_none() {
        return Ok(None);
    }
    let connection = match &starter {
        Some(starter) => starter.start(StartOrder::Console)?.connection,
        None => spawn(config, None, admin_socket)?.connection,
    };
    Ok(Some(ServedConsole {
        connection: ready(connection)?,
        config: config.clone(),
        starter,
    }))
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

/// Waits until a console listens.
fn ready(connection: UnixStream) -> Result<MessageStream> {
    connection.set_read_timeout(Some(READY))?;
    let timed = connection.try_clone()?;
    let mut messages = MessageStream::new(connection, LIMIT);
    let first = messages.next_message();
    match first.context("the web console was not started")? {
        Some(ConsoleMessage::Ready) => {
            timed.set_read_timeout(None)?;
            Ok(messages)
        }
        Some(ConsoleMessage::Failed(reason)) => bail!("{}", crate::plain(&reason)),
        Some(ConsoleMessage::Replay(_)) | None => bail!("the web console ended at its start"),
    }
}

impl ServedConsole {
    /// Keeps the console running until the process ends, on a thread of its own.
    pub fn keep(self) -> io::Result<()> {
        let keeper = thread::Builder::new().name("console keeper".to_owned());
        keeper.spawn(move || self.keep_running()).map(drop)
    }

    /// Answers the console until it ends.
    fn answer(&mut self) {
        while let Ok(Some(ConsoleMessage::Replay(seq))) = self.connection.next_message() {
            let replayed = call_replay::replay(&self.config, self.starter.as_ref(), seq);
            let answer: ReplayAnswer = replayed.map_err(|error| crate::error_text(&error));
            // A console that does not take it has ended, as the next message tells.
            let _ = self.connection.send(&answer);
        }
    }

    fn keep_running(mut self) {
        loop {
            self.answer();
            let Some(starter) = &self.starter else {
                tracing::error!(
                    "web console ended; a confined server without a supervisor starts no other one"
                );
                return;
            };
            tracing::error!("web console ended; it is started again");
            loop {
                thread::sleep(RESTART);
                let started = starter.start(StartOrder::Console);
                match started.and_then(|started| ready(started.connection)) {
                    Ok(connection) => {
                        self.connection = connection;
                        break;
                    }
                    Err(error) => {
                        let error = crate::error_text(&error);
                        tracing::error!(%error, "web console not started again");
                    }
                }
            }
        }
    }
}

/// Serves the console until the server at the other end of the standard input has ended.
pub fn work(args: ConsoleArgs) -> Result<ExitCode> {
    // The tokens are in it.
    process_setup::hide_memory()?;
    process_setup::end_with_parent()?;
    let server = process_setup::standard_input()?;
    let server = UnixStream::from(server);
    let mut messages = MessageStream::new(server.try_clone()?, LIMIT);
    let (secrets, listener) = match prepare(&args) {
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

/// Reads the secrets, listens, and confines this process.
fn prepare(args: &ConsoleArgs) -> Result<(ConsoleSecrets, TcpListener)> {
    let settings = &args.settings;
    let secrets = ConsoleSecrets::read(settings)?;
    let listen = settings.listen;
    let listener = bind(listen)
        .with_context(|| format!("cannot serve the web console on {listen} (console.listen)"))?;
    if listen.port() == 0 {
        let chosen = listener.local_addr()?;
        crate::print_line(&format!("{CHOSEN_ADDRESS}{chosen}"));
    }
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
    Ok((secrets, listener))
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let begun = Instant::now();
    loop {
        match TcpListener::bind(address) {
            Err(error)
                if error.kind() == ErrorKind::AddrInUse && begun.elapsed() < ADDRESS_IN_USE =>
            {
                thread::sleep(ADDRESS_RETRY);
            }
            bound => return bound,
        }
    }
}

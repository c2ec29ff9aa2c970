//! Start of processes on behalf of a confined server, which can start none itself. The server sends
//! an order; the supervisor answers with the server's end of a socket to the new process.
use anyhow::{Context, Result, bail};
use peal_frames::{
    FrameLimit, MessageWithDescriptors, decode_single, receive_with_descriptors,
    send_with_descriptors,
};
use rustix::{
    fd::{AsFd, OwnedFd},
    net::{AddressFamily, RecvFlags, SocketFlags, SocketType, socketpair, sockopt},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    io,
    os::unix::{net::UnixStream, process::CommandExt},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    signal::unix::{SignalKind, signal},
};

/// Longest order or reply.
const LIMIT: FrameLimit = FrameLimit(4096);

/// Longest datagram: a frame with its header.
const DATAGRAM: usize = 4096 + 4;

/// Time limit of a start.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Number of processes that one order may start in a minute. A server that needs more loses them as fast
/// as they start.
const STARTS_IN_A_MINUTE: usize = 64;

/// Process that was started for a server. It ends when the server closes its end of the connection.
pub struct StartedProcess {
    /// Server's end of the connection to the process.
    pub connection: UnixStream,
    /// The process. A server that is not supervised does not wait for it.
    pub child: Child,
}

/// Process that a supervisor has started for this server.
#[derive(Debug)]
pub struct ConnectedProcess {
    /// Server's end of the connection to the process.
    pub connection: UnixStream,
    /// Process id.
    pub pid: u32,
}

/// Returns a command that runs this very program, even if an upgrade has replaced its file.
pub fn own_program() -> Command {
    Command::new("/proc/self/exe")
}

/// Returns a function that returns the connection to a process at its first call. A confined server without
/// a supervisor can start no other process.
pub fn only_start(process: StartedProcess) -> impl Fn() -> io::Result<UnixStream> {
    let first = Mutex::new(Some(process.connection));
    move || {
        let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
        let used_up = || io::Error::other("a confined server cannot; restart the server");
        first.take().ok_or_else(used_up)
    }
}

impl StartedProcess {
    /// Starts a process with one end of a connection as its standard input.
    ///
    /// # Errors
    ///
    /// Fails if the system refuses the connection or the process.
    pub fn start(command: Command) -> Result<StartedProcess> {
        StartedProcess::start_with_output(command, Stdio::null())
    }

    /// Starts a process with one end of a connection as its standard input, and this standard
    /// output.
    ///
    /// # Errors
    ///
    /// Fails if the system refuses the connection or the process.
    pub fn start_with_output(mut command: Command, output: Stdio) -> Result<StartedProcess> {
        let (connection, child_end) =
            UnixStream::pair().context("cannot make a pair of sockets")?;
        command
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(child_end))
            .stdout(output)
            // An interrupt from a terminal drains the server, which needs the process for that time.
            .process_group(0);
        let child = command.spawn()?;
        Ok(StartedProcess { connection, child })
    }
}

/// Order to start a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum StartOrder {
    /// Privileged helper.
    Helper,
    /// Compiler of users' components.
    Compiler,
    /// Process that runs the modules of a user.
    TenantRuntime {
        /// The user.
        uid: u32,
    },
    /// Process that fetches artefacts.
    ArtifactFetcher {
        /// Port of their registries.
        port: u16,
    },
    /// Signer of the audit trail.
    AuditSigner,
    /// Process that goes on with the server.
    Successor,
    /// Web console.
    Console,
    /// Process that replays a recorded call.
    CallReplay,
}

/// Reply to an order. The socket comes with it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum StartReply {
    Started { pid: u32 },
    Failed(String),
}

/// Supervisor's end of the connection.
pub struct StarterSocket(OwnedFd);

impl StarterSocket {
    /// Makes a connection. Returns the supervisor's end, and the one that becomes the server's
    /// standard input.
    pub fn pair() -> io::Result<(StarterSocket, OwnedFd)> {
        let (ours, servers) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        Ok((StarterSocket(ours), servers))
    }

    /// Carries out orders until the server closes its end.
    ///
    /// # Errors
    ///
    /// Fails if the server sends what is no order, or too many orders.
    pub async fn serve(self, start: impl Fn(StartOrder) -> Result<StartedProcess>) -> Result<()> {
        #[expect(
            deprecated,
            reason = "sound for an owned file as here; the replacement is unsafe for other types"
        )]
        let socket = AsyncFd::with_interest(self.0, Interest::READABLE)?;
        let mut ended =
            signal(SignalKind::child()).context("cannot listen to ends of processes")?;
        let mut recent: BTreeMap<StartOrder, Vec<Instant>> = BTreeMap::new();
        let mut children: Vec<Child> = Vec::new();
        loop {
            let mut bytes = [0; DATAGRAM];
            let ready = tokio::select! {
                ready = socket.readable() => Some(ready?),
                _ = ended.recv() => None,
            };
            // Waits for those that have ended.
            children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
            let Some(mut ready) = ready else { continue };
            let received = ready.try_io(|socket| {
                let bytes = bytes.as_mut_slice();
                Ok(rustix::net::recv(socket.get_ref(), bytes, RecvFlags::empty())?.1)
            });
            let count = match received {
                Ok(count) => count.context("cannot receive an order")?,
                Err(_not_ready) => continue,
            };
            if count == 0 {
                return Ok(());
            }
            let order: StartOrder = decode_single(bytes.get(..count).unwrap_or_default(), LIMIT)?;
            let now = Instant::now();
            recent.retain(|_, starts| {
                starts.retain(|start| now.duration_since(*start) < Duration::from_secs(60));
                !starts.is_empty()
            });
            let starts = recent.entry(order).or_default();
            starts.push(now);
            let started = if starts.len() > STARTS_IN_A_MINUTE {
                Err(anyhow::anyhow!(
                    "{STARTS_IN_A_MINUTE} processes were started within a minute"
                ))
            } else {
                start(order)
            };
            let (reply, stream) = match started {
                Ok(StartedProcess { connection, child }) => {
                    let pid = child.id();
                    children.push(child);
                    (StartReply::Started { pid }, Some(connection))
                }
                Err(error) => (StartReply::Failed(format!("{error:#}")), None),
            };
            let descriptor = stream.as_ref().map(AsFd::as_fd);
            send_with_descriptors(socket.get_ref(), &reply, descriptor.as_slice(), LIMIT)
                .context("cannot answer an order")?;
        }
    }
}

/// Server's end of the connection.
#[derive(Clone, Debug)]
pub struct ProcessStarter(Arc<Mutex<OwnedFd>>);

impl ProcessStarter {
    /// Returns the starter at the other end of a socket.
    pub fn new(socket: OwnedFd) -> io::Result<ProcessStarter> {
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(TIMEOUT))?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(TIMEOUT))?;
        Ok(ProcessStarter(Arc::new(Mutex::new(socket))))
    }

    /// Does as [`ProcessStarter::start`], for libraries that start processes by a function.
    pub fn connect(&self, order: StartOrder) -> io::Result<UnixStream> {
        let started = self.start(order).map(|started| started.connection);
        started.map_err(|error| io::Error::other(format!("{error:#}")))
    }

    /// Has a process started. Returns the connection to it. Blocks.
    ///
    /// # Errors
    ///
    /// Fails if the supervisor cannot start it, or does not answer.
    pub fn start(&self, order: StartOrder) -> Result<ConnectedProcess> {
        // One order at a time, because replies have no number.
        let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        send_with_descriptors(&*socket, &order, &[], LIMIT)
            .context("cannot send the order to start a process")?;
        let MessageWithDescriptors {
            message,
            mut descriptors,
        } = receive_with_descriptors(&*socket, LIMIT).context("the supervisor does not answer")?;
        match (message, descriptors.pop()) {
            (StartReply::Started { pid }, Some(stream)) => Ok(ConnectedProcess {
                connection: stream.into(),
                pid,
            }),
            (StartReply::Started { .. }, None) => bail!("the supervisor sent no socket"),
            (StartReply::Failed(why), _) => bail!("{}", crate::plain(&why)),
        }
    }
}

//! Process that goes on with the server of this one: the program file as it is by then, with the arguments of
//! this process.
use crate::{
    service_manager,
    supervisor::{ProcessStarter, StartOrder, StartedProcess},
};
use anyhow::{Context, Result};
use peal_server::admin::SuccessorOrigin;
use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io,
    os::{
        fd::OwnedFd,
        unix::{
            ffi::{OsStrExt, OsStringExt},
            net::UnixStream,
        },
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tokio::{io::AsyncReadExt, sync::oneshot};

/// Option by which a server goes on with the running one.
const CONTINUE: &str = "--continue";

/// Command of the process that goes on with the server of this one.
#[derive(Clone, Debug)]
pub struct SuccessorCommand {
    program: PathBuf,
    arguments: Vec<OsString>,
}

/// End of the name of a program file that was replaced or removed, as the kernel tells it.
const REPLACED: &[u8] = b" (deleted)";

/// Returns the texts of a file of the kernel, each of which ends with a zero.
fn texts(path: &Path) -> io::Result<Vec<OsString>> {
    let bytes = fs::read(path)?;
    let texts = bytes.split(|byte| *byte == 0);
    let texts = texts.filter(|text| !text.is_empty());
    Ok(texts
        .map(|text| OsStr::from_bytes(text).to_owned())
        .collect())
}

impl SuccessorCommand {
    /// Returns the command. Called when this process starts: later its file may have been replaced.
    ///
    /// # Errors
    ///
    /// Fails if the system does not tell the file of this process.
    pub fn of_this_process() -> io::Result<SuccessorCommand> {
        let arguments = std::env::args_os().skip(1);
        Ok(SuccessorCommand {
            program: std::env::current_exe()?,
            arguments: arguments.filter(|argument| argument != CONTINUE).collect(),
        })
    }

    /// Returns the command for the server of another process, with its environment, directory and output. Its
    /// program file may have been replaced.
    ///
    /// # Errors
    ///
    /// Fails if the system does not tell about that process.
    pub fn of_process(pid: u32) -> Result<Command> {
        let about = PathBuf::from(format!("/proc/{pid}"));
        let program = fs::read_link(about.join("exe")).context("cannot find its program")?;
        let program = program.into_os_string().into_vec();
        let program = program.strip_suffix(REPLACED).unwrap_or(&program).to_vec();
        let arguments = texts(&about.join("cmdline")).context("cannot read its arguments")?;
        let arguments = arguments.into_iter().skip(1);
        let mut command = Command::new(OsString::from_vec(program));
        command
            .args(arguments.filter(|argument| argument != CONTINUE))
            .arg(CONTINUE)
            .env_clear()
            .current_dir(about.join("cwd"))
            .stdin(Stdio::null());
        for variable in texts(&about.join("environ")).context("cannot read its environment")? {
            let bytes = variable.as_bytes();
            if let Some(at) = bytes.iter().position(|byte| *byte == b'=') {
                let (name, value) = bytes.split_at(at);
                command.env(
                    OsStr::from_bytes(name),
                    OsStr::from_bytes(value.get(1..).unwrap_or_default()),
                );
            }
        }
        // A socket, such as that of systemd's journal, cannot be opened again.
        let output = |number: u8| {
            File::options()
                .append(true)
                .open(about.join(format!("fd/{number}")))
        };
        command.stdout(output(1).map_or_else(|_| Stdio::null(), Stdio::from));
        command.stderr(output(2).map_or_else(|_| Stdio::inherit(), Stdio::from));
        Ok(command)
    }

    /// Starts the process, with the environment and the output of this one. The connection ends with it.
    ///
    /// # Errors
    ///
    /// Fails if the system refuses the process.
    pub fn start(&self) -> Result<StartedProcess> {
        let (connection, child_end) =
            UnixStream::pair().context("cannot make a pair of sockets")?;
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .arg(CONTINUE)
            .stdin(OwnedFd::from(child_end))
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        Ok(StartedProcess { connection, child })
    }
}

/// Process that the supervisor has started to go on with the server of this one.
pub struct Successor {
    /// Ends with the process.
    connection: tokio::net::UnixStream,
    pid: u32,
    reply: oneshot::Sender<Result<SuccessorOrigin, String>>,
}

impl Successor {
    /// Has the supervisor start the process. `reply` is told when it has the server, or why it has not. Without a
    /// supervisor the requester starts it: a confined process can start none.
    pub async fn start(
        supervisor: Option<ProcessStarter>,
        reply: oneshot::Sender<Result<SuccessorOrigin, String>>,
    ) -> Option<Successor> {
        let Some(supervisor) = supervisor else {
            // The requester may have gone, here and below.
            let _ = reply.send(Ok(SuccessorOrigin::Caller));
            return None;
        };
        // The supervisor answers when it has started the process.
        let start = move || supervisor.start(StartOrder::Successor);
        let started = tokio::task::spawn_blocking(start).await;
        let started = started.map_err(anyhow::Error::from).flatten();
        let connected = started.and_then(|started| {
            started.connection.set_nonblocking(true)?;
            let connection = tokio::net::UnixStream::from_std(started.connection)?;
            Ok((connection, started.pid))
        });
        match connected {
            Ok((connection, pid)) => Some(Successor {
                connection,
                pid,
                reply,
            }),
            Err(error) => {
                let _ = reply.send(Err(crate::error_text(&error)));
                None
            }
        }
    }

    /// Tells the requester and the service manager that the process has the server.
    pub fn succeeded(self) {
        service_manager::notify_main_process(self.pid);
        let _ = self.reply.send(Ok(SuccessorOrigin::Supervisor));
    }
}

/// Waits until a process that was started to go on with the server, if there is one, has ended: it should not before
/// it has the server. Tells the requester.
pub async fn failed(successor: &mut Option<Successor>) {
    let Some(started) = successor else {
        return std::future::pending().await;
    };
    let mut bytes = [0; 1];
    while started
        .connection
        .read(&mut bytes)
        .await
        .is_ok_and(|count| count > 0)
    {}
    if let Some(Successor { pid, reply, .. }) = successor.take() {
        let reason = format!(
            "process {pid} ended before it had the server, which goes on; the log of the server has the reason"
        );
        let _ = reply.send(Err(reason));
    }
}

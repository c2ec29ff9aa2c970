//! The process beside `peal serve` that looks into other processes, as the server itself cannot behind its wall: who the tools are
//! that connect, and whether two connections of one proc come from the same process.
use anyhow::{Context, Result};
use peal_server::ProcessObserver;
use std::{
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    process::{Command, ExitCode, Stdio},
};

/// Starts it, for as long as this process lives.
pub fn start() -> Result<ProcessObserver> {
    let (ours, theirs) = UnixStream::pair().context("cannot make a pair of sockets")?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg("process-observer")
        .env_clear()
        .current_dir("/")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null());
    // Whoever ends the server from a terminal lets those who are connected finish.
    command.process_group(0);
    // It ends when we do, since the socket is closed then; nobody waits for it before.
    command
        .spawn()
        .context("cannot start the process that looks into others")?;
    Ok(ProcessObserver::beside(ours)?)
}

/// Is that process.
pub fn observe() -> Result<ExitCode> {
    peal_confinement::refuse_calls().context("cannot refuse system calls")?;
    let asked = io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .context("its questions come on standard input")?;
    peal_server::observe(asked.into())?;
    Ok(ExitCode::SUCCESS)
}

//! Process observer of `peal serve`: the confined server itself cannot look into other processes.
//! The observer finds the user of a tool's connection, and whether two connections of one proc come
//! from the same process.
use anyhow::{Context, Result};
use peal_confinement::{Confinement, ProcessRole};
use peal_server::ProcessObserver;
use std::{
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    process::{Command, ExitCode, Stdio},
};

/// Starts the observer, which lives as long as this process.
pub fn start() -> Result<ProcessObserver> {
    let (ours, theirs) = UnixStream::pair().context("cannot make a pair of sockets")?;
    // This very program, even if an upgrade has replaced its file.
    let mut command = Command::new("/proc/self/exe");
    command
        .arg("process-observer")
        .env_clear()
        .current_dir("/")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null());
    // An interrupt from a terminal drains the server, which needs the observer for that time.
    command.process_group(0);
    // The child is not waited for: it ends with this process, since its socket is closed then.
    command
        .spawn()
        .context("cannot start the process observer")?;
    Ok(ProcessObserver::beside(ours)?)
}

/// Runs the observer.
pub fn observe() -> Result<ExitCode> {
    Confinement::of(ProcessRole::PrivilegedHelper)
        .enforce()
        .context("cannot confine the process observer")?;
    let asked = io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .context("requests come on standard input")?;
    peal_server::observe(asked.into())?;
    Ok(ExitCode::SUCCESS)
}

//! Privileged helper of `peal serve`: the confined server can neither look into other processes nor
//! act as another user.
use crate::{
    args::HelperArgs,
    supervisor::{ProcessStarter, StartOrder, StartedProcess},
};
use anyhow::{Context, Result};
use peal_config::Config;
use peal_confinement::{Confinement, ProcessRole};
use peal_helper::{HelperRules, PrivilegedHelper};
use std::{
    io,
    os::fd::AsFd,
    process::{Command, ExitCode},
    sync::Mutex,
};

/// Starts the helper of a server that is about to be confined. Without a supervisor it is started now,
/// lives as long as this process, and no second one can be started.
pub fn start(config: &Config, starter: Option<ProcessStarter>) -> Result<PrivilegedHelper> {
    if let Some(starter) = starter {
        let start = move || {
            let started = starter.start(StartOrder::Helper);
            started.map_err(|error| io::Error::other(format!("{error:#}")))
        };
        return Ok(PrivilegedHelper::process(start));
    }
    let server_uid = rustix::process::geteuid().as_raw();
    let first = Mutex::new(Some(spawn(config, server_uid)?.connection));
    let take = move || {
        let mut first = first.lock().map_err(|_| io::ErrorKind::Other)?;
        let used_up = || io::Error::other("a confined server cannot; restart the server");
        first.take().ok_or_else(used_up)
    };
    Ok(PrivilegedHelper::process(take))
}

/// Starts a helper for a server of a user.
pub fn spawn(config: &Config, server_uid: u32) -> Result<StartedProcess> {
    // This very program, even if an upgrade has replaced its file.
    let mut command = Command::new("/proc/self/exe");
    command
        .arg("helper")
        .args(["--server-uid", &server_uid.to_string()]);
    for root in &config.confinement.cleanup_roots {
        command.arg("--cleanup-root").arg(root);
    }
    StartedProcess::start(command).context("cannot start the privileged helper")
}

/// Serves the server at the other end of the standard input.
pub fn help(args: HelperArgs) -> Result<ExitCode> {
    crate::process_setup::forbid_core_files()?;
    Confinement::of(ProcessRole::PrivilegedHelper)
        .enforce()
        .context("cannot confine the privileged helper")?;
    let calls = io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .context("calls come on standard input")?;
    let rules = HelperRules {
        cleanup_roots: Some(args.cleanup_root),
        server_uid: args.server_uid,
    };
    peal_helper::serve(calls.into(), rules)?;
    Ok(ExitCode::SUCCESS)
}

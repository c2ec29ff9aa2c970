//! Privileged helper of `peal serve`: the confined server can neither look into other processes nor
//! act as another user.
use crate::{
    args::HelperArgs,
    confinement::refused_calls,
    process_setup,
    supervisor::{ProcessStarter, StartOrder, StartedProcess, only_start, own_program},
};
use anyhow::{Context, Result};
use peal_config::{Config, Keyword};
use peal_confinement::{Confinement, ProcessRole, RefusedCalls};
use peal_helper::{HelperRules, PrivilegedHelper};
use std::process::ExitCode;

/// Starts the helper of a server that is about to be confined. Without a supervisor it is started now,
/// lives as long as this process, and no second one can be started.
pub fn start(config: &Config, starter: Option<ProcessStarter>) -> Result<PrivilegedHelper> {
    if let Some(starter) = starter {
        let start = move || starter.connect(StartOrder::Helper);
        return Ok(PrivilegedHelper::process(start));
    }
    let server_uid = rustix::process::geteuid().as_raw();
    let only = only_start(spawn(config, server_uid)?);
    Ok(PrivilegedHelper::process(only))
}

/// Starts a helper for a server of a user.
pub fn spawn(config: &Config, server_uid: u32) -> Result<StartedProcess> {
    let mut command = own_program();
    command
        .arg("helper")
        .args(["--server-uid", &server_uid.to_string()])
        .args(["--confinement", config.confinement.mode.name()]);
    for root in &config.confinement.cleanup_roots {
        command.arg("--cleanup-root").arg(root);
    }
    StartedProcess::start(command).context("cannot start the privileged helper")
}

/// Serves the server at the other end of the standard input.
pub fn help(args: HelperArgs) -> Result<ExitCode> {
    process_setup::forbid_core_files()?;
    Confinement {
        // A helper with the rights of root is confined even where the server is not.
        refused: refused_calls(args.confinement).unwrap_or(RefusedCalls::Fail),
        ..Confinement::of(ProcessRole::PrivilegedHelper)
    }
    .enforce()
    .context("cannot confine the privileged helper")?;
    let calls = process_setup::standard_input()?;
    let rules = HelperRules {
        cleanup_roots: Some(args.cleanup_root),
        server_uid: args.server_uid,
    };
    peal_helper::serve(calls.into(), rules)?;
    Ok(ExitCode::SUCCESS)
}

//! Supervisor of `peal serve`, which root runs. It starts the server as a user of its own, and the
//! processes for which that server asks. It has no client and runs no module.
mod account;
mod directories;
mod starter;

pub use account::{ServerAccount, as_owner_of};
pub use directories::unusable_directories;
pub use starter::{ProcessStarter, StartOrder, StartedProcess, only_start, own_program};

use crate::{
    artifact_fetcher, audit_signer::SupervisedSigners, call_replay, compiler,
    confinement::refused_calls, console, helper, process_setup, server_signals::ServerSignals,
    successor::SuccessorCommand, tenant,
};
use anyhow::{Context, Result, bail};
use peal_config::Config;
use peal_confinement::{Confinement, ProcessRole};
use peal_system::tenant_cgroup::TenantCgroups;
use starter::StarterSocket;
use std::{
    ffi::OsString,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::Path,
    process::{ExitCode, Stdio},
};
use tokio::process::{Child, Command};

/// Value of `XDG_CACHE_HOME` of a supervised server, so that compiled code is in [`USUAL_CACHE`].
const CACHE_HOME: &str = "/var/cache";

/// Value of `XDG_CONFIG_HOME` of a supervised server, so that it reads the configuration of root's server.
const CONFIG_HOME: &str = "/etc";

/// Variable in which the service manager names the process that its watchdog watches.
const WATCHDOG_PID: &str = "WATCHDOG_PID";

/// Directory of compiled code of a supervised server, if the configuration names none.
pub const USUAL_CACHE: &str = "/var/cache/peal/compiled";

/// Starts the server of this configuration as the user of `account`, and serves it until it ends.
///
/// # Errors
///
/// Fails if a directory of the configuration is not the user's, or the server cannot be started.
pub fn supervise(config: &Config, account: &ServerAccount, socket: &Path) -> Result<ExitCode> {
    // Before an upgrade replaces the file.
    let successor = SuccessorCommand::of_this_process().context("cannot find this program")?;
    // The processes of users' modules and compilers lower theirs again.
    process_setup::raise_priority(config.server.priority);
    directories::prepare(config, account, socket)?;
    let signers = SupervisedSigners::prepare(config)?;
    if let Some(refused) = refused_calls(config.confinement.mode) {
        let confinement = Confinement {
            refused,
            ..Confinement::of(ProcessRole::Supervisor)
        };
        // What the kernel lacks is reported by the server, which needs more of it.
        confinement
            .enforce()
            .context("cannot confine the supervisor")?;
    }
    // Before any other process is started, so that all are in the group of this one.
    let groups = TenantCgroups::prepare()
        .inspect_err(
            |error| tracing::info!(%error, "processes of users share the limits of the service"),
        )
        .ok();
    let (starter, servers_end) = StarterSocket::pair().context("cannot make a pair of sockets")?;
    let runtime = crate::node::runtime()?;
    runtime.block_on(async {
        let mut signals = ServerSignals::new().context("cannot listen to signals")?;
        let mut server = start_server(account, socket, servers_end)?;
        let start = |order: StartOrder| match order {
            StartOrder::Helper => helper::spawn(config, account.identity.uid),
            StartOrder::Compiler => compiler::spawn(config, Some(account)),
            StartOrder::TenantRuntime { uid } => {
                let started = tenant::spawn(config, account, uid)?;
                if let Some(groups) = &groups {
                    let placed = groups.place(uid, started.child.id(), tenant::shares(config));
                    placed.with_context(|| format!("cannot limit the process of user {uid}"))?;
                }
                Ok(started)
            }
            StartOrder::ArtifactFetcher { port } => {
                artifact_fetcher::spawn(config, Some(account), port)
            }
            StartOrder::AuditSigner => signers.start(config),
            StartOrder::Successor => successor.start(),
            StartOrder::Console => console::spawn(config, Some(account), socket),
            StartOrder::CallReplay => call_replay::spawn(config, Some(account)),
        };
        let serving = starter.serve(start);
        tokio::pin!(serving);
        let mut is_served = true;
        loop {
            tokio::select! {
                status = server.wait() => {
                    let status = status.context("cannot wait for the server")?;
                    return match status.code().and_then(|code| u8::try_from(code).ok()) {
                        Some(code) => Ok(ExitCode::from(code)),
                        None => bail!("the server ended by {status}"),
                    };
                }
                signal = signals.next() => forward(&server, signal.signal()),
                served = &mut serving, if is_served => {
                    is_served = false;
                    if let Err(error) = served {
                        // A server that sends nonsense is not the one that was started.
                        tracing::error!(%error, "server killed: its request was not understood");
                        server.start_kill().context("cannot end the server")?;
                    }
                }
            }
        }
    })
}

/// Checks as the user of `account` that a server of this configuration would start.
///
/// # Errors
///
/// Fails if the process cannot be started.
pub fn check(account: &ServerAccount) -> Result<ExitCode> {
    let status = as_account(account, std::env::args_os().skip(1))
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start a process of user {}", account.name))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Returns the command of a process of this program as the user of `account`, in the environment of a server.
fn as_account(
    account: &ServerAccount,
    arguments: impl Iterator<Item = OsString>,
) -> std::process::Command {
    let mut command = own_program();
    command
        .args(arguments)
        .uid(account.identity.uid)
        .gid(account.identity.gid)
        .env("HOME", &account.home)
        .env("XDG_CACHE_HOME", CACHE_HOME)
        .env("XDG_CONFIG_HOME", CONFIG_HOME)
        .env_remove("XDG_RUNTIME_DIR");
    command
}

/// Starts the server process. Its arguments are those of this process.
fn start_server(account: &ServerAccount, admin_socket: &Path, socket: OwnedFd) -> Result<Child> {
    // The usual socket depends on the user, so that it is passed on.
    let supervised = ["--supervised".into(), admin_socket.into()];
    let mut command = as_account(account, std::env::args_os().skip(1).chain(supervised));
    command
        // The server tells the watchdog about itself.
        .env_remove(WATCHDOG_PID)
        .stdin(socket)
        // An interrupt from a terminal reaches the supervisor, which passes it on.
        .process_group(0);
    let mut command = Command::from(command);
    command
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot start the server as user {}", account.name))
}

fn forward(server: &Child, signal: rustix::process::Signal) {
    let pid = server
        .id()
        .and_then(|pid| i32::try_from(pid).ok())
        .and_then(rustix::process::Pid::from_raw);
    // Without a process id the server has been waited for, so that the id is not another process's.
    if let Some(pid) = pid
        && let Err(error) = rustix::process::kill_process(pid, signal)
    {
        tracing::warn!(%error, ?signal, "signal not passed on to the server");
    }
}

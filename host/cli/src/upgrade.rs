//! `peal upgrade`: a process of the installed release goes on with a running server.
use crate::{
    admin,
    args::{OutputFormat, UpgradeArgs},
    output, serve,
    successor::SuccessorCommand,
    wait_message::WaitMessage,
};
use anyhow::{Context, Result, anyhow, bail};
use peal_server::admin::{AdminReply, AdminRequest, ServerStatus};
use serde::Serialize;
use std::{
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ExitCode},
    thread,
    time::{Duration, Instant},
};

/// Interval at which the new process is asked for its status.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Time in which the new process must answer once it has the server.
const ANSWER_TIME: Duration = Duration::from_secs(60);

/// Result of an upgrade.
#[derive(Debug, Serialize)]
struct UpgradeReport {
    /// Release that ran.
    from: String,
    /// Release that runs.
    to: String,
    /// Process id of the server.
    pid: u32,
    /// Number of registered jobs.
    jobs: u64,
    /// Number of open connections of procs.
    connections: u64,
    /// Time for which requests waited, in milliseconds; none if the new process does not tell.
    paused_ms: Option<u64>,
}

/// Runs `peal upgrade`.
pub fn upgrade(args: UpgradeArgs) -> Result<ExitCode> {
    let UpgradeArgs {
        at,
        dry_run,
        format,
    } = args;
    let socket = admin::socket(at.clone())?;
    let before = status(&socket)?;
    let checking = WaitMessage::new("checking the configuration and its modules ...");
    serve::check_in_other_process(&at)?;
    drop(checking);
    if dry_run.dry_run {
        admin::request_change(at, AdminRequest::Upgrade, dry_run)?;
        output::print(&format!(
            "would have a new process go on with the server of process {}\n",
            before.pid
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    let waiting = WaitMessage::new("the new process takes the server over ...");
    let (reply, _) = admin::request(at, &AdminRequest::Upgrade)?;
    let started = match reply {
        AdminReply::Upgrading => None,
        AdminReply::StartSuccessor => Some(start(before.pid)?),
        reply => return admin::unexpected(&reply),
    };
    let after = next_status(&socket, before.pid, started)?;
    drop(waiting);
    let report = UpgradeReport {
        from: before.version,
        to: after.version,
        pid: after.pid,
        jobs: after.jobs,
        connections: after.connections,
        paused_ms: after.continued.map(|continued| continued.paused_ms),
    };
    if let OutputFormat::Data(form) = format.output {
        output::print(&form.document(&report)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let UpgradeReport { from, to, pid, .. } = &report;
    let jobs = peal_model::counted(report.jobs, "job");
    let connections = peal_model::counted(report.connections, "connection");
    let paused = report.paused_ms.map_or_else(String::new, |paused| {
        format!("; requests waited {paused} ms")
    });
    output::print(&format!(
        "upgraded from {from} to {to}: process {pid} serves {jobs} and {connections}{paused}\n"
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn status(socket: &Path) -> Result<ServerStatus> {
    let mut answers = peal_server::admin::request(socket, &AdminRequest::Status)?;
    match answers.reply()? {
        AdminReply::Status(status) => Ok(status),
        AdminReply::Refused { reason } => bail!("the server refuses: {}", crate::plain(&reason)),
        reply => admin::unexpected(&reply),
    }
}

/// Starts the process that goes on with the server of this process.
fn start(pid: u32) -> Result<Child> {
    let mut command = SuccessorCommand::of_process(pid)
        .with_context(|| format!("cannot start another process as process {pid} was"))?;
    // A terminal does not end the server with this command.
    command.process_group(0);
    let program = command.get_program().to_owned();
    let started = command.spawn();
    started.with_context(|| format!("cannot start {}", Path::new(&program).display()))
}

/// Waits until another process than this one answers at the socket. `started` is that process, if this one has
/// started it.
fn next_status(socket: &Path, before: u32, mut started: Option<Child>) -> Result<ServerStatus> {
    let deadline = Instant::now() + ANSWER_TIME;
    loop {
        if let Some(child) = &mut started
            && let Some(status) = child.try_wait()?
        {
            let pid = child.id();
            bail!(
                "process {pid} ended before it had the server, which goes on ({status}); the log of the server has the reason"
            );
        }
        // Between the two processes nobody listens.
        match status(socket) {
            Ok(status) if status.pid != before => return Ok(status),
            answer if Instant::now() >= deadline => {
                let why = "no new process has the server after";
                // The old process answers, or nobody does.
                let error = answer
                    .err()
                    .unwrap_or_else(|| anyhow!("the old one goes on"));
                return Err(
                    error.context(format!("{why} {ANSWER_TIME:?}; see the log of the server"))
                );
            }
            _ => thread::sleep(LOOK_INTERVAL),
        }
    }
}

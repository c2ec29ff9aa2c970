//! `peal call-replay`: a process of `peal serve` that replays one recorded call for the web console. It runs a
//! component that a user may have written, so that it reaches nothing but the audit trail.
use crate::{
    args::CallReplayArgs,
    confinement::refused_calls,
    process_setup,
    supervisor::{ProcessStarter, ServerAccount, StartOrder, StartedProcess, own_program},
};
use anyhow::{Context, Result, bail};
use peal_audit::{ReplayResult, Replayed, Replayer, TrailSource};
use peal_config::{Config, FuelCount, Keyword, Sandbox};
use peal_confinement::{Confinement, ProcessRole};
use peal_console::{ReplayReport, ReplayVerdict};
use peal_frames::{FrameLimit, MessageStream};
use peal_store::Filter;
use rustix::process::Resource;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    os::unix::{net::UnixStream, process::CommandExt},
    process::ExitCode,
    time::Duration,
};

/// Limit of an order or reply.
const LIMIT: FrameLimit = FrameLimit(64 * 1024);
/// Processor time of a replay, which has to repeat the earlier calls of the instance, in seconds.
const CPU_SECONDS: u64 = 30;
/// Time in which a replay must end.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Memory of a replay, in bytes.
const MEMORY: u64 = 2 << 30;
/// Differences of a call, and characters of each, that are reported.
const MAX_DIFFERENCES: usize = 20;
const MAX_TEXT: usize = 500;

/// Result of an order.
#[derive(Serialize, Deserialize)]
enum ReplayReply {
    Replayed(ReplayReport),
    Failed(String),
}

/// Replays a record of the audit trail in a process of its own. Blocks.
///
/// # Errors
///
/// Fails if the record is no call that can be replayed, or no process can be started.
pub fn replay(config: &Config, starter: Option<&ProcessStarter>, seq: u64) -> Result<ReplayReport> {
    let connection = match starter {
        Some(starter) => starter.start(StartOrder::CallReplay)?.connection,
        None if refused_calls(config.confinement.mode).is_none() => spawn(config, None)?.connection,
        None => bail!(
            "a confined server without a supervisor starts no process for it; `peal audit replay {seq}` replays the call"
        ),
    };
    connection.set_read_timeout(Some(TIMEOUT))?;
    let mut process = MessageStream::new(connection, LIMIT);
    process.send(&seq)?;
    let reply = process.next_message();
    match reply.context("the replay took too long or was ended")? {
        Some(ReplayReply::Replayed(report)) => Ok(report),
        // The process may have been taken over by the component.
        Some(ReplayReply::Failed(reason)) => bail!("{}", crate::plain(&reason)),
        None => bail!("the replay ended without a result: its processor time or memory is bounded"),
    }
}

/// Starts the process, as the user of the server that it serves.
pub fn spawn(config: &Config, account: Option<&ServerAccount>) -> Result<StartedProcess> {
    let trail = config.audit.path.as_ref();
    let trail = trail.context("the configuration has no audit trail")?;
    let trail = std::path::absolute(trail).context("cannot find the audit trail")?;
    let mut command = own_program();
    command.arg("call-replay").arg("--trail").arg(trail);
    command.args(["--confinement", config.confinement.mode.name()]);
    if let Some(account) = account {
        command.uid(account.identity.uid).gid(account.identity.gid);
    }
    StartedProcess::start(command).context("cannot start the process that replays")
}

/// Replays the record that standard input names, and ends.
pub fn work(args: CallReplayArgs) -> Result<ExitCode> {
    process_setup::hide_memory()?;
    process_setup::end_with_parent()?;
    process_setup::lower_priority().context("cannot lower the priority")?;
    for (resource, most) in [(Resource::Cpu, CPU_SECONDS), (Resource::Data, MEMORY)] {
        process_setup::limit(resource, most).context("cannot limit resources")?;
    }
    if let Some(refused) = refused_calls(args.confinement) {
        // SQLite has files of its own beside a database, which come and go.
        let directory = args
            .trail
            .parent()
            .context("the audit trail has no directory")?;
        Confinement {
            refused,
            read: BTreeSet::from([directory.to_owned()]),
            ..Confinement::of(ProcessRole::CallReplay)
        }
        .enforce()
        .context("cannot confine the process that replays")?;
    }
    let orders = process_setup::standard_input()?;
    let mut orders = MessageStream::new(UnixStream::from(orders), LIMIT);
    let Some(seq) = orders.next_message::<u64>()? else {
        return Ok(ExitCode::SUCCESS);
    };
    let reply = match replay_here(&args, seq) {
        Ok(report) => ReplayReply::Replayed(report),
        Err(error) => ReplayReply::Failed(shortened(&crate::error_text(&error))),
    };
    orders.send(&reply)?;
    Ok(ExitCode::SUCCESS)
}

fn replay_here(args: &CallReplayArgs, seq: u64) -> Result<ReplayReport> {
    let source = TrailSource::open(&args.trail)?;
    // The fuel of each call is compared with the recorded one, whatever the site counts.
    let engine = peal_modules::engine_without_cache(&Sandbox {
        fuel: FuelCount::Always,
        ..Sandbox::default()
    })?;
    let wanted = Filter {
        from: Some(seq),
        to: Some(seq),
        ..Filter::default()
    };
    let mut report = None;
    Replayer::new(&source, engine, None).replay(&wanted, |replayed| {
        report = Some(report_of(replayed));
    })?;
    report.with_context(|| format!("record {seq} is no call"))
}

fn report_of(replayed: Replayed) -> ReplayReport {
    let Replayed {
        module,
        was,
        outcome,
        ..
    } = replayed;
    let verdict = match outcome {
        ReplayResult::Same => ReplayVerdict::Same,
        ReplayResult::Differs(differences) => {
            let first = differences.iter().take(MAX_DIFFERENCES);
            ReplayVerdict::Differs(first.map(|of| shortened(&of.to_string())).collect())
        }
        ReplayResult::Not(why) => ReplayVerdict::Not(why.to_owned()),
    };
    ReplayReport {
        module: shortened(&module),
        was: shortened(&was),
        verdict,
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

//! `peal ps`: running jobs, their procs and their resource usage.
mod gather;
mod nodes;
mod print;

pub use gather::{GatheredJob, HostQueries, gather};

use crate::{args::Ps, event, monitor::written, node, tool};
use anyhow::Result;
use print::ProcListFormat;
use std::{
    io::{self, IsTerminal},
    process::ExitCode,
    time::Duration,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{MissedTickBehavior, interval},
};

/// Exit status if there is no such job.
const MISSING: u8 = 1;
/// Minimum interval of `--watch`.
const SHORTEST: Duration = Duration::from_millis(100);

/// Prints the running jobs.
pub fn run(args: Ps) -> Result<ExitCode> {
    if args.nodes.cluster {
        return nodes::run(args);
    }
    node::as_tool(async {
        let Ps {
            server,
            jobs,
            watch,
            every,
            count,
            json,
            nodes: _,
            config: _,
        } = args;
        let tools = tool::attach_to_all(event::tool_settings(server)?).await?;
        let form = match (json, watch) {
            (true, _) => ProcListFormat::Json,
            (false, true) if io::stdout().is_terminal() => ProcListFormat::Redrawn,
            (false, _) => ProcListFormat::Plain,
        };
        let mut missing = Vec::new();
        let show = async {
            let mut turns = interval(every.max(SHORTEST));
            // After a slow answer the server must not get the missed queries at once.
            turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut left = if watch { count } else { Some(1) };
            let mut is_first = true;
            while left != Some(0) {
                turns.tick().await;
                let mut found = Vec::new();
                for tool in &tools {
                    found.extend(gather(&**tool, &jobs).await?);
                }
                let are_there =
                    |nspace: &&_| !found.iter().any(|job: &GatheredJob| job.nspace == **nspace);
                missing = jobs.iter().filter(are_there).cloned().collect();
                let text = print::snapshot(&found, form, is_first)?;
                if !written(&text).await? {
                    break;
                }
                (left, is_first) = (left.map(|left| left - 1), false);
            }
            Ok::<(), anyhow::Error>(())
        };
        let mut signals = (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
        );
        // A signal ends the loop and not the process: a tool that has not finalized counts as lost.
        let shown = tokio::select! {
            shown = show => shown,
            _ = signals.0.recv() => Ok(()),
            _ = signals.1.recv() => Ok(()),
        };
        for tool in &tools {
            tool::leave(tool).await;
        }
        shown?;
        // A watched job may end, or start later, so that its absence is no failure.
        if watch || missing.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        let names: Vec<String> = missing
            .iter()
            .map(|nspace| format!("{:?}", nspace.as_str()))
            .collect();
        crate::print_line(&format!("no job of yours is called {}", names.join(" or ")));
        Ok(ExitCode::from(MISSING))
    })
}

//! `peal ps`: running jobs, their procs and their resource usage.
mod gather;
mod nodes;
mod print;

pub use gather::{GatheredJob, GatheredJobs, HostQueries, gather, gather_without_usage, job_names};
pub use print::{ProcRow, as_json};

use crate::{
    args::Ps,
    event,
    listing::ListSelection,
    monitor::written,
    node,
    tool::{self, AttachedTools, ServerAnswers, ToolAnswer},
};
use anyhow::{Result, bail};
use peal_model::Nspace;
use print::TablePlacement;
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
            format,
            user,
            state,
            order,
            nodes: _,
            config: _,
        } = args;
        let tools = tool::attach_to_all(event::tool_settings(server)?).await?;
        let format = format.output;
        let selection = ListSelection {
            user: user.user,
            states: state.state,
            order: order.sort,
        };
        let order = selection.order.as_ref();
        let is_terminal = io::stdout().is_terminal();
        let mut missing = Vec::new();
        let mut is_complete = true;
        let show = async {
            let mut turns = interval(every.max(SHORTEST));
            // After a slow answer the server must not get the missed queries at once.
            turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut left = if watch { count } else { Some(1) };
            let mut is_first = true;
            while left != Some(0) {
                turns.tick().await;
                let found = from_servers(&tools, &jobs).await?;
                let is_missing =
                    |nspace: &&Nspace| !found.jobs.iter().any(|job| job.nspace == **nspace);
                missing = jobs.iter().filter(is_missing).cloned().collect();
                is_complete = found.is_complete;
                let found = GatheredJobs {
                    jobs: print::selected(found.jobs, &selection),
                    ..found
                };
                let text = match (watch, is_terminal, is_first) {
                    (false, _, _) => print::snapshot(&found, format, order)?,
                    (true, true, _) => {
                        print::update(&found, format, order, TablePlacement::Replacing)?
                    }
                    (true, false, true) => {
                        print::update(&found, format, order, TablePlacement::First)?
                    }
                    (true, false, false) => {
                        print::update(&found, format, order, TablePlacement::Below)?
                    }
                };
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
        tools.leave().await;
        shown?;
        // A watched job may end, or start later, so that its absence is no failure.
        if watch || missing.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        let names: Vec<String> = missing
            .iter()
            .map(|nspace| format!("{:?}", nspace.as_str()))
            .collect();
        if !is_complete {
            bail!("{} not known: a server was left out", names.join(" or "));
        }
        crate::print_line(&format!("no job of yours is called {}", names.join(" or ")));
        Ok(ExitCode::from(MISSING))
    })
}

/// Returns the jobs of servers, with the names of the servers if there are several.
pub async fn from_servers(tools: &AttachedTools, jobs: &[Nspace]) -> Result<GatheredJobs> {
    let answered = tools.ask_each(async |tool| gather(&**tool, jobs).await);
    let ServerAnswers {
        answers,
        is_complete,
    } = answered.await?;
    let of_server = |ToolAnswer { server, answer }: ToolAnswer<Vec<GatheredJob>>| {
        let jobs = answer.into_iter();
        jobs.map(move |job| GatheredJob {
            server: server.clone(),
            ..job
        })
    };
    Ok(GatheredJobs {
        jobs: answers.into_iter().flat_map(of_server).collect(),
        is_complete,
    })
}

//! `peal ctl`: job control by a running server, as a tool.
mod follow;
mod progress;
mod result;
mod status;

use crate::{
    args::{
        ConfirmArgs, CtlAct, CtlCancel, CtlCommand, CtlEnd, CtlOptions, CtlSignal, DryRunArgs,
        OutputFormat,
    },
    confirm::{self, UserConsent},
    event, node, tool,
};
use anyhow::Result;
use peal_client::{Client, Control, ControlRequest, RequestSelector, Tool};
use peal_model::{DataArray, Info, Proc, Value, key, rank};
use progress::Progress;
use result::{CtlResult, CtlStatusWord};
use rustix::process::Signal;
use std::{process::ExitCode, time::Duration};

/// Default time limit of a request.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for requests without a limit.
const NO_TIMEOUT: Duration = Duration::from_secs(365 * 86_400);

/// Request of the command line.
struct PlannedControl {
    control: Control,
    act: CtlAct,
    follow: WaitExtent,
    /// Confirmation; none for what can be undone.
    confirm: Option<ConfirmArgs>,
}

impl PlannedControl {
    /// Creates a request that is complete with the reply.
    fn done(control: Control, act: CtlAct) -> PlannedControl {
        PlannedControl {
            control,
            act,
            follow: WaitExtent::Done,
            confirm: None,
        }
    }
}

/// Runs the command.
pub fn run(command: CtlCommand) -> Result<ExitCode> {
    let waits = |wait| {
        if wait {
            WaitExtent::ToTheEnd
        } else {
            WaitExtent::No
        }
    };
    // Pausing to killing is complete with the reply. The server only accepts the others, which then
    // take their time.
    let planned = match command {
        CtlCommand::Pause(act) => PlannedControl::done(Control::Pause, act),
        CtlCommand::Resume(act) => PlannedControl::done(Control::Resume, act),
        CtlCommand::Signal(CtlSignal {
            signal,
            act,
            confirm,
        }) => PlannedControl {
            confirm: is_end(signal).then_some(confirm),
            ..PlannedControl::done(Control::Signal(signal), act)
        },
        CtlCommand::Terminate(CtlEnd { act, confirm }) => PlannedControl {
            confirm: Some(confirm),
            ..PlannedControl::done(Control::Terminate, act)
        },
        CtlCommand::Kill(CtlEnd { act, confirm }) => PlannedControl {
            confirm: Some(confirm),
            ..PlannedControl::done(Control::Kill, act)
        },
        CtlCommand::Checkpoint(args) => {
            let control = Control::Checkpoint {
                method: args.method(),
                name: args.name,
                timeout: args.completion_timeout,
            };
            PlannedControl {
                follow: waits(args.wait),
                ..PlannedControl::done(control, args.act)
            }
        }
        CtlCommand::Restart(args) => {
            let control = Control::Restart {
                checkpoint: args.checkpoint,
            };
            PlannedControl {
                control,
                act: args.act,
                follow: waits(args.wait),
                confirm: Some(args.confirm),
            }
        }
        CtlCommand::Preempt(args) => {
            let control = Control::Preempt {
                action: args.action,
                grace: args.grace,
            };
            PlannedControl {
                control,
                act: args.act,
                follow: waits(args.wait),
                confirm: Some(args.confirm),
            }
        }
        CtlCommand::Cancel(args) => return node::as_tool(cancel(args)),
        CtlCommand::Status(args) => return node::as_tool(status::status(args)),
    };
    if let (Some(confirm), false) = (planned.confirm, planned.act.dry_run.dry_run) {
        let question = || {
            let targets = planned.act.targets.iter();
            let targets: Vec<Proc> = targets.flat_map(|targets| targets.0.clone()).collect();
            let verb = verb(&planned.control);
            Ok(format!("{verb} {}", described_targets(&targets)))
        };
        if confirm.ask(question)? == UserConsent::Declined {
            return Ok(confirm::report_declined());
        }
    }
    node::as_tool(act_on(planned))
}

/// Returns true for a signal that ends procs as `peal ctl kill` and `terminate` do.
fn is_end(signal: u8) -> bool {
    [Signal::KILL, Signal::TERM]
        .iter()
        .any(|end| end.as_raw() == i32::from(signal))
}

/// Action after the server's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WaitExtent {
    /// None: the server answers when the request is complete.
    Done,
    /// None, although the server has only accepted the request.
    No,
    /// The request is polled until it has ended.
    ToTheEnd,
}

/// Returns the word for an action in messages.
fn verb(control: &Control) -> &'static str {
    match control {
        Control::Pause => "pause",
        Control::Resume => "resume",
        Control::Signal(_) => "signal",
        Control::Terminate => "terminate",
        Control::Kill => "kill",
        Control::Checkpoint { .. } => "checkpoint",
        Control::Restart { .. } => "restart",
        Control::Preempt { .. } => "preempt",
        Control::Cancel(_) => "cancel",
        Control::Provision { .. } => "provision",
        Control::Preemptible | Control::CheckpointMethods(_) => "declare",
        Control::Cleanup(_) => "clean up",
    }
}

async fn act_on(planned: PlannedControl) -> Result<ExitCode> {
    let PlannedControl {
        control,
        act,
        follow,
        confirm: _,
    } = planned;
    let CtlAct {
        targets,
        id,
        mail_to,
        directives: mut more,
        options,
        format,
        dry_run,
    } = act;
    let is_dry = dry_run.dry_run;
    let targets: Vec<Proc> = targets.into_iter().flat_map(|targets| targets.0).collect();
    // A request that is only accepted can be polled by its id alone.
    let id = id.or_else(|| (follow != WaitExtent::Done && !is_dry).then(|| node::unique("ctl")));
    let what = verb(&control);
    more.extend((!mail_to.is_empty()).then(|| mail(&mail_to)));
    let request = ControlRequest {
        control,
        id: id.clone(),
        other_directives: more,
    };
    let tool_request = ToolRequest::begin(options, follow).await?;
    let progress = Progress::default();
    progress.show(format!("{what} {}", described_targets(&targets)));
    let work = async {
        let client = &tool_request.client;
        if is_dry {
            let checked = client.check_control(&targets, request).await;
            return checked.map(CtlResult::checked).or_else(CtlResult::refused);
        }
        let outcome = match client.control(&targets, request).await {
            Ok(result) if follow == WaitExtent::Done => CtlResult::done(result),
            Ok(result) => CtlResult::accepted(result),
            Err(error) => CtlResult::refused(error)?,
        };
        match (&id, follow, outcome.end) {
            (Some(id), WaitExtent::ToTheEnd, CtlStatusWord::Accepted) => {
                follow::to_the_end(&tool_request.client, id, &progress).await
            }
            _ => Ok(outcome),
        }
    };
    let outcome = tool_request
        .wait(&progress, work)
        .await
        .unwrap_or_else(|| Ok(CtlResult::late()));
    tool_request.leave().await;
    outcome?.print(what, id.as_deref(), format.output)
}

async fn cancel(args: CtlCancel) -> Result<ExitCode> {
    let CtlCancel {
        ids,
        all,
        options,
        format,
        dry_run,
    } = args;
    let which: Vec<RequestSelector> = if all {
        vec![RequestSelector::All]
    } else {
        ids.into_iter().map(RequestSelector::Named).collect()
    };
    let tool_request = ToolRequest::begin(options, WaitExtent::Done).await?;
    let ended = cancel_each(&tool_request, which, format.output, dry_run).await;
    tool_request.leave().await;
    ended
}

async fn cancel_each(
    tool_request: &ToolRequest,
    which: Vec<RequestSelector>,
    format: OutputFormat,
    dry_run: DryRunArgs,
) -> Result<ExitCode> {
    let progress = Progress::default();
    let mut ended = ExitCode::SUCCESS;
    for which in which {
        let id = if let RequestSelector::Named(id) = &which {
            Some(id.clone())
        } else {
            None
        };
        progress.show(format!("cancel {}", id.as_deref().unwrap_or("all")));
        let work = async {
            let client = &tool_request.client;
            let cancel = Control::Cancel(which);
            if dry_run.dry_run {
                let checked = client.check_control(&[], cancel).await;
                return checked.map(CtlResult::checked).or_else(CtlResult::refused);
            }
            let answered = client.control(&[], cancel).await;
            answered.map(CtlResult::done).or_else(CtlResult::refused)
        };
        let outcome = tool_request
            .wait(&progress, work)
            .await
            .unwrap_or_else(|| Ok(CtlResult::late()))?;
        let one = outcome.print("cancel", id.as_deref(), format)?;
        // A later success must not hide an earlier failure.
        ended = if one == ExitCode::SUCCESS { ended } else { one };
    }
    Ok(ended)
}

/// Returns the directive that sends mail to these addresses.
fn mail(to: &[String]) -> Info {
    let address = Info::new(key::PMIX_LOG_EMAIL_ADDR, Value::string(&to.join(",")));
    Info::new(
        key::PMIX_LOG_EMAIL,
        Value::DataArray(DataArray::infos([address])),
    )
}

/// Describes the targets in few words.
fn described_targets(targets: &[Proc]) -> String {
    match targets {
        [] => String::new(),
        [one] if one.rank == rank::PMIX_RANK_WILDCARD => one.nspace.to_string(),
        [one] => one.to_string(),
        [first, others @ ..] => format!("{first} and {} more", others.len()),
    }
}

/// Connected tool, and the time limit of its request.
struct ToolRequest {
    tool: Tool,
    /// Client of the tool without a limit of its own.
    client: Client,
    limit: Duration,
}

impl ToolRequest {
    async fn begin(options: CtlOptions, follow: WaitExtent) -> Result<ToolRequest> {
        let usual = if follow == WaitExtent::ToTheEnd {
            NO_TIMEOUT
        } else {
            DEFAULT_TIMEOUT
        };
        let tool = tool::attach(event::tool_settings(options.server)?).await?;
        Ok(ToolRequest {
            // One limit covers the request and all its polls; `wait` applies it.
            client: tool.within(NO_TIMEOUT),
            tool,
            limit: options.timeout.unwrap_or(usual),
        })
    }

    /// Waits for a future and shows the progress meanwhile; `None` at the time limit.
    async fn wait<T>(&self, progress: &Progress, work: impl Future<Output = T>) -> Option<T> {
        progress
            .during(tokio::time::timeout(self.limit, work))
            .await
            .ok()
    }

    async fn leave(self) {
        tool::leave(&self.tool).await;
    }
}

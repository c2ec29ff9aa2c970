//! `peal ctl`: has a running server control procs, as a tool.
mod follow;
mod progress;
mod result;
mod status;

use crate::{
    args::{CtlAct, CtlAsk, CtlCancel, CtlCommand, CtlSignal},
    event, node, tool,
};
use anyhow::Result;
use peal_client::{Client, Control, ControlRequest, RequestSelector, Tool};
use peal_model::{DataArray, Info, Proc, Value, key, rank};
use progress::Progress;
use result::{CtlResult, CtlStatusWord};
use std::{process::ExitCode, time::Duration};

/// How long a server may take that was not given another time.
const USUAL: Duration = Duration::from_secs(60);
/// Longer than anybody waits: for those who wait as long as it takes.
const FOREVER: Duration = Duration::from_secs(365 * 86_400);
/// How long a server may take to let a tool go.
const LEAVE: Duration = Duration::from_secs(2);

/// Does what is asked.
pub fn run(command: CtlCommand) -> Result<ExitCode> {
    let waits = |wait| if wait { Follow::ToTheEnd } else { Follow::No };
    let (control, act, follow) = match command {
        CtlCommand::Pause(act) => (Control::Pause, act, Follow::Done),
        CtlCommand::Resume(act) => (Control::Resume, act, Follow::Done),
        CtlCommand::Signal(CtlSignal { signal, act }) => {
            (Control::Signal(signal), act, Follow::Done)
        }
        CtlCommand::Terminate(act) => (Control::Terminate, act, Follow::Done),
        CtlCommand::Kill(act) => (Control::Kill, act, Follow::Done),
        CtlCommand::Checkpoint(args) => {
            let (method, follow) = (args.method(), waits(args.wait));
            (
                Control::Checkpoint {
                    name: args.name,
                    method,
                    timeout: args.completion_timeout,
                },
                args.act,
                follow,
            )
        }
        CtlCommand::Restart(args) => (
            Control::Restart {
                checkpoint: args.checkpoint,
            },
            args.act,
            waits(args.wait),
        ),
        CtlCommand::Preempt(args) => (
            Control::Preempt {
                action: args.action,
                grace: args.grace,
            },
            args.act,
            waits(args.wait),
        ),
        CtlCommand::Cancel(args) => return node::as_tool(cancel(args)),
        CtlCommand::Status(args) => return node::as_tool(status::status(args)),
    };
    node::as_tool(act_on(control, act, follow))
}

/// What follows the server's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Follow {
    /// Nothing: it is answered when it is done.
    Done,
    /// Nothing, though it was only accepted.
    No,
    /// It is asked about until it has ended.
    ToTheEnd,
}

/// What a request is called among people.
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

async fn act_on(control: Control, act: CtlAct, follow: Follow) -> Result<ExitCode> {
    let CtlAct {
        targets,
        id,
        mail_to,
        directives: mut more,
        ask,
    } = act;
    let targets: Vec<Proc> = targets.into_iter().flat_map(|targets| targets.0).collect();
    // What is not done when it is answered can only be asked about by a name.
    let id = id.or_else(|| (follow != Follow::Done).then(|| node::unique("ctl")));
    let (what, json) = (verb(&control), ask.json);
    more.extend((!mail_to.is_empty()).then(|| mail(&mail_to)));
    let request = ControlRequest {
        control,
        id: id.clone(),
        more,
    };
    let asking = Asking::begin(ask, follow).await?;
    let progress = Progress::default();
    progress.say(format!("{what} {}", whom(&targets)));
    let work = async {
        let outcome = match asking.client.control(&targets, request).await {
            Ok(told) if follow == Follow::Done => CtlResult::done(told),
            Ok(told) => CtlResult::accepted(told),
            Err(error) => CtlResult::refused(error)?,
        };
        match (&id, follow, outcome.end) {
            (Some(id), Follow::ToTheEnd, CtlStatusWord::Accepted) => {
                follow::to_the_end(&asking.client, id, &progress).await
            }
            _ => Ok(outcome),
        }
    };
    let outcome = asking
        .wait(&progress, work)
        .await
        .unwrap_or_else(|| Ok(CtlResult::late()))?;
    asking.leave().await;
    outcome.print(what, id.as_deref(), json)
}

async fn cancel(args: CtlCancel) -> Result<ExitCode> {
    let CtlCancel { ids, all, ask } = args;
    let which: Vec<RequestSelector> = if all {
        vec![RequestSelector::All]
    } else {
        ids.into_iter().map(RequestSelector::Named).collect()
    };
    let json = ask.json;
    let asking = Asking::begin(ask, Follow::Done).await?;
    let (progress, mut ended) = (Progress::default(), ExitCode::SUCCESS);
    for which in which {
        let id = if let RequestSelector::Named(id) = &which {
            Some(id.clone())
        } else {
            None
        };
        progress.say(format!("cancel {}", id.as_deref().unwrap_or("all")));
        let work = async {
            let answered = asking.client.control(&[], Control::Cancel(which)).await;
            answered.map(CtlResult::done).or_else(CtlResult::refused)
        };
        let outcome = asking
            .wait(&progress, work)
            .await
            .unwrap_or_else(|| Ok(CtlResult::late()))?;
        let one = outcome.print("cancel", id.as_deref(), json)?;
        ended = if one == ExitCode::SUCCESS { ended } else { one };
    }
    asking.leave().await;
    Ok(ended)
}

/// Has mail sent to these.
fn mail(to: &[String]) -> Info {
    let address = Info::new(key::PMIX_LOG_EMAIL_ADDR, Value::string(&to.join(",")));
    Info::new(
        key::PMIX_LOG_EMAIL,
        Value::DataArray(DataArray::infos([address])),
    )
}

/// Whom it is about, in as few words as may be.
fn whom(targets: &[Proc]) -> String {
    match targets {
        [] => String::new(),
        [one] if one.rank == rank::PMIX_RANK_WILDCARD => one.nspace.to_string(),
        [one] => one.to_string(),
        [first, others @ ..] => format!("{first} and {} more", others.len()),
    }
}

/// A tool that asks, and how long that may take.
struct Asking {
    tool: Tool,
    /// The tool, whose calls take as long as they take.
    client: Client,
    limit: Duration,
}

impl Asking {
    async fn begin(ask: CtlAsk, follow: Follow) -> Result<Asking> {
        let usual = if follow == Follow::ToTheEnd {
            FOREVER
        } else {
            USUAL
        };
        let tool = tool::attach(event::tool_settings(ask.server)?).await?;
        Ok(Asking {
            client: tool.within(FOREVER),
            tool,
            limit: ask.timeout.unwrap_or(usual),
        })
    }

    /// Waits for this, and shows that; nothing if the time is over.
    async fn wait<T>(&self, progress: &Progress, work: impl Future<Output = T>) -> Option<T> {
        progress
            .during(tokio::time::timeout(self.limit, work))
            .await
            .ok()
    }

    /// What was asked for has been answered or not: whether the server hears that we go changes nothing.
    async fn leave(self) {
        let _ = self.tool.within(LEAVE).finalize().await;
    }
}

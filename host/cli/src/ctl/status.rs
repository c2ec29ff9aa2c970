//! `peal ctl status`: state of requests.
use super::{
    ToolRequest, WaitExtent, follow,
    progress::Progress,
    result::{CtlResult, PrintedProc},
};
use crate::{
    args::{CtlStatus, OutputFormat},
    listing::{ListColumn, ListItem, ListSelection, listed, names},
    output, units,
};
use anyhow::Result;
use peal_client::{ControlState, ControlStatus, ProcOutcome};
use serde::Serialize;
use std::process::ExitCode;

/// Exit status if a request is not kept or has not ended well.
const NOT_WELL: u8 = 1;

/// Request for programs.
#[derive(Serialize)]
struct PrintedStatus<'a> {
    id: &'a str,
    state: &'static str,
    action: &'a str,
    reasons: &'a [String],
    procs: Vec<PrintedProc<'a>>,
}

/// Prints the state of requests.
pub async fn status(args: CtlStatus) -> Result<ExitCode> {
    let CtlStatus {
        ids,
        wait,
        options,
        format,
        state,
        order,
    } = args;
    let selection = ListSelection {
        states: state.state,
        order: order.sort,
        ..ListSelection::default()
    };
    let tool_request = ToolRequest::begin(
        options,
        if wait {
            WaitExtent::ToTheEnd
        } else {
            WaitExtent::No
        },
    )
    .await?;
    let progress = Progress::default();
    progress.show("status".to_owned());
    let work = async {
        if wait {
            follow::all_to_the_end(&tool_request.client, &ids, &progress).await
        } else {
            follow::query_requests(&tool_request.client, &ids).await
        }
    };
    let Some(kept) = tool_request.wait(&progress, work).await else {
        tool_request.leave().await;
        return CtlResult::late().print("status", None, format.output);
    };
    let kept = kept?;
    tool_request.leave().await;
    let missing: Vec<&String> = ids
        .iter()
        .filter(|id| kept.iter().all(|status| status.id != **id))
        .collect();
    let failed = kept
        .iter()
        .any(|status| status.state.is_final() && status.state != ControlState::Done);
    let kept = kept.into_iter();
    let mut kept: Vec<ControlStatus> = kept
        .filter(|status| selection.has_state(status.state.name()))
        .collect();
    selection.sort(&mut kept);
    match format.output {
        OutputFormat::Data(form) => {
            let kept: Vec<PrintedStatus<'_>> = kept.iter().map(printed).collect();
            output::print(&form.document(&kept)?)?;
        }
        OutputFormat::Name => output::print(&names(kept.iter().map(|status| &status.id)))?,
        _ if kept.is_empty() => {}
        format => output::print(&lines(&kept, format))?,
    }
    for id in &missing {
        crate::print_line(&format!("the server keeps no request called {id:?}"));
    }
    // Without --wait the question is the state, so that a failed request is a successful answer.
    Ok(if !missing.is_empty() || wait && failed {
        ExitCode::from(NOT_WELL)
    } else {
        ExitCode::SUCCESS
    })
}

fn printed(status: &ControlStatus) -> PrintedStatus<'_> {
    let ControlStatus {
        id,
        state,
        action,
        reasons,
        outcomes,
    } = status;
    PrintedStatus {
        id,
        state: state.name(),
        action,
        reasons,
        procs: outcomes.iter().map(PrintedProc::from).collect(),
    }
}

impl ListItem for ControlStatus {
    const COLUMNS: &'static [ListColumn<ControlStatus>] = &[
        ListColumn::<ControlStatus>::text("request", |request| request.id.clone()),
        ListColumn::<ControlStatus>::text("state", |request| request.state.name().to_owned()),
        ListColumn::<ControlStatus>::text("action", |request| request.action.clone()),
        ListColumn::<ControlStatus>::number(
            "procs",
            |request| Some(request.outcomes.len() as f64),
            units::count,
        )
        .wide(),
        ListColumn::<ControlStatus>::text("reason", |request| request.reasons.join("; ")),
    ];

    const STATES: &'static [&'static str] = &[
        "accepted",
        "running",
        "done",
        "failed",
        "cancelled",
        "denied",
    ];
}

/// Returns a table with a line for each request, and below it a line for each proc for which one
/// failed.
fn lines(kept: &[ControlStatus], format: OutputFormat) -> String {
    let mut lines = listed(kept, format);
    for ControlStatus { id, outcomes, .. } in kept {
        for ProcOutcome {
            proc,
            status,
            reasons,
        } in outcomes
            .iter()
            .filter(|outcome| !outcome.status.is_success())
        {
            let reasons = crate::plain(&reasons.join("; "));
            lines += &format!(
                "{}: not to {proc}: {reasons} ({status})\n",
                crate::plain(id)
            );
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{Nspace, Proc, Rank, code};

    #[test]
    fn a_line_for_each_request_and_for_each_proc_that_it_failed() {
        let proc = |rank| Proc::new(Nspace::new("solver").unwrap(), Rank(rank));
        let outcome = |rank, status| ProcOutcome {
            proc: proc(rank),
            status,
            reasons: vec!["it has\nended".to_owned()],
        };
        let status = ControlStatus {
            id: "night".to_owned(),
            state: ControlState::Failed,
            action: "checkpoint \"n.1\"".to_owned(),
            reasons: vec!["one was late".to_owned()],
            outcomes: vec![
                outcome(0, code::PMIX_SUCCESS),
                outcome(1, code::PMIX_ERR_NOT_FOUND),
            ],
        };
        let lines = lines(&[status], OutputFormat::Text);
        let expected = "\
request  state   action            reason
night    failed  checkpoint \"n.1\"  one was late
night: not to solver:1: it has\\nended (PMIX_ERR_NOT_FOUND (-46))
";
        assert_eq!(lines, expected);
    }
}

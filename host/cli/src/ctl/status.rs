//! `peal ctl status`: state of requests.
use super::{
    ToolRequest, WaitExtent, follow,
    progress::Progress,
    result::{CtlResult, PrintedProc},
};
use crate::{
    args::CtlStatus,
    table::{Side, table},
};
use anyhow::Result;
use peal_client::{ControlState, ControlStatus, ProcOutcome};
use serde::Serialize;
use std::{io::Write, process::ExitCode};

/// Exit status if a request is not kept or has not ended well.
const NOT_WELL: u8 = 1;

/// Request in the form of `--json`.
#[derive(Serialize)]
struct StatusJson<'a> {
    id: &'a str,
    state: &'static str,
    action: &'a str,
    reasons: &'a [String],
    procs: Vec<PrintedProc<'a>>,
}

/// Prints the state of requests.
pub async fn status(args: CtlStatus) -> Result<ExitCode> {
    let CtlStatus { ids, wait, options } = args;
    let json = options.json;
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
        return CtlResult::late().print("status", None, false);
    };
    let kept = kept?;
    tool_request.leave().await;
    let mut out = crate::output::stdout();
    if json {
        serde_json::to_writer_pretty(&mut out, &kept.iter().map(printed).collect::<Vec<_>>())?;
        writeln!(out)?;
    } else if !kept.is_empty() {
        write!(out, "{}", lines(&kept))?;
    }
    let missing = ids
        .iter()
        .filter(|id| kept.iter().all(|status| status.id != **id));
    let missing = missing
        .map(|id| crate::print_line(&format!("the server keeps no request called {id:?}")))
        .count();
    let failed = kept
        .iter()
        .any(|status| status.state.is_final() && status.state != ControlState::Done);
    // Without --wait the question is the state, so that a failed request is a successful answer.
    Ok(if missing > 0 || wait && failed {
        ExitCode::from(NOT_WELL)
    } else {
        ExitCode::SUCCESS
    })
}

fn printed(status: &ControlStatus) -> StatusJson<'_> {
    let ControlStatus {
        id,
        state,
        action,
        reasons,
        outcomes,
    } = status;
    StatusJson {
        id,
        state: state.name(),
        action,
        reasons,
        procs: outcomes.iter().map(PrintedProc::from).collect(),
    }
}

/// Returns a table with a line for each request, and below it a line for each proc for which one
/// failed.
fn lines(kept: &[ControlStatus]) -> String {
    let rows: Vec<[String; 4]> = kept
        .iter()
        .map(|status| {
            let reasons = status.reasons.join("; ");
            [
                status.id.clone(),
                status.state.name().to_owned(),
                status.action.clone(),
                reasons,
            ]
        })
        .collect();
    let head = ["request", "state", "action", "reason"].map(|name| (name, Side::Left));
    let mut lines = table(head, &rows);
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
        let lines = lines(&[status]);
        let expected = "\
request  state   action            reason
night    failed  checkpoint \"n.1\"  one was late
night: not to solver:1: it has\\nended (PMIX_ERR_NOT_FOUND (-46))
";
        assert_eq!(lines, expected);
    }
}

//! Result of a request: as lines for people, as JSON, and as an exit status.
use crate::{args::OutputFormat, output};
use anyhow::Result;
use peal_client::{
    ClientError, ControlState, ControlStatus, JobControlResult, ProcOutcome, reasons,
};
use peal_model::{Status, code};
use peal_server::admin::WatchedStatus;
use serde::Serialize;
use std::process::ExitCode;

/// Exit status of a request that was refused, failed for some procs or did not end well.
const NOT_DONE: u8 = 1;
/// Exit status at the time limit (as `timeout` has it).
const LATE: u8 = 124;

/// Result in one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CtlStatusWord {
    /// Complete for all procs.
    Done,
    /// Accepted, not complete.
    Accepted,
    /// Checked and not carried out.
    Checked,
    /// Failed for some procs.
    Partly,
    /// Refused, or failed for all procs.
    Refused,
    /// No answer within the time limit.
    Late,
    /// Accepted, and ended in this state.
    Ended(ControlState),
}

impl CtlStatusWord {
    fn name(self) -> &'static str {
        match self {
            CtlStatusWord::Done => "done",
            CtlStatusWord::Accepted => "accepted",
            CtlStatusWord::Checked => "checked",
            CtlStatusWord::Partly => "partly",
            CtlStatusWord::Refused => "refused",
            CtlStatusWord::Late => "late",
            CtlStatusWord::Ended(state) => state.name(),
        }
    }

    fn exit_code(self) -> ExitCode {
        match self {
            CtlStatusWord::Done
            | CtlStatusWord::Accepted
            | CtlStatusWord::Checked
            | CtlStatusWord::Ended(ControlState::Done) => ExitCode::SUCCESS,
            CtlStatusWord::Late => ExitCode::from(LATE),
            CtlStatusWord::Partly | CtlStatusWord::Refused | CtlStatusWord::Ended(_) => {
                ExitCode::from(NOT_DONE)
            }
        }
    }
}

/// Result of a request.
#[derive(Debug)]
pub struct CtlResult {
    pub end: CtlStatusWord,
    status: Option<Status>,
    reasons: Vec<String>,
    /// Procs for which it failed.
    not_done: Vec<ProcOutcome>,
    /// Requests that it did not cancel.
    not_cancelled: Vec<ControlStatus>,
    /// Procs, or names of requests, that a checked request would reach; none for one that was made.
    reached: Option<Vec<String>>,
}

/// Result for programs.
#[derive(Serialize)]
struct PrintedResult<'a> {
    request: &'a str,
    id: Option<&'a str>,
    end: &'static str,
    status: Option<WatchedStatus>,
    reasons: &'a [String],
    not_done: Vec<PrintedProc<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_cancelled: Vec<PrintedRequest<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reached: Option<&'a [String]>,
}

/// Request that was not cancelled, for programs.
#[derive(Serialize)]
struct PrintedRequest<'a> {
    id: &'a str,
    action: &'a str,
    reasons: &'a [String],
}

impl<'a> From<&'a ControlStatus> for PrintedRequest<'a> {
    fn from(request: &'a ControlStatus) -> PrintedRequest<'a> {
        PrintedRequest {
            id: &request.id,
            action: &request.action,
            reasons: &request.reasons,
        }
    }
}

/// Proc for which the request failed, for programs.
#[derive(Serialize)]
pub struct PrintedProc<'a> {
    proc: String,
    status: WatchedStatus,
    reasons: &'a [String],
}

impl<'a> From<&'a ProcOutcome> for PrintedProc<'a> {
    fn from(outcome: &'a ProcOutcome) -> PrintedProc<'a> {
        let ProcOutcome {
            proc,
            status,
            reasons,
        } = outcome;
        PrintedProc {
            proc: proc.to_string(),
            status: WatchedStatus::from(*status),
            reasons,
        }
    }
}

impl CtlResult {
    /// Creates the result of a request that was answered when complete.
    pub fn done(result: JobControlResult) -> CtlResult {
        let JobControlResult {
            not_done,
            not_cancelled,
            infos,
        } = result;
        let end = if not_done.is_empty() && not_cancelled.is_empty() {
            CtlStatusWord::Done
        } else {
            CtlStatusWord::Partly
        };
        CtlResult {
            end,
            status: None,
            reasons: reasons(&infos),
            not_done,
            not_cancelled,
            reached: None,
        }
    }

    /// Creates the result of a request that was only checked.
    pub fn checked(result: JobControlResult) -> CtlResult {
        let procs = result.reached();
        let procs = procs.iter().map(ToString::to_string);
        let reached = procs.chain(result.reached_names()).collect();
        let done = CtlResult::done(result);
        CtlResult {
            reached: Some(reached),
            end: match done.end {
                CtlStatusWord::Done => CtlStatusWord::Checked,
                end => end,
            },
            ..done
        }
    }

    /// Creates the result of a request that was answered when accepted.
    pub fn accepted(result: JobControlResult) -> CtlResult {
        CtlResult {
            end: CtlStatusWord::Accepted,
            ..CtlResult::done(result)
        }
    }

    /// Creates the result of a refused request; other errors are returned.
    pub fn refused(error: ClientError) -> Result<CtlResult> {
        match error {
            ClientError::Refused { status, infos, .. } => Ok(CtlResult {
                end: CtlStatusWord::Refused,
                status: Some(status),
                reasons: reasons(&infos),
                not_done: ProcOutcome::parse_outcomes(&infos),
                not_cancelled: ControlStatus::not_cancelled(&infos),
                reached: None,
            }),
            error => Err(error.into()),
        }
    }

    /// Creates the result of an accepted request that has ended.
    pub fn ended(status: ControlStatus) -> CtlResult {
        let ControlStatus {
            state,
            reasons,
            outcomes,
            ..
        } = status;
        let not_done = outcomes
            .into_iter()
            .filter(|outcome| !outcome.status.is_success())
            .collect();
        CtlResult {
            end: CtlStatusWord::Ended(state),
            status: None,
            reasons,
            not_done,
            not_cancelled: Vec::new(),
            reached: None,
        }
    }

    /// Creates the result of a request without an answer in time.
    pub fn late() -> CtlResult {
        CtlResult {
            end: CtlStatusWord::Late,
            status: None,
            reasons: Vec::new(),
            not_done: Vec::new(),
            not_cancelled: Vec::new(),
            reached: None,
        }
    }

    /// Prints the result: successes to standard output, failures to standard error.
    pub fn print(&self, request: &str, id: Option<&str>, format: OutputFormat) -> Result<ExitCode> {
        if let OutputFormat::Data(form) = format {
            let not_done = self.not_done.iter().map(PrintedProc::from).collect();
            let end = self.end.name();
            let status = self.status.map(WatchedStatus::from);
            let not_cancelled = self
                .not_cancelled
                .iter()
                .map(PrintedRequest::from)
                .collect();
            let printed = PrintedResult {
                request,
                id,
                end,
                status,
                reasons: &self.reasons,
                not_done,
                not_cancelled,
                reached: self.reached.as_deref(),
            };
            output::print(&form.record(&printed)?)?;
        } else if let Some(reached) = &self.reached {
            let reached = match reached.as_slice() {
                [] => "nothing".to_owned(),
                names => crate::plain(&names.join(", ")),
            };
            output::print(&format!("would {request} {reached}\n"))?;
        } else if let (Some(id), CtlStatusWord::Accepted | CtlStatusWord::Ended(_)) = (id, self.end)
        {
            output::print(&format!("{} {}\n", crate::plain(id), self.end.name()))?;
        }
        self.complain(request);
        Ok(self.end.exit_code())
    }

    fn complain(&self, request: &str) {
        for ProcOutcome {
            proc,
            status,
            reasons,
        } in &self.not_done
        {
            crate::print_line(&format!(
                "{request} of {proc} failed: {}",
                reason_text(reasons, *status)
            ));
        }
        for ControlStatus {
            id,
            action,
            reasons,
            ..
        } in &self.not_cancelled
        {
            let id = crate::plain(id);
            let action = crate::plain(action);
            crate::print_line(&format!(
                "{request} of {id} ({action}) failed: {}",
                joined(reasons)
            ));
        }
        let text = match self.end {
            // Each failure of a partial success was printed above.
            CtlStatusWord::Done
            | CtlStatusWord::Accepted
            | CtlStatusWord::Checked
            | CtlStatusWord::Partly
            | CtlStatusWord::Ended(ControlState::Done) => return,
            // It failed for all procs, and the reason of each was printed.
            CtlStatusWord::Refused if self.reasons.is_empty() && !self.not_done.is_empty() => {
                return;
            }
            CtlStatusWord::Refused if !self.not_cancelled.is_empty() => return,
            CtlStatusWord::Late => {
                format!("{request} was not answered in time; it may still happen")
            }
            CtlStatusWord::Refused => {
                format!(
                    "{request} is refused: {}",
                    reason_text(&self.reasons, self.status.unwrap_or(code::PMIX_ERROR))
                )
            }
            CtlStatusWord::Ended(state) if self.reasons.is_empty() => {
                format!("{request} ended as {state}")
            }
            CtlStatusWord::Ended(state) => {
                format!("{request} ended as {state}: {}", joined(&self.reasons))
            }
        };
        crate::print_line(&text);
    }
}

fn reason_text(reasons: &[String], status: Status) -> String {
    let words = if reasons.is_empty() {
        meaning(status).to_owned()
    } else {
        joined(reasons)
    };
    format!("{words} ({status})")
}

/// Joins reasons. They come from modules and servers, so they are escaped.
fn joined(reasons: &[String]) -> String {
    crate::plain(&reasons.join("; "))
}

fn meaning(status: Status) -> &'static str {
    match status {
        code::PMIX_ERR_NO_PERMISSIONS => "it is not allowed",
        code::PMIX_ERR_NOT_FOUND => "the server knows none of these",
        code::PMIX_ERR_NOT_SUPPORTED => "this server cannot do that",
        code::PMIX_ERR_BAD_PARAM => "the request makes no sense to the server",
        _ => crate::REASON_IN_TRACE,
    }
}

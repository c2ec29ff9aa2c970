//! How a request went: as lines for people, as JSON, as an exit status.
use anyhow::Result;
use peal_client::{ClientError, ControlState, ControlStatus, Controlled, ProcOutcome, reasons};
use peal_model::{Status, code};
use peal_server::admin::SeenStatus;
use serde::Serialize;
use std::{io::Write, process::ExitCode};

/// It was refused, or not done to all, or did not end well.
const NOT_DONE: u8 = 1;
/// The time was over (as `timeout` does it).
const LATE: u8 = 124;

/// How it went, in one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// To all.
    Done,
    /// It will be done.
    Accepted,
    /// To some.
    Partly,
    /// To nobody.
    Refused,
    /// Nobody knows.
    Late,
    /// It was accepted and has ended like this.
    Ended(ControlState),
}

impl End {
    fn name(self) -> &'static str {
        match self {
            End::Done => "done",
            End::Accepted => "accepted",
            End::Partly => "partly",
            End::Refused => "refused",
            End::Late => "late",
            End::Ended(state) => state.name(),
        }
    }

    fn exit_code(self) -> ExitCode {
        match self {
            End::Done | End::Accepted | End::Ended(ControlState::Done) => ExitCode::SUCCESS,
            End::Late => ExitCode::from(LATE),
            End::Partly | End::Refused | End::Ended(_) => ExitCode::from(NOT_DONE),
        }
    }
}

/// How a request went.
#[derive(Debug)]
pub struct Outcome {
    pub end: End,
    status: Option<Status>,
    reasons: Vec<String>,
    /// Those to whom it was not done.
    not_done: Vec<ProcOutcome>,
    /// The requests that it did not cancel.
    not_cancelled: Vec<ControlStatus>,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Printed<'a> {
    request: &'a str,
    id: Option<&'a str>,
    end: &'static str,
    status: Option<SeenStatus>,
    reasons: &'a [String],
    not_done: Vec<PrintedProc<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_cancelled: Vec<PrintedRequest<'a>>,
}

/// One of the requests that were not cancelled.
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

/// One of those to whom it was not done.
#[derive(Serialize)]
pub struct PrintedProc<'a> {
    proc: String,
    status: SeenStatus,
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
            status: SeenStatus::from(*status),
            reasons,
        }
    }
}

impl Outcome {
    /// It was answered when it was done.
    pub fn done(told: Controlled) -> Outcome {
        let Controlled {
            not_done,
            not_cancelled,
            infos,
        } = told;
        let end = if not_done.is_empty() && not_cancelled.is_empty() {
            End::Done
        } else {
            End::Partly
        };
        Outcome {
            end,
            status: None,
            reasons: reasons(&infos),
            not_done,
            not_cancelled,
        }
    }

    /// It was answered when it was accepted.
    pub fn accepted(told: Controlled) -> Outcome {
        Outcome {
            end: End::Accepted,
            ..Outcome::done(told)
        }
    }

    /// It was answered by no; any other error is one.
    pub fn refused(error: ClientError) -> Result<Outcome> {
        match error {
            ClientError::Refused { status, infos, .. } => Ok(Outcome {
                end: End::Refused,
                status: Some(status),
                reasons: reasons(&infos),
                not_done: ProcOutcome::all(&infos),
                not_cancelled: ControlStatus::not_cancelled(&infos),
            }),
            error => Err(error.into()),
        }
    }

    /// It has ended since it was accepted.
    pub fn ended(status: ControlStatus) -> Outcome {
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
        Outcome {
            end: End::Ended(state),
            status: None,
            reasons,
            not_done,
            not_cancelled: Vec::new(),
        }
    }

    /// The time is over.
    pub fn late() -> Outcome {
        let (reasons, not_done, not_cancelled) = (Vec::new(), Vec::new(), Vec::new());
        Outcome {
            end: End::Late,
            status: None,
            reasons,
            not_done,
            not_cancelled,
        }
    }

    /// Says it: what was done on standard output, what was not on standard error.
    pub fn print(&self, request: &str, id: Option<&str>, json: bool) -> Result<ExitCode> {
        let mut out = crate::output::stdout();
        if json {
            let not_done = self.not_done.iter().map(PrintedProc::from).collect();
            let (end, status) = (self.end.name(), self.status.map(SeenStatus::from));
            let not_cancelled = self
                .not_cancelled
                .iter()
                .map(PrintedRequest::from)
                .collect();
            let printed = Printed {
                request,
                id,
                end,
                status,
                reasons: &self.reasons,
                not_done,
                not_cancelled,
            };
            writeln!(out, "{}", serde_json::to_string(&printed)?)?;
        } else if let (Some(id), End::Accepted | End::Ended(_)) = (id, self.end) {
            writeln!(out, "{} {}", crate::plain(id), self.end.name())?;
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
            crate::say(&format!(
                "{request} of {proc} failed: {}",
                because(reasons, *status)
            ));
        }
        for ControlStatus {
            id,
            action,
            reasons,
            ..
        } in &self.not_cancelled
        {
            let (id, action) = (crate::plain(id), crate::plain(action));
            crate::say(&format!(
                "{request} of {id} ({action}) failed: {}",
                joined(reasons)
            ));
        }
        let said = match self.end {
            End::Done | End::Accepted | End::Partly | End::Ended(ControlState::Done) => return,
            // It was done to nobody, and of each it is said why.
            End::Refused if self.reasons.is_empty() && !self.not_done.is_empty() => return,
            End::Refused if !self.not_cancelled.is_empty() => return,
            End::Late => format!("{request} was not answered in time; it may still happen"),
            End::Refused => {
                format!(
                    "{request} is refused: {}",
                    because(&self.reasons, self.status.unwrap_or(code::PMIX_ERROR))
                )
            }
            End::Ended(state) if self.reasons.is_empty() => format!("{request} ended as {state}"),
            End::Ended(state) => format!("{request} ended as {state}: {}", joined(&self.reasons)),
        };
        crate::say(&said);
    }
}

fn because(reasons: &[String], status: Status) -> String {
    let words = if reasons.is_empty() {
        meaning(status).to_owned()
    } else {
        joined(reasons)
    };
    format!("{words} ({status})")
}

/// Reasons are others' words.
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

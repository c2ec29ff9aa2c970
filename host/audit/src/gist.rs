//! Summary of a record for people: its subject, the decider, and the reason.
use crate::{
    AdmissionDenial, AuditEntry, CallEntry, DecisionEntry, DecisionKind, GapReason, RefusalGroup,
};
use peal_model::{ControlExtent, Info, PolicyRequest, PolicySubject, Proc, counted};
use peal_sandbox::{CallEnd, CallSubject};
use std::{collections::BTreeSet, fmt::Display};

/// Maximum number of lines shown of one record.
pub(crate) const MAX_LINES: usize = 20;
/// Maximum number of characters shown of a text that a client, module or admin chose.
const MAX_CHARACTERS: usize = 300;
/// Maximum number of names shown from a list.
const MAX_NAMES: usize = 3;

/// The summary of a record.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Gist {
    /// The request or occurrence, as in `job-control` or `event PMIX_ERR_PROC_ABORTED (-36)`.
    pub what: String,
    /// Procs that the record is about.
    pub targets: Vec<Proc>,
    /// The decider as text, or the called module.
    pub by: String,
    /// The reason or the result.
    pub why: String,
}

impl Gist {
    /// Returns the first target procs as text.
    pub fn procs(&self) -> String {
        named(self.targets.iter().map(Proc::to_string).collect())
    }

    /// Returns the subject with the jobs of the procs. Records about the same jobs yield equal
    /// texts.
    pub(crate) fn about_jobs(&self) -> String {
        let jobs: BTreeSet<&str> = self
            .targets
            .iter()
            .map(|proc| proc.nspace.as_str())
            .collect();
        match named(jobs.into_iter().map(str::to_owned).collect()) {
            jobs if jobs.is_empty() => self.what.clone(),
            jobs => format!("{} of {jobs}", self.what),
        }
    }
}

impl AuditEntry {
    /// Returns the summary. `module` is the name of a called module, which is stored with its
    /// facts.
    pub fn gist(&self, module: Option<&str>) -> Gist {
        match self {
            AuditEntry::Call(call) => of_call(call, module),
            AuditEntry::Decision(decision) => decision.gist(),
            AuditEntry::Denied(denial) => denial.gist(),
            AuditEntry::Refusals(group) => group.gist(),
            AuditEntry::Dropped(dropped) => Gist {
                what: format!(
                    "{} from {} to {}",
                    counted(dropped.count(), "record"),
                    dropped.from,
                    dropped.to
                ),
                why: dropped.of_kinds(),
                ..Gist::default()
            },
            AuditEntry::Began { server, .. } => Gist {
                what: shortened(server),
                ..Gist::default()
            },
            AuditEntry::Ended => Gist {
                what: "in good order".to_owned(),
                ..Gist::default()
            },
            AuditEntry::Deployed {
                version,
                cause,
                changes,
            } => {
                let what = shortened(&format!("version {version}, {cause}"));
                let why = joined(changes);
                Gist {
                    what,
                    why,
                    ..Gist::default()
                }
            }
            AuditEntry::Refused { reasons } => Gist {
                what: "modules of the configuration".to_owned(),
                why: joined(reasons),
                ..Gist::default()
            },
            AuditEntry::Quarantined {
                module,
                failures,
                last,
                ..
            } => Gist {
                what: format!("after {}", counted(*failures, "failure")),
                by: module.clone(),
                why: shortened(&last.reason),
                ..Gist::default()
            },
            AuditEntry::Gap { calls, reason } => {
                let what = calls.map_or("an unknown number of calls".to_owned(), |calls| {
                    counted(calls, "call")
                });
                Gist {
                    what,
                    why: reason.words().to_owned(),
                    ..Gist::default()
                }
            }
        }
    }
}

impl DecisionEntry {
    pub(crate) fn gist(&self) -> Gist {
        let why = match (self.verdict, reasons(&self.reasons)) {
            (DecisionKind::Granted, _) => String::new(),
            (DecisionKind::Denied(status), reasons) if reasons.is_empty() => status.to_string(),
            (DecisionKind::Denied(_), reasons) => reasons,
        };
        Gist {
            by: decided_by(&self.by),
            why,
            ..request_gist(&self.hook, &self.request)
        }
    }
}

impl AdmissionDenial {
    pub(crate) fn gist(&self) -> Gist {
        let AdmissionDenial {
            hook,
            by,
            status,
            targets,
            reason,
            from,
            cause,
            ..
        } = self;
        let what = match (hook, from) {
            (Some(hook), _) => shortened(hook),
            // Refused connections have the hook, too.
            (None, Some(from)) => format!("a message of {}", shortened(from)),
            (None, None) => "a request".to_owned(),
        };
        // The most specific text comes first: the reason, then the cause, then the status.
        let why = match (shortened(reason), status, cause) {
            (reason, _, Some(cause)) if reason.is_empty() => cause.clone(),
            (reason, Some(status), None) if reason.is_empty() => status.to_string(),
            (reason, ..) => reason,
        };
        Gist {
            what,
            targets: targets.clone(),
            by: by.as_deref().map_or("the server".to_owned(), decided_by),
            why,
        }
    }
}

impl RefusalGroup {
    pub(crate) fn gist(&self) -> Gist {
        let RefusalGroup {
            count, first, last, ..
        } = self;
        let gist = self.example.gist();
        // Rounded up and at least 1, since denials may come within the same second.
        let seconds = last.saturating_sub(*first).div_ceil(1000).max(1);
        let unit = if self.counts_calls() {
            "calls"
        } else {
            "times"
        };
        Gist {
            why: format!(
                "{count} {unit} within {}: {}",
                counted(seconds, "second"),
                gist.why
            ),
            ..gist
        }
    }
}

impl GapReason {
    /// Returns the cause as text.
    pub(crate) fn words(self) -> &'static str {
        match self {
            GapReason::Overload => "more was to be recorded than could be",
            GapReason::NotWritten => "they could not be written",
            GapReason::Crash => "the server before did not end in good order",
        }
    }
}

fn of_call(call: &CallEntry, module: Option<&str>) -> Gist {
    let about = match &call.record.subject {
        CallSubject::None | CallSubject::Settings(_) => Gist::default(),
        CallSubject::Event(call) => Gist {
            what: format!("event {}", call.event.code),
            ..Gist::default()
        },
        CallSubject::Policy(call) => {
            request_gist(call.request.subject.hook().name(), &call.request)
        }
        CallSubject::Log(_) => Gist {
            what: "log".to_owned(),
            ..Gist::default()
        },
    };
    let why = if let CallEnd::Failed(failure) = &call.record.end {
        shortened(&failure.reason)
    } else {
        String::new()
    };
    Gist {
        by: module.unwrap_or_default().to_owned(),
        why,
        ..about
    }
}

/// Returns the summary of a request without decider and reason.
fn request_gist(hook: &str, request: &PolicyRequest) -> Gist {
    let what = match &request.subject {
        PolicySubject::Event(subject) => format!("{hook} {}", subject.code),
        PolicySubject::Registration(subject) if !subject.codes.is_empty() => {
            let codes = subject.codes.iter().map(ToString::to_string).collect();
            format!("{hook} for {}", named(codes))
        }
        PolicySubject::JobControl(subject) if subject.extent == ControlExtent::Check => {
            format!("{hook}, checked only")
        }
        _ => hook.to_owned(),
    };
    let targets = request
        .targets
        .iter()
        .map(|target| target.proc.clone())
        .collect();
    Gist {
        what: shortened(&what),
        targets,
        ..Gist::default()
    }
}

/// Returns the first names and the number of the others.
fn named(names: Vec<String>) -> String {
    let shown = names
        .iter()
        .take(MAX_NAMES)
        .map(|name| shortened(name))
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Returns the decider without the trailing comma, which is only right inside a sentence.
fn decided_by(by: &str) -> String {
    shortened(by.trim_end_matches(','))
}

/// Returns reasons as text; an info that is no text is represented by its key.
pub fn reasons(infos: &[Info]) -> String {
    joined(
        infos
            .iter()
            .map(|info| info.value.as_str().unwrap_or(info.key.as_str())),
    )
}

fn joined(lines: impl IntoIterator<Item = impl Display>) -> String {
    shortened(
        &lines
            .into_iter()
            .take(MAX_LINES)
            .map(|line| line.to_string())
            .collect::<Vec<_>>()
            .join("; "),
    )
}

/// Returns a text of at most `MAX_CHARACTERS` characters.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

//! Result of a case, and its differences from the expectation.
use super::{
    case::{ControlWord, Expect, ReportWord, infos},
    case_format::{bytes_text, info_line},
    case_parse::{CaseBytes, named_bytes},
};
use peal_config::words::{range_text, status_text};
use peal_model::{Info, Proc, Range, RegistrationChange, Status};
use peal_sandbox::{CallFailure, DeferredControl, DeferredLog, FailureKind, Notification};
use serde::Serialize;
use std::collections::BTreeMap;

/// Result of a case.
#[derive(Clone, Debug, Default)]
pub(super) struct CaseResult {
    /// True if no registration of the module matches the event.
    pub(super) is_passed_over: bool,
    /// Reason why the module did not start.
    pub(super) refused: Option<String>,
    pub(super) failure: Option<CallFailure>,
    /// Outcome of a policy as a word; a denial also has a status.
    pub(super) outcome: Option<&'static str>,
    pub(super) status: Option<Status>,
    pub(super) infos: Vec<Info>,
    pub(super) amended: Option<Vec<Info>>,
    pub(super) rewritten: Option<Vec<Info>>,
    pub(super) range: Option<Range>,
    pub(super) raises: Vec<Notification>,
    pub(super) changes: Vec<RegistrationChange>,
    pub(super) controls: Vec<DeferredControl>,
    pub(super) reports: Vec<DeferredLog>,
    pub(super) logs: Vec<String>,
    pub(super) state: BTreeMap<String, Vec<u8>>,
    pub(super) writes: BTreeMap<String, Vec<u8>>,
}

/// Difference between the result and the expectation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CaseDifference {
    /// Field that differs.
    pub field: &'static str,
    /// Expected lines.
    pub expected: Vec<String>,
    /// Lines of the result.
    pub got: Vec<String>,
}

/// Returns the word for a kind of failure in cases.
pub(super) fn failure_word(kind: FailureKind) -> String {
    let mut word = String::new();
    // Made from the name of the variant, so that a new kind of failure needs no table.
    for character in format!("{kind:?}").chars() {
        if character.is_uppercase() && !word.is_empty() {
            word.push('-');
        }
        word.extend(character.to_lowercase());
    }
    word
}

pub(super) fn lines(infos: &[Info]) -> Vec<String> {
    infos.iter().map(info_line).collect()
}

fn event(code: Status, range: Range, infos: &[Info]) -> String {
    let range = range_text(range).unwrap_or("undef");
    let infos: String = lines(infos)
        .iter()
        .map(|info| format!(", {info}"))
        .collect();
    format!("{}, range {range}{infos}", status_text(code))
}

/// Formats job control in one line.
fn control<'a>(targets: impl Iterator<Item = &'a Proc>, directives: &[Info]) -> String {
    let targets: Vec<String> = targets.map(Proc::to_string).collect();
    let targets = if targets.is_empty() {
        "its own job".to_owned()
    } else {
        targets.join(", ")
    };
    format!("{targets} by {}", lines(directives).join(", "))
}

/// Formats a log request in one line.
fn report(data: &[Info], directives: &[Info]) -> String {
    let directives: String = lines(directives)
        .iter()
        .map(|info| format!(", {info}"))
        .collect();
    format!("[{}]{directives}", lines(data).join(", "))
}

/// Formats a change of registrations in one line.
pub(super) fn change(change: &RegistrationChange) -> String {
    match change {
        RegistrationChange::Deregister(number) => format!("deregister {number}"),
        RegistrationChange::Register(registration) => {
            let codes: Vec<String> = registration
                .codes
                .iter()
                .map(|code| status_text(*code))
                .collect();
            let codes = if codes.is_empty() {
                "every code".to_owned()
            } else {
                codes.join(", ")
            };
            let directives: String = lines(&registration.directives)
                .iter()
                .map(|info| format!(", {info}"))
                .collect();
            format!(
                "register {:?} for {codes}{directives}",
                registration.name.as_deref().unwrap_or_default()
            )
        }
    }
}

fn by_name(bytes: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    bytes
        .iter()
        .map(|(name, bytes)| format!("{name} = {}", bytes_text(bytes)))
        .collect()
}

impl CaseResult {
    /// Formats the result in one line.
    pub(super) fn summary(&self) -> String {
        // The end comes first: after one of these ends nothing was returned.
        if self.is_passed_over {
            return "passed over: its registrations are for other codes".to_owned();
        }
        if let Some(reason) = &self.refused {
            return format!("will not start: {reason}");
        }
        if let Some(failure) = &self.failure {
            return format!("{}: {failure}", failure_word(failure.kind));
        }
        let status = self.status.map(|status| status.to_string());
        let mut parts: Vec<String> = self
            .outcome
            .map(str::to_owned)
            .into_iter()
            .chain(status)
            .collect();
        parts.extend(lines(&self.infos));
        for (how, infos) in [("amended", &self.amended), ("rewritten", &self.rewritten)] {
            parts.extend(
                infos
                    .as_deref()
                    .map(|infos| format!("{how} to [{}]", lines(infos).join(", "))),
            );
        }
        parts.extend(
            self.range
                .and_then(range_text)
                .map(|range| format!("narrowed to {range}")),
        );
        parts.extend(
            self.raises.iter().map(|raised| {
                format!("raises {}", event(raised.code, raised.range, &raised.infos))
            }),
        );
        let controls = self
            .controls
            .iter()
            .map(|request| control(request.targets.iter(), &request.directives));
        parts.extend(controls.map(|line| format!("controls {line}")));
        let reports = self
            .reports
            .iter()
            .map(|request| report(&request.data, &request.directives));
        parts.extend(reports.map(|line| format!("logs {line}")));
        parts.join(", ")
    }

    /// Returns the differences from the expectation.
    pub(super) fn differences(&self, expect: &Expect) -> Vec<CaseDifference> {
        // Lines are compared instead of values: each difference is visible in what is printed, and
        // a NaN equals a NaN.
        let mut compare = Comparison::default();
        self.compare_end(expect, &mut compare);
        if let Some(wanted) = &expect.outcome {
            compare.compare_value(
                "outcome",
                wanted.clone(),
                self.outcome.unwrap_or("none").to_owned(),
            );
        }
        if let Some(wanted) = &expect.status {
            let got = self.status.map_or_else(|| "none".to_owned(), status_text);
            compare.compare_value("status", status_text(wanted.0), got);
        }
        if let Some(wanted) = &expect.infos {
            compare.compare_lists("infos", lines(&infos(wanted.clone())), lines(&self.infos));
        }
        if let Some(wanted) = &expect.includes {
            let wanted = lines(&infos(wanted.clone()));
            let got = lines(&self.infos);
            // The whole lists are shown, since the difference has no place in the result.
            if !wanted.iter().all(|line| got.contains(line)) {
                compare.compare_lists("infos, to be among them", wanted, got);
            }
        }
        for (how, wanted, got) in [
            ("amended", &expect.amended, &self.amended),
            ("rewritten", &expect.rewritten, &self.rewritten),
        ] {
            if let Some(wanted) = wanted {
                let got = got
                    // No amendment is not the same as an amendment to an empty list.
                    .as_deref()
                    .map_or_else(|| vec![format!("not {how}")], lines);
                compare.compare_lists(how, lines(&infos(wanted.clone())), got);
            }
        }
        if let Some(wanted) = &expect.range {
            let word = |range| range_text(range).unwrap_or("undef").to_owned();
            compare.compare_value(
                "range",
                word(wanted.0),
                self.range.map_or_else(|| "not narrowed".to_owned(), word),
            );
        }
        if let Some(wanted) = &expect.raises {
            let wanted = wanted
                .iter()
                .map(|raised| event(raised.code.0, raised.range.0, &infos(raised.infos.clone())));
            let got = self
                .raises
                .iter()
                .map(|raised| event(raised.code, raised.range, &raised.infos));
            compare.compare_lists("raises", wanted.collect(), got.collect());
        }
        if let Some(wanted) = &expect.changes {
            compare.compare_lists(
                "changes",
                wanted.clone(),
                self.changes.iter().map(change).collect(),
            );
        }
        if let Some(wanted) = &expect.controls {
            let of = |word: &ControlWord| {
                control(
                    word.targets.iter().map(|proc| &proc.0),
                    &infos(word.directives.clone()),
                )
            };
            let got = self
                .controls
                .iter()
                .map(|request| control(request.targets.iter(), &request.directives));
            compare.compare_lists("controls", wanted.iter().map(of).collect(), got.collect());
        }
        if let Some(wanted) = &expect.reports {
            let of = |word: &ReportWord| {
                report(&infos(word.data.clone()), &infos(word.directives.clone()))
            };
            let got = self
                .reports
                .iter()
                .map(|request| report(&request.data, &request.directives));
            compare.compare_lists("reports", wanted.iter().map(of).collect(), got.collect());
        }
        if let Some(wanted) = &expect.logs {
            compare.compare_lists("logs", wanted.clone(), self.logs.clone());
        }
        let mut bytes = |field, wanted: &Option<BTreeMap<String, CaseBytes>>, got| {
            if let Some(wanted) = wanted {
                compare.compare_lists(field, by_name(&named_bytes(wanted)), by_name(got));
            }
        };
        bytes("state", &expect.state, &self.state);
        bytes("writes", &expect.writes, &self.writes);
        compare.0
    }

    /// Compares how the call ended: start, call and failure.
    fn compare_end(&self, expect: &Expect, compare: &mut Comparison) {
        // A reason is compared in part, because it may contain details that an author does not
        // choose.
        match (&expect.refused, &self.refused) {
            (None, None) => {}
            (Some(part), Some(reason)) if reason.contains(part.as_str()) => {}
            (wanted, got) => {
                compare.compare_value("start", start(wanted.as_deref()), start(got.as_deref()))
            }
        }
        let called = |is_called| {
            if is_called {
                "yes"
            } else {
                "no, its registrations are for other codes"
            }
            .to_owned()
        };
        compare.compare_value(
            "called",
            // Without a call the other expectations would be about nothing.
            called(expect.called.unwrap_or(true)),
            called(!self.is_passed_over),
        );
        let got = self
            .failure
            .as_ref()
            .map(|failure| failure_word(failure.kind));
        if got != expect.failure {
            let got = match (&self.failure, got) {
                (Some(failure), Some(word)) => format!("{word}: {failure}"),
                _ => "none".to_owned(),
            };
            compare.compare_value(
                "failure",
                expect.failure.clone().unwrap_or_else(|| "none".to_owned()),
                got,
            );
        }
    }
}

fn start(refused: Option<&str>) -> String {
    refused.map_or_else(
        || "it starts".to_owned(),
        |reason| format!("it will not: {reason}"),
    )
}

#[derive(Default)]
struct Comparison(Vec<CaseDifference>);

impl Comparison {
    fn compare_value(&mut self, field: &'static str, expected: String, got: String) {
        self.compare_lists(field, vec![expected], vec![got]);
    }

    fn compare_lists(&mut self, field: &'static str, expected: Vec<String>, got: Vec<String>) {
        if expected != got {
            self.0.push(CaseDifference {
                field,
                expected,
                got,
            });
        }
    }
}

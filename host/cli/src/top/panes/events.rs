//! Latest events, and the steps of one.
use super::{drawing, further, number, status, status_with_number, text};
use crate::top::{
    detail::{Detail, Fact},
    form::{self, Glyphs},
    table::{DataCell, DataRow, DataTable, RowKey, Tone, is_positive},
};
use peal_model::shown_microseconds;
use peal_server::admin::{EventPassage, LiveData, PassageStep};

/// Returns the message in place of the handlers of an event.
fn no_step(data: &LiveData) -> &'static str {
    match (&data.tool_server, data.only_user) {
        (Some(_), _) => "unknown",
        (None, Some(_)) => "no handler of yours",
        (None, None) => "no handler",
    }
}

/// Returns the table of events.
pub fn table<'a>(
    passages: impl Iterator<Item = (u64, &'a EventPassage)>,
    data: &LiveData,
) -> DataTable {
    let row = |(number, passage): (u64, &EventPassage)| {
        let has_failed = passage.steps.iter().any(|step| step.failure.is_some());
        let tone = if has_failed { Tone::Bad } else { Tone::Plain };
        let steps = passage.steps.len() as u64 + passage.further_steps;
        let result = match passage.steps.last() {
            Some(step) => status(&step.status),
            None => no_step(data).to_owned(),
        };
        let is_measured = data.tool_server.is_none();
        let (steps, time) = if is_measured {
            let time = passage.time_us as f64;
            let time = DataCell::number(shown_microseconds(time), time);
            (
                DataCell::count(steps).tone_if(is_positive, Tone::Plain),
                time,
            )
        } else {
            (DataCell::text("-"), DataCell::text("-"))
        };
        DataRow {
            key: RowKey::Passage(number),
            cells: vec![
                DataCell {
                    text: form::time_of_day(passage.at_ms),
                    ..DataCell::count(passage.at_ms)
                },
                DataCell::count(passage.number),
                DataCell::text(status(&passage.code)),
                DataCell::text(passage.source.as_deref().unwrap_or("-")),
                DataCell::text(
                    passage
                        .uid
                        .map_or_else(|| "-".to_owned(), |uid| data.user(uid)),
                ),
                steps,
                DataCell::text(result).tone(tone),
                time,
            ],
        }
    };
    let missed = data.missed.passages;
    DataTable {
        columns: vec![
            text("TIME (UTC)", 0),
            number("NUMBER", 100),
            text("CODE", 0),
            text("SOURCE", 0),
            text("USER", 110),
            number("CALLS", 0),
            text("LAST RESULT", 120),
            number("TOOK", 0),
        ],
        flexible: 3,
        rows: passages.map(row).collect(),
        empty: "no event has passed the chains since this began",
        remark: (missed > 0).then(|| format!("{missed} more came too fast to be listed")),
    }
}

/// Returns the table of the steps of an event.
fn steps(passage: &EventPassage, data: &LiveData, glyphs: Glyphs) -> DataTable {
    let longest = passage.steps.iter().map(|step| step.time_us).max();
    let longest = longest.unwrap_or_default() as f64;
    let row = |(at, step): (usize, &PassageStep)| {
        let tone = if step.failure.is_some() {
            Tone::Bad
        } else {
            Tone::Plain
        };
        let result = match &step.failure {
            Some(failure) => format!("{}: {failure}", status(&step.status)),
            None => status(&step.status),
        };
        let time = step.time_us as f64;
        DataRow {
            key: RowKey::Step(at),
            cells: vec![
                DataCell::count(at as u64 + 1),
                DataCell::text(data.owner(&step.owner)),
                DataCell::text(&step.handler),
                DataCell::text(&step.module),
                DataCell::text(result).tone(tone),
                DataCell::number(shown_microseconds(time), time),
                DataCell::text(glyphs.part(time, longest, 10)).tone(Tone::Good),
            ],
        }
    };
    DataTable {
        columns: vec![
            number("#", 0),
            text("OWNER", 0),
            text("HANDLER", 0),
            text("MODULE", 110),
            text("RESULT", 0),
            number("TIME", 0),
            drawing("SHARE"),
        ],
        flexible: 4,
        rows: passage.steps.iter().enumerate().map(row).collect(),
        empty: no_step(data),
        remark: further(passage.further_steps, "calls"),
    }
}

/// Returns the details of an event: its steps.
pub fn detail(passage: &EventPassage, data: &LiveData, glyphs: Glyphs) -> Detail {
    let source = passage.source.as_deref().unwrap_or("the resource manager");
    let user = passage
        .uid
        .map(|uid| format!(", user {}", data.user(uid)))
        .unwrap_or_default();
    Detail {
        title: format!(
            "Event {}  {}",
            passage.number,
            status_with_number(&passage.code)
        ),
        facts: vec![
            Fact::new("source", format!("{source}{user}")),
            Fact::new("range", &passage.range),
            Fact::new(
                "passed",
                match data.tool_server {
                    Some(_) => format!("{} UTC", form::time_of_day(passage.at_ms)),
                    None => format!(
                        "{} UTC, took {}",
                        form::time_of_day(passage.at_ms),
                        shown_microseconds(passage.time_us as f64)
                    ),
                },
            ),
        ],
        table: steps(passage, data, glyphs),
    }
}

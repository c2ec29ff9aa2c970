//! Events: rates of the codes, the latest events, and the way of one through the chains.
use crate::{
    console::Console,
    guard::Visitor,
    html::{Column, HtmlTable, Page, live_part, number, problem_page, status, text},
    live::{Fragment, LivePage},
    picture::{BoxTone, PictureBox, picture},
};
use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use maud::{Markup, html};
use peal_audit::shown_time;
use peal_model::{plain_lines, shown_microseconds, shown_rate};
use peal_server::admin::{ActivityCodeCount, EventPassage, LiveData, NumberedEntry, PassageStep};
use std::sync::Arc;

/// Number of the latest events in the table.
const LATEST: usize = 100;

/// Shows the codes and the latest events.
pub(crate) async fn events_page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Visitor>,
) -> Markup {
    let loaded = console.feed.look(LivePage::Events).await;
    let data = console.feed.data();
    let content = html! {
        (live_part(Fragment::Codes, &data))
        (live_part(Fragment::Events, &data))
    };
    Page {
        visitor: &visitor,
        at: "/events",
        title: "Events",
        live: Some(loaded),
    }
    .with(&content)
}

/// Returns the codes with their rates.
pub(crate) fn codes(data: &LiveData) -> Markup {
    let table = HtmlTable {
        caption: "Events by code",
        columns: &[
            Column::Text("Code"),
            Column::Number("Events a second"),
            Column::Number("Events"),
            Column::Text("Chain"),
        ],
        empty: "No event was raised since this began.",
    };
    let row = |of: &ActivityCodeCount| {
        let address = format!("/chains?code={}", of.code.number);
        let name = status(&of.code);
        vec![
            text(&name),
            number(shown_rate(data.code(of.code.number).latest())),
            number(of.count),
            html! { a href=(address) aria-label=(format!("Chain of {name}")) { "Chain" } },
        ]
    };
    let further = data.counts.further_events;
    html! {
        (table.with(data.counts.events.iter().map(row).collect()))
        @if further > 0 { p.faint { "and " (further) " events of further codes" } }
    }
}

/// Returns the latest events.
pub(crate) fn latest(data: &LiveData) -> Markup {
    let table = HtmlTable {
        caption: "Latest events",
        columns: &[
            Column::Number("Event"),
            Column::Text("Time"),
            Column::Text("Code"),
            Column::Text("Source"),
            Column::Text("User"),
            Column::Text("Range"),
            Column::Number("Handlers"),
            Column::Number("Took"),
        ],
        empty: "No event has passed since this began.",
    };
    let row = |of: &NumberedEntry<EventPassage>| {
        let event = &of.entry;
        let handlers = event.steps.len() as u64 + event.further_steps;
        vec![
            html! { a href=(format!("/events/{}", event.number)) { (event.number) } },
            html! { (shown_time(event.at_ms)) },
            text(status(&event.code)),
            text(source(event)),
            text(event.uid.map(|uid| data.user(uid)).unwrap_or_default()),
            text(&event.range),
            number(handlers),
            number(shown_microseconds(event.time_us as f64)),
        ]
    };
    let missed = data.missed.passages;
    html! {
        (table.with(data.passages.iter().take(LATEST).map(row).collect()))
        @if missed > 0 { p.faint { (missed) " events came too fast to be listed; the numbers above count them." } }
    }
}

fn source(event: &EventPassage) -> &str {
    event.source.as_deref().unwrap_or("the resource manager")
}

/// Shows the way of an event.
pub(crate) async fn event_page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Visitor>,
    Path(number): Path<u64>,
) -> Response {
    if let Some(reason) = console.feed.look(LivePage::Events).await.lost {
        return problem_page(StatusCode::BAD_GATEWAY, "No answer", &reason);
    }
    let data = console.feed.data();
    let Some(event) = numbered(&data, number) else {
        let reason = "The event is no longer among the latest ones. The audit trail may have it.";
        return problem_page(StatusCode::NOT_FOUND, "No such event", reason);
    };
    let title = format!("Event {}", event.number);
    let content = way(event, &data);
    let page = Page {
        visitor: &visitor,
        at: "/events",
        title: &title,
        live: None,
    };
    page.with(&content).into_response()
}

/// Returns the event with a number of the server's: that of its link stays when the console reads anew.
pub(crate) fn numbered(data: &LiveData, number: u64) -> Option<&EventPassage> {
    let mut passages = data.passages.iter().map(|of| &of.entry);
    passages.find(|event| event.number == number)
}

fn way(event: &EventPassage, data: &LiveData) -> Markup {
    let code = status(&event.code);
    let first = PictureBox {
        label: code.clone(),
        detail: format!("from {}, {}", source(event), event.range),
        aside: String::new(),
        tone: BoxTone::Plain,
    };
    let step = |step: &PassageStep| PictureBox {
        label: handler(step).to_owned(),
        detail: step.failure.clone().unwrap_or_else(|| status(&step.status)),
        aside: format!(
            "{}, {}",
            data.owner(&step.owner),
            shown_microseconds(step.time_us as f64)
        ),
        tone: match step.failure {
            Some(_) => BoxTone::Failed,
            None => BoxTone::Runs,
        },
    };
    let boxes: Vec<PictureBox> = std::iter::once(first)
        .chain(event.steps.iter().map(step))
        .collect();
    let table = HtmlTable {
        caption: "Handlers in the order in which they ran",
        columns: &[
            Column::Number("Number"),
            Column::Text("Owner"),
            Column::Text("Handler"),
            Column::Text("Module"),
            Column::Text("Result"),
            Column::Number("Time"),
        ],
        empty: "No handler was called.",
    };
    let row = |(at, step): (usize, &PassageStep)| {
        vec![
            number(at + 1),
            text(data.owner(&step.owner)),
            text(handler(step)),
            text(&step.module),
            html! {
                @match &step.failure {
                    Some(failure) => span.bad { (plain_lines(failure)) },
                    None => (status(&step.status)),
                }
            },
            number(shown_microseconds(step.time_us as f64)),
        ]
    };
    let rows = event.steps.iter().enumerate().map(row).collect();
    let description = format!(
        "{code} passed {} handlers in {}; the table below lists them",
        event.steps.len() as u64 + event.further_steps,
        shown_microseconds(event.time_us as f64)
    );
    html! {
        dl {
            dt { "Code" } dd { (code) }
            dt { "Source" } dd { (plain_lines(source(event))) }
            dt { "User" } dd { (plain_lines(&event.uid.map(|uid| data.user(uid)).unwrap_or_default())) }
            dt { "Range" } dd { (plain_lines(&event.range)) }
            dt { "Passed" } dd { (shown_time(event.at_ms)) ", took " (shown_microseconds(event.time_us as f64)) }
        }
        (picture("Way of the event", &description, &boxes))
        (table.with(rows))
        @if event.further_steps > 0 { p.faint { "and " (event.further_steps) " more handlers" } }
    }
}

fn handler(step: &PassageStep) -> &str {
    if step.handler.is_empty() {
        &step.module
    } else {
        &step.handler
    }
}

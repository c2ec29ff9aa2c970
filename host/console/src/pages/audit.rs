//! Audit trail: a search, and one record.
use crate::{
    UserSearch,
    console::Console,
    guard::Visitor,
    html::{Column, HtmlTable, Page, number, problem_page, text},
    replay,
};
use axum::{
    Extension,
    extract::{Path, Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use maud::{Markup, html};
use peal_audit::{AuditEntry, AuditError, Gist, TrailSource, kind, readable, shown_time};
use peal_model::plain_lines;
use peal_store::{Filter, StoreError, TrailRow};
use serde::Deserialize;
use std::{path::PathBuf, sync::Arc, time::Duration};
use thiserror::Error;

/// Time of a search.
const READ_TIME: Duration = Duration::from_secs(10);
/// Records on a page.
const ROWS: u32 = 100;

/// Search in the trail. Empty fields match all records.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct AuditSearch {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    module: String,
    #[serde(default)]
    job: String,
    #[serde(default)]
    user: String,
    #[serde(default)]
    outcome: String,
    /// Last record of the page.
    #[serde(default)]
    to: Option<u64>,
}

/// Error of a look into the trail.
#[derive(Debug, Error)]
enum TrailError {
    #[error("The server has no audit trail (audit.path).")]
    NoTrail,
    #[error("{0}")]
    User(String),
    #[error("Other searches are under way. Try again in some seconds.")]
    Busy,
    #[error(
        "The search has taken longer than {READ_TIME:?}; a kind, a module, a job or a user makes it shorter."
    )]
    TooLong,
    #[error("The trail cannot be read: {0}")]
    Audit(AuditError),
    #[error("The trail was not read: {0}")]
    Task(#[from] tokio::task::JoinError),
}

impl From<AuditError> for TrailError {
    fn from(error: AuditError) -> TrailError {
        match error {
            AuditError::Store(StoreError::TooLong { .. }) => TrailError::TooLong,
            error => TrailError::Audit(error),
        }
    }
}

impl TrailError {
    fn response(&self) -> Response {
        let status = match self {
            TrailError::NoTrail => StatusCode::NOT_FOUND,
            TrailError::User(_) => StatusCode::BAD_REQUEST,
            TrailError::Busy => StatusCode::TOO_MANY_REQUESTS,
            TrailError::TooLong => StatusCode::GATEWAY_TIMEOUT,
            TrailError::Audit(_) | TrailError::Task(_) => StatusCode::BAD_GATEWAY,
        };
        problem_page(status, "Audit trail", &self.to_string())
    }
}

impl AuditSearch {
    /// Returns the filter. Blocks: a directory service may know the user.
    fn filter(&self, users: UserSearch) -> Result<Filter, TrailError> {
        let given = |text: &str| (!text.trim().is_empty()).then(|| text.trim().to_owned());
        let uid = given(&self.user)
            .map(|user| users(&user).map_err(TrailError::User))
            .transpose()?;
        Ok(Filter {
            to: self.to,
            kinds: given(&self.kind).into_iter().collect(),
            module: given(&self.module),
            job: given(&self.job),
            outcome: given(&self.outcome),
            uid,
            ..Filter::default()
        })
    }
}

/// Reads the trail on a thread that may block.
async fn read<T: Send + 'static>(
    console: &Console,
    work: impl FnOnce(&TrailSource) -> Result<T, TrailError> + Send + 'static,
) -> Result<T, TrailError> {
    let path: PathBuf = console.settings.audit.clone().ok_or(TrailError::NoTrail)?;
    let permit = console.trail_reads.clone().try_acquire_owned();
    let permit = permit.map_err(|_| TrailError::Busy)?;
    let read = move || {
        // The search goes on without its browser, and keeps its permit.
        let _permit = permit;
        let source = TrailSource::open(&path)?;
        source.limit_time(READ_TIME)?;
        work(&source)
    };
    tokio::task::spawn_blocking(read).await?
}

/// Shows the latest records that match.
pub(crate) async fn audit_page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Visitor>,
    Query(search): Query<AuditSearch>,
) -> Response {
    let (wanted, users) = (search.clone(), console.users);
    let rows = read(&console, move |source| {
        Ok(source.last(&wanted.filter(users)?, ROWS)?)
    });
    let mut rows = match rows.await {
        Ok(rows) => rows,
        Err(error) => return error.response(),
    };
    let earlier = rows
        .first()
        .filter(|_| rows.len() >= ROWS as usize)
        .map(|row| row.seq.saturating_sub(1));
    rows.reverse();
    let content = html! {
        (form(&search, None))
        (records(&console, &rows))
        @if let Some(to) = earlier { (form(&search, Some(to))) }
    };
    Page {
        visitor: &visitor,
        at: "/audit",
        title: "Audit trail",
        live: None,
    }
    .with(&content)
    .into_response()
}

/// Returns the form of the search, or the button of its earlier records.
fn form(search: &AuditSearch, to: Option<u64>) -> Markup {
    let fields = [
        ("kind", "Kind", &search.kind),
        ("module", "Module", &search.module),
        ("job", "Job", &search.job),
        ("user", "User", &search.user),
        ("outcome", "Outcome", &search.outcome),
    ];
    html! {
        @if let Some(to) = to {
            form method="get" action="/audit" {
                @for (name, _, value) in fields { input type="hidden" name=(name) value=(value); }
                input type="hidden" name="to" value=(to);
                button { "Earlier records" }
            }
        } @else {
            form.fields method="get" action="/audit" role="search" {
                @for (name, label, value) in fields {
                    div {
                        label for=(name) { (label) }
                        input id=(name) name=(name) value=(value) size="14";
                    }
                }
                button { "Search" }
            }
        }
    }
}

fn records(console: &Console, rows: &[TrailRow]) -> Markup {
    let table = HtmlTable {
        caption: "Records, the latest first",
        columns: &[
            Column::Number("Record"),
            Column::Text("Time"),
            Column::Text("Kind"),
            Column::Text("Outcome"),
            Column::Text("User"),
            Column::Text("Job"),
            Column::Text("What"),
            Column::Text("Targets"),
            Column::Text("By"),
            Column::Text("Why"),
        ],
        empty: "No record matches.",
    };
    let row = |row: &TrailRow| {
        let gist = gist(row);
        let of = |text: &Option<String>| plain_lines(text.as_deref().unwrap_or_default());
        vec![
            html! { a href=(format!("/audit/{}", row.seq)) { (number(row.seq)) } },
            html! { (shown_time(row.at)) },
            text(&row.kind),
            html! { (of(&row.outcome)) },
            text(row.uid.map(|uid| console.user(uid)).unwrap_or_default()),
            html! { (of(&row.job)) },
            text(&gist.what),
            text(gist.procs()),
            text(&gist.by),
            text(&gist.why),
        ]
    };
    table.with(rows.iter().map(row).collect())
}

/// Returns the summary of a record. One that was altered says so.
fn gist(row: &TrailRow) -> Gist {
    match AuditEntry::read(&row.body) {
        Ok(entry) => entry.gist(row.module.as_deref()),
        Err(error) => Gist {
            why: error.to_string(),
            ..Gist::default()
        },
    }
}

/// Shows a record.
pub(crate) async fn record_page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Visitor>,
    Path(seq): Path<u64>,
) -> Response {
    let found = read(&console, move |source| Ok(source.row(seq)?)).await;
    let row = match found {
        Ok(Some(row)) => row,
        Ok(None) => {
            let reason = format!("There is no record {seq}; it may have been removed by its age.");
            return problem_page(StatusCode::NOT_FOUND, "No such record", &reason);
        }
        Err(error) => return error.response(),
    };
    let body = readable(&row.body)
        .ok()
        .and_then(|body| serde_json::to_string_pretty(&body).ok())
        .unwrap_or_else(|| "The record was altered and cannot be read.".to_owned());
    let title = format!("Record {seq}");
    let content = html! {
        (records(&console, std::slice::from_ref(&row)))
        @if row.kind == kind::CALL { (replay::button(&visitor, seq)) }
        h2 { "Whole record" }
        pre tabindex="0" { (plain_lines(&body)) }
        p { a href="/audit" { "Back to the audit trail" } }
    };
    Page {
        visitor: &visitor,
        at: "/audit",
        title: &title,
        live: None,
    }
    .with(&content)
    .into_response()
}

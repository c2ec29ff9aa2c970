//! Chains: the handlers in their order, or the way that an event with a code would take, as a picture and as a
//! table; and the calls of all modules.
use crate::{
    console::Console,
    guard::Visitor,
    html::{Column, HtmlTable, Page, problem_page, text},
    live::LivePage,
    pages::activity,
    picture::{BoxTone, PictureBox, picture},
    server_link::LinkError,
};
use axum::{
    Extension,
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use maud::{Markup, html};
use peal_model::{Event, Nspace, Range, Status, plain_lines};
use peal_server::admin::{Chain, ChainOwner, ChainPosition, chain_positions};
use serde::Deserialize;
use std::sync::Arc;

/// Selection of an event.
#[derive(Deserialize)]
pub(crate) struct ChainQuery {
    #[serde(default)]
    code: String,
}

/// Shows the chains.
pub(crate) async fn chains_page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Visitor>,
    Query(ChainQuery { code }): Query<ChainQuery>,
) -> Response {
    let wanted = code.trim();
    let event = match (wanted.is_empty(), Status::from_name(wanted)) {
        (true, _) => None,
        (false, Some(code)) => Some(Event {
            code,
            source: None,
            range: Range::Session,
            infos: Vec::new(),
        }),
        (false, None) => {
            let reason = "The Standard has no such code; give a name such as PMIX_ERR_PROC_ABORTED, or a number.";
            return problem_page(StatusCode::BAD_REQUEST, "No such code", reason);
        }
    };
    let (chains, jobs) = match chains_and_jobs(&console, &visitor).await {
        Ok(found) => found,
        Err(error) => {
            return problem_page(StatusCode::BAD_GATEWAY, "No answer", &error.to_string());
        }
    };
    let rows = match chain_positions(&chains, event.as_ref(), &jobs) {
        Ok(rows) => rows,
        Err(error) => {
            return problem_page(StatusCode::BAD_GATEWAY, "No answer", &error.to_string());
        }
    };
    let loaded = console.feed.look(LivePage::Chains).await;
    let data = console.feed.data();
    let content = html! {
        form.fields method="get" action="/chains" role="search" {
            div {
                label for="code" { "Code of an event, by name or number" }
                input #code name="code" value=(code) size="40" placeholder="PMIX_ERR_PROC_ABORTED";
            }
            button { "Show its way" }
        }
        (way(&console, event.as_ref(), &rows))
        h2 { "Modules" }
        (activity::calls(&data))
    };
    let page = Page {
        visitor: &visitor,
        at: "/chains",
        title: "Chains",
        live: Some(loaded),
    };
    page.with(&content).into_response()
}

async fn chains_and_jobs(
    console: &Console,
    visitor: &Visitor,
) -> Result<(Vec<Chain>, Vec<(Nspace, u32)>), LinkError> {
    let chains = console.link.chains(&visitor.behalf).await?;
    let jobs = console.link.jobs(&visitor.behalf).await?;
    let known = jobs.into_iter();
    // A job without a valid name has no chain.
    let known = known.filter_map(|job| Some((Nspace::new(&job.nspace).ok()?, job.uid)));
    Ok((chains, known.collect()))
}

/// Returns the picture and the table.
fn way(console: &Console, event: Option<&Event>, rows: &[ChainPosition<'_>]) -> Markup {
    let title = match event {
        Some(event) => format!("Way of {}", event.code),
        None => "Handlers of all chains".to_owned(),
    };
    let first = PictureBox {
        label: event.map_or_else(|| "event".to_owned(), |event| event.code.to_string()),
        detail: match event {
            Some(_) => "of range session, from the resource manager, without infos".to_owned(),
            None => "of any code".to_owned(),
        },
        aside: String::new(),
        tone: BoxTone::Plain,
    };
    let boxes: Vec<PictureBox> = std::iter::once(first)
        .chain(rows.iter().map(|row| boxed(console, row)))
        .collect();
    let running = rows.iter().filter(|row| row.position.is_ok()).count();
    let description = format!(
        "{running} of {} handlers run; the table below lists them in their order, with the reasons",
        rows.len()
    );
    let table = HtmlTable {
        caption: &title,
        columns: &[
            Column::Number("Position"),
            Column::Text("Owner"),
            Column::Text("Handler"),
            Column::Text("Module"),
            Column::Text("Stands"),
            Column::Text("Registration"),
        ],
        empty: "No handlers are hosted.",
    };
    let row = |row: &ChainPosition<'_>| {
        vec![
            html! { @match row.position { Ok(at) => (at), Err(_) => "-" } },
            text(console.owner(&ChainOwner::from(&row.owner))),
            text(name(row)),
            text(&row.handler.module),
            text(row.stands()),
            text(row.remarks()),
        ]
    };
    html! {
        (picture(&title, &description, &boxes))
        (table.with(rows.iter().map(row).collect()))
    }
}

fn boxed(console: &Console, row: &ChainPosition<'_>) -> PictureBox {
    PictureBox {
        label: plain_lines(name(row)),
        detail: match row.position {
            Ok(_) => row.stands(),
            Err(why) => format!("passed over: {why}"),
        },
        aside: console.owner(&ChainOwner::from(&row.owner)),
        tone: match row.position {
            Ok(_) => BoxTone::Runs,
            Err(_) => BoxTone::Passed,
        },
    }
}

fn name<'a>(row: &ChainPosition<'a>) -> &'a str {
    if row.handler.name.is_empty() {
        &row.handler.module
    } else {
        &row.handler.name
    }
}

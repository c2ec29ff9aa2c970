//! Denials as they happen.
use crate::{
    console::Console,
    guard::Visitor,
    html::{Column, HtmlTable, Page, live_part, status, text},
    live::{Fragment, LivePage},
};
use axum::{Extension, extract::State};
use maud::{Markup, html};
use peal_audit::shown_time;
use peal_server::admin::{ActivityDenial, LiveData, NumberedEntry};
use std::sync::Arc;

/// Number of the latest denials in the table.
const LATEST: usize = 200;

/// Shows the latest denials.
pub(crate) async fn denials_page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Visitor>,
) -> Markup {
    let loaded = console.feed.look(LivePage::Denials).await;
    let data = console.feed.data();
    Page {
        visitor: &visitor,
        at: "/denials",
        title: "Denials",
        live: Some(loaded),
    }
    .with(&live_part(Fragment::Denials, &data))
}

/// Returns the latest denials.
pub(crate) fn latest(data: &LiveData) -> Markup {
    let table = HtmlTable {
        caption: "Latest denials",
        columns: &[
            Column::Text("Time"),
            Column::Text("Hook"),
            Column::Text("Requester"),
            Column::Text("User"),
            Column::Text("Targets"),
            Column::Text("By"),
            Column::Text("Status"),
            Column::Text("Reason"),
        ],
        empty: "Nothing was denied lately.",
    };
    let row = |of: &NumberedEntry<ActivityDenial>| {
        let denial = &of.entry;
        vec![
            html! { (shown_time(denial.at_ms)) },
            text(&denial.hook),
            text(denial.requester.as_deref().unwrap_or("a tool")),
            text(denial.uid.map(|uid| data.user(uid)).unwrap_or_default()),
            text(denial.targets.join(", ")),
            text(&denial.by),
            text(status(&denial.status)),
            text(&denial.reason),
        ]
    };
    let missed = data.missed.denials;
    html! {
        p { (data.counts.denials) " denials since the start of the server" }
        (table.with(data.denials.iter().take(LATEST).map(row).collect()))
        @if missed > 0 { p.faint { (missed) " denials came too fast to be listed." } }
    }
}

//! Replay of a recorded call, which another process carries out.
use crate::{
    console::Console,
    guard::Visitor,
    html::{Page, problem_page},
    tokens::ConsoleRights,
};
use axum::{
    Extension, Form,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use maud::{Markup, html};
use peal_model::plain_lines;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Function that replays a record, or says why not. It blocks.
pub type ReplayFunction = Arc<dyn Fn(u64) -> Result<ReplayReport, String> + Send + Sync>;

/// Result of the replay of a call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReplayReport {
    /// Module.
    pub module: String,
    /// Recorded outcome.
    pub was: String,
    /// Comparison with the record.
    pub verdict: ReplayVerdict,
}

/// Comparison of a replayed call with its record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ReplayVerdict {
    /// The call ended as recorded.
    Same,
    /// The call differed in these points.
    Differs(Vec<String>),
    /// The call could not be replayed, for this reason.
    Not(String),
}

/// Form of a replay.
#[derive(Deserialize)]
pub(crate) struct ReplayForm {
    #[serde(default)]
    form_token: String,
}

/// Returns the button that replays a call.
pub(crate) fn button(visitor: &Visitor, seq: u64) -> Markup {
    html! {
        @if visitor.rights == ConsoleRights::Change {
            form method="post" action=(format!("/audit/{seq}/replay")) {
                input type="hidden" name="form_token" value=(visitor.form_token);
                button { "Replay the call" }
            }
        } @else {
            p.faint { "The token of administrators lets you replay the call." }
        }
    }
}

/// Replays a call, and shows the difference.
pub(crate) async fn replay_call(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Visitor>,
    Path(seq): Path<u64>,
    Form(ReplayForm { form_token }): Form<ReplayForm>,
) -> Response {
    if visitor.rights < ConsoleRights::Change || !visitor.sent_form(&form_token) {
        let reason = "The token of administrators and a form of this session are needed for that.";
        return problem_page(StatusCode::FORBIDDEN, "No rights", reason);
    }
    // One at a time: each takes a processor for a while.
    let Ok(alone) = console.replays.clone().try_acquire_owned() else {
        let reason = "Another call is being replayed. Try again in some seconds.";
        return problem_page(StatusCode::TOO_MANY_REQUESTS, "Not replayed", reason);
    };
    tracing::info!(
        record = seq,
        behalf = visitor.behalf,
        "call replayed at the console"
    );
    let replay = console.replay.clone();
    // The replay goes on without the browser, which may leave.
    let replayed = move || {
        let _alone = alone;
        replay(seq)
    };
    let report = tokio::task::spawn_blocking(replayed).await;
    match report.map_err(|error| error.to_string()).flatten() {
        Ok(report) => {
            let title = format!("Replay of record {seq}");
            let page = Page {
                visitor: &visitor,
                at: "/audit",
                title: &title,
                live: None,
            };
            page.with(&compared(seq, &report)).into_response()
        }
        Err(reason) => problem_page(StatusCode::CONFLICT, "Not replayed", &reason),
    }
}

fn compared(seq: u64, report: &ReplayReport) -> Markup {
    html! {
        dl {
            dt { "Module" } dd { (plain_lines(&report.module)) }
            dt { "Recorded" } dd { (plain_lines(&report.was)) }
        }
        @match &report.verdict {
            ReplayVerdict::Same => p.good role="status" { "The replay is the same, to the last unit of fuel." },
            ReplayVerdict::Not(why) => p.bad role="status" { "Not replayed: " (plain_lines(why)) },
            ReplayVerdict::Differs(differences) => {
                p.bad role="status" { "The replay differs:" }
                ul { @for of in differences { li { (plain_lines(of)) } } }
            }
        }
        p { a href=(format!("/audit/{seq}")) { "Back to the record" } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_is_told_as_text() {
        let report = ReplayReport {
            module: "m".to_owned(),
            was: "pass".to_owned(),
            verdict: ReplayVerdict::Differs(vec!["pass -> <deny>".to_owned()]),
        };
        let shown = compared(7, &report).into_string();
        assert!(
            shown.contains("pass -&gt; &lt;deny&gt;") && shown.contains("/audit/7"),
            "{shown}"
        );
    }
}

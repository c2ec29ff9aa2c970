//! Modules: what they may reach, their versions, and differences of shadow modules.
use crate::{
    console::Console,
    guard::Visitor,
    html::{Column, HtmlTable, number, problem_page, text},
    pages::{
        activity,
        module_changes::{ChangeVerb, button, change, page, rollback},
    },
    server_link::LinkError,
    tokens::ConsoleRights,
};
use axum::{
    Extension,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use maud::{Markup, html};
use peal_audit::shown_time;
use peal_model::plain_lines;
use peal_server::admin::{
    ChainOwner, ModuleList, ModuleState, ModuleStatus, ShadowReport, VersionStatus,
};
use std::{collections::BTreeSet, sync::Arc};

/// Shows the modules.
pub(crate) async fn modules_page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Visitor>,
) -> Response {
    match content(&console, &visitor).await {
        Ok(content) => page(&visitor, "Modules", &content).into_response(),
        Err(error) => problem_page(StatusCode::BAD_GATEWAY, "No answer", &error.to_string()),
    }
}

async fn content(console: &Console, visitor: &Visitor) -> Result<Markup, LinkError> {
    let list = console.link.modules(&visitor.behalf).await?;
    let mut shadows = Vec::new();
    for name in shadow_names(&list) {
        let reports = console
            .link
            .differences(name.to_owned(), &visitor.behalf)
            .await;
        shadows.push((name, reports));
    }
    let may_change = visitor.rights == ConsoleRights::Change;
    Ok(html! {
        @if may_change {
            (button(&change(ChangeVerb::Deploy, "")))
        } @else {
            p.faint { "The token of administrators lets you deploy and roll back." }
        }
        @for user in &list.refused { p.bad { (plain_lines(&user.to_string())) } }
        (modules(console, &list, may_change))
        @for (name, reports) in &shadows {
            @match reports {
                Ok(reports) => @for report in reports { (differences(console, name, report)) },
                Err(error) => p.bad {
                    "The differences of the shadow module " (plain_lines(name)) " are not known: "
                    (plain_lines(&error.to_string()))
                },
            }
        }
        (versions(&list, may_change))
    })
}

/// Returns the names of the shadow modules, each once: a report has those of all owners.
fn shadow_names(list: &ModuleList) -> BTreeSet<&str> {
    let shadows = list.modules.iter();
    let shadows = shadows.filter(|module| module.state == ModuleState::Shadow);
    shadows.map(|module| &*module.name).collect()
}

fn modules(console: &Console, list: &ModuleList, may_change: bool) -> Markup {
    let table = HtmlTable {
        caption: "Modules",
        columns: &[
            Column::Text("Module"),
            Column::Text("Owner"),
            Column::Text("Roles"),
            Column::Text("State"),
            Column::Text("May reach"),
            Column::Text("Digest"),
            Column::Text("Signer"),
            Column::Text("Latest failure"),
            Column::Text("Changes"),
        ],
        empty: "The server has no modules.",
    };
    let row = |module: &ModuleStatus| {
        let digest: String = module.sha256.chars().take(12).collect();
        vec![
            text(&module.name),
            text(console.owner(&module.owner)),
            text(module.roles.join(", ")),
            activity::state(&module.state),
            html! {
                @if module.reaches.is_empty() { "nothing" } @else { (plain_lines(&module.reaches.join(", "))) }
            },
            html! { code title=(module.sha256) { (digest) } },
            signer(module),
            text(module.failure.as_deref().unwrap_or_default()),
            html! { @if may_change { (changes(module)) } @else { "-" } },
        ]
    };
    table.with(list.modules.iter().map(row).collect())
}

/// Returns the key of the signer, which is what the site trusts. The signer chooses the comment.
fn signer(module: &ModuleStatus) -> Markup {
    html! {
        @match &module.signer {
            Some(signer) => code title=(plain_lines(&signer.comment)) { (plain_lines(&signer.key)) },
            None => "none",
        }
    }
}

/// Returns the changes that make sense for a module.
fn changes(module: &ModuleStatus) -> Markup {
    let verbs: &[ChangeVerb] = match (&module.owner, &module.state) {
        // A module of a job ends with it.
        (ChainOwner::Namespace(_), _) if module.path.is_none() => &[],
        // Nothing is loaded that could be disabled.
        (_, ModuleState::Fetching) => &[],
        (_, ModuleState::Disabled) => &[ChangeVerb::Enable],
        (_, ModuleState::Shadow) => &[ChangeVerb::Promote, ChangeVerb::Disable],
        (_, ModuleState::Quarantined) => &[ChangeVerb::Reset, ChangeVerb::Disable],
        _ => &[ChangeVerb::Disable],
    };
    html! { @for verb in verbs { (button(&change(*verb, &module.name))) } }
}

fn differences(console: &Console, name: &str, report: &ShadowReport) -> Markup {
    let caption = format!("Differences of the shadow module {}", plain_lines(name));
    let table = HtmlTable {
        caption: &caption,
        columns: &[
            Column::Text("Time"),
            Column::Text("About"),
            Column::Text("Was"),
            Column::Text("Would have been"),
        ],
        empty: "No outcome of the module would have changed a result.",
    };
    let rows = report.differences.iter().map(|of| {
        vec![
            html! { (shown_time(of.at.saturating_mul(1000))) },
            text(&of.about),
            text(&of.actual),
            text(&of.would),
        ]
    });
    html! {
        h2 { "Shadow module " (plain_lines(name)) }
        p {
            "Of " (plain_lines(&console.owner(&report.owner))) ": " (report.calls) " calls, " (report.differed)
            " would have changed the result, " (report.failed) " failed, " (report.missed) " were skipped."
        }
        (table.with(rows.collect()))
    }
}

fn versions(list: &ModuleList, may_change: bool) -> Markup {
    let table = HtmlTable {
        caption: "Versions of the module set",
        columns: &[
            Column::Number("Version"),
            Column::Text("Deployed"),
            Column::Text("Cause"),
            Column::Text("Modules"),
            Column::Text("Changes"),
        ],
        empty: "No versions are kept.",
    };
    let row = |of: &VersionStatus| {
        let is_active = of.version == list.version;
        vec![
            number(of.version),
            html! { (shown_time(of.at.saturating_mul(1000))) },
            text(&of.cause),
            text(of.modules.join(", ")),
            html! {
                @if is_active { "active" } @else if may_change { (button(&rollback(of.version))) } @else { "-" }
            },
        ]
    };
    table.with(list.versions.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn module(uid: u32, state: &str) -> ModuleStatus {
        let status = json!({
            "name": "m", "owner": { "user": uid }, "roles": [], "state": state, "sha256": "0",
            "path": "m.wasm", "signer": { "key": "RWQ", "comment": "by somebody else" },
        });
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn shadow_module_of_several_owners_is_asked_for_once() {
        let list = ModuleList {
            modules: [1, 2, 3].map(|uid| module(uid, "shadow")).into(),
            ..empty()
        };
        assert_eq!(shadow_names(&list), BTreeSet::from(["m"]));
    }

    fn empty() -> ModuleList {
        serde_json::from_value(json!({ "version": 1, "modules": [], "versions": [] })).unwrap()
    }

    #[test]
    fn signer_is_a_key_and_a_fetched_module_has_no_buttons() {
        let html = signer(&module(1, "active")).into_string();
        assert!(html.contains(">RWQ<"), "{html}");
        assert!(
            changes(&module(1, "active"))
                .into_string()
                .contains("Disable m")
        );
        assert_eq!(changes(&module(1, "fetching")).into_string(), "");
    }
}

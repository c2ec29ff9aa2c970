//! Changes of modules by administrators, each after a page that says what it would do.
use crate::{
    console::Console,
    guard::Visitor,
    html::{Page, problem_page},
    server_link::{LinkError, unexpected},
    tokens::ConsoleRights,
};
use axum::{
    Extension, Form,
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use maud::{Markup, html};
use peal_model::plain_lines;
use peal_server::admin::{AdminReply, AdminRequest, ModuleCall, ModuleChange};
use serde::Deserialize;
use std::{fmt, sync::Arc};

/// Kind of change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ChangeVerb {
    Deploy,
    Rollback,
    Promote,
    Disable,
    Enable,
    Reset,
}

/// Change that an administrator asks for.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub(crate) struct RequestedChange {
    verb: ChangeVerb,
    /// Module; empty for a change of all.
    #[serde(default)]
    name: String,
    /// Set version of a rollback.
    #[serde(default)]
    to: Option<u64>,
    /// Token of the session.
    #[serde(default)]
    form_token: String,
}

impl RequestedChange {
    fn request(&self) -> AdminRequest {
        let name = self.name.clone();
        match self.verb {
            ChangeVerb::Deploy => AdminRequest::Reload,
            ChangeVerb::Rollback => AdminRequest::Module(ModuleCall::Rollback { to: self.to }),
            ChangeVerb::Promote => AdminRequest::Module(ModuleCall::Promote { name }),
            ChangeVerb::Disable => AdminRequest::Module(ModuleCall::Disable { name }),
            ChangeVerb::Enable => AdminRequest::Module(ModuleCall::Enable { name }),
            ChangeVerb::Reset => AdminRequest::Module(ModuleCall::Reset { name }),
        }
    }

    /// Returns the word in forms and addresses.
    fn word(&self) -> &'static str {
        match self.verb {
            ChangeVerb::Deploy => "deploy",
            ChangeVerb::Rollback => "rollback",
            ChangeVerb::Promote => "promote",
            ChangeVerb::Disable => "disable",
            ChangeVerb::Enable => "enable",
            ChangeVerb::Reset => "reset",
        }
    }
}

impl fmt::Display for RequestedChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = plain_lines(&self.name);
        match (self.verb, self.to) {
            (ChangeVerb::Deploy, _) => f.write_str("Deploy the modules of the configuration files"),
            (ChangeVerb::Rollback, Some(to)) => write!(f, "Roll back to version {to}"),
            (ChangeVerb::Rollback, None) => f.write_str("Roll back to the previous version"),
            (ChangeVerb::Promote, _) => write!(f, "Make {name} active"),
            (ChangeVerb::Disable, _) => write!(f, "Disable {name}"),
            (ChangeVerb::Enable, _) => write!(f, "Enable {name}"),
            (ChangeVerb::Reset, _) => write!(f, "Lift the quarantine of {name}"),
        }
    }
}

/// Returns a change of a module, or of all.
pub(crate) fn change(verb: ChangeVerb, name: &str) -> RequestedChange {
    RequestedChange {
        verb,
        name: name.to_owned(),
        to: None,
        form_token: String::new(),
    }
}

/// Returns the return to a version of the module set.
pub(crate) fn rollback(to: u64) -> RequestedChange {
    RequestedChange {
        to: Some(to),
        ..change(ChangeVerb::Rollback, "")
    }
}

/// Returns a button that leads to the page of a change. That page changes nothing either.
pub(crate) fn button(change: &RequestedChange) -> Markup {
    html! {
        form method="get" action="/modules/change" {
            (fields(change))
            button { (change) }
        }
    }
}

fn fields(change: &RequestedChange) -> Markup {
    html! {
        input type="hidden" name="verb" value=(change.word());
        @if !change.name.is_empty() { input type="hidden" name="name" value=(change.name); }
        @if let Some(to) = change.to { input type="hidden" name="to" value=(to); }
    }
}

/// Returns a page of the modules.
pub(crate) fn page(visitor: &Visitor, title: &str, content: &Markup) -> Markup {
    Page {
        visitor,
        at: "/modules",
        title,
        live: None,
    }
    .with(content)
}

fn forbidden() -> Response {
    let reason = "The token of administrators is needed for that. Log out, and log in with it.";
    problem_page(StatusCode::FORBIDDEN, "No rights", reason)
}

/// Says what a change would do, and asks for consent.
pub(crate) async fn confirm_page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Visitor>,
    Query(change): Query<RequestedChange>,
) -> Response {
    if visitor.rights < ConsoleRights::Change {
        return forbidden();
    }
    let call = AdminRequest::Check {
        call: Box::new(change.request()),
    };
    let would = match console.link.ask(call, &visitor.behalf).await {
        Ok(AdminReply::Checked { would }) => would,
        Ok(reply) => return refused(&unexpected(&reply)),
        Err(error) => return refused(&error),
    };
    let lines = match told(&would, ChangeTense::Would) {
        Some(lines) => lines,
        None => return refused(&unexpected(&would)),
    };
    let content = html! {
        p { "Nothing was changed yet. It would do this:" }
        (list_of(&lines))
        form method="post" action="/modules/change" {
            (fields(&change))
            input type="hidden" name="form_token" value=(visitor.form_token);
            button { (change) }
        }
        p { a href="/modules" { "Back to the modules" } }
    };
    page(&visitor, &change.to_string(), &content).into_response()
}

/// Carries out a change.
pub(crate) async fn change_modules(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Visitor>,
    Form(change): Form<RequestedChange>,
) -> Response {
    if visitor.rights < ConsoleRights::Change {
        return forbidden();
    }
    if !visitor.sent_form(&change.form_token) {
        let reason = "The form is not one of this session. Load the page again.";
        return problem_page(StatusCode::FORBIDDEN, "Not done", reason);
    }
    let reply = match console.link.ask(change.request(), &visitor.behalf).await {
        Ok(reply) => reply,
        Err(error) => return refused(&error),
    };
    let Some(lines) = told(&reply, ChangeTense::Done) else {
        return refused(&unexpected(&reply));
    };
    tracing::info!(
        change = change.word(),
        module = change.name,
        "modules changed at the console"
    );
    let content = html! {
        p.good role="status" { "Done." }
        (list_of(&lines))
        p { a href="/modules" { "Back to the modules" } }
    };
    page(&visitor, &change.to_string(), &content).into_response()
}

fn refused(error: &LinkError) -> Response {
    let status = match error {
        LinkError::Refused(_) => StatusCode::CONFLICT,
        _ => StatusCode::BAD_GATEWAY,
    };
    problem_page(status, "Not done", &error.to_string())
}

fn list_of(lines: &[String]) -> Markup {
    html! { ul { @for line in lines { li { (plain_lines(line)) } } } }
}

/// Tense in which changes are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ChangeTense {
    /// The change was made.
    Done,
    /// The change was checked and not made.
    Would,
}

impl ChangeTense {
    fn change(self, ModuleChange { name, what }: &ModuleChange) -> String {
        match self {
            ChangeTense::Done => format!("module {name:?} {what}"),
            ChangeTense::Would => format!("module {name:?} would be {what}"),
        }
    }
}

/// Returns the changes of a reply in lines; none for a reply to another request.
fn told(reply: &AdminReply, tense: ChangeTense) -> Option<Vec<String>> {
    let [has_changed, will_change, is_fetched, nothing] = match tense {
        ChangeTense::Done => [
            "has changed",
            "will change",
            "is fetched from its registry",
            "nothing has changed",
        ],
        ChangeTense::Would => [
            "would change",
            "would change",
            "would be fetched from its registry",
            "nothing would change",
        ],
    };
    let lines: Vec<String> = match reply {
        AdminReply::Deployed(deployed) => {
            let changes = deployed.changes.iter().map(|change| tense.change(change));
            // The version of a change that was only checked is the one that runs.
            let version = (tense == ChangeTense::Done)
                .then(|| format!("version {} is active", deployed.version));
            changes.chain(version).collect()
        }
        AdminReply::Reloaded(report) => {
            let applied = report.applied.iter();
            let applied = applied.map(|key| format!("{key} {has_changed}"));
            let later = report.needs_restart.iter();
            let later = later.map(|key| format!("{key} {will_change} at the next start"));
            let modules = report.modules.iter().map(|change| tense.change(change));
            let refused = report.refused.iter().map(ToString::to_string);
            let fetching = report.fetching.iter();
            let fetching = fetching.map(|module| format!("module {module} {is_fetched}"));
            applied
                .chain(modules)
                .chain(refused)
                .chain(fetching)
                .chain(later)
                .collect()
        }
        _ => return None,
    };
    Some(if lines.is_empty() {
        vec![nothing.to_owned()]
    } else {
        lines
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_server::admin::{ChangeKind, Deployed, ReloadReport};

    #[test]
    fn change_becomes_the_request_of_its_verb() {
        assert_eq!(
            rollback(3).request(),
            AdminRequest::Module(ModuleCall::Rollback { to: Some(3) })
        );
        assert_eq!(
            change(ChangeVerb::Deploy, "").request(),
            AdminRequest::Reload
        );
        let shown = change(ChangeVerb::Promote, "a\u{202e}b").to_string();
        assert_eq!(shown, "Make a\\u{202e}b active");
    }

    #[test]
    fn replies_are_told_in_lines() {
        let deployed = AdminReply::Deployed(Deployed {
            version: 4,
            changes: vec![ModuleChange {
                name: "m".to_owned(),
                what: ChangeKind::Promoted,
            }],
        });
        assert_eq!(
            told(&deployed, ChangeTense::Done).unwrap(),
            ["module \"m\" promoted", "version 4 is active"]
        );
        assert_eq!(
            told(&deployed, ChangeTense::Would).unwrap(),
            ["module \"m\" would be promoted"]
        );
        let nothing = AdminReply::Reloaded(Default::default());
        assert_eq!(
            told(&nothing, ChangeTense::Would).unwrap(),
            ["nothing would change"]
        );
        let reload = AdminReply::Reloaded(ReloadReport {
            applied: vec!["a.b".to_owned()],
            fetching: vec!["m".to_owned()],
            ..ReloadReport::default()
        });
        assert_eq!(
            told(&reload, ChangeTense::Would).unwrap(),
            [
                "a.b would change",
                "module m would be fetched from its registry"
            ]
        );
        assert_eq!(told(&AdminReply::Ended, ChangeTense::Done), None);
    }
}

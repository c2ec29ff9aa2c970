//! Frame of the pages, tables, and text that comes from others.
use crate::{feed::LoadedPage, guard::Visitor, live::Fragment, tokens::ConsoleRights};
use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use maud::{DOCTYPE, Markup, html};
use peal_model::plain_lines;
use peal_server::admin::{LiveData, WatchedStatus};

/// Pages of the navigation: address and title.
const NAVIGATION: [(&str, &str); 6] = [
    ("/", "Overview"),
    ("/events", "Events"),
    ("/chains", "Chains"),
    ("/modules", "Modules"),
    ("/denials", "Denials"),
    ("/audit", "Audit trail"),
];

/// Page for a visitor with rights.
pub(crate) struct Page<'a> {
    pub(crate) visitor: &'a Visitor,
    /// Address in the navigation.
    pub(crate) at: &'static str,
    pub(crate) title: &'a str,
    /// Live parts; none for a page that stays as it is.
    pub(crate) live: Option<LoadedPage>,
}

impl Page<'_> {
    /// Returns the page with this content below its heading.
    pub(crate) fn with(&self, content: &Markup) -> Markup {
        let Page {
            visitor,
            at,
            title,
            live,
        } = self;
        let stream = live
            .as_ref()
            .map(|live| format!("/live/{}", live.page.name()));
        let rights = match visitor.rights {
            ConsoleRights::View => "viewer",
            ConsoleRights::Change => "administrator",
        };
        document(
            title,
            &html! {
                a.skip href="#content" { "Skip to the content" }
                header {
                    span.name { "Peal" }
                    nav aria-label="Pages" {
                        ul {
                            @for (address, name) in NAVIGATION {
                                li { a href=(address) aria-current=[(address == *at).then_some("page")] { (name) } }
                            }
                        }
                    }
                    form method="post" action="/logout" {
                        span.faint { (rights) " " }
                        @if visitor.session.is_some() {
                            input type="hidden" name="form_token" value=(visitor.form_token);
                            button { "Log out" }
                        }
                    }
                }
                main #content tabindex="-1" data-stream=[stream] {
                    h1 { (title) }
                    @if let Some(live) = live {
                        p.live {
                            span #live-state role="status" {
                                @match &live.lost {
                                    Some(reason) => { "Not live: " (plain_lines(reason)) }
                                    None => "As of the load of this page",
                                }
                            }
                            " "
                            button #pause type="button" hidden aria-pressed="false" { "Pause" }
                        }
                    }
                    (content)
                }
            },
        )
    }
}

/// Returns a page for visitors without rights.
pub(crate) fn page_without_rights(title: &str, content: &Markup) -> Markup {
    document(
        title,
        &html! {
            header { span.name { "Peal" } }
            main #content { h1 { (title) } (content) }
        },
    )
}

/// Returns a page that says why something was not done.
pub(crate) fn problem_page(status: StatusCode, title: &str, reason: &str) -> Response {
    let content = html! {
        p.bad role="alert" { (plain_lines(reason)) }
        p { a href="/" { "Overview" } }
    };
    (status, page_without_rights(title, &content)).into_response()
}

fn document(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (plain_lines(title)) " - Peal" }
                link rel="stylesheet" href="/console.css";
                script src="/console.js" defer {}
            }
            body { (body) }
        }
    }
}

/// Returns a live part of a page. The script replaces its content.
pub(crate) fn live_part(fragment: Fragment, data: &LiveData) -> Markup {
    html! { div data-fragment=(fragment.name()) { (fragment.render(data)) } }
}

/// Column of a table.
#[derive(Clone, Copy)]
pub(crate) enum Column {
    Text(&'static str),
    Number(&'static str),
}

/// Table with a caption, as each part of a page is.
pub(crate) struct HtmlTable<'a> {
    pub(crate) caption: &'a str,
    pub(crate) columns: &'a [Column],
    /// Text in the place of a table without rows.
    pub(crate) empty: &'a str,
}

impl HtmlTable<'_> {
    /// Returns the table with these rows. The first cell of a row is its heading.
    pub(crate) fn with(&self, rows: Vec<Vec<Markup>>) -> Markup {
        let cell = |at: usize, content: &Markup| {
            let class = match self.columns.get(at) {
                Some(Column::Number(_)) => Some("number"),
                _ => None,
            };
            html! {
                @if at == 0 { th scope="row" class=[class] { (content) } }
                @else { td class=[class] { (content) } }
            }
        };
        html! {
            div.table role="region" aria-label=(self.caption) tabindex="0" {
                table {
                    caption { (self.caption) }
                    thead { tr {
                        @for column in self.columns {
                            @match column {
                                Column::Text(name) => { th scope="col" { (name) } }
                                Column::Number(name) => { th.number scope="col" { (name) } }
                            }
                        }
                    } }
                    tbody {
                        @if rows.is_empty() {
                            tr { td.faint colspan=(self.columns.len()) { (self.empty) } }
                        }
                        @for row in &rows {
                            tr { @for (at, content) in row.iter().enumerate() { (cell(at, content)) } }
                        }
                    }
                }
            }
        }
    }
}

/// Returns a cell with a text that others may have chosen.
pub(crate) fn text(text: impl AsRef<str>) -> Markup {
    html! { (plain_lines(text.as_ref())) }
}

/// Returns a cell with a number, which may have a unit.
pub(crate) fn number(number: impl std::fmt::Display) -> Markup {
    html! { (maud::display(number)) }
}

/// Returns the name and the number of a status.
pub(crate) fn status(of: &WatchedStatus) -> String {
    match &of.name {
        Some(name) => format!("{} ({})", plain_lines(name), of.number),
        None => of.number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_is_neither_markup_nor_invisible() {
        let shown = text("<script>\u{202e}\u{1b}[0m").into_string();
        assert_eq!(shown, "&lt;script&gt;\\u{202e}\\u{1b}[0m");
    }
}

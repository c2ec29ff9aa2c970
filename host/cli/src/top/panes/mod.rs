//! Panes of `peal top`: what each shows, and its table.
pub mod chains;
pub mod codes;
pub mod denials;
pub mod events;
pub mod jobs;
pub mod sinks;
pub mod users;

use super::{
    form::Glyphs,
    table::{ColumnContent, DataColumn, DataTable},
};
use crate::table::Side;
use peal_server::admin::{LiveData, WatchedStatus};

/// Pane.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Pane {
    /// Jobs.
    Jobs,
    /// Event codes and their rates.
    Codes,
    /// Handlers and policies.
    Chains,
    /// Latest events.
    Events,
    /// Latest denials.
    Denials,
    /// Sinks.
    Sinks,
    /// Users.
    Users,
}

impl Pane {
    /// All panes, in the order of their number keys.
    pub const ALL: [Pane; 7] = [
        Pane::Jobs,
        Pane::Codes,
        Pane::Chains,
        Pane::Events,
        Pane::Denials,
        Pane::Sinks,
        Pane::Users,
    ];

    /// Returns the title.
    pub fn title(self) -> &'static str {
        match self {
            Pane::Jobs => "Jobs",
            Pane::Codes => "Codes",
            Pane::Chains => "Chains",
            Pane::Events => "Events",
            Pane::Denials => "Denials",
            Pane::Sinks => "Sinks",
            Pane::Users => "Users",
        }
    }

    /// Returns the position.
    pub fn position(self) -> usize {
        Pane::ALL
            .iter()
            .position(|pane| *pane == self)
            .unwrap_or_default()
    }

    /// Returns the pane at a position, which wraps around.
    pub fn at(position: usize) -> Pane {
        let position = position % Pane::ALL.len();
        Pane::ALL.get(position).copied().unwrap_or(Pane::Jobs)
    }

    /// Returns the title of the column by which rows are sorted, the largest first, before another order is
    /// chosen; none for the order of the data.
    pub fn usual_order(self) -> Option<&'static str> {
        match self {
            Pane::Codes => Some(codes::EVENT_RATE),
            Pane::Users => Some(users::PART_OF_SHARE),
            _ => None,
        }
    }

    /// Returns the number of rows.
    pub fn count(self, data: &LiveData) -> usize {
        match self {
            Pane::Jobs => data.jobs.jobs.len(),
            Pane::Codes => data.counts.events.len(),
            Pane::Chains => chains::rows(data).len(),
            Pane::Events => data.passages.len(),
            Pane::Denials => data.denials.len(),
            Pane::Sinks => data.sinks.len(),
            Pane::Users => data.users.users.len(),
        }
    }

    /// Returns the table.
    pub fn table(self, data: &LiveData, glyphs: Glyphs) -> DataTable {
        match self {
            Pane::Jobs => jobs::table(data),
            Pane::Codes => codes::table(data, glyphs),
            Pane::Chains => chains::table(data),
            Pane::Events => {
                events::table(data.passages.iter().map(|of| (of.number, &of.entry)), data)
            }
            Pane::Denials => denials::table(data),
            Pane::Sinks => sinks::table(data),
            Pane::Users => users::table(data),
        }
    }
}

/// Returns a column of texts that is shown on screens from this width on.
const fn text(title: &'static str, screen: u16) -> DataColumn {
    DataColumn {
        title,
        side: Side::Left,
        screen,
        content: ColumnContent::Values,
    }
}

/// Returns a column of drawings.
const fn drawing(title: &'static str) -> DataColumn {
    DataColumn {
        content: ColumnContent::Drawings,
        ..text(title, 0)
    }
}

/// Returns a column of numbers that is shown on screens from this width on.
const fn number(title: &'static str, screen: u16) -> DataColumn {
    DataColumn {
        title,
        side: Side::Right,
        screen,
        content: ColumnContent::Values,
    }
}

/// Returns the message in place of rows that only an admin socket tells of.
fn told_by_socket(data: &LiveData, empty: &'static str) -> &'static str {
    match data.tool_server {
        Some(_) => "a server without an admin socket does not tell of this",
        None => empty,
    }
}

fn further(count: u64, what: &str) -> Option<String> {
    (count > 0).then(|| format!("and {count} more {what}, which the report has no room for"))
}

/// Returns the name of a status, or its number.
fn status(status: &WatchedStatus) -> String {
    status
        .name
        .clone()
        .unwrap_or_else(|| status.number.to_string())
}

/// Returns the name and the number of a status.
fn status_with_number(of: &WatchedStatus) -> String {
    match &of.name {
        Some(name) => format!("{} ({})", crate::plain(name), of.number),
        None => of.number.to_string(),
    }
}

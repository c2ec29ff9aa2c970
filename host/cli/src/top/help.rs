//! Help of `peal top`: its keys and columns.
use ratatui::{
    style::{Modifier, Style},
    text::{Line, Span},
};

/// Keys and what they do.
const KEYS: [(&str, &str); 12] = [
    ("1-7, Tab", "choose a pane"),
    (
        "Up, Down, j, k",
        "select a row; PgUp, PgDn, Home, End go further",
    ),
    (
        "Enter",
        "open the row: procs of a job, events of a code, way of an event",
    ),
    ("Esc", "go back; removes the filter first"),
    ("/", "show the rows that contain a text"),
    ("s, S", "sort by the next column; turn the order around"),
    ("p, Space", "pause the screen, and continue"),
    ("q", "quit; Ctrl-Z suspends"),
    ("", ""),
    (
        "events/s",
        "events that entered the chains since the previous report",
    ),
    (
        "TIME",
        "in Chains the mean time of a call, elsewhere of day (UTC)",
    ),
    ("OF SHARE", "part of a user's share of its fullest resource"),
];

/// Returns the lines of the help.
pub fn lines(title: Style) -> Vec<Line<'static>> {
    let head = [
        Line::raw(""),
        Line::styled(" Keys and columns", title),
        Line::raw(""),
    ];
    let keys = KEYS.iter().map(|(key, meaning)| {
        Line::from(vec![
            Span::styled(
                format!(" {key:16}"),
                Style::new().add_modifier(Modifier::BOLD),
            ),
            Span::raw(*meaning),
        ])
    });
    head.into_iter().chain(keys).collect()
}

//! Lines above a table: the server, its rates, and the panes.
use super::colours::{BOLD, Colours, SELECTED};
use crate::top::{
    form::{self, Glyphs},
    model::TopModel,
    panes::Pane,
    table::Tone,
};
use peal_model::shown_rate;
use peal_server::admin::{LiveData, ServerPhase};
use ratatui::{
    style::Style,
    text::{Line, Span},
};

/// Widths of screens from which more is shown.
const WIDE: u16 = 100;

/// Returns the lines above the table: the server, its rates, and the panes.
pub fn head(model: &TopModel, width: u16, colours: Colours) -> Vec<Line<'static>> {
    let data = model.shown();
    let mut lines = vec![server(data, model.is_paused(), width, colours)];
    lines.push(rates(data, model.glyphs(), width, colours));
    let troubles = data.server.iter().flat_map(|server| &server.troubles);
    lines.extend(troubles.take(2).map(|trouble| {
        let message = trouble.message.lines().next().unwrap_or_default();
        let text = format!(" TROUBLE {}: {}", trouble.kind, crate::plain(message));
        Line::styled(text, colours.style(Tone::Bad))
    }));
    lines.push(panes(model, width, colours));
    lines
}

fn server(data: &LiveData, is_paused: bool, width: u16, colours: Colours) -> Line<'static> {
    let mut left = vec![Span::styled(" peal", colours.title())];
    match &data.server {
        None => left.push(Span::raw(match &data.tool_server {
            Some(name) => format!("  server {}, as one of its tools", crate::plain(name)),
            None => "  waiting for the server".to_owned(),
        })),
        Some(server) => {
            let tone = match server.phase {
                ServerPhase::Serving => Tone::Good,
                _ => Tone::Warning,
            };
            left.push(Span::raw(format!(" {}  ", server.release)));
            left.push(Span::styled(crate::plain(&server.node), BOLD));
            left.push(Span::raw("  "));
            left.push(Span::styled(server.phase.to_string(), colours.style(tone)));
            left.push(Span::raw(format!("  up {}", form::uptime(data.uptime_ms))));
            if width >= WIDE {
                left.push(Span::raw(format!("  pid {}", server.pid)));
            }
            if let Some(uid) = data.only_user {
                let user = crate::plain(&data.user(uid));
                left.push(Span::raw(format!("  only user {user}")));
            }
        }
    }
    let right = if is_paused {
        vec![Span::styled(" PAUSED ", SELECTED), Span::raw(" ")]
    } else {
        Vec::new()
    };
    spread(left, right, width)
}

fn rates(data: &LiveData, glyphs: Glyphs, width: u16, colours: Colours) -> Line<'static> {
    let mut left = vec![Span::raw(" ")];
    let mut add = |name: &'static str, value: String, tone: Tone| {
        left.push(Span::raw(name));
        left.push(Span::styled(
            format!(" {value}  "),
            colours.style(tone).patch(BOLD),
        ));
    };
    let tone = |rate: Option<f64>, tone: Tone| match rate {
        Some(rate) if rate > 0.0 => tone,
        _ => Tone::Plain,
    };
    let (events, denials) = (data.events.latest(), data.denial_rate.latest());
    add("events/s", shown_rate(events), tone(events, Tone::Good));
    add("denials/s", shown_rate(denials), tone(denials, Tone::Bad));
    add("jobs", data.jobs.jobs.len().to_string(), Tone::Plain);
    add("procs", data.proc_count().to_string(), Tone::Plain);
    let connections = data.server.as_ref().and_then(|server| server.connections);
    if let Some(connections) = connections {
        add("connections", connections.to_string(), Tone::Plain);
    }
    let used: usize = left.iter().map(Span::width).sum();
    let room = usize::from(width).saturating_sub(used + 1).min(60);
    let trend = glyphs.trend(&data.events, room);
    let right = vec![
        Span::styled(trend, colours.style(Tone::Good)),
        Span::raw(" "),
    ];
    spread(left, right, width)
}

/// Puts spans at both ends of a line.
pub fn spread(left: Vec<Span<'static>>, right: Vec<Span<'static>>, width: u16) -> Line<'static> {
    let used: usize = left.iter().chain(&right).map(Span::width).sum();
    let space = usize::from(width).saturating_sub(used);
    let mut spans = left;
    spans.push(Span::raw(" ".repeat(space)));
    spans.extend(right);
    Line::from(spans)
}

fn panes(model: &TopModel, width: u16, colours: Colours) -> Line<'static> {
    let data = model.shown();
    let mut spans = Vec::new();
    for (position, pane) in Pane::ALL.into_iter().enumerate() {
        let count = pane.count(data);
        let count = if width >= WIDE {
            format!(" ({count})")
        } else {
            String::new()
        };
        let text = format!(" {} {}{count} ", position + 1, pane.title());
        let style = if pane == model.pane() {
            colours.title().patch(SELECTED)
        } else {
            Style::new()
        };
        spans.push(Span::styled(text, style));
        spans.push(Span::raw(" "));
    }
    Line::from(spans)
}

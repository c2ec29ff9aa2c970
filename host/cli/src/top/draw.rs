//! Drawing of the model on a screen of any size, with or without colours.
use super::{
    detail::Fact,
    form::{self, Glyphs},
    help,
    live::LiveData,
    model::{KeyMode, ScreenContent, TopModel},
    pane::Pane,
    table::{DataColumn, DataTable, Tone},
};
use crate::{plain, sort_value::SortDirection, table::Side};
use peal_server::admin::ServerPhase;
use ratatui::{
    Frame,
    layout::Rect,
    style::{Color, Modifier, Style},
    text::{Line, Span},
};

/// Widths of screens from which more is shown.
const WIDE: u16 = 100;
/// Space between two columns.
const GAP: usize = 2;
/// Minimum width of the column that becomes narrower.
const LEAST_FLEXIBLE: usize = 8;
/// Maximum number of lines of one fact.
const MAX_FACT_LINES: usize = 4;
/// Width of the names of facts.
const FACT_NAME: usize = 10;

/// Use of colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Colours {
    /// Tones have colours.
    Coloured,
    /// Tones differ by weight alone.
    Plain,
}

impl Colours {
    fn style(self, tone: Tone) -> Style {
        match (self, tone) {
            (_, Tone::Plain) => Style::new(),
            (Colours::Coloured, Tone::Faint) => Style::new().fg(Color::DarkGray),
            (Colours::Coloured, Tone::Good) => Style::new().fg(Color::Green),
            (Colours::Coloured, Tone::Warning) => Style::new().fg(Color::Yellow),
            (Colours::Coloured, Tone::Bad) => {
                Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)
            }
            (Colours::Plain, Tone::Faint) => Style::new().add_modifier(Modifier::DIM),
            (Colours::Plain, Tone::Good) => Style::new(),
            (Colours::Plain, Tone::Warning | Tone::Bad) => {
                Style::new().add_modifier(Modifier::BOLD)
            }
        }
    }

    fn title(self) -> Style {
        match self {
            Colours::Coloured => Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD),
            Colours::Plain => Style::new().add_modifier(Modifier::BOLD),
        }
    }
}

/// Style of the selected row and of the head of a table.
const SELECTED: Style = Style::new().add_modifier(Modifier::REVERSED);
const HEAD: Style = Style::new().add_modifier(Modifier::BOLD.union(Modifier::UNDERLINED));
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

/// Draws the model.
pub fn draw(frame: &mut Frame<'_>, model: &mut TopModel, colours: Colours) {
    let area = frame.area();
    let mut lines = head(model, area.width, colours);
    let content = model.content();
    let is_help = model.mode() == KeyMode::Help;
    if !is_help {
        lines.extend(details(&content, area.width, colours));
    }
    // The last line of the screen is for the keys.
    let body = usize::from(area.height).saturating_sub(lines.len() + 1);
    // The first line of the table is its head, and the last one may be a remark.
    let remark = usize::from(content.table.remark.is_some());
    let page = body.saturating_sub(1 + remark);
    model.resize(area.width, page);
    scroll(model, &content, page);
    if is_help {
        lines.extend(help::lines(colours.title()));
    } else {
        lines.extend(table(&content, model, page, area.width, colours));
    }
    lines.truncate(usize::from(area.height.saturating_sub(1)));
    for (row, line) in (area.y..).zip(lines) {
        frame.render_widget(line, Rect::new(area.x, row, area.width, 1));
    }
    if area.height > 0 {
        let last = area.y + area.height - 1;
        frame.render_widget(keys(model, colours), Rect::new(area.x, last, area.width, 1));
    }
}

/// Moves the table so that the selected row is on the screen.
fn scroll(model: &mut TopModel, content: &ScreenContent, page: usize) {
    let view = model.view_mut();
    let last = content.table.rows.len().saturating_sub(page);
    let first = (content.selected + 1).saturating_sub(page);
    view.offset = view
        .offset
        .clamp(first, content.selected.max(first))
        .min(last);
}

/// Returns the lines above the table: the server, its rates, and the panes.
fn head(model: &TopModel, width: u16, colours: Colours) -> Vec<Line<'static>> {
    let data = model.shown();
    let mut lines = vec![server(data, model.is_paused(), width, colours)];
    lines.push(rates(data, model.glyphs(), width, colours));
    let troubles = data.server.iter().flat_map(|server| &server.troubles);
    lines.extend(troubles.take(2).map(|trouble| {
        let message = trouble.message.lines().next().unwrap_or_default();
        let text = format!(" TROUBLE {}: {}", trouble.kind, plain(message));
        Line::styled(text, colours.style(Tone::Bad))
    }));
    lines.push(panes(model, width, colours));
    lines
}

fn server(data: &LiveData, is_paused: bool, width: u16, colours: Colours) -> Line<'static> {
    let mut left = vec![Span::styled(" peal", colours.title())];
    match &data.server {
        None => left.push(Span::raw(match &data.tool_server {
            Some(name) => format!("  server {}, as one of its tools", plain(name)),
            None => "  waiting for the server".to_owned(),
        })),
        Some(server) => {
            let tone = match server.phase {
                ServerPhase::Serving => Tone::Good,
                _ => Tone::Warning,
            };
            left.push(Span::raw(format!(" {}  ", server.release)));
            left.push(Span::styled(plain(&server.node), BOLD));
            left.push(Span::raw("  "));
            left.push(Span::styled(server.phase.to_string(), colours.style(tone)));
            left.push(Span::raw(format!("  up {}", form::uptime(data.uptime_ms))));
            if width >= WIDE {
                left.push(Span::raw(format!("  pid {}", server.pid)));
            }
            if let Some(uid) = data.only_user {
                let user = plain(&data.user(uid));
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
    add("events/s", form::rate(events), tone(events, Tone::Good));
    add("denials/s", form::rate(denials), tone(denials, Tone::Bad));
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
fn spread(left: Vec<Span<'static>>, right: Vec<Span<'static>>, width: u16) -> Line<'static> {
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

/// Returns the lines of details above their table.
fn details(content: &ScreenContent, width: u16, colours: Colours) -> Vec<Line<'static>> {
    let Some(title) = &content.title else {
        return Vec::new();
    };
    let mut lines = vec![Line::styled(format!(" {title}"), colours.title())];
    let room = usize::from(width).saturating_sub(FACT_NAME + 2).max(1);
    for Fact { name, value } in &content.facts {
        let parts = wrapped(value, room);
        for (at, part) in parts.into_iter().take(MAX_FACT_LINES).enumerate() {
            let name = if at == 0 { *name } else { "" };
            lines.push(Line::from(vec![
                Span::styled(format!(" {name:FACT_NAME$} "), colours.style(Tone::Faint)),
                Span::raw(part),
            ]));
        }
    }
    lines
}

/// Divides a text into lines of this width, at spaces where possible.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_inclusive(' ') {
        for (at, piece) in pieces(word, width).into_iter().enumerate() {
            let used = lines.last().map_or(0, |line| columns(line));
            let is_full = used > 0 && used + columns(piece.trim_end()) > width;
            match lines.last_mut() {
                Some(line) if at == 0 && !is_full => line.push_str(&piece),
                _ => lines.push(piece),
            }
        }
    }
    lines
}

/// Divides a word that is longer than a line.
fn pieces(word: &str, width: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for of in word.chars() {
        let is_full = pieces
            .last()
            .is_some_and(|piece| columns(piece) >= width && of != ' ');
        match pieces.last_mut() {
            Some(piece) if !is_full => piece.push(of),
            _ => pieces.push(of.to_string()),
        }
    }
    pieces
}

/// Returns the width of a text on a terminal.
fn columns(text: &str) -> usize {
    Span::raw(text).width()
}

/// Returns the lines of a table.
fn table(
    content: &ScreenContent,
    model: &TopModel,
    page: usize,
    width: u16,
    colours: Colours,
) -> Vec<Line<'static>> {
    let table = &content.table;
    let glyphs = model.glyphs();
    if table.columns.is_empty() && table.empty.is_empty() {
        return Vec::new();
    }
    if table.rows.is_empty() {
        let text = if model.view().filter.is_empty() {
            table.empty.to_owned()
        } else {
            "no row contains the filter; Esc removes it".to_owned()
        };
        let message = Line::styled(format!(" {text}"), colours.style(Tone::Faint));
        return vec![Line::raw(""), message];
    }
    let layout = ColumnLayout::of(content, width);
    let offset = model.view().offset;
    let rows = table.rows.iter().enumerate().skip(offset).take(page);
    let lines = rows.map(|(position, row)| {
        let mut spans = vec![Span::raw(" ")];
        for LaidColumn { at, width, column } in &layout.0 {
            let Some(cell) = row.cells.get(*at) else {
                continue;
            };
            let text = aligned(&cell.text, *width, column.side, glyphs);
            spans.push(Span::styled(text, colours.style(cell.tone)));
            spans.push(Span::raw(" ".repeat(GAP)));
        }
        let line = spread(spans, Vec::new(), width);
        if position == content.selected {
            line.patch_style(SELECTED)
        } else {
            line
        }
    });
    let remark = table.remark.iter();
    let remark =
        remark.map(|remark| Line::styled(format!(" {remark}"), colours.style(Tone::Warning)));
    let head = layout.head(content, glyphs, width);
    std::iter::once(head).chain(lines).chain(remark).collect()
}

/// Column on the screen.
struct LaidColumn {
    /// Position in the table.
    at: usize,
    width: usize,
    column: DataColumn,
}

/// Columns on the screen.
struct ColumnLayout(Vec<LaidColumn>);

impl ColumnLayout {
    /// Gives each column the width of its cells. The flexible one becomes narrower where there is no
    /// room, and then columns at the right are left out.
    fn of(content: &ScreenContent, screen: u16) -> ColumnLayout {
        let DataTable {
            columns: all,
            rows,
            flexible,
            ..
        } = &content.table;
        let shown = all
            .iter()
            .enumerate()
            .filter(|(_, column)| column.screen <= screen);
        let mut laid: Vec<LaidColumn> = shown
            .map(|(at, column)| {
                let cells = rows.iter().filter_map(|row| row.cells.get(at));
                let widest = cells.map(|cell| columns(&cell.text)).max();
                // A mark of the order follows the title.
                let title = column.title.len() + usize::from(is_sorted_by(content, at));
                LaidColumn {
                    at,
                    width: widest.unwrap_or_default().max(title),
                    column: *column,
                }
            })
            .collect();
        // A column at each side stays free.
        let room = usize::from(screen).saturating_sub(2);
        let used = |laid: &[LaidColumn]| -> usize {
            let widths: usize = laid.iter().map(|column| column.width).sum();
            widths + GAP * laid.len().saturating_sub(1)
        };
        let excess = used(&laid).saturating_sub(room);
        if let Some(column) = laid.iter_mut().find(|column| column.at == *flexible) {
            let least = LEAST_FLEXIBLE.min(column.width);
            column.width = column.width.saturating_sub(excess).max(least);
        }
        // Long names in other columns: the widest of them become narrower.
        while used(&laid) > room {
            let widest = laid.iter_mut().max_by_key(|column| column.width);
            match widest {
                Some(column) if column.width > LEAST_FLEXIBLE => column.width -= 1,
                _ => break,
            }
        }
        while used(&laid) > room && laid.len() > 1 {
            laid.pop();
        }
        ColumnLayout(laid)
    }

    fn head(&self, content: &ScreenContent, glyphs: Glyphs, width: u16) -> Line<'static> {
        let mut text = " ".to_owned();
        for LaidColumn { at, width, column } in &self.0 {
            let (ascending, descending) = glyphs.sorted();
            let title = match content.order {
                Some(order) if order.column == *at => match order.direction {
                    SortDirection::Ascending => format!("{}{ascending}", column.title),
                    SortDirection::Descending => format!("{}{descending}", column.title),
                },
                _ => column.title.to_owned(),
            };
            text.push_str(&aligned(&title, *width, column.side, glyphs));
            text.push_str(&" ".repeat(GAP));
        }
        let line = spread(vec![Span::raw(text)], Vec::new(), width);
        line.patch_style(HEAD)
    }
}

fn is_sorted_by(content: &ScreenContent, column: usize) -> bool {
    content.order.is_some_and(|order| order.column == column)
}

/// Cuts or pads a text to a width.
fn aligned(text: &str, width: usize, side: Side, glyphs: Glyphs) -> String {
    let mut cut = text.to_owned();
    if columns(&cut) > width {
        while columns(&cut) + 1 > width && cut.pop().is_some() {}
        cut.push(glyphs.cut());
    }
    let space = " ".repeat(width.saturating_sub(columns(&cut)));
    match side {
        Side::Left => cut + &space,
        Side::Right => space + &cut,
    }
}

/// Returns the line of keys, or the filter that is being typed.
fn keys(model: &TopModel, colours: Colours) -> Line<'static> {
    let filter = &model.view().filter;
    match model.mode() {
        KeyMode::Filter => {
            return Line::from(vec![
                Span::styled(" filter: ", colours.title()),
                Span::raw(plain(filter)),
                Span::styled(" ", SELECTED),
                Span::styled(
                    "  Enter keeps it, Esc removes it",
                    colours.style(Tone::Faint),
                ),
            ]);
        }
        KeyMode::Help => {
            return Line::styled(" any key goes back, q quits", colours.style(Tone::Faint));
        }
        KeyMode::Commands => {}
    }
    let mut spans = vec![Span::raw(" ")];
    if let Some(reason) = model.over() {
        let text = format!("{}  ", plain(reason));
        spans.push(Span::styled(text, colours.style(Tone::Bad)));
    }
    if !filter.is_empty() {
        let text = format!("filter {:?}  ", plain(filter));
        spans.push(Span::styled(text, colours.style(Tone::Warning)));
    }
    let all = [
        ("q", "quit"),
        ("?", "help"),
        ("Esc", "back"),
        ("Enter", "open"),
        ("/", "filter"),
        ("s", "sort"),
        ("p", "pause"),
        ("1-7", "panes"),
    ];
    let has_back = model.is_detail() || !filter.is_empty();
    for (key, meaning) in all {
        if key == "Esc" && !has_back {
            continue;
        }
        spans.push(Span::styled(key, BOLD));
        spans.push(Span::styled(
            format!(" {meaning}  "),
            colours.style(Tone::Faint),
        ));
    }
    Line::from(spans)
}

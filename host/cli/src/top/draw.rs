//! Drawing of the model on a screen of any size, with or without colours.
mod colours;
mod head;
pub mod layout;
mod wrap;

pub use colours::Colours;

use super::{
    detail::Fact,
    help,
    model::{KeyMode, ScreenContent, TopModel},
    table::Tone,
};
use crate::plain;
use colours::{BOLD, SELECTED};
use layout::{ColumnLayout, GAP, LaidColumn};
use ratatui::{
    Frame,
    layout::Rect,
    text::{Line, Span},
};

/// Maximum number of lines of one fact.
const MAX_FACT_LINES: usize = 4;

/// Width of the names of facts.
const FACT_NAME: usize = 10;

/// Draws the model.
pub fn draw(frame: &mut Frame<'_>, model: &mut TopModel, colours: Colours) {
    let area = frame.area();
    let mut lines = head::head(model, area.width, colours);
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

/// Returns the lines of details above their table.
fn details(content: &ScreenContent, width: u16, colours: Colours) -> Vec<Line<'static>> {
    let Some(title) = &content.title else {
        return Vec::new();
    };
    let mut lines = vec![Line::styled(format!(" {title}"), colours.title())];
    let room = usize::from(width).saturating_sub(FACT_NAME + 2).max(1);
    for Fact { name, value } in &content.facts {
        let parts = wrap::wrapped(value, room);
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
            let text = layout::aligned(&cell.text, *width, column.side, glyphs);
            spans.push(Span::styled(text, colours.style(cell.tone)));
            spans.push(Span::raw(" ".repeat(GAP)));
        }
        let line = head::spread(spans, Vec::new(), width);
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

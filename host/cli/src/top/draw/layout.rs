//! Widths of the columns of a table on a screen.
use super::{colours::HEAD, head::spread, wrap::columns};
use crate::{
    sort_value::SortDirection,
    table::Side,
    top::{
        form::Glyphs,
        model::ScreenContent,
        table::{DataColumn, DataTable},
    },
};
use ratatui::text::{Line, Span};

/// Space between two columns.
pub const GAP: usize = 2;

/// Minimum width of the column that becomes narrower.
const LEAST_FLEXIBLE: usize = 8;

/// Column on the screen.
pub struct LaidColumn {
    /// Position in the table.
    pub at: usize,
    /// Width, in cells of the screen.
    pub width: usize,
    /// Column.
    pub column: DataColumn,
}

/// Columns on the screen.
pub struct ColumnLayout(pub Vec<LaidColumn>);

impl ColumnLayout {
    /// Gives each column the width of its cells. The flexible one becomes narrower where there is no
    /// room, and then columns at the right are left out.
    pub fn of(content: &ScreenContent, screen: u16) -> ColumnLayout {
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

    /// Returns the line of titles.
    pub fn head(&self, content: &ScreenContent, glyphs: Glyphs, width: u16) -> Line<'static> {
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
pub fn aligned(text: &str, width: usize, side: Side, glyphs: Glyphs) -> String {
    let mut used = 0;
    let mut cut = String::new();
    for character in text.chars() {
        let more = columns(character.encode_utf8(&mut [0; 4]));
        if used + more > width {
            // The mark takes the place of the last characters.
            while used + 1 > width
                && let Some(last) = cut.pop()
            {
                used -= columns(last.encode_utf8(&mut [0; 4]));
            }
            cut.push(glyphs.cut());
            break;
        }
        cut.push(character);
        used += more;
    }
    let space = " ".repeat(width.saturating_sub(columns(&cut)));
    match side {
        Side::Left => cut + &space,
        Side::Right => space + &cut,
    }
}

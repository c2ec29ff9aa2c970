//! Tables for people, with columns as wide as their cells. Cells are escaped, since names come from
//! users and modules.
use crate::plain;

/// Alignment of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Left, for texts.
    Left,
    /// Right, for numbers.
    Right,
}

/// Formats a head and rows as lines with their line ends.
pub fn table<const N: usize>(head: [(&str, Side); N], rows: &[[String; N]]) -> String {
    lines(&head, rows.iter().map(|row| row.to_vec()))
}

/// Formats a head and rows, which have as many cells, as lines with their line ends.
pub fn lines(head: &[(&str, Side)], rows: impl Iterator<Item = Vec<String>>) -> String {
    let heads = head.iter().map(|(name, _)| (*name).to_owned()).collect();
    let lines: Vec<Vec<String>> = std::iter::once(heads)
        .chain(rows)
        .map(|row| row.iter().map(|cell| plain(cell)).collect())
        .collect();
    let mut widths = vec![0; head.len()];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            // Widths of `format!` count characters, too.
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |cells: &Vec<String>| {
        let columns = cells
            .iter()
            .zip(&widths)
            .zip(head)
            .map(|((cell, &width), (_, side))| match side {
                Side::Left => format!("{cell:width$}"),
                Side::Right => format!("{cell:>width$}"),
            });
        let line = columns.collect::<Vec<_>>().join("  ");
        line.trim_end().to_owned() + "\n"
    };
    lines.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_needed_and_names_do_no_harm() {
        let rows = [
            ["a\n\u{1b}[2J".to_owned(), "5".to_owned()],
            ["b\u{202e}".to_owned(), "1000".to_owned()],
        ];
        let text = table([("name", Side::Left), ("n", Side::Right)], &rows);
        assert_eq!(
            text,
            "name             n\na\\n\\u{1b}[2J     5\nb\\u{202e}     1000\n"
        );
    }
}

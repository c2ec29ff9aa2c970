//! Tables of `peal top`: columns, rows with keys, sorting and filtering. It does no I/O.
use crate::{
    plain,
    sort_value::{SortDirection, SortValue},
    table::Side,
};
use peal_server::admin::ChainOwner;

/// Identity of a row, which stays when the rows change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RowKey {
    /// Job of this namespace.
    Job(String),
    /// Proc of this rank.
    Proc(u32),
    /// Event code.
    Code(i32),
    /// Handler of an owner with this registration number.
    Handler(ChainOwner, u64),
    /// Module of an owner with this name and role.
    Module(ChainOwner, String, String),
    /// Passage of an event.
    Passage(u64),
    /// Step of a passage.
    Step(usize),
    /// Denial.
    Denial(u64),
    /// Sink of this name.
    Sink(String),
    /// User.
    User(u32),
    /// Resource of this name.
    Resource(String),
}

/// Meaning of a cell for its colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tone {
    /// Nothing particular.
    #[default]
    Plain,
    /// Of little interest.
    Faint,
    /// Good.
    Good,
    /// Worth a look.
    Warning,
    /// Bad.
    Bad,
}

/// Cell of a row.
#[derive(Clone, PartialEq, Debug)]
pub struct DataCell {
    /// Text, without control characters.
    pub text: String,
    /// Value by which the row is sorted.
    pub order: SortValue,
    /// Meaning.
    pub tone: Tone,
}

impl DataCell {
    /// Returns a cell with a text from outside.
    pub fn text(text: impl AsRef<str>) -> DataCell {
        let text = plain(text.as_ref());
        DataCell {
            order: SortValue::Text(text.clone()),
            text,
            tone: Tone::Plain,
        }
    }

    /// Returns a cell with a number in this form.
    pub fn number(text: impl Into<String>, number: f64) -> DataCell {
        DataCell {
            text: text.into(),
            order: SortValue::Number(number),
            tone: Tone::Plain,
        }
    }

    /// Returns a cell with a count.
    pub fn count(count: u64) -> DataCell {
        DataCell::number(count.to_string(), count as f64)
    }

    /// Sets the tone.
    pub fn tone(self, tone: Tone) -> DataCell {
        DataCell { tone, ..self }
    }

    /// Sets the tone if a condition holds, and else makes a zero faint.
    pub fn tone_if(self, holds: impl FnOnce(&SortValue) -> bool, tone: Tone) -> DataCell {
        if holds(&self.order) {
            self.tone(tone)
        } else {
            self.tone(Tone::Faint)
        }
    }
}

/// Returns true for a number above zero.
pub fn is_positive(value: &SortValue) -> bool {
    matches!(value, SortValue::Number(number) if *number > 0.0)
}

/// Column of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataColumn {
    /// Title.
    pub title: &'static str,
    /// Alignment.
    pub side: Side,
    /// Width of the screen from which the column is shown.
    pub screen: u16,
    /// Content of the cells.
    pub content: ColumnContent,
}

/// Content of a column's cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnContent {
    /// Values.
    Values,
    /// Drawings of values, for screens only.
    Drawings,
}

/// Table.
#[derive(Clone, Debug, Default)]
pub struct DataTable {
    /// Columns.
    pub columns: Vec<DataColumn>,
    /// Column that becomes narrower where there is no room.
    pub flexible: usize,
    /// Rows.
    pub rows: Vec<DataRow>,
    /// Message in place of rows.
    pub empty: &'static str,
    /// Line below the rows.
    pub remark: Option<String>,
}

/// Row of a table.
#[derive(Clone, Debug)]
pub struct DataRow {
    /// Identity.
    pub key: RowKey,
    /// Cells, one for each column.
    pub cells: Vec<DataCell>,
}

/// Order of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SortOrder {
    /// Position of the column.
    pub column: usize,
    /// Direction.
    pub direction: SortDirection,
}

impl DataTable {
    /// Keeps the rows that contain a text in any cell, regardless of case.
    pub fn filter(&mut self, text: &str) {
        let text = text.to_lowercase();
        if !text.is_empty() {
            self.rows.retain(|row| {
                row.cells
                    .iter()
                    .any(|cell| cell.text.to_lowercase().contains(&text))
            });
        }
    }

    /// Sorts the rows. Those of equal value keep their order.
    pub fn sort(&mut self, by: SortOrder) {
        self.rows.sort_by_cached_key(|row| {
            let cell = row.cells.get(by.column);
            by.direction.key(cell.map(|cell| cell.order.clone()))
        });
    }

    /// Returns the order by the column of this title, the largest value first.
    pub fn descending_by(&self, title: &str) -> Option<SortOrder> {
        let column = self
            .columns
            .iter()
            .position(|column| column.title == title)?;
        Some(SortOrder {
            column,
            direction: SortDirection::Descending,
        })
    }

    /// Returns the position of a row; that of the first row if the key is absent.
    pub fn position(&self, key: Option<&RowKey>) -> usize {
        let found = self.rows.iter().position(|row| Some(&row.key) == key);
        found.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> DataTable {
        let row = |name: &str, number: u64| DataRow {
            key: RowKey::Job(name.to_owned()),
            cells: vec![DataCell::text(name), DataCell::count(number)],
        };
        DataTable {
            rows: vec![row("b", 9), row("A", 10), row("c", 9)],
            ..DataTable::default()
        }
    }

    fn names(table: &DataTable) -> String {
        let names = table.rows.iter().map(|row| row.cells[0].text.clone());
        names.collect()
    }

    #[test]
    fn rows_are_sorted_by_value_and_stay_in_order() {
        let mut table = table();
        let by = |direction| SortOrder {
            column: 1,
            direction,
        };
        table.sort(by(SortDirection::Descending));
        assert_eq!(names(&table), "Abc");
        table.sort(by(SortDirection::Ascending));
        assert_eq!(names(&table), "bcA");
        assert_eq!(table.position(Some(&RowKey::Job("c".to_owned()))), 1);
        assert_eq!(table.position(None), 0);
    }

    #[test]
    fn filter_ignores_case_and_looks_at_all_cells() {
        let mut table = table();
        table.filter("9");
        assert_eq!(names(&table), "bc");
        table.filter("C");
        assert_eq!(names(&table), "c");
    }

    #[test]
    fn texts_from_outside_cannot_move_the_cursor() {
        let cell = DataCell::text("a\u{1b}[2J\n\u{202e}b");
        assert_eq!(cell.text, "a\\u{1b}[2J\\n\\u{202e}b");
    }
}

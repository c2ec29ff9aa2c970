//! Lists: as tables with usual and further columns, sorted by a column, and as names.
use crate::{
    args::OutputFormat,
    plain,
    sort_value::{SortDirection, SortKey, SortValue},
    table::{Side, lines},
};

/// Placeholder for a missing or unknown value.
pub const NONE: &str = "-";

/// Column of a list.
pub struct ListColumn<T> {
    /// Head of the column.
    name: &'static str,
    extent: ColumnExtent,
    content: CellSource<T>,
}

/// Tables that have a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ColumnExtent {
    /// All.
    Usual,
    /// Those of the format `wide`.
    Wide,
    /// Those with an item that has a value there.
    Given,
}

/// Content of the cells of a column, and the order by it.
enum CellSource<T> {
    /// Texts, in their order.
    Text(fn(&T) -> String),
    /// Texts, if an item has one.
    OptionalText(fn(&T) -> Option<String>),
    /// Numbers, if an item has one, and their form.
    Number {
        number: fn(&T) -> Option<f64>,
        shown: fn(f64) -> String,
    },
    /// Texts in the order of a number.
    NumberedText {
        cell: fn(&T) -> String,
        number: fn(&T) -> Option<f64>,
    },
}

impl<T> ListColumn<T> {
    /// Creates a column of texts.
    pub const fn text(name: &'static str, cell: fn(&T) -> String) -> ListColumn<T> {
        ListColumn {
            name,
            extent: ColumnExtent::Usual,
            content: CellSource::Text(cell),
        }
    }

    /// Creates a column of texts that items may lack.
    pub const fn optional_text(
        name: &'static str,
        cell: fn(&T) -> Option<String>,
    ) -> ListColumn<T> {
        ListColumn {
            name,
            extent: ColumnExtent::Usual,
            content: CellSource::OptionalText(cell),
        }
    }

    /// Creates a column of numbers.
    pub const fn number(
        name: &'static str,
        number: fn(&T) -> Option<f64>,
        shown: fn(f64) -> String,
    ) -> ListColumn<T> {
        ListColumn {
            name,
            extent: ColumnExtent::Usual,
            content: CellSource::Number { number, shown },
        }
    }

    /// Creates a column of texts in the order of a number.
    pub const fn numbered_text(
        name: &'static str,
        cell: fn(&T) -> String,
        number: fn(&T) -> Option<f64>,
    ) -> ListColumn<T> {
        ListColumn {
            name,
            extent: ColumnExtent::Usual,
            content: CellSource::NumberedText { cell, number },
        }
    }

    /// Shows the column only if an item has a value there.
    pub const fn if_given(self) -> ListColumn<T> {
        ListColumn {
            extent: ColumnExtent::Given,
            ..self
        }
    }

    /// Shows the column in wide tables only.
    pub const fn wide(self) -> ListColumn<T> {
        ListColumn {
            extent: ColumnExtent::Wide,
            ..self
        }
    }

    /// Returns the name of the column on the command line.
    pub fn option_name(&self) -> String {
        self.name.replace(' ', "-")
    }

    /// Returns the text of an item; `None` if it has none.
    fn cell(&self, item: &T) -> Option<String> {
        match self.content {
            CellSource::Text(cell) | CellSource::NumberedText { cell, .. } => Some(cell(item)),
            CellSource::OptionalText(cell) => cell(item),
            CellSource::Number { number, shown } => number(item).map(shown),
        }
    }

    fn side(&self) -> Side {
        match self.content {
            CellSource::Text(_) | CellSource::OptionalText(_) => Side::Left,
            CellSource::Number { .. } | CellSource::NumberedText { .. } => Side::Right,
        }
    }

    fn value(&self, item: &T) -> Option<SortValue> {
        match self.content {
            CellSource::Text(cell) => Some(SortValue::Text(cell(item))),
            CellSource::OptionalText(cell) => cell(item).map(SortValue::Text),
            CellSource::Number { number, .. } | CellSource::NumberedText { number, .. } => {
                number(item).map(SortValue::Number)
            }
        }
    }
}

/// Item of a list.
pub trait ListItem: Sized + 'static {
    /// Columns of the list.
    const COLUMNS: &'static [ListColumn<Self>];
    /// States by which the list can be filtered; none if items have no state.
    const STATES: &'static [&'static str] = &[];
}

/// Order of a list by one of its columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListOrder {
    /// Name of the column on the command line.
    column: String,
    direction: SortDirection,
}

impl ListOrder {
    /// Parses the name of a column of `T`, or `-` and the name for the descending order.
    ///
    /// # Errors
    ///
    /// Names the columns.
    pub fn parse<T: ListItem>(text: &str) -> Result<ListOrder, String> {
        let (column, direction) = match text.strip_prefix('-') {
            Some(column) => (column, SortDirection::Descending),
            None => (text, SortDirection::Ascending),
        };
        let names: Vec<String> = T::COLUMNS.iter().map(ListColumn::option_name).collect();
        if !names.iter().any(|name| name == column) {
            return Err(format!(
                "there is no column {column:?}; there are {}",
                names.join(", ")
            ));
        }
        Ok(ListOrder {
            column: column.to_owned(),
            direction,
        })
    }

    /// Returns the key by which an item is sorted.
    pub fn key<T: ListItem>(&self, item: &T) -> SortKey {
        let mut columns = T::COLUMNS.iter();
        let column = columns.find(|column| column.option_name() == self.column);
        let value = column.and_then(|column| column.value(item));
        self.direction.key(value)
    }

    /// Sorts items. Equal ones keep their order.
    pub fn sort<T: ListItem>(&self, items: &mut [T]) {
        items.sort_by_cached_key(|item| self.key(item));
    }
}

/// Selection of items, and their order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ListSelection {
    /// User of the items; none for all.
    pub user: Option<u32>,
    /// States of the items; empty for all.
    pub states: Vec<String>,
    /// Order; none for that of the server.
    pub order: Option<ListOrder>,
}

impl ListSelection {
    /// Returns true if the selection has what belongs to this user; none for what belongs to no user.
    pub fn has_user(&self, uid: Option<u32>) -> bool {
        self.user.is_none() || self.user == uid
    }

    /// Returns true if the selection has what is in this state.
    pub fn has_state(&self, state: &str) -> bool {
        self.states.is_empty() || self.states.iter().any(|wanted| wanted == state)
    }

    /// Sorts items, if there is an order.
    pub fn sort<T: ListItem>(&self, items: &mut [T]) {
        if let Some(order) = &self.order {
            order.sort(items);
        }
    }
}

/// Formats items as a table: with further columns if the format is `wide`.
pub fn listed<T: ListItem>(items: &[T], format: OutputFormat) -> String {
    let is_shown = |column: &&ListColumn<T>| match column.extent {
        ColumnExtent::Usual => true,
        ColumnExtent::Wide => format == OutputFormat::Wide,
        ColumnExtent::Given => items.iter().any(|item| column.cell(item).is_some()),
    };
    let columns: Vec<&ListColumn<T>> = T::COLUMNS.iter().filter(is_shown).collect();
    let head: Vec<(&str, Side)> = columns.iter().map(|of| (of.name, of.side())).collect();
    let cell = |of: &&ListColumn<T>, item: &T| of.cell(item).unwrap_or_else(|| NONE.to_owned());
    let row = |item: &T| columns.iter().map(|of| cell(of, item)).collect();
    lines(&head, items.iter().map(row))
}

/// Formats names, one a line. They are escaped, so that each stays in its line.
pub fn names(names: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let lines = names.into_iter().map(|name| plain(name.as_ref()) + "\n");
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sample(&'static str, Option<f64>);

    impl ListItem for Sample {
        const COLUMNS: &'static [ListColumn<Sample>] = &[
            ListColumn::<Sample>::text("name", |of| of.0.to_owned()),
            ListColumn::<Sample>::number("cpu time", |of| of.1, |of| of.to_string()),
            ListColumn::<Sample>::optional_text("given", |_| None).if_given(),
            ListColumn::<Sample>::text("more", |_| "x".to_owned()).wide(),
        ];
    }

    fn sorted(by: &str) -> Vec<&'static str> {
        let mut items = [
            Sample("b", Some(10.0)),
            Sample("a", Some(9.0)),
            Sample("c", None),
        ];
        ListOrder::parse::<Sample>(by).unwrap().sort(&mut items);
        items.iter().map(|of| of.0).collect()
    }

    #[test]
    fn lists_are_sorted_by_texts_and_numbers_in_both_directions() {
        for (by, expected) in [
            ("name", ["a", "b", "c"]),
            ("-name", ["c", "b", "a"]),
            ("cpu-time", ["c", "a", "b"]),
            ("-cpu-time", ["b", "a", "c"]),
        ] {
            assert_eq!(sorted(by), expected, "{by}");
        }
        let error = ListOrder::parse::<Sample>("-size").unwrap_err();
        assert_eq!(
            error,
            "there is no column \"size\"; there are name, cpu-time, given, more"
        );
    }

    #[test]
    fn columns_depend_on_the_format_and_the_items() {
        let items = [Sample("a\n", Some(1.5))];
        assert_eq!(
            listed(&items, OutputFormat::Text),
            "name  cpu time\na\\n        1.5\n"
        );
        assert_eq!(
            listed(&items, OutputFormat::Wide),
            "name  cpu time  more\na\\n        1.5  x\n"
        );
        assert_eq!(names(["a\n", "b"]), "a\\n\nb\n");
    }
}

//! Values by which tables are sorted, in both directions.
use std::cmp::{Ordering, Reverse};

/// Value by which a column is sorted.
#[derive(Clone, Debug)]
pub enum SortValue {
    /// Number.
    Number(f64),
    /// Text.
    Text(String),
}

impl Ord for SortValue {
    fn cmp(&self, other: &SortValue) -> Ordering {
        match (self, other) {
            (SortValue::Number(one), SortValue::Number(other)) => one.total_cmp(other),
            (SortValue::Text(one), SortValue::Text(other)) => one.cmp(other),
            (SortValue::Number(_), SortValue::Text(_)) => Ordering::Less,
            (SortValue::Text(_), SortValue::Number(_)) => Ordering::Greater,
        }
    }
}

impl PartialOrd for SortValue {
    fn partial_cmp(&self, other: &SortValue) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SortValue {
    fn eq(&self, other: &SortValue) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for SortValue {}

/// Direction of an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SortDirection {
    /// The smallest first.
    Ascending,
    /// The largest first.
    Descending,
}

/// Value of an item in an order of one direction. A value that is not known is less than all others.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SortKey {
    /// In the ascending order.
    Ascending(Option<SortValue>),
    /// In the descending order.
    Descending(Reverse<Option<SortValue>>),
}

impl SortDirection {
    /// Returns the other direction.
    pub fn reversed(self) -> SortDirection {
        match self {
            SortDirection::Ascending => SortDirection::Descending,
            SortDirection::Descending => SortDirection::Ascending,
        }
    }

    /// Returns the key of a value.
    pub fn key(self, value: Option<SortValue>) -> SortKey {
        match self {
            SortDirection::Ascending => SortKey::Ascending(value),
            SortDirection::Descending => SortKey::Descending(Reverse(value)),
        }
    }
}

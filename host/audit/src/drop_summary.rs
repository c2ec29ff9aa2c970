//! Summary of records that were dropped to free room or because of their age.
use peal_store::RowSummary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Summary of dropped records.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DropSummary {
    /// The number of the first dropped record.
    pub from: u64,
    /// The number of the last dropped record. Records between them may have stayed.
    pub to: u64,
    /// The time when the first was written, in milliseconds since the epoch.
    pub since: u64,
    /// The time when the last was written, in milliseconds since the epoch.
    pub until: u64,
    /// The number of records of each kind.
    pub kinds: BTreeMap<String, u64>,
}

impl DropSummary {
    /// Adds a record that is dropped.
    pub(crate) fn add(summary: &mut Option<DropSummary>, row: &RowSummary) {
        let first = || DropSummary {
            from: row.seq,
            to: row.seq,
            since: row.at,
            until: row.at,
            kinds: BTreeMap::new(),
        };
        let summary = summary.get_or_insert_with(first);
        // Records are added in their order, so the latest one ends the summary.
        (summary.to, summary.until) = (row.seq, row.at);
        *summary.kinds.entry(row.kind.clone()).or_default() += 1;
    }

    /// Merges two summaries.
    pub(crate) fn both(
        one: Option<DropSummary>,
        other: Option<DropSummary>,
    ) -> Option<DropSummary> {
        match (one, other) {
            (Some(mut one), Some(other)) => {
                for (kind, count) in other.kinds {
                    *one.kinds.entry(kind).or_default() += count;
                }
                // The ranges may overlap, so neither has to begin or end the whole.
                (one.from, one.to) = (one.from.min(other.from), one.to.max(other.to));
                (one.since, one.until) = (one.since.min(other.since), one.until.max(other.until));
                Some(one)
            }
            (one, other) => one.or(other),
        }
    }

    /// Returns the number of dropped records.
    pub fn count(&self) -> u64 {
        self.kinds.values().sum()
    }

    /// Returns the number of records of each kind as text.
    pub(crate) fn of_kinds(&self) -> String {
        of_kinds(&self.kinds)
    }
}

/// Returns the number of records of each kind as text.
pub(crate) fn of_kinds(kinds: &BTreeMap<String, u64>) -> String {
    let kinds: Vec<String> = kinds
        .iter()
        .map(|(kind, count)| format!("{count} of kind {kind}"))
        .collect();
    kinds.join(", ")
}

//! Counts of missed events by code.
use peal_model::Status;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Counts of events, in all and by code, for a bounded number of codes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CodeCounts {
    max_codes: usize,
    pub(super) total: u64,
    by_code: BTreeMap<Status, u64>,
    /// Events of codes without a count of their own.
    other_codes: u64,
}

impl CodeCounts {
    /// Creates counts for at most this number of codes.
    pub(super) fn new(max_codes: usize) -> CodeCounts {
        CodeCounts {
            max_codes,
            total: 0,
            by_code: BTreeMap::new(),
            other_codes: 0,
        }
    }

    /// Counts an event of this code.
    pub(super) fn count(&mut self, code: Status) {
        self.count_several(Some(code), 1);
    }

    /// Counts events of this code; without one, of any codes.
    pub(super) fn count_several(&mut self, code: Option<Status>, number: u64) {
        self.total = self.total.saturating_add(number);
        let count = match code {
            None => &mut self.other_codes,
            Some(code) if self.by_code.len() < self.max_codes => {
                self.by_code.entry(code).or_default()
            }
            Some(code) => self.by_code.get_mut(&code).unwrap_or(&mut self.other_codes),
        };
        *count = count.saturating_add(number);
    }

    /// Returns an upper bound of the missed events of these codes (none: every code), without codes
    /// that are registered already: `receives` reports so for a code, or for every code. An event
    /// without a count for its code may be of any code that has none.
    pub(super) fn missed(
        &self,
        codes: &[Status],
        receives: impl Fn(Option<Status>) -> bool,
    ) -> u64 {
        let requested: BTreeSet<Status> = codes
            .iter()
            .copied()
            .filter(|code| !receives(Some(*code)))
            .collect();
        let (counted, others) = if codes.is_empty() {
            let counted = self
                .by_code
                .iter()
                .filter(|(code, _)| !receives(Some(**code)))
                .fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
            // A default registration also covers the codes without a count.
            (counted, !receives(None))
        } else {
            let counted = requested
                .iter()
                .filter_map(|code| self.by_code.get(code))
                .fold(0, |sum: u64, count| sum.saturating_add(*count));
            (
                counted,
                requested
                    .iter()
                    .any(|code| !self.by_code.contains_key(code)),
            )
        };
        if others {
            counted.saturating_add(self.other_codes)
        } else {
            counted
        }
    }

    /// Takes the events of the codes that are registered, and those of codes without a count.
    /// Returns their number.
    pub(super) fn take(&mut self, receives: impl Fn(Status) -> bool) -> u64 {
        let counted: u64 = self
            .by_code
            .extract_if(.., |code, _| receives(*code))
            .fold(0, |sum: u64, (_, count)| sum.saturating_add(count));
        let taken = counted.saturating_add(std::mem::take(&mut self.other_codes));
        self.total = self.total.saturating_sub(taken);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_CODES: usize = 1024;

    #[test]
    fn missed_events_are_counted_by_code_while_there_is_room() {
        let mut counts = CodeCounts::new(MAX_CODES);
        for code in 0..1200 {
            counts.count(Status(-code));
            counts.count(Status(0));
        }
        let never = |_: Option<Status>| false;
        assert_eq!(
            (counts.total, counts.by_code.len(), counts.other_codes),
            (2400, MAX_CODES, 176)
        );
        assert_eq!(
            counts.missed(&[Status(0), Status(0), Status(-1)], never),
            1202
        );
        assert_eq!(
            counts.missed(&[Status(-1), Status(-1199)], never),
            177,
            "as many as it may be"
        );
        assert_eq!(counts.missed(&[], never), 2400);
        assert_eq!(counts.missed(&[], |code| code == Some(Status(0))), 1199);
        assert_eq!(counts.missed(&[], |_| true), 0);
    }

    #[test]
    fn taken_events_are_not_counted_again() {
        let mut counts = CodeCounts::new(2);
        [-1, -1, -2, -3]
            .into_iter()
            .for_each(|code| counts.count(Status(code)));
        assert_eq!(
            counts.take(|code| code == Status(-1)),
            3,
            "the third code has no count of its own"
        );
        assert_eq!((counts.take(|_| true), counts.total), (1, 0));
    }
}

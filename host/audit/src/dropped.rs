//! Signed statements about records that the server dropped between records that stay. They
//! distinguish records dropped by the server from records removed by an attacker.
//!
//! A statement covers a range of records. For each run of dropped records it holds the hash of the
//! record before the run and the hash of the last record of the run. So the hash chain can be
//! followed across the run, and the records before it cannot be rewritten.
use crate::{
    EntryError, Keys, SealPublicKey,
    entry::{from_cbor, to_cbor},
    hash_chain::ChainHead,
};
use peal_sandbox::Digest;
use peal_store::{DroppedRows, RowClass, RowSummary};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum number of runs of a statement that is extended. Extending an unbroken run costs the same
/// regardless of its length.
const RUNS_ADDED_TO: usize = 64;

/// A range of records of which some were dropped.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct DroppedRange {
    /// The first record of the range.
    pub(crate) from: u64,
    /// The last record of the range.
    pub(crate) to: u64,
    /// The hash of the last record of the range.
    pub(crate) end: Digest,
    /// The number of dropped records of each kind.
    pub(crate) kinds: BTreeMap<String, u64>,
    pub(crate) runs: Vec<DroppedRun>,
}

/// Consecutive records that were all dropped.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct DroppedRun {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The hash of the record before the run.
    pub(crate) before: Digest,
    /// The hash of the last record of the run.
    pub(crate) hash: Digest,
}

impl DroppedRange {
    /// Builds the range of `rows`, which follow `before`, up to the row at which `most_bytes` bytes
    /// are dropped; `None` without rows.
    pub(crate) fn of(
        before: ChainHead,
        rows: &[RowSummary],
        most_bytes: u64,
    ) -> Option<DroppedRange> {
        let mut last = Digest(before.1);
        let mut bytes = 0;
        let mut range = DroppedRange {
            from: rows.first()?.seq,
            to: before.0,
            end: last,
            kinds: BTreeMap::new(),
            runs: Vec::new(),
        };
        for row in rows {
            let hash = Digest(row.hash);
            if row.class == RowClass::Passing {
                match range.runs.last_mut() {
                    Some(run) if run.to + 1 == row.seq => (run.to, run.hash) = (row.seq, hash),
                    _ => range.runs.push(DroppedRun {
                        from: row.seq,
                        to: row.seq,
                        before: last,
                        hash,
                    }),
                }
                *range.kinds.entry(row.kind.clone()).or_default() += 1;
                bytes += row.bytes;
            }
            // Also for records that stay, because the next run begins after one of them.
            last = hash;
            (range.to, range.end) = (row.seq, hash);
            if bytes >= most_bytes {
                break;
            }
        }
        Some(range)
    }

    /// Joins both ranges if `other` follows and the runs fit in one statement; otherwise returns
    /// `other`.
    pub(crate) fn followed_by(self, other: DroppedRange) -> Successor {
        if self.to + 1 != other.from || self.runs.len() + other.runs.len() > RUNS_ADDED_TO {
            return Successor::Beside(other);
        }
        let DroppedRange {
            from,
            mut kinds,
            mut runs,
            ..
        } = self;
        for (kind, count) in other.kinds {
            *kinds.entry(kind).or_default() += count;
        }
        for run in other.runs {
            match runs.last_mut() {
                Some(last) if last.to + 1 == run.from => (last.to, last.hash) = (run.to, run.hash),
                _ => runs.push(run),
            }
        }
        Successor::Joined(DroppedRange {
            from,
            to: other.to,
            end: other.end,
            kinds,
            runs,
        })
    }

    /// Returns the signed statement.
    pub(crate) fn signed(&self, keys: &Keys) -> Result<DroppedRows, EntryError> {
        let body = to_cbor(self)?;
        let signature = keys.sign(&text(self.to, &body));
        Ok(DroppedRows {
            last: self.to,
            body,
            signature,
        })
    }

    /// Returns the content of a statement if `key` signed it.
    pub(crate) fn by(key: &SealPublicKey, rows: &DroppedRows) -> Option<DroppedRange> {
        let is_signed = key.has_signed(&text(rows.last, &rows.body), &rows.signature);
        DroppedRange::read(rows)
            .ok()
            .filter(|range| is_signed && range.to == rows.last)
    }

    /// Returns the content of a statement written by this server, without a check of its signature.
    pub(crate) fn read(rows: &DroppedRows) -> Result<DroppedRange, EntryError> {
        from_cbor(&rows.body)
    }
}

/// Signed statement, and the one that it replaces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DroppedStatement {
    pub(crate) rows: DroppedRows,
    /// The last record of the replaced statement.
    pub(crate) replaced: Option<u64>,
}

/// Statement for a range that follows another range.
pub(crate) enum Successor {
    /// A new statement beside the previous one.
    Beside(DroppedRange),
    /// A statement that replaces the previous one.
    Joined(DroppedRange),
}

/// Returns the signed text.
fn text(last: u64, body: &[u8]) -> String {
    format!("peal-audit 2 dropped {last} {}", Digest::of(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(classes: &str, first: u64) -> Vec<RowSummary> {
        let row = |(seq, class)| RowSummary {
            seq,
            at: 0,
            kind: "call".to_owned(),
            class: if class == 'x' {
                RowClass::Passing
            } else {
                RowClass::Lasting
            },
            bytes: 10,
            hash: [seq as u8; 32],
        };
        (first..).zip(classes.chars()).map(row).collect()
    }

    fn runs(range: &DroppedRange) -> Vec<(u64, u64)> {
        range.runs.iter().map(|run| (run.from, run.to)).collect()
    }

    #[test]
    fn runs_are_dropped_records_and_name_adjacent_ones() {
        let range = DroppedRange::of((0, [9; 32]), &rows("xx-x--xx", 1), 1000).unwrap();
        assert_eq!(runs(&range), [(1, 2), (4, 4), (7, 8)]);
        assert_eq!(
            (range.runs[0].before, range.runs[0].hash),
            (Digest([9; 32]), Digest([2; 32]))
        );
        assert_eq!(
            (range.runs[1].before, range.runs[1].hash),
            (Digest([3; 32]), Digest([4; 32]))
        );
        assert_eq!(
            (range.from, range.to, range.end, range.kinds["call"]),
            (1, 8, Digest([8; 32]), 5)
        );
        let cut = DroppedRange::of((0, [9; 32]), &rows("xx-x--xx", 1), 30).unwrap();
        assert_eq!((cut.to, runs(&cut)), (4, vec![(1, 2), (4, 4)]));
    }

    #[test]
    fn unbroken_run_is_one_however_often_it_is_added_to() {
        let mut all = DroppedRange::of((0, [0; 32]), &rows("xxx", 1), 1000).unwrap();
        for number in 1..100 {
            let next = DroppedRange::of((number * 3, [1; 32]), &rows("xxx", number * 3 + 1), 1000)
                .unwrap();
            let Successor::Joined(joined) = all.followed_by(next) else {
                panic!("{number}")
            };
            all = joined;
        }
        assert_eq!((runs(&all), all.kinds["call"]), (vec![(1, 300)], 300));
    }

    #[test]
    fn statements_of_others_are_not_believed() {
        let keys = Keys::of(&[7; 32]);
        let range = DroppedRange::of((0, [0; 32]), &rows("x-x", 1), 1000).unwrap();
        let signed = range.signed(&keys).unwrap();
        assert_eq!(DroppedRange::by(&keys.public(), &signed), Some(range));
        assert_eq!(
            DroppedRange::by(&Keys::of(&[8; 32]).public(), &signed),
            None
        );
        assert_eq!(
            DroppedRange::by(&keys.public(), &DroppedRows { last: 4, ..signed }),
            None
        );
    }
}

//! Verification of a trail: each row follows from the one before, and the trail matches its seals.
//! Violations are reported in order.
use crate::{
    AuditError, RecoveredRecords, SealPublicKey, Statement, TrailSource,
    drop_summary::of_kinds,
    dropped::{DroppedRange, DroppedRun},
    hash_chain::{FIRST, hash_of},
    source::call_of,
};
use peal_sandbox::Digest;
use peal_store::{Filter, SealKind, TrailRow};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
};

/// Distance in rows within which a displaced record is searched.
const WINDOW: usize = 64;
/// Maximum number of reported findings, since one change can cause many.
const MAX_FINDINGS: usize = 100;

/// Violation found by the verification.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Finding {
    /// A record was altered.
    Altered {
        /// The record.
        seq: u64,
    },
    /// Records were removed.
    Removed {
        /// The first removed record.
        from: u64,
        /// The last removed record.
        to: u64,
    },
    /// A record is at the place of another one.
    Reordered {
        /// The place, which now has another record.
        seq: u64,
        /// The present place of the record.
        to: u64,
    },
    /// A record was inserted.
    Inserted {
        /// The place.
        seq: u64,
    },
    /// Records and their hashes were rewritten, somewhere between two seals.
    Rewritten {
        /// The last record before the range.
        after: u64,
        /// The last record of the range.
        to: u64,
    },
    /// A seal was not made with the expected key.
    Unsealed {
        /// The sealed record.
        seq: u64,
        /// The kind of seal.
        kind: &'static str,
    },
    /// Bytes that records refer to are missing or differ.
    Bytes {
        /// The first record that refers to them.
        seq: u64,
        /// The expected digest.
        digest: Digest,
    },
}

impl Finding {
    /// Returns the first affected record.
    pub fn seq(&self) -> u64 {
        match self {
            Finding::Altered { seq }
            | Finding::Reordered { seq, .. }
            | Finding::Inserted { seq }
            | Finding::Unsealed { seq, .. }
            | Finding::Bytes { seq, .. } => *seq,
            Finding::Removed { from, .. } => *from,
            Finding::Rewritten { after, .. } => after + 1,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Altered { seq } => write!(f, "record {seq} was altered"),
            Finding::Removed { from, to } if from == to => write!(f, "record {from} was removed"),
            Finding::Removed { from, to } => write!(f, "records {from} to {to} were removed"),
            Finding::Reordered { seq, to } => {
                write!(f, "record {seq} was reordered: its position is {to}")
            }
            Finding::Inserted { seq } => write!(f, "record {seq} was inserted"),
            Finding::Rewritten { after, to } => {
                write!(
                    f,
                    "records were rewritten with their hashes, somewhere from {} to {to}",
                    after + 1
                )
            }
            Finding::Unsealed { seq, kind } => {
                write!(f, "the {kind} at record {seq} is not signed by this key")
            }
            Finding::Bytes { seq, digest } => {
                write!(
                    f,
                    "record {seq} refers to {digest}, which is missing or has other bytes"
                )
            }
        }
    }
}

/// Result of a verification.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verified {
    /// The number of records.
    pub records: u64,
    /// The first record.
    pub first: Option<u64>,
    /// The last record.
    pub last: Option<u64>,
    /// The number of valid seals, including those that were kept elsewhere.
    pub seals: u64,
    /// The violations in order, at most `MAX_FINDINGS` of them.
    pub findings: Vec<Finding>,
    /// The last record of those that the server dropped from the beginning; 0 if it dropped none
    /// there.
    pub begins_after: u64,
    /// Records that the server dropped between others, in order. They are not violations.
    pub dropped: Vec<DroppedRecords>,
    /// Records that are only in the journal, and so neither sealed nor verified. They are not
    /// violations.
    pub waiting: Option<RecoveredRecords>,
}

/// Records that the server dropped according to its signed statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DroppedRecords {
    /// The first record of the range.
    pub from: u64,
    /// The last record of the range.
    pub to: u64,
    /// The number of dropped records of each kind.
    pub kinds: BTreeMap<String, u64>,
}

impl DroppedRecords {
    /// Returns the number of dropped records.
    pub fn count(&self) -> u64 {
        self.kinds.values().sum()
    }
}

impl fmt::Display for DroppedRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DroppedRecords { from, to, kinds } = self;
        write!(
            f,
            "of records {from} to {to} the server dropped {}: {}",
            self.count(),
            of_kinds(kinds)
        )
    }
}

/// Verifies all records, also against checkpoints that were kept elsewhere.
pub fn verify(
    source: &TrailSource,
    key: &SealPublicKey,
    elsewhere: &[Statement],
) -> Result<Verified, AuditError> {
    let mut check = TrailCheck::new(key);
    let anchor = source.seal(SealKind::Anchor)?;
    if let Some(anchor) = &anchor {
        check.expect(anchor.clone());
        // The server dropped all before the anchor, so the chain begins there.
        check.last = anchor.row();
    }
    let begins = check.last.0;
    check.verified.begins_after = begins;
    for rows in source.dropped()? {
        match DroppedRange::by(key, &rows) {
            Some(range) => check.expect_dropped(range, begins),
            None => check.found(Finding::Unsealed {
                seq: rows.last,
                kind: "statement of what was dropped",
            }),
        }
    }
    source
        .checkpoints()?
        .into_iter()
        .for_each(|seal| check.expect(seal));
    elsewhere
        .iter()
        // A seal of a dropped record has nothing to be compared with.
        .filter(|seal| seal.row().0 > begins)
        .cloned()
        .for_each(|seal| check.expect(seal));
    let mut waiting: VecDeque<TrailRow> = VecDeque::new();
    source.each::<AuditError>(&Filter::default(), |row| {
        check.bytes(source, &row)?;
        waiting.push_back(row);
        // A displaced record is looked for among the rows that follow, so some are read ahead.
        if waiting.len() > WINDOW {
            check.next(&mut waiting);
        }
        Ok(())
    })?;
    while !waiting.is_empty() {
        check.next(&mut waiting);
    }
    check.end(source.seal(SealKind::Head)?);
    check.verified.waiting = source.waiting(check.last.0)?;
    check.explain();
    check.verified.findings.sort_by_key(Finding::seq);
    check.verified.findings.dedup();
    check.verified.findings.truncate(MAX_FINDINGS);
    Ok(check.verified)
}

struct TrailCheck<'a> {
    key: &'a SealPublicKey,
    /// The previous row.
    last: (u64, [u8; 32]),
    /// The last row that a valid seal covers.
    sealed: u64,
    /// The seals of later rows.
    expected: BTreeMap<u64, Vec<Statement>>,
    /// Dropped runs by the number of their first record.
    dropped: BTreeMap<u64, DroppedRun>,
    /// Digests of bytes that were already checked.
    bytes: BTreeSet<Digest>,
    verified: Verified,
}

impl<'a> TrailCheck<'a> {
    fn new(key: &'a SealPublicKey) -> TrailCheck<'a> {
        let expected = BTreeMap::new();
        let dropped = BTreeMap::new();
        let bytes = BTreeSet::new();
        TrailCheck {
            key,
            last: (0, FIRST),
            sealed: 0,
            expected,
            dropped,
            bytes,
            verified: Verified::default(),
        }
    }

    fn found(&mut self, finding: Finding) {
        self.verified.findings.push(finding);
    }

    /// Adds a seal to check, or a violation if the signature is invalid.
    fn expect(&mut self, seal: Statement) {
        let (seq, _) = seal.row();
        if seal.is_by(self.key) {
            self.expected.entry(seq).or_default().push(seal);
        } else {
            self.found(Finding::Unsealed {
                seq,
                kind: seal.kind,
            });
        }
    }

    /// Adds a signed range of dropped records. Parts before `begins` are ignored.
    fn expect_dropped(&mut self, range: DroppedRange, begins: u64) {
        let DroppedRange {
            from,
            to,
            kinds,
            runs,
            ..
        } = range;
        // A range without dropped records only marks what was examined.
        if to > begins && !kinds.is_empty() {
            match self.verified.dropped.last_mut() {
                Some(before) if before.to + 1 == from => {
                    before.to = to;
                    kinds
                        .into_iter()
                        .for_each(|(kind, count)| *before.kinds.entry(kind).or_default() += count);
                }
                _ => self
                    .verified
                    .dropped
                    .push(DroppedRecords { from, to, kinds }),
            }
        }
        // Runs before the beginning have gone with the records around them.
        self.dropped.extend(
            runs.into_iter()
                .filter(|run| run.from > begins)
                .map(|run| (run.from, run)),
        );
    }

    /// Follows the hash chain across dropped runs up to the record before `seq`. Other missing
    /// records were removed.
    fn cross_dropped(&mut self, seq: u64) {
        while self.last.0 + 1 < seq {
            let wanted = self.last.0 + 1;
            // A run that reaches beyond this record contradicts it, and is not followed.
            if let Some(run) = self.dropped.remove(&wanted).filter(|run| run.to < seq) {
                self.cross(&run);
                continue;
            }
            // The chain goes on before the next run, whose statement holds that hash.
            let next = self
                .dropped
                .range(wanted..seq)
                .next()
                .map(|(_, run)| (run.from - 1, run.before.0));
            self.found(Finding::Removed {
                from: wanted,
                to: next.map_or(seq - 1, |(to, _)| to),
            });
            match next {
                Some(before) => self.last = before,
                None => return,
            }
        }
    }

    fn cross(&mut self, run: &DroppedRun) {
        if run.before.0 != self.last.1 {
            self.found(Finding::Rewritten {
                after: self.sealed,
                to: self.last.0,
            });
        }
        // A seal kept elsewhere can only be compared if it is about the last record of the run.
        let later = self.expected.split_off(&(run.to + 1));
        let seals = std::mem::replace(&mut self.expected, later)
            .remove(&run.to)
            .unwrap_or_default();
        if seals.iter().any(|seal| seal.row().1 != run.hash.0) {
            self.found(Finding::Rewritten {
                after: self.sealed,
                to: run.to,
            });
        }
        self.verified.seals += seals.len() as u64;
        (self.last, self.sealed) = ((run.to, run.hash.0), run.to);
    }

    /// Checks the oldest row of the window.
    fn next(&mut self, waiting: &mut VecDeque<TrailRow>) {
        let Some(row) = waiting.pop_front() else {
            return;
        };
        self.verified.records += 1;
        self.verified.first.get_or_insert(row.seq);
        self.verified.last = Some(row.seq);
        self.cross_dropped(row.seq);
        let wanted = self.last.0 + 1;
        if row.seq < wanted {
            self.found(Finding::Inserted { seq: row.seq });
        } else if row.seq == wanted && hash_of(&self.last.1, &row) != row.hash {
            let finding = self
                .displaced(&row, waiting)
                .unwrap_or(Finding::Altered { seq: row.seq });
            self.found(finding);
        }
        // Go on with the hash that is stored: one altered record must not make all later ones seem
        // altered.
        self.last = (row.seq, row.hash);
        let seals = self.expected.remove(&row.seq).unwrap_or_default();
        if seals.iter().any(|seal| seal.row().1 != row.hash) {
            self.found(Finding::Rewritten {
                after: self.sealed,
                to: row.seq,
            });
        }
        if !seals.is_empty() {
            self.sealed = row.seq;
            self.verified.seals += seals.len() as u64;
        }
    }

    /// Finds out whether the row that belongs here is further on.
    fn displaced(&self, row: &TrailRow, waiting: &VecDeque<TrailRow>) -> Option<Finding> {
        let here = |other: &TrailRow| {
            // The hash covers the number, so the row is tried with the number of this place.
            hash_of(
                &self.last.1,
                &TrailRow {
                    seq: row.seq,
                    ..other.clone()
                },
            ) == other.hash
        };
        let to = waiting.iter().find(|other| here(other))?.seq;
        // If this row fits at the other place, the two were exchanged.
        let before = waiting
            .iter()
            .find(|other| other.seq + 1 == to)
            .map_or(&row.hash, |other| &other.hash);
        let there = |before: &[u8; 32]| {
            hash_of(
                before,
                &TrailRow {
                    seq: to,
                    ..row.clone()
                },
            ) == row.hash
        };
        let fits = waiting
            .iter()
            .map(|other| &other.hash)
            .chain([before])
            .any(there);
        Some(if fits {
            Finding::Reordered { seq: row.seq, to }
        } else {
            Finding::Inserted { seq: row.seq }
        })
    }

    /// Removes findings about ranges in which a more precise finding exists.
    fn explain(&mut self) {
        let known: BTreeSet<u64> = self
            .verified
            .findings
            .iter()
            .filter(|finding| {
                !matches!(
                    finding,
                    // A finding about a range or a seal does not say which record is wrong.
                    Finding::Rewritten { .. } | Finding::Unsealed { .. }
                )
            })
            .map(Finding::seq)
            .collect();
        self.verified.findings.retain(|finding| match finding {
            Finding::Rewritten { after, to } => known.range(after + 1..=*to).next().is_none(),
            _ => true,
        });
    }

    /// Checks the bytes that a record refers to.
    fn bytes(&mut self, source: &TrailSource, row: &TrailRow) -> Result<(), AuditError> {
        // An unreadable record was altered; the hash check reports it.
        let Ok(Some(call)) = call_of(row) else {
            return Ok(());
        };
        // The facts of a module are checked once.
        if !self.bytes.insert(call.facts) {
            return Ok(());
        }
        let mut wanted = vec![call.facts];
        if let Ok(Some(facts)) = source.facts(&call) {
            wanted.push(facts.digest);
        }
        for digest in wanted {
            if source
                .blob(&digest)?
                .is_none_or(|bytes| Digest::of(&bytes) != digest)
            {
                self.found(Finding::Bytes {
                    seq: row.seq,
                    digest,
                });
            }
        }
        Ok(())
    }

    /// Compares the end of the trail with the head seal.
    fn end(&mut self, head: Option<Statement>) {
        let (last, hash) = self.last;
        // A seal of a record beyond the end proves that the record existed.
        let missing = self
            .expected
            .keys()
            .copied()
            .filter(|seq| *seq > last)
            .max();
        match head {
            None if last > 0 => self.found(Finding::Unsealed {
                seq: last,
                kind: "seal of the last record",
            }),
            None => {}
            Some(head) if !head.is_by(self.key) => self.found(Finding::Unsealed {
                seq: head.row().0,
                kind: head.kind,
            }),
            Some(head) => match head.row() {
                (seq, sealed) if seq == last => {
                    self.verified.seals += 1;
                    if sealed != hash {
                        self.found(Finding::Rewritten {
                            after: self.sealed,
                            to: last,
                        });
                    }
                }
                // The server seals the end with each write, so it has not written what follows the
                // seal.
                (seq, _) if seq < last => self.found(Finding::Inserted { seq: seq + 1 }),
                (seq, _) => self.found(Finding::Removed {
                    from: last + 1,
                    to: seq,
                }),
            },
        }
        if let Some(to) = missing {
            self.found(Finding::Removed { from: last + 1, to });
        }
    }
}

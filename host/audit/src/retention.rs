//! Retention of records. When the trail is full, the oldest calls and denials are dropped.
//! Decisions have their own share and are dropped only beyond that share and above an age.
use crate::{
    AuditError, DropSummary,
    dropped::DroppedRange,
    hash_chain::{ChainHead, ChainLink, FIRST},
    now,
    signer::{OpenSigner, SignerRules},
    source::PAGE_ROWS,
};
use peal_store::{Filter, RowClass, RowSummary, SealKind, Trail, TrailRow, TrailSize};
use std::time::Duration;

/// Percentage of the maximum size from which records are dropped.
const DROP_FROM_PERCENT: u64 = 90;
/// Maximum number of records dropped in one step, since writes wait meanwhile.
const MAX_DROPPED_PER_STEP: u32 = 2000;
/// A step drops about the maximum size divided by this number.
const DROP_STEP_DIVISOR: u64 = 10;
/// Space is scarce if calls and denials that may be dropped take less than the maximum size divided by this number.
const SCARCE_DIVISOR: u64 = 20;
/// Maximum number of ranges without droppable records that are examined in one step.
const MAX_EXAMINED_RANGES: usize = 16;

/// Rules for keeping records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrailRetention {
    /// Maximum age of a record; `None` for no limit.
    pub keep: Option<Duration>,
    /// Age below which decisions are not dropped to free space.
    pub decision_age: Duration,
    /// Age below which calls and denials are not dropped to free space.
    pub call_age: Duration,
    /// Percentage of the maximum size that is reserved for decisions.
    pub decision_percent: u32,
    /// Percentage of the maximum size that decisions about one user may take when space is scarce.
    pub user_percent: u32,
    /// Percentage of the maximum size that calls and denials of one user may take when no space can
    /// be freed.
    pub user_call_percent: u32,
}

impl Default for TrailRetention {
    fn default() -> TrailRetention {
        let week = Duration::from_secs(7 * 86_400);
        TrailRetention {
            keep: None,
            decision_age: week,
            call_age: Duration::from_secs(600),
            decision_percent: 50,
            user_percent: 25,
            user_call_percent: 25,
        }
    }
}

/// Reason for dropping records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DropReason {
    /// Keep some space free.
    Usual,
    /// There is no space for the records to write.
    Room,
}

/// Space for records of all users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FreeSpace {
    /// There is space, or records can be dropped.
    Ample,
    /// The trail is full of records that stay.
    Scarce,
}

fn is_full(room: TrailSize) -> bool {
    // Divided first, so that no product overflows.
    room.used / 100 >= room.max / 100 * DROP_FROM_PERCENT / 100
}

fn long_ago(age: Duration) -> u64 {
    now().saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
}

fn used(trail: &Trail, class: RowClass) -> Result<u64, AuditError> {
    Ok(trail
        .used()?
        .iter()
        .filter(|used| used.class == class)
        .map(|used| used.bytes)
        .sum())
}

impl TrailRetention {
    /// Returns `percent` percent of the maximum size.
    pub(crate) fn share(percent: u32, most: u64) -> u64 {
        // Divided first, so that the product does not overflow.
        most / 100 * u64::from(percent)
    }

    /// Returns the ages that a signer requires: a record is dropped to free space or because it is
    /// old enough to be dropped in any case.
    pub fn signer_rules(self) -> SignerRules {
        let at_most = |age: Duration| self.keep.map_or(age, |keep| keep.min(age));
        SignerRules {
            oldest_age: at_most(self.decision_age),
            passing_age: at_most(self.call_age),
        }
    }

    /// Drops records that are due, never the last record. Returns a summary of them.
    pub(crate) fn apply(
        self,
        trail: &Trail,
        signer: &OpenSigner,
        need: DropReason,
    ) -> Result<Option<DropSummary>, AuditError> {
        let room = trail.size()?;
        let newest = trail.seal(SealKind::Head)?.map_or(0, |head| head.seq);
        let cut = TrailPruning {
            trail,
            signer,
            newest,
            most_bytes: room.max / DROP_STEP_DIVISOR,
        };
        if let Some(limit) = self.keep.map(long_ago)
            && let Some(gone) = cut.oldest(limit)?
        {
            return Ok(Some(gone));
        }
        if need == DropReason::Usual && !is_full(room) {
            return Ok(None);
        }
        let limit = long_ago(self.decision_age);
        // Decisions beyond their share go before calls and denials do, if they are old enough.
        if used(trail, RowClass::Lasting)? > TrailRetention::share(self.decision_percent, room.max)
            && let Some(gone) = cut.oldest(limit)?
        {
            return Ok(Some(gone));
        }
        // Decisions go only when neither calls nor denials are left to drop.
        match cut.passing(long_ago(self.call_age))? {
            None => cut.oldest(limit),
            gone => Ok(gone),
        }
    }

    /// Returns whether there is space for records of all users.
    pub(crate) fn supply(self, trail: &Trail) -> Result<FreeSpace, AuditError> {
        let room = trail.size()?;
        // Nothing can be dropped: few calls and denials are left or they are too young, and the
        // oldest record is too young as well.
        let is_scarce = is_full(room)
            && trail
                .outlines(0, 1)?
                .iter()
                .all(|oldest| oldest.at >= long_ago(self.decision_age))
            && (used(trail, RowClass::Passing)? < room.max / SCARCE_DIVISOR
                || trail
                    .oldest(RowClass::Passing)?
                    .is_none_or(|oldest| oldest >= long_ago(self.call_age)));
        Ok(if is_scarce {
            FreeSpace::Scarce
        } else {
            FreeSpace::Ample
        })
    }
}

/// Drops records of a trail.
struct TrailPruning<'a> {
    trail: &'a Trail,
    signer: &'a OpenSigner,
    /// The last record, which stays.
    newest: u64,
    /// The approximate number of bytes dropped in one step.
    most_bytes: u64,
}

impl TrailPruning<'_> {
    /// Drops the oldest records of any kind that were written before this time.
    fn oldest(&self, limit: u64) -> Result<Option<DropSummary>, AuditError> {
        // Usually nothing is due; the oldest record suffices to find out.
        if !self.trail.outlines(0, 1)?.iter().any(|row| row.at < limit) {
            return Ok(None);
        }
        let rows = self.trail.outlines(0, MAX_DROPPED_PER_STEP)?;
        let mut gone = None;
        let mut bytes = 0;
        let mut last = None;
        for row in rows
            .iter()
            // The newest record stays: the head seal is about it.
            .take_while(|row| row.at < limit && row.seq < self.newest)
        {
            DropSummary::add(&mut gone, row);
            (bytes, last) = (bytes + row.bytes, Some(row.seq));
            if bytes >= self.most_bytes {
                break;
            }
        }
        let Some(row) = last.map(|last| self.row(last)).transpose()?.flatten() else {
            return Ok(None);
        };
        let before = (row.seq.saturating_sub(1), self.hash_before(row.seq)?);
        let anchor = self.signer.anchor(before, ChainLink::of(&row))?;
        self.trail.drop_to(&anchor)?;
        tracing::debug!(up_to = row.seq, "oldest audit records dropped");
        Ok(gone)
    }

    fn row(&self, seq: u64) -> Result<Option<TrailRow>, AuditError> {
        let filter = Filter {
            from: Some(seq),
            to: Some(seq),
            ..Filter::default()
        };
        Ok(self.trail.last_rows(&filter, 1)?.pop())
    }

    /// Returns the hash before a record: of the record before it, or, if that was dropped, as the
    /// statement about it says.
    fn hash_before(&self, seq: u64) -> Result<[u8; 32], AuditError> {
        let before = seq.saturating_sub(1);
        if let Some(row) = self.row(before)? {
            return Ok(row.hash);
        }
        for rows in self.trail.dropped()? {
            let range = DroppedRange::read(&rows)?;
            if let Some(run) = range.runs.iter().find(|run| run.to == before) {
                return Ok(run.hash.0);
            }
        }
        let anchor = self.trail.seal(SealKind::Anchor)?;
        Ok(anchor
            .filter(|anchor| anchor.seq == before)
            .map_or(FIRST, |anchor| anchor.hash))
    }

    /// Drops the oldest calls and denials between records that stay.
    fn passing(&self, limit: u64) -> Result<Option<DropSummary>, AuditError> {
        for _ in 0..MAX_EXAMINED_RANGES {
            let last_statement = self.trail.last_dropped()?;
            let previous = last_statement
                .as_ref()
                .map(DroppedRange::read)
                .transpose()?;
            // The next step goes on where the last one ended.
            let before = self.thinned_to(previous.as_ref())?;
            let rows: Vec<RowSummary> = self.trail.outlines(before.0, MAX_DROPPED_PER_STEP)?;
            let rows: Vec<RowSummary> = rows
                .into_iter()
                // The newest record stays: the head seal is about it.
                .take_while(|row| row.seq < self.newest)
                .take_while(|row| row.class == RowClass::Lasting || row.at < limit)
                .collect();
            let Some(range) = DroppedRange::of(before, &rows, self.most_bytes) else {
                return Ok(None);
            };
            let from = range.from;
            let to = range.to;
            let mut gone = None;
            let passing = rows
                .iter()
                .filter(|row| row.seq <= to && row.class == RowClass::Passing);
            passing.for_each(|row| DropSummary::add(&mut gone, row));
            let links = self.links(from, to)?;
            let signed = self.signer.thin(last_statement, before, links)?;
            // Also without dropped records, so that the next step begins after this range.
            self.trail.thin(from, &signed.rows, signed.replaced)?;
            if gone.is_some() {
                tracing::debug!(from, to, "audit records of calls and denials dropped");
                return Ok(gone);
            }
        }
        Ok(None)
    }

    /// Returns the links of all records of a range.
    fn links(&self, from: u64, to: u64) -> Result<Vec<ChainLink>, AuditError> {
        let mut links = Vec::new();
        let mut filter = Filter {
            from: Some(from),
            to: Some(to),
            ..Filter::default()
        };
        loop {
            // In pages, because the bodies may be large.
            let page = self.trail.rows(&filter, PAGE_ROWS)?;
            let Some(last) = page.last().map(|row| row.seq) else {
                return Ok(links);
            };
            links.extend(page.iter().map(ChainLink::of));
            filter.from = Some(last + 1);
        }
    }

    /// Returns the last record that was examined in an earlier step.
    fn thinned_to(&self, previous: Option<&DroppedRange>) -> Result<ChainHead, AuditError> {
        let anchor = self
            .trail
            .seal(SealKind::Anchor)?
            .map_or((0, FIRST), |anchor| (anchor.seq, anchor.hash));
        Ok(previous
            .map(|range| (range.to, range.end.0))
            .filter(|end| end.0 > anchor.0)
            .unwrap_or(anchor))
    }
}

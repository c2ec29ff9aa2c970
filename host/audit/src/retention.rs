//! How long records are kept: the oldest go when there is no room, or when they are too old.
use crate::{AuditError, Keys, Statement, now};
use peal_store::{Filter, SealKind, Trail};
use std::time::Duration;

/// Of a hundred bytes that there may be, how many may be used before the oldest records go.
const FULL: u64 = 90;
/// How many records go at once: others wait meanwhile.
const AT_ONCE: u32 = 2000;

/// How long records are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Retention {
    /// So long at most; none for as long as there is room.
    pub keep: Option<Duration>,
}

impl Retention {
    /// Drops what is to go now, but never the last record. Whether anything went.
    pub(crate) fn apply(self, trail: &Trail, keys: &Keys, need: Need) -> Result<Dropped, AuditError> {
        let room = trail.room()?;
        let is_full = need == Need::Room || room.used / 100 >= room.most / 100 * FULL / 100;
        let too_old = self.keep.map(|keep| now().saturating_sub(u64::try_from(keep.as_millis()).unwrap_or(u64::MAX)));
        let goes = |at: u64| is_full || too_old.is_some_and(|limit| at < limit);
        // Most often nothing goes, which the oldest one tells.
        if !trail.rows(&Filter::default(), 1)?.iter().any(|row| goes(row.at)) {
            return Ok(Dropped::Nothing);
        }
        let oldest = trail.rows(&Filter::default(), AT_ONCE)?;
        let newest = trail.seal(SealKind::Head)?.map_or(0, |head| head.seq);
        let Some(last) = oldest.iter().take_while(|row| goes(row.at) && row.seq < newest).last() else {
            return Ok(Dropped::Nothing);
        };
        trail.drop_to(&Statement::sealed(SealKind::Anchor, (last.seq, last.hash), now(), keys))?;
        tracing::debug!(up_to = last.seq, "the oldest records of the audit trail are dropped");
        Ok(Dropped::Some)
    }
}

/// Why room is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// To keep some ready.
    Usual,
    /// There is none.
    Room,
}

/// What became of the oldest records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dropped {
    /// They stay.
    Nothing,
    /// Some are gone, and perhaps what they referred to.
    Some,
}

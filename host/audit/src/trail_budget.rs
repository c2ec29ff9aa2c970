//! Bytes that records about each user may take. When no room can be made in the trail, a user with
//! more than their share is denied, so that the requests of other users can be recorded.
use crate::{
    AuditEntry, DecisionEntry,
    entry::{CallEntry, caused_by},
    retention::{FreeSpace, TrailRetention},
};
use peal_store::{RowClass, UsedBytes};
use std::collections::{BTreeMap, BTreeSet};

/// The bytes of the records about each user.
#[derive(Debug)]
pub(crate) struct TrailBudget {
    decisions: UserShares,
    /// Calls and denials.
    calls: UserShares,
    supply: FreeSpace,
    /// Users of whom a policy's call was left out: the decision after it would have no proof.
    unproved: BTreeSet<u32>,
    /// User of the server.
    server: u32,
}

/// Bytes of records of one class.
#[derive(Debug)]
struct UserShares {
    share: u64,
    used: BTreeMap<u32, u64>,
}

impl UserShares {
    fn new(percent: u32, most: u64) -> UserShares {
        UserShares {
            share: TrailRetention::share(percent, most),
            used: BTreeMap::new(),
        }
    }

    fn is_used_up(&self, uid: u32) -> bool {
        self.used
            .get(&uid)
            .is_some_and(|bytes| *bytes >= self.share)
    }
}

impl TrailBudget {
    pub(crate) fn new(retention: TrailRetention, most: u64) -> TrailBudget {
        TrailBudget {
            decisions: UserShares::new(retention.user_percent, most),
            calls: UserShares::new(retention.user_call_percent, most),
            supply: FreeSpace::Ample,
            unproved: BTreeSet::new(),
            server: rustix::process::geteuid().as_raw(),
        }
    }

    /// Returns true if an entry may be recorded. Entries about root and the server's own user are
    /// limited by the trail only: otherwise administrators with many records could not act while
    /// the trail is full.
    pub(crate) fn admits(&self, entry: &AuditEntry) -> bool {
        let uid = match entry {
            AuditEntry::Decision(decision) => requester(decision),
            AuditEntry::Call(call) => caused_by(&call.record.subject).1,
            AuditEntry::Denied(denial) => denial.uid,
            // Their number is bounded.
            _ => None,
        };
        let Some(uid) = uid.filter(|uid| *uid != 0 && *uid != self.server) else {
            return true;
        };
        let is_decision = matches!(entry, AuditEntry::Decision(_));
        if is_decision && self.unproved.contains(&uid) {
            return false;
        }
        self.supply == FreeSpace::Ample
            || !(self.calls.is_used_up(uid) || is_decision && self.decisions.is_used_up(uid))
    }

    /// Remembers that a call of a policy was left out. The next decision about its user is refused.
    pub(crate) fn left_out(&mut self, call: &CallEntry) {
        self.unproved.extend(caused_by(&call.record.subject).1);
    }

    /// Forgets the calls that a refused decision would have relied on.
    pub(crate) fn refused(&mut self, decision: &DecisionEntry) {
        if let Some(uid) = requester(decision) {
            self.unproved.remove(&uid);
        }
    }

    /// Counts a record about this user.
    pub(crate) fn add(&mut self, class: RowClass, uid: Option<u32>, bytes: u64) {
        let shares = match class {
            RowClass::Lasting => &mut self.decisions,
            RowClass::Passing => &mut self.calls,
        };
        if let Some(uid) = uid {
            *shares.used.entry(uid).or_default() += bytes;
        }
    }

    /// Replaces the counts with those of the database.
    pub(crate) fn set(&mut self, used: &[UsedBytes], supply: FreeSpace) {
        let of = |class| {
            used.iter()
                .filter(|used| used.class == class)
                .filter_map(|used| Some((used.uid?, used.bytes)))
                .collect()
        };
        self.decisions.used = of(RowClass::Lasting);
        self.calls.used = of(RowClass::Passing);
        self.supply = supply;
    }
}

fn requester(decision: &DecisionEntry) -> Option<u32> {
    decision.request.identity.map(|identity| identity.uid)
}

//! Bytes that records about each user may take. When no room can be made in the trail, a user with
//! more than their share is denied, so that the requests of other users can be recorded.
use crate::{
    AuditEntry, DecisionEntry,
    entry::{CallEntry, caused_by},
    retention::{FreeSpace, TrailRetention},
};
use peal_store::{RowClass, UsedBytes};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The bytes of the records about each user.
#[derive(Debug)]
pub(crate) struct TrailBudget {
    used: Arc<TrailUse>,
    supply: FreeSpace,
    /// Users of whom a policy's call was left out: the decision after it would have no proof.
    unproved: BTreeSet<u32>,
    /// User of the server.
    server: u32,
}

/// Bytes of the records about users, which the trail's writer counts and others read.
#[derive(Debug)]
pub struct TrailUse {
    /// Records of decisions.
    pub decisions: UserRecords,
    /// Records of calls and denials.
    pub calls: UserRecords,
    /// Maximum size of the trail in bytes.
    pub max_bytes: u64,
}

/// Bytes of records of one class.
#[derive(Debug)]
pub struct UserRecords {
    share: u64,
    users: Mutex<BTreeMap<u32, UserRecordUse>>,
}

/// Records about one user.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UserRecordUse {
    /// Size of the records in bytes.
    pub bytes: u64,
    /// Number of records that were left out since the start, because the user had the share and no room
    /// could be made.
    pub refused: u64,
}

impl UserRecords {
    fn new(percent: u32, most: u64) -> UserRecords {
        UserRecords {
            share: TrailRetention::share(percent, most),
            users: Mutex::default(),
        }
    }

    /// Returns the share of one user in bytes.
    pub fn share(&self) -> u64 {
        self.share
    }

    /// Returns the records of each user.
    pub fn by_user(&self) -> BTreeMap<u32, UserRecordUse> {
        self.lock().clone()
    }

    fn is_used_up(&self, uid: u32) -> bool {
        let users = self.lock();
        users.get(&uid).is_some_and(|own| own.bytes >= self.share)
    }

    fn add(&self, uid: u32, bytes: u64) {
        self.lock().entry(uid).or_default().bytes += bytes;
    }

    fn refuse(&self, uid: u32) {
        self.lock().entry(uid).or_default().refused += 1;
    }

    /// Replaces the sizes of all users.
    fn set(&self, sizes: impl Iterator<Item = (u32, u64)>) {
        let mut users = self.lock();
        users.values_mut().for_each(|own| own.bytes = 0);
        for (uid, bytes) in sizes {
            users.entry(uid).or_default().bytes = bytes;
        }
        users.retain(|_, own| *own != UserRecordUse::default());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, UserRecordUse>> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TrailBudget {
    pub(crate) fn new(retention: TrailRetention, most: u64) -> TrailBudget {
        TrailBudget {
            used: Arc::new(TrailUse {
                decisions: UserRecords::new(retention.user_percent, most),
                calls: UserRecords::new(retention.user_call_percent, most),
                max_bytes: most,
            }),
            supply: FreeSpace::Ample,
            unproved: BTreeSet::new(),
            server: rustix::process::geteuid().as_raw(),
        }
    }

    /// Returns the bytes of the records about each user.
    pub(crate) fn used(&self) -> Arc<TrailUse> {
        self.used.clone()
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
        if self.supply == FreeSpace::Ample {
            return true;
        }
        let TrailUse {
            decisions, calls, ..
        } = &*self.used;
        let full = [calls]
            .into_iter()
            .chain(is_decision.then_some(decisions))
            .find(|records| records.is_used_up(uid));
        if let Some(full) = full {
            full.refuse(uid);
        }
        full.is_none()
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
        let records = match class {
            RowClass::Lasting => &self.used.decisions,
            RowClass::Passing => &self.used.calls,
        };
        if let Some(uid) = uid {
            records.add(uid, bytes);
        }
    }

    /// Replaces the counts with those of the database.
    pub(crate) fn set(&mut self, used: &[UsedBytes], supply: FreeSpace) {
        let of = |class: RowClass| {
            used.iter()
                .filter(move |used| used.class == class)
                .filter_map(|used| Some((used.uid?, used.bytes)))
        };
        self.used.decisions.set(of(RowClass::Lasting));
        self.used.calls.set(of(RowClass::Passing));
        self.supply = supply;
    }
}

fn requester(decision: &DecisionEntry) -> Option<u32> {
    decision.request.identity.map(|identity| identity.uid)
}

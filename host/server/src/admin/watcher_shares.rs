//! Number of watchers of each user and of all, within settings. A part is reserved for root and the
//! server's user.
use peal_core::quota::{Quota, QuotaReport, unreserved};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use thiserror::Error;

/// Limits of watchers. All of them are settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatcherLimits {
    /// Maximum number of watchers.
    pub max: usize,
    /// Maximum number of watchers of one user.
    pub max_per_user: usize,
    /// Maximum number of denials, and of passages of events, that are kept for watchers.
    pub recent_entries: usize,
}

impl Default for WatcherLimits {
    fn default() -> Self {
        WatcherLimits {
            max: 64,
            max_per_user: 8,
            recent_entries: 512,
        }
    }
}

/// Reason why a watcher is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub(super) enum WatcherRefusal {
    #[error(
        "{held} watchers are connected, more are not allowed (admin.max_watchers, of which an eighth is for root and the server's user)"
    )]
    Total { held: usize },
    #[error("user {uid} has {held} watchers, more are not allowed (admin.max_watchers_per_user)")]
    User { uid: u32, held: usize },
}

/// Kind of a caller, for the part that is reserved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WatcherKind {
    /// Root or the server's user.
    Own,
    /// Any other user.
    Other,
}

/// Watchers of all users.
#[derive(Debug)]
pub(super) struct WatcherShares {
    limits: WatcherLimits,
    users: Mutex<BTreeMap<u32, usize>>,
}

/// Permit of a watcher, until it is dropped.
#[derive(Debug)]
pub(super) struct WatcherPermit {
    shares: Arc<WatcherShares>,
    uid: u32,
}

impl WatcherShares {
    pub(super) fn new(limits: WatcherLimits) -> WatcherShares {
        WatcherShares {
            limits,
            users: Mutex::default(),
        }
    }

    /// Returns a permit for a watcher of a user.
    pub(super) fn admit(
        self: &Arc<WatcherShares>,
        uid: u32,
        kind: WatcherKind,
    ) -> Result<WatcherPermit, WatcherRefusal> {
        let WatcherLimits {
            max, max_per_user, ..
        } = self.limits;
        let mut users = self.users();
        let total: usize = users.values().sum();
        let most = match kind {
            WatcherKind::Own => max,
            WatcherKind::Other => unreserved(max),
        };
        if total >= most {
            return Err(WatcherRefusal::Total { held: total });
        }
        let held = users.get(&uid).copied().unwrap_or_default();
        if kind == WatcherKind::Other && held >= max_per_user {
            return Err(WatcherRefusal::User { uid, held });
        }
        users.insert(uid, held + 1);
        drop(users);
        Ok(WatcherPermit {
            shares: self.clone(),
            uid,
        })
    }

    /// Adds the watchers of each user to a report.
    pub(super) fn report_quotas(&self, report: &mut QuotaReport) {
        let WatcherLimits {
            max, max_per_user, ..
        } = self.limits;
        report.limit(Quota::Watchers, max_per_user, Some(max));
        let users = self.users();
        report.hold(
            Quota::Watchers,
            users.iter().map(|(uid, held)| (*uid, *held)),
        );
    }

    fn users(&self) -> MutexGuard<'_, BTreeMap<u32, usize>> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WatcherPermit {
    fn drop(&mut self) {
        let mut users = self.shares.users();
        if let Some(held) = users.get_mut(&self.uid) {
            *held = held.saturating_sub(1);
            if *held == 0 {
                users.remove(&self.uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watchers_of_one_user_leave_room_for_others_and_root() {
        let shares = Arc::new(WatcherShares::new(WatcherLimits {
            max: 8,
            max_per_user: 4,
            recent_entries: 1,
        }));
        let other = |uid| shares.admit(uid, WatcherKind::Other);
        let mut permits: Vec<WatcherPermit> = (0..4).map(|_| other(7).unwrap()).collect();
        assert_eq!(
            other(7).unwrap_err(),
            WatcherRefusal::User { uid: 7, held: 4 }
        );
        permits.extend((0..3).map(|_| other(8).unwrap()));
        assert_eq!(other(9).unwrap_err(), WatcherRefusal::Total { held: 7 });
        let root = shares.admit(0, WatcherKind::Own).unwrap();
        assert_eq!(
            shares.admit(0, WatcherKind::Own).unwrap_err(),
            WatcherRefusal::Total { held: 8 }
        );
        let mut report = QuotaReport::default();
        shares.report_quotas(&mut report);
        let held = |uid: u32| report.users[&uid][&Quota::Watchers].held;
        assert_eq!((held(7), held(8), held(0)), (4, 3, 1));
        drop((permits, root));
        assert!(shares.users().is_empty(), "users without watchers are kept");
    }
}

//! Limits of the requests and connections that wait for policies.
use crate::quota::{Quota, unreserved};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Limits of pending decisions, in total and for each user. An eighth of each total is reserved for
/// root, the server's user and modules of the site, which have no share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecisionLimits {
    /// Number of pending decisions.
    pub requests: usize,
    /// Number of pending decisions of one user.
    pub user_requests: usize,
    /// Memory of the requests, in bytes.
    pub bytes: usize,
    /// Memory of one user's requests, in bytes.
    pub user_bytes: usize,
}

impl Default for DecisionLimits {
    fn default() -> Self {
        DecisionLimits {
            requests: 1024,
            user_requests: 256,
            bytes: 64 << 20,
            user_bytes: 16 << 20,
        }
    }
}

/// Limit that leaves no room for one more pending decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error, Serialize, Deserialize)]
pub enum DecisionLimit {
    /// [`DecisionLimits::requests`].
    #[error("policy.max_pending_decisions")]
    Requests,
    /// [`DecisionLimits::user_requests`].
    #[error("policy.max_pending_decisions_per_user")]
    UserRequests,
    /// [`DecisionLimits::bytes`].
    #[error("policy.max_pending_decision_bytes")]
    Bytes,
    /// [`DecisionLimits::user_bytes`].
    #[error("policy.max_pending_decision_bytes_per_user")]
    UserBytes,
}

impl DecisionLimit {
    /// Returns the resource that is used up.
    pub fn quota(self) -> Quota {
        match self {
            DecisionLimit::Requests | DecisionLimit::UserRequests => Quota::PendingDecisions,
            DecisionLimit::Bytes | DecisionLimit::UserBytes => Quota::PendingDecisionBytes,
        }
    }
}

/// Number and memory of pending decisions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct DecisionLoad {
    pub(crate) requests: usize,
    pub(crate) bytes: usize,
}

/// User of a pending decision, as its limits see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DecisionUser {
    /// Root, the server's user or a module of the site.
    Exempt,
    /// Any other user, with its load.
    Bounded(DecisionLoad),
}

impl DecisionLimits {
    /// Checks that there is room for one more decision about a request of this many bytes.
    pub(crate) fn check(
        &self,
        all: DecisionLoad,
        user: DecisionUser,
        bytes: usize,
    ) -> Result<(), DecisionLimit> {
        let total = |total| match user {
            DecisionUser::Exempt => total,
            DecisionUser::Bounded(_) => unreserved(total),
        };
        if let DecisionUser::Bounded(own) = user {
            if own.requests >= self.user_requests {
                return Err(DecisionLimit::UserRequests);
            }
            if own.bytes.saturating_add(bytes) > self.user_bytes {
                return Err(DecisionLimit::UserBytes);
            }
        }
        if all.requests >= total(self.requests) {
            Err(DecisionLimit::Requests)
        } else if all.bytes.saturating_add(bytes) > total(self.bytes) {
            Err(DecisionLimit::Bytes)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection, prelude::*};

    const LIMITS: DecisionLimits = DecisionLimits {
        requests: 16,
        user_requests: 5,
        bytes: 800,
        user_bytes: 300,
    };

    /// Pending decisions as a list of users with bytes. User 0 is exempt.
    fn wanted(list: &[(u8, usize)], user: u8, bytes: usize) -> Result<(), DecisionLimit> {
        let sum = |list: &mut dyn Iterator<Item = &(u8, usize)>| -> usize {
            list.map(|request| request.1).sum()
        };
        let own = || list.iter().filter(|request| request.0 == user);
        let (requests, all_bytes) = if user == 0 { (16, 800) } else { (14, 700) };
        match () {
            () if user != 0 && own().count() == 5 => Err(DecisionLimit::UserRequests),
            () if user != 0 && sum(&mut own()) + bytes > 300 => Err(DecisionLimit::UserBytes),
            () if list.len() >= requests => Err(DecisionLimit::Requests),
            () if sum(&mut list.iter()) + bytes > all_bytes => Err(DecisionLimit::Bytes),
            () => Ok(()),
        }
    }

    proptest! {
        #[test]
        fn limits_agree_with_lists_of_decisions(
            steps in collection::vec((0..5_u8, 0..120_usize, 0..4_u8, any::<prop::sample::Index>()), 1..200)
        ) {
            let mut list: Vec<(u8, usize)> = Vec::new();
            for (user, bytes, choice, index) in steps {
                if choice == 0 && !list.is_empty() {
                    list.remove(index.index(list.len()));
                    continue;
                }
                let load = |of: &dyn Fn(u8) -> bool| {
                    let theirs = list.iter().filter(|request| of(request.0));
                    theirs.fold(DecisionLoad::default(), |load, request| DecisionLoad {
                        requests: load.requests + 1,
                        bytes: load.bytes + request.1,
                    })
                };
                let asks = match user {
                    0 => DecisionUser::Exempt,
                    _ => DecisionUser::Bounded(load(&|other| other == user)),
                };
                let checked = LIMITS.check(load(&|_| true), asks, bytes);
                prop_assert_eq!(checked, wanted(&list, user, bytes));
                if checked.is_ok() {
                    list.push((user, bytes));
                }
            }
        }
    }
}

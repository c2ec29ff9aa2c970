//! Limits of published data, and refusals because of them.
use crate::quota::Quota;
use peal_model::{Status, code};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Limits for one user and in total. An eighth of each total is reserved for root and the server's
/// user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublishLimits {
    /// Number of items.
    pub items: PublishLimit,
    /// Memory of the items, in bytes.
    pub bytes: PublishLimit,
    /// Number of keys in waiting lookups.
    pub waits: PublishLimit,
}

/// Limit of one resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublishLimit {
    /// Share of one user.
    pub user: usize,
    /// Total.
    pub total: usize,
}

impl Default for PublishLimits {
    fn default() -> PublishLimits {
        let limit = |user| PublishLimit {
            user,
            total: 4 * user,
        };
        PublishLimits {
            items: limit(4096),
            bytes: limit(64 << 20),
            waits: limit(4096),
        }
    }
}

/// Reason for which a request about published data is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum PublishRefusal {
    /// The request is invalid, or nothing is found.
    #[error("{0}")]
    Status(Status),
    /// The user has used up its share, or all users what there is for them.
    #[error("published data are at a limit ({})", setting(*.limit, *.quota))]
    Limit {
        /// The resource.
        quota: Quota,
        /// The limit.
        limit: ReachedLimit,
    },
}

/// Limit that is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReachedLimit {
    /// The share of one user.
    User,
    /// The total.
    Total,
}

/// Returns the setting of a limit.
fn setting(limit: ReachedLimit, quota: Quota) -> &'static str {
    let settings = quota.settings();
    match limit {
        ReachedLimit::User => settings.share,
        ReachedLimit::Total => settings.total.unwrap_or(settings.share),
    }
}

impl From<Status> for PublishRefusal {
    fn from(status: Status) -> PublishRefusal {
        PublishRefusal::Status(status)
    }
}

impl PublishRefusal {
    /// Returns the status for the requester.
    pub fn status(self) -> Status {
        match self {
            PublishRefusal::Status(status) => status,
            PublishRefusal::Limit { .. } => code::PMIX_ERR_OUT_OF_RESOURCE,
        }
    }
}

/// Amounts that publications and lookups take of the limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PublishAmounts {
    /// Number of items.
    pub items: usize,
    /// Memory of the items, in bytes.
    pub bytes: usize,
    /// Number of keys in waiting lookups.
    pub waits: usize,
}

impl PublishAmounts {
    /// Returns both together.
    pub(super) fn plus(self, other: PublishAmounts) -> PublishAmounts {
        PublishAmounts {
            items: self.items.saturating_add(other.items),
            bytes: self.bytes.saturating_add(other.bytes),
            waits: self.waits.saturating_add(other.waits),
        }
    }

    /// Returns what is left without the other.
    pub(super) fn minus(self, other: PublishAmounts) -> PublishAmounts {
        PublishAmounts {
            items: self.items.saturating_sub(other.items),
            bytes: self.bytes.saturating_sub(other.bytes),
            waits: self.waits.saturating_sub(other.waits),
        }
    }

    /// Returns true if nothing is taken.
    pub(super) fn is_nothing(self) -> bool {
        self == PublishAmounts::default()
    }
}

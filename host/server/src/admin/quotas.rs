//! Resources that are charged to users, as the admin channel reports them.
use peal_core::quota::{Quota, QuotaReport, QuotaSettings, QuotaUse, SiteShare};
use serde::{Deserialize, Serialize};

/// Limits of resources, and what users hold of them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct UserQuotas {
    /// Resources that the server limits.
    pub resources: Vec<ResourceLimits>,
    /// Users that hold something or were refused, in the order of their ids.
    pub users: Vec<UserResources>,
}

/// Limits of one resource.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Name of the resource.
    pub resource: String,
    /// Share of one user.
    pub share: u64,
    /// Setting of the share.
    pub share_setting: String,
    /// Total for all users; none if only shares are limited.
    pub total: Option<u64>,
    /// Setting of the total.
    pub total_setting: Option<String>,
    /// Amount that all users hold; none for a caller that sees only its own user.
    pub held: Option<u64>,
}

/// Resources of one user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UserResources {
    /// User id.
    pub uid: u32,
    /// Resources that the user holds, or was refused.
    pub resources: Vec<ResourceUse>,
}

/// Use of one resource by one user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResourceUse {
    /// Name of the resource.
    pub resource: String,
    /// Amount that the user holds.
    pub held: u64,
    /// Share of the user; none for root and the server's user where they are exempt.
    pub share: Option<u64>,
    /// Number of refusals since the start of the server.
    pub refused: u64,
}

impl UserQuotas {
    /// Converts a report of a server that runs as user `server`.
    pub(crate) fn new(report: &QuotaReport, server: u32) -> UserQuotas {
        let resources = report.limits.iter().map(|(quota, limits)| {
            let QuotaSettings {
                resource,
                share,
                total,
                ..
            } = quota.settings();
            let held = report.users.values().filter_map(|uses| uses.get(quota));
            ResourceLimits {
                resource: resource.to_owned(),
                share: limits.share,
                share_setting: share.to_owned(),
                total: limits.total,
                total_setting: total.map(str::to_owned),
                held: Some(held.map(|used| used.held).sum()),
            }
        });
        let users = report.users.iter().map(|(uid, uses)| UserResources {
            uid: *uid,
            resources: uses
                .iter()
                .map(|(quota, used)| resource_use(report, (*quota, *used), (*uid, server)))
                .collect(),
        });
        UserQuotas {
            resources: resources.collect(),
            users: users.collect(),
        }
    }

    /// Returns what one user may know: the limits, and its own resources.
    pub(crate) fn of_user(mut self, uid: u32) -> UserQuotas {
        self.users.retain(|user| user.uid == uid);
        self.resources
            .iter_mut()
            .for_each(|resource| resource.held = None);
        self
    }
}

fn resource_use(
    report: &QuotaReport,
    (quota, used): (Quota, QuotaUse),
    (uid, server): (u32, u32),
) -> ResourceUse {
    let settings = quota.settings();
    let is_exempt = settings.site == SiteShare::Exempt && (uid == 0 || uid == server);
    let share = report.limits.get(&quota).map(|limits| limits.share);
    ResourceUse {
        resource: settings.resource.to_owned(),
        held: used.held,
        share: share.filter(|_| !is_exempt),
        refused: used.refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_sees_own_resources_and_no_sums() {
        let mut report = QuotaReport::default();
        report.limit(Quota::Tools, 4, Some(16));
        report.hold(Quota::Tools, [(0, 1), (7, 2), (8, 3)]);
        let all = UserQuotas::new(&report, 500);
        let held = |quotas: &UserQuotas| quotas.resources.first().unwrap().held;
        assert_eq!(held(&all), Some(6));
        let shares: Vec<Option<u64>> = all
            .users
            .iter()
            .map(|user| user.resources.first().unwrap().share)
            .collect();
        assert_eq!(shares, [None, Some(4), Some(4)], "root is exempt");
        let own = all.of_user(7);
        assert_eq!(held(&own), None);
        assert_eq!(own.users.len(), 1);
        assert_eq!(own.users.first().unwrap().uid, 7);
    }
}

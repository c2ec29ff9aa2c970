//! Metrics of what users hold.
use super::snapshot::{Amount, Labels, MetricFamily, MetricKind, MetricSample};
use peal_core::quota::{Quota, QuotaReport, QuotaUse};

/// Returns the limits of one user, and the use and refusals of all users.
pub(super) fn families(report: &QuotaReport) -> Vec<MetricFamily> {
    let limits = report.limits.iter();
    let limits = limits.map(|(quota, limits)| sample(*quota, None, limits.share));
    let uses = |amount: fn(&QuotaUse) -> u64| {
        let users = report.users.iter();
        let uses = users.flat_map(move |(uid, uses)| {
            let uses = uses.iter();
            uses.map(move |(quota, used)| sample(*quota, Some(*uid), amount(used)))
        });
        uses.collect()
    };
    vec![
        family(
            "peal_user_limit",
            "Limit of a resource for each user. Root and the server's user are exempt from some.",
            MetricKind::Gauge,
            limits.collect(),
        ),
        family(
            "peal_user_usage",
            "Use of a limited resource by a user.",
            MetricKind::Gauge,
            uses(|used| used.held),
        ),
        family(
            "peal_user_refusals",
            "Refusals because of a limit for a user, or of what was left for all users.",
            MetricKind::Counter,
            uses(|used| used.refused),
        ),
    ]
}

fn family(name: &str, help: &str, kind: MetricKind, samples: Vec<MetricSample>) -> MetricFamily {
    MetricFamily {
        name: name.to_owned(),
        help: help.to_owned(),
        kind,
        unit: None,
        samples,
    }
}

fn sample(quota: Quota, uid: Option<u32>, value: u64) -> MetricSample {
    let mut labels = Labels::from([("resource".to_owned(), quota.settings().resource.to_owned())]);
    labels.extend(uid.map(|uid| ("uid".to_owned(), uid.to_string())));
    MetricSample {
        labels,
        value: Amount::Number(value),
    }
}

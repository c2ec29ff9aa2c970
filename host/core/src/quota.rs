//! Resources that are charged to users: their settings, and a report of what each user holds.
//!
//! The kernel says which user is charged. Each resource has a share for one user; most have a total
//! as well, of which a part is left to root and the server's user.
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Number of users whose refusals are counted. Refusals of further users are counted for nobody.
const MAX_COUNTED_USERS: usize = 4096;

/// Divisor that gives the part of a total that is reserved for root and the server's user.
const RESERVED_PART: usize = 8;

/// Returns the part of a total that is for all users except root and the server's user.
pub const fn unreserved(total: usize) -> usize {
    total - total / RESERVED_PART
}

/// Limits of one resource, with the settings that set them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuotaSettings {
    /// Name of the resource, as in metrics.
    pub resource: &'static str,
    /// Setting of the share of one user. Refusals name it.
    pub share: &'static str,
    /// Setting of the total; none if only shares are limited.
    pub total: Option<&'static str>,
    /// Treatment of root and the server's user.
    pub site: SiteShare,
}

/// Share of root and the server's user in a resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SiteShare {
    /// They have no share, and a part of the total, if there is one, is reserved for them.
    Exempt,
    /// They have a share as other users.
    AsUsers,
}

macro_rules! quotas {
    ($($(#[doc = $about:literal])+ $quota:ident $resource:literal, $share:literal, $total:expr, $site:ident;)+) => {
        /// Resource that is charged to users.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        pub enum Quota {
            $($(#[doc = $about])+ $quota,)+
        }

        impl Quota {
            /// All resources.
            pub const ALL: &[Quota] = &[$(Quota::$quota),+];

            /// Returns the name of the resource and the settings of its limits.
            pub const fn settings(self) -> QuotaSettings {
                match self {
                    $(Quota::$quota => QuotaSettings {
                        resource: $resource,
                        share: $share,
                        total: $total,
                        site: SiteShare::$site,
                    },)+
                }
            }
        }
    };
}

quotas! {
    /// Open connections, those before the handshake included.
    Connections "connections", "server.max_connections_per_user", Some("server.max_connections"), Exempt;
    /// Handshakes that are being read.
    Handshakes "handshakes", "server.max_handshakes_per_user", Some("server.max_connections"), Exempt;
    /// Bytes of messages that were received in part.
    PartialFrameBytes "partial_frame_bytes", "server.max_partial_frame_bytes_per_user", Some("server.max_partial_frame_bytes_total"), Exempt;
    /// Connected tools.
    Tools "tools", "tools.max_connections_per_user", Some("tools.max_connections"), Exempt;
    /// Bytes of the keys and values that procs have put.
    PutBytes "put_bytes", "server.max_put_bytes_per_user", Some("server.max_put_bytes_total"), Exempt;
    /// Bytes of messages that wait to be written to clients.
    OutboxBytes "outbox_bytes", "server.max_outbox_bytes_per_user", Some("server.max_outbox_bytes_total"), Exempt;
    /// Bytes of events that wait for the handlers of a user and its jobs.
    ChainQueueBytes "chain_queue_bytes", "server.max_chain_queue_bytes_per_user", Some("server.max_chain_queue_bytes_total"), AsUsers;
    /// Requests and connections that wait for policies.
    PendingDecisions "pending_decisions", "policy.max_pending_decisions_per_user", Some("policy.max_pending_decisions"), Exempt;
    /// Bytes of these requests and connections.
    PendingDecisionBytes "pending_decision_bytes", "policy.max_pending_decision_bytes_per_user", Some("policy.max_pending_decision_bytes"), Exempt;
    /// Bytes of the index of retained events.
    RetainedIndexBytes "retained_index_bytes", "events.max_index_bytes_per_user", Some("events.max_index_bytes"), Exempt;
    /// Bytes of events on disk.
    SpilledBytes "spilled_bytes", "events.max_spill_bytes_per_user", Some("events.max_spill_bytes"), Exempt;
    /// Groups of procs.
    Groups "groups", "group.max_per_user", None, AsUsers;
    /// Monitors of procs and files.
    Monitors "monitors", "server.max_monitors_total", Some("server.max_monitors_total"), AsUsers;
    /// Unfinished job control requests.
    JobControlRequests "job_control_requests", "job_control.max_requests", Some("job_control.max_requests"), AsUsers;
    /// Log requests that wait or are being written.
    LogRequests "log_requests", "log.max_queue_requests_per_user", Some("log.max_queue_requests"), AsUsers;
    /// Bytes of these log requests.
    LogBytes "log_bytes", "log.max_queue_bytes_per_user", Some("log.max_queue_bytes"), AsUsers;
    /// Messages that sinks have not delivered yet.
    SinkMessages "sink_messages", "sink.max_queue_messages_per_user", Some("sink.max_queue_messages"), AsUsers;
    /// Bytes of these messages.
    SinkBytes "sink_bytes", "sink.max_queue_bytes_per_user", Some("sink.max_queue_bytes"), AsUsers;
    /// Published values.
    PublishedItems "published_items", "publish.max_items_per_user", Some("publish.max_items_total"), AsUsers;
    /// Bytes of published values.
    PublishedBytes "published_bytes", "publish.max_bytes_per_user", Some("publish.max_bytes_total"), AsUsers;
    /// Keys for which lookups wait.
    PendingLookups "pending_lookups", "publish.max_pending_lookups_per_user", Some("publish.max_pending_lookups_total"), AsUsers;
    /// Bytes of decisions about the user in the audit trail.
    AuditDecisionBytes "audit_decision_bytes", "audit.max_decision_percent_per_user", Some("audit.max_bytes"), Exempt;
    /// Bytes of calls and refusals that the user caused in the audit trail.
    AuditCallBytes "audit_call_bytes", "audit.max_call_percent_per_user", Some("audit.max_bytes"), Exempt;
    /// CPU time of the processes of the user's modules, in milliseconds. It is shared by weights.
    GuestCpu "guest_cpu_ms", "tenant.cpu_weight", None, AsUsers;
    /// Watchers of events and of the activity.
    Watchers "watchers", "admin.max_watchers_per_user", Some("admin.max_watchers"), Exempt;
    /// Bytes of the entries in job records.
    RecordBytes "record_bytes", "store.max_record_bytes_per_user", Some("store.max_record_bytes"), AsUsers;
}

/// Limits of one resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QuotaLimits {
    /// Share of one user.
    pub share: u64,
    /// Total; none if only shares are limited.
    pub total: Option<u64>,
}

/// Use of one resource by one user.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QuotaUse {
    /// Amount that the user holds.
    pub held: u64,
    /// Number of refusals since the start.
    pub refused: u64,
}

/// Limits and use of all resources at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QuotaReport {
    /// Limits. A resource that the server does not serve has none.
    pub limits: BTreeMap<Quota, QuotaLimits>,
    /// Use by each user; users without any are not contained.
    pub users: BTreeMap<u32, BTreeMap<Quota, QuotaUse>>,
}

impl QuotaReport {
    /// Sets the limits of a resource.
    pub fn limit(&mut self, quota: Quota, share: usize, total: Option<usize>) {
        let limits = QuotaLimits {
            share: share as u64,
            total: total.map(|total| total as u64),
        };
        self.limits.insert(quota, limits);
    }

    /// Adds what users hold of a resource.
    pub fn hold(&mut self, quota: Quota, held: impl IntoIterator<Item = (u32, usize)>) {
        for (uid, amount) in held {
            if amount > 0 {
                let held = &mut self.of(uid, quota).held;
                *held = held.saturating_add(amount as u64);
            }
        }
    }

    /// Adds refusals.
    pub fn refuse(&mut self, refusals: &QuotaRefusals) {
        for (uid, counts) in &refusals.0 {
            for (quota, count) in counts {
                self.count_refusals(*uid, *quota, *count);
            }
        }
    }

    /// Adds refusals of one user because of one limit.
    pub fn count_refusals(&mut self, uid: u32, quota: Quota, count: u64) {
        if count > 0 {
            let refused = &mut self.of(uid, quota).refused;
            *refused = refused.saturating_add(count);
        }
    }

    fn of(&mut self, uid: u32, quota: Quota) -> &mut QuotaUse {
        self.users.entry(uid).or_default().entry(quota).or_default()
    }
}

/// Number of refusals of each user because of each limit.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct QuotaRefusals(BTreeMap<u32, BTreeMap<Quota, u64>>);

impl QuotaRefusals {
    /// Counts a refusal.
    pub fn count(&mut self, uid: u32, quota: Quota) {
        if self.0.len() < MAX_COUNTED_USERS || self.0.contains_key(&uid) {
            let count = self.0.entry(uid).or_default().entry(quota).or_default();
            *count = count.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn resources_have_names_of_their_own() {
        let names: BTreeSet<&str> = Quota::ALL
            .iter()
            .map(|quota| quota.settings().resource)
            .collect();
        assert_eq!(names.len(), Quota::ALL.len());
    }

    #[test]
    fn report_adds_up_what_parts_hold_and_refuse() {
        let mut refusals = QuotaRefusals::default();
        (0..3).for_each(|_| refusals.count(7, Quota::Tools));
        let mut report = QuotaReport::default();
        report.limit(Quota::Tools, 4, Some(16));
        report.hold(Quota::Tools, [(7, 2), (8, 0)]);
        report.hold(Quota::Tools, [(7, 1)]);
        report.refuse(&refusals);
        let used = QuotaUse {
            held: 3,
            refused: 3,
        };
        assert_eq!(
            report.users,
            [(7, [(Quota::Tools, used)].into())].into(),
            "user 8 holds nothing"
        );
    }

    #[test]
    fn number_of_users_with_refusals_is_bounded() {
        let mut refusals = QuotaRefusals::default();
        let most = u32::try_from(MAX_COUNTED_USERS).unwrap();
        (0..=most).for_each(|uid| refusals.count(uid, Quota::Tools));
        refusals.count(0, Quota::Tools);
        assert_eq!(refusals.0.len(), MAX_COUNTED_USERS);
        assert_eq!(refusals.0[&0][&Quota::Tools], 2);
    }
}

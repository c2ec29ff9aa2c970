//! Counters and gauges of the server, each with its help text.
use super::snapshot::{MetricFamily, MetricKind};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one to the counter.
    pub fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds `number` to the counter.
    pub fn add(&self, number: usize) {
        self.0.fetch_add(number as u64, Ordering::Relaxed);
    }

    /// Returns the value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the counter to a total that another component counts.
    pub(crate) fn follow(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }
}

/// Current number of things.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Sets the value.
    pub fn set(&self, number: usize) {
        self.0.store(number as u64, Ordering::Relaxed);
    }

    /// Returns the value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Defines the struct and its list of metrics from one list, so that every number is also exported.
/// The first paragraph of a comment is the help text. The name of the metric is `peal_` and the
/// name of the field.
macro_rules! numbers {
    ($(#[$attribute:meta])* $of:ident { $($(#[doc = $help:literal])+ $kind:ident $name:ident,)+ }) => {
        $(#[$attribute])*
        #[derive(Debug, Default)]
        pub struct $of {
            $($(#[doc = $help])+ pub $name: $kind,)+
        }

        impl $of {
            /// Returns all numbers with their current values.
            pub(crate) fn families(&self) -> Vec<MetricFamily> {
                vec![$(MetricFamily::single(
                    concat!("peal_", stringify!($name)),
                    concat!($($help),+),
                    MetricKind::$kind,
                    self.$name.get(),
                ),)+]
            }
        }
    };
}

numbers! {
    /// The counters of a server.
    Counters {
        /// Connections accepted by the listener.
        Counter connections_accepted,
        /// Connections refused because of a limit, a timeout, a malformed handshake or an unknown
        /// peer.
        Counter connections_refused,
        /// Connections refused because the total or the user's limit of connections was reached.
        Counter connections_over_share,
        /// Tools refused because the total or the user's limit of tools was reached.
        Counter tools_over_share,
        /// Connections refused because the identity known to the kernel differs from the claimed
        /// one, or the proc belongs to another user.
        Counter connections_identity_mismatch,
        /// Open connections of admitted procs.
        Gauge connections_open,
        /// Connected tools.
        Gauge tools,
        /// Memory of the values that procs have put, in bytes.
        Gauge put_bytes,
        /// Puts refused because of the limit of the proc or its user.
        Counter puts_refused,
        /// Messages of other servers refused, because their sender may not say that, or no server
        /// sends them.
        Counter server_messages_refused,
        /// Connections closed because a message was not complete in time.
        Counter frames_unfinished,
        /// Connections closed because unfinished messages of their user exceeded the memory limit.
        Counter frames_over_share,
        /// Deployments of a module set.
        Counter module_deployments,
        /// Refused deployments of a module set.
        Counter module_deployments_refused,
        /// Modules quarantined after repeated failures.
        Counter modules_quarantined,
        /// User modules that are compiled or started, or wait for it.
        Gauge user_modules_compiling,
        /// Calls of shadow modules.
        Counter shadow_calls,
        /// Calls of shadow modules skipped because too many were waiting.
        Counter shadow_calls_skipped,
        /// Registered jobs.
        Gauge jobs,
        /// Malformed messages. The server replied with a status, or closed the connection if the
        /// length was invalid.
        Counter messages_malformed,
        /// Pauses of connections whose users make the most requests while the server is busy
        /// (`server.max_busy_percent`).
        Counter connections_paced,
        /// Requests of a kind that the server does not support.
        Counter requests_unsupported,
        /// Clients disconnected because they did not read their messages.
        Counter clients_disconnected_slow,
        /// Clients disconnected because they exceeded the limit of open requests.
        Counter clients_disconnected_request_limit,
        /// Pieces of output dropped because the subscriber did not keep up.
        Counter output_dropped,
        /// Events removed from the event ring to make space for later ones.
        Counter events_ejected,
        /// Events retained for procs that have not received them yet, and for lagging peers.
        Gauge events_retained,
        /// Retained events on disk.
        Gauge events_spilled,
        /// Events that a recipient missed because there was no space for them or reading them back
        /// failed.
        Counter events_lost,
        /// Memory of the index of retained events, in bytes.
        Gauge events_index_bytes,
        /// Runs of an event through the hosted chain of an owner.
        Counter chain_runs,
        /// Events that a hosted chain missed because its queue was full or its time was over.
        Counter chain_events_dropped,
        /// Events of handlers refused because of the event budget or because they were invalid.
        Counter handler_events_refused,
        /// Requests, events and connections submitted to policies.
        Counter decisions,
        /// Requests and events that wait for policies.
        Gauge decisions_pending,
        /// Active monitors of procs: heartbeats, files and resource usage.
        Gauge monitors,
        /// Requests, events and connections denied by a policy or a default.
        Counter requests_denied,
        /// Policy calls that failed: trap, time limit or another error.
        Counter policy_failures,
        /// Log requests answered.
        Counter log_requests,
        /// Log requests that were only counted, as repetitions of an earlier one.
        Counter log_requests_aggregated,
        /// Log requests refused because too many were waiting.
        Counter log_requests_refused,
        /// Failed writes of log channels.
        Counter log_channel_failures,
        /// Admin requests answered, refusals included.
        Counter admin_calls,
        /// Connections to the admin socket without permission to administer.
        Counter admin_callers_refused,
    }
}

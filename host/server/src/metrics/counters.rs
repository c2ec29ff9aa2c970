//! What the server counts, each with the words that explain it wherever it is shown.
use super::snapshot::{MetricFamily, MetricKind};
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// So many more.
    pub fn add(&self, number: usize) {
        self.0.fetch_add(number as u64, Ordering::Relaxed);
    }

    /// How many so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Somebody else counts, and is so far.
    pub(crate) fn follow(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }
}

/// A number of things that are there now.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// There are so many.
    pub fn set(&self, number: usize) {
        self.0.store(number as u64, Ordering::Relaxed);
    }

    /// How many there are.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Makes the struct and the list of what is shown from one list, so that nothing is counted that cannot be seen. The first
/// paragraph of the comment is the help, the name that of the metric, behind `peal_`.
macro_rules! numbers {
    ($(#[$attribute:meta])* $of:ident { $($(#[doc = $help:literal])+ $kind:ident $name:ident,)+ }) => {
        $(#[$attribute])*
        #[derive(Debug, Default)]
        pub struct $of {
            $($(#[doc = $help])+ pub $name: $kind,)+
        }

        impl $of {
            /// All of them, as they stand.
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
        Counter connections,
        /// Connections refused: too many, too slow, malformed, or of nobody known.
        Counter connections_refused,
        /// Of these, connections that were one too many of all, or of their user.
        Counter connections_over_share,
        /// Of these, tools that were one too many of all, or of their user.
        Counter tools_over_share,
        /// Of these, connections of somebody whom the kernel knows to be another than they claim, or whose proc belongs to
        /// another user.
        Counter impostors,
        /// Connections of procs that have been admitted and are open.
        Gauge connections_open,
        /// Tools that are connected.
        Gauge tools,
        /// Memory that values take which procs have put, in bytes.
        Gauge put_bytes,
        /// Values that procs may not put: they or their user have put too much.
        Counter puts_refused,
        /// Connections that were closed because a message of theirs was not complete in time.
        Counter frames_unfinished,
        /// Connections that were closed because unfinished messages of their user took too much memory.
        Counter frames_over_share,
        /// Times that other modules took the place of those that ran.
        Counter module_deployments,
        /// Times that others were to take their place and could not.
        Counter module_deployments_refused,
        /// Modules that were quarantined because they failed too often.
        Counter modules_quarantined,
        /// Modules of users that are being compiled or started, or wait for that.
        Gauge user_modules_compiling,
        /// Calls of shadows.
        Counter shadow_calls,
        /// Calls of shadows that were not made: too many waited.
        Counter shadow_calls_missed,
        /// Jobs that are registered.
        Gauge jobs,
        /// Messages that could not be understood. They were answered with a status, or with the end of the connection where
        /// not even their length made sense.
        Counter messages_malformed,
        /// Requests of a kind that nobody serves.
        Counter requests_unknown,
        /// Clients that did not read what was sent to them; their connections were closed.
        Counter clients_too_slow,
        /// Clients that had more requests open than they may; their connections were closed.
        Counter clients_too_greedy,
        /// Pieces of output that were dropped, since who wanted them does not keep up.
        Counter output_dropped,
        /// Events that made room for later ones in the ring that keeps them for late registrations.
        Counter events_ejected,
        /// Events that are kept for procs that have not been told yet, and for connections that are catching up.
        Gauge events_kept,
        /// Of these, events that are on disk.
        Gauge events_spilled,
        /// Events that somebody was to be told and never will be: there was no room for them, or they cannot be read back.
        Counter events_lost,
        /// The memory that it takes to know what is kept and for whom, in bytes.
        Gauge events_index_bytes,
        /// Runs of an event through an owner's hosted chain.
        Counter chains_run,
        /// Events that an owner's hosted chain missed because it could not keep up, or because time was over.
        Counter chain_events_dropped,
        /// Events that handlers raised in vain: too many, or such as no event may be.
        Counter raised_events_refused,
        /// Requests, events and connections that policies were asked about.
        Counter decisions,
        /// Requests and events that await what policies say of them.
        Gauge decisions_awaited,
        /// What procs have monitored: their heartbeats, files, and what is used.
        Gauge monitors,
        /// Requests, events and connections that a policy or a default denied.
        Counter requests_denied,
        /// Policies that trapped, ran too long or otherwise failed to say anything.
        Counter policies_failed,
        /// Log requests that were answered.
        Counter log_requests,
        /// Of these, requests that were only counted, because the like of them was logged before.
        Counter log_requests_aggregated,
        /// Log requests that were refused because too many waited.
        Counter log_requests_refused,
        /// Log channels that did not write what they were asked to.
        Counter log_channels_failed,
        /// Calls of administrators that were answered, also with a refusal of what they asked for.
        Counter admin_calls,
        /// Callers on the admin socket who may not administer.
        Counter admin_callers_refused,
    }
}

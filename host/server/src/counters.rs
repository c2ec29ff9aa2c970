//! What the server counts.
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
}

/// The counters of a server.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections accepted by the listener.
    pub connections: Counter,
    /// Connections refused: too many, too slow, malformed, or of nobody known.
    pub connections_refused: Counter,
    /// Of these, connections of somebody whom the kernel knows to be another than they claim, or whose proc belongs to
    /// another user.
    pub impostors: Counter,
    /// Messages that could not be understood. They were answered with a status, or with the end of the connection where not
    /// even their length made sense.
    pub messages_malformed: Counter,
    /// Requests of a kind that nobody serves.
    pub requests_unknown: Counter,
    /// Clients that did not read what was sent to them; their connections were closed.
    pub clients_too_slow: Counter,
    /// Clients that had more requests open than they may; their connections were closed.
    pub clients_too_greedy: Counter,
    /// Runs of an event through an owner's hosted chain.
    pub chains_run: Counter,
    /// Events that an owner's hosted chain missed because it could not keep up, or because time was over.
    pub chain_events_dropped: Counter,
    /// Events that handlers raised in vain: too many, or such as no event may be.
    pub raised_events_refused: Counter,
    /// Requests, events and connections that policies were asked about.
    pub decisions: Counter,
    /// Requests, events and connections that a policy or a default denied.
    pub requests_denied: Counter,
    /// Policies that trapped, ran too long or otherwise failed to say anything.
    pub policies_failed: Counter,
    /// Log requests that were answered.
    pub log_requests: Counter,
    /// Log requests that were refused because too many waited.
    pub log_requests_refused: Counter,
    /// Log channels that did not write what they were asked to.
    pub log_channels_failed: Counter,
}

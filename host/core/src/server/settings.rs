//! Limits and times of a server's state.
use super::{EventBudget, Monitoring};
use crate::{
    defaults::Defaults,
    group::{self, ServerId},
};
use std::time::Duration;

/// Limits and times; each is a setting.
#[derive(Clone, Debug)]
pub struct StateSettings {
    /// The server's number in its server transport.
    pub id: ServerId,
    /// The name of the node.
    pub hostname: String,
    /// Times and limits of groups.
    pub groups: group::GroupSettings,
    /// Timeout of a get whose requester gives none.
    pub get_timeout: Duration,
    /// Number of environment events in the event ring for late registrations
    /// (`PMIx_server_cache_size`).
    pub event_cache: usize,
    /// Memory of the event ring, in bytes.
    pub event_cache_bytes: usize,
    /// Memory of the contents of all other retained events, in bytes: events for procs that have
    /// not registered and for lagging connections. Further events are spilled.
    pub event_memory: usize,
    /// Bytes of spilled events that are for the procs of one user alone. Further events are lost,
    /// and their recipients are notified.
    pub event_user_spill: usize,
    /// Memory of the index of retained events, spilled ones included, in bytes; half of it for one
    /// user's procs and connections. Beyond it, events are delivered at once only; they are lost to
    /// all other recipients, and counted.
    pub event_index_bytes: usize,
    /// Number of retained events that a connection is sent before it must have read them.
    pub event_batch: usize,
    /// Bytes of retained events that a connection is sent before it must have read them. A larger
    /// event is sent alone.
    pub event_batch_bytes: usize,
    /// Memory of one event, in bytes.
    pub max_event_bytes: usize,
    /// Memory of the keys and values of one proc, in bytes.
    pub max_put_bytes: usize,
    /// Memory of the keys and values of all procs of one user, in bytes. Does not apply to root and
    /// the server's user.
    pub max_put_bytes_per_user: usize,
    /// Number of pending gets of one connection.
    pub max_pending_gets: usize,
    /// Number of fences in which one proc may wait at once.
    pub max_fences: usize,
    /// Number of codes and filters that one connection may have registered.
    pub max_registrations: usize,
    /// Number of connections of one proc, its own and those of its clones.
    pub max_connections_per_proc: u32,
    /// Number of connected tools. An eighth is reserved for root and the server's user.
    pub max_tools: usize,
    /// Number of connected tools of one user. Does not apply to root and the server's user.
    pub max_tools_per_user: usize,
    /// Time in which lost connections are collected for one event; zero raises an event for each.
    pub connection_loss_window: Duration,
    /// Number of events that hosted handlers may raise in response to one event that no handler
    /// raised.
    pub allowance: EventBudget,
    /// Defaults of the hooks, which hold where no policy decides.
    pub defaults: Defaults,
    /// Number of pending decisions.
    pub max_decisions: usize,
    /// Memory of pending decisions, in bytes.
    pub max_decision_bytes: usize,
    /// Number of open job-control requests. The same number of ended ones is remembered.
    pub max_controls: usize,
    /// Timeout of a checkpoint whose requester gives none.
    pub checkpoint_timeout: Duration,
    /// Time between the alert of a preemption and the preemption, where the requester gives none.
    pub preempt_grace: Duration,
    /// The party that monitors.
    pub monitoring: Monitoring,
    /// Number of monitors of one proc.
    pub max_monitors_per_proc: usize,
    /// Number of monitors of all procs; half of it for one user.
    pub max_monitors_total: usize,
    /// Number of file monitors, each with an open file; half of it for one user.
    pub max_monitored_files: usize,
}

impl Default for StateSettings {
    fn default() -> Self {
        StateSettings {
            id: ServerId::default(),
            hostname: "localhost".to_owned(),
            groups: group::GroupSettings::default(),
            get_timeout: Duration::from_secs(2),
            event_cache: 512,
            event_cache_bytes: 64 << 20,
            event_memory: 64 << 20,
            event_user_spill: 2 << 30,
            event_index_bytes: 256 << 20,
            event_batch: 256,
            event_batch_bytes: 1 << 20,
            max_event_bytes: 1 << 20,
            max_put_bytes: 256 << 20,
            max_put_bytes_per_user: 512 << 20,
            max_pending_gets: 4096,
            max_fences: 64,
            max_registrations: 65_536,
            max_connections_per_proc: 64,
            max_tools: 256,
            max_tools_per_user: 64,
            connection_loss_window: Duration::from_millis(100),
            allowance: EventBudget(256),
            defaults: Defaults::default(),
            max_decisions: 1024,
            max_decision_bytes: 64 << 20,
            max_controls: 1024,
            checkpoint_timeout: Duration::from_secs(300),
            preempt_grace: Duration::from_secs(30),
            monitoring: Monitoring::default(),
            max_monitors_per_proc: 64,
            max_monitors_total: 65_536,
            max_monitored_files: 512,
        }
    }
}

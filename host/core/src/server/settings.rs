//! Limits and times of a server's state.
use super::{DecisionLimits, EventBudget, Monitoring};
use crate::{
    defaults::Defaults, group, monitor::MonitorLimits, published::PublishLimits,
    retained::RetentionLimits,
};
use std::time::Duration;

/// Number of servers directly below one in the tree of a fence. A level of the tree costs the time for
/// as many messages at one server, and one message on the way. With 32 of them both are of the same size
/// where a message takes 5 µs at a server and 50 µs on the way, and three levels reach 33,825 servers.
const FENCE_FAN_OUT: usize = 32;

/// Limits and times; each is a setting, except the form of the tree of a fence.
#[derive(Clone, Debug)]
pub struct StateSettings {
    /// The name of the node.
    pub hostname: String,
    /// Times and limits of groups.
    pub groups: group::GroupSettings,
    /// Timeout of a get whose requester gives none.
    pub get_timeout: Duration,
    /// Limits of retained events.
    pub retention: RetentionLimits,
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
    /// Memory of the keys and values of all procs, in bytes. An eighth is reserved for root and the
    /// server's user.
    pub max_put_bytes_total: usize,
    /// Number of pending gets of one connection.
    pub max_pending_gets: usize,
    /// Number of fences in which one proc may wait at once.
    pub max_fences: usize,
    /// Number of procs that the sets of one job's fences over several servers name together.
    pub max_fence_set_procs: usize,
    /// Number of servers directly below one in the tree of a fence over servers, at least 1. All servers
    /// of a cluster must have the same, so it is no setting of the configuration.
    pub fence_fan_out: usize,
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
    /// Limits of pending decisions.
    pub decisions: DecisionLimits,
    /// Number of open job-control requests. The same number of ended ones is remembered.
    pub max_controls: usize,
    /// Timeout of a checkpoint whose requester gives none.
    pub checkpoint_timeout: Duration,
    /// Time between the alert of a preemption and the preemption, where the requester gives none.
    pub preempt_grace: Duration,
    /// Time that the servers of other nodes may take to control procs or answer queries. For a
    /// checkpoint it is added to the checkpoint's own.
    pub server_answer_timeout: Duration,
    /// The party that monitors.
    pub monitoring: Monitoring,
    /// Limits on monitors.
    pub monitors: MonitorLimits,
    /// Limits of published data.
    pub publish: PublishLimits,
}

impl Default for StateSettings {
    fn default() -> Self {
        StateSettings {
            hostname: "localhost".to_owned(),
            groups: group::GroupSettings::default(),
            get_timeout: Duration::from_secs(2),
            retention: RetentionLimits::default(),
            event_batch: 256,
            event_batch_bytes: 1 << 20,
            max_event_bytes: 1 << 20,
            max_put_bytes: 256 << 20,
            max_put_bytes_per_user: 512 << 20,
            max_put_bytes_total: 4 << 30,
            max_pending_gets: 4096,
            max_fences: 64,
            max_fence_set_procs: 1 << 20,
            fence_fan_out: FENCE_FAN_OUT,
            max_registrations: 65_536,
            max_connections_per_proc: 64,
            max_tools: 256,
            max_tools_per_user: 64,
            connection_loss_window: Duration::from_millis(100),
            allowance: EventBudget::new(256),
            defaults: Defaults::default(),
            decisions: DecisionLimits::default(),
            max_controls: 1024,
            checkpoint_timeout: Duration::from_secs(300),
            preempt_grace: Duration::from_secs(30),
            server_answer_timeout: Duration::from_secs(30),
            monitoring: Monitoring::default(),
            monitors: MonitorLimits::default(),
            publish: PublishLimits::default(),
        }
    }
}

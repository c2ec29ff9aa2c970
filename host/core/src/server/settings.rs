//! The limits and times of a server.
use super::{EventBudget, Monitoring};
use crate::{
    defaults::Defaults,
    group::{self, ServerId},
};
use std::time::Duration;

/// Limits and times; all of them settings.
#[derive(Clone, Debug)]
pub struct StateSettings {
    /// The server's number among those of its fabric.
    pub id: ServerId,
    /// The node's name.
    pub hostname: String,
    /// How long groups may take, and how many there may be.
    pub groups: group::GroupSettings,
    /// How long a get waits for a key that its proc has not put, where the requester gives no time.
    pub get_timeout: Duration,
    /// How many events of the environment are kept for late registrations (`PMIx_server_cache_size`).
    pub event_cache: usize,
    /// How much memory these may take, in bytes.
    pub event_cache_bytes: usize,
    /// How much memory the contents of all other events may take that are kept, in bytes: those owed to procs that have not
    /// registered, and those held for connections that are catching up. More are spilled.
    pub event_memory: usize,
    /// How many bytes the spilled events of one user may take that are for that user's procs alone. Beyond that they are lost, and those
    /// who need them are told.
    pub event_user_spill: usize,
    /// How much memory it may take to know what is kept and for whom, spilled events among them, in bytes; half of it
    /// for what the procs and connections of one user need. Beyond that, events are only for those who hear them at once; for
    /// all others they are lost, and counted.
    pub event_index_bytes: usize,
    /// How many kept events a connection is sent before it must have read them ...
    pub event_batch: usize,
    /// ... and how many bytes of them; a larger event goes alone.
    pub event_batch_bytes: usize,
    /// How much memory one event may take, in bytes.
    pub max_event_bytes: usize,
    /// How much memory the keys and values that one proc has put may take, in bytes.
    pub max_put_bytes: usize,
    /// How much memory the keys and values that all procs of one user have put may take, in bytes; root and the server's user may put
    /// more.
    pub max_put_bytes_per_user: usize,
    /// How many gets one connection may have waiting.
    pub max_pending_gets: usize,
    /// How many fences one proc may wait in at once.
    pub max_fences: usize,
    /// How many codes and filters one connection may have registered.
    pub max_registrations: usize,
    /// How many connections one proc may have (its own and those of its clones).
    pub max_connections_per_proc: u32,
    /// How many tools may be connected; an eighth of these are root's and the server's user's alone.
    pub max_tools: usize,
    /// How many of these one user may have, unless that is root or the server's.
    pub max_tools_per_user: usize,
    /// How long losses of connections are gathered that one event then tells of; nothing for an event each.
    pub connection_loss_window: Duration,
    /// How many events hosted handlers may raise in all because of one that no handler raised.
    pub allowance: EventBudget,
    /// What holds where no policy decides.
    pub defaults: Defaults,
    /// How many requests and events may wait for the decisions of policies.
    pub max_decisions: usize,
    /// How much memory these may take, in bytes.
    pub max_decision_bytes: usize,
    /// How many job-control requests may have not ended; as many that have are remembered.
    pub max_controls: usize,
    /// How long procs may take for a checkpoint, where the requester gives no time.
    pub checkpoint_timeout: Duration,
    /// How long procs have between the alert that they are preempted and that, where the requester gives no time.
    pub preempt_grace: Duration,
    /// Who watches those who want to be watched.
    pub monitoring: Monitoring,
    /// How many monitors one proc may have.
    pub max_monitors_per_proc: usize,
    /// How many all procs may have; half of them for one user.
    pub max_monitors_total: usize,
    /// How many of these may be of files, each of which stays open; half of them for one user.
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

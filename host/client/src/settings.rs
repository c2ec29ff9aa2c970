//! Time limits and bounds of a client.
use peal_wire::DecodeLimits;
use std::time::Duration;

/// Time limits and bounds of a client.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Time limit of the connection and its handshake. It suits a node that starts hundreds of procs at once.
    pub connect_timeout: Duration,
    /// Time limit of a call; `None` means no limit. The server keeps a `PMIX_TIMEOUT` among the infos
    /// of a call; then this time is added to it, so that the server can reply that it has expired.
    pub answer_timeout: Option<Duration>,
    /// Time limit of a call that waits for other procs, such as a fence, get or group, without a
    /// `PMIX_TIMEOUT`. `None` means no limit, as in the Standard. The default is one hour, since a
    /// longer wait is mostly for a proc that never calls.
    pub meeting_timeout: Option<Duration>,
    /// Limit of calls that await their reply at once; further calls wait. A call that was given up
    /// counts until the server has replied.
    pub max_open_calls: usize,
    /// Limit of events raised by handlers that await their reply; further ones are dropped.
    pub max_open_events: usize,
    /// Limit of the memory of events that wait for the handlers, in bytes. Above it, the
    /// connections are not read.
    pub event_queue_bytes: usize,
    /// Number of recent events that are kept for handlers that register later.
    pub recent_events: usize,
    /// Limit of the memory of these recent events, in bytes.
    pub recent_event_bytes: usize,
    /// Time limit of a deferred handler ([`crate::Handler::deferred`]); `None` means no limit.
    pub handler_timeout: Option<Duration>,
    /// Time for which the event task waits awake after an event of this process for itself
    /// (`PMIX_RANGE_PROC_LOCAL`). The wake of a thread that sleeps takes longer than a chain of many
    /// handlers, and a process that raises such an event often raises another one at once.
    pub local_event_wait: Duration,
    /// Time for which losses of servers are collected into one event, if other servers remain.
    pub loss_window: Duration,
    /// Limit of the memory for values that gets have returned, in bytes.
    pub data_bytes: usize,
    /// Limits of one message.
    pub wire: DecodeLimits,
}

impl Default for ClientSettings {
    fn default() -> Self {
        ClientSettings {
            connect_timeout: Duration::from_secs(60),
            answer_timeout: Some(Duration::from_secs(60)),
            meeting_timeout: Some(Duration::from_secs(3600)),
            max_open_calls: 2048,
            max_open_events: 65_536,
            event_queue_bytes: 64 << 20,
            // Clients of the C library keep as many.
            recent_events: 512,
            recent_event_bytes: 4 << 20,
            handler_timeout: Some(Duration::from_secs(60)),
            local_event_wait: Duration::ZERO,
            loss_window: Duration::from_millis(100),
            data_bytes: 256 << 20,
            wire: DecodeLimits::default(),
        }
    }
}

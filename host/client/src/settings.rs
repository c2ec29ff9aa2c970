//! How long a client waits, and how much it takes from its server.
use peal_wire::DecodeLimits;
use std::time::Duration;

/// Times and bounds of a client.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// How long the server may take to accept the connection and answer the handshake.
    pub connect_timeout: Duration,
    /// How long the server may take for a call. A `PMIX_TIMEOUT` among the infos of a call is the server's to keep: it has
    /// this much more to say that it is over.
    pub answer_timeout: Duration,
    /// How long a call waits that waits for other procs, as fences, gets and groups do, if no `PMIX_TIMEOUT` says so; none is forever,
    /// as the Standard has it. An hour, unless it is said otherwise: who waits longer mostly waits for somebody who never comes.
    pub meeting_timeout: Option<Duration>,
    /// How many calls may await their answer at once; who has more waits his turn. A call that was given up counts until
    /// the server has answered it.
    pub max_open_calls: usize,
    /// How many events that handlers raised may await their answer; more are not sent.
    pub max_open_events: usize,
    /// How much memory events may take that wait for the handlers, in bytes; then the server is read no further.
    pub event_queue_bytes: usize,
    /// How many of the events that came last are kept for handlers that register later ...
    pub recent_events: usize,
    /// ... and how much memory these may take, in bytes.
    pub recent_event_bytes: usize,
    /// How long a handler may take to complete whose answer comes later ([`crate::Handler::deferred`]).
    pub handler_timeout: Duration,
    /// How long losses of servers are gathered that one event then tells of; only while there are other servers.
    pub loss_window: Duration,
    /// How much memory may be spent on remembering what gets have brought, in bytes.
    pub data_bytes: usize,
    /// The bounds of one message.
    pub wire: DecodeLimits,
}

impl Default for ClientSettings {
    fn default() -> Self {
        ClientSettings {
            connect_timeout: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(60),
            meeting_timeout: Some(Duration::from_secs(3600)),
            max_open_calls: 2048,
            max_open_events: 65_536,
            event_queue_bytes: 64 << 20,
            // As many as clients of the C library keep.
            recent_events: 512,
            recent_event_bytes: 4 << 20,
            handler_timeout: Duration::from_secs(60),
            loss_window: Duration::from_millis(100),
            data_bytes: 256 << 20,
            wire: DecodeLimits::default(),
        }
    }
}

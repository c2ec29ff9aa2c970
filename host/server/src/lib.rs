//! The PMIx server on tokio: connections, upcalls, and hosted chains, policies and log channels.
//!
//! The task of a connection reads and decodes a request, and locks the actor, which steps the state
//! machine of `peal-core`. The resulting actions go to the clients' outboxes, to the
//! [`HostEnvironment`], to the [`ServerTransport`](peal_cluster::ServerTransport), or to the hosted chains, which run on guest
//! threads and never on tokio's.

mod activity;
mod actor;
pub mod admin;
mod admission;
mod chains;
mod channels;
mod client_environment;
mod client_writer;
mod connection;
mod connection_reader;
mod connection_writer;
mod deadline;
mod decisions;
mod fair_semaphore;
mod forwarding;
mod gateways;
mod guest_thread;
mod handle;
mod handler_requests;
mod handover;
mod heartbeats;
mod host_environment;
mod hosted;
mod identity;
mod jobs;
mod listening;
pub mod metrics;
mod monitor;
mod networked_server;
mod node_data;
mod notice;
mod open_requests;
mod other_servers;
mod outbound;
mod outbox;
mod outbox_share;
mod packing;
mod process_watch;
mod rendezvous;
mod request_pace;
mod request_pacer;
mod send_window;
mod server;
mod server_controls;
mod server_inbox;
mod shadow;
mod shared_actor;
mod spill;
mod spinner;
mod stored;
mod stubs;
mod trace_limit;
mod upcalls;
mod user_pace;
mod user_shares;

pub use chains::{
    ChainCompletion, ChainSettings, ChainView, GuestPools, HostedChains, HostedHandler,
    RegisteredHandler, StandaloneChain,
};
pub use channels::{ChannelError, ChannelSettings, HostedChannels};
pub use client_environment::client_environment;
pub use decisions::{HostedPolicies, HostedPolicy, PolicyError};
pub use fair_semaphore::{FairPermit, FairSemaphore};
pub use handle::{AddJobError, Raised, ServerHandle, own_event};
pub use handler_requests::HandlerRequest;
pub use handover::{
    ContinuedServer, HandedServer, HandoverError, SuspensionError, SuspensionLimits,
};
pub use host_environment::{
    ConnectingTool, ContinuedAnswer, EventHandling, HostEnvironment, HostFindings, ProcessLookup,
    Spawned, UpcallFuture, UpcallOverNodes,
};
pub use hosted::Hosted;
pub use identity::{PeerCredentials, holder_below, peer_of};
pub use metrics::{Counter, Counters, Metrics};
pub use notice::{
    ChainResults, DecisionConclusion, Listener, ListenerBounds, ListenerItem, MeasuredCall,
    MeasuredDecision, MeasuredEvent, MeasuredFailure, MeasuredOutcome, Notice, Notices, ProcExit,
    ReachedJobs, RecordedNotice, RequestedTermination, TraceSampler,
};
pub use other_servers::OtherServers;
pub use outbox_share::OutboxLimits;
pub use peal_cluster::{InProcessNetwork, ServerKind, ServerNetwork};
pub use peal_core::group::ServerId;
pub use rendezvous::{Rendezvous, RendezvousError, RendezvousSettings, Serves};
pub use request_pacer::RequestPacer;
pub use server::{Server, ServerError, ServerParts, ServerSettings};
pub use server_inbox::InboxLimits;
pub use shadow::Shadows;
pub use spill::SpillSettings;
pub use stored::StoredState;
pub use stubs::{
    ContinuedStubs, EnteredStubs, HandedStubs, HostRouter, KeyAnswer, LocalServices, Puller,
    QueriedKey, SessionError, StreamPull, StubHandover, StubHold, StubListener, StubService,
    StubSettings, SuspendedStubs,
};

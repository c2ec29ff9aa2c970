//! The server core on tokio: connections, upcalls, hosted chains and the embedded host environment.
//!
//! A request travels like this: [`connection`](self) reads and decodes it, enters the office of the actor, who steps the state
//! machine of `peal-core`, and what follows goes to the clients' outboxes, to the [`Host`], to the [`Fabric`], or to the hosted
//! chains, which run on guest threads and never on tokio's.

mod actor;
pub mod admin;
mod admission;
mod as_user;
mod asking;
mod chains;
mod channels;
mod connection;
mod deadline;
mod decisions;
mod delivery;
pub mod embedded;
mod fabric;
mod forwarding;
mod guest_thread;
mod handle;
mod host;
mod hosted;
mod hostname;
mod identity;
mod jobs;
mod line;
mod listening;
pub mod metrics;
mod monitor;
mod notice;
mod office;
mod open_requests;
mod outbox;
mod pace;
mod packing;
mod process_watch;
mod pulse;
mod quiet;
mod reading;
mod rendezvous;
mod server;
mod shadow;
mod spill;
mod stored;
mod turns;
mod upcalls;
mod usage;
mod user_pace;
mod user_shares;
mod wanted;

pub use chains::{
    ChainCompletion, ChainSettings, ChainView, GuestPools, HostedChains, HostedHandler,
    RegisteredHandler, StandaloneChain,
};
pub use channels::{ChannelError, ChannelSettings, HostedChannels};
pub use decisions::{HostedPolicies, HostedPolicy, PolicyError};
pub use fabric::{InProcessTransport, ServerId, ServerKind, ServerTransport, TransportFuture};
pub use handle::{AddJobError, Raised, ServerHandle};
pub use host::{EventHandling, HostEnvironment, ProcessLookup, Spawned, UpcallFuture};
pub use hosted::Hosted;
pub use hostname::hostname;
pub use identity::{
    IdentityCheck, PeerCredentials, ProcessObserver, holder_below, observe, peer_of,
};
pub use metrics::{Counter, Counters, Metrics};
pub use notice::{ChainResults, Listener, ListenerItem, Notice, Notices, ReachedJobs, Wished};
pub use rendezvous::{Rendezvous, RendezvousError, Serves, ToolSettings};
pub use server::{Parts, Server, ServerError, ServerSettings};
pub use shadow::Shadows;
pub use spill::SpillSettings;
pub use stored::StoredState;
pub use wanted::HandlerRequest;

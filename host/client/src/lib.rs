//! PMIx client on tokio, for procs and tools, with the wire protocol of all other clients.
//!
//! A proc finds its server by its environment:
//!
//! ```no_run
//! # async fn example() -> Result<(), peal_client::ClientError> {
//! use peal_client::{Client, Handler, HandlerOutcome};
//! use peal_model::{Range, Status, code};
//! use std::time::Duration;
//!
//! let client = Client::init().await?;
//! let handler = Handler::native(|call| {
//!     println!("{} from {:?}", call.event().code, call.event().source);
//!     call.deregister(call.registration());
//!     HandlerOutcome::status(code::PMIX_EVENT_ACTION_COMPLETE)
//! });
//! client.register(&[Status(-3001)], &[], handler).await?;
//! client.notify(Status(-3001), Range::Namespace, Vec::new()).await?;
//! client.within(Duration::from_secs(30)).fence(&[], &[]).await?;
//! client.finalize().await
//! # }
//! ```
//!
//! A tool chooses its server, makes the same calls, and may attach to another server after a loss:
//!
//! ```no_run
//! # async fn example() -> Result<(), peal_client::ClientError> {
//! use peal_client::{AttachTarget, ClientError, Control, Tool, ToolSettings};
//! use peal_model::{Query, key};
//!
//! let settings = ToolSettings { attach: AttachTarget::Pid(4711), ..ToolSettings::read()? };
//! let tool = Tool::init(settings).await?;
//! let query = Query { keys: vec![Some(key::PMIX_QUERY_NAMESPACES.0.into())], qualifiers: Vec::new() };
//! for info in tool.query(&[query]).await?.infos {
//!     println!("{info:?}");
//! }
//! match tool.control(&[], Control::Pause).await {
//!     Err(ClientError::Refused { status, infos, .. }) => println!("{status}, because of {infos:?}"),
//!     other => drop(other?),
//! }
//! tool.finalize().await
//! # }
//! ```

mod available;
mod call;
mod caller;
mod client;
mod connected;
mod control;
mod data;
mod environment;
mod error;
mod event_registrations;
mod events;
mod group;
mod handler;
mod handler_thread;
mod inbound;
mod job_control_result;
#[cfg(feature = "modules")]
mod module_handler;
mod monitor;
mod notices;
mod observers;
mod open_requests;
mod outbound;
mod output;
mod posted;
mod published;
mod queue;
mod queued_item;
mod realms;
mod recent;
mod rendezvous;
mod resolved;
mod server;
mod server_connection;
mod services;
mod session;
mod settings;
mod settlement;
mod singleton;
mod spawned;
mod tool;

pub use available::AvailableServer;
pub use call::Call;
pub use client::Client;
pub use control::{CleanupRequest, Control, ControlRequest, Preemption};
pub use environment::Environment;
pub use error::ClientError;
pub use group::{
    Absence, AbsenceDecision, ConstructOptions, Group, Invite, Invited, Join, NotFormed,
};
pub use handler::{
    ExternalHandler, ExternalResult, Handler, HandlerCall, HandlerReturn, LateOutcome, RaisedEvent,
};
pub use job_control_result::{ControlStatus, JobControlResult, ProcOutcome, reasons};
pub use monitor::{FileSign, HeartbeatTask, MonitorRequest, UsageSubject};
pub use peal_core::{
    chain::HandlerOutcome,
    class::ClassFilter,
    job_control::{
        CheckpointMethod, ControlState, Depth, RequestSelector, Subdirectories, TopDirectory,
    },
    registration::RegistrationId,
};
pub use peal_wire::IofOutput;
pub use rendezvous::{AttachTarget, Places};
pub use server::ServerInfo;
pub use services::Findings;
pub use settings::ClientSettings;
pub use tool::{Tool, ToolSettings};

use std::{
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::task::JoinHandle;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics half-way through an update under a lock, so the data of a poisoned lock is
    // consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a task. Tasks that run for each message are boxes of one type, and so share the code that
/// runs them.
fn spawn(task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    let task: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(task);
    tokio::spawn(task)
}

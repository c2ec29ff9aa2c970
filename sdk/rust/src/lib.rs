//! SDK for Peal modules in Rust.
//!
//! A handler is a function from an event to an outcome:
//!
//! ```
//! use peal_sdk::{Event, Outcome, handler, key, log};
//!
//! fn handle(event: &Event) -> Outcome {
//!     log::info(format!("event {}", event.code()));
//!     match event.get(key::PMIX_EVENT_HDLR_NAME) {
//!         Some(_) => Outcome::complete().with("my.handler.seen", event.previous_count()),
//!         None => Outcome::no_action(),
//!     }
//! }
//!
//! handler!(handle);
//! ```
//!
//! A policy is a function from a request to its outcome. A module may have several roles. This one
//! decides about job control and about events by one rule, which its admin configures:
//!
//! ```
//! use peal_sdk::{
//!     Config, PolicyOutcome, Registration, Request, event_policy, job_control_policy, lifecycle, state, status,
//! };
//!
//! fn init(config: &Config) -> Result<Vec<Registration>, String> {
//!     let uid = config.get("uid").and_then(|value| value.as_u64()).ok_or("the setting \"uid\" is missing")?;
//!     state::set("uid", &uid.to_le_bytes()).map_err(|status| format!("it cannot be kept: {status}"))?;
//!     Ok(Vec::new())
//! }
//!
//! fn stop() {}
//!
//! fn decide(request: &Request) -> PolicyOutcome {
//!     let Ok(Some(locked)) = state::get("uid") else { return PolicyOutcome::pass() };
//!     match request.identity() {
//!         Some(identity) if u64::from(identity.uid).to_le_bytes()[..] == locked => {
//!             PolicyOutcome::deny(status::PMIX_ERR_NO_PERMISSIONS)
//!                 .with_reason(format!("uid {} is locked until Monday", identity.uid))
//!         }
//!         _ => PolicyOutcome::pass(),
//!     }
//! }
//!
//! lifecycle!(init, stop);
//! event_policy!(decide);
//! job_control_policy!(decide);
//! ```
//!
//! A log channel is a function from a log request to a result. It writes to the sinks that its
//! admin opened for it:
//!
//! ```
//! use peal_sdk::{LogRequest, channel, sink, status};
//!
//! fn log(request: &LogRequest) -> Result<(), i32> {
//!     let text = request.get(request.channel()).ok_or(status::PMIX_ERR_BAD_PARAM)?;
//!     sink::write("journal", text.as_str().ok_or(status::PMIX_ERR_BAD_PARAM)?)
//! }
//!
//! channel!(log);
//! ```
//!
//! Functions are tested natively. `for_test` creates the events and requests that the host would
//! pass:
//!
//! ```
//! # use peal_sdk::{Event, Outcome};
//! # fn handle(event: &Event) -> Outcome {
//! #     Outcome::complete().with("my.handler.seen", event.previous_count())
//! # }
//! let event = Event::for_test(-3001).with("site.load", 5u32);
//! assert_eq!(handle(&event), Outcome::complete().with("my.handler.seen", 0u32));
//! ```
//!
//! A component imports only the capabilities that the module uses: without a call of [`log`] it
//! does not import `logging`. A panic is a trap: the host drops the instance and the chain
//! continues. Text, file and line of the panic are part of the failure in the host's trace, in the
//! audit trail and in `peal module test`.
#[doc(hidden)]
pub mod bindings;
mod channel;
pub mod clock;
mod event;
pub mod files;
pub mod job_control;
mod lifecycle;
pub mod log;
pub mod log_request;
mod names;
mod notify;
mod outcome;
mod panic;
mod policy;
mod policy_roles;
pub mod random;
pub mod registration;
pub mod resource_usage;
pub mod sink;
pub mod state;
mod tree;
mod value;
mod view;

pub use channel::LogRequest;
#[doc(hidden)]
pub use channel::run_log;
pub use event::Event;
#[doc(hidden)]
pub use event::run_handle;
#[doc(hidden)]
pub use lifecycle::run_init;
pub use lifecycle::{Config, Registration};
pub use names::{key, status};
pub use notify::notify;
pub use outcome::Outcome;
#[doc(hidden)]
pub use panic::describe_panics;
#[doc(hidden)]
pub use policy::run_decide;
pub use policy::{
    Application, ConnectionKind, GroupOperationKind, PeerInfo, PolicyOutcome, PolicySubject,
    REASON, Request, TargetProc, UnixGroup,
};
pub use value::{ChainResult, Info, InfoFlags, Opaque, Proc, Range, UserIdentity, Value};

//! Loads WebAssembly components, grants them capabilities, and calls them within limits.
//!
//! ```text
//! Engine    one per process: compiles, caches compiled code on disk, ticks
//!   Module    a component, checked and linked with its Grants: Module::load
//!     handle    takes an EventCall, returns a HandlerResult, whatever the guest does
//!     decide    takes a PolicyCall, returns a PolicyResult
//!     log       takes a ChannelCall, returns a ChannelResult
//! GuestPool threads on which whole chains run
//! inspect   reads a component without running it
//! ```
//!
//! The contract is `wit/`; `bindings.rs` is generated from it. A call goes from [`Module`] to a
//! warm instance. The instance's store holds the subject of the call (`call_data.rs`) until it
//! returns. The guest reads the subject by host calls (`instance_state.rs`, `lower.rs`), pushes
//! results (`lift.rs`) and uses the services behind its capabilities (`services.rs`;
//! `test_hooks.rs` in tests). All of it is metered (`meter.rs`, `limits.rs`).
//!
//! A guest can end its call, never the process. A trap, a time-out, or too much memory or output is
//! a result with a [`CallFailure`], and the next call has a fresh instance.

mod bindings;
mod cache;
mod call;
mod call_data;
mod compile;
mod contract;
mod deferred_requests;
mod digest;
mod engine;
mod error;
mod exception;
mod expansion;
mod failure;
mod files;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod grants;
mod host_calls;
mod idle_instances;
mod imports;
mod inspect;
mod instance;
mod instance_state;
mod instance_template;
mod interface;
mod lift;
mod limit_kind;
mod limits;
mod logging;
mod lower;
mod memory_limiter;
mod meter;
mod module;
mod policy;
mod pool;
mod quarantine;
mod random;
mod record;
mod replay;
mod requested_registrations;
mod retire;
mod roles;
mod services;
mod spin_time;
mod tenant;
mod test_hooks;
mod text;
mod ticker;
mod trace_limiter;
mod wasi;

pub use cache::CodeReaders;
pub use call::{CallFailure, EventCall, FailureKind, HandlerResult, Notification};
pub use call_data::CallSubject;
pub use compile::{CodeTarget, CompileError, MemoryLayout, compile};
pub use contract::{CONTRACT_SERVED, CONTRACT_VERSION, ContractMismatch};
pub use deferred_requests::{DeferredControl, DeferredLog, MAX_REQUEST_PROCS, ProcUsage};
pub use digest::{Digest, NoDigest};
pub use engine::{BacktracePlaces, CacheUse, Engine, EngineError, EngineSettings, FuelCount};
pub use error::{InitError, LoadError};
pub use files::{
    Directories, DirectoryService, FileAccess, GrantedDirectory, LEAST_FILE, MAX_FILE, MAX_PATH,
    WritePosition,
};
pub use grants::Grants;
pub use host_calls::{HostCall, HostCallAnswer, HostCallRequest, Level};
pub use imports::{ImportKind, ImportedInterface};
pub use inspect::{FormatError, Inspection, MAX_COMPONENT_BYTES, ProducerTool, Producers, inspect};
pub use instance_state::CallOutput;
pub use interface::Capability;
pub use limit_kind::{CallUsage, LimitKind, LimitSet};
pub use limits::{Isolation, ModuleLimits};
pub use module::Module;
pub use policy::{ChannelCall, ChannelResult, PolicyCall, PolicyResult, Sink};
pub use pool::{GuestPool, PoolRefusal, PoolSettings, Priority};
pub use quarantine::{ModuleHealth, OnQuarantine, Quarantined};
pub use random::Random;
pub use record::{CallEnd, CallRecord, Recorder, Returned};
pub use replay::{Replay, ReplayInstance};
pub use requested_registrations::RegistrationLimitError;
pub use roles::Role;
pub use services::{MAX_STATE_KEY, MAX_STATE_VALUE, Services, StateStore, checked_state_key};
pub use spin_time::SpinTime;
pub use tenant::{Tenant, TenantLimits};
pub use test_hooks::TestHooks;
pub use text::checked_plain;

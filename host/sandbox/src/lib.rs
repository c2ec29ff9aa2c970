//! Loads WebAssembly components, grants them capabilities, and calls them within limits.
//!
//! ```text
//! Engine    one per process: compiles, caches compiled code on disk, ticks
//!   Module    a component, checked and linked with its Grants: Module::load
//!     handle    one EventCall in, one HandlerResult out, whatever the guest does
//!     decide    one PolicyCall in, one PolicyResult out
//!     log       one ChannelCall in, one ChannelResult out
//! GuestPool threads on which whole chains run
//! inspect   what a component is, without running it
//! ```
//!
//! The contract is `wit/`; `bindings.rs` is generated from it. A call goes from [`Module`] to a warm instance, whose
//! store holds the call's data (`data.rs`) for as long as it lasts; the guest reads that through `host.rs` (`lower.rs`),
//! pushes through it (`raise.rs`), reaches what it was lent (`services.rs`; `stage.rs` where it is tried), and everything it
//! does is metered (`meter.rs`, `limits.rs`).
//!
//! What a guest does can end its call, never the process: a trap, a time-out, too much memory or output is a result with
//! a [`Failure`], and the next call has a fresh instance.

mod asking;
mod bindings;
mod blueprint;
mod cache;
mod call;
mod compile;
mod data;
mod digest;
mod engine;
mod error;
mod exception;
mod expansion;
mod failure;
mod files;
mod grants;
mod host;
mod imports;
mod inspect;
mod instance;
mod interface;
mod limit;
mod limits;
mod lines;
mod logging;
mod lower;
mod meter;
mod module;
mod policy;
mod pool;
mod quarantine;
mod raise;
mod random;
mod record;
mod replay;
mod retire;
mod roles;
mod services;
mod stage;
mod tally;
mod tape;
mod tenant;
mod text;
mod warm;
mod wasi;
mod wish;

pub use asking::{DeferredControl, DeferredLog, ProcUsage};
pub use call::{
    CallFailure, EventCall, FailureKind, HandlerResult, ModuleRegistration, Notification,
    RegistrationChange,
};
pub use compile::{CodeTarget, CompileError, MemoryLayout, compile};
pub use data::CallSubject;
pub use digest::{Digest, NoDigest};
pub use engine::{CacheUse, Engine, EngineError, EngineSettings, FuelCount};
pub use error::{InitError, LoadError};
pub use files::{Access, Directories, Directory, LEAST_FILE, MAX_FILE, MAX_PATH};
pub use grants::Grants;
pub use host::CallOutput;
pub use imports::{ImportKind, ImportedInterface};
pub use inspect::{FormatError, Inspection, MAX_COMPONENT_BYTES, Producers, Tool, inspect};
pub use interface::{CONTRACT_SERVED, Capability, Role};
pub use limit::{CallUsage, LimitKind, LimitSet};
pub use limits::{Isolation, ModuleLimits};
pub use module::Module;
pub use policy::{ChannelCall, ChannelResult, PolicyCall, PolicyResult, Sink};
pub use pool::{Busy, GuestPool, PoolSettings, Priority};
pub use quarantine::{ModuleHealth, OnQuarantine, Quarantined};
pub use random::Random;
pub use record::{CallEnd, CallRecord, Recorder, Returned};
pub use replay::{Replay, ReplayInstance};
pub use services::{MAX_STATE_KEY, MAX_STATE_VALUE, Services, StateStore};
pub use stage::TestHooks;
pub use tape::{HostCall, HostCallAnswer, HostCallRequest, Level};
pub use tenant::{Tenant, TenantLimits};
pub use wish::RegistrationLimitError;

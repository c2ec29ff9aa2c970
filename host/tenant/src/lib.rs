//! Modules of users in processes of their own.
//!
//! ```text
//! TenantRuntimes      one per server: the processes by user
//!   TenantRuntime     one user: a process, started on demand and again after it has ended
//!     TenantModule    a module in it, as the server sees it
//! serve_tenant        the process itself
//! LoadedModule        a module in this process, or in that of a user
//! ```
//!
//! An event for a chain of a user goes to the process with all of its handlers (`message.rs`,
//! [`ChainCall`]), and the results of all of them come back. The server takes the steps of the chain
//! itself, so that a process that was taken over can answer wrongly for its own handlers and nothing
//! else. What modules use beyond their memory (state, files, resource usage) the process asks the server
//! for, which checks each request as for a module of its own.
mod chain_connections;
mod cpu_times;
mod error;
mod handshake;
mod loaded_module;
mod message;
mod process;
mod restart_pace;
mod runtime;
mod runtimes;
mod services;
mod tenant_module;

pub use cpu_times::GuestCpuTimes;
pub use error::TenantRuntimeError;
pub use loaded_module::LoadedModule;
pub use message::{
    ChainCall, ChainNumber, ChainReply, DirectoryWork, FROM_RUNTIME, HandlerOrder, HandlerReply,
    LineLevel, ModuleAnswer, ModuleNumber, ModuleOrder, ModuleRecord, ModuleReply, ModuleRequest,
    Offer, OfferedServices, PROTOCOL, QuarantineReport, RuntimeHello, RuntimeSettings,
    ServiceAnswer, ServiceCall, ServiceRequest, SideEffects, TO_RUNTIME, TraceLine,
};
pub use process::serve_tenant;
pub use runtime::{ChainOrder, TenantRuntime};
pub use runtimes::{StartRuntime, StartedRuntime, TenantRuntimes};
pub use tenant_module::TenantModule;

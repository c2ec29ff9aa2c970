//! Messages between a server and the process that runs a user's modules.
//!
//! Several connections lead to the process, each with one request at a time. On the first one, the server
//! loads and removes modules; the process ends with it. On the second one, the process asks for what
//! modules may use beyond their memory. On each of the others, the server sends events for chains and gets
//! their results: as many chains run at once as there are such connections.
use peal_frames::{FrameLimit, NamedFields};
use peal_model::{
    Bytes, ChainResult, Event, Info, ModuleRegistration, Proc, Status, UserIdentity, Value,
};
use peal_sandbox::{
    CallRecord, FuelCount, Grants, HandlerResult, MAX_COMPONENT_BYTES, ModuleHealth, ModuleLimits,
    Quarantined, TenantLimits, WritePosition,
};
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, sync::Arc, time::Duration};

/// Version of the messages. Both ends are of one release, so that another version is an error.
pub const PROTOCOL: u32 = 1;

/// Longest message to the process: a component with its settings.
pub const TO_RUNTIME: FrameLimit = FrameLimit(MAX_COMPONENT_BYTES + (16 << 20));

/// Longest message from the process: results of all modules of a user.
pub const FROM_RUNTIME: FrameLimit = FrameLimit(64 << 20);

/// Bound on the lines for the trace in one message.
pub const MAX_LINES: usize = 256;

/// Number of a module among those of a server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ModuleNumber(pub u64);

/// Number of a chain call, unique in its process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ChainNumber(pub u64);

/// Settings of the engine in the process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RuntimeSettings {
    /// Directory of the code compiled for this user, and of no other.
    pub code_dir: PathBuf,
    /// Owner of that directory.
    pub code_owner: u32,
    /// Modules for which fuel is counted.
    pub fuel: FuelCount,
    /// Bound on the instances of all modules together.
    pub max_instances: u32,
    /// Number of chains that run at once, at most 16.
    pub threads: usize,
    /// Limits of each owner of modules: the user, and each of the user's jobs.
    pub owner_limits: TenantLimits,
}

/// First message of the server, on the first connection. The others come with it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RuntimeHello {
    /// Version of the messages.
    pub protocol: u32,
    /// Settings.
    pub settings: RuntimeSettings,
    /// Number before those of the instances and requests of this process.
    pub numbers_after: u64,
}

/// Module that the process is to load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ModuleOrder {
    /// Name of the module for admins.
    pub name: String,
    /// Owner of the module, as text. Modules of one owner share limits.
    pub owner: String,
    /// The component.
    pub component: Bytes,
    /// Capabilities of the module.
    pub grants: Grants,
    /// Limits of the module.
    pub limits: ModuleLimits,
    /// Settings for its `lifecycle.init`.
    pub settings: Vec<Info>,
    /// Services behind its capabilities, which the server has.
    pub services: OfferedServices,
}

/// Services that the server has for a module.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct OfferedServices {
    /// Names of the sinks. A module of a user has no role in which it could write to one.
    pub sinks: Vec<String>,
    /// Names of the directories.
    pub directories: Vec<String>,
    /// State of the module.
    pub state: Offer,
    /// Queries of resource usage.
    pub usage: Offer,
    /// Records of its calls.
    pub record: Offer,
}

/// Presence of a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Offer {
    /// It is not.
    #[default]
    Missing,
    /// It is.
    Offered,
}

impl Offer {
    /// Returns the offer of a service that may be there.
    pub fn of<T>(service: &Option<T>) -> Offer {
        match service {
            Some(_) => Offer::Offered,
            None => Offer::Missing,
        }
    }

    /// Returns true if the service is there.
    pub fn is_there(self) -> bool {
        self == Offer::Offered
    }
}

/// Request about modules, on the first connection.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ModuleRequest {
    /// Loads, starts and initializes a module.
    Load {
        /// Number of the module.
        module: ModuleNumber,
        /// The module.
        order: Box<ModuleOrder>,
        /// Its health, if the module was loaded before by a process that has ended.
        health: ModuleHealth,
    },
    /// Has the module quarantined as another one was.
    StayQuarantined {
        /// Number of the module.
        module: ModuleNumber,
        /// Health of the other one.
        health: ModuleHealth,
    },
    /// Lifts the quarantine of a module.
    Reset {
        /// Number of the module.
        module: ModuleNumber,
    },
    /// Stops a module and removes it.
    Stop {
        /// Number of the module.
        module: ModuleNumber,
    },
}

/// Answer to a [`ModuleRequest`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ModuleReply {
    /// The answer, or the reason of a failure.
    pub answer: Result<ModuleAnswer, String>,
    /// Side effects of modules meanwhile.
    pub side_effects: SideEffects,
}

/// Answer to a [`ModuleRequest`] that succeeded.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ModuleAnswer {
    /// The module is loaded, and requests these registrations.
    Loaded {
        /// Requested registrations.
        registrations: Vec<ModuleRegistration>,
        /// Bytes of memory of its instances.
        memory: u64,
    },
    /// The request was carried out.
    Done,
}

/// Event for a chain, on a connection for chains.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChainCall {
    /// Number of the call.
    pub number: ChainNumber,
    /// Number of the event.
    pub event_number: u64,
    /// The event.
    pub event: Arc<Event>,
    /// User and group of the source.
    pub identity: Option<UserIdentity>,
    /// Results of the handlers before these.
    pub steps: Arc<Vec<ChainResult>>,
    /// Handlers in their order.
    pub handlers: Vec<HandlerOrder>,
    /// Most detailed lines of modules that the server traces.
    pub level: LineLevel,
}

/// Handler in a chain.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HandlerOrder {
    /// Number of its module.
    pub module: ModuleNumber,
    /// Number of its registration.
    pub registration: u64,
    /// Tag that the module gave the registration.
    pub tag: u32,
    /// Name of the registration, under which later handlers find its results.
    pub name: Arc<str>,
    /// Object of the registration.
    pub object: Option<Value>,
}

/// Results of a chain, on the connection of its event.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChainReply {
    /// Number of the call.
    pub number: ChainNumber,
    /// One result for each handler that was called, in their order. The chain ends at the first one
    /// that completes the event.
    pub results: Vec<HandlerReply>,
    /// Side effects of modules meanwhile.
    pub side_effects: SideEffects,
}

/// Result of one handler.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HandlerReply {
    /// The result.
    pub result: HandlerResult,
    /// Elapsed time.
    pub time: Duration,
    /// Bytes of memory that the instances of the module take now.
    pub memory: u64,
    /// Health of the module, if the call failed.
    pub health: Option<ModuleHealth>,
}

impl HandlerReply {
    /// Returns the reply for a handler that was not called.
    pub(crate) fn not_called(result: HandlerResult) -> HandlerReply {
        HandlerReply {
            result,
            time: Duration::ZERO,
            memory: 0,
            health: None,
        }
    }
}

/// Effects of modules beside their results.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SideEffects {
    /// Records of calls.
    pub records: Vec<ModuleRecord>,
    /// Modules that were quarantined.
    pub quarantined: Vec<QuarantineReport>,
    /// Lines for the trace.
    pub lines: Vec<TraceLine>,
    /// Number of further lines that were left out.
    pub lines_left_out: u64,
}

impl SideEffects {
    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        *self == SideEffects::default()
    }
}

/// Record of a call of a module.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ModuleRecord {
    /// Number of the module.
    pub module: ModuleNumber,
    /// The record.
    pub record: NamedFields<CallRecord>,
}

/// Report that a module was quarantined.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct QuarantineReport {
    /// Number of the module.
    pub module: ModuleNumber,
    /// The report.
    pub report: Quarantined,
}

/// Severity of a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as in `tracing::Level`")]
pub enum LineLevel {
    /// No line is wanted.
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// Line for the trace.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TraceLine {
    /// Severity.
    pub level: LineLevel,
    /// Name of the module.
    pub module: String,
    /// The text.
    pub message: String,
}

/// Request of a module that the server answers, on the second connection.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ServiceCall {
    /// Number of the module.
    pub module: ModuleNumber,
    /// The request.
    pub request: ServiceRequest,
}

/// Request to a service of a module.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ServiceRequest {
    /// Asks whether the calls of an instance are recorded.
    Samples {
        /// Number of the instance.
        instance: u64,
    },
    /// Reads a value of the state.
    GetState {
        /// Key of the value.
        key: String,
    },
    /// Sets a value of the state.
    SetState {
        /// Key of the value.
        key: String,
        /// The value.
        value: Bytes,
    },
    /// Deletes a value of the state.
    DeleteState {
        /// Key of the value.
        key: String,
    },
    /// Lists keys of the state.
    ListState {
        /// Beginning of the keys.
        prefix: String,
    },
    /// Reads the resource usage of procs.
    Usage {
        /// The procs.
        procs: Vec<Proc>,
    },
    /// Works in a directory.
    Directory {
        /// Name of the directory.
        directory: String,
        /// Path below it.
        path: String,
        /// The work.
        work: DirectoryWork,
    },
}

/// Work in a directory.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum DirectoryWork {
    /// Reads a file.
    Read,
    /// Writes to a file.
    Write {
        /// Bytes to write.
        bytes: Bytes,
        /// Place of the bytes.
        place: WritePosition,
    },
    /// Removes a file.
    Remove,
    /// Lists the entries of a directory.
    List,
}

/// Answer to a [`ServiceCall`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ServiceAnswer {
    /// Success without a value.
    Done,
    /// Success without a value, where one may be: there is none.
    Nothing,
    /// Yes or no.
    Decision(Offer),
    /// Bytes.
    Bytes(Bytes),
    /// Names.
    Names(Vec<String>),
    /// Infos.
    Infos(Vec<Info>),
    /// Refusal with its status.
    Refused(Status),
}

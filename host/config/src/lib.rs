//! Configuration of Peal: one table of keys, the layers of their values, and their problems.
//!
//! ```text
//! settings.rs     table: every key with its type, bounds, default, meaning and an example
//!   sink.rs       the same for sinks
//!   kinds.rs      how values of each type are read, written and described
//! ConfigSources   layers: built-in, file, drop-ins, environment, command line
//!   load          -> Resolved: a plain Config, the modules, and all origins; or all Problems
//!   load_sections -> the same of some sections alone, for commands that need no more
//!   check         -> ConfigCheck: the valid part, and all problems
//! ArtifactReference  name of a module in a registry
//! saved           modules as a document, which the store keeps
//! words           written form of the Standard's values: codes, ranges, procs, infos
//! View            output of `peal config show`
//! schema          JSON Schema of the files, generated from the table, for editors
//! docs            commented example and tables for readers, generated from the table
//! C_NAMES         correspondence to the settings of OpenPMIx
//! ```

mod artifact;
mod cluster;
mod defaults;
pub mod docs;
mod document;
mod file_kinds;
mod files;
mod kinds;
mod layers;
mod module_kinds;
mod module_settings;
mod nearest;
mod openpmix_names;
mod parser;
mod policy;
mod problem;
mod saved;
pub mod schema;
mod settings;
mod shares;
mod signing;
mod sink;
mod sink_kinds;
mod table;
mod telemetry_kinds;
mod values;
mod view;
mod webhook_sink;
pub mod words;

pub use artifact::{ArtifactReference, ComponentSource, ReferenceError};
pub use cluster::{NatsAddress, NatsAddressError};
pub use document::{ModuleEntry, SinkEntry, TableEntry};
pub use files::{UnsafePermissions, check_owner};
pub use layers::{ConfigCheck, ConfigSources, Resolved, SettingOverride};
pub use module_settings::{Limits, Module};
pub use nearest::nearest;
pub use openpmix_names::{C_NAMES, OpenPmixName};
pub use problem::{Problem, ProblemOrigin, Problems, TextPosition};
pub use saved::{recalled, saved};
pub use settings::{
    Admin, Audit, ClusterSettings, Config, Confinement, Console, Deploy, Events, Identity,
    JobControl, JobSupplied, Log, Metrics, Modules, Policy, Registry, Run, Sandbox, Server, Store,
    Telemetry, Tenant, Tools, Trace, UpgradeSettings,
};
pub use shares::SystemResources;
pub use signing::{KeyId, SignerKeyError, TrustedKey};
pub use sink::Sink;
pub use table::{Setting, SettingsTable};
pub use values::{
    CheckpointSyslog, ConfiguredScope, ConfinementMode, DirectoryGrant, Durability, FilesMode,
    FuelCount, Isolation, Keyword, Mode, ModuleOwner, OnFailure, OrderedChannel, Requirement,
    SinkName, TenantProcess, UserRef,
};
pub use view::{Shown, View};

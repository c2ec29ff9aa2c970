//! Peal's configuration: one table of keys, the layers that their values come from, and what is wrong with them.
//!
//! ```text
//! settings.rs   the table: every key with its type, bounds, default, meaning and an example. There is no second list
//!   sink.rs       the same for sinks
//!   kinds.rs      how values of each type are read and written, and what would be right
//! Sources       the layers: built-in, file, drop-ins, environment, command line
//!   load          -> Resolved: a plain Config, the modules, and the origin of every value; or all Problems at once
//!   load_sections -> the same of some sections alone, for commands that need no more
//!   check         -> ConfigCheck: what can be used, and all that is wrong
//! saved         modules as a document, for those who keep what has run
//! words         how people write things of the Standard: codes, ranges, procs, infos
//! View          what `peal config show` prints
//! docs          the commented example and the tables for readers, generated from the table
//! C_NAMES       what corresponds to the settings of OpenPMIx
//! ```

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
mod settings;
mod shares;
mod signing;
mod sink;
mod sink_kinds;
mod table;
mod values;
mod view;
pub mod words;

pub use document::{ModuleEntry, SinkEntry, TableEntry};
pub use files::{UnsafePermissions, check_owner};
pub use layers::{ConfigCheck, ConfigSources, Resolved, SettingOverride};
pub use module_settings::{Limits, Module};
pub use nearest::nearest;
pub use openpmix_names::{C_NAMES, OpenPmixName};
pub use problem::{Problem, ProblemOrigin, Problems, TextPosition};
pub use saved::{recalled, saved};
pub use settings::{
    Admin, Audit, Config, Confinement, Deploy, Events, Identity, JobControl, JobSupplied, Log,
    Metrics, Modules, Policy, Run, Sandbox, Server, Store, Tenant, Tools, Trace,
};
pub use shares::SystemResources;
pub use signing::{KeyId, SignerKeyError, TrustedKey};
pub use sink::Sink;
pub use table::{Setting, SettingsTable};
pub use values::{
    AuditFailure, CheckpointSyslog, ConfiguredScope, ConfinementMode, ControlGroups,
    DirectoryGrant, Durability, EventLevels, FilesMode, FuelCount, IdentityCheck, Isolation,
    Keyword, Mode, ModuleOwner, OnAbort, OnFailure, OrderedChannel, PolicyDefault, Requirement,
    RestartScope, SinkName, UserRef,
};
pub use view::{Shown, View};

//! From the modules that a configuration names to those that a server runs, at its start and while it runs.
//!
//! ```text
//! component.rs   the files: read, and compared with what their settings say, before anything is compiled
//! scope.rs       whose a module is, and what it may be and have therefore
//! limits.rs      what modules may use and have, each for itself and all of one owner together
//! seats.rs       where each would stand
//! sinks.rs       what modules write to
//! load.rs        one module: compiled, started, told its settings -> Member
//! signature.rs   who signed a component, and who must have
//! set.rs         all modules of a server -> ModuleSet, and the seats that they take -> Hosted
//! overrides.rs   what administrators said of them beside, and what leads from one set to another
//! terms.rs       on which terms a component would run
//! usage.rs       what modules may know of the use of the machine
//! users.rs       what users installed for all of their jobs
//! user_modules.rs  which of it can be used: compiled and started apart from what runs
//! compile_queue.rs  in which order that is done, and when again after failures
//! compiler.rs    what compiles it, outside of the server
//! version.rs     what was wanted: the versions, also across restarts
//! news.rs        what events tell of changes
//! watch.rs       tells when files have changed
//! beginning.rs    what a server starts with
//! status.rs      how they are
//! deployer.rs    the set of a running server, and how another takes its place
//! ```

mod audit_entries;
mod compile_queue;
mod compiler;
mod component;
mod deployer;
mod error;
mod limits;
mod load;
mod module_events;
mod overrides;
mod placement_check;
mod pools;
mod scope;
mod set;
mod signature;
mod sinks;
mod startup;
mod status;
mod terms;
mod usage;
mod user_modules;
mod users;
mod version;
mod watch;

pub use compiler::{CompileFailure, CompileLimits, ComponentCompiler};
pub use component::{Component, ReadError, all, read, unfit_among};
pub use deployer::{Deployer, ReloadTrigger};
pub use error::DeployError;
pub use load::{JobHandlers, Loader};
pub use pools::{code_dir, engine, pools};
pub use signature::{Signature, SignatureConditions, SignatureError, Signer, signature_place};
pub use sinks::{OutputSinks, SinkCatalog, show_sinks};
pub use startup::{StartedModules, StartupModules};
pub use status::ModuleTroubles;
pub use terms::{ImportStatus, InspectedComponent, InterfaceTerms, LoadContext, Terms, terms};
pub use usage::UsageSource;
pub use user_modules::UserProgress;
pub use users::watched;
pub use version::DesiredModule;
pub use watch::Watch;

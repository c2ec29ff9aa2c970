//! Modules of a server: from the configuration to the running set, at the start and while it runs.
//!
//! ```text
//! component_file.rs   reading of component files
//! artifacts.rs        artefacts that are fetched from registries
//! downgrade.rs        refusal of older versions
//! cluster_set.rs      modules of the cluster
//! component.rs        components, and comparison with the settings before compilation
//! declared_settings.rs settings of an admin, and those that a module declares
//! catalogue.rs        components that can be added to a server
//! scope.rs            owner of a module, and the roles and grants that follow from it
//! limits.rs           limits and grants, of each module and of all modules of an owner
//! placement_check.rs  dry run of placements
//! sinks.rs            sinks that modules write to
//! load.rs             one module: compiled, started, initialized -> DeployedModule
//! signature.rs        signers of components, and required signatures
//! set.rs              all modules of a server -> ModuleSet, placed in chains -> Hosted
//! overrides.rs        overrides by admins, and differences between sets
//! terms.rs            terms on which a component would run
//! usage.rs            resource usage that modules may query
//! user_directory.rs   directory of a user, with safe reading of its files
//! users.rs            modules that users installed for their jobs
//! user_modules.rs     validation, compilation and start of these, apart from the running set
//! compile_queue.rs    order of that work, and waits after failures
//! compiler.rs         compilation outside of the server
//! version.rs          versions of the set, also across restarts
//! module_events.rs    events about changes
//! watch.rs            watch for changed files
//! startup.rs          modules at the start of a server
//! status.rs           state of the modules
//! deployer.rs         the set of a running server, and its replacement
//! plan.rs             changes that admins ask for
//! dry_run.rs          check of a replacement
//! ```

mod artifacts;
mod audit_entries;
mod blocking;
mod catalogue;
mod cluster_set;
mod compile_queue;
mod compiler;
mod component;
mod component_file;
mod declared_settings;
mod deployer;
mod downgrade;
mod dry_run;
mod error;
mod limits;
mod load;
mod module_events;
mod overrides;
mod placement_check;
mod plan;
mod pools;
mod scope;
mod set;
mod signature;
mod sinks;
mod startup;
mod status;
mod terms;
mod usage;
mod user_directory;
mod user_modules;
mod users;
mod version;
mod watch;

pub use artifacts::{ArtifactFetcher, FetchProgress, artifact_dir, artifact_dir_beside};
pub use catalogue::{AvailableModule, CatalogueError, available, shipped_dir};
pub use cluster_set::{ClusterModuleParts, settings_to_sign, verify_cluster_modules};
pub use compiler::{CodePlace, CompileFailure, CompileLimits, ComponentCompiler};
pub use component::{AwaitedModule, Component, ReadModules, read_components, unfit_among};
pub use component_file::{ReadError, read};
pub use declared_settings::{SettingMismatch, unknown_setting};
pub use deployer::{Deployer, PresentJob, ReloadTrigger};
pub use dry_run::CheckedConfiguration;
pub use error::DeployError;
pub use load::{JobHandlers, Loader};
pub use pools::{
    cache_dir, code_dir, engine, engine_with, engine_without_cache, pools, user_code_dir,
};
pub use signature::{Signature, SignatureConditions, SignatureError, Signer, signature_place};
pub use sinks::{OutputSinks, SinkCatalog, show_guest_cpu, show_sinks};
pub use startup::{StartedModules, StartupModules};
pub use status::ModuleTroubles;
pub use terms::{ImportStatus, InspectedComponent, InterfaceTerms, LoadContext, Terms, terms};
pub use usage::UsageSource;
pub use user_modules::{DeployerProgress, UserProgress};
pub use users::watched;
pub use version::DesiredModule;
pub use watch::Watch;

//! Component files: reading, and comparison with their settings before compilation.
use crate::{
    limits::{self, ModuleCount},
    placement_check::PlacementCheck,
    scope::{self, ResolvedScope},
    signature::{Signature, SignatureError, Signer},
    users::UserDirectory,
};
use peal_config::{Config, Mode, ModuleEntry, Problem, Problems, UnsafePermissions, check_owner};
use peal_core::owner::Owner;
use peal_model::Hook;
use peal_sandbox::{
    Capability, Digest, Directories, Grants, Inspection, MAX_COMPONENT_BYTES, Role, inspect,
};
use rustix::fs::OFlags;
use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};
use thiserror::Error;

/// Error of reading a component.
#[derive(Debug, Error)]
pub enum ReadError {
    /// An error of the operating system.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The path is a directory, a pipe or the like.
    #[error("cannot read {}: it is not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The component exceeds the limit for users.
    #[error("{} has {size} bytes; the limit for components of users is {limit} (tenant.max_component_bytes)", path.display())]
    TooLarge {
        /// The path of the file.
        path: PathBuf,
        /// The size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// Other users could have written the file.
    #[error("the component, which has no sha256 here: {0}")]
    Exposed(#[from] UnsafePermissions),
}

/// Reads a component, at most one byte more than the maximum size of a component.
pub fn read(path: &Path) -> Result<Vec<u8>, ReadError> {
    contents(path, open(path)?)
}

/// Opens a regular file. Does not block on a pipe.
pub(crate) fn open(path: &Path) -> Result<File, ReadError> {
    let cannot = |source| ReadError::Io {
        path: path.to_owned(),
        source,
    };
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .map_err(cannot)?;
    if !file.metadata().map_err(cannot)?.is_file() {
        return Err(ReadError::NotAFile {
            path: path.to_owned(),
        });
    }
    Ok(file)
}

pub(crate) fn contents(path: &Path, file: File) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    let read = file
        // One byte more than allowed, so that inspection refuses the size.
        .take(MAX_COMPONENT_BYTES as u64 + 1)
        .read_to_end(&mut bytes);
    read.map_err(|source| ReadError::Io {
        path: path.to_owned(),
        source,
    })?;
    Ok(bytes)
}

/// Reads a component of the site. For a server of root the file must be writable by root only,
/// unless its digest is configured.
fn read_for_site(entry: &ModuleEntry) -> Result<Vec<u8>, ReadError> {
    let settings = &entry.settings;
    let file = open(&settings.path)?;
    // With a pinned digest it does not matter who can write the file.
    if settings.sha256.is_none() {
        let metadata = file.metadata().map_err(|source| ReadError::Io {
            path: settings.path.clone(),
            source,
        })?;
        check_owner(&settings.path, &metadata)?;
    }
    contents(&settings.path, file)
}

/// The component of a module, and its owner.
#[derive(Clone, Debug)]
pub struct Component {
    /// The bytes of the component.
    pub bytes: Arc<[u8]>,
    /// The result of its inspection.
    pub inspection: Inspection,
    /// The owner or owners of the module.
    pub whose: ResolvedScope,
    /// The uid of the user who installed it; `None` for the site.
    pub installed_by: Option<u32>,
    /// The name of the module for admins: `UID/NAME` if a user installed it.
    pub title: String,
    /// The signature beside the component.
    pub signature: Result<Signature, SignatureError>,
    /// The signer, if its key was trusted when the component was read.
    pub signer: Option<Signer>,
}

impl Component {
    /// Builds a component from stored bytes.
    pub(crate) fn kept(
        entry: &ModuleEntry,
        bytes: Vec<u8>,
        signature: Result<Signature, SignatureError>,
    ) -> Result<Component, Problem> {
        inspected(entry, bytes, signature, Home::Site)
    }
}

/// Origin of a module.
#[derive(Clone, Copy)]
pub(crate) enum Home<'a> {
    /// The configuration.
    Site,
    /// The directory of a user.
    User(&'a UserDirectory),
}

/// Reads the components of modules, in order.
///
/// # Errors
///
/// Returns all mismatches between components and settings.
pub fn all(
    modules: &[ModuleEntry],
    config: &Config,
) -> Result<Vec<(ModuleEntry, Component)>, Problems> {
    fitting(modules, config, Home::Site)
}

/// Returns the mismatches of modules with valid settings, where the configuration has other errors.
/// Modules with invalid settings may hold placements that are unknown here.
pub fn unfit_among(modules: &[ModuleEntry], config: &Config) -> Vec<Problem> {
    let mut seats = PlacementCheck::default();
    seats.pass_over();
    let sound = modules.iter().filter(|entry| !entry.is_flawed());
    fitted(sound, config, Home::Site, seats).1
}

/// Reads the components of modules of this origin, in order.
pub(crate) fn fitting(
    modules: &[ModuleEntry],
    config: &Config,
    home: Home<'_>,
) -> Result<Vec<(ModuleEntry, Component)>, Problems> {
    let (components, problems) = fitted(modules.iter(), config, home, PlacementCheck::default());
    if problems.is_empty() {
        Ok(components)
    } else {
        Err(Problems(problems))
    }
}

/// Returns the modules with their components, and all mismatches.
fn fitted<'a>(
    modules: impl Iterator<Item = &'a ModuleEntry>,
    config: &Config,
    home: Home<'_>,
    mut seats: PlacementCheck<'a>,
) -> (Vec<(ModuleEntry, Component)>, Vec<Problem>) {
    let (mut components, mut problems) = (Vec::new(), Vec::new());
    let mut heads = ModuleCount::new(config);
    for entry in modules {
        match of(entry, home, config).map(|component| component.signed(&config.modules)) {
            Ok(component) => {
                let (inspection, owner) = (&component.inspection, component.whose.any());
                problems.extend(component.unsigned(entry, &config.modules));
                problems.extend(unfit(entry, inspection, config));
                problems.extend(scope::unfit(entry, &owner, inspection, config));
                let counted = heads.add(&owner);
                problems.extend(
                    counted
                        .err()
                        .map(|error| entry.problem("module.scope", error.to_string())),
                );
                problems.extend(
                    limits::files(entry, entry.settings.mode, &Directories::default()).err(),
                );
                problems.extend(seats.take(entry, &owner, &inspection.roles));
                components.push((entry.clone(), component));
            }
            Err(problem) => {
                problems.push(problem);
                seats.pass_over();
            }
        }
    }
    (components, problems)
}

/// Reads the component of a module and compares its digest with the configured one.
fn of(entry: &ModuleEntry, home: Home<'_>, config: &Config) -> Result<Component, Problem> {
    let settings = &entry.settings;
    let bytes = match home {
        Home::Site => read_for_site(entry),
        Home::User(directory) => directory.component(&settings.path, config.tenant.max_component),
    };
    let bytes = bytes.map_err(|error| entry.problem("module.path", error.to_string()))?;
    if let Some(pin) = settings.sha256.map(Digest) {
        let digest = Digest::of(&bytes);
        if pin != digest {
            let path = settings.path.display();
            let message = format!("{path} has sha256 {digest}, the configuration wants {pin}");
            return Err(entry.problem("module.sha256", message));
        }
    }
    let signature = match home {
        Home::Site => Signature::beside(&settings.path),
        Home::User(directory) => directory.signature(&settings.path),
    };
    inspected(entry, bytes, signature, home)
}

fn inspected(
    entry: &ModuleEntry,
    bytes: Vec<u8>,
    signature: Result<Signature, SignatureError>,
    home: Home<'_>,
) -> Result<Component, Problem> {
    let name = &entry.settings.name;
    let (whose, installed_by, title) = match home {
        Home::Site => (scope::whose(entry)?, None, name.clone()),
        Home::User(directory) => {
            let uid = directory.uid();
            (
                ResolvedScope::One(Owner::User(uid)),
                Some(uid),
                format!("{uid}/{name}"),
            )
        }
    };
    let inspection = inspect(&bytes)
        .map_err(|error| entry.problem("module.path", format!("module {name}: {error}")))?;
    Ok(Component {
        bytes: bytes.into(),
        inspection,
        whose,
        installed_by,
        title,
        signature,
        signer: None,
    })
}

/// Requirement for a setting to have an effect.
enum SettingRequirement {
    Role(Role),
    Policy,
    Grant(Capability),
}

const NEEDS: [(&str, SettingRequirement); 10] = [
    ("module.codes", SettingRequirement::Role(Role::EventHandler)),
    (
        "module.event_classes",
        SettingRequirement::Role(Role::EventHandler),
    ),
    (
        "module.affected",
        SettingRequirement::Role(Role::EventHandler),
    ),
    (
        "module.oneshot",
        SettingRequirement::Role(Role::EventHandler),
    ),
    ("module.on_failure", SettingRequirement::Policy),
    (
        "module.channels",
        SettingRequirement::Role(Role::LogChannel),
    ),
    ("module.config", SettingRequirement::Role(Role::Lifecycle)),
    ("module.sinks", SettingRequirement::Grant(Capability::Sink)),
    ("module.files", SettingRequirement::Grant(Capability::Files)),
    (
        "module.max_state_bytes",
        SettingRequirement::Grant(Capability::State),
    ),
];

impl SettingRequirement {
    /// Returns the unmet requirement, if there is one.
    fn unmet(&self, entry: &ModuleEntry, found: &Inspection) -> Option<String> {
        let is_met = match self {
            SettingRequirement::Role(role) => found.roles.contains(role),
            SettingRequirement::Policy => Hook::ALL
                .into_iter()
                .filter_map(Role::policy)
                .any(|role| found.roles.contains(&role)),
            SettingRequirement::Grant(capability) => has_grant(entry, *capability),
        };
        let missing = match self {
            SettingRequirement::Role(role) => format!("it exports no {role}"),
            SettingRequirement::Policy => "it exports no policy".to_owned(),
            SettingRequirement::Grant(capability) => {
                format!("{:?} is not among its grants", capability.name())
            }
        };
        (!is_met).then_some(missing)
    }
}

pub(crate) fn has_grant(entry: &ModuleEntry, capability: Capability) -> bool {
    entry
        .settings
        .grants
        .iter()
        .any(|grant| grant == capability.name())
}

/// Returns the grants of a module.
pub(crate) fn grants(entry: &ModuleEntry) -> Grants {
    Capability::ALL
        .into_iter()
        .filter(|capability| has_grant(entry, *capability))
        .collect()
}

fn unfit(entry: &ModuleEntry, found: &Inspection, config: &Config) -> Vec<Problem> {
    let name = &entry.settings.name;
    let mut problems = Vec::new();
    let mut wrong = |key, message: String| {
        problems.push(entry.problem(key, format!("module {name} {message}")))
    };
    for import in &found.unknown_imports {
        wrong(
            "module.path",
            format!("imports {import}, which Peal does not offer"),
        );
    }
    for capability in found
        .capabilities
        .iter()
        .filter(|capability| !has_grant(entry, **capability))
    {
        let grant = capability.name();
        wrong(
            "module.grants",
            format!("imports {capability}, which it is not granted (add {grant:?} to its grants)"),
        );
    }
    if entry.settings.mode == Mode::Shadow && found.roles.contains(&Role::LogChannel) {
        let why =
            "cannot be a shadow: it is a log channel, and written messages cannot be taken back";
        wrong("module.mode", why.to_owned());
    }
    if has_grant(entry, Capability::State) && config.store.path.is_none() {
        wrong(
            "module.grants",
            "cannot keep `state` without a store: set store.path".to_owned(),
        );
    }
    for (key, need) in NEEDS.iter().filter(|need| entry.given(need.0).is_some()) {
        if let Some(missing) = need.unmet(entry, found) {
            wrong(key, format!("cannot use {key}: {missing}"));
        }
    }
    problems
}

//! Components, and comparison with their settings before compilation.
use crate::{
    component_file::{ReadError, contents, open},
    limits::{self, ModuleCount},
    placement_check::PlacementCheck,
    scope::{self, ResolvedScope},
    signature::{Signature, SignatureError, Signer, lacking},
    user_directory::UserDirectory,
};
use peal_config::{
    Config, Mode, ModuleEntry, ModuleOwner, Modules, Problem, Problems, check_owner,
};
use peal_core::owner::Owner;
use peal_model::Hook;
use peal_sandbox::{Capability, Digest, Directories, Inspection, Role, inspect};
use std::{sync::Arc, time::SystemTime};

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
    pub scope: ResolvedScope,
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
    /// Returns the kind of owner for the signature rules.
    pub(crate) fn module_owner(&self) -> ModuleOwner {
        match &self.scope {
            ResolvedScope::One(Owner::Site) => ModuleOwner::Site,
            ResolvedScope::One(Owner::User(_)) => ModuleOwner::User,
            ResolvedScope::One(Owner::Namespace(_)) | ResolvedScope::Jobs(_) => {
                ModuleOwner::Namespace
            }
        }
    }

    /// Sets the signer, if its key is trusted.
    pub(crate) fn signed(mut self, rules: &Modules) -> Component {
        let owner = self.module_owner();
        let signer = self.signature.as_ref().ok();
        self.signer =
            signer.and_then(|signature| signature.signer(&self.bytes, rules.keys_of(owner)).ok());
        self
    }

    /// Returns the signer, if its key is still trusted and the signature still valid.
    pub(crate) fn trusted_signer(&self, rules: &Modules) -> Option<&Signer> {
        let signer = self.signer.as_ref()?;
        let is_trusted = rules
            .keys_of(self.module_owner())
            .any(|key| *key == signer.key);
        let holds = signer
            .conditions
            .at(SystemTime::now(), signer.key.id())
            .is_ok();
        (is_trusted && holds).then_some(signer)
    }

    /// Returns the error of a component that must be signed and is not.
    pub(crate) fn unsigned(&self, entry: &ModuleEntry, rules: &Modules) -> Option<Problem> {
        let name = Some(entry.settings.name.as_str());
        if self
            .trusted_signer(rules)
            // The bytes were verified when they were read. Only what can change since is looked at
            // again: the trusted keys, the time and the name.
            .is_some_and(|signer| signer.check_module(name).is_ok())
        {
            return None;
        }
        let why = lacking(
            rules,
            (self.module_owner(), name),
            &self.bytes,
            &self.signature,
        )?;
        Some(entry.problem(
            "module.path",
            format!("module {} {why}", entry.settings.name),
        ))
    }

    /// Builds a component from stored bytes.
    pub(crate) fn from_store(
        entry: &ModuleEntry,
        bytes: Vec<u8>,
        signature: Result<Signature, SignatureError>,
    ) -> Result<Component, Problem> {
        inspected(entry, bytes, signature, ModuleOrigin::Site)
    }
}

/// Origin of a module.
#[derive(Clone, Copy)]
pub(crate) enum ModuleOrigin<'a> {
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
pub fn read_components(
    modules: &[ModuleEntry],
    config: &Config,
) -> Result<Vec<(ModuleEntry, Component)>, Problems> {
    fitting(modules, config, ModuleOrigin::Site)
}

/// Returns the mismatches of modules with valid settings, where the configuration has other errors.
/// Modules with invalid settings may hold placements that are unknown here.
pub fn unfit_among(modules: &[ModuleEntry], config: &Config) -> Vec<Problem> {
    let mut placements = PlacementCheck::default();
    placements.pass_over();
    let sound = modules.iter().filter(|entry| !entry.is_flawed());
    fitted(sound, config, ModuleOrigin::Site, placements).1
}

/// Reads the components of modules of this origin, in order.
pub(crate) fn fitting(
    modules: &[ModuleEntry],
    config: &Config,
    home: ModuleOrigin<'_>,
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
    home: ModuleOrigin<'_>,
    mut placements: PlacementCheck<'a>,
) -> (Vec<(ModuleEntry, Component)>, Vec<Problem>) {
    let mut components = Vec::new();
    let mut problems = Vec::new();
    let mut module_counts = ModuleCount::new(config);
    for entry in modules {
        match of(entry, home, config).map(|component| component.signed(&config.modules)) {
            Ok(component) => {
                let inspection = &component.inspection;
                let owner = component.scope.any();
                problems.extend(component.unsigned(entry, &config.modules));
                problems.extend(unfit(entry, inspection, config));
                problems.extend(scope::unfit(entry, &owner, inspection, config));
                let counted = module_counts.add(&owner);
                problems.extend(
                    counted
                        .err()
                        .map(|error| entry.problem("module.scope", error.to_string())),
                );
                // Opened only to report what cannot be used. A module opens its own when it is
                // loaded.
                problems.extend(
                    limits::files(entry, entry.settings.mode, &Directories::default()).err(),
                );
                problems.extend(placements.take(entry, &owner, &inspection.roles));
                components.push((entry.clone(), component));
            }
            Err(problem) => {
                problems.push(problem);
                // Its placements are unknown, so conflicts that depend on them are not reported.
                placements.pass_over();
            }
        }
    }
    (components, problems)
}

/// Reads the component of a module and compares its digest with the configured one.
fn of(entry: &ModuleEntry, home: ModuleOrigin<'_>, config: &Config) -> Result<Component, Problem> {
    let settings = &entry.settings;
    let bytes = match home {
        ModuleOrigin::Site => read_for_site(entry),
        ModuleOrigin::User(directory) => {
            directory.component(&settings.path, config.tenant.max_component)
        }
    };
    let bytes = bytes.map_err(|error| entry.problem("module.path", error.to_string()))?;
    // Compared first, so that other bytes are not even inspected.
    if let Some(pin) = settings.sha256.map(Digest) {
        let digest = Digest::of(&bytes);
        if pin != digest {
            let path = settings.path.display();
            let message = format!("{path} has sha256 {digest}; the configuration requires {pin}");
            return Err(entry.problem("module.sha256", message));
        }
    }
    let signature = match home {
        ModuleOrigin::Site => Signature::beside(&settings.path),
        ModuleOrigin::User(directory) => directory.signature(&settings.path),
    };
    inspected(entry, bytes, signature, home)
}

fn inspected(
    entry: &ModuleEntry,
    bytes: Vec<u8>,
    signature: Result<Signature, SignatureError>,
    home: ModuleOrigin<'_>,
) -> Result<Component, Problem> {
    let name = &entry.settings.name;
    let (scope, installed_by, title) = match home {
        ModuleOrigin::Site => (scope::resolve_scope(entry)?, None, name.clone()),
        ModuleOrigin::User(directory) => {
            let uid = directory.uid();
            (
                ResolvedScope::One(Owner::User(uid)),
                Some(uid),
                format!("{uid}/{name}"),
            )
        }
    };
    // Reads imports and exports only, so that errors are reported before any compilation.
    let inspection = inspect(&bytes)
        .map_err(|error| entry.problem("module.path", format!("module {name}: {error}")))?;
    Ok(Component {
        bytes: bytes.into(),
        inspection,
        scope,
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
            SettingRequirement::Grant(capability) => limits::has_grant(entry, *capability),
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
        .filter(|capability| !limits::has_grant(entry, **capability))
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
    if limits::has_grant(entry, Capability::State) && config.store.path.is_none() {
        wrong(
            "module.grants",
            "cannot keep `state` without a store: set store.path".to_owned(),
        );
    }
    // Only settings that were given: a default without effect is no mistake.
    for (key, need) in NEEDS
        .iter()
        .filter(|need| entry.origin_of(need.0).is_some())
    {
        if let Some(missing) = need.unmet(entry, found) {
            wrong(key, format!("cannot use {key}: {missing}"));
        }
    }
    problems
}

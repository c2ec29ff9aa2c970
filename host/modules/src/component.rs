//! Components, and comparison with their settings before compilation.
use crate::{
    artifacts::artifact_dir,
    component_file::{ReadError, contents, open},
    declared_settings,
    limits::{self, ModuleCount},
    placement_check::PlacementCheck,
    scope::{self, ResolvedScope},
    signature::{Signature, SignatureError, Signer, lacking},
    user_directory::UserDirectory,
    version::DesiredModule,
};
use peal_config::{
    ArtifactReference, ComponentSource, Config, Mode, ModuleEntry, ModuleOwner, Modules, Problem,
    Problems, check_owner,
};
use peal_core::owner::Owner;
use peal_model::Hook;
use peal_registry::{ArtifactStore, annotation};
use peal_sandbox::{Capability, Digest, Directories, Inspection, Role, inspect};
use std::{collections::BTreeMap, path::Path, sync::Arc, time::SystemTime};

/// Reads a component of the site. For a server of root the file must be writable by root only,
/// unless its digest is configured.
fn read_for_site(entry: &ModuleEntry, path: &Path) -> Result<Vec<u8>, ReadError> {
    let file = open(path)?;
    // With a pinned digest it does not matter who can write the file.
    if entry.settings.sha256.is_none() {
        let metadata = file.metadata().map_err(|source| ReadError::Io {
            path: path.to_owned(),
            source,
        })?;
        check_owner(path, &metadata)?;
    }
    contents(path, file)
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
        self.scope.module_owner()
    }

    /// Sets the signer, if its key is trusted.
    pub(crate) fn signed(mut self, rules: &Modules) -> Component {
        let owner = self.module_owner();
        // Without the time, which is looked at where the signer is used: of an expired signature the
        // version still counts.
        let signer = self.signature.as_ref().ok();
        self.signer =
            signer.and_then(|signature| signature.verified(&self.bytes, rules.keys_of(owner)).ok());
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
        unsigned(
            entry,
            (self.module_owner(), rules),
            &self.bytes,
            &self.signature,
        )
    }

    /// Builds a component from stored bytes.
    pub(crate) fn from_store(
        entry: &ModuleEntry,
        bytes: Vec<u8>,
        signature: Result<Signature, SignatureError>,
    ) -> Result<Component, Problem> {
        let place = ModulePlace::of(entry, ModuleOrigin::Site)?;
        inspected(entry, place, bytes, signature)
    }
}

/// Returns the error of a component that must be signed and is not.
fn unsigned(
    entry: &ModuleEntry,
    (owner, rules): (ModuleOwner, &Modules),
    bytes: &[u8],
    signature: &Result<Signature, SignatureError>,
) -> Option<Problem> {
    let name = entry.settings.name.as_str();
    let why = lacking(rules, (owner, Some(name)), bytes, signature)?;
    Some(entry.problem("module.path", format!("module {name} {why}")))
}

/// Origin of a module.
#[derive(Clone, Copy)]
pub(crate) enum ModuleOrigin<'a> {
    /// The configuration.
    Site,
    /// The directory of a user.
    User(&'a UserDirectory),
    /// The cluster, with the components by their digests.
    Cluster(&'a BTreeMap<Digest, ClusterComponent>),
}

/// Component that came from the cluster.
#[derive(Clone, Debug)]
pub(crate) struct ClusterComponent {
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) signature: Result<Signature, SignatureError>,
}

/// Configured modules in their order. Those whose artefacts were not fetched yet have no components.
#[derive(Clone, Debug)]
pub struct ReadModules(Vec<ReadModule>);

#[derive(Clone, Debug)]
struct ReadModule {
    entry: ModuleEntry,
    component: Option<Component>,
}

/// Module whose artefact is not in the store.
#[derive(Clone, Debug)]
pub struct AwaitedModule {
    /// Settings of the module.
    pub entry: ModuleEntry,
    /// Name of the artefact.
    pub reference: ArtifactReference,
}

impl ReadModules {
    /// Returns the modules whose artefacts are not in the store.
    pub fn awaited(&self) -> Vec<AwaitedModule> {
        let missing = self.0.iter().filter(|read| read.component.is_none());
        missing
            .filter_map(|read| {
                Some(AwaitedModule {
                    entry: read.entry.clone(),
                    reference: read.entry.settings.path.artifact()?.clone(),
                })
            })
            .collect()
    }

    /// Returns the modules with their components.
    ///
    /// # Errors
    ///
    /// Fails if an artefact is not in the store.
    pub fn complete(self) -> Result<Vec<DesiredModule>, Problems> {
        let problem = |awaited: &AwaitedModule| {
            let AwaitedModule { entry, reference } = awaited;
            let message = format!(
                "module {} is not in the store of artefacts: `peal module pull --store {reference}` fetches it",
                entry.settings.name
            );
            entry.problem("module.path", message)
        };
        let problems: Vec<Problem> = self.awaited().iter().map(problem).collect();
        if !problems.is_empty() {
            return Err(Problems(problems));
        }
        let complete = |read: ReadModule| Some((read.entry, read.component?));
        Ok(self.0.into_iter().filter_map(complete).collect())
    }

    /// Returns the modules that can run: in the place of one whose artefact is not in the store, the
    /// module of that name which ran last, if there is one.
    pub(crate) fn with_earlier(self, ran: &[DesiredModule]) -> Vec<DesiredModule> {
        let usable = |ReadModule { entry, component }: ReadModule| match component {
            Some(component) => Some((entry, component)),
            None => ran
                .iter()
                .find(|(_, component)| component.title == entry.settings.name)
                .cloned(),
        };
        self.0.into_iter().filter_map(usable).collect()
    }
}

/// Reads the components of modules, in order.
///
/// # Errors
///
/// Returns all mismatches between components and settings.
pub fn read_components(modules: &[ModuleEntry], config: &Config) -> Result<ReadModules, Problems> {
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
) -> Result<ReadModules, Problems> {
    let (components, problems) = fitted(modules.iter(), config, home, PlacementCheck::default());
    if problems.is_empty() {
        Ok(ReadModules(components))
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
) -> (Vec<ReadModule>, Vec<Problem>) {
    let mut components = Vec::new();
    let mut problems = Vec::new();
    let mut module_counts = ModuleCount::new(config);
    for entry in modules {
        let component = of(entry, home, config);
        match component.map(|found| found.map(|component| component.signed(&config.modules))) {
            Ok(Some(component)) => {
                let inspection = &component.inspection;
                let owner = component.scope.any();
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
                components.push(ReadModule {
                    entry: entry.clone(),
                    component: Some(component),
                });
            }
            Ok(None) => {
                components.push(ReadModule {
                    entry: entry.clone(),
                    component: None,
                });
                // Its roles are unknown, and so are its placements.
                placements.pass_over();
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

/// Component with its signature, as it was read.
struct ReadComponent {
    bytes: Vec<u8>,
    signature: Result<Signature, SignatureError>,
}

/// Reads a component from the store of artefacts; `None` if it is not there.
fn from_artifacts(
    reference: &ArtifactReference,
    config: &Config,
) -> Result<Option<ReadComponent>, String> {
    let directory = artifact_dir(config)
        .ok_or_else(|| "artefacts have no directory: set registry.store_dir".to_owned())?;
    // A reference without a digest is refused where the configuration is read.
    let digest = reference.digest.map(Digest).unwrap_or(Digest([0; 32]));
    let stored = ArtifactStore::at(&directory)
        .get(&digest)
        .map_err(|error| format!("{reference}: {error}"))?;
    Ok(stored.map(|stored| ReadComponent {
        bytes: stored.component,
        signature: match stored.manifest.annotations.get(annotation::SIGNATURE) {
            Some(text) => Signature::parse(text),
            None => Err(SignatureError::NotPushed),
        },
    }))
}

/// Reads the component of a module from where its settings say; `None` if it must be fetched first.
fn read_source(
    entry: &ModuleEntry,
    home: ModuleOrigin<'_>,
    config: &Config,
) -> Result<Option<ReadComponent>, String> {
    let path = match (&entry.settings.path, home) {
        (ComponentSource::File(path), ModuleOrigin::Cluster(_)) => {
            return Err(format!(
                "{} is a file; a module of the cluster names its component as cluster:sha256:DIGEST",
                path.display()
            ));
        }
        (ComponentSource::File(path), _) => path,
        (ComponentSource::Artifact(reference), ModuleOrigin::Site) => {
            return from_artifacts(reference, config);
        }
        (ComponentSource::Artifact(reference), ModuleOrigin::Cluster(_)) => {
            return from_artifacts(reference, config);
        }
        (ComponentSource::Cluster(digest), ModuleOrigin::Cluster(components)) => {
            let digest = Digest(*digest);
            let component = components
                .get(&digest)
                .ok_or_else(|| format!("component {digest} did not come with the set"))?;
            return Ok(Some(ReadComponent {
                bytes: component.bytes.to_vec(),
                signature: component.signature.clone(),
            }));
        }
        (source @ ComponentSource::Cluster(_), ModuleOrigin::Site | ModuleOrigin::User(_)) => {
            return Err(format!(
                "{source} is a component of the cluster; it should be a file, and `peal module deploy` brings it to all nodes"
            ));
        }
        (ComponentSource::Artifact(reference), ModuleOrigin::User(_)) => {
            return Err(format!(
                "{reference}: a module of a user is a file beside its .toml (`peal module pull` makes one)"
            ));
        }
    };
    let bytes = match home {
        ModuleOrigin::Site | ModuleOrigin::Cluster(_) => read_for_site(entry, path),
        ModuleOrigin::User(directory) => directory.component(path, config.tenant.max_component),
    };
    let bytes = bytes.map_err(|error| error.to_string())?;
    let signature = match home {
        ModuleOrigin::Site | ModuleOrigin::Cluster(_) => Signature::beside(path),
        ModuleOrigin::User(directory) => directory.signature(path),
    };
    Ok(Some(ReadComponent { bytes, signature }))
}

/// Reads the component of a module and compares its digest with the configured one; `None` if it
/// must be fetched first.
fn of(
    entry: &ModuleEntry,
    home: ModuleOrigin<'_>,
    config: &Config,
) -> Result<Option<Component>, Problem> {
    let settings = &entry.settings;
    let read = read_source(entry, home, config);
    let Some(ReadComponent { bytes, signature }) =
        read.map_err(|error| entry.problem("module.path", error))?
    else {
        return Ok(None);
    };
    // Compared first, so that other bytes are not even inspected.
    if let Some(pin) = settings.sha256.map(Digest) {
        let digest = Digest::of(&bytes);
        if pin != digest {
            let path = &settings.path;
            let message = format!("{path} has sha256 {digest}; the configuration requires {pin}");
            return Err(entry.problem("module.sha256", message));
        }
    }
    // Likewise, what nobody has signed is not inspected where a signature is required.
    let place = ModulePlace::of(entry, home)?;
    let owner = place.scope.module_owner();
    match unsigned(entry, (owner, &config.modules), &bytes, &signature) {
        Some(problem) => Err(problem),
        None => inspected(entry, place, bytes, signature).map(Some),
    }
}

/// Owners of a module, and its name for admins.
struct ModulePlace {
    scope: ResolvedScope,
    installed_by: Option<u32>,
    title: String,
}

impl ModulePlace {
    fn of(entry: &ModuleEntry, home: ModuleOrigin<'_>) -> Result<ModulePlace, Problem> {
        let name = &entry.settings.name;
        Ok(match home {
            ModuleOrigin::Site | ModuleOrigin::Cluster(_) => ModulePlace {
                scope: scope::resolve_scope(entry)?,
                installed_by: None,
                title: name.clone(),
            },
            ModuleOrigin::User(directory) => {
                let uid = directory.uid();
                ModulePlace {
                    scope: ResolvedScope::One(Owner::User(uid)),
                    installed_by: Some(uid),
                    title: format!("{uid}/{name}"),
                }
            }
        })
    }
}

fn inspected(
    entry: &ModuleEntry,
    place: ModulePlace,
    bytes: Vec<u8>,
    signature: Result<Signature, SignatureError>,
) -> Result<Component, Problem> {
    let name = &entry.settings.name;
    // Reads imports and exports only, so that errors are reported before any compilation.
    let inspection = inspect(&bytes)
        .map_err(|error| entry.problem("module.path", format!("module {name}: {error}")))?;
    Ok(Component {
        bytes: bytes.into(),
        inspection,
        scope: place.scope,
        installed_by: place.installed_by,
        title: place.title,
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

const NEEDS: [(&str, SettingRequirement); 11] = [
    ("module.where", SettingRequirement::Role(Role::EventHandler)),
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
    if let Some(mismatch) = found.contract_mismatch() {
        wrong("module.path", mismatch.to_string());
    } else {
        for import in &found.unknown_imports {
            wrong(
                "module.path",
                format!("imports {import}, which Peal does not offer"),
            );
        }
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
    if let Some(declaration) = &found.declaration {
        let mismatches = declared_settings::mismatches(declaration, &entry.settings.config);
        problems.extend(
            mismatches.into_iter().map(|mismatch| {
                entry.problem("module.config", format!("module {name}: {mismatch}"))
            }),
        );
    }
    problems
}

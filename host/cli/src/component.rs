//! Components as files: reading them, and what of their settings they do not fit, before anything is compiled.
use crate::{
    limits::{self, Tenants},
    scope,
    seats::Seats,
    serve,
};
use anyhow::{Context, Result, bail};
use peal_config::{Config, ModuleEntry, Problem, Problems, Resolved, check_owner};
use peal_core::owner::Owner;
use peal_model::Hook;
use peal_sandbox::{Capability, Digest, Inspection, MAX_COMPONENT_BYTES, Role, inspect};
use rustix::fs::OFlags;
use std::{
    fs::{File, OpenOptions},
    io::Read,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Reads a component, and no more of what is none than tells that it is too large.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    contents(path, open(path)?)
}

/// Opens a file, and nothing else: a pipe would keep us waiting for whoever writes to it.
fn open(path: &Path) -> Result<File> {
    let cannot = || format!("cannot read {}", path.display());
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).with_context(cannot)?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).with_context(cannot)?;
    if !file.metadata().with_context(cannot)?.is_file() {
        bail!("cannot read {}: it is not a regular file", path.display());
    }
    Ok(file)
}

fn contents(path: &Path, file: File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = file.take(MAX_COMPONENT_BYTES as u64 + 1).read_to_end(&mut bytes);
    read.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(bytes)
}

/// Reads a component of the site. What a server of root runs nobody else may have written, unless it is known byte by byte.
fn read_for_site(entry: &ModuleEntry) -> Result<Vec<u8>> {
    let settings = &entry.settings;
    let file = open(&settings.path)?;
    if settings.sha256.is_none() {
        check_owner(&settings.path, &file.metadata()?).context("the component, which has no sha256 here")?;
    }
    contents(&settings.path, file)
}

/// Tells everything for which a server would not start under this configuration, as far as it is seen without starting modules.
pub fn check_all(resolved: &Resolved) -> Result<(), Problems> {
    let mut problems = all(resolved).err().map(|problems| problems.0).unwrap_or_default();
    problems.extend(serve::admin_group(resolved).err());
    if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
}

/// The component of a module, and whose it is.
pub struct Component {
    /// Its file.
    pub bytes: Vec<u8>,
    /// Whose chain it stands in.
    pub owner: Owner,
}

/// The components of all modules, in their order; or everything that they and their settings do not fit.
pub fn all(resolved: &Resolved) -> Result<Vec<Component>, Problems> {
    let (mut components, mut problems, mut seats) = (Vec::new(), Vec::new(), Seats::default());
    let tenants = Tenants::new(&resolved.config);
    for entry in &resolved.modules {
        match of(entry) {
            Ok((component, inspection)) => {
                problems.extend(unfit(entry, &inspection, &resolved.config));
                problems.extend(scope::unfit(entry, &component.owner, &inspection, &resolved.config));
                problems.extend(
                    tenants.join(&component.owner).err().map(|error| entry.problem("module.scope", error.to_string())),
                );
                problems.extend(limits::files(entry).err());
                problems.extend(seats.take(entry, &component.owner, &inspection.roles));
                components.push(component);
            }
            Err(problem) => {
                problems.push(problem);
                seats.pass_over();
            }
        }
    }
    if problems.is_empty() { Ok(components) } else { Err(Problems(problems)) }
}

/// The component of a module, if it is the one that the settings say.
fn of(entry: &ModuleEntry) -> Result<(Component, Inspection), Problem> {
    let (settings, owner) = (&entry.settings, scope::owner(entry)?);
    let bytes = read_for_site(entry).map_err(|error| entry.problem("module.path", format!("{error:#}")))?;
    let digest = Digest::of(&bytes);
    if let Some(pin) = settings.sha256.map(Digest)
        && pin != digest
    {
        let path = settings.path.display();
        let message = format!("{path} has sha256 {digest}, the configuration wants {pin}");
        return Err(entry.problem("module.sha256", message));
    }
    match inspect(&bytes) {
        Ok(inspection) => Ok((Component { bytes, owner }, inspection)),
        Err(error) => Err(entry.problem("module.path", format!("module {}: {error}", settings.name))),
    }
}

/// What a setting needs, so that it means anything.
enum Need {
    Role(Role),
    Policy,
    Grant(Capability),
}

const NEEDS: [(&str, Need); 10] = [
    ("module.codes", Need::Role(Role::EventHandler)),
    ("module.levels", Need::Role(Role::EventHandler)),
    ("module.affected", Need::Role(Role::EventHandler)),
    ("module.oneshot", Need::Role(Role::EventHandler)),
    ("module.on_failure", Need::Policy),
    ("module.channels", Need::Role(Role::LogChannel)),
    ("module.config", Need::Role(Role::Lifecycle)),
    ("module.sinks", Need::Grant(Capability::Sink)),
    ("module.files", Need::Grant(Capability::Files)),
    ("module.state_quota", Need::Grant(Capability::State)),
];

impl Need {
    /// What is missing, if it is.
    fn unmet(&self, entry: &ModuleEntry, found: &Inspection) -> Option<String> {
        let is_met = match self {
            Need::Role(role) => found.roles.contains(role),
            Need::Policy => Hook::ALL.into_iter().filter_map(Role::policy).any(|role| found.roles.contains(&role)),
            Need::Grant(capability) => has_grant(entry, *capability),
        };
        let missing = match self {
            Need::Role(role) => format!("it exports no {role}"),
            Need::Policy => "it exports no policy".to_owned(),
            Need::Grant(capability) => format!("{:?} is not among its grants", capability.name()),
        };
        (!is_met).then_some(missing)
    }
}

fn has_grant(entry: &ModuleEntry, capability: Capability) -> bool {
    entry.settings.grants.iter().any(|grant| grant == capability.name())
}

fn unfit(entry: &ModuleEntry, found: &Inspection, config: &Config) -> Vec<Problem> {
    let name = &entry.settings.name;
    let mut problems = Vec::new();
    let mut wrong = |key, message: String| problems.push(entry.problem(key, format!("module {name} {message}")));
    for import in &found.unknown_imports {
        wrong("module.path", format!("imports {import}, which Peal does not offer"));
    }
    for capability in found.capabilities.iter().filter(|capability| !has_grant(entry, **capability)) {
        let grant = capability.name();
        wrong("module.grants", format!("imports {capability}, which it is not granted (add {grant:?} to its grants)"));
    }
    if has_grant(entry, Capability::State) && config.store.path.is_none() {
        wrong("module.grants", "cannot keep `state` without a store: set store.path".to_owned());
    }
    for (key, need) in NEEDS.iter().filter(|need| entry.given(need.0).is_some()) {
        if let Some(missing) = need.unmet(entry, found) {
            wrong(key, format!("cannot use {key}: {missing}"));
        }
    }
    problems
}

//! Components as files: reading them, and what of their settings they do not fit, before anything is compiled.
use anyhow::{Context, Result};
use peal_config::{ModuleEntry, Problem, Problems};
use peal_model::Hook;
use peal_sandbox::{Capability, Digest, Inspection, MAX_COMPONENT_BYTES, Role, inspect};
use std::{fs::File, io::Read, path::Path};

/// Reads a component, and no more of what is none than tells that it is too large.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let cannot = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(cannot)?;
    let mut bytes = Vec::new();
    file.take(MAX_COMPONENT_BYTES as u64 + 1).read_to_end(&mut bytes).with_context(cannot)?;
    Ok(bytes)
}

/// Tells everything that the components of modules do not fit.
pub fn check_all(modules: &[ModuleEntry]) -> Result<(), Problems> {
    let problems: Vec<Problem> = modules.iter().filter_map(|entry| of(entry).err()).flatten().collect();
    if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
}

/// The component of a module, if it is what the settings say.
pub fn of(entry: &ModuleEntry) -> Result<Vec<u8>, Vec<Problem>> {
    let settings = &entry.settings;
    let one = |key, message: String| vec![entry.problem(key, message)];
    let bytes = read(&settings.path).map_err(|error| one("module.path", format!("{error:#}")))?;
    let digest = Digest::of(&bytes);
    if let Some(pin) = settings.sha256.map(Digest)
        && pin != digest
    {
        let path = settings.path.display();
        return Err(one("module.sha256", format!("{path} has sha256 {digest}, the configuration wants {pin}")));
    }
    let inspection =
        inspect(&bytes).map_err(|error| one("module.path", format!("module {}: {error}", settings.name)))?;
    let problems = unfit(entry, &inspection);
    if problems.is_empty() { Ok(bytes) } else { Err(problems) }
}

/// What a setting needs, so that it means anything.
enum Need {
    Role(Role),
    Policy,
    Grant(Capability),
}

const NEEDS: [(&str, Need); 7] = [
    ("module.codes", Need::Role(Role::EventHandler)),
    ("module.oneshot", Need::Role(Role::EventHandler)),
    ("module.on_failure", Need::Policy),
    ("module.channels", Need::Role(Role::LogChannel)),
    ("module.config", Need::Role(Role::Lifecycle)),
    ("module.sinks", Need::Grant(Capability::Sink)),
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

fn unfit(entry: &ModuleEntry, found: &Inspection) -> Vec<Problem> {
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
    for (key, need) in NEEDS.iter().filter(|need| entry.given(need.0).is_some()) {
        if let Some(missing) = need.unmet(entry, found) {
            wrong(key, format!("cannot use {key}: {missing}"));
        }
    }
    problems
}

//! Components as files: reading them, and what of their settings they do not fit, before anything is compiled.
use anyhow::{Context, Result};
use peal_config::{ModuleEntry, Problem, Problems};
use peal_sandbox::{Digest, Inspection, MAX_COMPONENT_BYTES, Role, inspect};
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

/// What a setting needs a module to be, so that it means anything.
type Need = (&'static str, fn(&ModuleEntry, &Inspection) -> bool, &'static str);

const NEEDS: [Need; 7] = [
    ("module.codes", |_, found| found.roles.contains(&Role::EventHandler), "it exports no event-handler"),
    ("module.oneshot", |_, found| found.roles.contains(&Role::EventHandler), "it exports no event-handler"),
    (
        "module.on_failure",
        |_, found| found.roles.iter().any(|role| role.name().ends_with("-policy")),
        "it exports no policy",
    ),
    (
        "module.channels",
        |_, found| found.roles.iter().any(|role| role.name() == "log-channel"),
        "it exports no log-channel",
    ),
    ("module.config", |_, found| found.roles.contains(&Role::Lifecycle), "it exports no lifecycle, so nobody reads it"),
    ("module.sinks", |entry, _| has_grant(entry, "sink"), "`sink` is not among its grants"),
    ("module.state_quota", |entry, _| has_grant(entry, "state"), "`state` is not among its grants"),
];

fn has_grant(entry: &ModuleEntry, name: &str) -> bool {
    entry.settings.grants.iter().any(|grant| grant == name)
}

fn unfit(entry: &ModuleEntry, found: &Inspection) -> Vec<Problem> {
    let name = &entry.settings.name;
    let mut problems = Vec::new();
    let mut wrong = |key, message: String| problems.push(entry.problem(key, format!("module {name} {message}")));
    for import in &found.unknown_imports {
        wrong("module.path", format!("imports {import}, which Peal does not offer"));
    }
    for capability in found.capabilities.iter().filter(|capability| !has_grant(entry, capability.name())) {
        let grant = capability.name();
        wrong("module.grants", format!("imports {capability}, which it is not granted (add {grant:?} to its grants)"));
    }
    for (key, _, without) in NEEDS.iter().filter(|need| entry.given(need.0).is_some() && !need.1(entry, found)) {
        wrong(key, format!("cannot use {key}: {without}"));
    }
    problems
}

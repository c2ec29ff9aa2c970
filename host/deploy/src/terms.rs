//! On which terms a component would run here: as each module of the configuration that names it, and as a handler that a job brings.
use crate::{component, limits};
use peal_config::{Config, Module, ModuleEntry, Setting, Settings};
use peal_sandbox::{Capability, Grants, Inspection};
use std::{collections::BTreeMap, path::Path};

/// What a component would get and what would hold for it.
#[derive(Clone, PartialEq, Debug)]
pub struct Terms {
    /// As what: the name of a module, or none for what a job brings.
    pub name: Option<String>,
    /// What it asks for and gets.
    pub granted: Vec<Capability>,
    /// What it asks for and does not get: it would not be loaded.
    pub refused: Vec<Capability>,
    /// The limits in force, by their keys.
    pub limits: BTreeMap<String, String>,
}

/// All terms on which the component in this file would run.
pub fn terms(file: &Path, found: &Inspection, modules: &[ModuleEntry], config: &Config) -> Vec<Terms> {
    let same = |path: &Path| match (path.canonicalize(), file.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => path == file,
    };
    let configured = modules.iter().filter(|entry| same(&entry.settings.path)).map(|entry| {
        let limits = Module::ALL.iter().filter_map(|setting| limit(setting, &entry.settings, "module.limits."));
        of(Some(entry.settings.name.clone()), found, &component::grants(entry), limits.collect())
    });
    let brought = Config::ALL.iter().filter_map(|setting| limit(setting, config, "brought."));
    let brought = of(None, found, &limits::brought_grants(config), brought.collect());
    configured.chain([brought]).collect()
}

fn of(name: Option<String>, found: &Inspection, grants: &Grants, limits: BTreeMap<String, String>) -> Terms {
    let (granted, refused) = found.capabilities.iter().partition(|capability| grants.allows(**capability));
    Terms { name, granted, refused, limits }
}

fn limit<T: Settings>(setting: &Setting<T>, of: &T, section: &str) -> Option<(String, String)> {
    let name = setting.key.strip_prefix(section)?;
    let value = setting.value(of).map_or_else(|| "none".to_owned(), |value| value.to_string());
    Some((name.to_owned(), value))
}

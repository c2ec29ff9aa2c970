//! On which terms a component would run here: as each module of the configuration that names it, as a handler that a job brings, or
//! as a module of somebody else.
use crate::{
    component, limits,
    signature::{self, Signature, SignatureError},
};
use peal_config::{
    Config, ConfiguredScope, Module, ModuleEntry, ModuleOwner, Setting, SettingsTable,
};
use peal_model::with_article;
use peal_sandbox::{Capability, ImportKind, Inspection, Role};
use std::{collections::BTreeMap, path::Path};

/// A component that is looked at.
#[derive(Clone, Copy)]
pub struct InspectedComponent<'a> {
    /// Its file.
    pub file: &'a Path,
    /// What that holds.
    pub bytes: &'a [u8],
    /// What it is.
    pub found: &'a Inspection,
    /// What lies beside it.
    pub signature: &'a Result<Signature, SignatureError>,
}

/// As what a component would run.
#[derive(Clone, PartialEq, Debug)]
pub struct LoadContext {
    /// The module of the configuration; none for one that is not there.
    pub name: Option<String>,
    /// Whose it is.
    pub owner: ModuleOwner,
}

/// What becomes of an interface that is imported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImportStatus {
    /// Every module has it.
    Always,
    /// It is there, and does what it is for.
    Granted,
    /// It is there, with nothing behind it.
    Stubbed,
    /// It is not there: with this import the component is not loaded.
    Denied,
    /// Nor has anybody else.
    NotOffered,
}

impl ImportStatus {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            ImportStatus::Always => "always",
            ImportStatus::Granted => "granted",
            ImportStatus::Stubbed => "stubbed",
            ImportStatus::Denied => "denied",
            ImportStatus::NotOffered => "not-offered",
        }
    }
}

/// What becomes of an interface, and why.
#[derive(Clone, PartialEq, Debug)]
pub struct InterfaceTerms {
    /// Its name.
    pub interface: String,
    /// What becomes of it.
    pub verdict: ImportStatus,
    /// The rule that says so.
    pub rule: String,
}

/// What a component would get and what would hold for it.
#[derive(Clone, PartialEq, Debug)]
pub struct Terms {
    /// As what.
    pub standing: LoadContext,
    /// What it asks for and gets.
    pub granted: Vec<Capability>,
    /// What it asks for and does not get: it would not be loaded.
    pub refused: Vec<Capability>,
    /// The same, interface by interface.
    pub interfaces: Vec<InterfaceTerms>,
    /// The limits in force, by their keys.
    pub limits: BTreeMap<String, String>,
    /// For what else it would not be loaded.
    pub problems: Vec<String>,
}

impl Terms {
    /// Whether it would be loaded, so far as that is seen without compiling it.
    pub fn loads(&self) -> bool {
        let is_there = |terms: &InterfaceTerms| {
            !matches!(
                terms.verdict,
                ImportStatus::Denied | ImportStatus::NotOffered
            )
        };
        self.problems.is_empty() && self.refused.is_empty() && self.interfaces.iter().all(is_there)
    }
}

/// All terms on which a component would run; or those on which it would as a module of that owner which nobody has configured yet.
pub fn terms(
    sample: InspectedComponent<'_>,
    owner: Option<ModuleOwner>,
    modules: &[ModuleEntry],
    config: &Config,
) -> Vec<Terms> {
    if let Some(owner) = owner {
        return vec![of(sample, LoadContext { name: None, owner }, None, config)];
    }
    let same = |path: &Path| match (path.canonicalize(), sample.file.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => path == sample.file,
    };
    let configured = modules
        .iter()
        .filter(|entry| same(&entry.settings.path))
        .map(|entry| {
            let standing = LoadContext {
                name: Some(entry.settings.name.clone()),
                owner: owner_of(&entry.settings.scope),
            };
            of(sample, standing, Some(entry), config)
        });
    let brought = of(
        sample,
        LoadContext {
            name: None,
            owner: ModuleOwner::JobSupplied,
        },
        None,
        config,
    );
    configured.chain([brought]).collect()
}

fn owner_of(scope: &ConfiguredScope) -> ModuleOwner {
    match scope {
        ConfiguredScope::Site => ModuleOwner::Site,
        ConfiguredScope::User(_) => ModuleOwner::User,
        ConfiguredScope::Namespace(_) => ModuleOwner::Namespace,
    }
}

fn of(
    sample: InspectedComponent<'_>,
    standing: LoadContext,
    entry: Option<&ModuleEntry>,
    config: &Config,
) -> Terms {
    let found = sample.found;
    let decided = |capability: Capability| decide(capability, standing.owner, entry, config);
    let (granted, refused) = found
        .capabilities
        .iter()
        .partition(|capability| decided(**capability).0);
    let interfaces = found.imports.iter().map(|import| {
        let (verdict, rule) = match (import.kind, import.capability) {
            (ImportKind::Unknown, _) => (
                ImportStatus::NotOffered,
                "Peal has no such interface in this version".to_owned(),
            ),
            (kind, Some(capability)) => match (decided(capability), kind) {
                ((true, rule), ImportKind::Wasi) => (ImportStatus::Stubbed, rule),
                ((true, rule), _) => (ImportStatus::Granted, rule),
                ((false, rule), _) => (ImportStatus::Denied, rule),
            },
            (_, None) => (ImportStatus::Always, "linked for every module".to_owned()),
        };
        InterfaceTerms {
            interface: import.name.clone(),
            verdict,
            rule,
        }
    });
    let interfaces = interfaces.collect();
    let module = (standing.owner, standing.name.as_deref());
    let lacking = signature::lacking(&config.modules, module, sample.bytes, sample.signature);
    let problems = role_problems(found, standing.owner)
        .into_iter()
        .chain(lacking)
        .collect();
    let limits = limits_of(standing.owner, entry, config);
    Terms {
        standing,
        granted,
        refused,
        interfaces,
        limits,
        problems,
    }
}

/// Whether it is granted, and the rule that says so.
fn decide(
    capability: Capability,
    owner: ModuleOwner,
    entry: Option<&ModuleEntry>,
    config: &Config,
) -> (bool, String) {
    let said = |yes: bool, rule: &str| (yes, rule.to_owned());
    if owner == ModuleOwner::JobSupplied {
        return match limits::brought_grants(config).allows(capability) {
            true => said(true, "tenant.grants"),
            false if limits::tenants_may_have(config, capability) => {
                said(false, "what a job brings never has state, sinks and files")
            }
            false => said(false, "tenant.grants does not have it"),
        };
    }
    let is_within = owner == ModuleOwner::Site || limits::tenants_may_have(config, capability);
    match entry {
        Some(entry) if !component::has_grant(entry, capability) => (
            false,
            format!(
                "module.grants does not have it ({})",
                entry.at("module.grants")
            ),
        ),
        _ if !is_within => said(false, "tenant.grants does not have it"),
        Some(entry) => (
            true,
            format!("module.grants ({})", entry.at("module.grants")),
        ),
        None if owner == ModuleOwner::Site => said(true, "if module.grants has it"),
        None => said(true, "if module.grants has it; tenant.grants does"),
    }
}

/// What of its roles it cannot have as a module of this owner.
fn role_problems(found: &Inspection, owner: ModuleOwner) -> Vec<String> {
    if found.roles.is_empty() {
        return vec![
            "fills no role: it exports no interface of peal:pmix that Peal would call".to_owned(),
        ];
    }
    match owner {
        ModuleOwner::Site => Vec::new(),
        ModuleOwner::JobSupplied if found.roles.contains(&Role::EventHandler) => Vec::new(),
        ModuleOwner::JobSupplied => vec![format!(
            "exports no {}, and a job brings handlers only",
            Role::EventHandler
        )],
        ModuleOwner::User | ModuleOwner::Namespace => {
            let is_the_sites = |role: &&Role| !matches!(role, Role::EventHandler | Role::Lifecycle);
            let problem = |role: &Role| {
                format!(
                    "is {}, which belongs to the site",
                    with_article(role.name())
                )
            };
            found
                .roles
                .iter()
                .filter(is_the_sites)
                .map(problem)
                .collect()
        }
    }
}

/// The limits in force. What a user installs has no more than a job may bring.
fn limits_of(
    owner: ModuleOwner,
    entry: Option<&ModuleEntry>,
    config: &Config,
) -> BTreeMap<String, String> {
    let usual = Module::default();
    let settings = entry.map_or(&usual, |entry| &entry.settings);
    let own = Module::ALL
        .iter()
        .filter_map(|setting| limit(setting, settings, "module.limits."));
    let brought = Config::ALL
        .iter()
        .filter_map(|setting| limit(setting, config, "job_supplied."));
    match (owner, entry) {
        (ModuleOwner::JobSupplied, _) => brought.collect(),
        (ModuleOwner::User, None) => own.chain(brought).collect(),
        _ => own.collect(),
    }
}

fn limit<T: SettingsTable>(
    setting: &Setting<T>,
    of: &T,
    section: &str,
) -> Option<(String, String)> {
    let name = setting.key.strip_prefix(section)?;
    let value = setting
        .value(of)
        .map_or_else(|| "none".to_owned(), |value| value.to_string());
    Some((name.to_owned(), value))
}

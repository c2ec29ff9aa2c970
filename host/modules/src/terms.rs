//! Terms on which a component would run: as each configured module that names it, as a job-supplied
//! handler, or as a module of another owner.
use crate::{
    limits,
    signature::{self, Signature, SignatureError},
};
use peal_config::{
    Config, ConfiguredScope, Module, ModuleEntry, ModuleOwner, Setting, SettingsTable,
};
use peal_model::with_article;
use peal_sandbox::{Capability, ImportKind, Inspection, Role};
use std::{collections::BTreeMap, path::Path};

/// A component that is inspected.
#[derive(Clone, Copy)]
pub struct InspectedComponent<'a> {
    /// The path of the file.
    pub file: &'a Path,
    /// The bytes of the file.
    pub bytes: &'a [u8],
    /// The result of the inspection.
    pub found: &'a Inspection,
    /// The signature beside the file.
    pub signature: &'a Result<Signature, SignatureError>,
}

/// Context in which a component would be loaded.
#[derive(Clone, PartialEq, Debug)]
pub struct LoadContext {
    /// The name of the configured module; `None` for a module that is not configured.
    pub name: Option<String>,
    /// The owner of the module.
    pub owner: ModuleOwner,
}

/// Availability of an imported interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImportStatus {
    /// Every module has the interface.
    Always,
    /// The interface is granted.
    Granted,
    /// The interface is present and has no effect.
    Stubbed,
    /// The interface is denied: the component would not be loaded.
    Denied,
    /// The interface does not exist.
    NotOffered,
}

impl ImportStatus {
    /// Returns the name of the status.
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

/// Availability of an interface, with the reason.
#[derive(Clone, PartialEq, Debug)]
pub struct InterfaceTerms {
    /// The name of the interface.
    pub interface: String,
    /// The availability.
    pub verdict: ImportStatus,
    /// The rule that decides.
    pub rule: String,
}

/// Terms on which a component would run.
#[derive(Clone, PartialEq, Debug)]
pub struct Terms {
    /// The context.
    pub standing: LoadContext,
    /// The granted capabilities among the imported ones.
    pub granted: Vec<Capability>,
    /// The denied capabilities among the imported ones: the component would not be loaded.
    pub refused: Vec<Capability>,
    /// The availability of each imported interface.
    pub interfaces: Vec<InterfaceTerms>,
    /// The limits in force, by their keys.
    pub limits: BTreeMap<String, String>,
    /// Further reasons for which it would not be loaded.
    pub problems: Vec<String>,
}

impl Terms {
    /// Returns true if the component would be loaded, as far as that is known without compilation.
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

/// Returns all terms of a component, or those as an unconfigured module of `owner`.
pub fn terms(
    sample: InspectedComponent<'_>,
    owner: Option<ModuleOwner>,
    modules: &[ModuleEntry],
    config: &Config,
) -> Vec<Terms> {
    if let Some(owner) = owner {
        return vec![of(sample, LoadContext { name: None, owner }, None, config)];
    }
    // The file may be named by another path than in the configuration.
    let same = |path: &Path| match (path.canonicalize(), sample.file.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => path == sample.file,
    };
    let configured = modules
        .iter()
        .filter(|entry| entry.settings.path.file().is_some_and(same))
        .map(|entry| {
            let standing = LoadContext {
                name: Some(entry.settings.name.clone()),
                owner: owner_of(&entry.settings.scope),
            };
            of(sample, standing, Some(entry), config)
        });
    let job_supplied = of(
        sample,
        LoadContext {
            name: None,
            owner: ModuleOwner::JobSupplied,
        },
        None,
        config,
    );
    configured.chain([job_supplied]).collect()
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
            // No setting offers an unknown interface, so no grant is looked up.
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

/// Returns whether a capability is granted, and the rule that decides.
fn decide(
    capability: Capability,
    owner: ModuleOwner,
    entry: Option<&ModuleEntry>,
    config: &Config,
) -> (bool, String) {
    let with_rule = |is_granted: bool, rule: &str| (is_granted, rule.to_owned());
    if owner == ModuleOwner::JobSupplied {
        return match limits::job_supplied_grants(config).allows(capability) {
            true => with_rule(true, "tenant.grants"),
            false if limits::tenants_may_have(config, capability) => with_rule(
                false,
                "state, sinks and files are never granted to job-supplied modules",
            ),
            false => with_rule(false, "tenant.grants does not have it"),
        };
    }
    let is_within = owner == ModuleOwner::Site || limits::tenants_may_have(config, capability);
    match entry {
        Some(entry) if !limits::has_grant(entry, capability) => (
            false,
            format!(
                "module.grants does not have it ({})",
                entry.at("module.grants")
            ),
        ),
        _ if !is_within => with_rule(false, "tenant.grants does not have it"),
        Some(entry) => (
            true,
            format!("module.grants ({})", entry.at("module.grants")),
        ),
        // Without a configuration only a condition can be stated.
        None if owner == ModuleOwner::Site => with_rule(true, "if module.grants has it"),
        None => with_rule(true, "if module.grants has it; tenant.grants does"),
    }
}

/// Returns the roles that a module of this owner cannot have.
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
            "exports no {}; a job can supply event handlers only",
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

/// Returns the limits in force. User modules are capped at the limits of job-supplied ones.
fn limits_of(
    owner: ModuleOwner,
    entry: Option<&ModuleEntry>,
    config: &Config,
) -> BTreeMap<String, String> {
    // Without a configured module the defaults hold.
    let usual = Module::default();
    let settings = entry.map_or(&usual, |entry| &entry.settings);
    let own = Module::ALL
        .iter()
        .filter_map(|setting| limit(setting, settings, "module.limits."));
    let job_supplied = Config::ALL
        .iter()
        .filter_map(|setting| limit(setting, config, "job_supplied."));
    match (owner, entry) {
        (ModuleOwner::JobSupplied, _) => job_supplied.collect(),
        // Later entries replace earlier ones, so the caps of tenants win.
        (ModuleOwner::User, None) => own.chain(job_supplied).collect(),
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

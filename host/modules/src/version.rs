//! Versions of the module set: the running one, earlier ones, and their storage across restarts.
use crate::{
    component::Component,
    signature::{Signature, SignatureError},
};
use peal_config::{ModuleEntry, Modules, Problem, Problems, recalled, saved};
use peal_sandbox::Capability;
use peal_server::admin::VersionStatus;
use peal_store::{ModulePart, ModuleVersion, NewPart, NewVersion, Store};
use std::{
    collections::{BTreeMap, VecDeque},
    path::Path,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

/// Number of versions that are kept.
const MAX_KEPT_VERSIONS: u32 = 16;

/// A desired module and its component.
pub type DesiredModule = (ModuleEntry, Component);

/// A version of the desired modules, including disabled ones.
#[derive(Clone, Debug)]
pub(crate) struct SetVersion {
    pub(crate) number: u64,
    /// The time of its deployment, in seconds since the epoch.
    at: u64,
    cause: String,
    pub(crate) modules: Arc<[DesiredModule]>,
}

impl From<&SetVersion> for VersionStatus {
    fn from(version: &SetVersion) -> VersionStatus {
        VersionStatus {
            version: version.number,
            at: version.at,
            cause: version.cause.clone(),
            modules: version
                .modules
                .iter()
                .map(|(entry, _)| entry.settings.name.clone())
                .collect(),
        }
    }
}

/// The versions, latest last. There is always one while a server runs.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    versions: VecDeque<SetVersion>,
}

impl Versions {
    /// Reads the versions from a store, as far as they are usable. Signers are determined by
    /// `rules`.
    pub(crate) fn recall(store: Option<&Store>, rules: &Modules) -> Versions {
        let recalled = store.map(|store| store.module_versions().unwrap_or_default());
        let stored = recalled
            .into_iter()
            .flatten()
            .filter_map(|version| recall(store?, version, rules));
        let mut versions: VecDeque<SetVersion> = VecDeque::new();
        for version in stored {
            // Most components are the same in all versions, and are large: keep their bytes once.
            let shared = shared(
                version.modules.to_vec(),
                versions.iter().flat_map(|version| version.modules.iter()),
            );
            versions.push_front(SetVersion {
                modules: shared.into(),
                ..version
            });
        }
        Versions { versions }
    }

    /// Returns the running version, or the last one.
    pub(crate) fn latest(&self) -> Option<&SetVersion> {
        self.versions.back()
    }

    /// Returns the version before the latest.
    pub(crate) fn previous(&self) -> Option<&SetVersion> {
        self.versions.iter().rev().nth(1)
    }

    /// Returns a version by its number.
    pub(crate) fn numbered(&self, number: u64) -> Option<&SetVersion> {
        self.versions
            .iter()
            .find(|version| version.number == number)
    }

    /// Returns the module of this name that ran last.
    pub(crate) fn last_of(&self, title: &str) -> Option<&DesiredModule> {
        self.versions.iter().rev().find_map(|version| {
            let mut modules = version.modules.iter();
            modules.find(|(_, component)| component.title == title)
        })
    }

    /// Returns the modules of all versions.
    pub(crate) fn modules(&self) -> impl Iterator<Item = &DesiredModule> {
        self.versions
            .iter()
            .flat_map(|version| version.modules.iter())
    }

    /// Returns all versions, latest first.
    pub(crate) fn statuses(&self) -> Vec<VersionStatus> {
        self.versions
            .iter()
            .rev()
            .map(VersionStatus::from)
            .collect()
    }

    /// Adds the running version. Writes to the store, if there is one: blocks.
    pub(crate) fn add(
        &mut self,
        modules: Arc<[DesiredModule]>,
        cause: String,
        store: Option<&Store>,
    ) {
        let at = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        let next = self.latest().map_or(1, |version| version.number + 1);
        // The store counts and logs errors itself.
        let kept = store.and_then(|store| keep(store, &modules, &cause, at).ok());
        self.versions.push_back(SetVersion {
            // The number of the store, which other processes may use as well.
            number: kept.unwrap_or(next),
            at,
            cause,
            modules,
        });
        while self.versions.len() > MAX_KEPT_VERSIONS as usize {
            self.versions.pop_front();
        }
    }
}

/// Returns the modules, with the bytes of components shared that `known` has in memory.
pub(crate) fn shared<'a>(
    mut modules: Vec<DesiredModule>,
    known: impl Iterator<Item = &'a DesiredModule>,
) -> Vec<DesiredModule> {
    let known: BTreeMap<_, _> = known
        .map(|(_, component)| (component.inspection.digest, &component.bytes))
        .collect();
    for (_, component) in &mut modules {
        if let Some(bytes) = known.get(&component.inspection.digest) {
            component.bytes = (*bytes).clone();
        }
    }
    modules
}

fn keep<'a>(
    store: &Store,
    modules: &'a [DesiredModule],
    cause: &str,
    at: u64,
) -> Result<u64, peal_store::StoreError> {
    let document = saved(modules.iter().map(|(entry, _)| entry));
    let part = |(_, component): &'a DesiredModule| NewPart {
        digest: component.inspection.digest.0,
        bytes: &component.bytes,
        // A component that ran unsigned is stored without one (`SignatureError::NotKept`).
        signature: component.signature.as_ref().ok().map(Signature::text),
    };
    let components: Vec<NewPart<'_>> = modules.iter().map(part).collect();
    store.keep_modules(
        NewVersion {
            cause,
            document: &document,
            components: &components,
        },
        at,
        MAX_KEPT_VERSIONS,
    )
}

/// Reads a stored version; `None` if it is incomplete or unusable.
fn recall(store: &Store, kept: ModuleVersion, rules: &Modules) -> Option<SetVersion> {
    let ModuleVersion {
        number,
        at,
        cause,
        document,
        components,
    } = kept;
    let name = format!("version {number} of the modules");
    let capabilities = Capability::ALL.map(Capability::name);
    let modules = || -> Result<Vec<DesiredModule>, Problems> {
        let missing = |why: String| Problems(vec![Problem::of_file(format!("{name}: {why}"))]);
        let entries = recalled(&document, Path::new(&name), Path::new("/"), &capabilities)?;
        // Entries and components belong together by their position.
        if entries.len() != components.len() {
            return Err(missing(format!(
                "{} modules and {} components",
                entries.len(),
                components.len()
            )));
        }
        let of = |(entry, part): (ModuleEntry, &ModulePart)| {
            let bytes = store
                .component(&part.digest)
                .map_err(|error| missing(error.to_string()))?;
            let bytes = bytes.ok_or_else(|| {
                missing(format!("the component of {} is gone", entry.settings.name))
            })?;
            let signature = part
                .signature
                .as_deref()
                .map_or(Err(SignatureError::NotKept), Signature::parse);
            let component = Component::from_store(&entry, bytes, signature)
                .map_err(|problem| Problems(vec![problem]))?;
            Ok((entry, component.signed(rules)))
        };
        entries.into_iter().zip(&components).map(of).collect()
    };
    match modules() {
        Ok(modules) => Some(SetVersion {
            number,
            at,
            cause,
            modules: modules.into(),
        }),
        Err(problems) => {
            // A version that cannot be used must not prevent the start of the server.
            tracing::warn!(%problems, "stored module set version unusable");
            None
        }
    }
}

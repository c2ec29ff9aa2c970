//! The versions of a server's modules: which run, which ran before, and what keeps them across restarts.
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

/// How many versions are kept.
const KEPT: u32 = 16;

/// A module that is wanted, and its component.
pub type DesiredModule = (ModuleEntry, Component);

/// A set of modules as it was wanted, also those that an administrator disabled.
#[derive(Clone, Debug)]
pub(crate) struct SetVersion {
    pub(crate) number: u64,
    /// Since when, in seconds since the epoch.
    at: u64,
    cause: String,
    pub(crate) wanted: Arc<[DesiredModule]>,
}

impl From<&SetVersion> for VersionStatus {
    fn from(version: &SetVersion) -> VersionStatus {
        VersionStatus {
            version: version.number,
            at: version.at,
            cause: version.cause.clone(),
            modules: version
                .wanted
                .iter()
                .map(|(entry, _)| entry.settings.name.clone())
                .collect(),
        }
    }
}

/// The versions that there are, the latest last. There is always one.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    kept: VecDeque<SetVersion>,
}

impl Versions {
    /// Before anything runs: what a server that had this store ran, as far as it can still be read. Who signed it is told by
    /// these rules.
    pub(crate) fn recall(store: Option<&Store>, rules: &Modules) -> Versions {
        let recalled = store.map(|store| store.module_versions().unwrap_or_default());
        let versions = recalled
            .into_iter()
            .flatten()
            .filter_map(|version| recall(store?, version, rules));
        let mut kept: VecDeque<SetVersion> = VecDeque::new();
        for version in versions {
            let shared = shared(
                version.wanted.to_vec(),
                kept.iter().flat_map(|version| version.wanted.iter()),
            );
            kept.push_front(SetVersion {
                wanted: shared.into(),
                ..version
            });
        }
        Versions { kept }
    }

    /// The one that runs, or ran last.
    pub(crate) fn latest(&self) -> Option<&SetVersion> {
        self.kept.back()
    }

    /// The one before that.
    pub(crate) fn previous(&self) -> Option<&SetVersion> {
        self.kept.iter().rev().nth(1)
    }

    /// One by its number.
    pub(crate) fn numbered(&self, number: u64) -> Option<&SetVersion> {
        self.kept.iter().find(|version| version.number == number)
    }

    /// The modules of all of them.
    pub(crate) fn modules(&self) -> impl Iterator<Item = &DesiredModule> {
        self.kept.iter().flat_map(|version| version.wanted.iter())
    }

    /// All of them, the latest first.
    pub(crate) fn statuses(&self) -> Vec<VersionStatus> {
        self.kept.iter().rev().map(VersionStatus::from).collect()
    }

    /// This runs from now on. Writes to the store, if there is one: blocks.
    pub(crate) fn add(
        &mut self,
        wanted: Arc<[DesiredModule]>,
        cause: String,
        store: Option<&Store>,
    ) {
        let at = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        let next = self.latest().map_or(1, |version| version.number + 1);
        // What goes wrong there the store counts and traces itself.
        let kept = store.and_then(|store| keep(store, &wanted, &cause, at).ok());
        self.kept.push_back(SetVersion {
            number: kept.unwrap_or(next),
            at,
            cause,
            wanted,
        });
        while self.kept.len() > KEPT as usize {
            self.kept.pop_front();
        }
    }
}

/// The same, where components that some of these have are in memory once.
pub(crate) fn shared<'a>(
    mut wanted: Vec<DesiredModule>,
    known: impl Iterator<Item = &'a DesiredModule>,
) -> Vec<DesiredModule> {
    let known: BTreeMap<_, _> = known
        .map(|(_, component)| (component.inspection.digest, &component.bytes))
        .collect();
    for (_, component) in &mut wanted {
        if let Some(bytes) = known.get(&component.inspection.digest) {
            component.bytes = (*bytes).clone();
        }
    }
    wanted
}

fn keep<'a>(
    store: &Store,
    wanted: &'a [DesiredModule],
    cause: &str,
    at: u64,
) -> Result<u64, peal_store::StoreError> {
    let document = saved(wanted.iter().map(|(entry, _)| entry));
    let part = |(_, component): &'a DesiredModule| NewPart {
        digest: component.inspection.digest.0,
        bytes: &component.bytes,
        signature: component.signature.as_ref().ok().map(Signature::text),
    };
    let components: Vec<NewPart<'_>> = wanted.iter().map(part).collect();
    store.keep_modules(
        NewVersion {
            cause,
            document: &document,
            components: &components,
        },
        at,
        KEPT,
    )
}

/// A version as it was, unless something of it is missing.
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
    let wanted = || -> Result<Vec<DesiredModule>, Problems> {
        let missing = |why: String| Problems(vec![Problem::of_file(format!("{name}: {why}"))]);
        let entries = recalled(&document, Path::new(&name), Path::new("/"), &capabilities)?;
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
            let component = Component::kept(&entry, bytes, signature)
                .map_err(|problem| Problems(vec![problem]))?;
            Ok((entry, component.signed(rules)))
        };
        entries.into_iter().zip(&components).map(of).collect()
    };
    match wanted() {
        Ok(wanted) => Some(SetVersion {
            number,
            at,
            cause,
            wanted: wanted.into(),
        }),
        Err(problems) => {
            tracing::warn!(%problems, "an earlier version of the modules cannot be returned to");
            None
        }
    }
}

//! What administrators said of modules beside the configuration, and what leads from one set of modules to another.
use crate::{load::Member, version::Wanted};
use peal_config::{Mode, ModuleEntry};
use peal_core::owner::Owner;
use peal_sandbox::Digest;
use peal_server::admin::{ChangeKind, ModuleChange};
use peal_store::{ModuleOverride, Store};
use std::collections::BTreeSet;

/// What administrators said of modules.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Overrides(BTreeSet<(String, ModuleOverride)>);

impl Overrides {
    /// Those that a store remembers.
    pub(crate) fn recall(store: Option<&Store>) -> Overrides {
        Overrides(store.map(|store| store.module_overrides().unwrap_or_default()).unwrap_or_default())
    }

    /// Has a store remember them. Blocks; what goes wrong there the store counts and traces itself.
    pub(crate) fn keep(&self, store: &Store) {
        let _ = store.override_modules(&self.0);
    }

    /// The same with one more.
    pub(crate) fn with(&self, name: &str, said: ModuleOverride) -> Overrides {
        let mut with = self.clone();
        with.0.insert((name.to_owned(), said));
        with
    }

    /// The same without one.
    pub(crate) fn without(&self, name: &str, said: ModuleOverride) -> Overrides {
        let mut without = self.clone();
        without.0.remove(&(name.to_owned(), said));
        without
    }

    /// Whether a module is not to be called.
    pub(crate) fn disables(&self, name: &str) -> bool {
        self.0.contains(&(name.to_owned(), ModuleOverride::Disabled))
    }

    /// What is to run of what the configuration wants. What was promoted was that component: another one under its name looks on
    /// again.
    pub(crate) fn applied(&self, wanted: &[Wanted]) -> Vec<Wanted> {
        let enabled = wanted.iter().filter(|(entry, _)| !self.disables(&entry.settings.name));
        let promoted = |(entry, component): &Wanted| {
            let said = (entry.settings.name.clone(), ModuleOverride::Promoted(component.inspection.digest.0));
            let mut entry = entry.clone();
            if self.0.contains(&said) {
                entry.settings.mode = Mode::Active;
            }
            (entry, component.clone())
        };
        enabled.map(promoted).collect()
    }
}

/// What two modules are compared by.
pub(crate) struct Brief<'a> {
    entry: &'a ModuleEntry,
    digest: Digest,
    owner: &'a Owner,
}

impl<'a> Brief<'a> {
    /// Of modules that are wanted.
    pub(crate) fn of_wanted(wanted: &'a [Wanted]) -> Vec<Brief<'a>> {
        let brief = |(entry, component): &'a Wanted| Brief {
            entry,
            digest: component.inspection.digest,
            owner: &component.owner,
        };
        wanted.iter().map(brief).collect()
    }

    /// Of those of the configuration that run.
    pub(crate) fn of_members(members: impl Iterator<Item = &'a Member>) -> Vec<Brief<'a>> {
        let brief = |member: &'a Member| {
            Some(Brief { entry: member.entry.as_ref()?, digest: member.module.digest(), owner: &member.owner })
        };
        members.filter_map(brief).collect()
    }

    fn name(&self) -> &'a str {
        &self.entry.settings.name
    }

    /// What has become of the one before, apart from where it stands.
    fn change(&self, before: &Brief<'_>) -> Option<ChangeKind> {
        let (new, old) = (&self.entry.settings, &before.entry.settings);
        if self.digest != before.digest {
            return Some(ChangeKind::Replaced);
        }
        if new == old && self.owner == before.owner {
            return None;
        }
        let mut shadow = new.clone();
        shadow.mode = Mode::Shadow;
        let is_promoted = new.mode == Mode::Active && shadow == *old && self.owner == before.owner;
        Some(if is_promoted { ChangeKind::Promoted } else { ChangeKind::Configured })
    }
}

/// What leads from some modules to others.
pub(crate) fn changes(old: &[Brief<'_>], new: &[Brief<'_>]) -> Vec<ModuleChange> {
    let find = |of: &[Brief<'_>], name: &str| of.iter().position(|brief| brief.name() == name);
    let common = |of: &[Brief<'_>], others: &[Brief<'_>]| -> Vec<String> {
        of.iter().map(Brief::name).filter(|name| find(others, name).is_some()).map(str::to_owned).collect()
    };
    let (before, after) = (common(old, new), common(new, old));
    let change = |name: &str, what| ModuleChange { name: name.to_owned(), what };
    let removed = old.iter().map(Brief::name).filter(|name| find(new, name).is_none());
    let removed = removed.map(|name| change(name, ChangeKind::Removed));
    let rest = new.iter().filter_map(|brief| {
        let name = brief.name();
        let Some(had) = find(old, name).and_then(|at| old.get(at)) else {
            return Some(change(name, ChangeKind::Added));
        };
        let place = |names: &[String]| names.iter().position(|known| known == name);
        let moved = (place(&before) != place(&after)).then_some(ChangeKind::Moved);
        brief.change(had).or(moved).map(|what| change(name, what))
    });
    removed.chain(rest).collect()
}

//! Overrides of modules by admins, and differences between module sets.
use crate::version::DesiredModule;
use peal_config::{Mode, Module};
use peal_server::admin::{ChangeKind, ModuleChange};
use peal_store::{ModuleOverride, Store};
use std::collections::BTreeSet;

/// Overrides of modules by admins.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Overrides(BTreeSet<(String, ModuleOverride)>);

impl Overrides {
    /// Reads the overrides of a store.
    pub(crate) fn recall(store: Option<&Store>) -> Overrides {
        Overrides(
            store
                .map(|store| store.module_overrides().unwrap_or_default())
                .unwrap_or_default(),
        )
    }

    /// Writes the overrides to a store. Blocks; the store counts and logs errors.
    pub(crate) fn keep(&self, store: &Store) {
        let _ = store.override_modules(&self.0);
    }

    /// Returns the overrides with one more.
    pub(crate) fn with(&self, name: &str, module_override: ModuleOverride) -> Overrides {
        let mut with = self.clone();
        with.0.insert((name.to_owned(), module_override));
        with
    }

    /// Returns the overrides without one.
    pub(crate) fn without(&self, name: &str, module_override: ModuleOverride) -> Overrides {
        let mut without = self.clone();
        without.0.remove(&(name.to_owned(), module_override));
        without
    }

    /// Returns the overrides without promotions of modules that are not such shadows any more.
    pub(crate) fn still_of(&self, desired: &[DesiredModule]) -> Overrides {
        let is_shadow = |name: &str, digest: &[u8; 32]| {
            desired.iter().any(|(entry, component)| {
                component.title == name
                    && component.inspection.digest.0 == *digest
                    && entry.settings.mode == Mode::Shadow
            })
        };
        let stays = |(name, module_override): &&(String, ModuleOverride)| match module_override {
            // An admin promoted these bytes. Other bytes under that name are a shadow again.
            ModuleOverride::Promoted(digest) => is_shadow(name, digest),
            ModuleOverride::Disabled => true,
        };
        Overrides(self.0.iter().filter(stays).cloned().collect())
    }

    /// Returns true if an admin disabled the module.
    pub(crate) fn disables(&self, name: &str) -> bool {
        self.0
            .contains(&(name.to_owned(), ModuleOverride::Disabled))
    }

    /// Marks removals and additions that are due to an admin that disabled or enabled a module. `known`
    /// has the modules that were desired before.
    pub(crate) fn marked(
        &self,
        known: &BTreeSet<String>,
        changes: Vec<ModuleChange>,
    ) -> Vec<ModuleChange> {
        let named = |ModuleChange { name, what }| {
            // The module is still desired, so an admin disabled it or enabled it again.
            let what = match what {
                ChangeKind::Removed if self.disables(&name) => ChangeKind::Disabled,
                ChangeKind::Added if known.contains(&name) => ChangeKind::Enabled,
                what => what,
            };
            ModuleChange { name, what }
        };
        changes.into_iter().map(named).collect()
    }

    /// Applies the overrides to desired modules. A promotion is for one component: another
    /// component of that name is a shadow again.
    pub(crate) fn applied(&self, desired: &[DesiredModule]) -> Vec<DesiredModule> {
        let enabled = desired
            .iter()
            .filter(|(_, component)| !self.disables(&component.title));
        let promoted = |(entry, component): &DesiredModule| {
            let module_override = (
                component.title.clone(),
                ModuleOverride::Promoted(component.inspection.digest.0),
            );
            let mut entry = entry.clone();
            if self.0.contains(&module_override) {
                entry.settings.mode = Mode::Active;
            }
            (entry, component.clone())
        };
        enabled.map(promoted).collect()
    }
}

/// Returns the kind of change between two versions of a module, apart from its placement.
fn change(
    (old_entry, old): &DesiredModule,
    (new_entry, new): &DesiredModule,
) -> Option<ChangeKind> {
    // Other bytes tell more than any change of settings.
    if new.inspection.digest != old.inspection.digest {
        return Some(ChangeKind::Replaced);
    }
    let before = &old_entry.settings;
    let after = &new_entry.settings;
    if after == before && new.scope == old.scope {
        return None;
    }
    // A promotion changes nothing but the mode.
    let shadow = Module {
        mode: Mode::Shadow,
        ..after.clone()
    };
    let is_promoted = after.mode == Mode::Active && shadow == *before && new.scope == old.scope;
    Some(if is_promoted {
        ChangeKind::Promoted
    } else {
        ChangeKind::Configured
    })
}

/// Returns the changes from one list of modules to another.
pub(crate) fn changes(old: &[DesiredModule], new: &[DesiredModule]) -> Vec<ModuleChange> {
    fn find<'a>(of: &'a [DesiredModule], title: &str) -> Option<&'a DesiredModule> {
        of.iter().find(|(_, component)| component.title == title)
    }
    fn common<'a>(of: &'a [DesiredModule], others: &[DesiredModule]) -> Vec<&'a str> {
        let titles = of.iter().map(|(_, component)| component.title.as_str());
        titles
            .filter(|title| find(others, title).is_some())
            .collect()
    }
    // Positions among the modules of both, so that an added one does not move all after it.
    let before = common(old, new);
    let after = common(new, old);
    let moved = |title: &str| {
        let place = |titles: &[&str]| titles.iter().position(|known| *known == title);
        (place(&before) != place(&after)).then_some(ChangeKind::Moved)
    };
    let removed = old
        .iter()
        .filter(|(_, component)| find(new, &component.title).is_none());
    let removed = removed.map(|(_, component)| (&component.title, ChangeKind::Removed));
    let rest = new.iter().filter_map(|desired| {
        let title = &desired.1.title;
        let what = match find(old, title) {
            Some(had) => change(had, desired).or_else(|| moved(title))?,
            None => ChangeKind::Added,
        };
        Some((title, what))
    });
    removed
        .chain(rest)
        .map(|(title, what)| ModuleChange {
            name: title.clone(),
            what,
        })
        .collect()
}

/// Returns true if the modules are equal, in the same order and with the same signatures.
pub(crate) fn is_same(some: &[DesiredModule], others: &[DesiredModule]) -> bool {
    let signature = |(_, component): &DesiredModule| {
        component
            .signature
            .as_ref()
            .ok()
            .map(|of| of.text().to_owned())
    };
    changes(some, others).is_empty() && some.iter().map(signature).eq(others.iter().map(signature))
}

//! What administrators said of modules beside the configuration, and what leads from one set of modules to another.
use crate::{scope::Whose, version::Wanted};
use peal_config::{Mode, ModuleEntry};
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

    /// The same without promotions of what is no shadow of that component.
    pub(crate) fn still_of(&self, wanted: &[Wanted]) -> Overrides {
        let is_shadow = |name: &str, digest: &[u8; 32]| {
            wanted.iter().any(|(entry, component)| {
                component.title(&entry.settings.name) == name
                    && component.inspection.digest.0 == *digest
                    && entry.settings.mode == Mode::Shadow
            })
        };
        let stays = |(name, said): &&(String, ModuleOverride)| match said {
            ModuleOverride::Promoted(digest) => is_shadow(name, digest),
            ModuleOverride::Disabled => true,
        };
        Overrides(self.0.iter().filter(stays).cloned().collect())
    }

    /// Whether a module is not to be called.
    pub(crate) fn disables(&self, name: &str) -> bool {
        self.0.contains(&(name.to_owned(), ModuleOverride::Disabled))
    }

    /// What is to run of what the configuration wants. What was promoted was that component: another one under its name looks on
    /// again.
    pub(crate) fn applied(&self, wanted: &[Wanted]) -> Vec<Wanted> {
        let enabled = wanted.iter().filter(|(entry, component)| !self.disables(&component.title(&entry.settings.name)));
        let promoted = |(entry, component): &Wanted| {
            let said = (component.title(&entry.settings.name), ModuleOverride::Promoted(component.inspection.digest.0));
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
struct Brief<'a> {
    entry: &'a ModuleEntry,
    title: String,
    digest: Digest,
    whose: Whose,
}

impl<'a> Brief<'a> {
    /// Of each of these.
    fn of(wanted: &'a [Wanted]) -> Vec<Brief<'a>> {
        let brief = |(entry, component): &'a Wanted| {
            let title = component.title(&entry.settings.name);
            Brief { entry, title, digest: component.inspection.digest, whose: component.whose.clone() }
        };
        wanted.iter().map(brief).collect()
    }

    /// What has become of the one before, apart from where it stands.
    fn change(&self, before: &Brief<'_>) -> Option<ChangeKind> {
        let (new, old) = (&self.entry.settings, &before.entry.settings);
        if self.digest != before.digest {
            return Some(ChangeKind::Replaced);
        }
        if new == old && self.whose == before.whose {
            return None;
        }
        let mut shadow = new.clone();
        shadow.mode = Mode::Shadow;
        let is_promoted = new.mode == Mode::Active && shadow == *old && self.whose == before.whose;
        Some(if is_promoted { ChangeKind::Promoted } else { ChangeKind::Configured })
    }
}

/// What leads from some modules to others.
pub(crate) fn changes(old: &[Wanted], new: &[Wanted]) -> Vec<ModuleChange> {
    let (old, new) = (Brief::of(old), Brief::of(new));
    let find = |of: &[Brief<'_>], title: &str| of.iter().position(|brief| brief.title == title);
    let common = |of: &[Brief<'_>], others: &[Brief<'_>]| -> Vec<String> {
        of.iter().map(|brief| brief.title.clone()).filter(|title| find(others, title).is_some()).collect()
    };
    let (before, after) = (common(&old, &new), common(&new, &old));
    let change = |name: &str, what| ModuleChange { name: name.to_owned(), what };
    let removed = old.iter().filter(|brief| find(&new, &brief.title).is_none());
    let removed = removed.map(|brief| change(&brief.title, ChangeKind::Removed));
    let rest = new.iter().filter_map(|brief| {
        let Some(had) = find(&old, &brief.title).and_then(|at| old.get(at)) else {
            return Some(change(&brief.title, ChangeKind::Added));
        };
        let place = |titles: &[String]| titles.iter().position(|known| *known == brief.title);
        let moved = (place(&before) != place(&after)).then_some(ChangeKind::Moved);
        brief.change(had).or(moved).map(|what| change(&brief.title, what))
    });
    removed.chain(rest).collect()
}

/// Whether these are the same in the same order.
pub(crate) fn is_same(some: &[Wanted], others: &[Wanted]) -> bool {
    changes(some, others).is_empty()
}

//! Published data and waiting lookups of one user's procs.
use super::{
    FinishedLookup, WaitId,
    request::{Lookup, Publication},
    scope::PublicationScope,
};
use peal_model::{Info, Key, Pdata, Persistence, Proc, Size, Value};
use std::collections::BTreeMap;

/// One published value.
#[derive(Debug)]
pub(super) struct PublishedItem {
    pub(super) by: Proc,
    extent: PublicationScope,
    persistence: Persistence,
    value: Value,
    bytes: usize,
}

impl PublishedItem {
    pub(super) fn ends_with_its_proc(&self) -> bool {
        self.persistence == Persistence::Proc
    }

    /// Data for the first read persist no longer than their job.
    pub(super) fn ends_with_its_job(&self) -> bool {
        matches!(
            self.persistence,
            Persistence::Proc | Persistence::App | Persistence::FirstRead
        )
    }

    pub(super) fn ends_with_its_session(&self) -> bool {
        self.persistence == Persistence::Session
    }
}

/// The data and waiting lookups of one user.
#[derive(Debug, Default)]
pub(super) struct UserPublications {
    /// The items of each key, oldest first.
    items: BTreeMap<Key, Vec<PublishedItem>>,
    /// The waiting lookups, oldest first.
    waiting: BTreeMap<WaitId, (Proc, Lookup)>,
}

impl UserPublications {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.waiting.is_empty()
    }

    /// Returns true if any of these keys exists in the range of the publication.
    pub(super) fn has_any(&self, publication: &Publication) -> bool {
        let Publication { extent, data, .. } = publication;
        data.iter().any(|info| self.has(&info.key, extent))
    }

    /// Publishes data whose keys do not exist in their range. Returns the lookups that finish.
    pub(super) fn publish(&mut self, by: &Proc, publication: Publication) -> Vec<FinishedLookup> {
        let Publication {
            extent,
            persistence,
            data,
        } = publication;
        for info in data {
            let bytes = Size::of_info(&info).bytes;
            let Info { key, value, .. } = info;
            let item = PublishedItem {
                by: by.clone(),
                extent: extent.clone(),
                persistence,
                value,
                bytes,
            };
            self.items.entry(key).or_default().push(item);
        }
        self.ready()
    }

    /// Returns the number of items.
    pub(super) fn count(&self) -> usize {
        self.all().count()
    }

    /// Returns the memory of the items, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.all().map(|item| item.bytes).sum()
    }

    /// Returns the data for a lookup and removes those for the first read. None if the lookup has
    /// to wait.
    pub(super) fn find(&mut self, by: &Proc, lookup: &Lookup) -> Option<Vec<Pdata>> {
        let place = |key: &Key| {
            let items = self.items.get(key)?;
            items
                .iter()
                .position(|item| item.extent.admits(by) && lookup.extent.admits(&item.by))
        };
        // All keys are found before any value is read. A lookup that must wait would otherwise take
        // data for the first read and return none.
        let places: Vec<(&Key, usize)> = lookup
            .keys
            .iter()
            .filter_map(|key| Some((key, place(key)?)))
            .collect();
        if places.len() < lookup.required_keys {
            return None;
        }
        Some(
            places
                .into_iter()
                .filter_map(|(key, at)| self.read(key, at))
                .collect(),
        )
    }

    /// Returns the number of keys in waiting lookups.
    pub(super) fn awaited(&self) -> usize {
        self.waiting
            .values()
            .map(|(_, lookup)| lookup.keys.len())
            .sum()
    }

    pub(super) fn wait(&mut self, id: WaitId, by: Proc, lookup: Lookup) {
        self.waiting.insert(id, (by, lookup));
    }

    pub(super) fn awaits(&self, wait: WaitId) -> bool {
        self.waiting.contains_key(&wait)
    }

    /// Removes waiting lookups.
    pub(super) fn give_up(&mut self, is_meant: impl Fn(WaitId, &Proc) -> bool) {
        self.waiting.retain(|id, (by, _)| !is_meant(*id, by));
    }

    /// Removes items.
    pub(super) fn withdraw(&mut self, is_meant: impl Fn(&Key, &PublishedItem) -> bool) {
        self.items.retain(|key, items| {
            items.retain(|item| !is_meant(key, item));
            !items.is_empty()
        });
    }

    /// Returns the waiting lookups that finish now. The oldest one takes its data first.
    fn ready(&mut self) -> Vec<FinishedLookup> {
        let mut ready = Vec::new();
        // Taken out, because `find` changes the items; those that still wait are put back.
        for (wait, (by, lookup)) in std::mem::take(&mut self.waiting) {
            match self.find(&by, &lookup) {
                Some(found) => ready.push(FinishedLookup { wait, found }),
                None => drop(self.waiting.insert(wait, (by, lookup))),
            }
        }
        ready
    }

    fn read(&mut self, key: &Key, at: usize) -> Option<Pdata> {
        let items = self.items.get_mut(key)?;
        let item = items.get(at)?;
        let read = Pdata {
            proc: item.by.clone(),
            key: key.clone(),
            value: item.value.clone(),
        };
        if item.persistence == Persistence::FirstRead {
            items.remove(at);
            // Keys without data must not use memory.
            if items.is_empty() {
                self.items.remove(key);
            }
        }
        Some(read)
    }

    fn has(&self, key: &Key, extent: &PublicationScope) -> bool {
        self.items
            .get(key)
            .is_some_and(|items| items.iter().any(|item| item.extent == *extent))
    }

    fn all(&self) -> impl Iterator<Item = &PublishedItem> {
        self.items.values().flatten()
    }
}

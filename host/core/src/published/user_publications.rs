//! Published data and waiting lookups of one user's procs.
use super::{
    FinishedLookup, PublishAmounts, Seeker, WaitId,
    request::{DataRequester, ItemNumber, Publication, PublicationItem, PublishedLookup},
    scope::{PublicationScope, ServerRelation},
};
use crate::group::ServerId;
use peal_model::{Info, Key, Pdata, Persistence, Proc, Size, Value};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One published value.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PublishedItem {
    pub(super) by: Proc,
    /// The server of the publisher; none for this one.
    pub(super) server: Option<ServerId>,
    /// The number at that server.
    pub(super) number: ItemNumber,
    pub(super) scope: PublicationScope,
    persistence: Persistence,
    value: Value,
    bytes: usize,
}

impl PublishedItem {
    /// Returns true if a proc of this server has published the item.
    pub(super) fn is_here(&self) -> bool {
        self.server.is_none()
    }

    /// Returns true if this proc of this server has published the item.
    pub(super) fn is_of(&self, proc: &Proc) -> bool {
        self.is_here() && self.by == *proc
    }

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

    fn is_seen(&self, seeker: &Seeker, lookup: &PublishedLookup) -> bool {
        let relation = if self.server == seeker.server {
            ServerRelation::Same
        } else {
            ServerRelation::Other
        };
        self.scope.admits(&seeker.proc, relation) && lookup.scope.admits(&self.by, relation)
    }
}

/// Items among which a lookup seeks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SoughtItems {
    /// All.
    All,
    /// Those that no other server may see.
    Unshared,
}

/// The data and waiting lookups of one user.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct UserPublications {
    /// The items of each key, oldest first.
    items: BTreeMap<Key, Vec<PublishedItem>>,
    /// The waiting lookups, oldest first.
    waiting: BTreeMap<WaitId, (Seeker, PublishedLookup)>,
    /// Amounts of requests that no server has carried out.
    pub(super) held: PublishAmounts,
    /// Items of other servers for the first read that were read since this was emptied.
    pub(super) taken: Vec<(ServerId, ItemNumber)>,
}

impl UserPublications {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
            && self.waiting.is_empty()
            && self.taken.is_empty()
            && self.held.is_nothing()
    }

    /// Returns true if any of these keys exists in the range of the publication.
    pub(super) fn has_any(&self, publication: &Publication) -> bool {
        let Publication { scope, items, .. } = publication;
        items.iter().any(|item| self.has(&item.info.key, scope))
    }

    /// Publishes data whose keys do not exist in their range. Returns the lookups that finish.
    pub(super) fn publish(
        &mut self,
        server: Option<ServerId>,
        publication: Publication,
    ) -> Vec<FinishedLookup> {
        let Publication {
            by,
            scope,
            persistence,
            items,
        } = publication;
        for PublicationItem { number, info } in items {
            let bytes = Size::of_info(&info).bytes;
            let Info { key, value, .. } = info;
            let item = PublishedItem {
                by: by.proc.clone(),
                server,
                number,
                scope: scope.clone(),
                persistence,
                value,
                bytes,
            };
            self.items.entry(key).or_default().push(item);
        }
        self.ready()
    }

    /// Returns what the user takes of the limits.
    pub(super) fn amounts(&self) -> PublishAmounts {
        let lookups = self.waiting.values();
        let own = PublishAmounts {
            items: self.all().count(),
            bytes: self.all().map(|item| item.bytes).sum(),
            waits: lookups.map(|(_, lookup)| lookup.keys.len()).sum(),
        };
        own.plus(self.held)
    }

    /// Returns the data for a lookup and removes those for the first read. None if the lookup has
    /// to wait.
    pub(super) fn find(
        &mut self,
        seeker: &Seeker,
        lookup: &PublishedLookup,
        among: SoughtItems,
    ) -> Option<Vec<Pdata>> {
        // All keys are found before any value is read. A lookup that must wait would otherwise take
        // data for the first read and return none.
        let places = self.places(seeker, lookup, among);
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

    /// Returns the keys of a lookup that [`UserPublications::find`] would read.
    pub(super) fn visible(
        &self,
        seeker: &Seeker,
        lookup: &PublishedLookup,
        among: SoughtItems,
    ) -> BTreeSet<Key> {
        let places = self.places(seeker, lookup, among);
        places.into_iter().map(|(key, _)| key.clone()).collect()
    }

    fn places<'a>(
        &self,
        seeker: &Seeker,
        lookup: &'a PublishedLookup,
        among: SoughtItems,
    ) -> Vec<(&'a Key, usize)> {
        let is_sought = |item: &PublishedItem| {
            (among == SoughtItems::All || !item.scope.is_shared()) && item.is_seen(seeker, lookup)
        };
        let place = |key: &Key| self.items.get(key)?.iter().position(is_sought);
        lookup
            .keys
            .iter()
            .filter_map(|key| Some((key, place(key)?)))
            .collect()
    }

    pub(super) fn wait(&mut self, id: WaitId, seeker: Seeker, lookup: PublishedLookup) {
        self.waiting.insert(id, (seeker, lookup));
    }

    pub(super) fn awaits(&self, wait: WaitId) -> bool {
        self.waiting.contains_key(&wait)
    }

    /// Removes waiting lookups.
    pub(super) fn give_up(&mut self, is_meant: impl Fn(WaitId, &Seeker) -> bool) {
        self.waiting.retain(|id, (by, _)| !is_meant(*id, by));
    }

    /// Removes items. Returns the numbers of those of this server that others may see.
    pub(super) fn withdraw(
        &mut self,
        is_meant: impl Fn(&Key, &PublishedItem) -> bool,
    ) -> Vec<ItemNumber> {
        let mut shared = Vec::new();
        self.items.retain(|key, items| {
            items.retain(|item| {
                let is_meant = is_meant(key, item);
                if is_meant && item.server.is_none() && item.scope.is_shared() {
                    shared.push(item.number);
                }
                !is_meant
            });
            !items.is_empty()
        });
        shared
    }

    /// Returns the publishers and keys of items.
    pub(super) fn names(&self, is_meant: impl Fn(&PublishedItem) -> bool) -> Vec<(Proc, Key)> {
        let items = self.items.iter();
        let items = items.flat_map(|(key, items)| items.iter().map(move |item| (key, item)));
        items
            .filter(|(_, item)| is_meant(item))
            .map(|(key, item)| (item.by.clone(), key.clone()))
            .collect()
    }

    /// Returns the items of this server that others may see, each as a publication.
    pub(super) fn shared(&self, uid: u32) -> impl Iterator<Item = Publication> {
        let items = self.items.iter();
        let items = items.flat_map(|(key, items)| items.iter().map(move |item| (key, item)));
        items
            .filter(|(_, item)| item.server.is_none() && item.scope.is_shared())
            .map(move |(key, item)| Publication {
                by: DataRequester {
                    proc: item.by.clone(),
                    uid,
                },
                scope: item.scope.clone(),
                persistence: item.persistence,
                items: vec![PublicationItem {
                    number: item.number,
                    info: Info::new(key.clone(), item.value.clone()),
                }],
            })
    }

    /// Returns the waiting lookups that finish now. The oldest one takes its data first.
    fn ready(&mut self) -> Vec<FinishedLookup> {
        let mut ready = Vec::new();
        // Taken out, because `find` changes the items; those that still wait are put back.
        for (wait, (by, lookup)) in std::mem::take(&mut self.waiting) {
            match self.find(&by, &lookup, SoughtItems::All) {
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
            let item = items.remove(at);
            if let Some(server) = item.server {
                self.taken.push((server, item.number));
            }
            // Keys without data must not use memory.
            if items.is_empty() {
                self.items.remove(key);
            }
        }
        Some(read)
    }

    fn has(&self, key: &Key, scope: &PublicationScope) -> bool {
        self.items
            .get(key)
            .is_some_and(|items| items.iter().any(|item| item.scope == *scope))
    }

    fn all(&self) -> impl Iterator<Item = &PublishedItem> {
        self.items.values().flatten()
    }
}

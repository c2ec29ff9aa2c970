//! Publications and lookups: their parsing, and their form between servers.
use super::{PublishAmounts, scope::PublicationScope};
use crate::directives::timeout;
use peal_model::{
    Info, Infos, Key, KeyName, Persistence, Proc, Size, Status, Text, Value, code, key,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, time::Duration};

/// Access lists of users and groups, which are not supported.
const ACCESS: [KeyName; 3] = [
    key::PMIX_ACCESS_PERMISSIONS,
    key::PMIX_ACCESS_USERIDS,
    key::PMIX_ACCESS_GRPIDS,
];

/// Prefix of the Standard's keys.
const RESERVED: &str = "pmix.";

/// A proc that publishes or looks up data.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DataRequester {
    /// The proc.
    pub proc: Proc,
    /// The user that it runs as.
    pub uid: u32,
}

/// Number of an item at the server of its publisher; never reused there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ItemNumber(pub u64);

/// Data that a proc publishes together.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Publication {
    /// The publisher.
    pub by: DataRequester,
    /// The procs that may see the data.
    pub scope: PublicationScope,
    /// The time for which the data persist.
    pub persistence: Persistence,
    /// The data.
    pub items: Vec<PublicationItem>,
}

/// One of the data of a publication.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PublicationItem {
    /// The number of the item.
    pub number: ItemNumber,
    /// The key and the value.
    pub info: Info,
}

impl Publication {
    /// Parses a publish request. Keys of the Standard are directives, all others are data. The items
    /// are numbered from `next` on.
    pub(super) fn read(
        by: &DataRequester,
        infos: Vec<Info>,
        next: &mut u64,
    ) -> Result<Publication, Status> {
        // Data whose access list is ignored would be visible to more procs than permitted.
        if ACCESS.iter().any(|key| infos.value_of(*key).is_some()) {
            return Err(code::PMIX_ERR_NOT_SUPPORTED);
        }
        let scope = PublicationScope::read(&by.proc, &infos)?;
        let persistence = match infos.value_of(key::PMIX_PERSISTENCE) {
            // The Standard's default.
            None => Persistence::App,
            Some(value) => value
                .as_persistence()
                .filter(|persistence| *persistence != Persistence::Invalid)
                .ok_or(code::PMIX_ERR_BAD_PARAM)?,
        };
        let data = infos
            .into_iter()
            .filter(|info| !info.key.as_str().starts_with(RESERVED));
        let items: Vec<PublicationItem> = data
            .map(|info| {
                let number = ItemNumber(*next);
                *next = next.wrapping_add(1);
                PublicationItem { number, info }
            })
            .collect();
        if items.is_empty() {
            Err(code::PMIX_ERR_BAD_PARAM)
        } else {
            Ok(Publication {
                by: by.clone(),
                scope,
                persistence,
                items,
            })
        }
    }

    /// Returns true if two of the data have the same key.
    pub(super) fn repeats_a_key(&self) -> bool {
        let mut keys = BTreeSet::new();
        !self.items.iter().all(|item| keys.insert(&item.info.key))
    }

    /// Returns what the data take of the limits.
    pub fn amounts(&self) -> PublishAmounts {
        let sizes = self.items.iter().map(|item| Size::of_info(&item.info));
        PublishAmounts {
            items: self.items.len(),
            bytes: sizes.fold(0, |bytes, size| bytes.saturating_add(size.bytes)),
            waits: 0,
        }
    }

    /// Returns the memory of the publication, in bytes.
    pub fn bytes(&self) -> usize {
        self.amounts().bytes.saturating_add(self.scope.bytes())
    }
}

/// A lookup of published data.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PublishedLookup {
    /// The keys.
    pub keys: BTreeSet<Key>,
    /// The publishers of the data that it may find.
    pub scope: PublicationScope,
    /// The number of keys that the lookup waits for.
    pub required_keys: usize,
}

impl PublishedLookup {
    /// Parses a lookup and its time-out.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for a lookup without keys, or with invalid keys or directives.
    pub fn read(
        by: &Proc,
        keys: &[Text],
        infos: &[Info],
    ) -> Result<(PublishedLookup, Option<Duration>), Status> {
        let keys = keys_of(keys)?;
        if keys.is_empty() {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        let wanted = match infos.value_of(key::PMIX_WAIT) {
            None | Some(Value::Bool(false)) => 0,
            // Open MPI 5 sends a boolean in place of the number of keys.
            Some(Value::Bool(true)) => keys.len(),
            Some(value) => match value
                .as_u64()
                .and_then(|wanted| usize::try_from(wanted).ok())
            {
                // The Standard: zero means all keys.
                Some(0) => keys.len(),
                // A lookup for more keys than it names would wait for ever.
                Some(wanted) => wanted.min(keys.len()),
                None => return Err(code::PMIX_ERR_BAD_PARAM),
            },
        };
        let lookup = PublishedLookup {
            keys,
            scope: PublicationScope::read(by, infos)?,
            required_keys: wanted,
        };
        Ok((lookup, timeout(infos)?))
    }

    /// Returns what the lookup takes of the limits while it waits.
    pub fn amounts(&self) -> PublishAmounts {
        PublishAmounts {
            waits: self.keys.len(),
            ..PublishAmounts::default()
        }
    }

    /// Returns what is left of the lookup without these keys, which are found.
    pub fn without<'a>(&self, found: impl IntoIterator<Item = &'a Key>) -> PublishedLookup {
        let mut left = self.clone();
        for key in found {
            if left.keys.remove(key) {
                left.required_keys = left.required_keys.saturating_sub(1);
            }
        }
        left
    }

    /// Returns the memory of the lookup, in bytes.
    pub fn bytes(&self) -> usize {
        let keys = self.keys.iter().map(|key| key.as_bytes().len());
        let keys = keys.sum::<usize>() + self.keys.len() * size_of::<Key>();
        keys.saturating_add(self.scope.bytes())
    }
}

/// Parses a list of keys.
pub(super) fn keys_of(texts: &[Text]) -> Result<BTreeSet<Key>, Status> {
    let key = |text: &Text| Key::new(text.as_str()?).ok();
    texts
        .iter()
        .map(|text| key(text).ok_or(code::PMIX_ERR_BAD_PARAM))
        .collect()
}

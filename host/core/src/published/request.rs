//! Parsing of publish and lookup requests.
use super::scope::PublicationScope;
use crate::directives::timeout;
use peal_model::{
    Info, Infos, Key, KeyName, Persistence, Proc, Size, Status, Text, Value, code, key,
};
use std::{collections::BTreeSet, time::Duration};

/// Access lists of users and groups, which are not supported.
const ACCESS: [KeyName; 3] = [
    key::PMIX_ACCESS_PERMISSIONS,
    key::PMIX_ACCESS_USERIDS,
    key::PMIX_ACCESS_GRPIDS,
];

/// Prefix of the Standard's keys.
const RESERVED: &str = "pmix.";

/// A parsed publish request.
#[derive(Debug)]
pub(super) struct Publication {
    pub(super) extent: PublicationScope,
    pub(super) persistence: Persistence,
    pub(super) data: Vec<Info>,
}

impl Publication {
    /// Parses a publish request. Keys of the Standard are directives, all others are data.
    pub(super) fn read(by: &Proc, infos: Vec<Info>) -> Result<Publication, Status> {
        // Data whose access list is ignored would be visible to more procs than permitted.
        if ACCESS.iter().any(|key| infos.value_of(*key).is_some()) {
            return Err(code::PMIX_ERR_NOT_SUPPORTED);
        }
        let extent = PublicationScope::read(by, &infos)?;
        let persistence = match infos.value_of(key::PMIX_PERSISTENCE) {
            // The Standard's default.
            None => Persistence::App,
            Some(value) => value
                .as_persistence()
                .filter(|persistence| *persistence != Persistence::Invalid)
                .ok_or(code::PMIX_ERR_BAD_PARAM)?,
        };
        let data: Vec<Info> = infos
            .into_iter()
            .filter(|info| !info.key.as_str().starts_with(RESERVED))
            .collect();
        if data.is_empty() {
            Err(code::PMIX_ERR_BAD_PARAM)
        } else {
            Ok(Publication {
                extent,
                persistence,
                data,
            })
        }
    }
}

impl Publication {
    /// Returns true if two of the data have the same key.
    pub(super) fn repeats_a_key(&self) -> bool {
        let mut keys = BTreeSet::new();
        !self.data.iter().all(|info| keys.insert(&info.key))
    }

    /// Returns the memory of the data, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.data.iter().fold(0, |bytes, info| {
            bytes.saturating_add(Size::of_info(info).bytes)
        })
    }
}

/// A parsed lookup.
#[derive(Debug)]
pub(super) struct Lookup {
    pub(super) keys: BTreeSet<Key>,
    pub(super) extent: PublicationScope,
    /// The number of keys that the lookup waits for.
    pub(super) required_keys: usize,
    pub(super) timeout: Option<Duration>,
}

impl Lookup {
    pub(super) fn read(by: &Proc, keys: &[Text], infos: &[Info]) -> Result<Lookup, Status> {
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
        Ok(Lookup {
            keys,
            extent: PublicationScope::read(by, infos)?,
            required_keys: wanted,
            timeout: timeout(infos)?,
        })
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

//! Events: what happened, who says so, and whom it is meant for.
use crate::{DataArray, Info, InfoFlags, Infos, Key, KeyName, Proc, Range, Status, Value, key};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An event on its way to handlers. RFC 0002, "PMIx Event Notification".
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// What happened.
    pub code: Status,
    /// The proc that raised it; none for events of the resource manager.
    pub source: Option<Proc>,
    /// Whom it is meant for.
    pub range: Range,
    /// What else is known.
    pub infos: Vec<Info>,
}

impl Event {
    /// The procs of `PMIX_EVENT_CUSTOM_RANGE`, or nothing where the event carries no such list.
    pub fn custom_targets(&self) -> Option<Vec<Proc>> {
        self.infos
            .value_of(key::PMIX_EVENT_CUSTOM_RANGE)?
            .as_procs()
    }

    /// The procs that the event says are affected (`PMIX_EVENT_AFFECTED_PROC` and `..._PROCS`).
    pub fn affected(&self) -> Vec<Proc> {
        let keys = [
            key::PMIX_EVENT_AFFECTED_PROC,
            key::PMIX_EVENT_AFFECTED_PROCS,
        ];
        keys.iter()
            .filter_map(|key| self.infos.value_of(*key))
            .filter_map(|value| value.as_procs())
            .flatten()
            .collect()
    }

    /// Whether default handlers pass it by (`PMIX_EVENT_NON_DEFAULT`).
    pub fn is_non_default(&self) -> bool {
        self.infos.is_true(key::PMIX_EVENT_NON_DEFAULT)
    }

    /// Whether servers shall not keep it for late registrations (`PMIX_EVENT_DO_NOT_CACHE`).
    pub fn is_do_not_cache(&self) -> bool {
        self.infos.is_true(key::PMIX_EVENT_DO_NOT_CACHE)
    }

    /// Whether it is neither for other servers nor for the host environment (`PMIX_EVENT_STAYS_LOCAL`).
    pub fn stays_local(&self) -> bool {
        self.infos.is_true(key::PMIX_EVENT_STAYS_LOCAL)
    }
}

impl Range {
    /// Whether whatever is in this range is in that one, too, wherever it comes from. Which procs a custom range names, and
    /// where those of a namespace are, is not considered.
    pub fn is_within(self, other: Range) -> bool {
        let narrower: &[Range] = match other {
            Range::Global => &[
                Range::Session,
                Range::Namespace,
                Range::Local,
                Range::Custom,
            ],
            Range::Session => &[Range::Namespace, Range::Local, Range::Custom],
            _ => &[],
        };
        self == other || narrower.contains(&self)
    }
}

/// What one member of a chain returned; each later member sees it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChainResult {
    /// The name it was registered with, or empty.
    pub name: Arc<str>,
    /// Its status; for one that failed, a status of Peal's own.
    pub status: Status,
    /// What it pushed.
    pub infos: Vec<Info>,
}

impl ChainResult {
    /// In the form of RFC 0002: its key the name, its value an array whose first element carries the status.
    pub fn as_info(&self) -> Info {
        // A name longer than a key may be is not refused at registration; its results go without.
        let key = Key::new(&self.name)
            .or_else(|_| Key::new(""))
            .unwrap_or_else(|_| KeyName("").into());
        let status = Info {
            key: key.clone(),
            flags: InfoFlags::NONE,
            value: Value::Status(self.status),
        };
        let array = DataArray::infos(std::iter::once(status).chain(self.infos.iter().cloned()));
        Info {
            key,
            flags: InfoFlags::NONE,
            value: Value::DataArray(array),
        }
    }
}

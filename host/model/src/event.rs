//! Events: code, source, range and infos.
use crate::{DataArray, Info, InfoFlags, Infos, Key, KeyName, Proc, Range, Status, Value, key};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An event. RFC 0002, "PMIx Event Notification".
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// Event code.
    pub code: Status,
    /// Source of the event; `None` for events of the resource manager.
    pub source: Option<Proc>,
    /// Range of the event.
    pub range: Range,
    /// Infos of the event.
    pub infos: Vec<Info>,
}

impl Event {
    /// Returns the procs of `PMIX_EVENT_CUSTOM_RANGE`; `None` if the event has no such list.
    pub fn custom_targets(&self) -> Option<Vec<Proc>> {
        self.infos
            .value_of(key::PMIX_EVENT_CUSTOM_RANGE)?
            .as_procs()
    }

    /// Returns the event as a handler receives it: with the object of its registration
    /// (`PMIX_EVENT_RETURN_OBJECT`) among the infos, as in OpenPMIx.
    pub fn with_return_object(&self, object: &Value) -> Event {
        let mut event = self.clone();
        event
            .infos
            // The object belongs to the registration. An object that the source put into the event
            // must not reach the handler in its place.
            .retain(|info| info.key != key::PMIX_EVENT_RETURN_OBJECT);
        event
            .infos
            .push(Info::new(key::PMIX_EVENT_RETURN_OBJECT, object.clone()));
        event
    }

    /// Returns the affected procs (`PMIX_EVENT_AFFECTED_PROC` and `..._PROCS`).
    pub fn affected(&self) -> Vec<Proc> {
        self.infos.affected_procs()
    }

    /// Returns true if default handlers are not called (`PMIX_EVENT_NON_DEFAULT`).
    pub fn is_non_default(&self) -> bool {
        self.infos.is_true(key::PMIX_EVENT_NON_DEFAULT)
    }

    /// Returns true if servers must not retain the event for late registrations
    /// (`PMIX_EVENT_DO_NOT_CACHE`).
    pub fn is_do_not_cache(&self) -> bool {
        self.infos.is_true(key::PMIX_EVENT_DO_NOT_CACHE)
    }

    /// Returns true if the event goes neither to other servers nor to the host environment
    /// (`PMIX_EVENT_STAYS_LOCAL`).
    pub fn stays_local(&self) -> bool {
        self.infos.is_true(key::PMIX_EVENT_STAYS_LOCAL)
    }
}

impl Range {
    /// Returns true if every proc in this range is in the other, too, for any source. The procs of
    /// a custom range, and the nodes of a namespace, are not considered.
    pub fn is_within(self, other: Range) -> bool {
        let narrower: &[Range] = match other {
            Range::Global => &[
                Range::Session,
                Range::Namespace,
                Range::Local,
                Range::Custom,
            ],
            Range::Session => &[Range::Namespace, Range::Local, Range::Custom],
            // A job may have procs on several nodes and a node procs of several jobs, so neither
            // contains the other.
            _ => &[],
        };
        self == other || narrower.contains(&self)
    }
}

/// Result of one member of a chain, which later members see.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChainResult {
    /// Name of the registration, or empty.
    pub name: Arc<str>,
    /// Status; one of Peal's own if the member failed.
    pub status: Status,
    /// Pushed infos.
    pub infos: Vec<Info>,
}

impl ChainResult {
    /// Returns the result in the form of RFC 0002: the key is the name, the value an array with the
    /// status as its first element.
    pub fn as_info(&self) -> Info {
        // A name may be longer than a key. Its results are then passed on without it.
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

//! Infos: a key, flags and a value; and the plain pairs that procs put.
use crate::{Key, Value};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Flags of an info (`pmix_info_directives_t`). Unknown flags are kept and passed on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct InfoFlags(pub u32);

impl InfoFlags {
    /// No flags.
    pub const NONE: InfoFlags = InfoFlags(0);
    /// The receiver must honour this info or refuse the request.
    pub const REQUIRED: InfoFlags = InfoFlags(crate::names::number::PMIX_INFO_REQD as u32);
    /// The info qualifies the infos next to it.
    pub const QUALIFIER: InfoFlags = InfoFlags(crate::names::number::PMIX_INFO_QUALIFIER as u32);
    /// The info is the last of an array; `libpmix` 4.2 sets it on arrays that it builds.
    pub const ARRAY_END: InfoFlags = InfoFlags(crate::names::number::PMIX_INFO_ARRAY_END as u32);

    /// Returns true if all flags of `other` are set.
    pub fn contains(self, other: InfoFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl fmt::Debug for InfoFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// An info: one piece of information or one directive (`pmix_info_t`).
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Info {
    /// Key of the info.
    pub key: Key,
    /// Flags of the info.
    pub flags: InfoFlags,
    /// Value.
    pub value: Value,
}

impl Info {
    /// Makes an info without flags.
    pub fn new(key: impl Into<Key>, value: Value) -> Info {
        Info {
            key: key.into(),
            flags: InfoFlags::NONE,
            value,
        }
    }
}

impl fmt::Debug for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}={:?}", self.key, self.value)?;
        if self.flags != InfoFlags::NONE {
            write!(f, " flags {:?}", self.flags)
        } else {
            Ok(())
        }
    }
}

/// Look-up in a list of infos.
pub trait Infos {
    /// Returns the value of the last info with a key: a repeated key overrides.
    fn value_of(&self, key: crate::KeyName) -> Option<&Value>;

    /// Returns true if a boolean directive is given and true ([`Value::as_bool`]).
    fn is_true(&self, key: crate::KeyName) -> bool {
        // A directive that is absent, or has no truth value, was not given.
        self.value_of(key).and_then(Value::as_bool).unwrap_or(false)
    }

    /// Returns the affected procs (`PMIX_EVENT_AFFECTED_PROC` and `..._PROCS`) of an event or of a
    /// registration's filter. Values of other types count as absent.
    fn affected_procs(&self) -> Vec<crate::Proc> {
        let procs = |key| self.value_of(key).and_then(Value::as_procs);
        let one = procs(crate::key::PMIX_EVENT_AFFECTED_PROC);
        let several = procs(crate::key::PMIX_EVENT_AFFECTED_PROCS);
        match (one, several) {
            (None, None) => Vec::new(),
            (Some(procs), None) | (None, Some(procs)) => procs,
            // An event may have both keys. Their procs are joined.
            (Some(one), Some(several)) => [one, several].concat(),
        }
    }
}

impl Infos for [Info] {
    fn value_of(&self, key: crate::KeyName) -> Option<&Value> {
        self.iter()
            .rev()
            .find(|info| info.key == key)
            .map(|info| &info.value)
    }
}

/// A key and its value, as procs put them and servers return them (`pmix_kval_t`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Kval {
    /// Key of the pair.
    pub key: Key,
    /// Value.
    pub value: Value,
}

impl Kval {
    /// Makes a pair.
    pub fn new(key: impl Into<Key>, value: Value) -> Kval {
        Kval {
            key: key.into(),
            value,
        }
    }
}

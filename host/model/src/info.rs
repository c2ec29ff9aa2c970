//! Infos: a key, flags and a value; and the plain pairs that procs put for each other.
use crate::{Key, Value};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The flags of an info (`pmix_info_directives_t`). Unknown ones are kept, so that what is passed on is what came.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct InfoFlags(pub u32);

impl InfoFlags {
    /// No flag.
    pub const NONE: InfoFlags = InfoFlags(0);
    /// The receiver must honour this info or refuse the request.
    pub const REQUIRED: InfoFlags = InfoFlags(crate::names::number::PMIX_INFO_REQD as u32);
    /// It says for what its neighbours hold.
    pub const QUALIFIER: InfoFlags = InfoFlags(crate::names::number::PMIX_INFO_QUALIFIER as u32);
    /// The last of an array; `libpmix` 4.2 sets it on arrays it built itself.
    pub const ARRAY_END: InfoFlags = InfoFlags(crate::names::number::PMIX_INFO_ARRAY_END as u32);

    /// Whether all flags of `other` are set.
    pub fn contains(self, other: InfoFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl fmt::Debug for InfoFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// One piece of information or one directive (`pmix_info_t`).
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Info {
    /// What it is.
    pub key: Key,
    /// How binding it is.
    pub flags: InfoFlags,
    /// Its value.
    pub value: Value,
}

impl Info {
    /// An info without flags.
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

/// What one looks for in a list of infos.
pub trait Infos {
    /// The value of the last info with this key: a repeated key overrides.
    fn value_of(&self, key: crate::KeyName) -> Option<&Value>;

    /// Whether a boolean directive is given and true ([`Value::as_bool`]).
    fn is_true(&self, key: crate::KeyName) -> bool {
        self.value_of(key).and_then(Value::as_bool).unwrap_or(false)
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

/// A key and its value, as procs put them and servers hand them out (`pmix_kval_t`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Kval {
    /// What it is.
    pub key: Key,
    /// Its value.
    pub value: Value,
}

impl Kval {
    /// A pair.
    pub fn new(key: impl Into<Key>, value: Value) -> Kval {
        Kval {
            key: key.into(),
            value,
        }
    }
}

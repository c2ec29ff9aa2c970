//! Values and infos as an author handles them: a tree, whose arrays hold what they hold.
pub use crate::bindings::types::{Identity, InfoFlags, Opaque, Proc, Range};
use std::fmt;

/// A value (`pmix_value_t`). Integer types keep the width that the Standard gives them; [`Value::as_u64`] and
/// [`Value::as_i64`] read any of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value; a NULL string of C arrives like this too.
    Undef,
    /// True or false.
    Boolean(bool),
    /// One byte.
    Byte(u8),
    /// A string.
    Text(String),
    /// A size or count.
    Size(u64),
    /// A process id.
    Pid(u32),
    /// A C `int`.
    Int(i32),
    /// 8 bits, signed.
    Int8(i8),
    /// 16 bits, signed.
    Int16(i16),
    /// 32 bits, signed.
    Int32(i32),
    /// 64 bits, signed.
    Int64(i64),
    /// A C `unsigned int`.
    Uint(u32),
    /// 8 bits.
    Uint8(u8),
    /// 16 bits.
    Uint16(u16),
    /// 32 bits.
    Uint32(u32),
    /// 64 bits.
    Uint64(u64),
    /// Single precision.
    Float32(f32),
    /// Double precision.
    Float64(f64),
    /// A span or point of time.
    Timeval {
        /// Whole seconds.
        seconds: i64,
        /// Microseconds beyond them.
        microseconds: i64,
    },
    /// Seconds since the epoch.
    Time(u64),
    /// A status or event code.
    Status(i32),
    /// A proc.
    Proc(Proc),
    /// A namespace.
    Nspace(String),
    /// A rank.
    Rank(u32),
    /// Whom an event is meant for.
    Range(Range),
    /// A byte object.
    Bytes(Vec<u8>),
    /// An array of infos.
    Infos(Vec<Info>),
    /// An array of procs.
    Procs(Vec<Proc>),
    /// An array of values of one type, which it has even if it is empty.
    Values {
        /// The type number of its elements, as [`Value::data_type`] returns it.
        element: u16,
        /// Its elements. In an array of strings, [`Value::Undef`] is a NULL string.
        items: Vec<Value>,
    },
    /// A value of a type that has no shape here, or a string that is not UTF-8: it can be passed on, within the same call,
    /// not looked into.
    Other(Opaque),
}

impl Value {
    /// Its type number (`pmix_data_type_t`).
    pub fn data_type(&self) -> u16 {
        match self {
            Value::Undef => 0,
            Value::Boolean(_) => 1,
            Value::Byte(_) => 2,
            Value::Text(_) => 3,
            Value::Size(_) => 4,
            Value::Pid(_) => 5,
            Value::Int(_) => 6,
            Value::Int8(_) => 7,
            Value::Int16(_) => 8,
            Value::Int32(_) => 9,
            Value::Int64(_) => 10,
            Value::Uint(_) => 11,
            Value::Uint8(_) => 12,
            Value::Uint16(_) => 13,
            Value::Uint32(_) => 14,
            Value::Uint64(_) => 15,
            Value::Float32(_) => 16,
            Value::Float64(_) => 17,
            Value::Timeval { .. } => 18,
            Value::Time(_) => 19,
            Value::Status(_) => 20,
            Value::Proc(_) => 22,
            Value::Bytes(_) => 27,
            Value::Range(_) => 33,
            Value::Infos(_) | Value::Procs(_) | Value::Values { .. } => 39,
            Value::Rank(_) => 40,
            Value::Nspace(_) => 60,
            Value::Other(opaque) => opaque.data_type,
        }
    }

    /// The truth value, of a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Boolean(truth) => Some(*truth),
            _ => None,
        }
    }

    /// The text, of a string or namespace.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(text) | Value::Nspace(text) => Some(text),
            _ => None,
        }
    }

    /// The number, of any type that counts, if it fits.
    pub fn as_u64(&self) -> Option<u64> {
        self.integer().and_then(|number| number.try_into().ok())
    }

    /// The number, of any type that counts and of a status, if it fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.integer().and_then(|number| number.try_into().ok())
    }

    fn integer(&self) -> Option<i128> {
        Some(match *self {
            Value::Byte(n) | Value::Uint8(n) => n.into(),
            Value::Uint16(n) => n.into(),
            Value::Uint(n) | Value::Uint32(n) | Value::Pid(n) | Value::Rank(n) => n.into(),
            Value::Size(n) | Value::Uint64(n) | Value::Time(n) => n.into(),
            Value::Int8(n) => n.into(),
            Value::Int16(n) => n.into(),
            Value::Int(n) | Value::Int32(n) | Value::Status(n) => n.into(),
            Value::Int64(n) => n.into(),
            _ => return None,
        })
    }
}

/// A piece of information or a directive (`pmix_info_t`).
#[derive(Clone, Debug, PartialEq)]
pub struct Info {
    /// The key string as it travels, such as [`crate::key::PMIX_EVENT_HDLR_NAME`].
    pub key: String,
    /// How binding it is.
    pub flags: InfoFlags,
    /// Its value.
    pub value: Value,
}

impl Info {
    /// An info without flags.
    pub fn new(key: impl Into<String>, value: impl Into<Value>) -> Info {
        Info {
            key: key.into(),
            flags: InfoFlags::empty(),
            value: value.into(),
        }
    }
}

/// What one member of a chain returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The name it was registered with, or empty.
    pub name: String,
    /// Its status; for one that failed, a status of Peal's own (-1000000 and below).
    pub status: i32,
    /// What it returned beside its status.
    pub infos: Vec<Info>,
}

impl Proc {
    /// The proc of this rank in this namespace.
    pub fn new(nspace: impl Into<String>, rank: u32) -> Proc {
        Proc {
            nspace: nspace.into(),
            rank,
        }
    }
}

impl fmt::Display for Proc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.nspace, self.rank)
    }
}

macro_rules! from {
    ($($source:ty => $variant:ident),* $(,)?) => {
        $(impl From<$source> for Value {
            fn from(value: $source) -> Value {
                Value::$variant(value.into())
            }
        })*
    };
}

from! {
    bool => Boolean, &str => Text, String => Text, f32 => Float32, f64 => Float64,
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64, u8 => Uint8, u16 => Uint16, u32 => Uint32, u64 => Uint64,
    Proc => Proc, Range => Range, Vec<u8> => Bytes, Vec<Info> => Infos, Vec<Proc> => Procs,
}

/// An array of the type of its first element that has one.
impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Value {
        let element = items
            .iter()
            .map(Value::data_type)
            .find(|element| *element != Value::Undef.data_type());
        Value::Values {
            element: element.unwrap_or_default(),
            items,
        }
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Value {
        Value::Size(count as u64)
    }
}

//! Values and infos as authors use them: a tree, in which arrays contain their elements.
pub use crate::bindings::types::{InfoFlags, Opaque, Proc, Range, UserIdentity};
use std::fmt;

/// Value (`pmix_value_t`). Integer types keep the width of the Standard; [`Value::as_u64`] and
/// [`Value::as_i64`] read any of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value; also a NULL string of C.
    Undef,
    /// True or false.
    Boolean(bool),
    /// One byte.
    Byte(u8),
    /// String.
    Text(String),
    /// Size or count.
    Size(u64),
    /// Process id.
    Pid(u32),
    /// C `int`.
    Int(i32),
    /// 8 bits, signed.
    Int8(i8),
    /// 16 bits, signed.
    Int16(i16),
    /// 32 bits, signed.
    Int32(i32),
    /// 64 bits, signed.
    Int64(i64),
    /// C `unsigned int`.
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
    /// Span or point of time.
    Timeval {
        /// Whole seconds.
        seconds: i64,
        /// Additional microseconds.
        microseconds: i64,
    },
    /// Seconds since the epoch.
    Time(u64),
    /// Status or event code.
    Status(i32),
    /// Proc.
    Proc(Proc),
    /// Namespace.
    Nspace(String),
    /// Rank.
    Rank(u32),
    /// Range of an event.
    Range(Range),
    /// Byte object.
    Bytes(Vec<u8>),
    /// Array of infos.
    Infos(Vec<Info>),
    /// Array of procs.
    Procs(Vec<Proc>),
    /// Array of values of one type, which is given even if the array is empty.
    Values {
        /// Type number of the elements, as [`Value::data_type`] returns it.
        element: u16,
        /// Elements. In an array of strings, [`Value::Undef`] is a NULL string.
        items: Vec<Value>,
    },
    /// Value of a type that the contract does not define, or a string that is not UTF-8. A module
    /// can pass it on within the same call, but not read it.
    Other(Opaque),
}

impl Value {
    /// Returns the type number (`pmix_data_type_t`).
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

    /// Returns the truth value of a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Boolean(truth) => Some(*truth),
            _ => None,
        }
    }

    /// Returns the text of a string or namespace.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(text) | Value::Nspace(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the number of any integer type, if it fits.
    pub fn as_u64(&self) -> Option<u64> {
        self.integer().and_then(|number| number.try_into().ok())
    }

    /// Returns the number of any integer type or status, if it fits.
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

/// Info or directive (`pmix_info_t`).
#[derive(Clone, Debug, PartialEq)]
pub struct Info {
    /// Key string of the Standard, such as [`crate::key::PMIX_EVENT_HDLR_NAME`].
    pub key: String,
    /// Flags.
    pub flags: InfoFlags,
    /// Value.
    pub value: Value,
}

impl Info {
    /// Creates an info without flags.
    pub fn new(key: impl Into<String>, value: impl Into<Value>) -> Info {
        Info {
            key: key.into(),
            flags: InfoFlags::empty(),
            value: value.into(),
        }
    }
}

/// Result of one module of a chain.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainResult {
    /// Name of its registration, or empty.
    pub name: String,
    /// Status; of a module that failed, one of Peal's own (-1000000 and below).
    pub status: i32,
    /// Infos that it pushed.
    pub infos: Vec<Info>,
}

impl Proc {
    /// Creates a proc.
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

/// Creates an array of the type of its first element that has one.
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

//! Who and what: namespaces, ranks, procs and attribute keys, each bounded as the Standard bounds it.
use crate::names;
use serde::{Deserialize, Serialize};
use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};
use thiserror::Error;

/// Why a text cannot be a namespace or a key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum IdentError {
    /// Longer than the Standard allows.
    #[error("{what} of {len} bytes is longer than the {max} allowed")]
    TooLong {
        /// "namespace" or "key".
        what: &'static str,
        /// Its length in bytes.
        len: usize,
        /// The longest allowed, in bytes.
        max: usize,
    },
    /// Contains a NUL byte, which ends a C string.
    #[error("{what} {text:?} contains a NUL byte")]
    Nul {
        /// "namespace" or "key".
        what: &'static str,
        /// The text as given.
        text: String,
    },
    /// A namespace with a character that does something where it is shown.
    #[error(
        "namespace {text:?} has the character {character:?}; control characters, ends of lines and marks of writing direction \
         are not allowed"
    )]
    Character {
        /// The text as given.
        text: String,
        /// The first such character.
        character: char,
    },
    /// A job without a name.
    #[error("the name of a job is empty")]
    NoJobName,
    /// The name of a job that no file can have.
    #[error(
        "{text:?} cannot be the name of a job: files are named after it, so it has no `/` and is neither `.` nor `..`"
    )]
    NoFileName {
        /// The text as given.
        text: String,
    },
}

fn checked(what: &'static str, text: &str, max: usize) -> Result<Arc<str>, IdentError> {
    if text.len() > max {
        return Err(IdentError::TooLong {
            what,
            len: text.len(),
            max,
        });
    }
    if text.contains('\0') {
        return Err(IdentError::Nul {
            what,
            text: text.to_owned(),
        });
    }
    Ok(Arc::from(text))
}

/// Whether a character ends a line, controls a terminal or turns text around.
fn is_control(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A namespace: the name of a job, a tool, a server or a group (`pmix_nspace_t`), at most 255 bytes. The empty one names nobody.
///
/// It stands in environment variables, in lines of output and in JSON, so it has no control characters. That of a job also names
/// files ([`Nspace::of_job`]).
///
/// Compared by their texts; those that are one and the same, as the namespaces of procs that travel together are, are not looked into.
#[derive(Clone, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Nspace(Arc<str>);

impl PartialEq for Nspace {
    fn eq(&self, other: &Nspace) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Hash for Nspace {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Ord for Nspace {
    fn cmp(&self, other: &Nspace) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) {
            Ordering::Equal
        } else {
            self.0.cmp(&other.0)
        }
    }
}

impl PartialOrd for Nspace {
    fn partial_cmp(&self, other: &Nspace) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Nspace {
    /// The longest namespace, in bytes (`PMIX_MAX_NSLEN`).
    pub const MAX: usize = names::number::PMIX_MAX_NSLEN as usize;

    /// A namespace of this name; an error if it is too long or holds a NUL or another control character.
    pub fn new(text: &str) -> Result<Nspace, IdentError> {
        let name = checked("namespace", text, Self::MAX)?;
        match text.chars().find(|character| is_control(*character)) {
            Some(character) => Err(IdentError::Character {
                text: text.to_owned(),
                character,
            }),
            None => Ok(Nspace(name)),
        }
    }

    /// The namespace of a job of this name. Groups may have names with slashes, such as `mpi://WORLD`; jobs may not.
    ///
    /// # Errors
    /// Those of [`Nspace::new`], and for a name that is empty or cannot name a file.
    pub fn of_job(text: &str) -> Result<Nspace, IdentError> {
        match text {
            "" => Err(IdentError::NoJobName),
            "." | ".." => Err(IdentError::NoFileName {
                text: text.to_owned(),
            }),
            _ if text.contains('/') => Err(IdentError::NoFileName {
                text: text.to_owned(),
            }),
            _ => Nspace::new(text),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this names nobody.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<String> for Nspace {
    type Error = IdentError;
    fn try_from(text: String) -> Result<Nspace, IdentError> {
        Nspace::new(&text)
    }
}

impl Default for Nspace {
    fn default() -> Self {
        Nspace(Arc::from(""))
    }
}

impl fmt::Display for Nspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Nspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// The number of a proc in its job, or one of the Standard's special ranks (`pmix_rank_t`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rank(pub u32);

impl Rank {
    /// Whether this names one proc (below `PMIX_RANK_VALID`).
    pub fn is_valid(self) -> bool {
        self.0 < names::rank::PMIX_RANK_VALID.0
    }

    /// Whether a pattern rank covers `other`: equal, or the pattern is `PMIX_RANK_WILDCARD`.
    pub fn covers(self, other: Rank) -> bool {
        self == other || self == names::rank::PMIX_RANK_WILDCARD
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match names::RANK_NAMES.iter().find(|entry| entry.0 == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A proc, or with a special rank a set of procs (`pmix_proc_t`).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Proc {
    /// Its job.
    pub nspace: Nspace,
    /// Its number there.
    pub rank: Rank,
}

impl Proc {
    /// The proc of that rank in that namespace.
    pub fn new(nspace: Nspace, rank: Rank) -> Proc {
        Proc { nspace, rank }
    }

    /// All procs of a namespace.
    pub fn all(nspace: Nspace) -> Proc {
        Proc {
            nspace,
            rank: names::rank::PMIX_RANK_WILDCARD,
        }
    }

    /// Whether this pattern covers `other`: the same namespace, and the rank covers it.
    pub fn covers(&self, other: &Proc) -> bool {
        self.nspace == other.nspace && self.rank.covers(other.rank)
    }

    /// Whether some proc is covered by both patterns.
    pub fn overlaps(&self, other: &Proc) -> bool {
        self.covers(other) || other.covers(self)
    }
}

impl fmt::Display for Proc {
    /// Namespaces of tools are whatever these say: what a terminal or a log would take for something else is escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.nspace.as_str().escape_debug(), self.rank)
    }
}

impl fmt::Debug for Proc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A key string of the Standard, as generated into [`crate::key`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyName(pub &'static str);

/// The key of an info or value: a literal string such as `pmix.evname`, at most 511 bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Key(Arc<str>);

impl Key {
    /// The longest key, in bytes (`PMIX_MAX_KEYLEN`).
    pub const MAX: usize = names::number::PMIX_MAX_KEYLEN as usize;

    /// A key of this text; an error if it is too long or holds a NUL.
    pub fn new(text: &str) -> Result<Key, IdentError> {
        checked("key", text, Self::MAX).map(Key)
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is kept for what the Standard defines, and no proc may put a value of it.
    pub fn is_reserved(&self) -> bool {
        self.0.starts_with("pmix")
    }

    /// The Standard's name of this key (`PMIX_EVENT_HDLR_NAME`), if it has one.
    pub fn standard_name(&self) -> Option<&'static str> {
        names::ATTRIBUTES
            .iter()
            .find(|entry| entry.key == &*self.0)
            .map(|entry| entry.name)
    }
}

impl TryFrom<String> for Key {
    type Error = IdentError;
    fn try_from(text: String) -> Result<Key, IdentError> {
        Key::new(&text)
    }
}

impl From<KeyName> for Key {
    fn from(name: KeyName) -> Key {
        Key(Arc::from(name.0))
    }
}

impl PartialEq<KeyName> for Key {
    fn eq(&self, other: &KeyName) -> bool {
        &*self.0 == other.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.standard_name() {
            Some(name) => write!(f, "{name} ({:?})", &*self.0),
            None => write!(f, "{:?}", &*self.0),
        }
    }
}

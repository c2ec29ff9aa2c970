//! Identifiers: namespaces, ranks, procs and attribute keys, with the bounds of the Standard.
use crate::names;
use serde::{Deserialize, Serialize, Serializer};
use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};
use thiserror::Error;

/// Reason why a text cannot be a namespace or a key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum IdentError {
    /// The text is longer than the Standard allows.
    #[error("{kind} has {len} bytes; the limit is {max}")]
    TooLong {
        /// "namespace" or "key".
        kind: &'static str,
        /// Length in bytes.
        len: usize,
        /// Longest length allowed, in bytes.
        max: usize,
    },
    /// The text contains a NUL byte, which ends a C string.
    #[error("{kind} {text:?} contains a NUL byte")]
    Nul {
        /// "namespace" or "key".
        kind: &'static str,
        /// The text.
        text: String,
    },
    /// A namespace contains a control character, which could affect a terminal or a log.
    #[error(
        "namespace {text:?} contains {character:?}; control characters, line ends and direction marks are not allowed"
    )]
    Character {
        /// The text.
        text: String,
        /// The first such character.
        character: char,
    },
    /// The name of a job is empty.
    #[error("name of job is empty")]
    NoJobName,
    /// The name of a job cannot be the name of a file.
    #[error(
        "{text:?} cannot be the name of a job: it names files, so `/`, `.` and `..` are not allowed"
    )]
    NoFileName {
        /// The text.
        text: String,
    },
}

fn check(kind: &'static str, text: &str, max: usize) -> Result<(), IdentError> {
    // The length comes first, because the other errors contain the text.
    if text.len() > max {
        return Err(IdentError::TooLong {
            kind,
            len: text.len(),
            max,
        });
    }
    if text.as_bytes().contains(&0) {
        return Err(IdentError::Nul {
            kind,
            text: text.to_owned(),
        });
    }
    Ok(())
}

/// Returns true if a character ends a line, controls a terminal or changes the direction of text.
fn is_control(character: char) -> bool {
    character.is_control()
        // Unicode counts line separators and direction marks as separators and formats, not as
        // controls.
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A namespace: the name of a job, a tool, a server or a group (`pmix_nspace_t`), at most 255
/// bytes. The empty namespace names nothing.
///
/// Namespaces appear in environment variables, lines of output and JSON, so they have no control
/// characters. The namespace of a job also names files ([`Nspace::of_job`]).
///
/// Namespaces are compared by their texts. Two that share an allocation, as those of procs in one
/// message do, are equal without a look at the text.
#[derive(Clone, Default, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Nspace(Arc<str>);

impl PartialEq for Nspace {
    fn eq(&self, other: &Nspace) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Hash for Nspace {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Equal namespaces need equal hashes, so the text is hashed and not its address.
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
    /// Longest namespace, in bytes (`PMIX_MAX_NSLEN`).
    pub const MAX: usize = names::number::PMIX_MAX_NSLEN as usize;

    /// Makes a namespace. Returns an error if the text is too long or contains a NUL or another
    /// control character.
    pub fn new(text: &str) -> Result<Nspace, IdentError> {
        check("namespace", text, Self::MAX)?;
        let name = Arc::from(text);
        // Nearly all names have only these characters, and a look at bytes is much shorter.
        if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Ok(Nspace(name));
        }
        match text.chars().find(|character| is_control(*character)) {
            Some(character) => Err(IdentError::Character {
                text: text.to_owned(),
                character,
            }),
            None => Ok(Nspace(name)),
        }
    }

    /// Makes the namespace of a job. Names of groups may have slashes, such as `mpi://WORLD`; names
    /// of jobs may not.
    ///
    /// # Errors
    ///
    /// The errors of [`Nspace::new`], and one for a name that is empty or cannot name a file.
    pub fn of_job(text: &str) -> Result<Nspace, IdentError> {
        match text {
            "" => Err(IdentError::NoJobName),
            // The name becomes a part of paths, in which these mean other directories.
            "." | ".." => Err(IdentError::NoFileName {
                text: text.to_owned(),
            }),
            _ if text.contains('/') => Err(IdentError::NoFileName {
                text: text.to_owned(),
            }),
            _ => Nspace::new(text),
        }
    }

    /// Returns the namespace as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if the namespace is empty and names nothing.
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

/// Number of a proc in its job, or one of the Standard's special ranks (`pmix_rank_t`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rank(pub u32);

impl Rank {
    /// Returns true if the rank names one proc (below `PMIX_RANK_VALID`).
    pub fn is_valid(self) -> bool {
        self.0 < names::rank::PMIX_RANK_VALID.0
    }

    /// Returns true if the rank equals `other`, or is `PMIX_RANK_WILDCARD`.
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
    /// Namespace of its job.
    pub nspace: Nspace,
    /// Rank in the job.
    pub rank: Rank,
}

impl Proc {
    /// Makes a proc of a namespace and a rank.
    pub fn new(nspace: Nspace, rank: Rank) -> Proc {
        Proc { nspace, rank }
    }

    /// Returns the proc that names all procs of a namespace.
    pub fn all(nspace: Nspace) -> Proc {
        Proc {
            nspace,
            rank: names::rank::PMIX_RANK_WILDCARD,
        }
    }

    /// Returns true if `other` has the same namespace, and the rank covers its rank.
    pub fn covers(&self, other: &Proc) -> bool {
        self.nspace == other.nspace && self.rank.covers(other.rank)
    }

    /// Returns true if some proc is covered by both.
    pub fn overlaps(&self, other: &Proc) -> bool {
        // A rank means one proc or all. If two overlap, one covers the other.
        self.covers(other) || other.covers(self)
    }
}

impl fmt::Display for Proc {
    /// Formats the proc. A tool chooses its namespace itself, so characters that a terminal or a
    /// log could misread are escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.nspace.as_str().escape_debug(), self.rank)
    }
}

impl fmt::Debug for Proc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Key string of the Standard, as generated into [`crate::key`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyName(pub &'static str);

/// Key of an info or value: a literal string such as `pmix.evname`, at most 511 bytes.
#[derive(Clone, Deserialize)]
#[serde(try_from = "String")]
pub struct Key(KeyText);

/// Text of a key.
#[derive(Clone)]
enum KeyText {
    /// Short text, as that of nearly all keys, which needs no memory of its own.
    Short { len: u8, bytes: [u8; SHORT_KEY] },
    /// Longer text, shared by the copies of the key.
    Long(Arc<str>),
}

/// Longest key without memory of its own, in bytes. With it, both kinds of text are equally large.
const SHORT_KEY: usize = 22;

impl From<&str> for KeyText {
    fn from(text: &str) -> KeyText {
        let mut bytes = [0; SHORT_KEY];
        match (bytes.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(short), Ok(len)) => {
                short.copy_from_slice(text.as_bytes());
                KeyText::Short { len, bytes }
            }
            _ => KeyText::Long(Arc::from(text)),
        }
    }
}

impl Key {
    /// Longest key, in bytes (`PMIX_MAX_KEYLEN`).
    pub const MAX: usize = names::number::PMIX_MAX_KEYLEN as usize;

    /// Makes a key. Returns an error if the text is too long or contains a NUL.
    pub fn new(text: &str) -> Result<Key, IdentError> {
        check("key", text, Self::MAX)?;
        Ok(Key(KeyText::from(text)))
    }

    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            // The bytes are those of a text.
            KeyText::Short { .. } => std::str::from_utf8(self.as_bytes()).unwrap_or_default(),
            KeyText::Long(text) => text,
        }
    }

    /// Returns the bytes of the text.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            KeyText::Short { len, bytes } => bytes.get(..usize::from(*len)).unwrap_or_default(),
            KeyText::Long(text) => text.as_bytes(),
        }
    }

    /// Returns true if the key is reserved for the Standard, so that no proc may put a value of it.
    pub fn is_reserved(&self) -> bool {
        // Without the dot, as `PMIX_CHECK_RESERVED_KEY` of OpenPMIx compares.
        self.as_bytes().starts_with(b"pmix")
    }

    /// Returns the Standard's name of this key (`PMIX_EVENT_HDLR_NAME`), if it has one.
    pub fn standard_name(&self) -> Option<&'static str> {
        names::ATTRIBUTES
            .iter()
            .find(|entry| entry.key.as_bytes() == self.as_bytes())
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
        // Keys of the Standard are generated and within the bounds, so they are not checked again.
        Key(KeyText::from(name.0))
    }
}

impl PartialEq<KeyName> for Key {
    fn eq(&self, other: &KeyName) -> bool {
        self.as_bytes() == other.0.as_bytes()
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct("Key", self.as_str())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.standard_name() {
            Some(name) => write!(f, "{name} ({:?})", self.as_str()),
            None => write!(f, "{:?}", self.as_str()),
        }
    }
}

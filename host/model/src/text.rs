//! Byte strings: C texts, which need not be UTF-8, and opaque byte objects. Both share their bytes,
//! so that clones are cheap.
use serde::{Deserialize, Serialize, Serializer};
use serde_bytes::ByteBuf;
use std::{borrow::Cow, ffi::CStr, fmt, sync::Arc};

/// A C string without its NUL. It is usually UTF-8, but a program may send any bytes and gets the
/// same bytes back.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(from = "ByteBuf")]
pub struct Text(#[serde(serialize_with = "as_bytes")] Arc<[u8]>);

impl Text {
    /// Makes a text of bytes up to the first NUL, as C would read them.
    pub fn from_bytes(bytes: &[u8]) -> Text {
        Text(Arc::from(Text::c_string(bytes)))
    }

    /// Returns bytes up to the first NUL, as C would read them.
    pub fn c_string(bytes: &[u8]) -> &[u8] {
        bytes.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// Returns the bytes without NUL.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the text if it is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// Returns the text with invalid UTF-8 replaced.
    pub fn to_string_lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl From<&CStr> for Text {
    fn from(text: &CStr) -> Text {
        Text(Arc::from(text.to_bytes()))
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text::from_bytes(text.as_bytes())
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_string_lossy())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string_lossy())
    }
}

/// Opaque bytes (`pmix_byte_object_t`).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(from = "ByteBuf")]
pub struct Bytes(#[serde(serialize_with = "as_bytes")] Arc<[u8]>);

impl Bytes {
    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl From<Arc<[u8]>> for Bytes {
    fn from(bytes: Arc<[u8]>) -> Bytes {
        Bytes(bytes)
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Bytes {
        Bytes(Arc::from(bytes))
    }
}

impl From<ByteBuf> for Bytes {
    fn from(bytes: ByteBuf) -> Bytes {
        Bytes::from(bytes.into_vec())
    }
}

impl From<ByteBuf> for Text {
    fn from(bytes: ByteBuf) -> Text {
        // A text from a record is cut at a NUL like any other, so that all texts are C strings.
        Text::from_bytes(&bytes)
    }
}

/// Serializes the bytes in one piece, which is smaller than one by one.
fn as_bytes<S: Serializer>(bytes: &Arc<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes(Arc::from(bytes))
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

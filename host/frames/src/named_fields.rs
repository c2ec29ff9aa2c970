//! Values within a message whose fields are written with their names. A field that is left out where it
//! has its default can only be read that way: other structures are written without names.
use crate::codec::{CodecError, FrameLimit, decode};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, Error, Visitor},
    ser::Error as _,
};
use std::{fmt, marker::PhantomData};

/// Value whose fields are written with their names.
#[derive(Clone, PartialEq, Debug)]
pub struct NamedFields<T>(pub T);

impl<T: Serialize> Serialize for NamedFields<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = rmp_serde::to_vec_named(&self.0).map_err(S::Error::custom)?;
        serializer.serialize_bytes(&bytes)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for NamedFields<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NamedFields<T>, D::Error> {
        deserializer.deserialize_bytes(NamedBytes(PhantomData))
    }
}

/// Appends a message whose fields are written with their names. A reader of another version ignores
/// fields that it does not know.
///
/// # Errors
///
/// Fails if the bytes are more than the limit then.
pub fn named_bytes<T: Serialize>(
    mut begun: Vec<u8>,
    message: &T,
    limit: FrameLimit,
) -> Result<Vec<u8>, CodecError> {
    message.serialize(&mut rmp_serde::Serializer::new(&mut begun).with_struct_map())?;
    bounded(begun.len(), limit).map(|()| begun)
}

/// Reads a message whose fields were written with their names.
///
/// # Errors
///
/// Fails if the bytes are no message, more than one, or more than the limit.
pub fn of_named_bytes<T: DeserializeOwned>(
    bytes: &[u8],
    limit: FrameLimit,
) -> Result<T, CodecError> {
    bounded(bytes.len(), limit).and_then(|()| decode(bytes))
}

fn bounded(len: usize, limit: FrameLimit) -> Result<(), CodecError> {
    if len <= limit.0 {
        return Ok(());
    }
    Err(CodecError::TooLong { len, max: limit.0 })
}

struct NamedBytes<T>(PhantomData<T>);

impl<T: DeserializeOwned> Visitor<'_> for NamedBytes<T> {
    type Value = NamedFields<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes of a value")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<NamedFields<T>, E> {
        decode(bytes).map(NamedFields).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FrameLimit, MessageDecoder, encode};

    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
    #[serde(default)]
    struct Sparse {
        #[serde(skip_serializing_if = "Vec::is_empty")]
        first: Vec<u8>,
        #[serde(skip_serializing_if = "Option::is_none")]
        second: Option<String>,
        third: u32,
    }

    #[test]
    fn fields_that_are_left_out_are_read_as_their_defaults() {
        let values = [
            Sparse::default(),
            Sparse {
                second: Some("here".to_owned()),
                ..Sparse::default()
            },
            Sparse {
                first: vec![1],
                second: None,
                third: 7,
            },
        ];
        for value in values {
            let message = (NamedFields(value), 5_u8);
            let mut decoder = MessageDecoder::new(FrameLimit::default());
            decoder.push(&encode(&message, FrameLimit::default()).unwrap());
            assert_eq!(decoder.next_message().unwrap(), Some(message));
        }
    }

    #[test]
    fn nesting_within_the_bytes_is_bounded() {
        let deep = [vec![0x91; 1000], vec![0xc0]].concat();
        let mut message = vec![0xc5];
        message.extend(u16::try_from(deep.len()).unwrap().to_be_bytes());
        message.extend(deep);
        let read = decode::<NamedFields<Vec<Option<u8>>>>(&message);
        assert!(read.unwrap_err().to_string().contains("nests deeper"));
    }
}

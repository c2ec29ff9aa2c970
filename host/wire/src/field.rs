//! Fields whose type the caller chooses: what `PMIx_Data_pack` writes and `PMIx_Data_unpack` reads.
use crate::{Codec, WireError, reader::MessageReader, value, writer::MessageWriter};
use peal_model::{DataType, Value};

/// A decoded field.
#[derive(Debug, Clone, PartialEq)]
pub struct PackedField {
    /// Values, of which there may be fewer than the field has.
    pub values: Vec<Value>,
    /// Number of values that the field has.
    pub count: usize,
    /// Number of bytes that were read. It is the length of the field if all values were read.
    pub len: usize,
}

impl Codec {
    /// Encodes a field: the number of values, and the values without their type. In a described
    /// buffer the type precedes them.
    ///
    /// # Errors
    ///
    /// Fails if the release has no such type, if a value is of another type, or if there are too
    /// many values.
    pub fn encode_field(
        &self,
        data_type: DataType,
        values: &[Value],
    ) -> Result<Vec<u8>, WireError> {
        self.dialect.check_type(data_type)?;
        self.encode(|w: &mut MessageWriter<'_>| {
            let count = w.count("values of a field", values.len())?;
            w.header(data_type, count);
            value::put_items(w, data_type, values)
        })
    }

    /// Decodes at most `max` values of the field at the beginning of the bytes.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end too soon or are no such field.
    pub fn decode_field(
        &self,
        data_type: DataType,
        max: usize,
        bytes: &[u8],
    ) -> Result<PackedField, WireError> {
        let mut r = MessageReader::new(self, bytes)?;
        let count = r.open_header(data_type)?;
        let count = usize::try_from(count).map_err(|_| WireError::OutOfRange {
            part: "count of a field",
            number: i128::from(count),
        })?;
        let values = value::items(&mut r, data_type, count.min(max) as u64)?;
        Ok(PackedField {
            values,
            count,
            len: bytes.len().saturating_sub(r.left()),
        })
    }

    /// Encodes values without their number and type, as members of a structure.
    ///
    /// # Errors
    ///
    /// As [`Codec::encode_field`].
    pub fn encode_members(
        &self,
        data_type: DataType,
        values: &[Value],
    ) -> Result<Vec<u8>, WireError> {
        self.dialect.check_type(data_type)?;
        self.encode(|w: &mut MessageWriter<'_>| value::put_items(w, data_type, values))
    }

    /// Decodes `count` values at the beginning of the bytes, before which there is no number.
    ///
    /// # Errors
    ///
    /// As [`Codec::decode_field`].
    pub fn decode_members(
        &self,
        data_type: DataType,
        count: usize,
        bytes: &[u8],
    ) -> Result<PackedField, WireError> {
        let mut r = MessageReader::new(self, bytes)?;
        let values = value::items(&mut r, data_type, count as u64)?;
        Ok(PackedField {
            values,
            count,
            len: bytes.len().saturating_sub(r.left()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BufferType, DecodeLimits, Dialect, Encoding, Version};
    use peal_model::data_type as dt;

    fn codec(buffer_type: BufferType) -> Codec {
        Codec {
            dialect: Dialect::new(Version::new(4, 2, 2), Encoding::V41),
            buffer_type,
            limits: DecodeLimits::default(),
        }
    }

    #[test]
    fn field_is_that_of_the_c_library() {
        let codec = codec(BufferType::NonDescribed);
        let pids = [1, 2, 300].map(Value::Pid);
        let bytes = codec.encode_field(dt::PMIX_PID, &pids).unwrap();
        // Recorded from `PMIx_Data_pack` of 4.2.2.
        assert_eq!(bytes, [0x06, 0x0e, 0x01, 0x02, 0xac, 0x02]);
        let numbers = [5, 4_000_000_000].map(Value::Uint);
        let bytes = codec.encode_field(dt::PMIX_UINT, &numbers).unwrap();
        assert_eq!(bytes, [0x04, 0x0a, 0xff, 0xdf, 0xa6, 0x99, 0x02]);
        let field = codec.decode_field(dt::PMIX_UINT, 5, &bytes).unwrap();
        assert_eq!(field.values, numbers);
        let pointers = [Value::Pointer, Value::Pointer, Value::Pointer];
        let bytes = codec.encode_field(dt::PMIX_POINTER, &pointers).unwrap();
        assert_eq!(bytes, [0x06, 0x01]);
        let field = codec.decode_field(dt::PMIX_POINTER, 5, &bytes).unwrap();
        assert_eq!((field.values.as_slice(), field.len), (&pointers[..], 2));
    }

    #[test]
    fn members_are_fields_without_number() {
        let codec = codec(BufferType::NonDescribed);
        let pids = [1, 300].map(Value::Pid);
        let field = codec.encode_field(dt::PMIX_PID, &pids).unwrap();
        let members = codec.encode_members(dt::PMIX_PID, &pids).unwrap();
        assert_eq!(field.split_first(), Some((&4, members.as_slice())));
        let read = codec.decode_members(dt::PMIX_PID, 2, &members).unwrap();
        assert_eq!(
            (read.values.as_slice(), read.len),
            (&pids[..], members.len())
        );
        let past = codec.decode_members(dt::PMIX_PID, 3, &members);
        assert!(past.is_err(), "{past:?}");
    }

    #[test]
    fn fields_follow_each_other_in_both_buffer_types() {
        for buffer_type in [BufferType::NonDescribed, BufferType::Described] {
            let codec = codec(buffer_type);
            let texts = ["a", "bc"].map(Value::string);
            let mut bytes = codec.encode_field(dt::PMIX_STRING, &texts).unwrap();
            let second = codec.encode_field(dt::PMIX_INT, &[Value::Int(-3)]).unwrap();
            bytes.extend(&second);
            let field = codec.decode_field(dt::PMIX_STRING, 9, &bytes).unwrap();
            assert_eq!((field.values.as_slice(), field.count), (&texts[..], 2));
            assert_eq!(bytes.split_at(field.len).1, second);
            let one = codec.decode_field(dt::PMIX_STRING, 1, &bytes).unwrap();
            assert_eq!((one.values.len(), one.count), (1, 2));
        }
    }
}

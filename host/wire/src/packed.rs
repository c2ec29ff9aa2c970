//! Packed fields: a count and as many values of one type. In described buffers the type is written
//! too.
use crate::{BufferType, Quoted, WireError, reader::MessageReader, writer::MessageWriter};
use peal_model::{
    Bytes, DataType, IofChannel, Key, Nspace, Persistence, Proc, ProcState, Range, Rank, Scope,
    Status, Text, data_type as dt,
};
use std::{fmt, str::FromStr};

/// A value of a packed field.
pub(crate) trait Packed: Sized {
    /// Type in a described buffer.
    const TYPE: DataType;

    /// Reads a value, without count and type.
    fn unpack(r: &mut MessageReader<'_>) -> Result<Self, WireError>;

    /// Writes a value, without count and type.
    fn pack(&self, w: &mut MessageWriter<'_>) -> Result<(), WireError>;
}

impl<'a> MessageReader<'a> {
    /// Reads a field of exactly one value.
    pub(crate) fn one<T: Packed>(&mut self) -> Result<T, WireError> {
        self.header(T::TYPE, 1)?;
        T::unpack(self)
    }

    /// Reads a field of one value, unless the payload has ended.
    pub(crate) fn one_or_end<T: Packed>(&mut self) -> Result<Option<T>, WireError> {
        if self.is_empty() {
            Ok(None)
        } else {
            self.one().map(Some)
        }
    }

    /// Reads a field with a number and, unless it is zero, a field of as many values.
    pub(crate) fn counted<T: Packed>(&mut self) -> Result<Vec<T>, WireError> {
        let count: u64 = self.one()?;
        if count == 0 {
            // `libpmix` leaves the field of values out if there are none.
            return Ok(Vec::new());
        }
        self.header(T::TYPE, count)?;
        self.list("field", count, T::unpack)
    }

    /// Reads a field with a number and as many fields of one value each.
    pub(crate) fn counted_singly<T: Packed>(&mut self) -> Result<Vec<T>, WireError> {
        let count: u64 = self.one()?;
        self.list("fields", count, MessageReader::one)
    }

    /// Reads fields of one value each, up to the end of the payload.
    pub(crate) fn until_end<T: Packed>(&mut self) -> Result<Vec<T>, WireError> {
        self.list_until_end("fields", MessageReader::one)
    }

    /// Reads a byte object that holds packed fields.
    pub(crate) fn nested<T>(
        &mut self,
        part: &'static str,
        read: impl FnOnce(&mut MessageReader<'a>) -> Result<T, WireError>,
    ) -> Result<T, WireError> {
        self.header(dt::PMIX_BYTE_OBJECT, 1)?;
        let bytes = self.byte_object(part)?;
        self.within(part, bytes, self.buffer_type(), read)
    }

    /// Reads the count of a field, which must be `expected_count`, and the type in a described
    /// buffer.
    pub(crate) fn header(
        &mut self,
        expected: DataType,
        expected_count: u64,
    ) -> Result<(), WireError> {
        let count = self.open_header(expected)?;
        // A negative count equals no expected number, so it is refused here, too.
        if u64::try_from(count) != Ok(expected_count) {
            return Err(WireError::Count {
                data_type: expected,
                count,
                expected: expected_count,
            });
        }
        Ok(())
    }

    /// Reads the count of a field, whatever it is, and the type in a described buffer.
    pub(crate) fn open_header(&mut self, expected: DataType) -> Result<i32, WireError> {
        self.described(dt::PMIX_INT32)?;
        let count = self.signed("count of a field")?;
        self.described(expected)?;
        Ok(count)
    }

    fn described(&mut self, expected: DataType) -> Result<(), WireError> {
        if self.buffer_type() == BufferType::NonDescribed {
            return Ok(());
        }
        let found = self.type_code()?;
        if found == expected {
            Ok(())
        } else {
            Err(WireError::TypeMismatch { found, expected })
        }
    }
}

impl<'a> MessageWriter<'a> {
    /// Writes a field of one value.
    pub(crate) fn one<T: Packed>(&mut self, value: &T) -> Result<(), WireError> {
        self.header(T::TYPE, 1);
        value.pack(self)
    }

    /// Writes a field with the number of values and, if there are any, a field of all of them.
    pub(crate) fn counted<T: Packed>(&mut self, values: &[T]) -> Result<(), WireError> {
        self.one(&(values.len() as u64))?;
        if values.is_empty() {
            return Ok(());
        }
        let count = self.count("field", values.len())?;
        self.header(T::TYPE, count);
        values.iter().try_for_each(|value| value.pack(self))
    }

    /// Writes a field with the number of values and as many fields of one value each.
    pub(crate) fn counted_singly<T: Packed>(&mut self, values: &[T]) -> Result<(), WireError> {
        self.one(&(values.len() as u64))?;
        self.each(values)
    }

    /// Writes a field of one value for each value.
    pub(crate) fn each<T: Packed>(&mut self, values: &[T]) -> Result<(), WireError> {
        self.count("fields", values.len())?;
        values.iter().try_for_each(|value| self.one(value))
    }

    /// Writes a byte object that holds packed fields.
    pub(crate) fn nested(
        &mut self,
        write: impl FnOnce(&mut MessageWriter<'a>) -> Result<(), WireError>,
    ) -> Result<(), WireError> {
        let bytes = self.apart(write)?;
        self.header(dt::PMIX_BYTE_OBJECT, 1);
        self.byte_object(&bytes);
        Ok(())
    }

    /// Writes the count of a field and, in a described buffer, its type.
    pub(crate) fn header(&mut self, data_type: DataType, count: i32) {
        let described = self.codec().buffer_type == BufferType::Described;
        if described {
            self.type_code(dt::PMIX_INT32);
        }
        self.signed(count);
        if described {
            self.type_code(data_type);
        }
    }
}

/// Implements [`Packed`] for types that one call of the reader or writer handles.
macro_rules! packed {
    ($($type:ty = $code:expr, |$r:ident| $read:expr, |$value:ident, $w:ident| $write:expr;)+) => {
        $(impl Packed for $type {
            const TYPE: DataType = $code;
            fn unpack($r: &mut MessageReader<'_>) -> Result<Self, WireError> {
                $read
            }
            fn pack(&self, $w: &mut MessageWriter<'_>) -> Result<(), WireError> {
                let $value = self;
                $write;
                Ok(())
            }
        })+
    };
}
pub(crate) use packed;

/// Number of a command, known or not.
pub(crate) struct CommandNumber(pub u8);

/// Directive of an allocation request.
pub(crate) struct AllocDirective(pub u8);

/// Directive of a resource block request.
pub(crate) struct ResourceBlockDirective(pub u8);

/// Time in seconds since the epoch.
pub(crate) struct PackedTime(pub u64);

/// Text form of a set of processing units.
pub(crate) struct Cpuset(pub Option<Text>);

packed! {
    bool = dt::PMIX_BOOL, |r| Ok(r.byte("boolean")? != 0), |v, w| w.byte(u8::from(*v));
    u32 = dt::PMIX_UINT32, |r| r.unsigned("PMIX_UINT32"), |v, w| w.unsigned(*v);
    u64 = dt::PMIX_SIZE, |r| r.unsigned("PMIX_SIZE"), |v, w| w.unsigned(*v);
    f32 = dt::PMIX_FLOAT, |r| decimal(r), |v, w| put_decimal(w, *v)?;
    f64 = dt::PMIX_DOUBLE, |r| decimal(r), |v, w| put_decimal(w, *v)?;
    PackedTime = dt::PMIX_TIME, |r| r.unsigned("PMIX_TIME").map(PackedTime), |v, w| w.unsigned(v.0);
    Status = dt::PMIX_STATUS, |r| r.signed("status").map(Status), |v, w| w.signed(v.0);
    Rank = dt::PMIX_PROC_RANK, |r| r.unsigned("rank").map(Rank), |v, w| w.unsigned(v.0);
    CommandNumber = dt::PMIX_COMMAND, |r| r.byte("command").map(CommandNumber), |v, w| w.byte(v.0);
    AllocDirective = dt::PMIX_ALLOC_DIRECTIVE, |r| r.byte("directive").map(AllocDirective), |v, w| w.byte(v.0);
    ResourceBlockDirective = dt::PMIX_RESBLOCK_DIRECTIVE,
        |r| r.byte("directive").map(ResourceBlockDirective), |v, w| w.byte(v.0);
    Scope = dt::PMIX_SCOPE, |r| Ok(Scope::try_from(r.byte("scope")?)?), |v, w| w.byte(v.number());
    Range = dt::PMIX_DATA_RANGE, |r| Ok(Range::try_from(r.byte("range")?)?), |v, w| w.byte(v.number());
    Persistence = dt::PMIX_PERSIST,
        |r| Ok(Persistence::try_from(r.byte("persistence")?)?), |v, w| w.byte(v.number());
    ProcState = dt::PMIX_PROC_STATE, |r| r.byte("proc state").map(ProcState), |v, w| w.byte(v.0);
    IofChannel = dt::PMIX_IOF_CHANNEL, |r| r.unsigned("channels").map(IofChannel), |v, w| w.unsigned(v.0);
    DataType = dt::PMIX_DATA_TYPE, |r| r.type_code(), |v, w| w.type_code(*v);
    Bytes = dt::PMIX_BYTE_OBJECT,
        |r| r.byte_object("byte object").map(Bytes::from), |v, w| w.byte_object(v.as_slice());
    Option<Text> = dt::PMIX_STRING,
        |r| Ok(r.string("string")?.map(Text::from)),
        |v, w| w.string("string", v.as_ref().map(Text::as_bytes))?;
    Cpuset = dt::PMIX_PROC_CPUSET, |r| Packed::unpack(r).map(Cpuset), |v, w| v.0.pack(w)?;
    Option<Nspace> = dt::PMIX_STRING,
        |r| r.string("namespace")?.map(|name| r.nspace(name)).transpose(),
        |v, w| w.string("namespace", v.as_ref().map(|nspace| nspace.as_str().as_bytes()))?;
    Nspace = dt::PMIX_STRING,
        |r| Ok(Option::unpack(r)?.unwrap_or_default()),
        |v, w| w.string("namespace", Some(v.as_str().as_bytes()))?;
    Key = dt::PMIX_STRING,
        |r| Ok(Key::new(utf8("key", r.string("key")?.unwrap_or_default().to_bytes())?)?),
        |v, w| w.string("key", Some(v.as_bytes()))?;
    Proc = dt::PMIX_PROC,
        |r| Ok(Proc::new(Packed::unpack(r)?, Packed::unpack(r)?)),
        |v, w| { v.nspace.pack(w)?; v.rank.pack(w)? };
}

/// Returns bytes as text. Returns an error if they are not UTF-8.
pub(crate) fn utf8<'a>(part: &'static str, bytes: &'a [u8]) -> Result<&'a str, WireError> {
    let not_utf8 = |_| WireError::NotUtf8 {
        part,
        text: Quoted::new(bytes),
    };
    std::str::from_utf8(bytes).map_err(not_utf8)
}

/// Reads a floating-point number, which is sent as decimal text.
fn decimal<T: FromStr>(r: &mut MessageReader<'_>) -> Result<T, WireError> {
    let bytes = r.string("decimal number")?.unwrap_or_default().to_bytes();
    let number = std::str::from_utf8(bytes)
        .ok()
        // Releases write different numbers of digits, so any decimal text is accepted.
        .and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| WireError::NotANumber {
        text: Quoted::new(bytes),
    })
}

/// Writes a floating-point number as C's `%f` if six decimals are exact, otherwise with as many
/// digits as needed.
fn put_decimal<T: fmt::Display + FromStr + PartialEq>(
    w: &mut MessageWriter<'_>,
    number: T,
) -> Result<(), WireError> {
    // `libpmix` packs numbers with six decimals, which loses digits of small ones.
    let short = format!("{number:.6}");
    let text = if short.parse().is_ok_and(|again: T| again == number) {
        short
    } else {
        number.to_string()
    };
    w.string("decimal number", Some(text.as_bytes()))
}

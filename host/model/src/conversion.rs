//! Conversion of values to the types that directives should have. Senders differ in the types that
//! they use, and OpenPMIx converts (`PMIX_VALUE_GET_NUMBER`, `PMIX_INFO_TRUE`). All directives are
//! read by these functions, so that all are converted alike.
use crate::{Persistence, Range, Rank, Status, Value};

impl Value {
    /// Returns the truth of a directive (`PMIX_INFO_TRUE`); `None` if the value means neither yes
    /// nor no.
    ///
    /// A key without a value means yes, and so does an empty string. A string may be a number, or
    /// begin with yes, true, no or false. Any number but zero means yes.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Undef | Value::String(None) => Some(true),
            Value::Bool(truth) => Some(*truth),
            Value::String(Some(text)) => truth_of(text.as_str()?),
            number => number.integer().map(|number| number != 0),
        }
    }

    /// Returns the value of any numeric type (`PMIX_VALUE_GET_NUMBER`), or a boolean as 0 or 1.
    /// `None` if it is negative or too large.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Value::Bool(truth) => Some(u64::from(*truth)),
            number => u64::try_from(number.integer()?).ok(),
        }
    }

    /// Returns the value as [`Value::as_u64`] does, if it fits into 32 bits.
    pub fn as_u32(&self) -> Option<u32> {
        u32::try_from(self.as_u64()?).ok()
    }

    /// Returns a status, or a number as a status.
    pub fn as_status(&self) -> Option<Status> {
        i32::try_from(self.integer()?).ok().map(Status)
    }

    /// Returns a rank, or a number as a rank.
    pub fn as_rank(&self) -> Option<Rank> {
        u32::try_from(self.integer()?).ok().map(Rank)
    }

    /// Returns a range, or the range with a number.
    pub fn as_range(&self) -> Option<Range> {
        match self {
            Value::Range(range) => Some(*range),
            number => Range::try_from(u8::try_from(number.integer()?).ok()?).ok(),
        }
    }

    /// Returns a persistence, or the persistence with a number.
    pub fn as_persistence(&self) -> Option<Persistence> {
        match self {
            Value::Persistence(persistence) => Some(*persistence),
            number => Persistence::try_from(u8::try_from(number.integer()?).ok()?).ok(),
        }
    }

    /// Returns the value of a numeric type. Fractions are cut, as by a cast in C. A boolean counts
    /// as a number here, but not as a status, rank, range or persistence.
    fn integer(&self) -> Option<i128> {
        // 128 bits hold every number of 64 bits, with and without a sign.
        match self {
            Value::Byte(n) | Value::Uint8(n) => Some(i128::from(*n)),
            Value::Uint16(n) => Some(i128::from(*n)),
            Value::Uint(n) | Value::Uint32(n) | Value::Pid(n) | Value::Rank(Rank(n)) => {
                Some(i128::from(*n))
            }
            Value::Size(n) | Value::Uint64(n) | Value::Time(n) => Some(i128::from(*n)),
            Value::Int(n) | Value::Int32(n) | Value::Status(Status(n)) => Some(i128::from(*n)),
            Value::Int8(n) => Some(i128::from(*n)),
            Value::Int16(n) => Some(i128::from(*n)),
            Value::Int64(n) => Some(i128::from(*n)),
            Value::Float(n) => whole(f64::from(*n)),
            Value::Double(n) => whole(*n),
            _ => None,
        }
    }
}

/// Returns the integral part of a number that is finite.
#[allow(
    clippy::cast_possible_truncation,
    reason = "what is behind the point is meant to go, and the bounds are checked"
)]
fn whole(number: f64) -> Option<i128> {
    // 1e30 is below 2^127, so the cast never saturates.
    (number.is_finite() && number.abs() < 1e30).then_some(number as i128)
}

/// Returns the truth of a text, by the words of `PMIx_Value_true`.
fn truth_of(text: &str) -> Option<bool> {
    let text = text.trim_start().to_ascii_lowercase();
    let begins = |words: &[&str]| words.iter().any(|word| text.starts_with(word));
    if text.is_empty() || begins(&["yes", "true", "enable"]) || ["y", "t"].contains(&&*text) {
        return Some(true);
    }
    if begins(&["no", "false", "disable"]) || ["n", "f"].contains(&&*text) {
        return Some(false);
    }
    // Only zero means no, so the digits are not converted and may be any number. A sign is no
    // digit: `-1` means neither yes nor no.
    let digits = text.bytes().take_while(u8::is_ascii_digit);
    begins(&["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"])
        .then(|| digits.into_iter().any(|digit| digit != b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nspace;

    #[test]
    fn number_of_any_numeric_type_is_converted() {
        for value in [
            Value::Bool(true),
            Value::Byte(1),
            Value::Int(1),
            Value::Int8(1),
            Value::Int64(1),
            Value::Uint16(1),
            Value::Uint64(1),
            Value::Size(1),
            Value::Pid(1),
            Value::Rank(Rank(1)),
            Value::Status(Status(1)),
            Value::Float(1.9),
            Value::Double(1.0),
        ] {
            assert_eq!(
                (value.as_u32(), value.as_u64(), value.as_bool()),
                (Some(1), Some(1), Some(true)),
                "{value:?}"
            );
        }
        assert_eq!(Value::Int(-3001).as_status(), Some(Status(-3001)));
        assert_eq!(Value::Int(2).as_rank(), Some(Rank(2)));
        assert_eq!(
            Value::Uint32(u32::from(Range::Session.number())).as_range(),
            Some(Range::Session)
        );
        assert_eq!(
            Value::Int(i32::from(Persistence::Proc.number())).as_persistence(),
            Some(Persistence::Proc)
        );
    }

    #[test]
    fn number_out_of_range_is_none() {
        let large = Value::Uint64(u64::MAX);
        assert_eq!(
            (large.as_u64(), large.as_u32(), large.as_status()),
            (Some(u64::MAX), None, None)
        );
        for value in [
            Value::Int(-1),
            Value::Double(-1.5),
            Value::Float(f32::NAN),
            Value::Double(f64::INFINITY),
        ] {
            assert_eq!(
                (value.as_u64(), value.as_u32(), value.as_range()),
                (None, None, None),
                "{value:?}"
            );
        }
        let nspace = Value::Nspace(Nspace::new("1").unwrap());
        for value in [Value::string("1"), nspace, Value::Pointer, Value::Undef] {
            assert_eq!(
                (value.as_u64(), value.as_status()),
                (None, None),
                "{value:?}"
            );
        }
        assert_eq!(Value::Int(200).as_range(), None);
        let truth = Value::Bool(true);
        assert_eq!(
            (truth.as_range(), truth.as_status(), truth.as_rank()),
            (None, None, None)
        );
    }

    #[test]
    fn truth_is_read_as_openpmix_does() {
        for (text, truth) in [
            ("", Some(true)),
            (" yes, please", Some(true)),
            ("TRUE", Some(true)),
            ("t", Some(true)),
            ("10", Some(true)),
            ("0", Some(false)),
            ("00", Some(false)),
            ("No", Some(false)),
            ("f", Some(false)),
            ("maybe", None),
            ("-1", None),
        ] {
            assert_eq!(Value::string(text).as_bool(), truth, "{text:?}");
        }
        assert_eq!(
            [Value::Undef.as_bool(), Value::String(None).as_bool()],
            [Some(true); 2]
        );
        assert_eq!(
            [Value::Int(0).as_bool(), Value::Pointer.as_bool()],
            [Some(false), None]
        );
    }
}

//! Written form of the Standard's values on the command line and in files: codes, ranges, procs,
//! infos. Errors suggest the nearest name.
mod targets;
mod written;

pub use targets::{TargetKeywords, targets};
pub use written::{hex, info_text, proc_text, range_text, status_text, value_text};

use crate::nearest::nearest;
use peal_model::{
    DataArray, DataType, Info, Key, Nspace, Proc, Range, Rank, Status, Value, data_type,
    names::{ATTRIBUTES, Attribute, STATUS_ALIASES},
    rank,
};
use std::fmt::Display;

/// Parses a status, by its name in the Standard or by number.
pub fn status(text: &str) -> Result<Status, String> {
    Status::from_name(text).ok_or_else(|| {
        let hint = suggestion(text, STATUS_ALIASES.iter().map(|entry| entry.0));
        format!(
            "the Standard has no such code{}",
            hint.unwrap_or_else(|| ": give its name or number".to_owned())
        )
    })
}

const RANGES: [(&str, Range); 7] = [
    ("rm", Range::Rm),
    ("local", Range::Local),
    ("namespace", Range::Namespace),
    ("session", Range::Session),
    ("global", Range::Global),
    ("custom", Range::Custom),
    ("proc-local", Range::ProcLocal),
];

/// Parses a range, by keyword or by its name in the Standard.
pub fn range(text: &str) -> Result<Range, String> {
    let found = RANGES
        .iter()
        .find(|(word, range)| *word == text || range.name() == text);
    found.map(|(_, range)| *range).ok_or_else(|| {
        let words = RANGES.map(|range| range.0);
        format!(
            "it should be one of {}{}",
            words.join(", "),
            suggestion(text, words).unwrap_or_default()
        )
    })
}

/// Parses the namespace of a job or server.
pub fn nspace(text: &str) -> Result<Nspace, String> {
    Nspace::of_job(text).map_err(|error| error.to_string())
}

/// Parses a proc, as in `solver:0`; `solver:*` means all procs of a job.
pub fn proc(text: &str) -> Result<Proc, String> {
    let wanted =
        || format!("{text:?} is no NSPACE:RANK, as in solver:0, or solver:* for all of a job");
    let (nspace, number) = text
        // At the last colon, since a namespace may contain colons.
        .rsplit_once(':')
        .filter(|(nspace, _)| !nspace.is_empty())
        .ok_or_else(wanted)?;
    let nspace = self::nspace(nspace)?;
    if number == "*" {
        return Ok(Proc::all(nspace));
    }
    let number = number.parse().map(Rank).ok().filter(|rank| rank.is_valid());
    Ok(Proc::new(nspace, number.ok_or_else(wanted)?))
}

/// Function that parses a value of a type.
type ValueReader = fn(&str) -> Result<Value, String>;

/// Parses a number or another type that is parsed as it is printed.
fn plain<T: std::str::FromStr<Err: Display>>(
    text: &str,
    value: fn(T) -> Value,
) -> Result<Value, String> {
    text.parse()
        .map(value)
        .map_err(|error: T::Err| error.to_string())
}

/// Types of values by the Standard's names in short form, and the types of C that mean the same.
const TYPES: [(&str, &[&str], ValueReader); 27] = [
    ("bool", &["bool"], |text| plain(text, Value::Bool)),
    ("string", &["char*"], |text| Ok(Value::string(text))),
    ("int", &["int"], |text| plain(text, Value::Int)),
    ("int8", &[], |text| plain(text, Value::Int8)),
    ("int16", &[], |text| plain(text, Value::Int16)),
    ("int32", &["int32_t"], |text| plain(text, Value::Int32)),
    ("int64", &[], |text| plain(text, Value::Int64)),
    ("uint", &[], |text| plain(text, Value::Uint)),
    ("uint8", &[], |text| plain(text, Value::Uint8)),
    ("uint16", &["uint16_t"], |text| plain(text, Value::Uint16)),
    ("uint32", &["uint32_t"], |text| plain(text, Value::Uint32)),
    ("uint64", &["uint64_t"], |text| plain(text, Value::Uint64)),
    ("size", &["size_t"], |text| plain(text, Value::Size)),
    ("pid", &["pid_t"], |text| plain(text, Value::Pid)),
    ("float", &["float"], |text| plain(text, Value::Float)),
    ("double", &["double"], |text| plain(text, Value::Double)),
    ("time", &["time_t"], |text| plain(text, Value::Time)),
    ("status", &["pmix_status_t"], |text| {
        status(text).map(Value::Status)
    }),
    ("proc", &["pmix_proc_t*"], |text| {
        proc(text).map(Value::Proc)
    }),
    ("procs", &[], |text| {
        let procs: Result<Vec<Proc>, String> = text.split(',').map(proc).collect();
        procs.map(|procs| Value::DataArray(DataArray::procs(procs)))
    }),
    ("rank", &["pmix_rank_t"], |text| match text {
        "*" => Ok(Value::Rank(rank::PMIX_RANK_WILDCARD)),
        number => plain(number, |number| Value::Rank(Rank(number))),
    }),
    ("range", &["pmix_data_range_t"], |text| {
        range(text).map(Value::Range)
    }),
    ("byte", &[], |text| plain(text, Value::Byte)),
    ("nspace", &[], |text| nspace(text).map(Value::Nspace)),
    ("bytes", &[], |text| {
        bytes(text).map(|bytes| Value::ByteObject(bytes.into()))
    }),
    ("timeval", &[], timeval),
    ("undef", &[], |text| match text {
        "" => Ok(Value::Undef),
        _ => Err("there should be nothing behind the `=`".to_owned()),
    }),
];

/// Attributes that are lists of procs: the only arrays among the attributes of events.
const PROC_LISTS: [&str; 2] = ["PMIX_EVENT_AFFECTED_PROCS", "PMIX_EVENT_CUSTOM_RANGE"];

/// Parses an info: `KEY=VALUE`, or `KEY:TYPE=VALUE` with an explicit type. Keys of the Standard may
/// be given by name, and have the types of the Standard by default. For other keys, `true` is a
/// boolean and `5` a number.
pub fn info(text: &str) -> Result<Info, String> {
    let wanted = || {
        "it should be KEY=VALUE, as in site.load=5, or KEY:TYPE=VALUE as in site.load:uint64=5"
            .to_owned()
    };
    let (left, value) = text
        // At the first equals sign, since values may contain more.
        .split_once('=')
        .filter(|(left, _)| !left.is_empty())
        .ok_or_else(wanted)?;
    // At the last colon, since keys may contain colons.
    let (name, read) = match left.rsplit_once(':') {
        None => (left, None),
        Some((name, of)) => (name, Some(reader(of)?)),
    };
    let key = self::key(name)?;
    let attribute = attribute(name)?;
    // A type alone, as in `:int=5`, is no key.
    if key.as_str().is_empty() {
        return Err(wanted());
    }
    let read = read
        .or_else(|| attribute.and_then(usual))
        .unwrap_or(guessed);
    let value =
        read(value).map_err(|error| format!("{value:?} is no value for {name}: {error}"))?;
    Ok(Info::new(key, value))
}

/// Returns the parser of a type.
fn reader(of: &str) -> Result<ValueReader, String> {
    let read = TYPES.iter().find(|row| row.0 == of).map(|row| row.2);
    read.ok_or_else(|| {
        format!(
            "{of:?} is no type; these can be given: {}",
            TYPES.map(|row| row.0).join(", ")
        )
    })
}

/// Parses a value of a type, such as `uint64`.
pub fn value(of: &str, text: &str) -> Result<Value, String> {
    reader(of)?(text).map_err(|error| format!("{text:?} is no {of}: {error}"))
}

/// Returns the data type of this keyword.
pub fn data_type(of: &str) -> Result<DataType, String> {
    // Every type parses one of these texts.
    const SAMPLES: [&str; 6] = ["0", "true", "a:0", "rm", "0.000000", ""];
    if of == ARRAYS {
        return Ok(data_type::PMIX_DATA_ARRAY);
    }
    let read = reader(of)?;
    let sample = SAMPLES.into_iter().find_map(|text| read(text).ok());
    sample
        .map(|value| value.data_type())
        .ok_or_else(|| format!("there are no arrays of {of}"))
}

/// Returns the keyword of a data type; `None` if it has none.
pub fn type_word(of: DataType) -> Option<&'static str> {
    TYPES
        .iter()
        .map(|row| row.0)
        // This keyword means an array of procs, and not any array.
        .find(|word| *word != "procs" && data_type(word) == Ok(of))
}

/// Keyword of the type of arrays, for arrays of arrays.
const ARRAYS: &str = "array";

/// Parses a value by the default type of its key.
pub fn usual_value(key: &str, text: &str) -> Result<Value, String> {
    let read = attribute(key)?.and_then(usual).unwrap_or(guessed);
    read(text).map_err(|error| format!("{text:?} is no value for {key}: {error}"))
}

/// Parses a key, by its name in the Standard or unchanged.
pub fn key(name: &str) -> Result<Key, String> {
    Key::new(attribute(name)?.map_or(name, |attribute| attribute.key))
        .map_err(|error| error.to_string())
}

/// Parses bytes in hexadecimal digits, as in `00ff`.
pub fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| {
            digit
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok())
        })
        .collect();
    let pair = |pair: &[u8]| {
        if let [high, low] = pair {
            Some(high << 4 | low)
        } else {
            None
        }
    };
    // An odd number of digits leaves a chunk of one, which is no byte.
    let bytes = digits.and_then(|digits| digits.chunks(2).map(pair).collect());
    bytes.ok_or_else(|| "it should be two hexadecimal digits for each byte, as in 00ff".to_owned())
}

/// Parses seconds and microseconds, as in `5.000001`.
fn timeval(text: &str) -> Result<Value, String> {
    let wanted =
        || "it should be seconds and six digits of microseconds, as in 5.000001".to_owned();
    let (seconds, microseconds) = text
        .split_once('.')
        .filter(|(_, digits)| {
            digits.len() == 6 && digits.bytes().all(|digit| digit.is_ascii_digit())
        })
        .ok_or_else(wanted)?;
    let number = |text: &str| text.parse::<i64>().map_err(|_| wanted());
    Ok(Value::Timeval {
        seconds: number(seconds)?,
        microseconds: number(microseconds)?,
    })
}

/// Returns the attribute of this name or key; `None` for a key that is not of the Standard.
fn attribute(name: &str) -> Result<Option<&'static Attribute>, String> {
    let found = ATTRIBUTES
        .iter()
        .find(|attribute| attribute.name == name || attribute.key == name);
    // An unknown name of this form is taken as misspelt, and not as a key of a site.
    if found.is_none() && name.starts_with("PMIX_") {
        let hint = suggestion(name, ATTRIBUTES.iter().map(|attribute| attribute.name));
        return Err(format!(
            "the Standard has no attribute {name}{}",
            hint.unwrap_or_default()
        ));
    }
    Ok(found)
}

/// Returns the parser of an attribute's values.
fn usual(attribute: &Attribute) -> Option<ValueReader> {
    let by_word = |word: &str| TYPES.iter().find(|row| row.0 == word);
    // The type in C is that of any array, and does not say that the elements are procs.
    let row = if PROC_LISTS.contains(&attribute.name) {
        by_word("procs")
    } else {
        TYPES.iter().find(|row| row.1.contains(&attribute.c_type))
    };
    row.map(|row| row.2)
}

/// Parses a value by its form.
fn guessed(text: &str) -> Result<Value, String> {
    let number = text
        .parse()
        // Only the unsigned type holds the numbers above the range of the other one.
        .map(Value::Int64)
        .or_else(|_| text.parse().map(Value::Uint64));
    let value = text.parse().map(Value::Bool).ok().or(number.ok());
    Ok(value.unwrap_or_else(|| Value::string(text)))
}

fn suggestion<'a>(text: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(text, names).map(|near| format!("; did you mean `{near}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{code, key};

    #[test]
    fn standard_names_are_read_and_near_misses_get_suggestions() {
        assert_eq!(
            status("PMIX_ERR_PROC_ABORTED"),
            Ok(code::PMIX_ERR_PROC_ABORTED)
        );
        assert_eq!(status("-3001"), Ok(Status(-3001)));
        assert!(
            status("PMIX_ERR_PROC_ABORTD")
                .unwrap_err()
                .ends_with("did you mean `PMIX_ERR_PROC_ABORTED`?")
        );
        assert!(
            status("trouble")
                .unwrap_err()
                .contains("give its name or number")
        );
        assert_eq!(
            (range("session"), range("PMIX_RANGE_RM")),
            (Ok(Range::Session), Ok(Range::Rm))
        );
        assert!(
            range("sesion")
                .unwrap_err()
                .ends_with("did you mean `session`?")
        );
        assert_eq!(
            proc("a:b:3").map(|proc| proc.to_string()),
            Ok("a:b:3".to_owned())
        );
        assert_eq!(
            proc("a:*").map(|proc| proc.rank),
            Ok(rank::PMIX_RANK_WILDCARD)
        );
        for wrong in ["a", ":1", "a:", "a:x", "a:-1", "a:4294967295"] {
            assert!(proc(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn timeval_has_six_digits_of_microseconds() {
        let read = |text: &str| value("timeval", text);
        let timeval = |seconds, microseconds| Value::Timeval {
            seconds,
            microseconds,
        };
        assert_eq!(read("5.000001"), Ok(timeval(5, 1)));
        assert_eq!(read("-5.123456"), Ok(timeval(-5, 123_456)));
        for wrong in ["5", "5.", "5.1", "5.1234567", "5.-00001", "5.+00001"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert_eq!(value_text(&timeval(5, 1_234_567)), None);
    }

    #[test]
    fn info_type_is_given_or_standard_or_guessed_from_value() {
        let value = |text: &str| info(text).unwrap().value;
        assert_eq!(
            [value("a=true"), value("a=5"), value("a=-5")],
            [Value::Bool(true), Value::Int64(5), Value::Int64(-5)]
        );
        assert_eq!(
            [value("a=5x"), value("a=")],
            [Value::string("5x"), Value::string("")]
        );
        assert_eq!(
            [value("n:uint64=5"), value("t:string=5")],
            [Value::Uint64(5), Value::string("5")]
        );
        assert_eq!(value("a=b=c"), Value::string("b=c"));
        let flag = info("PMIX_EVENT_NON_DEFAULT=true").unwrap();
        assert_eq!(
            (flag.key == key::PMIX_EVENT_NON_DEFAULT, flag.value),
            (true, Value::Bool(true))
        );
        assert_eq!(
            value("PMIX_EVENT_TEXT_MESSAGE=5"),
            Value::string("5"),
            "a text by the Standard"
        );
        assert_eq!(
            value("PMIX_EVENT_AFFECTED_PROC=a:0"),
            value("pmix.evproc:proc=a:0")
        );
        assert_eq!(
            value("PMIX_EVENT_AFFECTED_PROCS=a:0,b:*"),
            value("x:procs=a:0,b:*")
        );
        for (text, says) in [
            ("a", "it should be KEY=VALUE"),
            ("=5", "it should be KEY=VALUE"),
            (":int=5", "it should be KEY=VALUE"),
            ("a:uint8=256", "\"256\" is no value for a: number too large"),
            (
                "a:colour=red",
                "\"colour\" is no type; these can be given: bool, string",
            ),
            (
                "PMIX_EVENT_NON_DEFALT=true",
                "did you mean `PMIX_EVENT_NON_DEFAULT`?",
            ),
            (
                "PMIX_EVENT_NON_DEFAULT=5",
                "\"5\" is no value for PMIX_EVENT_NON_DEFAULT",
            ),
        ] {
            let error = info(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}

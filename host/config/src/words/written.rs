//! Written form of values and infos, the inverse of the parsers.
use super::{info, key};
use peal_model::{Info, InfoFlags, Proc, Range, Rank, Status, Value, rank};

/// Returns the type and the text of a value, as [`super::value`] parses them; `None` for arrays and
/// other values without such a form.
pub fn value_text(of: &Value) -> Option<(&'static str, String)> {
    let (word, text) = match of {
        Value::Undef => ("undef", String::new()),
        Value::Bool(truth) => ("bool", truth.to_string()),
        Value::String(text) => ("string", text.as_ref()?.as_str()?.to_owned()),
        Value::Byte(n) => ("byte", n.to_string()),
        Value::Int(n) => ("int", n.to_string()),
        Value::Int8(n) => ("int8", n.to_string()),
        Value::Int16(n) => ("int16", n.to_string()),
        Value::Int32(n) => ("int32", n.to_string()),
        Value::Int64(n) => ("int64", n.to_string()),
        Value::Uint(n) => ("uint", n.to_string()),
        Value::Uint8(n) => ("uint8", n.to_string()),
        Value::Uint16(n) => ("uint16", n.to_string()),
        Value::Uint32(n) => ("uint32", n.to_string()),
        Value::Uint64(n) => ("uint64", n.to_string()),
        Value::Size(n) => ("size", n.to_string()),
        Value::Pid(n) => ("pid", n.to_string()),
        Value::Float(n) => ("float", n.to_string()),
        Value::Double(n) => ("double", n.to_string()),
        Value::Time(n) => ("time", n.to_string()),
        // With leading zeros: `timeval` reads the digits as a number of microseconds.
        Value::Timeval {
            seconds,
            // A value of a C program may have any number here.
            microseconds: microseconds @ 0..1_000_000,
        } => ("timeval", format!("{seconds}.{microseconds:06}")),
        Value::Status(status) => ("status", status_text(*status)),
        Value::Proc(proc) => ("proc", proc_text(proc)?),
        Value::Rank(rank) => ("rank", rank_text(*rank)),
        Value::Range(range) => ("range", range_text(*range)?.to_owned()),
        Value::Nspace(nspace) => ("nspace", nspace.to_string()),
        Value::ByteObject(bytes) => ("bytes", hex(bytes.as_slice())),
        // Other types are not among those of `super::TYPES`.
        _ => return None,
    };
    Some((word, text))
}

/// Formats an info as [`info`] parses it, with its type only if needed; `None` if it has no such
/// form.
pub fn info_text(of: &Info) -> Option<String> {
    if of.flags != InfoFlags::NONE {
        return None;
    }
    let (word, text) = value_text(&of.value)?;
    let name = of
        .key
        .standard_name()
        .filter(|name| key(name).is_ok_and(|key| key == of.key));
    let name = name.unwrap_or(of.key.as_str());
    // A NaN does not equal itself, so texts are compared.
    let is_same = |read: &Info| {
        read.key == of.key && value_text(&read.value).as_ref() == Some(&(word, text.clone()))
    };
    let forms = [format!("{name}={text}"), format!("{name}:{word}={text}")];
    forms
        .into_iter()
        .find(|form| info(form).as_ref().is_ok_and(is_same))
}

/// Formats a status by its name, or by its number if it has none.
pub fn status_text(status: Status) -> String {
    status
        .name()
        .map_or_else(|| status.0.to_string(), str::to_owned)
}

/// Returns the keyword of a range.
pub fn range_text(range: Range) -> Option<&'static str> {
    super::RANGES
        .iter()
        .find(|row| row.1 == range)
        .map(|row| row.0)
}

/// Formats a proc as [`super::proc`] parses it; `None` for a special rank without a keyword.
pub fn proc_text(proc: &Proc) -> Option<String> {
    let text = format!("{}:{}", proc.nspace.as_str(), rank_text(proc.rank));
    // Parsed again, because a namespace may be no name of a job.
    super::proc(&text)
        .is_ok_and(|read| read == *proc)
        .then_some(text)
}

fn rank_text(of: Rank) -> String {
    if of == rank::PMIX_RANK_WILDCARD {
        "*".to_owned()
    } else {
        of.0.to_string()
    }
}

/// Formats bytes in hexadecimal digits, as [`super::bytes`] parses them.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::value, *};
    use peal_model::{Key, key as keys};

    #[test]
    fn written_infos_read_back_equal_with_types_only_as_needed() {
        for (written, again) in [
            ("site.load=5", "site.load=5"),
            ("site.load:int64=5", "site.load=5"),
            ("site.load:uint64=5", "site.load:uint64=5"),
            (
                "site.load=18446744073709551615",
                "site.load=18446744073709551615",
            ),
            ("site.text:string=5", "site.text:string=5"),
            ("site.ratio:double=NaN", "site.ratio:double=NaN"),
            ("site.ratio:float=-inf", "site.ratio:float=-inf"),
            ("site.blob:bytes=00FF", "site.blob:bytes=00ff"),
            ("site.at:timeval=-5.000001", "site.at:timeval=-5.000001"),
            ("site.none:undef=", "site.none:undef="),
            ("pmix.evproc=solver:*", "PMIX_EVENT_AFFECTED_PROC=solver:*"),
            ("site.a=b=c\n", "site.a=b=c\n"),
        ] {
            assert_eq!(
                info_text(&info(written).unwrap()).as_deref(),
                Some(again),
                "{written}"
            );
        }
        let odd = Info::new(Key::new("a=b").unwrap(), Value::Bool(true));
        assert_eq!(
            info_text(&odd),
            None,
            "its key cannot be told from its value"
        );
        let flagged = Info {
            flags: InfoFlags::REQUIRED,
            ..Info::new(keys::PMIX_EVENT_TEXT_MESSAGE, Value::string("x"))
        };
        assert_eq!(info_text(&flagged), None);
        assert!(
            value("bytes", "0")
                .unwrap_err()
                .contains("two hexadecimal digits")
        );
        assert!(value("colour", "red").unwrap_err().contains("no type"));
    }
}

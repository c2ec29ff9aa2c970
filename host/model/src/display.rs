//! Display of values and infos in messages: on one line, short, and without characters that move a
//! cursor.
use crate::{Info, Value};
use std::fmt::{self, Display, Formatter, Write};

/// Bound on the characters of a string that are shown.
const MAX_TEXT: usize = 256;
/// Bound on the elements of an array that are shown.
const MAX_ITEMS: usize = 16;
/// Depth from which arrays are only counted.
const MAX_DEPTH: usize = 3;

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        show(self, f, 0)
    }
}

impl Display for Info {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        show_info(self, f, 0)
    }
}

fn show_info(info: &Info, f: &mut Formatter<'_>, depth: usize) -> fmt::Result {
    write!(f, "{}=", info.key.as_str().escape_debug())?;
    show(&info.value, f, depth)
}

fn show(value: &Value, f: &mut Formatter<'_>, depth: usize) -> fmt::Result {
    match value {
        Value::Undef | Value::String(None) => f.write_str("nothing"),
        Value::Bool(truth) => truth.fmt(f),
        Value::String(Some(text)) => show_text(&text.to_string_lossy(), f),
        Value::Nspace(nspace) => show_text(nspace.as_str(), f),
        Value::Int(n) | Value::Int32(n) => n.fmt(f),
        Value::Int8(n) => n.fmt(f),
        Value::Int16(n) => n.fmt(f),
        Value::Int64(n) => n.fmt(f),
        Value::Float(n) => n.fmt(f),
        Value::Double(n) => n.fmt(f),
        Value::Timeval {
            seconds,
            microseconds,
        } => write!(f, "{seconds}.{microseconds:06}"),
        Value::Status(status) => status.fmt(f),
        Value::Proc(proc) => proc.fmt(f),
        Value::Rank(rank) => rank.fmt(f),
        Value::Range(range) => f.write_str(range.name()),
        Value::Persistence(persistence) => f.write_str(persistence.name()),
        Value::Scope(scope) => f.write_str(scope.name()),
        // An info has one value, so only arrays count as levels.
        Value::Info(info) => show_info(info, f, depth),
        Value::DataArray(array) if depth < MAX_DEPTH => {
            f.write_char('[')?;
            for (at, item) in array.items().iter().take(MAX_ITEMS).enumerate() {
                f.write_str(if at == 0 { "" } else { ", " })?;
                show(item, f, depth + 1)?;
            }
            let more = array.items().len().saturating_sub(MAX_ITEMS);
            if more > 0 {
                write!(f, ", and {more} more]")
            } else {
                f.write_char(']')
            }
        }
        // The length of a message grows with each level of arrays.
        Value::DataArray(array) => write!(f, "[{} of {}]", array.items().len(), array.element()),
        other => match other.as_u64() {
            Some(number) => number.fmt(f),
            None => write!(f, "a {}", other.data_type()),
        },
    }
}

fn show_text(text: &str, f: &mut Formatter<'_>) -> fmt::Result {
    f.write_char('"')?;
    let mut characters = text.chars();
    for character in characters.by_ref().take(MAX_TEXT) {
        match character {
            // `escape_debug` escapes single quotes, too, which cannot end the text here.
            '\'' => f.write_char(character)?,
            character => write!(f, "{}", character.escape_debug())?,
        }
    }
    f.write_str(if characters.next().is_some() {
        "...\""
    } else {
        "\""
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataArray, Key, Nspace, Proc, Range, Rank, code};

    #[test]
    fn value_is_shown_in_words() {
        let proc = Proc::new(Nspace::new("job").unwrap(), Rank(3));
        let info = |value| Info::new(Key::new("site.own").unwrap(), value);
        let array = DataArray::infos([info(Value::Bool(true)), info(Value::Int(-7))]);
        for (value, shown) in [
            (Value::string("it's\n\u{1b}[2J"), "\"it's\\n\\u{1b}[2J\""),
            (Value::String(None), "nothing"),
            (Value::Uint64(5), "5"),
            (Value::Double(0.5), "0.5"),
            (
                Value::Status(code::PMIX_ERR_TIMEOUT),
                "PMIX_ERR_TIMEOUT (-24)",
            ),
            (Value::Proc(proc.clone()), "job:3"),
            (Value::procs([proc]), "[job:3]"),
            (Value::Range(Range::Session), "PMIX_RANGE_SESSION"),
            (Value::DataArray(array), "[site.own=true, site.own=-7]"),
            (Value::Pointer, "a PMIX_POINTER (31)"),
        ] {
            assert_eq!(value.to_string(), shown);
        }
    }

    #[test]
    fn long_values_are_cut() {
        let text = Value::string(&"x".repeat(300)).to_string();
        assert_eq!(text, format!("\"{}...\"", "x".repeat(256)));
        let nested =
            |value| Value::DataArray(DataArray::infos([Info::new(Key::new("k").unwrap(), value)]));
        let deep = (0..6).fold(Value::Bool(true), |value, _| nested(value));
        assert_eq!(deep.to_string(), "[k=[k=[k=[1 of PMIX_INFO (24)]]]]");
        let many = Value::DataArray(DataArray::strings((0..20).map(|_| "a".into()))).to_string();
        assert!(many.ends_with("\"a\", and 4 more]"), "{many}");
    }
}

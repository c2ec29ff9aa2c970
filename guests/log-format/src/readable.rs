//! Values of all types as text.
use crate::shown;
use peal_sdk::{Info, Value};

/// Formats a value: byte objects in hexadecimal, arrays in brackets, infos in braces after their
/// keys. An opaque value is shown by its type.
pub fn readable(value: &Value) -> String {
    match value {
        Value::Undef => String::new(),
        Value::Boolean(truth) => truth.to_string(),
        Value::Text(text) | Value::Nspace(text) => text.clone(),
        Value::Float32(number) => number.to_string(),
        Value::Float64(number) => number.to_string(),
        Value::Timeval {
            seconds,
            microseconds,
        } => format!("{seconds}.{microseconds:06}"),
        Value::Time(seconds) => shown(*seconds),
        Value::Proc(proc) => proc.to_string(),
        Value::Range(range) => format!("{range:?}").to_lowercase().replace("range::", ""),
        Value::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        Value::Infos(infos) => format!("{{{}}}", joined(infos.iter().map(pair))),
        Value::Procs(procs) => format!("[{}]", joined(procs.iter().map(ToString::to_string))),
        Value::Values { items, .. } => format!("[{}]", joined(items.iter().map(readable))),
        Value::Other(opaque) => format!("(a value of type {})", opaque.data_type),
        // All that is left counts, and what counts up to 64 bits fits into one or the other.
        number => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => number.to_string(),
            (None, number) => number.map_or_else(String::new, |number| number.to_string()),
        },
    }
}

fn pair(info: &Info) -> String {
    format!("{}: {}", info.key, readable(&info.value))
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_sdk::{Proc, Range};

    #[test]
    fn values_of_all_kinds_are_read() {
        for (value, text) in [
            (Value::Undef, ""),
            (Value::from(true), "true"),
            (Value::from(u64::MAX), "18446744073709551615"),
            (Value::Size(7), "7"),
            (Value::from(-5i8), "-5"),
            (Value::Status(-25), "-25"),
            (Value::from(0.5), "0.5"),
            (
                Value::Timeval {
                    seconds: 1,
                    microseconds: 50,
                },
                "1.000050",
            ),
            (Value::Time(0), "1970-01-01T00:00:00Z"),
            (Value::from(Proc::new("a", 3)), "a:3"),
            (Value::from(Range::Namespace), "namespace"),
            (Value::from(vec![0u8, 255]), "00ff"),
            (
                Value::from(vec![Proc::new("a", 0), Proc::new("b", 1)]),
                "[a:0, b:1]",
            ),
            (
                Value::from(vec![Value::from(1i32), Value::from(2i32)]),
                "[1, 2]",
            ),
        ] {
            assert_eq!(readable(&value), text, "{value:?}");
        }
    }

    #[test]
    fn a_tree_is_read_in_a_line() {
        let inner = vec![
            Info::new("leaf", "x"),
            Info::new("list", vec![Value::from("y")]),
        ];
        assert_eq!(
            readable(&vec![Info::new("tree", inner)].into()),
            "{tree: {leaf: x, list: [y]}}"
        );
    }
}

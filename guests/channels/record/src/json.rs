//! Values as JSON, all of them readable by people.
use peal_log_format::{is_plain, json_line, readable};
use peal_sdk::{Info, Proc, Value};
use serde_json::{Value as Json, json};

/// Converts an info: its key, the type of its value as `--info` names it, and its value.
pub fn info(info: &Info) -> Json {
    json!({ "key": info.key, "type": type_name(&info.value), "value": value(&info.value) })
}

/// Converts a value. Numbers stay numbers, arrays and trees become arrays; types that JSON lacks
/// become text.
fn value(of: &Value) -> Json {
    match of {
        Value::Undef => Json::Null,
        Value::Boolean(truth) => json!(truth),
        Value::Float32(number) if number.is_finite() => json!(number),
        Value::Float64(number) if number.is_finite() => json!(number),
        Value::Proc(of) => proc(of),
        Value::Infos(infos) => infos.iter().map(info).collect(),
        Value::Procs(procs) => procs.iter().map(proc).collect(),
        Value::Values { items, .. } => items.iter().map(value).collect(),
        Value::Other(opaque) => json!({ "type": opaque.data_type }),
        Value::Time(_) => json!(readable(of)),
        number if number.as_i64().is_some() => json!(number.as_i64()),
        number if number.as_u64().is_some() => json!(number.as_u64()),
        other => json!(readable(other)),
    }
}

fn proc(Proc { nspace, rank }: &Proc) -> Json {
    json!({ "nspace": nspace, "rank": rank })
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Undef => "undef",
        Value::Boolean(_) => "bool",
        Value::Byte(_) => "byte",
        Value::Text(_) => "string",
        Value::Size(_) => "size",
        Value::Pid(_) => "pid",
        Value::Int(_) => "int",
        Value::Int8(_) => "int8",
        Value::Int16(_) => "int16",
        Value::Int32(_) => "int32",
        Value::Int64(_) => "int64",
        Value::Uint(_) => "uint",
        Value::Uint8(_) => "uint8",
        Value::Uint16(_) => "uint16",
        Value::Uint32(_) => "uint32",
        Value::Uint64(_) => "uint64",
        Value::Float32(_) => "float",
        Value::Float64(_) => "double",
        Value::Timeval { .. } => "timeval",
        Value::Time(_) => "time",
        Value::Status(_) => "status",
        Value::Proc(_) => "proc",
        Value::Nspace(_) => "nspace",
        Value::Rank(_) => "rank",
        Value::Range(_) => "range",
        Value::Bytes(_) => "bytes",
        Value::Infos(_) => "infos",
        Value::Procs(_) => "procs",
        Value::Values { .. } => "array",
        Value::Other(_) => "other",
    }
}

/// Formats on one line, in which control sequences of terminals are escaped.
pub fn line(of: &Json) -> String {
    json_line(&of.to_string(), |character| {
        is_plain(character) && character != '\u{feff}'
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_sdk::Range;

    #[test]
    fn values_of_all_kinds_are_read() {
        for (given, wanted) in [
            (Value::Undef, json!(["undef", null])),
            (true.into(), json!(["bool", true])),
            ("text".into(), json!(["string", "text"])),
            (u64::MAX.into(), json!(["uint64", u64::MAX])),
            (i64::MIN.into(), json!(["int64", i64::MIN])),
            (Value::Status(-25), json!(["status", -25])),
            (0.5.into(), json!(["double", 0.5])),
            (f64::NAN.into(), json!(["double", "NaN"])),
            (f32::INFINITY.into(), json!(["float", "inf"])),
            (Value::Time(0), json!(["time", "1970-01-01T00:00:00Z"])),
            (
                Value::Timeval {
                    seconds: 1,
                    microseconds: 5,
                },
                json!(["timeval", "1.000005"]),
            ),
            (Range::Local.into(), json!(["range", "local"])),
            (vec![0u8, 255].into(), json!(["bytes", "00ff"])),
            (
                Proc::new("a", 1).into(),
                json!(["proc", { "nspace": "a", "rank": 1 }]),
            ),
            (
                vec![Proc::new("a", 1)].into(),
                json!(["procs", [{ "nspace": "a", "rank": 1 }]]),
            ),
            (
                vec![Value::from(1i32), Value::from(2i32)].into(),
                json!(["array", [1, 2]]),
            ),
        ] {
            assert_eq!(
                json!([type_name(&given), value(&given)]),
                wanted,
                "{given:?}"
            );
        }
    }

    #[test]
    fn trees_stay_trees() {
        let tree = Info::new(
            "tree",
            vec![
                Info::new("leaf", "x"),
                Info::new("twig", vec![Info::new("leaf", 5u8)]),
            ],
        );
        let wanted = json!({ "key": "tree", "type": "infos", "value": [
            { "key": "leaf", "type": "string", "value": "x" },
            { "key": "twig", "type": "infos", "value": [{ "key": "leaf", "type": "uint8", "value": 5 }] },
        ] });
        assert_eq!(info(&tree), wanted);
    }

    #[test]
    fn a_line_is_one_and_controls_no_terminal() {
        let text = "\"}\n\u{1b}[2J\u{9b}\u{7f}\u{2028}\u{202e}\u{feff}\tgrün \u{1f600}";
        let line = line(&json!(text));
        assert!(
            line.trim_end_matches('\n')
                .chars()
                .all(|character| is_plain(character) && character != '\t'),
            "{line:?}"
        );
        assert_eq!(serde_json::from_str::<Json>(&line).unwrap(), json!(text));
    }
}

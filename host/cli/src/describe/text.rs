//! Descriptions for people: each part under its title, with one line for each field.
use super::DescribedPart;
use crate::plain;
use serde_json::{Map, Value};

/// Indentation of fields below their title.
const INDENT: usize = 2;

/// Formats the parts that have content.
pub(super) fn description(parts: &[DescribedPart]) -> String {
    let parts = parts.iter().filter(|part| !is_empty(&part.value));
    let texts: Vec<String> = parts
        .map(|part| {
            let mut text = String::new();
            field(part.title, &part.value, 0, part.title.len(), &mut text);
            text
        })
        .collect();
    texts.join("\n")
}

/// Returns true for what people need not see.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Writes a field with its fields below it.
fn field(name: &str, value: &Value, indent: usize, width: usize, text: &mut String) {
    if is_empty(value) {
        return;
    }
    let name = plain(name);
    match value {
        Value::Object(inner) => {
            *text += &format!("{:indent$}{name}\n", "");
            fields(inner, indent + INDENT, text);
        }
        Value::Array(items) if items.iter().any(is_nested) => {
            *text += &format!("{:indent$}{name}\n", "");
            items.iter().for_each(|of| item(of, indent + INDENT, text));
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(scalar).collect();
            *text += &format!("{:indent$}{name:width$}  {}\n", "", items.join(", "));
        }
        value => *text += &format!("{:indent$}{name:width$}  {}\n", "", scalar(value)),
    }
}

fn fields(of: &Map<String, Value>, indent: usize, text: &mut String) {
    let shown = of.iter().filter(|(_, value)| !is_empty(value));
    let shown: Vec<(&String, &Value)> = shown.collect();
    let is_line = |value: &Value| !is_nested(value);
    let lines = shown.iter().filter(|(_, value)| is_line(value));
    let width = lines.map(|(name, _)| plain(name).chars().count());
    let width = width.max().unwrap_or_default();
    for (name, value) in shown {
        field(name, value, indent, width, text);
    }
}

/// Writes an item of a list, with a dash before its first line.
fn item(value: &Value, indent: usize, text: &mut String) {
    let mut lines = String::new();
    match value {
        Value::Object(inner) => fields(inner, indent + INDENT, &mut lines),
        Value::Array(items) => items
            .iter()
            .for_each(|of| item(of, indent + INDENT, &mut lines)),
        value => lines = format!("{:width$}{}\n", "", scalar(value), width = indent + INDENT),
    }
    // The dash takes the place of the indentation.
    let rest = lines.get(indent + 1..).unwrap_or_default();
    *text += &format!("{:indent$}-{rest}", "");
}

fn is_nested(value: &Value) -> bool {
    match value {
        Value::Object(_) => true,
        Value::Array(items) => items.iter().any(|of| of.is_object() || of.is_array()),
        _ => false,
    }
}

/// Formats a value in a line. Texts come from users and modules, so they are escaped.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => plain(text),
        value => plain(&value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_in_lines_below_titles_and_empty_ones_are_left_out() {
        let module = json!({
            "name": "quota\u{1b}[2J", "roles": ["job-control", "spawn"], "failure": null, "limits": { "fuel": 5 },
            "calls": [{ "seq": 1, "outcome": "deny" }, { "seq": 2 }], "empty": [],
        });
        let parts = [
            DescribedPart {
                title: "module",
                value: module,
            },
            DescribedPart {
                title: "shadow",
                value: json!([]),
            },
            DescribedPart {
                title: "versions",
                value: json!([1, 2]),
            },
        ];
        let expected = "\
module
  calls
    - outcome  deny
      seq      1
    - seq  2
  limits
    fuel  5
  name   quota\\u{1b}[2J
  roles  job-control, spawn

versions  1, 2
";
        assert_eq!(description(&parts), expected);
    }
}

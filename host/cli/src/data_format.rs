//! Values for programs, as JSON or YAML. Both are made of the same value, so that they agree.
use crate::args::DataFormat;
use anyhow::Result;
use serde::Serialize;
use serde_saphyr::{SerializerOptions, ser_options};
use std::fmt::Write as _;

impl DataFormat {
    /// Formats a value as the whole output, with the last line end.
    pub fn document(self, value: &impl Serialize) -> Result<String> {
        match self {
            DataFormat::Json => Ok(escaped(&serde_json::to_string_pretty(value)?) + "\n"),
            DataFormat::Yaml => to_yaml(value),
        }
    }

    /// Formats one value of several that follow each other: a line of JSON, or a document of YAML.
    pub fn record(self, value: &impl Serialize) -> Result<String> {
        match self {
            DataFormat::Json => Ok(escaped(&serde_json::to_string(value)?) + "\n"),
            DataFormat::Yaml => Ok(format!("---\n{}", to_yaml(value)?)),
        }
    }
}

/// Escapes control characters. `serde_json` escapes those of ASCII. The others occur only inside of
/// strings, where the escape means the same.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_control() && character != '\n' {
            // A write to a string cannot fail.
            let _ = write!(text, "\\u{:04x}", u32::from(character));
        } else {
            text.push(character);
        }
    }
    text
}

fn to_yaml(value: &impl Serialize) -> Result<String> {
    // By way of JSON: some values, such as enums, have another form in YAML.
    let value = serde_json::to_value(value)?;
    // Strings stay on one line with their control characters escaped, as in JSON.
    let options: SerializerOptions = ser_options! { prefer_block_scalars: false };
    Ok(serde_saphyr::to_string_with_options(&value, options)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn no_control_characters_of_a_value_are_printed() {
        let value = json!({ "te\u{1b}xt": "a\n\u{1b}[2J\u{9b}H\u{7f}", "list": ["\u{85}"] });
        for form in [DataFormat::Json, DataFormat::Yaml] {
            for text in [form.document(&value).unwrap(), form.record(&value).unwrap()] {
                assert!(text.ends_with('\n'), "{text:?}");
                assert!(
                    !text.chars().any(|of| of.is_control() && of != '\n'),
                    "{text:?}"
                );
            }
        }
        let record = DataFormat::Json.record(&value).unwrap();
        assert_eq!(record.lines().count(), 1);
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&record).unwrap(),
            value
        );
    }

    #[test]
    fn ambiguous_texts_are_quoted_in_yaml() {
        for text in [
            "no",
            "on",
            "12",
            "1e3",
            "0x1f",
            "null",
            "~",
            "",
            "a: b",
            "- a",
            "#",
            "2026-11-29",
        ] {
            let printed = DataFormat::Yaml.document(&json!({ "a": text })).unwrap();
            assert!(
                printed == format!("a: \"{text}\"\n") || printed == format!("a: '{text}'\n"),
                "{printed}"
            );
        }
        let printed = DataFormat::Yaml
            .record(&json!({ "a": [1, null, true, { "b": 0.5 }], "c": {}, "d": [] }))
            .unwrap();
        assert_eq!(
            printed,
            "---\na:\n- 1\n- null\n- true\n- b: 0.5\nc: {}\nd: []\n"
        );
    }
}

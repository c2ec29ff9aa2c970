//! Kinds of values for sinks: names, parsed texts such as addresses, and file permissions.
use crate::{
    kinds::{MAX_TEXT, TextKind, ValueKind},
    parser::DocumentParser,
    values::SinkName,
};
use std::{
    fmt::{Display, Write as _},
    str::FromStr,
};
use toml::{Spanned, Value, de::DeValue};

/// Maximum length of the name of a sink, in bytes.
const MAX_NAME: usize = 64;

fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_plain)
}

/// Name of a new sink.
pub(crate) struct NewSink;

impl TextKind for NewSink {
    fn fits(&self, text: &str) -> bool {
        // A sink with a built-in name could not be reached.
        is_name(text) && matches!(SinkName::of(text), SinkName::Opened(_))
    }

    fn accepted_values(&self) -> String {
        let taken = SinkName::BUILT_IN
            .map(|name| format!("{name:?}"))
            .join(", ");
        format!(
            "a name of at most {MAX_NAME} letters, digits, `-`, `_` and `.`, and none of {taken}"
        )
    }
}

/// Name of a sink to write to.
pub(crate) struct NameOfSink;

impl ValueKind<SinkName> for NameOfSink {
    fn read(
        &self,
        value: &Spanned<DeValue<'_>>,
        reading: &mut DocumentParser<'_>,
    ) -> Option<SinkName> {
        let name = value
            .get_ref()
            .as_str()
            .filter(|name| is_name(name))
            .map(SinkName::of);
        if name.is_none() {
            reading.refuse(value, &self.accepted_values());
        }
        name
    }

    fn write(&self, value: &SinkName) -> Option<Value> {
        Some(Value::String(value.name().to_owned()))
    }

    fn accepted_values(&self) -> String {
        let built_in = SinkName::BUILT_IN
            .map(|name| format!("{name:?}"))
            .join(", ");
        format!("{built_in} or the name of a [[sink]]")
    }
}

/// Text that is parsed to a value. The error of the parser describes what is wrong with it.
pub(crate) struct Parsed(pub(crate) &'static str);

impl<T: FromStr<Err: Display> + Display> ValueKind<T> for Parsed {
    fn read(&self, value: &Spanned<DeValue<'_>>, reading: &mut DocumentParser<'_>) -> Option<T> {
        let Some(text) = value
            .get_ref()
            .as_str()
            .filter(|text| text.len() <= MAX_TEXT)
        else {
            reading.refuse(value, self.0);
            return None;
        };
        text.parse()
            .inspect_err(|error| {
                reading.add_problem(&value.span(), format!("{}: {error}", reading.key))
            })
            .ok()
    }

    fn write(&self, value: &T) -> Option<Value> {
        Some(Value::String(value.to_string()))
    }

    fn accepted_values(&self) -> String {
        self.0.to_owned()
    }
}

/// Text of one line.
pub(crate) struct TextLineKind(pub(crate) &'static str);

impl TextKind for TextLineKind {
    fn fits(&self, text: &str) -> bool {
        !text.is_empty() && text.len() <= MAX_TEXT && !text.contains(char::is_control)
    }

    fn accepted_values(&self) -> String {
        self.0.to_owned()
    }
}

/// Read and write permissions of a file.
pub(crate) struct Permissions;

impl ValueKind<u32> for Permissions {
    fn read(&self, value: &Spanned<DeValue<'_>>, reading: &mut DocumentParser<'_>) -> Option<u32> {
        let is_octal = |text: &&str| {
            !text.is_empty() && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit))
        };
        let mode = value
            .get_ref()
            .as_str()
            .filter(is_octal)
            .and_then(|text| u32::from_str_radix(text, 8).ok());
        // A file of log lines has no use for execution and set-user-id bits.
        let mode = mode.filter(|mode| mode & !0o666 == 0);
        if mode.is_none() {
            reading.refuse(value, &self.accepted_values());
        }
        mode
    }

    fn write(&self, value: &u32) -> Option<Value> {
        let mut text = String::new();
        // Writing to a text cannot fail.
        let _ = write!(text, "{value:o}");
        Some(Value::String(text))
    }

    fn accepted_values(&self) -> String {
        "permissions in octal digits, as in \"640\"".to_owned()
    }
}

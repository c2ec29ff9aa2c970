//! Declaration of one setting: its types, bounds and default, and the comparison of a value with it.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// Limit of a value that a message quotes, in characters.
const MAX_QUOTED: usize = 60;

/// Value of a setting.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SettingValue {
    /// True or false.
    Boolean(bool),
    /// Integer.
    Integer(i64),
    /// Number with a fraction.
    Number(f64),
    /// Text.
    Text(String),
}

impl SettingValue {
    /// Returns the value as in a configuration.
    pub fn toml(&self) -> toml::Value {
        match self {
            SettingValue::Boolean(value) => toml::Value::Boolean(*value),
            SettingValue::Integer(value) => toml::Value::Integer(*value),
            SettingValue::Number(value) => toml::Value::Float(*value),
            SettingValue::Text(value) => toml::Value::String(value.clone()),
        }
    }
}

impl fmt::Display for SettingValue {
    /// Writes the beginning of the value, with escapes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SettingValue::Text(text) = self else {
            return write!(f, "{}", self.toml());
        };
        match text.char_indices().nth(MAX_QUOTED) {
            Some((at, _)) => write!(f, "{:?}...", text.get(..at).unwrap_or_default()),
            None => write!(f, "{text:?}"),
        }
    }
}

/// Type of a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SettingKind {
    /// True or false.
    Boolean,
    /// Integer, within `min` and `max`.
    Integer,
    /// Number, within `min` and `max`.
    Number,
    /// Text, one of `values` if there are any.
    Text,
    /// Text whose parts have commas between them, each one of `values` if there are any.
    List,
    /// Text of integers with commas between them, each within `min` and `max`.
    Integers,
    /// Text with one part on each line.
    Lines,
}

impl SettingKind {
    /// Returns the name of the type.
    pub fn name(self) -> &'static str {
        match self {
            SettingKind::Boolean => "boolean",
            SettingKind::Integer => "integer",
            SettingKind::Number => "number",
            SettingKind::Text => "text",
            SettingKind::List => "list",
            SettingKind::Integers => "integers",
            SettingKind::Lines => "lines",
        }
    }
}

/// One type, or several.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SettingKinds {
    /// One type.
    One(SettingKind),
    /// Types of which a value has one.
    Several(Vec<SettingKind>),
}

impl SettingKinds {
    /// Returns the types.
    pub fn all(&self) -> &[SettingKind] {
        match self {
            SettingKinds::One(kind) => std::slice::from_ref(kind),
            SettingKinds::Several(kinds) => kinds,
        }
    }
}

/// Declaration of a setting.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct SettingDeclaration {
    /// The name: small letters, digits and underscores.
    pub name: String,
    /// The type: boolean, integer, number, text, list, integers or lines; or an array of types.
    #[serde(rename = "type")]
    pub kinds: SettingKinds,
    /// The meaning, in one line.
    pub description: String,
    /// True if the module does not start without the setting.
    #[serde(default, skip_serializing_if = "is_false")]
    pub required: bool,
    /// The value without the setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<SettingValue>,
    /// The behaviour without the setting, where no value is the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unset: Option<String>,
    /// The smallest number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<i64>,
    /// The largest number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<i64>,
    /// The texts that are valid; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// A value for documents, and for the file that `peal module add` writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<SettingValue>,
    /// True if `peal module add` sets the example, because the module does nothing without it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub preset: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference.
fn is_false(value: &bool) -> bool {
    !value
}

/// Value that a setting cannot have.
#[derive(Clone, PartialEq, Debug, Error)]
#[error("setting {name} is {value}; it should be {wanted}")]
pub struct WrongSetting {
    /// Name of the setting.
    pub name: String,
    /// The value, quoted.
    pub value: String,
    /// Valid values, in words.
    pub wanted: String,
}

impl SettingDeclaration {
    /// Returns the name of the type, or those of several.
    pub fn kind_text(&self) -> String {
        let names: Vec<&str> = self.kinds.all().iter().map(|kind| kind.name()).collect();
        names.join(" or ")
    }

    /// Returns the valid values, in words.
    pub fn wanted(&self) -> String {
        let wanted: Vec<String> = self.kinds.all().iter().map(|kind| self.of(*kind)).collect();
        wanted.join(", or ")
    }

    fn of(&self, kind: SettingKind) -> String {
        let values: Vec<String> = self.values.iter().map(|one| format!("{one:?}")).collect();
        let values = values.join(", ");
        let bounds = match (self.min, self.max) {
            (Some(min), Some(max)) => format!(" from {min} to {max}"),
            (Some(min), None) => format!(" of at least {min}"),
            (None, Some(max)) => format!(" of at most {max}"),
            (None, None) => String::new(),
        };
        match kind {
            SettingKind::Boolean => "true or false".to_owned(),
            SettingKind::Integer => format!("an integer{bounds}"),
            SettingKind::Number => format!("a number{bounds}"),
            SettingKind::Text if values.is_empty() => "a text".to_owned(),
            SettingKind::Text => format!("one of {values}"),
            SettingKind::List if values.is_empty() => {
                "a text, with commas between parts".to_owned()
            }
            SettingKind::List => format!("a text of {values}, with commas between several"),
            SettingKind::Integers => {
                format!("a text of integers{bounds}, with commas between them")
            }
            SettingKind::Lines => "a text, with one part on each line".to_owned(),
        }
    }

    /// Compares a value with the declaration.
    ///
    /// # Errors
    /// Names the setting, the value, and what would be right.
    pub fn check(&self, value: &SettingValue) -> Result<(), WrongSetting> {
        if self.kinds.all().iter().any(|kind| self.fits(*kind, value)) {
            return Ok(());
        }
        Err(WrongSetting {
            name: self.name.clone(),
            value: value.to_string(),
            wanted: self.wanted(),
        })
    }

    fn fits(&self, kind: SettingKind, value: &SettingValue) -> bool {
        let is_within = |number: i64| {
            self.min.is_none_or(|min| min <= number) && self.max.is_none_or(|max| number <= max)
        };
        let is_known =
            |text: &str| self.values.is_empty() || self.values.iter().any(|known| known == text);
        let parts = |text: &str, fits: &dyn Fn(&str) -> bool| {
            text.split(',')
                .map(str::trim)
                .filter(|part| !part.is_empty())
                .all(fits)
        };
        match (kind, value) {
            (SettingKind::Boolean, SettingValue::Boolean(_))
            | (SettingKind::Lines, SettingValue::Text(_)) => true,
            (SettingKind::Integer | SettingKind::Number, SettingValue::Integer(number)) => {
                is_within(*number)
            }
            // The bounds are integers, and those of a double are exact.
            #[allow(clippy::cast_precision_loss)]
            (SettingKind::Number, SettingValue::Number(number)) => {
                self.min.is_none_or(|min| min as f64 <= *number)
                    && self.max.is_none_or(|max| *number <= max as f64)
            }
            (SettingKind::Text, SettingValue::Text(text)) => is_known(text),
            (SettingKind::List, SettingValue::Text(text)) => parts(text, &is_known),
            (SettingKind::Integers, SettingValue::Text(text)) => {
                parts(text, &|part| part.parse().is_ok_and(is_within))
            }
            _ => false,
        }
    }

    /// Reads a value from a word of the command line.
    ///
    /// # Errors
    /// Names the setting, the word, and what would be right.
    pub fn parse(&self, word: &str) -> Result<SettingValue, WrongSetting> {
        let text = || Some(SettingValue::Text(word.to_owned()));
        let read = |kind: &SettingKind| match kind {
            SettingKind::Boolean => word.parse().ok().map(SettingValue::Boolean),
            SettingKind::Integer => word.parse().ok().map(SettingValue::Integer),
            SettingKind::Number => word.parse().ok().map(SettingValue::Number),
            SettingKind::Text | SettingKind::List | SettingKind::Integers | SettingKind::Lines => {
                text()
            }
        };
        let mut read = self.kinds.all().iter().filter_map(read);
        let fitting = read.find(|value| self.check(value).is_ok());
        fitting.ok_or_else(|| WrongSetting {
            name: self.name.clone(),
            value: SettingValue::Text(word.to_owned()).to_string(),
            wanted: self.wanted(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(kind: &str, more: &str) -> SettingDeclaration {
        toml::from_str(&format!(
            "name = \"a\"\ntype = {kind}\ndescription = \"It is.\"\n{more}"
        ))
        .unwrap()
    }

    #[test]
    fn values_are_compared_with_types_bounds_and_words() {
        let text = |text: &str| SettingValue::Text(text.to_owned());
        let int = SettingValue::Integer;
        for (declared, right, wrong) in [
            (
                setting("\"boolean\"", ""),
                SettingValue::Boolean(true),
                text("yes"),
            ),
            (setting("\"integer\"", "min = 1\nmax = 9"), int(9), int(10)),
            (setting("\"integer\"", "min = 1"), int(1), text("1")),
            (
                setting("\"number\"", "max = 2"),
                SettingValue::Number(1.5),
                SettingValue::Number(2.5),
            ),
            (
                setting("\"text\"", "values = [\"x\", \"y\"]"),
                text("y"),
                text("z"),
            ),
            (
                setting("\"list\"", "values = [\"x\", \"y\"]"),
                text("y, x"),
                text("y, z"),
            ),
            (
                setting("\"integers\"", "max = 5"),
                text("1, -4,"),
                text("1, 6"),
            ),
            (
                setting("[\"integer\", \"integers\"]", "max = -1"),
                int(-3001),
                int(3),
            ),
            (setting("\"lines\"", ""), text("a\nb"), int(1)),
        ] {
            assert_eq!(declared.check(&right), Ok(()));
            let error = declared.check(&wrong).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("setting a is {wrong}; it should be {}", declared.wanted())
            );
        }
    }

    #[test]
    fn words_of_command_line_have_the_declared_type() {
        let both = setting("[\"integer\", \"integers\"]", "");
        assert_eq!(both.parse("-3001").unwrap(), SettingValue::Integer(-3001));
        let list = SettingValue::Text("-1, -2".to_owned());
        assert_eq!(both.parse("-1, -2").unwrap(), list);
        let error = setting("\"boolean\"", "").parse("on").unwrap_err();
        assert_eq!(
            error.to_string(),
            "setting a is \"on\"; it should be true or false"
        );
    }
}

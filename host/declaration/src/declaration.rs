//! Declaration of a module, and the rules that make it safe to show and to write into a file.
use crate::setting::{SettingDeclaration, SettingValue, WrongSetting};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Limit of settings of one module.
const MAX_SETTINGS: usize = 64;
/// Limit of the valid texts of a setting, and of names in a list.
const MAX_LIST: usize = 64;
/// Limit of one text, in bytes.
const MAX_TEXT: usize = 1024;
/// Limit of a name, in bytes.
const MAX_NAME: usize = 64;

/// Declaration of a module: purpose, settings and usual deployment.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ModuleDeclaration {
    /// The name of the module.
    pub name: String,
    /// Purpose of the module, in one line.
    #[serde(default)]
    pub description: String,
    /// The settings; none if the module does not declare them, so that nothing is compared with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Vec<SettingDeclaration>>,
    /// The other keys of a usual `[[module]]`.
    #[serde(default, skip_serializing_if = "UsualDeployment::is_empty")]
    pub deployment: UsualDeployment,
}

/// Keys of a usual `[[module]]` beside its name, path, grants and settings.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UsualDeployment {
    /// The placement: `first` or `last`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
    /// The log channels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<String>,
    /// The sinks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sinks: Vec<String>,
}

impl UsualDeployment {
    /// Returns true if no key is given.
    pub fn is_empty(&self) -> bool {
        *self == UsualDeployment::default()
    }
}

/// Error of a declaration.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum DeclarationError {
    /// A name is not valid.
    #[error(
        "{name:?} is no name of a setting; it should have small letters, digits and underscores, begin with a letter, and have at most {MAX_NAME} of them"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// Two settings have one name.
    #[error("setting {name} is declared twice; a name should be declared once")]
    Twice {
        /// The name.
        name: String,
    },
    /// There are too many of something.
    #[error("{what} are {count}; the limit is {limit}")]
    TooMany {
        /// Things that are counted.
        what: &'static str,
        /// Their number.
        count: usize,
        /// The largest number allowed.
        limit: usize,
    },
    /// A text has several lines, control characters, or too many bytes.
    #[error(
        "{what} is {text:?}; it should be one line without control characters, of at most {MAX_TEXT} bytes"
    )]
    Text {
        /// Place of the text.
        what: String,
        /// The text, cut.
        text: String,
    },
    /// The default or the example of a setting is none of its values.
    #[error("{what} of {wrong}")]
    Value {
        /// `default` or `example`.
        what: &'static str,
        /// The mismatch.
        wrong: WrongSetting,
    },
    /// A setting has neither a default nor an example.
    #[error(
        "setting {name} has neither default nor example; it should have one, which `peal module add` writes into its file"
    )]
    NoValue {
        /// The name.
        name: String,
    },
    /// A setting has bounds that include no number, or no type.
    #[error("setting {name} has {what}; it should be possible to set it")]
    Impossible {
        /// The name.
        name: String,
        /// The fault.
        what: &'static str,
    },
    /// A required setting has a default.
    #[error("setting {name} is required and has a default; it should have one of them")]
    RequiredDefault {
        /// The name.
        name: String,
    },
    /// The section in a component cannot be read.
    #[error("{0}")]
    Section(String),
}

fn one_line(what: impl Fn() -> String, text: &str) -> Result<(), DeclarationError> {
    if text.len() <= MAX_TEXT && !text.contains(char::is_control) {
        return Ok(());
    }
    Err(DeclarationError::Text {
        what: what(),
        text: text.chars().take(MAX_NAME).collect(),
    })
}

fn few(what: &'static str, count: usize, limit: usize) -> Result<(), DeclarationError> {
    if count <= limit {
        return Ok(());
    }
    Err(DeclarationError::TooMany { what, count, limit })
}

fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name
            .bytes()
            .all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == b'_')
}

impl ModuleDeclaration {
    /// Returns true if the module declares nothing.
    pub fn is_empty(&self) -> bool {
        self.description.is_empty() && self.settings.is_none() && self.deployment.is_empty()
    }

    /// Returns the declared settings.
    pub fn settings(&self) -> &[SettingDeclaration] {
        self.settings.as_deref().unwrap_or_default()
    }

    /// Returns the declaration of a setting.
    pub fn setting(&self, name: &str) -> Option<&SettingDeclaration> {
        self.settings().iter().find(|setting| setting.name == name)
    }

    /// Checks names, bounds, and that each setting has a valid value.
    ///
    /// # Errors
    /// Names the part that is wrong.
    pub fn check(&self) -> Result<(), DeclarationError> {
        one_line(|| "name".to_owned(), &self.name)?;
        one_line(|| "description".to_owned(), &self.description)?;
        let UsualDeployment {
            placement,
            channels,
            sinks,
        } = &self.deployment;
        few("channels", channels.len(), MAX_LIST)?;
        few("sinks", sinks.len(), MAX_LIST)?;
        for text in channels.iter().chain(sinks).chain(placement) {
            one_line(|| "deployment".to_owned(), text)?;
        }
        few("settings", self.settings().len(), MAX_SETTINGS)?;
        for (number, setting) in self.settings().iter().enumerate() {
            let name = setting.name.clone();
            let mut before = self.settings().iter().take(number);
            if before.any(|other| other.name == name) {
                return Err(DeclarationError::Twice { name });
            }
            check(setting)?;
        }
        Ok(())
    }
}

fn check(setting: &SettingDeclaration) -> Result<(), DeclarationError> {
    let name = || setting.name.clone();
    if !is_name(&setting.name) {
        let name = setting.name.chars().take(MAX_NAME).collect();
        return Err(DeclarationError::Name { name });
    }
    let place = |part| format!("{part} of setting {}", setting.name);
    one_line(|| place("description"), &setting.description)?;
    one_line(
        || place("unset"),
        setting.unset.as_deref().unwrap_or_default(),
    )?;
    few("values of a setting", setting.values.len(), MAX_LIST)?;
    for value in &setting.values {
        one_line(|| place("values"), value)?;
    }
    if setting.kinds.all().is_empty() {
        let what = "no type";
        return Err(DeclarationError::Impossible { name: name(), what });
    }
    if setting
        .min
        .zip(setting.max)
        .is_some_and(|(min, max)| min > max)
    {
        let what = "min above max";
        return Err(DeclarationError::Impossible { name: name(), what });
    }
    if setting.required && setting.default.is_some() {
        return Err(DeclarationError::RequiredDefault { name: name() });
    }
    if setting.default.is_none() && setting.example.is_none() {
        return Err(DeclarationError::NoValue { name: name() });
    }
    for (what, value) in [("default", &setting.default), ("example", &setting.example)] {
        let Some(value) = value else { continue };
        if let SettingValue::Text(text) = value
            && text.len() > MAX_TEXT
        {
            let text = text.chars().take(MAX_NAME).collect();
            let what = place(what);
            return Err(DeclarationError::Text { what, text });
        }
        let fits = setting.check(value);
        fits.map_err(|wrong| DeclarationError::Value { what, wrong })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_declarations_are_named() {
        for (setting, said) in [
            (
                "name = \"A\"\ntype = \"text\"\ndefault = \"\"",
                "\"A\" is no name of a setting",
            ),
            (
                "name = \"a\"\ntype = \"text\"",
                "setting a has neither default nor example",
            ),
            (
                "name = \"a\"\ntype = []\ndefault = 1",
                "setting a has no type",
            ),
            (
                "name = \"a\"\ntype = \"integer\"\nmin = 2\nmax = 1\ndefault = 1",
                "min above max",
            ),
            (
                "name = \"a\"\ntype = \"integer\"\nmax = 1\ndefault = 2",
                "default of setting a is 2; it should be an integer of at most 1",
            ),
            (
                "name = \"a\"\ntype = \"text\"\nrequired = true\ndefault = \"\"",
                "a is required and has a default",
            ),
            (
                "name = \"a\"\ntype = \"text\"\ndefault = \"\"\nunset = \"x\\n[[module]]\"",
                "unset of setting a",
            ),
        ] {
            let text = format!("name = \"m\"\n[[settings]]\ndescription = \"It is.\"\n{setting}\n");
            let declaration: ModuleDeclaration = toml::from_str(&text).unwrap();
            let error = declaration.check().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let twice = "name = \"m\"\n".to_owned()
            + &"[[settings]]\nname = \"a\"\ntype = \"text\"\ndescription = \"\"\ndefault = \"\"\n"
                .repeat(2);
        let declaration: ModuleDeclaration = toml::from_str(&twice).unwrap();
        let error = declaration.check().unwrap_err().to_string();
        assert!(error.contains("setting a is declared twice"), "{error}");
    }
}

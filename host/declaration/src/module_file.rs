//! Text of a configuration file with one `[[module]]`, from the declaration of the module.
use crate::{
    declaration::ModuleDeclaration,
    setting::{SettingDeclaration, SettingValue},
};
use std::{collections::BTreeMap, fmt::Write};
use toml::Value;

/// Values of settings, by name.
pub type SettingValues = BTreeMap<String, SettingValue>;

/// File of a module.
#[derive(Clone, Copy, Debug)]
pub struct ModuleFile<'a> {
    /// Declaration of the module.
    pub declaration: &'a ModuleDeclaration,
    /// Name of the module in the configuration.
    pub name: &'a str,
    /// Path of the component.
    pub path: &'a str,
    /// Capabilities that the component imports.
    pub grants: &'a [&'a str],
    /// Settings that are set.
    pub values: &'a SettingValues,
}

impl ModuleFile<'_> {
    /// Returns the file with all settings. Those without a value are comments with the default.
    pub fn full(&self) -> String {
        let ModuleDeclaration {
            description, name, ..
        } = self.declaration;
        let mut text = String::new();
        if !description.is_empty() {
            line(&mut text, &format!("# {name}: {description}"));
        }
        line(&mut text, "# Settings that are comments are not set.\n");
        self.add_table(&mut text);
        if self.declaration.settings().is_empty() {
            return text;
        }
        line(&mut text, "\n[module.config]");
        for (number, setting) in self.declaration.settings().iter().enumerate() {
            if number > 0 {
                text.push('\n');
            }
            line(&mut text, &format!("# {}", setting.description));
            line(&mut text, &format!("# {}.", capitalised(&rule(setting))));
            match self.values.get(&setting.name) {
                Some(value) => line(&mut text, &pair(&setting.name, &value.toml())),
                None => {
                    let value = setting.default.as_ref().or(setting.example.as_ref());
                    let value = value.map_or(Value::String(String::new()), SettingValue::toml);
                    for part in pair(&setting.name, &value).lines() {
                        line(&mut text, &format!("# {part}"));
                    }
                }
            }
        }
        text
    }

    /// Returns the `[[module]]` with the settings that are set.
    pub fn short(&self) -> String {
        let mut text = String::new();
        self.add_table(&mut text);
        let set: Vec<(&String, &SettingValue)> = self.values.iter().collect();
        if !set.is_empty() {
            line(&mut text, "\n[module.config]");
        }
        // In the order of the declaration.
        for setting in self.declaration.settings() {
            if let Some(value) = self.values.get(&setting.name) {
                line(&mut text, &pair(&setting.name, &value.toml()));
            }
        }
        text
    }

    fn add_table(&self, text: &mut String) {
        let usual = &self.declaration.deployment;
        let list = |items: &[String]| {
            Value::Array(
                items
                    .iter()
                    .map(|item| Value::String(item.clone()))
                    .collect(),
            )
        };
        line(text, "[[module]]");
        line(text, &pair("name", &Value::String(self.name.to_owned())));
        line(text, &pair("path", &Value::String(self.path.to_owned())));
        if let Some(placement) = &usual.placement {
            line(text, &pair("placement", &Value::String(placement.clone())));
        }
        if !usual.channels.is_empty() {
            line(text, &pair("channels", &list(&usual.channels)));
        }
        if !usual.sinks.is_empty() {
            line(text, &pair("sinks", &list(&usual.sinks)));
        }
        if !self.grants.is_empty() {
            let grants: Vec<String> = self.grants.iter().map(|&grant| grant.to_owned()).collect();
            let note = if self.grants.contains(&"state") {
                "                # state needs store.path"
            } else {
                ""
            };
            line(text, &format!("{}{note}", pair("grants", &list(&grants))));
        }
    }
}

/// Returns the valid values of a setting, and its value if it is not set, in words.
pub(crate) fn rule(setting: &SettingDeclaration) -> String {
    let wanted = setting.wanted();
    match (&setting.unset, &setting.default) {
        _ if setting.required => format!("{wanted}; required"),
        (Some(unset), _) => format!("{wanted}; without it: {unset}"),
        _ => wanted,
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn pair(name: &str, value: &Value) -> String {
    format!("{name} = {value}")
}

fn line(text: &mut String, line: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: &str = r#"
name = "quota"
description = "Limits requests."
[deployment]
placement = "first"
[[settings]]
name = "per_minute"
type = "integer"
min = 1
max = 8192
unset = "no limit"
example = 60
description = "Requests in a minute."
[[settings]]
name = "exempt"
type = "integers"
default = "0"
description = "Users without a limit."
[[settings]]
name = "patterns"
type = "lines"
default = "a\nb"
description = "Patterns."
"#;

    #[test]
    fn file_has_all_settings_and_example_those_that_are_set() {
        let declaration: ModuleDeclaration = toml::from_str(DECLARED).unwrap();
        let values = SettingValues::from([("per_minute".to_owned(), SettingValue::Integer(60))]);
        let file = ModuleFile {
            declaration: &declaration,
            name: "quota",
            path: "/usr/\"x\".wasm",
            grants: &["clock", "state"],
            values: &values,
        };
        let full = file.full();
        let read: toml::Table = full.parse().unwrap();
        let module = &read["module"][0];
        assert_eq!(module["path"].as_str(), Some("/usr/\"x\".wasm"));
        assert_eq!(module["config"].as_table().unwrap().len(), 1, "{full}");
        assert!(
            full.contains("# An integer from 1 to 8192; without it: no limit.\nper_minute = 60\n"),
            "{full}"
        );
        assert!(full.contains("\n# exempt = \"0\"\n"), "{full}");
        let short: toml::Table = file.short().parse().unwrap();
        assert_eq!(short["module"][0], *module);
    }
}
